"""Whose certificate it is, as Python's ssl and RFC 4514 say."""

import ssl

from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls.certificates import MAX_CERTIFICATE, subject_of
from tests.support.tls import CLIENT, certificates


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
