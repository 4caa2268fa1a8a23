"""Numbers and names, against OpenSSL's own list of ciphers and Python's of alerts."""

import ssl

import pytest

from kproxy.capture.tls.suites import SUITES, Kind, alert_name, is_grease, suite_name, version_name

KINDS = {"aes-128-gcm": (Kind.GCM, 16), "aes-256-gcm": (Kind.GCM, 32), "chacha20-poly1305": (Kind.CHACHA, 32)}
KINDS |= {"aes-128-cbc": (Kind.CBC, 16), "aes-256-cbc": (Kind.CBC, 32)}


def openssl_ciphers() -> dict[int, dict[str, str]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    return {cipher["id"] & 0xFFFF: cipher for cipher in context.get_ciphers()}  # type: ignore[typeddict-item]


def test_suites_are_what_openssl_says_they_are() -> None:
    compared = 0
    for number, cipher in openssl_ciphers().items():
        suite = SUITES.get(number)
        if suite is None:
            continue
        compared += 1
        kind, key_size = KINDS[cipher["symmetric"]]
        assert (suite.kind, suite.key_size) == (kind, key_size), suite.name
        assert suite.mac == (cipher["digest"] or ""), suite.name
        assert suite.tls13 == (cipher["protocol"] == "TLSv1.3")
        assert suite.hash == ("sha384" if "SHA384" in suite.name else "sha256")
    assert compared >= 35


def test_no_suite_of_the_usual_ones_is_missing() -> None:
    exchanges = {"kx-any", "kx-ecdhe", "kx-dhe", "kx-rsa"}
    known = [(n, c) for n, c in openssl_ciphers().items() if c["symmetric"] in KINDS and c["auth"] != "auth-null"]
    usual = {number for number, cipher in known if cipher["kea"] in exchanges}
    assert usual - set(SUITES) == set()


@pytest.mark.parametrize("alert", [alert for alert in ssl.AlertDescription if "PSK" not in alert.name], ids=str)
def test_alerts_have_pythons_names(alert: ssl.AlertDescription) -> None:
    odd = {"ALERT_DESCRIPTION_BAD_CERTIFICATE_HASH_VALUE", "ALERT_DESCRIPTION_CERTIFICATE_UNOBTAINABLE"}
    if alert.name not in odd:
        name = alert.name.removeprefix("ALERT_DESCRIPTION_").lower()
        assert alert_name(alert).replace("canceled", "cancelled") == name


def test_what_has_no_name_shows_its_number() -> None:
    assert suite_name(0xC02F) == "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    assert suite_name(0xFEFE) == "0xFEFE"
    assert version_name(0x0304) == "TLS 1.3"
    assert version_name(0x7F1C) == "0x7F1C"
    assert alert_name(200) == "alert 200"


def test_grease() -> None:
    assert [number for number in range(65_536) if is_grease(number)] == [
        0x0A0A + 0x1010 * step for step in range(16)
    ]  # RFC 8701 section 2
