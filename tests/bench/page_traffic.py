"""What the live page costs the traffic: round trips at a fixed rate, through a proxy whose page is open and one whose is not.

    python -m tests.bench.page_traffic [--rate 20000] [--seconds 5] [--rounds 5]

Heartbeats are sent on CONNECTIONS connections every millisecond, whether or not earlier ones were answered; a round trip counts
from the moment at which its request was due. The rounds go in turn to haproxy, to a proxy whose page nobody opened, and to one
whose page asks once a second for what a browser asks for. Printed are the medians of the rounds' own percentiles, the CPU
microseconds and context switches an exchange of workers, analyzer and page, and how many exchanges the page has seen or knows
that it left out: all.
On a machine whose cores are busy with other things, the three differ by that.

On two cores that other work filled too, the 99th percentile was 6 ms through haproxy, 14 with the page closed, 18 with it open,
and differed between runs by more than that: an idle machine has to say what the page adds.
"""

import json
import multiprocessing
import select
import socket
import statistics
import struct
import tempfile
import threading
import time
import urllib.request
from collections import deque
from contextlib import ExitStack, suppress
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

from tests.bench.filters import HEARTBEAT, Frames, answered, asked
from tests.bench.forwarding import HAPROXY, HOST, our_haproxy
from tests.bench.measuring import cpu_of, options_of, switches
from tests.bench.scale import serving
from tests.support.haproxy import haproxy
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.ports import free_ports
from tests.support.sockets import address

CONNECTIONS = 8
TICK_S = 0.001
REQUEST = asked(HEARTBEAT, group_id="group-of-the-bench", member_id="member-1")
ANSWER = answered(HEARTBEAT)
VIEWS = ("exchanges?limit=100", "activity?by=api", "source")


