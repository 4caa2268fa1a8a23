"""What the tap gets of a link at any load: whole exchanges, counted to the last one, and nothing that did not happen.

Each example is a conversation of Kafka's own frames and larger ones, in any chunks, through a link whose ring is small and
read at any moment; beside it stand the frames that were sent.
"""

import asyncio
import random
from dataclasses import dataclass
from struct import pack
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kproxy.pipeline.output import Observer
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.analyzer.tap_decoder import TapDecoder
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.ring import TapReader, TapWriter, await_reader, create_ring, detach_reader
from kproxy.proxy.tap.tapped import Opened
from kproxy.session import Event, Exchange
from tests.support.corpus import golden_pairs
from tests.support.frames import heartbeat, heartbeat_answer, request, response, string
from tests.support.links import Bench, Owner, run

LEFT_OUT = [total for total in Total if total.name.startswith("LEFT_OUT")]
SASL = {17, 36}


@dataclass
class Pair:
    """A request that was sent, and the broker's response; None where there is none."""

    request: bytes
    response: bytes | None


def large_produce(number: int, size: int, acks: int, transactional: int) -> Pair:
    records = random.Random(number).randbytes(size)
    body = (
        string("t" * transactional) + pack(">hii", acks, 100, 1) + string("topic") + pack(">iii", 1, 0, size) + records
    )
    answer = pack(">i", 1) + string("topic") + pack(">iihqq", 1, 0, 0, 5, -1) + pack(">i", 0)
    return Pair(request(0, 3, number, body), response(number, answer) if acks else None)


def large_fetch(number: int, size: int) -> Pair:
    records = random.Random(number).randbytes(size)
    body = pack(">iiiib", -1, 100, 1, 100, 0) + pack(">i", 0)
    answer = pack(">ii", 0, 1) + string("topic") + pack(">iihqqi", 1, 0, 0, 5, 5, 0) + pack(">i", size) + records
    return Pair(request(1, 4, number, body), response(number, answer))


def golden(number: int, chosen: int) -> Pair:
    lines = [pair for pair in golden_pairs() if pair[0]["apiKey"] not in SASL]
    asked, answered = lines[chosen % len(lines)]
    sent, answer = bytearray.fromhex(asked["frameHex"]), bytearray.fromhex(answered["frameHex"])
    sent[8:12] = answer[4:8] = pack(">i", number)
    return Pair(bytes(sent), bytes(answer))


@st.composite
def pairs(draw: st.DrawFn, number: int) -> Pair:
    size = st.integers(0, 3_000) | st.integers(0, 200_000)
    kind = draw(st.sampled_from(["heartbeat", "golden", "produce", "acks=0", "fetch"]))
    if kind == "heartbeat":
        client = "c" * draw(st.sampled_from([3, 20, 600, 5_000]))
        return Pair(heartbeat(number, client_id=client), heartbeat_answer(number))
    if kind == "golden":
        return golden(number, draw(st.integers(0, 10_000)))
    if kind == "fetch":
        return large_fetch(number, draw(size))
    return large_produce(number, draw(size), 0 if kind == "acks=0" else 1, draw(st.sampled_from([0, 10, 700])))


@st.composite
def conversations(draw: st.DrawFn) -> list[Pair]:
    count = draw(st.integers(1, 60))
    return [draw(pairs(number)) for number in range(1, count + 1)]


