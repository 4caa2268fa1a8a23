"""Handshake messages: what OpenSSL wrote, cut anywhere, damaged, and much too long."""

import contextlib
import ssl
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls.ciphers import suite_name
from kproxy.capture.tls.messages import (
    MAX_CERTIFICATE,
    MAX_MESSAGE,
    MessageBuffer,
    MessageType,
    Reader,
    read_certificates,
    read_client_hello,
    read_encrypted_extensions,
    read_server_hello,
    read_ticket_12,
    subject_of,
)
from kproxy.errors import Malformed
from tests.support.tls import CLIENT, REQUEST, RESPONSE, Pair, Setup, certificates

PAIR = Pair(Setup(alpn=["kafka"])).handshake()
HELLOS = {direction: next(d for who, d in PAIR.chunks if who is direction) for direction in (REQUEST, RESPONSE)}


def hello(direction: object) -> bytes:
    data = HELLOS[direction]  # type: ignore[index]
    return data[9 : 9 + int.from_bytes(data[6:9], "big")]


def test_what_a_client_of_openssl_offers() -> None:
    read = read_client_hello(hello(REQUEST))
    assert read.server_name == "broker.test"
    assert read.alpn == ["kafka"]
    assert read.versions == [0x0304]
    assert {0x1301, 0x1302, 0x1303} <= set(read.cipher_suites)
    assert not read.early_data
    assert read.random.hex() == PAIR.keylog.split()[-2].decode()


def test_what_a_broker_of_openssl_chooses() -> None:
    read = read_server_hello(hello(RESPONSE))
    assert read.version == 0x0304
    assert suite_name(read.cipher_suite) == PAIR.client.cipher()[0]  # type: ignore[index]
    assert not read.is_retry


READERS = [
    read_client_hello,
    read_server_hello,
    read_encrypted_extensions,
    read_ticket_12,
    lambda body: read_certificates(body, tls13=True),
    lambda body: read_certificates(body, tls13=False),
]


@pytest.mark.parametrize("reader", READERS)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_malformed(reader: Callable[[bytes], object], data: bytes) -> None:
    try:
        reader(data)
    except Malformed as error:
        assert error.message


@pytest.mark.parametrize("direction", [REQUEST, RESPONSE])
@given(at=st.integers(0, 600), value=st.integers(0, 255), cut=st.integers(0, 600))
def test_any_damage_is_read_or_malformed(direction: object, at: int, value: int, cut: int) -> None:
    data = bytearray(hello(direction))
    data[at % len(data)] = value
    for body in (bytes(data), hello(direction)[:cut]):
        with contextlib.suppress(Malformed):
            (read_client_hello if direction is REQUEST else read_server_hello)(body)


def test_a_reader_never_goes_past_the_end() -> None:
    with pytest.raises(Malformed, match=r"Thing: needs 5 bytes, 2 left \(at byte 1\)"):
        Reader(b"\5ab", "Thing").vector(1)


def message(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + len(body).to_bytes(3, "big") + body


@given(st.lists(st.integers(1, 50), min_size=1))
def test_several_in_a_record_and_one_in_several(cuts: list[int]) -> None:
    sent = [(1, b"a" * 100), (20, b""), (11, b"c" * 7)]
    data = b"".join(message(*one) for one in sent)
    buffer, found, at, turn = MessageBuffer(), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found += list(buffer.push(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert found == sent


def test_one_that_is_too_long_is_passed_over_and_never_held() -> None:
    buffer = MessageBuffer()
    size = 0xFFFFFF
    assert list(buffer.push(bytes((11,)) + size.to_bytes(3, "big") + b"x" * 100)) == []
    for _ in range((size - 100) // 16_384):
        assert list(buffer.push(b"x" * 16_384)) == []
        assert len(buffer._buffer) == 0
    left = (size - 100) % 16_384
    assert list(buffer.push(b"x" * left + message(20, b"end"))) == [(MessageType.FINISHED, b"end")]
    assert buffer.passed_over == 1
    assert size > MAX_MESSAGE


def test_after_a_gap_a_message_starts_afresh() -> None:
    buffer = MessageBuffer()
    list(buffer.push(message(11, b"c" * 1000)[:500]))
    buffer.clear()
    assert list(buffer.push(message(20, b"end"))) == [(20, b"end")]


def client_certificate() -> bytes:
    pem = (certificates() / "client.pem").read_text()
    return ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])


def test_the_subject_as_kafka_writes_principals() -> None:
    assert subject_of(client_certificate()) == CLIENT


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    assert subject_of(data) is None


@given(st.integers(0, 900), st.integers(0, 255))
def test_any_damage(at: int, value: int) -> None:
    damaged = bytearray(client_certificate())
    damaged[at % len(damaged)] = value
    assert subject_of(bytes(damaged)) is None or isinstance(subject_of(bytes(damaged)), str)


def test_a_version_that_there_is_none_of() -> None:
    good = client_certificate()
    version = good.index(bytes.fromhex("a003020102"))  # [0] INTEGER 2: version 3
    assert subject_of(good[: version + 4] + b"\x07" + good[version + 5 :]) is None


def test_too_much_is_not_read() -> None:
    assert subject_of(client_certificate() + bytes(MAX_CERTIFICATE)) is None
