"""The phases of an exchange: each is at least as long as what the test made it wait for, and together they are what passed."""

import asyncio
import random
from collections import Counter, defaultdict
from struct import pack
from time import monotonic_ns
from typing import Any

import pytest

from kproxy.pipeline.connections import Clusters, Connections
from kproxy.pipeline.output import End
from kproxy.proxy.analyzer.tap_decoder import TapDecoder
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.tap.counted import Phase, Total
from kproxy.proxy.tap.ring import TapReader, TapWriter, create_ring
from kproxy.session import Event, Exchange, Limits
from tests.support.frames import heartbeat, heartbeat_answer, produce
from tests.support.links import Bench, Owner, Wanting, request, response, run

DELAY = 0.03  # seconds
LARGE = 16 << 20  # bytes: more than the sockets between them take
METADATA, HEARTBEAT, PRODUCE = 3, 12, 0


class Described(Owner):
    """An owner that describes its link as a virtual cluster does."""

    def describe(self, link: Link, from_start: bool) -> bytes:
        return b'{"number":1,"cluster":"c","client":"a:1","broker":"b:2","from_start":true}'


class Analyzed:
    """A ring and the exchanges that are made of what was written to it."""

    def __init__(self, size: int = 64 << 20) -> None:
        fd = create_ring(size)
        self.writer, self._reader = TapWriter(fd), TapReader(fd)
        self._reader.attach()
        self.exchanges: list[Exchange] = []
        self.taken = 0
        connections = Connections(Clusters(), self, Limits(), contain=(), most=10, most_held=1 << 30)
        self._decoder = TapDecoder(connections)

    def receive_events(self, events: list[Event]) -> None:
        self.exchanges += [event for event in events if isinstance(event, Exchange)]
        self.taken += len(events)

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        assert fault is None

    def all(self) -> list[Exchange]:
        while items := self._reader.read(100):
            self._decoder.decode(items)
        return self.exchanges

    def only(self) -> Exchange:
        (exchange,) = self.all()
        return exchange


def phases(bench: Bench, api_key: int) -> list[int]:
    """Nanoseconds of each phase of the only exchange of an API."""
    found = next(one for one in bench.counters.histograms() if one.api_key == api_key)
    assert [sum(histogram) for histogram in found.phases] == [1, 1, 1]
    return list(found.phase_ns)


def logged(exchange: Exchange) -> list[float | None]:
    """The same of an exchange, in nanoseconds."""
    told = exchange.request_in_proxy_ms, exchange.broker_ms, exchange.response_in_proxy_ms
    return [None if one is None else one * 1e6 for one in told]


async def delay() -> int:
    """Wait for DELAY; return how long that took, in nanoseconds."""
    began = monotonic_ns()
    await asyncio.sleep(DELAY)
    return monotonic_ns() - began


async def test_a_slow_broker_is_in_its_phase_and_in_no_other() -> None:
    tap = Analyzed()
    bench = Bench(Described(), tap=tap.writer)
    began = monotonic_ns()
    await bench.send(bench.client, heartbeat(7))
    await bench.receive(bench.broker, len(heartbeat(7)))
    asked = monotonic_ns()
    waited = await delay()
    answering = monotonic_ns()
    await bench.send(bench.broker, heartbeat_answer(7))
    await bench.receive(bench.client, len(heartbeat_answer(7)))
    done = monotonic_ns()
    found = phases(bench, HEARTBEAT)
    for one in (found, logged(tap.only())):
        assert 0 < one[Phase.REQUEST_IN_PROXY] <= asked - began
        assert one[Phase.BROKER] >= waited
        assert 0 < one[Phase.RESPONSE_IN_PROXY] <= done - answering
        assert sum(one) <= done - began
    assert logged(tap.only()) == pytest.approx(found)


@pytest.mark.parametrize("direction", [0, 1])
async def test_a_filter_that_decides_later_is_in_the_proxys_phase(direction: int) -> None:
    held: asyncio.Queue[tuple[Link, bytes]] = asyncio.Queue()

    def judge(link: Link, *rest: Any) -> bool:
        held.put_nowait((link, rest[-1]))
        return False

    tap = Analyzed()
    owner = Described(judge_request=judge) if direction == 0 else Described(judge_response=judge)
    bench = Bench(owner, Wanting(HEARTBEAT), tap=tap.writer)
    began = monotonic_ns()
    await bench.send(bench.client, heartbeat(7))
    if direction == 0:
        link, frame = await held.get()
        waited = await delay()
        link.forward_request(frame)
        link.resume(0)
    await bench.receive(bench.broker, len(heartbeat(7)))
    await bench.send(bench.broker, heartbeat_answer(7))
    if direction == 1:
        link, frame = await held.get()
        waited = await delay()
        link.forward_response(frame)
        link.resume(1)
    await bench.receive(bench.client, len(heartbeat_answer(7)))
    done = monotonic_ns()
    found = phases(bench, HEARTBEAT)
    assert found[Phase.RESPONSE_IN_PROXY if direction else Phase.REQUEST_IN_PROXY] >= waited
    assert found[Phase.BROKER] <= done - began - waited
    seen = logged(tap.only())
    if direction == 0:
        assert seen == pytest.approx(found)
    else:  # the exchange was whole, and analyzed, before its response was sent on
        assert seen[Phase.RESPONSE_IN_PROXY] is None
        assert seen[:2] == pytest.approx(found[:2])


