"""ClosedPeers: that the other side of a socket has closed is told once, with bytes unread; stops end with their connections."""

import asyncio
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.proxy.closed_peers import ClosedPeers
from tests.support.frames import request
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.wire import address
from tests.support.person import Person

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the kernel sends RST when it is closed
API_VERSIONS_ANSWER = struct.pack(">iihi", 10, 1, 0, 0)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_an_end_is_told_once_for_each_key_though_bytes_are_unread(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def work() -> None:
        peers, told = ClosedPeers(), asyncio.Queue[str]()
        for key in ("a", "b", "c"):
            peers.watch(ours.fileno(), key, lambda key=key: told.put_nowait(key))  # type: ignore[misc]
        peers.watch(-1, "a", lambda: told.put_nowait("no socket"))
        peers.forget(ours.fileno(), "c")
        theirs.sendall(b"unread")
        await asyncio.sleep(0)
        assert told.empty()
        theirs.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(60):
            assert {await told.get(), await told.get()} == {"a", "b"}
        peers.watch(ours.fileno(), "d", lambda: told.put_nowait("d"))  # it has ended by now
        async with asyncio.timeout(60):
            assert await told.get() == "d"
        assert told.empty()
        assert ours.recv(100) == b"unread"

    asyncio.run(work())


def test_a_socket_that_was_closed_here_is_forgotten(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def work() -> None:
        peers, told = ClosedPeers(), asyncio.Queue[str]()
        number = ours.fileno()
        peers.watch(number, "a", lambda: told.put_nowait("a"))
        ours.close()
        peers.forget(number, "a")
        peers.forget(number, "a")
        peers.watch(theirs.fileno(), "b", lambda: told.put_nowait("b"))
        async with asyncio.timeout(60):
            assert await told.get() == "b"

    asyncio.run(work())


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_a_stop_ends_once_the_client_or_the_broker_closes(tmp_path: Path, sockets: ExitStack) -> None:
    """In both directions; by FIN, FIN of one direction, RST. That it did is shown, and in the audit log."""
    listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
    served = cluster([f"127.0.0.1:{listener.getsockname()[1]}"], addresses={"mode": "fixed"})
    served["filters"] = [{"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}]
    proxy = Proxy(tmp_path / "proxy", [served], page={"edits": True, "hold": 300})
    sockets.callback(proxy.close)
    proxy.start(reaches_brokers=False)
    person = Person(proxy)
    expected = []
    for direction in ("request", "response"):
        person.stop_at("true", direction=direction)
        for who in ("client", "broker"):
            for how in ("close", "shutdown", "reset"):
                client = sockets.enter_context(socket.create_connection(address(proxy.bootstrap()), 60))
                client.sendall(request(18, 0, 1, b"", client_id=how))
                broker = sockets.enter_context(listener.accept()[0])
                if direction == "response":
                    assert broker.recv(4, socket.MSG_WAITALL)
                    broker.sendall(API_VERSIONS_ANSWER)
                (stop,) = person.stops()
                ends = client if who == "client" else broker
                if how == "shutdown":
                    ends.shutdown(socket.SHUT_WR)
                else:
                    if how == "reset":
                        ends.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    ends.close()
                person.none()
                ended = person.done("GET", "/stops")["ended"][0]
                said = f"the {who} closed the connection"
                assert ended == {"id": stop["id"], "action": "resume", "by": "", "why": f"{who} closed", "how": said}
                assert person.ask("POST", f"/stops/{stop['id']}", {"action": "drop"}) == (
                    409,
                    {"error": f"it is not stopped any more: {said}"},
                )
                expected.append((direction, how, "resume", None, f"{who} closed"))

    def edits() -> list[dict[str, str]]:
        lines = (tmp_path / "audit-0.jsonl").read_text(encoding="ascii").splitlines()
        return [line for line in map(json.loads, lines) if line["event"] == "edit"]

    eventually(lambda: len(edits()) == len(expected), what="a line for each")
    assert [(one["direction"], one["clientId"], one["action"], one["by"], one["why"]) for one in edits()] == expected
