"""Whose certificate it is."""

import warnings

MAX_CERTIFICATE = 64 * 1024
MAX_SUBJECT = 1024


def subject_of(certificate: bytes) -> str | None:
    """The subject of a certificate in DER, as RFC 4514 writes names and as Kafka's principals have it.

    None when it cannot be read, or the package ``cryptography`` is missing; "" for a certificate without subject.
    """
    try:
        from cryptography import x509  # noqa: PLC0415
    except ImportError:
        return None
    if len(certificate) > MAX_CERTIFICATE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warnings of strange serial numbers on standard error
            return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()[:MAX_SUBJECT]
    except Exception:  # the parser has many errors for what is not quite a certificate; none of them matters here
        return None
