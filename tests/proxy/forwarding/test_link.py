"""How a connection ends, and what the tap is told of it: every byte once, in order, or how many are missing."""

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Filter, Want
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import Direction
from kproxy.proxy.forwarding.link import LIFE_TRANSITIONS, Link, LinkLife
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.ring import TapReader, TapWriter, create_ring
from kproxy.proxy.tap.tapped import TapKind
from tests.proxy.forwarding.test_requests import METADATA, METADATA_ANSWER
from tests.proxy.forwarding.test_responses import big_response, table
from tests.support.links import Bench, Judge, Limits, Owner, request, response, run

RING = 4 << 20


class Tapped:
    """A ring, its reader, and what was read: bytes and losses of each direction, and the other records."""

    def __init__(self, size: int = RING) -> None:
        self.fd = create_ring(size)
        self.writer = TapWriter(self.fd)
        self.reader = TapReader(self.fd)
        self.data = [b"", b""]
        self.lost = [0, 0]
        self.others: list[tuple[TapKind, int, bytes]] = []
        self.order: list[tuple[int, bytes]] = []

    def attach(self) -> "Tapped":
        self.reader.attach()
        return self

    def read(self) -> None:
        while items := self.reader.read(1_000):
            for kind, number, direction, at, data, _ in items:
                assert number == 1
                assert at > 0 or kind == TapKind.OPEN
                if kind == TapKind.DATA:
                    self.data[direction] += data
                    self.order.append((direction, data))
                elif kind in {TapKind.LEFT_OUT, TapKind.SNAPPED}:
                    self.lost[direction] += int.from_bytes(data, "little")
                elif kind != TapKind.SENT:
                    self.others.append((TapKind(kind), direction, data))

    @property
    def opened(self) -> list[dict[str, Any]]:
        return [json.loads(data) for kind, _, data in self.others if kind is TapKind.OPEN]


async def exchange(bench: Bench, sent: bytes, answered: bytes) -> None:
    await bench.send(bench.client, sent)
    assert await bench.receive(bench.broker, len(sent)) == sent
    await bench.send(bench.broker, answered)
    assert await bench.receive(bench.client, len(answered)) == answered


async def test_the_tap_gets_every_byte_and_the_ends() -> None:
    tap = Tapped().attach()
    bench = Bench(tap=tap.writer)
    await exchange(bench, METADATA, METADATA_ANSWER)
    bench.client.shutdown(1)
    await bench.rest(bench.client)
    tap.read()
    assert tap.data == [METADATA, METADATA_ANSWER]
    assert tap.opened == [{"from_start": True}]
    closed = bytes([CloseCause.CLIENT_CLOSED]) + (1).to_bytes(8, "little")
    assert tap.others[1:] == [(TapKind.END, 0, b"\0"), (TapKind.CLOSE, 0, closed)]


async def test_a_reader_that_comes_later_is_told_that_it_missed_the_beginning() -> None:
    tap = Tapped()
    bench = Bench(tap=tap.writer)
    await exchange(bench, METADATA, METADATA_ANSWER)
    tap.attach()
    await exchange(bench, METADATA, METADATA_ANSWER)
    tap.read()
    assert (tap.opened, tap.data) == ([{"from_start": False}], [METADATA, METADATA_ANSWER])
    tap.attach()  # another one, after the first died
    await exchange(bench, METADATA, METADATA_ANSWER)
    tap.read()
    assert tap.opened == [{"from_start": False}] * 2
    assert tap.data == [METADATA * 2, METADATA_ANSWER * 2]


