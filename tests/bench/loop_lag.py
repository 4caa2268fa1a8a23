"""How long one turn of the event loop takes while something big passes: `python -m tests.bench.loop_lag`.

Prints the longest turn, in wall time and in CPU time of the loop's thread, as other processes of a busy machine lengthen the
first. The same without the thread for large frames (kproxy.proxy.codec_thread) is beside it where that makes a difference.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Forward, Replace
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.proxy.codec_thread import end_codec_thread, in_codec_thread
from tests.filters.test_rewrite_addresses import coordinators
from tests.proxy.forwarding.test_responses import metadata_with_partitions
from tests.support.filtering import Scripted, Served, response_frame
from tests.support.links import Bench, Judge, request, run


class Probe:
    """The longest time between two calls that the loop makes every millisecond."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.wall = self.cpu = 0.0
        self.at = time.perf_counter(), time.thread_time()
        self.note()

    def note(self) -> None:
        now = time.perf_counter(), time.thread_time()
        self.wall, self.cpu = max(self.wall, now[0] - self.at[0]), max(self.cpu, now[1] - self.at[1])
        self.at = now
        self.loop.call_later(0.001, self.note)


def feed(bench: Bench, frame: bytes) -> None:
    broker = bench.broker.dup()
    broker.setblocking(True)
    broker.sendall(frame)
    broker.close()


def drain(bench: Bench, done: threading.Event) -> None:
    """Read a whole response; its size is that of the frame as rewritten."""
    client = bench.client.dup()
    client.setblocking(True)
    left = int.from_bytes(client.recv(4), "big")
    while left:
        left -= len(client.recv(min(left, 1 << 20)))
    client.close()
    done.set()


def measure(name: str, api_key: int, version: int, frame: bytes, filters: Callable[[], list[Any]]) -> None:
    for way in (in_codec_thread, None):

        async def work(way: Any = way) -> None:
            judge = Judge(Chain(filters(), in_thread=way), Served())
            bench = Bench(judge, judge.chain)
            await bench.send(bench.client, request(api_key, version, 7, bytes(20)))
            await bench.settled()
            done = threading.Event()
            peers = [
                threading.Thread(target=feed, args=(bench, frame)),
                threading.Thread(target=drain, args=(bench, done)),
            ]
            probe = Probe()
            for peer in peers:
                peer.start()
            while not done.is_set():
                await asyncio.sleep(0.002)
            for peer in peers:
                peer.join()
            beside = "" if way else ", without the thread"
            print(
                f"{name}{beside}: longest turn {probe.cpu * 1e3:.1f} ms of CPU, {probe.wall * 1e3:.1f} ms in all",
                flush=True,
            )

        run(work)


def main() -> None:
    """Measure each case."""
    for size in (5_300_000, 30_000_000, 100_000_000):
        frame = response_frame(3, 9, metadata_with_partitions(size))
        measure(f"Metadata of {size / 1e6:g} MB, rewritten", 3, 9, frame, lambda: [RewriteAddresses()])
    frame = response_frame(3, 9, metadata_with_partitions(5_300_000))
    for verdict, judge in (("sees", lambda _: Forward()), ("replaces", lambda response: Replace(response.message))):
        measure(
            f"Metadata of 5.3 MB that a filter {verdict}",
            3,
            9,
            frame,
            lambda judge=judge: [RewriteAddresses(), Scripted(judge, responses=(3,))],
        )
    frame = response_frame(10, 4, coordinators(100_000, 5))
    measure("FindCoordinator of 100,000 groups", 10, 4, frame, lambda: [RewriteAddresses()])
    end_codec_thread()


if __name__ == "__main__":
    main()
