"""Why a TLS handshake with a broker fails, in words with the setting to change; the dates and names of a certificate."""

import datetime
import ssl
from collections.abc import Iterator
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from kproxy.protocol.addresses import parse_ip

# Reasons of OpenSSL (X509_V_ERR_*), by number: openssl-verification-options(1), "DIAGNOSTICS".
NOT_YET_VALID, EXPIRED, SELF_SIGNED, SELF_SIGNED_IN_CHAIN, NO_ISSUER, NO_LEAF_ISSUER = 9, 10, 18, 19, 20, 21
WRONG_NAME, WRONG_IP = 62, 64
SOON = datetime.timedelta(days=14)
PLAIN_REASONS = {
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "UNEXPECTED_EOF_WHILE_READING",
}
# Alerts of a broker about a client's certificate, or about none (RFC 8446, 6.2); in TLS 1.3 they come after the handshake.
OF_CLIENT_CERTIFICATE = {
    "CERTIFICATE_REQUIRED",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "SSLV3_ALERT_BAD_CERTIFICATE",  # Java says this too where there is none
    "SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "SSLV3_ALERT_CERTIFICATE_REVOKED",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    "TLSV1_ALERT_UNKNOWN_CA",
    "TLSV1_ALERT_ACCESS_DENIED",
}


class Words(NamedTuple):
    """What is wrong, and what to do about it."""

    what: str
    advice: str


def explain_handshake(error: OSError, name: str, names: list[str], own: str | None) -> Words:
    """Explain why TLS with a broker failed.

    Args:
        error: what the handshake, or the first read after it, raised.
        name: the name that the broker's certificate must have.
        names: the names that it has.
        own: the file of our certificate; None if we have none.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, name, names)
    reason = (error.reason if isinstance(error, ssl.SSLError) else error.strerror) or str(error) or type(error).__name__
    words = reason.replace("_", " ").lower()
    if isinstance(error, ssl.SSLError) and reason in OF_CLIENT_CERTIFICATE:
        if own is None:
            return Words(
                "it wants a certificate of its clients, and kproxy has none for it",
                "set broker_tls.certificate and broker_tls.key to one that it accepts",
            )
        return Words(
            f"it does not accept the certificate {own}: {words}",
            "set broker_tls.certificate to one that has not expired, from an authority in the broker's ssl.truststore",
        )
    advice = "compare TLS versions and ciphers of both sides"
    if own is None:
        advice += "; if it wants a certificate of its clients, set broker_tls.certificate and broker_tls.key"
    return Words(f"no TLS handshake: {words}", advice)


def _explain_certificate(error: ssl.SSLCertVerificationError, name: str, names: list[str]) -> Words:
    match error.verify_code:
        case code if code == EXPIRED:
            return Words(
                "its certificate has expired", "renew the broker's certificate, or set the clock of this machine"
            )
        case code if code == NOT_YET_VALID:
            return Words(
                "its certificate is not valid yet", "is the clock of this machine right? See the check of the clock"
            )
        case code if code in (WRONG_NAME, WRONG_IP):
            has = ", ".join(names) or "none"
            return Words(
                f"its certificate is not for {name}; its names are: {has}",
                f"connect by one of these names, set broker_tls.server_name to one, or issue it with {name}",
            )
        case code if code in (SELF_SIGNED, SELF_SIGNED_IN_CHAIN, NO_ISSUER, NO_LEAF_ISSUER):
            return Words(
                f"its certificate is signed by an unknown authority ({error.verify_message})",
                "set broker_tls.ca to the file with the authority's certificate",
            )
    return Words(
        f"its certificate is not accepted: {error.verify_message}", "look at it with openssl s_client -showcerts"
    )


def _load(encoded: bytes) -> x509.Certificate:
    """Load a certificate, the first one of PEM. Raises ValueError."""
    if b"-----BEGIN" in encoded:
        return x509.load_pem_x509_certificate(encoded)
    return x509.load_der_x509_certificate(encoded)


def is_same_certificate(shown: bytes | None, encoded: bytes) -> bool:
    """Return whether the certificate shown in a handshake (DER) is this one (DER, or the first of PEM)."""
    try:
        return shown is not None and shown == _load(encoded).public_bytes(Encoding.DER)
    except ValueError:
        return False


def certificate_names(encoded: bytes | None) -> list[str]:
    """Return the names in a certificate (DER or PEM): its subject alternative names, else its common name."""
    if encoded is None:
        return []
    try:
        certificate = _load(encoded)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    except x509.ExtensionNotFound:
        return [str(one.value) for one in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except ValueError:
        return []


def is_for(names: list[str], host: str) -> bool:
    """Return whether a certificate with these names is valid for *host* (RFC 6125: a wildcard stands for one label)."""
    if parse_ip(host):
        return host in names
    wanted = host.rstrip(".").lower()
    _, _, parent = wanted.partition(".")
    return any(name.lower() in (wanted, f"*.{parent}") for name in names)


def date_problems(encoded: bytes, now: datetime.datetime) -> Iterator[str]:
    """Say what is wrong with the dates of a certificate (DER or PEM)."""
    try:
        certificate = _load(encoded)
    except ValueError:
        return
    if now > certificate.not_valid_after_utc:
        yield f"has expired ({certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC)"
    elif now < certificate.not_valid_before_utc:
        yield f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    elif now + SOON > certificate.not_valid_after_utc:
        yield f"expires on {certificate.not_valid_after_utc:%Y-%m-%d}"
