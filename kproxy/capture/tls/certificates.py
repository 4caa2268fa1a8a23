"""Read the subject of a certificate."""

import warnings

MAX_CERTIFICATE = 64 * 1024
MAX_SUBJECT = 1024


def subject_of(certificate: bytes) -> str | None:
    """Return the subject of a certificate in DER, in the form of RFC 4514, as in Kafka's principals.

    None if it cannot be read or the package ``cryptography`` is missing; "" for a certificate without a subject.
    """
    try:
        from cryptography import x509  # noqa: PLC0415
    except ImportError:
        return None
    if len(certificate) > MAX_CERTIFICATE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no warnings about strange serial numbers on standard error
            return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()[:MAX_SUBJECT]
    except Exception:  # the parser has many errors for what is not quite a certificate; none of them matters here
        return None