@pytest.mark.parametrize("size", [65_536, 1 << 20])
async def test_a_full_ring_leaves_out_the_ends_of_frames_and_whole_exchanges_and_says_how_much(size: int) -> None:
    tap = Tapped(size).attach()
    bench = Bench(tap=tap.writer)
    chance = random.Random(size)
    sent = 0
    for number in range(300):
        asked = request(3, 1, number, chance.randbytes(chance.randrange(20_000)))
        answer = response(number, chance.randbytes(chance.randrange(40_000)))
        await exchange(bench, asked, answer)
        sent += len(asked) + len(answer)
        if chance.random() < 0.1:
            tap.read()
    tap.read()
    bench.link.close(CloseCause.IDLE)
    tap.read()
    assert 0 < sum(tap.lost) <= bench.counters.total_of(Total.TAP_DROPPED_BYTES)
    assert sum(map(len, tap.data)) + bench.counters.total_of(Total.TAP_DROPPED_BYTES) == sent
    requests = 300 - bench.counters.total_of(Total.LEFT_OUT_ANALYZER_BEHIND)
    closed = bytes([CloseCause.IDLE]) + requests.to_bytes(8, "little")
    assert tap.others[-1] == (TapKind.CLOSE, 0, closed)


async def test_a_tap_that_pauses_for_want_of_memory_leaves_out_exchanges_and_counts_them() -> None:
    tap = Tapped().attach()
    bench = Bench(tap=tap.writer)
    await exchange(bench, METADATA, METADATA_ANSWER)
    assert bench.worker.tapping is not None
    bench.worker.tapping.paused = True
    await exchange(bench, METADATA, METADATA_ANSWER)
    bench.worker.tapping.paused = False
    await exchange(bench, METADATA, METADATA_ANSWER)
    tap.read()
    assert bench.counters.total_of(Total.LEFT_OUT_MEMORY_BUDGET) == 1
    assert bench.counters.total_of(Total.TAP_DROPPED_BYTES) == len(METADATA + METADATA_ANSWER)
    assert tap.data == [METADATA * 2, METADATA_ANSWER * 2]


async def test_a_connection_that_was_not_sampled_is_not_told_of() -> None:
    tap = Tapped().attach()
    bench = Bench(tap=tap.writer)
    bench.link.sampled = False
    await exchange(bench, METADATA, METADATA_ANSWER)
    bench.link.close(CloseCause.IDLE)
    tap.read()
    assert (tap.data, tap.others) == ([b"", b""], [])
    assert bench.counters.total_of(Total.LEFT_OUT_NOT_SELECTED) == 1


async def test_chosen_apis_alone_are_told_of_and_the_start_of_their_frames() -> None:
    tap = Tapped().attach()
    bench = Bench(tap=tap.writer, tapped={3, 12}, snaplen=20)
    chance = random.Random(5)
    expected, lost, others = [b"", b""], [0, 0], 0
    for number in range(200):
        key = chance.choice((3, 12, 18, 1, 30_000))
        frames = request(key, 1, number, chance.randbytes(50)), response(number, chance.randbytes(30))
        cut = chance.randrange(1, 40)
        await bench.send(bench.client, frames[0][:cut])
        await bench.settled()
        await exchange_rest(bench, frames, cut)
        for side, frame in enumerate(frames):
            expected[side] += frame[:20] if key in (3, 12) else b""
            lost[side] += len(frame) - 20 if key in (3, 12) else 0
            others += key not in (3, 12)
    bench.link.close(CloseCause.IDLE)
    tap.read()
    assert tap.data == expected
    assert tap.lost == lost
    assert bench.counters.total_of(Total.LEFT_OUT_NOT_SELECTED) == others // 2
    assert bench.counters.total_of(Total.TAP_DROPPED_BYTES) == 0  # nobody asked for them


async def exchange_rest(bench: Bench, frames: tuple[bytes, bytes], cut: int) -> None:
    await bench.send(bench.client, frames[0][cut:])
    assert await bench.receive(bench.broker, len(frames[0])) == frames[0]
    await bench.send(bench.broker, frames[1])
    assert await bench.receive(bench.client, len(frames[1])) == frames[1]