def echo(answers: dict[int, bytes], listener: socket.socket) -> None:
    """A broker: heartbeats that come together are answered together, as reading each would take the core of what is measured."""

    def serve(connected: socket.socket) -> None:
        frames = Frames(connected)
        with suppress(OSError, EOFError):
            while True:
                data = connected.recv(1 << 16, socket.MSG_PEEK)
                count = len(data) // len(REQUEST)
                if count and data.startswith(REQUEST * count):
                    connected.recv(count * len(REQUEST))
                    connected.sendall(ANSWER * count)
                elif data:
                    api_key, _, number = frames.next(8)
                    answer = answers[api_key]
                    connected.sendall(answer[:4] + struct.pack(">i", number) + answer[8:])
                else:
                    return

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def send(where: str, rate: int, seconds: float, results: Any) -> None:
    """Send so many requests a second; put the round trips, in seconds and sorted."""
    sockets = [socket.create_connection(address(where)) for _ in range(CONNECTIONS)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    due: dict[int, deque[float]] = {each.fileno(): deque() for each in sockets}
    left: dict[int, bytes] = {each.fileno(): b"" for each in sockets}
    by_fd = {each.fileno(): each for each in sockets}
    poller = select.poll()
    for each in sockets:
        poller.register(each, select.POLLIN)
    share = REQUEST * max(1, round(rate * TICK_S / CONNECTIONS))
    each_tick = len(share) // len(REQUEST)
    tick = each_tick * CONNECTIONS / rate
    trips: list[float] = []
    at, until = time.monotonic(), time.monotonic() + seconds
    while at < until or any(due.values()):
        now = time.monotonic()
        while at <= now and at < until:
            for each in sockets:
                each.sendall(share)
                due[each.fileno()].extend([at] * each_tick)
            at += tick
        for fd, _ in poller.poll(max(0.0, (at - time.monotonic()) * 1e3) if at < until else 1e3):
            data = left[fd] + by_fd[fd].recv(1 << 16)
            count, now = len(data) // len(ANSWER), time.monotonic()
            left[fd] = data[count * len(ANSWER) :]
            waiting = due[fd]
            trips += [now - waiting.popleft() for _ in range(count)]
    results.put(sorted(trips))


class Browser:
    """Asks once a second for what an open page asks for."""

    def __init__(self, url: str) -> None:
        self._at = url.partition("?")[0].rstrip("/")
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self._opener.open(url, timeout=60).read()
        self._stop = threading.Event()
        threading.Thread(target=self._ask, daemon=True).start()

    def get(self, path: str) -> Any:
        return json.loads(self._opener.open(f"{self._at}/page/api/{path}", timeout=60).read())

    def stop(self) -> None:
        self._stop.set()

    def _ask(self) -> None:
        while not self._stop.wait(1.0):
            for path in VIEWS:
                self.get(path)


def measure(where: str, rate: int, seconds: float, pids: dict[str, list[int]]) -> list[float]:
    """One round: p50 and p99 in ms; CPU microseconds an exchange of each group of processes; its context switches; the count."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    before = [(cpu_of(each), switches(each)) for each in pids.values()]
    process = context.Process(target=send, args=(where, rate, seconds, results))
    process.start()
    trips = results.get(timeout=seconds + 120)
    process.join()
    time.sleep(1.5)  # the analyzer and the page end what they have
    count, pairs = len(trips), list(zip(pids.values(), before, strict=True))
    spent = [(cpu_of(each) - cpu) / count * 1e6 for each, (cpu, _) in pairs]
    switched = [(switches(each) - was) / count for each, (_, was) in pairs]
    return [trips[count // 2] * 1e3, trips[count * 99 // 100] * 1e3, *spent, *switched, count]


def main() -> None:
    given = options_of(__doc__, rate=20_000, seconds=5.0, rounds=5)
    with tempfile.TemporaryDirectory(prefix="kproxy-") as name, ExitStack() as stack:
        folder, listener = Path(name), socket.create_server((HOST, 0), backlog=64)
        broker = f"{HOST}:{listener.getsockname()[1]}"
        known = serving(1)
        known.answers = _with_port(known.answers, address(known.address)[1], listener.getsockname()[1])
        context = multiprocessing.get_context("fork")
        process = context.Process(target=echo, args=(known.answers, listener), daemon=True)
        process.start()
        stack.callback(process.kill)
        port = free_ports()
        text = f"global\n nbthread 1\n{HAPROXY.format(listen=f'{HOST}:{port}', broker=broker)}"
        stack.enter_context(haproxy(folder, text, port))
        sides = {"haproxy": (f"{HOST}:{port}", {"worker": our_haproxy()[-1:]})}
        for side in ("page closed", "page open"):
            proxy = Proxy(folder / side.replace(" ", "-"), [cluster([broker])])
            stack.callback(proxy.close)
            proxy.start().analyzing()
            pids = {"worker": proxy.workers(), "analyzer": proxy.named("kproxy-analyzer")}
            sides[side] = (proxy.bootstrap(), pids)
        browser = Browser(proxy.page_url())
        stack.callback(browser.stop)
        eventually(lambda: browser.get("source")["seen"] >= 0, what="the page")
        pids["page"] = proxy.named("kproxy.page.live") or proxy.named("kproxy: page")
        rows: dict[str, list[list[float]]] = {side: [] for side in sides}
        for _ in range(given.rounds):
            for side, (where, processes) in sides.items():
                rows[side].append(measure(where, given.rate, given.seconds, processes))
        for side, measured in rows.items():
            p50, p99, *costs, _ = (statistics.median(column) for column in zip(*measured, strict=True))
            groups = sides[side][1]
            shown = [
                f"{what} {spent:.1f} ({switched:.2f})"
                for what, spent, switched in zip(groups, costs, costs[len(groups) :], strict=False)
            ]
            line = f"{side:<12} p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  µs (switches) an exchange: {', '.join(shown)}"
            print(line, flush=True)
        sent = sum(row[-1] for row in rows["page open"])
        with suppress(TimeoutError):
            eventually(lambda: browser.get("source")["seen"] >= sent, patience=30, what="all exchanges")
        source, lost = browser.get("source"), proxy.count("kproxy_analysis_lost_bytes")
        held = ", ".join(f"{source[what]:,} {what}" for what in ("exchanges", "left", "dropped"))
        print(f"of {sent:,.0f} the open page has seen {source['seen']:,}: {held}; the tap lost {lost:,.0f} bytes")


def _with_port(answers: dict[int, bytes], ours: int, theirs: int) -> dict[int, bytes]:
    """The answers with another port in them."""
    return {key: answer.replace(struct.pack(">i", ours), struct.pack(">i", theirs)) for key, answer in answers.items()}


if __name__ == "__main__":
    main()
