"""Stops: every message that is held goes on once, by whichever of the ways comes first, and the supervisor is told of each."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.config.structs import Page
from kproxy.filters.breakpoints.decision import Decision, Why
from kproxy.filters.breakpoints.decision import Stopped as StoppedMessage
from kproxy.filters.breakpoints.editing import MOST_TEXT_SIZE
from kproxy.proxy.messages import (
    STOP_PART,
    BreakpointGivenUp,
    Decide,
    Message,
    ResumeAll,
    ShowStop,
    Stop,
    StopAnswer,
    StopEnded,
    Stopped,
)
from kproxy.proxy.stops import GONE, ClosedPeers, Stops
from tests.support.filtering import connection
from tests.support.frames import request
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.sockets import address
from tests.support.stopping import Person

BY = "127.0.0.1:5000"
FOREVER = Page(edits=True, hold=300.0)


def message(body: bytes = b"body", number: int = 1) -> StoppedMessage:
    at = connection()
    at.number = number
    return StoppedMessage(at, "app", "request", 0, 9, 4, body, 'apiName == "Produce"', True, True)


class Bench:
    """The stops of a worker, and what was told of them."""

    def __init__(self, page: Page = FOREVER) -> None:
        self.told: list[Message] = []
        self.stops = Stops(2, self.told.append)
        self.stops.configure(page)
        self.holder = self.stops.of_cluster("default")

    def hold(self, body: bytes = b"body", number: int = 1) -> Awaitable[Decision]:
        held = self.holder.hold(message(body, number))
        assert not isinstance(held, str), held
        return held

    def shown(self) -> list[Stop]:
        return [one.stop for one in self.told if isinstance(one, Stopped)]

    def ended(self) -> list[str]:
        return [one.id for one in self.told if isinstance(one, StopEnded)]

    def answers(self) -> list[StopAnswer]:
        return [one for one in self.told if isinstance(one, StopAnswer)]


async def test_a_decision_ends_the_stop() -> None:
    bench = Bench()
    held = bench.hold()
    (stop,) = bench.shown()
    assert (stop.size, stop.client_id, stop.api_key, stop.direction, stop.connection) == (4, "app", 0, "request", 1)
    assert stop.resumes_ms - stop.stopped_ms == 300_000
    bench.stops.handle(Decide(5, stop.id, "error", BY, error=29))
    assert await held == Decision("error", BY, b"", 29)
    assert bench.ended() == [stop.id]
    assert bench.answers() == [StopAnswer(5)]
    bench.stops.handle(Decide(6, stop.id, "drop", BY))
    assert bench.answers()[1:] == [StopAnswer(6, refused=GONE)]


async def test_it_goes_on_by_itself() -> None:
    bench = Bench(Page(edits=True, hold=0.01))
    assert await bench.hold() == Decision("resume", why="time over")
    assert bench.ended() == [bench.shown()[0].id]


async def test_more_time_is_given_when_it_is_asked_for_but_not_for_ever() -> None:
    bench = Bench(Page(edits=True, hold=30.0))
    held = asyncio.ensure_future(_awaited(bench.hold()))
    (stop,) = bench.shown()
    bench.stops.handle(Decide(1, stop.id, "keep", BY, seconds=200.0))
    longer = bench.shown()[1]
    assert longer.id == stop.id
    assert 195_000 < longer.resumes_ms - stop.stopped_ms < 205_000
    bench.stops.handle(Decide(2, stop.id, "keep", BY, seconds=1e9))
    assert bench.shown()[2].resumes_ms - stop.stopped_ms < 301_000
    bench.stops.handle(Decide(3, stop.id, "keep", BY, seconds=1e9))
    assert [answer.refused for answer in bench.answers()] == ["", "", "a message is stopped for at most 300 s"]
    assert not held.done()
    bench.stops.resume_all(BY)
    assert await held == Decision("resume", BY)


async def _awaited(held: Awaitable[Decision]) -> Decision:
    return await held


async def test_a_message_that_replaces_it_comes_in_parts() -> None:
    bench = Bench()
    held = bench.hold()
    body = bytes(range(256)) * 6_000
    parts = list(Decide(1, bench.shown()[0].id, "replace", BY).parts(body))
    assert len(parts) == 3
    for part in parts:
        bench.stops.handle(part)
    assert await held == Decision("replace", BY, body)
    assert bench.answers() == [StopAnswer(1)]


async def test_a_message_that_replaces_it_has_a_bound() -> None:
    bench = Bench()
    bench.hold()
    (stop,) = bench.shown()
    for _ in range(MOST_TEXT_SIZE // STOP_PART + 2):
        bench.stops.handle(Decide(1, stop.id, "replace", BY, part=bytes(STOP_PART), more=True))
    assert [answer.refused for answer in bench.answers()] == ["the message is too large"]
    assert not bench.ended()


async def test_its_bytes_are_shown_in_parts() -> None:
    bench = Bench()
    body = bytes(range(256)) * 5_000
    bench.hold(body)
    bench.stops.handle(ShowStop(8, bench.shown()[0].id))
    assert b"".join(answer.part for answer in bench.answers()) == body
    assert [answer.more for answer in bench.answers()] == [True, True, False]
    bench.stops.handle(ShowStop(9, "no such"))
    assert bench.answers()[-1] == StopAnswer(9, refused=GONE)


async def test_how_much_is_held_is_bounded_and_what_ends_makes_room() -> None:
    bench = Bench(Page(edits=True, hold=300.0, most_stops=2, most_stopped_size=100))
    bench.hold(bytes(60))
    assert bench.holder.hold(message(bytes(41))) == "too many"
    bench.hold(bytes(40))
    assert bench.holder.hold(message(b"")) == "too many"
    bench.stops.resume_all()
    bench.hold(bytes(100))
    assert bench.holder.hold(message(bytes(MOST_TEXT_SIZE + 1))) == "too large"


async def test_a_closed_connection_frees_what_it_had_and_no_other() -> None:
    bench = Bench()
    first, second = bench.hold(number=1), bench.hold(number=2)
    bench.stops.of_cluster("another").release(1)
    assert not bench.ended()
    bench.holder.release(1)
    assert await first == Decision("resume", why="connection closed")
    assert bench.ended() == [bench.shown()[0].id]
    bench.stops.handle(ResumeAll(BY))
    assert await second == Decision("resume", BY)


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        (lambda stops: stops.drain(), "draining"),
        (lambda stops: stops.configure(Page()), "edits off"),
        (lambda stops: stops.resume_all(why="cluster removed", cluster="default"), "cluster removed"),
        (lambda stops: stops.handle(ResumeAll("", "no page")), "no page"),
    ],
)
async def test_all_goes_on_when_it_may_not_be_stopped_any_more(ends: Callable[[Stops], None], why: Why) -> None:
    bench = Bench()
    held = [bench.hold(number=number) for number in range(100)]
    assert len({stop.id for stop in bench.shown()}) == 100
    ends(bench.stops)
    assert [await one for one in held] == [Decision("resume", why=why)] * 100
    assert {(one.action, one.by, one.why) for one in bench.told if isinstance(one, StopEnded)} == {("resume", "", why)}
    assert sorted(bench.ended()) == sorted(stop.id for stop in bench.shown())


async def test_nothing_is_held_while_the_worker_drains() -> None:
    bench = Bench()
    bench.stops.drain()
    assert bench.holder.hold(message()) == "draining"


async def test_a_wait_that_was_cancelled_frees_its_place() -> None:
    bench = Bench()
    waiting = asyncio.ensure_future(_awaited(bench.hold()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await asyncio.sleep(0)
    assert bench.ended() == [bench.shown()[0].id]


async def test_an_action_that_there_is_not_does_nothing() -> None:
    bench = Bench()
    bench.hold()
    bench.stops.handle(Decide(1, bench.shown()[0].id, "explode", BY))
    assert [answer.refused for answer in bench.answers()] == ["there is no action 'explode'"]
    assert not bench.ended()


def test_a_breakpoint_that_is_given_up_is_told() -> None:
    bench = Bench()
    bench.holder.give_up("true", "request", "It takes too long.")
    assert bench.told == [BreakpointGivenUp("true", "request", "It takes too long.")]


RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the kernel sends RST when it is closed
API_VERSIONS_ANSWER = struct.pack(">iihi", 10, 1, 0, 0)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def test_an_end_is_told_once_for_each_key_though_bytes_are_unread(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
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


async def test_a_socket_that_was_closed_here_is_forgotten(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    peers, told = ClosedPeers(), asyncio.Queue[str]()
    number = ours.fileno()
    peers.watch(number, "a", lambda: told.put_nowait("a"))
    ours.close()
    peers.forget(number, "a")
    peers.forget(number, "a")
    peers.watch(theirs.fileno(), "b", lambda: told.put_nowait("b"))
    async with asyncio.timeout(60):
        assert await told.get() == "b"


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
