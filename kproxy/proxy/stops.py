"""Stops: the messages that breakpoints have stopped in one worker (kproxy.filters.breakpoints).

A stop ends with the first of these: a person decides (Decide, ResumeAll); its time is over; the client, the broker or kproxy
closes the connection (ClosedPeers); the worker drains; a new configuration forbids edits or removes the cluster. Until then the
connection waits. A message that no person decided about goes on unchanged, and the supervisor is sent the reason. At most
page.most_stops messages, of page.most_stopped_size bytes together, are held; others pass, and filters count them.

The stops of a worker outlive a reload of the configuration: they wait with the chain of filters that was in use when they began.
"""

import asyncio
import contextlib
import itertools
import os
import select
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import msgspec

from kproxy.config.structs import Page
from kproxy.filters.breakpoints.decision import MOST_HOLD_S, WHYS, Action, Decision, Why
from kproxy.filters.breakpoints.decision import Stopped as StoppedMessage
from kproxy.filters.breakpoints.editing import MOST_TEXT_SIZE
from kproxy.protocol.facts import facts
from kproxy.proxy.logs import log
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

ACTIONS: tuple[Action, ...] = ("resume", "replace", "error", "drop", "close")
GONE = "it is not stopped any more"
Sockets = tuple[int, int]  # file descriptors of a connection: the client's and the broker's; -1: there is none
NO_SOCKETS: Sockets = (-1, -1)
CLOSED: tuple[Why, Why] = ("client closed", "broker closed")
TOO_MUCH_TIME = f"a message is stopped for at most {MOST_HOLD_S:g} s"


@dataclass(slots=True)
class Held:
    """One stopped message."""

    stop: Stop
    body: bytes
    decision: asyncio.Future[Decision]
    began: float  # loop time
    timer: asyncio.TimerHandle
    sockets: Sockets


