"""Listening sockets."""

import errno
import socket
import subprocess
import sys
from typing import Any

import pytest

from kproxy.config.structs import Addresses, Cluster, Config
from kproxy.proxy.network.lingering_close import LingeringClose
from kproxy.proxy.network.listening import ListenError, check_addresses_are_free, listen
from tests.conftest import Require
from tests.support import namespaces


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


def reached(listener: socket.socket) -> set[str]:
    """The loopback addresses at which clients get through."""
    found = set()
    for host in ("127.0.0.1", "::1"):
        try:
            socket.create_connection((host, listener.getsockname()[1]), 20).close()
        except ConnectionRefusedError:
            continue
        found.add(host)
    return found


def test_without_a_host_clients_come_over_both_families() -> None:
    with listen("", 0) as listener:
        assert reached(listener) == {"127.0.0.1", "::1"}


def test_a_host_of_one_family_is_of_one_family() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert reached(listener) == {"127.0.0.1"}
    with listen("::1", 0) as listener:
        assert reached(listener) == {"::1"}


def test_a_kernel_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    """Started with ipv6.disable=1: socket(2) fails with EAFNOSUPPORT. Nothing here can take IPv6 from a running kernel."""
    original = socket.socket

    def without_ipv6(family: int = socket.AF_INET, *rest: Any, **named: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return original(family, *rest, **named)

    monkeypatch.setattr(socket, "socket", without_ipv6)
    with listen("", 0) as listener:
        monkeypatch.undo()
        assert listener.family == socket.AF_INET
        assert reached(listener) == {"127.0.0.1"}


ASK = """
import socket
from kproxy.proxy.network.listening import listen
with listen("", 19092), socket.create_connection(("127.0.0.1", 19092), 20): print("reached")
"""


@pytest.mark.parametrize("setting", ["conf.all.disable_ipv6=1", "bindv6only=1"])
def test_a_network_that_limits_ipv6(require: Require, setting: str) -> None:
    require("netns", namespaces.can_make_networks(), "network namespaces cannot be made here")
    with namespaces.namespace("kproxy-listen", ["sysctl", "-q", f"net.ipv6.{setting}"]) as inside:
        done = subprocess.run(
            [*inside, sys.executable, "-c", ASK], capture_output=True, text=True, check=False, timeout=60
        )
    assert (done.stdout, done.stderr) == ("reached\n", "")


def config(port: int, **addresses: object) -> Config:
    return Config(clusters=[Cluster(listen=f"127.0.0.1:{port}", addresses=Addresses(**addresses))])  # type: ignore[arg-type]


def listener() -> socket.socket:
    shared = socket.socket()
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    shared.bind(("127.0.0.1", 0))
    shared.listen()
    return shared


def test_a_shared_port_is_in_use() -> None:
    with listener() as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            check_addresses_are_free(config(port))
    assert caught.value.errno == errno.EADDRINUSE
    assert caught.value.filename == f"127.0.0.1:{port}"
    check_addresses_are_free(config(port))  # free again; and probing leaves nothing behind
    check_addresses_are_free(config(port))


def test_so_are_ports_of_brokers() -> None:
    with listener() as other, listener() as free:
        port, bootstrap = other.getsockname()[1], free.getsockname()[1]
        free.close()  # unlike a port nearby, no other test has it
        with pytest.raises(OSError, match=f"127.0.0.1:({port - 1}|{port})"):  # another test may have the port before
            check_addresses_are_free(config(bootstrap, first_port=port - 3, node_ids=["2-3"]))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_one_family_in_use_is_enough(host: str) -> None:
    """ ":9092" takes both."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            check_addresses_are_free(Config(clusters=[Cluster(listen=f":{port}")]))
    assert caught.value.filename == f":{port}"


def test_a_name_that_is_none() -> None:
    cluster = Cluster(listen="host.invalid:9092")
    with pytest.raises(OSError, match=r"host\.invalid:9092"):
        check_addresses_are_free(Config(clusters=[cluster]))


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