async def test_a_client_that_does_not_read_is_in_the_last_phase_and_is_back_pressure() -> None:
    bench = Bench()
    await bench.send(bench.client, request(METADATA, 1, 7))
    await bench.receive(bench.broker, len(request(METADATA, 1, 7)))
    sending = asyncio.ensure_future(bench.send(bench.broker, response(7, bytes(LARGE))))
    await bench.settled()
    assert bench.counters.total_of(Total.READING_PAUSED_RESPONSE) == 1
    waited = await delay()
    await bench.receive(bench.client, LARGE + 8)
    await sending
    await bench.settled()
    assert phases(bench, METADATA)[Phase.RESPONSE_IN_PROXY] >= waited
    assert bench.counters.total_of(Total.READ_PAUSES_RESPONSE) >= 1
    assert bench.counters.total_of(Total.READ_PAUSED_NS_RESPONSE) >= waited
    assert bench.counters.total_of(Total.READING_PAUSED_RESPONSE) == 0
    assert bench.counters.total_of(Total.READ_PAUSES_REQUEST) == 0


async def test_a_broker_that_does_not_read_is_in_the_first_phase_also_in_the_log() -> None:
    tap = Analyzed()
    bench = Bench(Described(), tap=tap.writer)
    asked = request(
        PRODUCE,
        3,
        7,
        bytes.fromhex("ffff 0001 00000001 00000001 0001 74 00000001 00000000") + pack(">i", LARGE) + bytes(LARGE),
    )
    sending = asyncio.ensure_future(bench.send(bench.client, asked))
    await bench.settled()
    assert bench.counters.total_of(Total.READING_PAUSED_REQUEST) == 1
    waited = await delay()
    await bench.receive(bench.broker, len(asked))
    await sending
    await bench.settled()
    answer = response(7, pack(">ii", 0, 0))
    await bench.send(bench.broker, answer)
    await bench.receive(bench.client, len(answer))
    found = phases(bench, PRODUCE)
    assert found[Phase.REQUEST_IN_PROXY] >= waited
    assert bench.counters.total_of(Total.READ_PAUSED_NS_REQUEST) >= waited
    assert logged(tap.only()) == pytest.approx(found)


async def test_a_request_begins_with_its_first_byte() -> None:
    bench = Bench()
    await bench.send(bench.client, heartbeat(7)[:5])
    await bench.settled()
    waited = await delay()
    await bench.send(bench.client, heartbeat(7)[5:])
    await bench.receive(bench.broker, len(heartbeat(7)))
    await bench.send(bench.broker, heartbeat_answer(7))
    await bench.receive(bench.client, len(heartbeat_answer(7)))
    assert phases(bench, HEARTBEAT)[Phase.REQUEST_IN_PROXY] >= waited


async def test_a_response_that_a_filter_made_has_no_phases_in_the_log() -> None:
    def judge(link: Link, frame: bytes) -> bool:
        link.answer(heartbeat_answer(7))
        return True

    tap = Analyzed()
    bench = Bench(Described(judge_request=judge), Wanting(HEARTBEAT), tap=tap.writer)
    await bench.send(bench.client, heartbeat(7))
    assert await bench.receive(bench.client, len(heartbeat_answer(7))) == heartbeat_answer(7)
    assert logged(tap.only()) == [None, None, None]
    found = bench.counters.histograms()[0]
    assert not any(sum(histogram) for histogram in found.phases)
    assert sum(found.sizes[0]) == 1


@pytest.mark.parametrize("seed", range(4))
def test_every_exchange_is_counted_once_in_each_phase_and_each_frame_by_its_size(seed: int) -> None:
    """What the workload has sent, in pieces that begin and end anywhere."""
    rng = random.Random(seed)
    asked, answered, frames = bytearray(), bytearray(), defaultdict[str, Counter[tuple[int, int]]](Counter)
    for number in range(rng.choice((1, 40, 900))):
        if rng.random() < 0.2:
            one = produce(number, acks=0)
            frames["request",][PRODUCE, len(one)] += 1
            asked += one
            continue
        api_key = rng.choice((METADATA, HEARTBEAT, 18, 999))
        one = request(api_key, 1, number, bytes(rng.choice((0, 10, 5_000))))
        two = response(number, bytes(rng.choice((0, 100, 30_000))))
        frames["request",][api_key, len(one)] += 1
        frames["response",][api_key, len(two)] += 1
        asked += one
        answered += two

    async def pieces(bench: Bench, end: Any, data: bytes) -> None:
        at = 0
        while at < len(data):
            size = rng.choice((1, 3, 70, 9_000, 400_000))
            await bench.send(end, data[at : at + size])
            at += size
            if rng.random() < 0.3:
                await bench.settled()

    async def work() -> None:
        bench = Bench()
        await asyncio.gather(pieces(bench, bench.client, bytes(asked)), bench.receive(bench.broker, len(asked)))
        await asyncio.gather(pieces(bench, bench.broker, bytes(answered)), bench.receive(bench.client, len(answered)))
        await bench.settled()
        for found in bench.counters.histograms():
            requests, responses = (
                Counter(
                    {
                        size: n
                        for (key, size), n in frames[side,].items()
                        if (key if key < 900 else None) == found.api_key
                    }
                )
                for side in ("request", "response")
            )
            assert [sum(one) for one in found.phases] == [requests.total(), responses.total(), responses.total()]
            for sizes, counted in zip((requests, responses), found.sizes, strict=True):
                expected = Counter((size - 1).bit_length() for size in sizes.elements())
                assert Counter(dict(enumerate(counted))) == expected

    run(work)
