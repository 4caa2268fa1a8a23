"""Numbers and names, against OpenSSL's own list of ciphers and Python's of alerts."""

import builtins
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls.ciphers import (
    CANNOT_DECRYPT,
    SUITES,
    Keys,
    Kind,
    Opener,
    alert_name,
    check_available,
    is_grease,
    keys_12,
    keys_13,
    opener_12,
    opener_13,
    prf_12,
    suite_name,
    version_name,
)
from kproxy.capture.tls.records import Record
from kproxy.errors import UsageError
from tests.support.tls import REQUEST, Pair, listen

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


def test_alerts_have_pythons_names() -> None:
    for alert in [alert for alert in ssl.AlertDescription if "PSK" not in alert.name]:
        odd = {"ALERT_DESCRIPTION_BAD_CERTIFICATE_HASH_VALUE", "ALERT_DESCRIPTION_CERTIFICATE_UNOBTAINABLE"}
        if alert.name not in odd:
            name = alert.name.removeprefix("ALERT_DESCRIPTION_").lower()
            assert alert_name(alert).replace("canceled", "cancelled") == name, alert


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


# RFC 8448 section 3, "Simple 1-RTT Handshake", TLS_AES_128_GCM_SHA256: handshake secrets with their keys and IVs.
TRACES = [
    (
        "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
        "dbfaa693d1762c5b666af5d950258d01",
        "5bd3c71b836e0b76bb73265f",
    ),
    (
        "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
        "3fce516009c21727d0f2e4e86ee403bc",
        "5d313eb2671276ee13000b30",
    ),
]


@pytest.mark.parametrize(("secret", "key", "iv"), TRACES)
def test_traffic_keys_of_rfc_8448(secret: str, key: str, iv: str) -> None:
    keys = keys_13(bytes.fromhex(secret), SUITES[0x1301])
    assert (keys.key.hex(), keys.iv.hex()) == (key, iv)


def test_prf_of_tls12() -> None:
    out = prf_12(
        bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
        100,
        "sha256",
    )
    assert out.hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0fa022f7"
        "077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66"
    )


def test_the_key_block_is_cut_in_the_order_of_rfc_5246() -> None:
    suite = SUITES[0xC028]  # AES-256 and HMAC-SHA384: 48 + 48 + 32 + 32 bytes
    client, broker = keys_12(bytes(48), bytes(32), bytes(range(32)), suite)
    block = prf_12(bytes(48), b"key expansion", bytes(range(32)) + bytes(32), 160, "sha384")
    assert client.mac + broker.mac + client.key + broker.key == block


def test_keys_do_not_show() -> None:
    assert TRACES[0][1] not in repr(keys_13(bytes.fromhex(TRACES[0][0]), SUITES[0x1301]))
    assert "key=" not in repr(keys_13(bytes(32), SUITES[0x1301]))


def any_opener(number: int, *, encrypt_then_mac: bool = False) -> Opener:
    suite = SUITES[number]
    keys = Keys(
        bytes(suite.key_size), bytes(4 if "GCM" in suite.name and not suite.tls13 else 12), bytes(suite.mac_size)
    )
    return opener_13(keys, suite) if suite.tls13 else opener_12(keys, suite, encrypt_then_mac=encrypt_then_mac)


OPENERS = [any_opener(n) for n in (0x1301, 0x1302, 0x1303, 0xC02F, 0xCCA8, 0xC013, 0xC028)]
OPENERS += [any_opener(n, encrypt_then_mac=True) for n in (0xC013, 0xC028)]


@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: type(opener).__name__)
@given(body=st.binary(max_size=200), sequence=st.integers(0, 2**64 - 1))
def test_what_was_not_sealed_does_not_open(opener: Opener, body: bytes, sequence: int) -> None:
    record = Record(b"\x17\x03\x03" + len(body).to_bytes(2, "big"), body)
    assert opener.open(record, sequence) is None
    opener.counter(record)


def test_short_ones_do_not_either() -> None:
    for opener in OPENERS:
        for size in [0, 1, 15, 16, 17, 31, 32, 33, 48, 64, 80]:
            assert opener.open(Record(b"\x17\x03\x03" + size.to_bytes(2, "big"), bytes(size)), 0) is None, (
                opener,
                size,
            )


def test_padding_of_tls13_is_taken_off() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    inner = b"data\0\0" + b"\x17" + bytes(20)  # RFC 8446 section 5.4: zeros after the content type
    header = b"\x17\x03\x03" + (len(inner) + 16).to_bytes(2, "big")
    sealed = AESGCM(bytes(16)).encrypt((7).to_bytes(12, "big"), inner, header)
    assert any_opener(0x1301).open(Record(header, sealed), 7) == (23, b"data\0\0")
    assert any_opener(0x1301).open(Record(header, sealed), 8) is None


def test_nothing_but_padding_is_no_content() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    header = b"\x17\x03\x03" + (26).to_bytes(2, "big")
    sealed = AESGCM(bytes(16)).encrypt(bytes(12), bytes(10), header)
    assert any_opener(0x1301).open(Record(header, sealed), 0) == (0, b"")


def test_without_cryptography_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair().handshake()
    pair.send(REQUEST, b"hello")
    real = builtins.__import__

    def importing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(UsageError, match="pip install cryptography"):
        check_available()
    heard = listen(pair.chunks, pair.keylog)
    assert heard.facts.missing == [CANNOT_DECRYPT]
    assert heard.facts.version == "TLS 1.3"
    assert heard.plain(REQUEST) == b""
