"""Exporter: every item is exported, dropped or failed, once, whatever the collector does; and it is bounded."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproxy.errors import UsageError
from kproxy.options import OtlpEndpoint
from kproxy.proxy.otlp.exporter import (
    BATCH_BYTES,
    BATCH_ITEMS,
    MOST_ATTEMPTS,
    MOST_BYTES,
    MOST_ITEMS,
    Exporter,
    Exporters,
    MetricsExport,
)
from kproxy.proxy.otlp.transport import Delivered, Outcome, Refused, Unavailable
from tests.filters.telemetry.pushes import gauge, push
from tests.support.loops import LOOPS, run
from tests.support.otlp import http_collector

Act = Callable[[bytes], Awaitable[Outcome]]


class Scripted:
    """A transport that does what it is told, and keeps what it was sent."""

    def __init__(self, act: Act) -> None:
        self.bodies: list[bytes] = []
        self.closed = False
        self._act = act

    async def send(self, body: bytes) -> Outcome:
        self.bodies.append(body)
        return await self._act(body)

    def close(self) -> None:
        self.closed = True


def always(outcome: Outcome) -> Act:
    async def act(body: bytes) -> Outcome:
        await asyncio.sleep(0)
        return outcome

    return act


def joined(items: Iterable[bytes]) -> bytes:
    return b"".join(items)


async def exported(transport: Scripted, items: Iterable[bytes], reports: list[str] | None = None) -> Exporter:
    """Offer all at once, and end when all of it is decided."""
    told = [] if reports is None else reports
    exporter = Exporter(transport, joined, told.append, delay=0.01, first_backoff=0.001)
    count = sum(1 for item in items if exporter.offer(item) or True)
    while sum(exporter.counts.values()) < count:
        await asyncio.sleep(0.001)
    await exporter.close(10)
    assert sum(exporter.counts.values()) == count
    assert transport.closed
    return exporter


@pytest.mark.parametrize("loop", LOOPS)
def test_items_are_sent_in_their_order_in_batches(loop: str) -> None:
    transport = Scripted(always(Delivered()))
    items = [f"{number},".encode() for number in range(2 * BATCH_ITEMS + 10)]
    exporter = run(loop, exported(transport, items))
    assert exporter.counts == {"exported": len(items)}
    assert b"".join(transport.bodies) == b"".join(items)
    assert len(transport.bodies) == 3


def test_a_batch_is_bounded_by_bytes() -> None:
    transport = Scripted(always(Delivered()))
    run("asyncio", exported(transport, [bytes(BATCH_BYTES // 2 + 1)] * 5))
    assert [len(body) for body in transport.bodies] == [BATCH_BYTES // 2 + 1] * 5


@pytest.mark.parametrize(
    ("outcome", "counts", "attempts"),
    [
        (Delivered(3), {"exported": 7, "failed": 3}, 1),
        (Delivered(99), {"failed": 10}, 1),
        (Delivered(-5), {"exported": 10}, 1),
        (Refused("HTTP 400"), {"failed": 10}, 1),
        (Unavailable("down"), {"failed": 10}, MOST_ATTEMPTS),
    ],
)
def test_what_is_not_taken_is_counted(outcome: Outcome, counts: dict[str, int], attempts: int) -> None:
    transport, reports = Scripted(always(outcome)), list[str]()
    exporter = run("asyncio", exported(transport, [b"x"] * 10, reports))
    assert exporter.counts == counts
    assert transport.bodies == [b"x" * 10] * attempts
    assert len(reports) == ("failed" in counts)


def test_one_that_is_back_gets_the_same_batch() -> None:
    answers = iter([Unavailable("down"), Unavailable("down", 0.01), Delivered()])

    async def act(body: bytes) -> Outcome:
        return next(answers)

    transport = Scripted(act)
    assert run("asyncio", exported(transport, [b"x"] * 10)).counts == {"exported": 10}
    assert transport.bodies == [b"x" * 10] * 3


def test_a_fault_of_a_transport_costs_its_batch_alone() -> None:
    async def act(body: bytes) -> Outcome:
        if b"bad" in body:
            raise ValueError("secret")
        return Delivered()

    async def main() -> None:
        reports: list[str] = []
        exporter = Exporter(Scripted(act), joined, reports.append, delay=0.0)
        for item in (b"bad", b"good"):
            exporter.offer(item)
            before = sum(exporter.counts.values())
            while sum(exporter.counts.values()) == before:
                await asyncio.sleep(0.001)
        await exporter.close(1)
        assert exporter.counts == {"failed": 1, "exported": 1}
        assert reports == ["ValueError"]

    run("asyncio", main())


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_collector_that_hangs_costs_the_queue_and_no_more(loop: str) -> None:
    async def hang(body: bytes) -> Outcome:
        await asyncio.Event().wait()
        return Delivered()

    transport = Scripted(hang)
    exporter = Exporter(transport, joined, [].append, delay=0.0)
    exporter.offer(b"x", 2)
    while not transport.bodies:
        await asyncio.sleep(0)
    taken = [exporter.offer(b"x") for _ in range(MOST_ITEMS + 100)]
    assert taken == [True] * MOST_ITEMS + [False] * 100
    assert exporter.counts == {"dropped": 100}
    await exporter.close(0.05)
    assert exporter.counts == {"dropped": 100 + MOST_ITEMS + 2}
    assert not exporter.offer(b"x")
    assert transport.closed


def test_the_queue_is_bounded_by_bytes_too() -> None:
    async def main() -> None:
        exporter = Exporter(Scripted(always(Delivered())), joined, [].append, delay=60)
        assert exporter.offer(bytes(MOST_BYTES))
        assert not exporter.offer(b"x")
        await exporter.close(10)
        assert exporter.counts == {"dropped": 1, "exported": 1}

    run("asyncio", main())


def test_at_the_end_what_is_queued_is_sent() -> None:
    async def main() -> None:
        counted: list[tuple[str, int]] = []
        count = lambda outcome, items: counted.append((outcome, items))  # noqa: E731
        exporter = Exporter(Scripted(always(Delivered())), joined, [].append, count, delay=60)
        for _ in range(3 * BATCH_ITEMS):
            exporter.offer(b"x")
        await exporter.close(30)
        assert exporter.counts == {"exported": 3 * BATCH_ITEMS}
        assert counted == [("exported", BATCH_ITEMS)] * 3

    run("asyncio", main())


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_each_item_is_counted_once(seed: int) -> None:
    rng = random.Random(seed)

    async def act(body: bytes) -> Outcome:
        await asyncio.sleep(rng.random() * 0.002)
        if rng.random() < 0.1:
            raise RuntimeError
        return rng.choice([Delivered(), Delivered(rng.randrange(9)), Refused("no"), Unavailable("no")])

    async def main() -> None:
        exporter = Exporter(Scripted(act), joined, [].append, delay=0.001, first_backoff=0.0001)
        offered = 0
        for _ in range(300):
            for _ in range(rng.randrange(40)):
                count = rng.randrange(1, 4)
                offered += count
                exporter.offer(bytes(rng.randrange(20_000)), count)
            await asyncio.sleep(rng.random() * 0.001)
        await exporter.close(rng.random() * 0.1)
        assert sum(exporter.counts.values()) == offered

    run("asyncio", main())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("after", [0, 0.005, 0.05])
async def test_a_loop_that_ends_takes_an_open_exporter_with_it(loop: str, after: float) -> None:
    exporter = Exporter(Scripted(always(Delivered())), joined, [].append, delay=0.005)
    exporter.offer(b"x")
    ending = asyncio.ensure_future(exporter.close(10))
    await asyncio.sleep(after)
    assert not ending.cancelled()


def used(exporters: Exporters, address: str, counts: Counter[str], cluster: str = "a") -> MetricsExport:
    def count(outcome: str, messages: int) -> None:
        counts[outcome] += messages

    return exporters.use(cluster, OtlpEndpoint(otlp=address), report=[].append, count=count)


@pytest.mark.parametrize("loop", LOOPS)
def test_messages_of_all_users_arrive_as_they_are(loop: str) -> None:
    pushes = [push(gauge(f"metric.{number}", float(number))) for number in range(20)]

    async def main(address: str) -> None:
        exporters, counts = Exporters(), Counter[str]()
        one, other = used(exporters, address, counts), used(exporters, address, counts)
        for at, data in enumerate(pushes):
            assert (one, other)[at % 2].offer(data)
        one.close()
        one.close()  # once more is nothing
        assert other.offer(pushes[0])
        other.close()
        assert not other.offer(pushes[0])
        await exporters.close(30)
        assert counts == {"exported": 21, "dropped": 1}

    with http_collector() as collector:
        run(loop, main(collector.address))
        expected = [MetricsData.FromString(data).resource_metrics[0] for data in [*pushes, pushes[0]]]
        assert [metrics for _, metrics in collector.resources()] == expected


def test_after_the_last_user_another_exporter_is_opened() -> None:
    async def main(address: str) -> None:
        exporters, counts = Exporters(), Counter[str]()
        first = used(exporters, address, counts)
        first.offer(push())
        first.close()
        second = used(exporters, address, counts)
        second.offer(push(gauge("m", 1.0)))
        await exporters.close(30)
        second.close()
        assert counts == {"exported": 2}

    with http_collector() as collector:
        run("asyncio", main(collector.address))


def test_the_end_does_not_wait_for_a_collector_that_hangs() -> None:
    async def main(address: str) -> None:
        exporters, counts = Exporters(), Counter[str]()
        for cluster in ("a", "b"):
            used(exporters, address, counts, cluster).offer(push())
        await exporters.close(0.2)
        assert counts == {"dropped": 2}

    with http_collector() as collector:
        collector.hang = threading.Event()
        run("uvloop", main(collector.address))


def test_an_endpoint_that_cannot_be_used_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(UsageError):
            Exporters().use(
                "a",
                OtlpEndpoint(otlp="https://c:1", ca="/no/such"),
                report=[].append,
                count=lambda outcome, count: None,
            )
        await asyncio.wait_for(Exporters().close(1), 10)

    run("asyncio", main())
