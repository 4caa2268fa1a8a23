"""Names and dates of certificates that another library made, and the words for OpenSSL's own errors."""

import datetime
import ssl
from pathlib import Path

import pytest

from kproxy.doctor.tls_words import certificate_names, date_problems, explain_handshake, is_for
from tests.support.certificates import ALTERNATIVES, certificates


def der(file: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(Path(file).read_text(encoding="ascii"))


def test_names_are_those_of_the_certificate() -> None:
    file = certificates().server.certificate
    assert sorted(certificate_names(der(file))) == sorted(ALTERNATIVES)
    with_text = b"Bag Attributes: none\n" + Path(file).read_bytes()  # as `openssl pkcs12` writes it
    assert sorted(certificate_names(with_text)) == sorted(ALTERNATIVES)
    assert certificate_names(der(certificates().client.certificate)) == ["alice"]  # no alternatives: its common name
    assert certificate_names(b"no certificate") == [] == certificate_names(None)


@pytest.mark.parametrize(
    ("host", "holds"),
    [
        ("broker.test", True),
        ("BROKER.test.", True),
        ("a.kafka.test", True),
        ("a.b.kafka.test", False),
        ("kafka.test", False),
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("::1", True),
        ("elsewhere.test", False),
    ],
)
def test_a_wildcard_stands_for_one_label(host: str, holds: bool) -> None:
    """RFC 6125, 6.4.3."""
    assert is_for(list(ALTERNATIVES), host) is holds


def test_dates() -> None:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    pem = Path(certificates().server.certificate).read_bytes()  # from a day ago to in a day
    [soon] = date_problems(pem, now)
    assert soon.startswith("expires on ")
    [ended] = date_problems(pem, now + 2 * day)
    assert ended.startswith("has expired ")
    [early] = date_problems(der(certificates().server.certificate), now - 2 * day)
    assert early.startswith("is not valid before ")
    assert list(date_problems(b"nothing", now)) == []


def test_other_errors_keep_the_words_of_openssl() -> None:
    error = ssl.SSLError(1, "no protocols")
    error.reason = "NO_PROTOCOLS_AVAILABLE"
    assert explain_handshake(error, "a", [], None).what == "no TLS handshake: no protocols available"
    assert explain_handshake(OSError(104, "Connection reset by peer"), "a", [], None).what.endswith(
        "connection reset by peer"
    )


def test_a_certificate_of_ours_that_is_refused() -> None:
    error = ssl.SSLError(1, "alert")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    words = explain_handshake(error, "a", [], "own.pem")
    assert words.what == "it does not accept the certificate own.pem: tlsv1 alert unknown ca"
    assert "broker_tls.certificate" in words.advice
