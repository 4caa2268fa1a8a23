"""A client gets all that was sent to it, although it has sent more than was read."""

import socket

from kproxy.proxy.network.lingering_close import LingeringClose


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname(), 10)
        ours, _ = server.accept()
    ours.setblocking(False)
    return client, ours


def test_what_was_sent_arrives_although_the_client_sent_more_than_was_read() -> None:
    client, ours = pair()
    lingering = LingeringClose()
    client.sendall(b"unread" * 1_000)
    ours.send(b"answer")
    lingering.add(ours.detach())
    client.sendall(b"more")
    lingering.sweep()
    assert len(lingering) == 1
    assert client.makefile("rb").read() == b"answer"
    client.close()
    while len(lingering):
        lingering.sweep()


def test_a_plain_close_loses_it() -> None:
    """What this is for: without it the kernel resets."""
    client, ours = pair()
    client.sendall(b"unread" * 1_000)
    while not ours.recv(1, socket.MSG_PEEK):
        pass
    ours.close()
    try:
        assert client.recv(1) == b"never", "a reset was to come"
    except ConnectionResetError:
        pass
    finally:
        client.close()


def test_a_client_that_is_gone_is_not_waited_for() -> None:
    client, ours = pair()
    client.close()
    lingering = LingeringClose()
    lingering.add(ours.detach())
    lingering.sweep()
    assert len(lingering) == 0


def test_close_waits_for_nobody() -> None:
    client, ours = pair()
    lingering = LingeringClose()
    lingering.add(ours.detach())
    lingering.close()
    assert len(lingering) == 0
    assert client.recv(1) == b""
    client.close()