class Stops:
    """The stopped messages of a worker process.

    Args:
        worker: its number.
        send: sends a message to the supervisor.
    """

    def __init__(self, worker: int, send: Callable[[Message], None]) -> None:
        self._worker = worker
        self._send = send
        self._page = Page()
        self._held: dict[str, Held] = {}
        self._size = 0
        self._numbers = itertools.count(1)
        self._parts: dict[int, bytearray] = {}  # of messages that replace stopped ones, by question
        self._draining = False
        self._peers = ClosedPeers()

    def configure(self, page: Page) -> None:
        """Use these settings; if they forbid edits, let all stopped messages go on."""
        self._page = page
        if not page.edits:
            self.resume_all(why="edits off")

    def give_up(self, cluster: str, condition: str, direction: str, why: str) -> None:
        log(
            "warning",
            "a breakpoint is not asked any more",
            cluster=cluster,
            fields=[f"{direction}: {condition}"],
            reason=why,
        )
        self._send(BreakpointGivenUp(condition, direction, why))

    def drain(self) -> None:
        """Let all stopped messages go on, and stop no more."""
        self._draining = True
        self.resume_all(why="draining")

    def resume_all(self, by: str = "", why: Why = "", cluster: str | None = None) -> None:
        """Let all stopped messages go on unchanged, or all of one cluster."""
        for held in list(self._held.values()):
            if cluster is None or held.stop.cluster == cluster:
                self._end(held, Decision("resume", by, why=why))

    def of_cluster(
        self, cluster: str, sockets_of: Callable[[int], Sockets] = lambda number: NO_SOCKETS
    ) -> "ClusterStops":
        """Return the Holder of a virtual cluster; *sockets_of* returns the sockets of a connection by its number."""
        return ClusterStops(self, cluster, sockets_of)

    def hold(self, stopped: StoppedMessage, sockets: Sockets = NO_SOCKETS) -> Awaitable[Decision] | str:
        if self._draining:
            return "draining"
        size = len(stopped.body)
        if size > MOST_TEXT_SIZE:
            return "too large"
        if len(self._held) >= self._page.most_stops or self._size + size > self._page.most_stopped_size:
            return "too many"
        loop = asyncio.get_running_loop()
        stop = self._stop(stopped)
        timer = loop.call_later(self._page.hold, self._end_by_id, stop.id, "time over")
        held = Held(stop, stopped.body, loop.create_future(), loop.time(), timer, sockets)
        self._held[stop.id] = held
        self._size += size
        held.decision.add_done_callback(lambda _: self._forget(stop.id, Decision("resume", why="connection closed")))
        for fd, why in zip(sockets, CLOSED, strict=True):
            self._peers.watch(fd, stop.id, lambda why=why: self._end_by_id(stop.id, why))  # type: ignore[misc]
        self._send(Stopped(stop))
        return held.decision

    def release(self, cluster: str, connection: int) -> None:
        """Let the stopped messages of a connection go on, as it is closed."""
        for held in list(self._held.values()):
            if (held.stop.cluster, held.stop.connection) == (cluster, connection):
                self._end(held, Decision("resume", why="connection closed"))

    def handle(self, message: ShowStop | Decide | ResumeAll) -> None:
        """Do what the supervisor asks, and answer."""
        match message:
            case ResumeAll(by, why):
                self.resume_all(by, next((one for one in WHYS if one == why), ""))
            case ShowStop(question, id_):
                for answer in self._shown(question, id_):
                    self._send(answer)
            case Decide(question):
                parts = self._parts.pop(question, bytearray()) + message.part
                if len(parts) > MOST_TEXT_SIZE + STOP_PART:
                    self._send(StopAnswer(question, refused="the message is too large"))
                elif message.more:
                    self._parts[question] = parts
                else:
                    self._send(StopAnswer(question, refused=self._decide(message, bytes(parts))))

    def _decide(self, message: Decide, body: bytes) -> str:
        """Apply a person's decision. Return "", or why that is not possible."""
        held = self._held.get(message.id)
        if held is None:
            return GONE
        if message.action == "keep":
            return self._keep(held, message.seconds)
        action = next((one for one in ACTIONS if one == message.action), None)
        if action is None:
            return f"there is no action {message.action!r}"
        self._end(held, Decision(action, message.by, body, message.error))
        return ""

    def _keep(self, held: Held, seconds: float) -> str:
        """Hold a message for *seconds* more, up to MOST_HOLD_S in all. Return "", or why that is not possible."""
        loop = asyncio.get_running_loop()
        until = min(loop.time() + max(seconds, 0.0), held.began + MOST_HOLD_S)
        if until <= held.timer.when():
            return TOO_MUCH_TIME if held.timer.when() >= held.began + MOST_HOLD_S else ""
        held.timer.cancel()
        held.timer = loop.call_at(until, self._end_by_id, held.stop.id, "time over")
        resumes = round((time.time() + until - loop.time()) * 1_000)
        held.stop = msgspec.structs.replace(held.stop, resumes_ms=resumes)
        self._send(Stopped(held.stop))
        return ""

    def _shown(self, question: int, id_: str) -> Iterator[StopAnswer]:
        held = self._held.get(id_)
        if held is None:
            yield StopAnswer(question, refused=GONE)
            return
        for start in range(0, len(held.body) or 1, STOP_PART):
            part = held.body[start : start + STOP_PART]
            yield StopAnswer(question, part, start + STOP_PART < len(held.body))

    def _end_by_id(self, id_: str, why: Why) -> None:
        held = self._held.get(id_)
        if held is not None:
            self._end(held, Decision("resume", why=why))

    def _end(self, held: Held, decision: Decision) -> None:
        if not held.decision.done():
            held.decision.set_result(decision)
        self._forget(held.stop.id, decision)

    def _forget(self, id_: str, decision: Decision) -> None:
        """Forget a stop, even if the task that waited for it was cancelled."""
        held = self._held.pop(id_, None)
        if held is not None:
            held.timer.cancel()
            self._size -= len(held.body)
            for fd in held.sockets:
                self._peers.forget(fd, id_)
            self._send(StopEnded(id_, decision.action, decision.by, decision.why))

    def _stop(self, stopped: StoppedMessage) -> Stop:
        now = time.time()
        connection = stopped.connection
        return Stop(
            id=f"{self._worker}-{os.getpid()}-{next(self._numbers)}",
            cluster=connection.cluster,
            connection=connection.number,
            client=connection.client,
            broker=connection.broker,
            principal=connection.principal,
            client_id=stopped.client_id,
            direction=stopped.direction,
            api_key=stopped.api_key,
            api_version=stopped.api_version,
            correlation_id=stopped.correlation_id,
            size=len(stopped.body),
            condition=stopped.condition,
            expects_response=stopped.expects_response,
            can_fail=stopped.can_fail,
            stopped_ms=round(now * 1_000),
            resumes_ms=round((now + self._page.hold) * 1_000),
        )