@pytest.mark.parametrize("size", [100, 300_000, 3_000_000])
@pytest.mark.parametrize("piece", [70_001, 1 << 22])
async def test_a_chosen_response_whose_end_is_looked_at_is_told_of_once(size: int, piece: int) -> None:
    """What the broker sent, not what the client got; also where looking at the end makes the lane go back."""
    tap = Tapped(16 << 20).attach()
    judge = Judge(Chain([RewriteAddresses()]), table())
    bench = Bench(judge, judge.chain, tap=tap.writer, tapped={1})
    asked = request(1, 17, 7, bytes(40))
    answer = big_response(1, 17, size, 3)
    await bench.send(bench.client, asked + METADATA)
    assert len(await bench.receive(bench.broker, len(asked + METADATA)))
    reading = asyncio.ensure_future(bench.rest(bench.client))
    for at in range(0, len(answer), piece):
        await bench.send(bench.broker, answer[at : at + piece])
        await asyncio.sleep(0)
    await bench.settled()
    bench.link.close(CloseCause.IDLE)
    await reading
    tap.read()
    assert tap.data == [asked, answer]
    assert tap.lost == [0, 0]


class Asks(Filter):
    def __init__(self, *keys: int) -> None:
        self.requests = frozenset(keys)


@pytest.mark.parametrize("tapped", [None, {3, 12, 18}])
async def test_a_request_that_waits_for_its_verdict_is_told_of_once(tapped: set[int] | None) -> None:
    tap = Tapped().attach()
    waiting: list[bytes] = []
    bench = Bench(
        Owner(judge_request=lambda _, frame: bool(waiting.append(frame))),
        Chain([Asks(3)]),
        tap=tap.writer,
        tapped=tapped,
    )
    sent = request(18, 0, 1) + request(3, 1, 2, bytes(50)) + request(12, 0, 3, bytes(9))
    await bench.send(bench.client, sent)
    await bench.settled()
    bench.link.forward_request(waiting[0])
    bench.link.resume(0)
    assert await bench.receive(bench.broker, len(sent)) == sent
    tap.read()
    assert tap.data == [sent, b""]


@pytest.mark.parametrize("tapped", [None, {3, 12, 18}])
async def test_an_answer_of_a_filter_stands_in_its_place_on_the_tap(tapped: set[int] | None) -> None:
    """Whoever reads the tap pairs by order, as clients do."""

    def judge(link: Any, frame: bytes) -> bool:
        link.answer(response(int.from_bytes(frame[8:12], "big"), b"from here"))
        return True

    tap = Tapped().attach()
    bench = Bench(Owner(judge_request=judge), Chain([Asks(3)]), tap=tap.writer, tapped=tapped)
    sent = b"".join(request(3 if n % 2 else 18, 0, n) for n in range(20))
    passed = b"".join(request(18, 0, n) for n in range(0, 20, 2))
    await bench.send(bench.client, sent)
    assert await bench.receive(bench.broker, len(passed)) == passed
    await bench.send(bench.broker, b"".join(response(n, b"broker's") for n in range(0, 20, 2)))
    expected = b"".join(response(n, b"from here" if n % 2 else b"broker's") for n in range(20))
    assert await bench.receive(bench.client, len(expected)) == expected
    tap.read()
    assert tap.data == [sent, expected]


async def test_an_answer_to_an_api_that_is_not_tapped_is_not_told_of() -> None:
    def judge(link: Any, frame: bytes) -> bool:
        link.answer(response(1, b"from here"))
        return True

    tap = Tapped().attach()
    bench = Bench(Owner(judge_request=judge), Chain([Asks(3)]), tap=tap.writer, tapped={12})
    await bench.send(bench.client, request(3, 1, 1))
    assert await bench.receive(bench.client, 17) == response(1, b"from here")
    tap.read()
    assert tap.data == [b"", b""]


async def test_a_connection_whose_frames_are_lost_is_idle_and_not_stalled_within_a_frame() -> None:
    bench = Bench()
    await bench.send(bench.broker, response(5, b"early"))
    assert await bench.receive(bench.client, 13) == response(5, b"early")
    assert bench.link.incomplete_frame_since == 0


