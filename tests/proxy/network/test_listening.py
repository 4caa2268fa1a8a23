"""Listening sockets, and addresses as the kernel writes them."""

import ctypes
import socket

import pytest

from kproxy.proxy.network.listening import ListenError, endpoint_of, listen, sockaddr


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
    assert sockaddr(family, (host, port, 0, 0) if ":" in host else (host, port)) == raw
    assert endpoint_of(raw) == (host, port)


def test_a_mapped_address_is_the_ipv4_one_and_what_is_none_is_empty() -> None:
    assert endpoint_of(sockaddr(socket.AF_INET6, ("::ffff:10.1.2.3", 9092, 0, 0))) == ("10.1.2.3", 9092)
    assert endpoint_of(b"\1\0/var/run/x") == ("", 0)
    assert endpoint_of(b"") == ("", 0)


def test_several_workers_share_a_port_and_accepted_sockets_do_not_wait() -> None:
    one = listen("127.0.0.1", 0)
    port = one.getsockname()[1]
    other = listen("127.0.0.1", port)
    with one, other:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        came = 0
        for listener in (one, other):
            while True:
                try:
                    accepted, _ = listener.accept()
                except BlockingIOError:
                    break
                with accepted:
                    came += 1
                    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                    assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert came == 40
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("host", "port", "why"),
    [("192.0.2.1", 9092, "192.0.2.1:9092"), ("no-such-host.invalid", 9092, "no-such-host.invalid:9092")],
)
def test_what_cannot_be_listened_on_is_named(host: str, port: int, why: str) -> None:
    with pytest.raises(ListenError, match=f"cannot listen on {why}"):
        listen(host, port)


def test_a_port_of_another_program_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ListenError, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])