class ClusterStops:
    """The Holder of the filter of one virtual cluster."""

    def __init__(self, stops: Stops, cluster: str, sockets_of: Callable[[int], Sockets]) -> None:
        self._stops = stops
        self._cluster = cluster
        self._sockets_of = sockets_of

    def hold(self, stopped: StoppedMessage) -> Awaitable[Decision] | str:
        return self._stops.hold(stopped, self._sockets_of(stopped.connection.number))

    def release(self, connection: int) -> None:
        self._stops.release(self._cluster, connection)

    def give_up(self, condition: str, direction: str, why: str) -> None:
        self._stops.give_up(self._cluster, condition, direction, why)

    def note(self, stopped: StoppedMessage, decision: Decision, changed: list[str], refused: str) -> None:
        connection = stopped.connection
        event = "a person's change was not made" if refused else "changed at a breakpoint"
        log(
            "warning",
            event,
            cluster=self._cluster,
            connection=connection.number,
            client=connection.client,
            client_id=stopped.client_id,
            api_name=facts().apis[stopped.api_key].name,
            api_version=stopped.api_version,
            correlation_id=stopped.correlation_id,
            direction=stopped.direction,
            action=decision.action,
            by=decision.by,
            fields=changed,
            **({"reason": refused} if refused else {}),
        )


Closed = Callable[[], None]


class ClosedPeers:
    """Calls back when the other side of a socket has closed it, without reading what else it has sent.

    A connection with a stopped message is not read, so its end would only be noticed after the stop. This is an epoll of its own
    that waits for nothing but the end (EPOLLRDHUP), and exists only while a socket is watched. A socket may have several keys,
    each with its own callback.
    """

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._watched: dict[int, dict[str, Closed]] = {}  # file descriptor -> key -> what is called

    def watch(self, fd: int, key: str, closed: Closed) -> None:
        """Call *closed* once the other side has closed, at the earliest in the next turn of the loop. -1: there is no socket."""
        if fd < 0:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._run)
        with contextlib.suppress(FileExistsError):  # it is watched for something else as well
            self._epoll.register(fd, select.EPOLLRDHUP)
        self._watched.setdefault(fd, {})[key] = closed

    def forget(self, fd: int, key: str) -> None:
        """Stop watching a socket under this key; the socket may be closed already."""
        keys = self._watched.get(fd)
        if keys is None or keys.pop(key, None) is None or keys:
            return
        del self._watched[fd]
        if self._epoll is None:
            return
        with contextlib.suppress(OSError):  # a closed one is not in the epoll any more
            self._epoll.unregister(fd)
        if not self._watched:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _run(self) -> None:
        """Call back for sockets that have ended. Each key is forgotten first, as epoll reports a closed socket forever."""
        assert self._epoll is not None
        for fd, _ in self._epoll.poll(0):
            for key, closed in list(self._watched.get(fd, {}).items()):
                self.forget(fd, key)
                closed()