@pytest.mark.parametrize("sent", [METADATA[:3], METADATA[:11], METADATA[:-1]])
async def test_a_frame_that_stops_short_is_noticed(sent: bytes) -> None:
    bench = Bench()
    assert bench.link.incomplete_frame_since == 0
    await bench.send(bench.client, sent)
    await bench.settled()
    assert bench.link.incomplete_frame_since > 0
    await bench.send(bench.client, METADATA[len(sent) :])
    await bench.settled()
    assert bench.link.incomplete_frame_since == 0


async def test_a_drain_that_began_before_the_two_sides_were_joined() -> None:
    bench = Bench()
    bench.link.drain()
    await bench.owner.closed.wait()
    assert bench.owner.cause is CloseCause.DRAIN


async def test_what_a_filter_says_after_the_end_is_not_done() -> None:
    waiting: list[bytes] = []
    bench = Bench(Owner(judge_request=lambda _, frame: bool(waiting.append(frame))), Chain([Asks(3)]))
    await bench.send(bench.client, METADATA)
    await bench.settled()
    bench.link.close(CloseCause.IDLE)
    bench.link.forward_request(waiting[0])
    bench.link.answer(METADATA_ANSWER)
    bench.link.forward_response(METADATA_ANSWER)
    bench.link.resume(0)
    bench.link.drain()
    bench.link.forget()
    bench.link.forward_request(waiting[0])
    bench.link.resume(0)
    assert bench.link.incomplete_frame_since == 0
    assert bench.counters.total_of(Total.IN_FLIGHT) == 0


async def test_a_verdict_that_comes_after_frames_were_lost_sends_the_request_on() -> None:
    waiting: list[bytes] = []
    bench = Bench(Owner(judge_request=lambda _, frame: bool(waiting.append(frame))), Chain([Asks(3)]))
    await bench.send(bench.client, METADATA + METADATA)
    await bench.settled()
    await bench.send(bench.broker, response(99))
    assert await bench.receive(bench.client, 8) == response(99)
    bench.link.forward_request(waiting[0])
    bench.link.resume(0)
    assert await bench.receive(bench.broker, 2 * len(METADATA)) == METADATA * 2
    assert bench.link.in_flight_count == 0


async def test_a_plan_that_changes_while_frames_pass_holds_from_the_next_one_on() -> None:
    class Holds(Filter):
        def wants(self, direction: Any, api_key: int, api_version: int) -> Want:
            return Want.HOLD if (direction, api_key) == (Direction.REQUEST, 3) else Want.PASS

    bench = Bench()
    await bench.send(bench.client, METADATA[:14])
    await bench.settled()
    bench.link.plan = Plan(Chain([Holds()]))
    await bench.send(bench.client, METADATA[14:] + METADATA)
    assert await bench.receive(bench.broker, 2 * len(METADATA)) == METADATA * 2
    assert bench.counters.total_of(Total.HELD_FRAMES) == 1


async def test_where_a_client_came_to_is_known_after_its_socket_was_handed_on() -> None:
    import socket  # noqa: PLC0415

    from kproxy.proxy.network.socket_addresses import from_sockaddr  # noqa: PLC0415
    from tests.proxy.forwarding.test_sockets import TcpBench  # noqa: PLC0415

    bench = TcpBench()
    here = bench.client.getpeername()
    handed = bench.link.take_client()
    assert from_sockaddr(bench.link.local_address()) == here
    assert bench.link.take_client() == -1
    bench.link.return_client(handed)
    assert bench.link.sockets()[0] == handed
    taken = bench.link.take_client()
    bench.link.close(CloseCause.IDLE)
    bench.link.return_client(taken)  # closed by now: so is what comes back
    with pytest.raises(OSError, match="Bad file"):
        socket.socket(fileno=taken)


