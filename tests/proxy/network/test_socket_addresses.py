"""Addresses as sockets and the kernel have them."""

import ctypes
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.proxy.network.socket_addresses import (
    REMEMBERED_S,
    OwnConnections,
    from_sockaddr,
    numeric_address,
    original_destination,
    to_sockaddr,
)
from tests.conftest import Require
from tests.support import namespaces


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


ROOT = Path(__file__).parents[3]
REDIRECT = ["-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "9092", "-j", "REDIRECT", "--to-ports", "19092"]
PROBE = """
import json, socket, sys
from kproxy.proxy.network.socket_addresses import original_destination
listen, connect = sys.argv[1:]
family = lambda host: socket.AF_INET6 if ":" in host else socket.AF_INET
server = socket.socket(family(listen))
if family(listen) == socket.AF_INET6:
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
server.bind((listen, 19092))
server.listen()
found = []
for port in (9092, 19092):
    with socket.socket(family(connect)) as client:
        client.connect((connect, port))
        accepted = server.accept()[0]
        found.append((original_destination(accepted), original_destination(accepted.fileno())))
        accepted.sendall(b"still open")
        assert client.recv(10) == b"still open"
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("listen", "connect", "program"),
    [
        ("0.0.0.0", namespaces.BROKER, "iptables"),
        ("::", namespaces.BROKER, "iptables"),  # a socket of both families
        ("::", namespaces.BROKER_6, "ip6tables"),
    ],
)
def test_the_kernel_says_where_a_redirected_client_wanted_to_go(
    require: Require, listen: str, connect: str, program: str
) -> None:
    require("netns", namespaces.can_make_networks(), "network namespaces with NAT cannot be made here")
    with namespaces.namespace("kproxy-dst", [program, *REDIRECT]) as inside:
        words = [*inside, sys.executable, "-c", PROBE, listen, connect]
        run = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=30)
    assert run.stderr == ""
    redirected, direct = json.loads(run.stdout)
    assert redirected == [[connect, 9092]] * 2
    assert direct == [None, None]  # came to the listener's own port


def test_without_redirection_there_is_no_other_destination() -> None:
    for host, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with (
            socket.create_server((host, 0), family=family) as server,
            socket.create_connection(server.getsockname()[:2]),
        ):
            accepted, _ = server.accept()
            with accepted:
                assert original_destination(accepted) is None
                assert original_destination(accepted.fileno()) is None
                accepted.getsockname()  # still open


def test_a_connection_of_ours_is_known_when_it_comes_back() -> None:
    clock = [100.0]
    own = OwnConnections(lambda: clock[0])
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours, socket.socket() as stranger:
        own.connecting(ours)
        for connecting in (ours, stranger):
            connecting.connect(server.getsockname())
        came = [server.accept() for _ in range(2)]
        assert [own.has(peer) for _, peer in came] == [True, False]
        own.connected(ours)
        assert [own.has(peer) for _, peer in came] == [True, False]
        assert own.has(("::ffff:127.0.0.1", came[0][1][1]))
        clock[0] += REMEMBERED_S + 0.1
        assert not own.has(came[0][1])
        for accepted, _ in came:
            accepted.close()


class Named:
    """A socket by its address alone."""

    def __init__(self, port: int) -> None:
        self.port = port

    def getsockname(self) -> tuple[str, int]:
        return f"10.0.{self.port >> 16}.1", self.port & 0xFFFF


def test_what_is_remembered_has_bounds_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100
    monkeypatch.setattr("kproxy.proxy.network.socket_addresses.MOST_REMEMBERED", most)
    clock = [100.0]
    own = OwnConnections(lambda: clock[0])
    for port in range(most + 10):
        own.connected(Named(port))  # type: ignore[arg-type]
    assert [own.has(Named(port).getsockname()) for port in (0, 9, 10, most + 9)] == [False, False, True, True]
    clock[0] += REMEMBERED_S + 0.1
    own.connected(Named(5))  # type: ignore[arg-type]
    assert len(own._made) == 1
