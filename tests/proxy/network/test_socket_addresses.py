"""Addresses as sockets and the kernel have them."""

import ctypes
import socket

import pytest

from kproxy.proxy.network.socket_addresses import from_sockaddr, numeric_address, to_sockaddr


def as_the_kernel_has_it(address: tuple[str, int]) -> bytes:
    """getsockname(2) of a UDP socket bound there, past Python's own reading of it."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as bound:
        bound.bind(address)
        raw, size = ctypes.create_string_buffer(128), ctypes.c_uint(128)
        libc = ctypes.CDLL(None)
        assert libc.getsockname(bound.fileno(), raw, ctypes.byref(size)) == 0
        return raw.raw[: size.value]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_is_written_and_read_as_the_kernel_does(host: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind((host, 0))
        port = found.getsockname()[1]
    raw = as_the_kernel_has_it((host, port))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    assert to_sockaddr(family, (host, port, 0, 0) if ":" in host else (host, port)) == raw
    assert from_sockaddr(raw) == (host, port)


def test_a_mapped_address_is_the_ipv4_one_and_what_is_none_is_empty() -> None:
    assert from_sockaddr(to_sockaddr(socket.AF_INET6, ("::ffff:10.1.2.3", 9092, 0, 0))) == ("10.1.2.3", 9092)
    assert from_sockaddr(b"\1\0/var/run/x") == ("", 0)
    assert from_sockaddr(b"") == ("", 0)


def test_numbers_can_be_bound_as_they_are_and_names_are_not_numbers() -> None:
    for host in ("127.0.0.1", "::1"):
        known = numeric_address(host)
        assert known is not None
        family, address = known
        with socket.socket(family) as bound:
            bound.bind(address)
            assert bound.getsockname()[0] == host
    assert numeric_address("10.1.2.3", 9092) == (socket.AF_INET, ("10.1.2.3", 9092))
    assert numeric_address("fd00::5", 9092) == (socket.AF_INET6, ("fd00::5", 9092, 0, 0))


@pytest.mark.parametrize(
    "host", ["localhost", "", "1.2.3", "256.0.0.1", "010.0.0.1", "br\x00oker", "bröker", "1.2.3.4 "]
)
def test_a_name_is_to_be_resolved(host: str) -> None:
    assert numeric_address(host) is None