async def test_limits_of_a_link_are_those_it_began_with() -> None:
    bench = Bench(limits=Limits(frame_size=100))
    await bench.send(bench.client, request(3, 1, 1, bytes(89)))  # 100 bytes behind the size
    await bench.settled()
    assert not bench.link.closed
    await bench.send(bench.client, request(3, 1, 1, bytes(90)))
    assert await bench.rest(bench.client) == b""
    assert bench.owner.cause is CloseCause.BAD_FRAME


class Judges(Filter):
    requests = frozenset({3})
    responses = frozenset({12})


@pytest.mark.parametrize("together", [False, True])
async def test_an_answer_does_not_overtake_a_response_that_is_still_judged(together: bool) -> None:
    """Clients take responses in the order of their requests, whoever gives them."""
    judged: list[bytes] = []

    def answer(link: Any, frame: bytes) -> bool:
        link.answer(response(int.from_bytes(frame[8:12], "big"), b"from here"))
        return True

    owner = Owner(judge_request=answer, judge_response=lambda _, __, frame: bool(judged.append(frame)))
    bench = Bench(owner, Chain([Judges()]))
    first, last = request(12, 0, 1), request(18, 0, 3)
    await bench.send(bench.client, first + (request(3, 1, 2) + last if together else b""))
    assert await bench.receive(bench.broker, len(first)) == first
    await bench.send(bench.broker, response(1, b"judged"))
    await bench.settled()
    if not together:
        await bench.send(bench.client, request(3, 1, 2) + last)
    assert await bench.receive(bench.broker, len(last)) == last
    await bench.send(bench.broker, response(3, b"passes"))
    await bench.settled()
    bench.link.forward_response(judged[0])
    bench.link.resume(1)
    expected = response(1, b"judged") + response(2, b"from here") + response(3, b"passes")
    assert await bench.receive(bench.client, len(expected)) == expected
    assert owner.told == []


SOURCE = (Path(__file__).parents[3] / "kproxy/proxy/forwarding/link.pyx").read_text("utf-8")
ALL_TRANSITIONS = {(from_, to) for from_, targets in LIFE_TRANSITIONS.items() for to in targets}
OPENING, JOINED, DRAINING, HALF_CLOSED, CLOSED = LinkLife


ACTS: dict[str, Callable[[Bench], None]] = {
    "drain": lambda bench: bench.link.drain(),
    "end client": lambda bench: bench.client.shutdown(1),
    "end broker": lambda bench: bench.broker.shutdown(1),
    "lose client": lambda bench: bench.client.close(),
    "lose broker": lambda bench: bench.broker.close(),
    "close": lambda bench: bench.link.close(CloseCause.IDLE),
}
WALKS: dict[tuple[LinkLife, LinkLife], list[str]] = {  # after join, with a request in flight
    (OPENING, JOINED): [],
    (JOINED, DRAINING): ["drain"],
    (JOINED, HALF_CLOSED): ["end client"],
    (JOINED, CLOSED): ["close"],
    (DRAINING, HALF_CLOSED): ["drain", "end client"],
    (DRAINING, CLOSED): ["drain", "close"],
    (HALF_CLOSED, CLOSED): ["end client", "close"],
}


def test_the_docstring_has_the_transitions_of_the_life() -> None:
    written = set()
    for sources, target in re.findall(r"^    ([A-Z_, ]+) -> (\w+)", SOURCE.partition('"""\n\nfrom')[0], re.M):
        written |= {(source, target) for source in sources.split(", ")}
    assert written == {(from_.name, to.name) for from_, to in ALL_TRANSITIONS}


