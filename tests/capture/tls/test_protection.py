"""Opening one record, against a record of RFC 8448 and against what OpenSSL wrote (test_connection.py has all suites)."""

import builtins
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls.protection import CANNOT_DECRYPT, Opener, check_available, opener_12, opener_13
from kproxy.capture.tls.records import Record
from kproxy.capture.tls.schedule import Keys
from kproxy.capture.tls.suites import SUITES
from kproxy.errors import UsageError
from tests.support.tls import REQUEST, Pair, listen


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


@pytest.mark.parametrize("opener", OPENERS, ids=lambda opener: type(opener).__name__)
@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33, 48, 64, 80])
def test_short_ones_do_not_either(opener: Opener, size: int) -> None:
    assert opener.open(Record(b"\x17\x03\x03" + size.to_bytes(2, "big"), bytes(size)), 0) is None


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


def test_it_is_there() -> None:
    check_available()
    assert ssl.HAS_TLSv1_3
