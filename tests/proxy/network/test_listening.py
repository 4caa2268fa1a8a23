"""Listening sockets."""

import socket

import pytest

from kproxy.proxy.network.listening import ListenError, listen


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