class Heard(Observer):
    """All events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event, bodies: Any, *, shown: bool = True, line: bytes | None = None) -> None:
        self.events.append(event)


class Describes(Owner):
    """An owner whose connections the analyzer can open."""

    def describe(self, link: Link, from_start: bool) -> bytes:
        return msgspec.json.encode(Opened(link.number, "c", "127.0.0.1:5", "127.0.0.1:9092", from_start, True))


class Watched:
    """A ring, its reader, and the sessions that it feeds."""

    def __init__(self, size: int) -> None:
        self.fd = create_ring(size)
        self.writer = TapWriter(self.fd)
        self.heard = Heard()
        self.kept = 0
        self.attach()

    def attach(self) -> None:
        """Begin with a new reader, which knows nothing of what the one before has read."""
        self.reader = TapReader(self.fd)
        self.run = Run(Options(), [self.heard])
        self.decoder = TapDecoder(self.run.open_live("worker 0"))
        self.reader.attach()

        self.alive = True
        self.before = self.reader.settled[0]

    def read(self, most: int) -> None:
        if self.alive:
            self.decoder.decode(self.reader.read(most))

    def read_rest(self) -> None:
        self.read(1 << 20)
        while self.reader.waiting:
            self.read(1 << 20)

    def settle(self) -> None:
        """Write what was heard for good."""
        if self.alive:
            self.reader.settle(self.before + self.decoder.connections.requests)
            self.kept = len(self.heard.events)

    def die(self) -> None:
        """Forget what was not written for good."""
        self.alive = False
        del self.heard.events[self.kept :]

    def exchanges(self) -> list[Exchange]:
        return [event for event in self.heard.events if isinstance(event, Exchange)]


async def converse(bench: Bench, sent: list[Pair], chance: random.Random, between: Any) -> None:
    """Send requests and responses in pieces of any size, responses after their requests have arrived."""
    streams = [b"".join(pair.request for pair in sent), b"".join(pair.response or b"" for pair in sent)]
    allowed = [(0, 0)]  # bytes of requests after which so many bytes of responses may be sent
    for pair in sent:
        allowed.append((allowed[-1][0] + len(pair.request), allowed[-1][1] + len(pair.response or b"")))
    at = [0, 0]
    ends = (bench.client, bench.broker)
    received = [asyncio.ensure_future(bench.receive(ends[1 - side], len(streams[side]))) for side in (0, 1)]
    while at[0] < len(streams[0]) or at[1] < len(streams[1]):
        assert not bench.link.closed and not bench.owner.told
        side = chance.randrange(2)
        piece = chance.choice((1, 5, 13, 100, 3_000, 70_000, 250_000))
        if side:
            until = max(answers for asked, answers in allowed if asked <= at[0])
            piece = min(piece, until - at[1])
        data = streams[side][at[side] : at[side] + piece]
        if data:
            at[side] += len(data)
            await bench.send(ends[side], data)
            await bench.settled()
            between()
    assert await asyncio.gather(*received) == streams


def check(watched: Watched, bench: Bench, sent: list[Pair], *, others: int = 0) -> None:
    """Exchanges heard and left out are those that were sent, each as it was sent, and nothing else was said."""
    totals = bench.counters.totals()
    heard = watched.exchanges()
    assert len(heard) + sum(totals[total] for total in LEFT_OUT) + others == len(sent)
    assert [event for event in watched.heard.events if not isinstance(event, Exchange)] == []
    cut = 0
    for exchange in heard:
        assert exchange.correlation_id is not None
        pair = sent[exchange.correlation_id - 1]
        assert (exchange.unanswered, exchange.undecoded) == (None, None)
        assert exchange.expects_response == (pair.response is not None)
        for frame, bytes_ in ((exchange.request, pair.request), (exchange.response, pair.response)):
            assert (frame is None) == (bytes_ is None)
            if frame is not None and bytes_ is not None:
                assert frame.wire_size == len(bytes_)
                assert bytes_[4:].startswith(frame.data)
                assert bool(frame.cut) == (len(frame.data) + 4 < len(bytes_))
                cut += bool(frame.cut)
    if not totals[Total.LEFT_OUT_ANALYZER_RESTARTED]:
        assert totals[Total.BODIES_LEFT_OUT] == cut
    assert bench.worker.tapping is not None and bench.worker.tapping.faults == 0
    assert watched.writer.reserved_bytes == 0


@given(
    conversations(),
    st.sampled_from([65_536, 131_072, 1 << 20]),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.05, 0.5]),
)
def test_what_is_in_the_log_and_what_was_left_out_are_all_that_was_sent(
    sent: list[Pair], size: int, seed: int, reads: float
) -> None:
    async def work() -> None:
        watched = Watched(size)
        bench = Bench(Describes(), tap=watched.writer)
        chance = random.Random(seed)

        def between() -> None:
            if chance.random() < reads:
                watched.read(chance.randrange(1, 40))

        await converse(bench, sent, chance, between)
        bench.link.close(CloseCause.CLIENT_CLOSED)
        watched.read_rest()
        assert watched.writer.requests == len(watched.exchanges())
        check(watched, bench, sent)

    run(work)


@given(conversations(), st.sampled_from([65_536, 1 << 20]), st.integers(0, 2**32), st.booleans())
def test_what_a_reader_leaves_that_dies_is_counted_once_another_is_there(
    sent: list[Pair], size: int, seed: int, awaited: bool
) -> None:
    async def work() -> None:
        watched = Watched(size)
        bench = Bench(Describes(), tap=watched.writer)
        chance = random.Random(seed)

        def between() -> None:
            if chance.random() < 0.2:
                watched.read(chance.randrange(1, 40))
            if chance.random() < 0.05:
                watched.settle()
            if chance.random() < 0.05:
                watched.die()
                if awaited:
                    await_reader(watched.fd)
                else:
                    detach_reader(watched.fd)
            if not watched.alive and chance.random() < 0.3:
                watched.attach()

        await converse(bench, sent, chance, between)
        if not watched.alive:
            watched.attach()
        bench.link.close(CloseCause.CLIENT_CLOSED)
        watched.read_rest()
        watched.settle()
        watched.die()
        watched.attach()
        assert (
            bench.worker.tapping is not None and bench.worker.tapping.is_read()
        )  # which counts, as the next request would
        check(watched, bench, sent)

    run(work)
