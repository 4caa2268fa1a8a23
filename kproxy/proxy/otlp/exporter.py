"""Exporter: a bounded queue of encoded items, which a task of the event loop sends in batches.

Each item is counted once, as

    dropped    the queue is full, or the process ends before there was time to send it
    exported   the collector took it
    failed     the collector refused it, or was unavailable MOST_ATTEMPTS times

While a batch waits for another attempt the queue fills; that is the memory that an unavailable collector costs.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from kproxy.options import OtlpEndpoint
from kproxy.proxy.otlp.transport import Delivered, Refused, Transport, Unavailable, transport_to

EXPORTED, DROPPED, FAILED = "exported", "dropped", "failed"
OUTCOMES = (EXPORTED, DROPPED, FAILED)
MOST_ITEMS = 4_096  # in the queue
MOST_BYTES = 8 << 20
BATCH_ITEMS = 512
BATCH_BYTES = 1 << 20
DELAY_S = 1.0  # after the first item of a batch, to wait for others
MOST_ATTEMPTS = 5
FIRST_BACKOFF_S, MOST_BACKOFF_S = 1.0, 30.0
REPORT_EVERY_S = 60.0

Item = tuple[bytes, int]  # encoded; how many it counts for


class Exporter:
    """Exports until it is closed.

    Args:
        transport: sends requests; closed with the exporter.
        request_of: makes a request of encoded items.
        report: called with why items could not be exported, at most every REPORT_EVERY_S.
        count: called with an outcome (OUTCOMES) and its number of items; ``counts`` has the sums.
    """

    def __init__(
        self,
        transport: Transport,
        request_of: Callable[[Iterable[bytes]], bytes],
        report: Callable[[str], None],
        count: Callable[[str, int], object] = lambda outcome, count: None,
        *,
        delay: float = DELAY_S,
        first_backoff: float = FIRST_BACKOFF_S,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._on_count = count
        self._transport = transport
        self._request_of = request_of
        self._report = report
        self._delay = delay
        self._first_backoff = first_backoff
        self._queue: deque[Item] = deque()
        self._queued_bytes = 0
        self._in_flight = 0  # items of the batch that is being sent
        self._filled = asyncio.Event()  # there is an item
        self._batch_ready = asyncio.Event()  # a batch is full, or the end has come
        self._closing = False
        self._reported_at = -REPORT_EVERY_S
        self._task = asyncio.get_running_loop().create_task(self._run(), name="export")

    def offer(self, encoded: bytes, count: int = 1) -> bool:
        """Queue an item, which counts for *count*; return True if it was queued, False if it was dropped. Never waits."""
        if self._closing or len(self._queue) >= MOST_ITEMS or self._queued_bytes + len(encoded) > MOST_BYTES:
            self._count(DROPPED, count)
            return False
        self._queue.append((encoded, count))
        self._queued_bytes += len(encoded)
        self._filled.set()
        if len(self._queue) >= BATCH_ITEMS or self._queued_bytes >= BATCH_BYTES:
            self._batch_ready.set()
        return True

    def end(self) -> None:
        """Take no more items; those offered from now on are dropped."""
        self._closing = True
        self._filled.set()
        self._batch_ready.set()

    async def close(self, seconds: float) -> None:
        """Send what is queued, for at most *seconds*; what is left then is dropped."""
        self.end()
        await asyncio.wait([self._task], timeout=seconds)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._count(DROPPED, self._in_flight + sum(count for _, count in self._queue))
        self._in_flight = 0
        self._queue.clear()
        self._transport.close()

    async def _run(self) -> None:
        """Send batches until the exporter is closed and its queue empty."""
        while self._queue or not self._closing:
            await self._filled.wait()
            if not self._closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._delay):  # wait_for may swallow a cancellation before Python 3.12
                        await self._batch_ready.wait()
            batch = self._take()
            if batch:
                self._in_flight = sum(count for _, count in batch)
                await self._export(batch)
                self._in_flight = 0

    def _take(self) -> list[Item]:
        """Take the next batch from the queue."""
        batch: list[Item] = []
        size = 0
        while self._queue and len(batch) < BATCH_ITEMS and (not batch or size + len(self._queue[0][0]) <= BATCH_BYTES):
            batch.append(self._queue.popleft())
            size += len(batch[-1][0])
        self._queued_bytes -= size
        if not self._closing:
            if not self._queue:
                self._filled.clear()
            if len(self._queue) < BATCH_ITEMS and self._queued_bytes < BATCH_BYTES:
                self._batch_ready.clear()
        return batch

    async def _export(self, batch: list[Item]) -> None:
        """Send a batch, several times if need be. Never raises, so that the next batch gets its turn."""
        try:
            body = self._request_of(encoded for encoded, _ in batch)
            await self._send(body)
        except Exception as error:  # a fault here must not end the exporter; its text may quote what was sent
            self._fail(type(error).__name__)

    async def _send(self, body: bytes) -> None:
        """Send a request until it is delivered, refused, or tried too often; count its items."""
        reason = ""
        for attempt in range(MOST_ATTEMPTS):
            outcome = await self._transport.send(body)
            match outcome:
                case Delivered(rejected):
                    rejected = min(max(rejected, 0), self._in_flight)
                    self._count(EXPORTED, self._in_flight - rejected)
                    self._in_flight = rejected
                    if rejected:
                        self._fail(f"the collector rejected {rejected:,}")
                    return
                case Refused(reason):
                    break
                case Unavailable(reason, after):
                    self._report_seldom(reason)
            if attempt + 1 < MOST_ATTEMPTS:
                backoff = min(self._first_backoff * 2**attempt, MOST_BACKOFF_S) * random.uniform(0.5, 1.5)
                await asyncio.sleep(max(backoff, after))
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        self._count(FAILED, self._in_flight)
        self._in_flight = 0
        self._report_seldom(reason)

    def _report_seldom(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = now
            self._report(reason)

    def _count(self, outcome: str, count: int) -> None:
        if count:
            self.counts[outcome] += count
            self._on_count(outcome, count)


FLUSH_S = 3.0  # longest time for which an exporter that is not used any more sends what is queued
Key = tuple[str, bytes]


class Exporters:
    """Exporters by virtual cluster and endpoint, each for as long as a filter uses it."""

    def __init__(self) -> None:
        self._open: dict[Key, Exporter] = {}
        self._users: dict[Key, int] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def use(
        self,
        cluster: str,
        endpoint: OtlpEndpoint,
        *,
        report: Callable[[str], None],
        count: Callable[[str, int], object],
    ) -> "MetricsExport":
        """Return a handle on the exporter of an endpoint; *report* and *count* (outcome, items) are those it was opened with.

        Raises UsageError if the endpoint cannot be used.
        """
        key = cluster, msgspec.json.encode(endpoint)
        if key not in self._open:
            # MetricsData messages in a row are one ExportMetricsServiceRequest: both have resource_metrics as field 1
            self._open[key] = Exporter(transport_to(endpoint, "metrics"), b"".join, report, count)
        self._users[key] = self._users.get(key, 0) + 1
        return MetricsExport(self._open[key], lambda: self._release(key))

    async def close(self, seconds: float) -> None:
        """Send what is queued anywhere, for at most *seconds*, and close all."""
        opened, self._open = self._open, {}
        self._users.clear()
        tasks = [*self._ending, *(asyncio.ensure_future(exporter.close(seconds)) for exporter in opened.values())]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds + 1)

    def _release(self, key: Key) -> None:
        """Note that a filter is done with an exporter; close it after the last one."""
        if key not in self._open:
            return
        self._users[key] -= 1
        if self._users[key] == 0:
            del self._users[key]
            exporter = self._open.pop(key)
            exporter.end()
            ending = asyncio.get_running_loop().create_task(exporter.close(FLUSH_S), name="end of export")
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)


class MetricsExport:
    def __init__(self, exporter: Exporter, release: Callable[[], None]) -> None:
        self._exporter = exporter
        self._release: Callable[[], None] | None = release

    def offer(self, data: bytes) -> bool:
        return self._exporter.offer(data)

    def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()