@pytest.mark.parametrize("transition", WALKS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
async def test_each_transition_of_the_life_is_taken(transition: tuple[LinkLife, LinkLife]) -> None:
    bench = Bench()
    await bench.send(bench.client, METADATA)
    assert await bench.receive(bench.broker, len(METADATA)) == METADATA
    for act in WALKS[transition]:
        ACTS[act](bench)
        await bench.settled()
    assert transition in bench.link.transitions_taken
    assert bench.link.life_state == transition[1]


@pytest.mark.parametrize("drained", [False, True])
async def test_a_link_that_is_never_joined_is_closed_out_of_its_opening(drained: bool) -> None:
    bench = Bench()
    link = Link(bench.worker, bench.owner, Plan(), 2, Limits())
    bench.counters.add(Total.CONNECTIONS_OPEN)
    if drained:
        link.drain()
    assert link.life_state == OPENING
    link.close(CloseCause.UPSTREAM_UNREACHABLE)
    assert link.transitions_taken == {(OPENING, CLOSED)}


def test_links_that_end_at_random_take_no_other_transition() -> None:
    found: set[tuple[LinkLife, LinkLife]] = set()

    async def end(seed: int) -> None:
        chance = random.Random(seed)
        bench = Bench()
        await bench.send(bench.client, METADATA * chance.randrange(3))
        await bench.settled()
        for act in chance.choices(list(ACTS.values()), k=chance.randrange(1, 5)):
            with contextlib.suppress(OSError):  # what is closed cannot be shut down
                act(bench)
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
        await bench.settled()
        assert not any(what == "fault" for what, *_ in bench.owner.told)
        found.update(bench.link.transitions_taken)

    async def work() -> None:
        for seed in range(150):
            await end(seed)

    run(work)
    assert found == ALL_TRANSITIONS - {(OPENING, CLOSED)}  # benches are joined


async def test_what_describe_raises_is_reported_once_and_its_bytes_count_as_dropped() -> None:
    class Fails(Owner):
        def describe(self, link: Any, from_start: bool) -> bytes:
            raise KeyError("broker")

    tap = Tapped().attach()
    bench = Bench(Fails(), tap=tap.writer)
    for _ in range(3):
        await exchange(bench, METADATA, METADATA_ANSWER)
    tap.read()
    assert (tap.data, tap.others) == ([b"", b""], [])
    assert bench.owner.told == [("fault", "KeyError('broker')")]
    assert bench.counters.total_of(Total.TAP_DROPPED_BYTES) == 3 * len(METADATA + METADATA_ANSWER)
    assert not bench.link.closed


async def test_the_answer_sent_while_deferred_requests_are_processed_is_on_the_tap() -> None:
    """The deferred bytes have been copied already; what is sent meanwhile has not."""
    waiting: list[bytes] = []

    def judge(link: Any, frame: bytes) -> bool:
        if not waiting:
            waiting.append(frame)
            return False
        link.answer(response(2, b"from here"))
        return True

    tap = Tapped().attach()
    bench = Bench(Owner(judge_request=judge), Chain([Asks(3)]), tap=tap.writer)
    sent = request(3, 1, 1) + request(3, 1, 2)
    await bench.send(bench.client, sent)
    await bench.settled()
    bench.link.answer(response(1, b"also from here"))
    bench.link.resume(Direction.REQUEST)  # the deferred request is answered at once, within this call
    expected = response(1, b"also from here") + response(2, b"from here")
    assert await bench.receive(bench.client, len(expected)) == expected
    tap.read()
    assert tap.data == [sent, expected]


WITHOUT_MEMORY = """
import asyncio, socket
import _testcapi
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.sockets import pump
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.support.links import Bench, Limits, Owner, run

async def work():
    bench = Bench()
    for allocations in range(60):
        bench.counters.add(Total.CONNECTIONS_OPEN)  # as an acceptor does
        link = Link(bench.worker, Owner(), Plan(None), 1, Limits())
        ours, theirs = (end.detach() for end in Bench.pair())
        _testcapi.set_nomemory(allocations, 0)  # what is allocated after as many fails
        try:
            pump(link, ours, theirs)
            joined = True
        except MemoryError:
            joined = False
        _testcapi.remove_mem_hooks()
        link.close(CloseCause.ERROR)
        assert link.closed
        if joined:
            print("joined")
            return

run(work)
"""


def test_a_link_that_cannot_be_joined_for_want_of_memory_can_be_closed() -> None:
    """Whichever allocation is the first that fails."""
    pytest.importorskip("_testcapi")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "joined\n"), done.stderr
