"""One bootstrap address of ours in front of the brokers of one Kafka cluster, in one worker: listeners, plan, targets, links.

A link whose two sides are plain sockets, and whose broker's address is a number, is made and connected by its acceptor
alone; this class is asked whether it may be, and told how it ended. Every other link begins in opening.py.
"""

import asyncio
import os
import random
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from kproxy.config import Cluster, Config
from kproxy.errors import UpstreamError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts, Direction
from kproxy.filters.loading import load_chain
from kproxy.protocol import facts
from kproxy.proxy.admission import Admission
from kproxy.proxy.brokers import BrokerTable
from kproxy.proxy.discovery import discover
from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.sockets import Acceptor, close_sockets
from kproxy.proxy.forwarding.streams import close_legs
from kproxy.proxy.instead import spoken_instead
from kproxy.proxy.lingering import Lingering
from kproxy.proxy.logs import log
from kproxy.proxy.messages import Brokers, Connection, Message
from kproxy.proxy.network.endpoint import join, split
from kproxy.proxy.network.listening import ListenError, endpoint_of, listen, sockaddr
from kproxy.proxy.opening import Opening
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.tapped import Opened
from kproxy.proxy.verdicts import Verdicts

ACCEPT_PAUSE_S = 0.1  # when the process has no file descriptor left
REDISCOVER_S = 5.0
AIMED_NS = 5_000_000_000


class VirtualCluster(Verdicts):
    """The owner of its links: what Cython asks and tells is answered here.

    Args:
        cluster, config: what it is, and the limits and timeouts it shares with others.
        worker: what all links of the process share.
        admission: whether one more client may come.
        send: sends what it learned of brokers to the supervisor.
    """

    def __init__(
        self, cluster: Cluster, config: Config, worker: Worker, admission: Admission, send: Callable[[Message], None]
    ) -> None:
        super().__init__(Chain(()))
        self.worker = worker
        self.admission = admission
        self._send = send
        self._listeners: dict[int | None, tuple[Acceptor, socket.socket]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.lingering = Lingering()
        self.accepting = False
        self.stopped = False
        self._why_unknown = ""
        self.brokers = BrokerTable(
            cluster.addresses,
            split(cluster.listen),
            serve=self._serve,
            changed=self._broker_changed,
            withheld=self._on_withheld,
        )
        self.configure(cluster, config)

    # Configuration

    def configure(self, cluster: Cluster, config: Config) -> None:
        """Take a configuration: what begins from now on is under it. Raises UsageError, and then nothing has changed."""
        chain = load_chain(
            cluster, wait=asyncio.wait_for, most_frame_size=config.limits.frame_size, on_fault=self._on_filter_fault
        )
        opening = Opening.of(self, cluster, config)
        self.judge_by(chain)
        self.cluster, self.config, self.opening = cluster, config, opening
        self.limits = LinkLimits(config)
        self.strict = any(not filter_.fails_open for filter_ in chain.filters[chain.built_in :])
        analysis = config.analysis
        sample = analysis.sample
        self.sampler = None if sample >= 1.0 else lambda: random.random() < sample
        keys = {api.name: key for key, api in facts().apis.items()}
        tapped = {keys[name] for name in analysis.apis} if analysis.apis else None
        self.plan = Plan(chain, tapped, analysis.snaplen)
        for link in self.links():
            link.use_plan(self.plan)
        self._aim_all()

    def serves(self, cluster: Cluster) -> bool:
        """Whether the listeners are those that a configuration asks for."""
        return (self.cluster.listen, self.cluster.addresses) == (cluster.listen, cluster.addresses)

    def links(self) -> list[Link]:
        """Those of this cluster, in this worker."""
        return [link for link in self.worker.links if link.owner is self]

    # Listeners

    async def start(self) -> None:
        """Find out which brokers there are, listen on all ports, and only then accept.

        Raises ListenError: the cluster's own address, or a port that the configuration names, cannot be listened on.
        """
        self._listen(None, *split(self.cluster.listen))
        mode = self.cluster.addresses.mode
        if mode == "port":
            for node_id in self.brokers.expected():
                self._listen(node_id, split(self.cluster.listen)[0], self.brokers.port_of(node_id))
        if mode in ("port", "sni") and not await self._discover():
            self._keep(self._discover_later())
        self.accepting = True
        for acceptor, _ in self._listeners.values():
            self._aim(acceptor)
            acceptor.start()

    async def _discover(self) -> bool:
        """Whether a broker has said which brokers there are; not, where clients have to log in first."""
        tls = self.opening.broker_tls
        context = tls.get() if tls else None
        try:
            async with asyncio.timeout(self.config.timeouts.connect):
                found = await discover(self.opening.upstream, context, self.opening.server_name)
        except (UpstreamError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            if why != self._why_unknown:  # it is asked every few seconds, perhaps for days
                log("warning", "brokers are not known yet", cluster=self.cluster.name, reason=why)
            self._why_unknown = why
            return False
        for node_id, host, port in found:
            self.brokers.learn(node_id, host, port)
        return True

    async def _discover_later(self) -> None:
        while not self.stopped and not self.brokers.as_list():
            await asyncio.sleep(REDISCOVER_S)
            if not self.brokers.as_list() and await self._discover():
                return

    def _serve(self, node_id: int, port: int) -> bool:
        """Have a broker's port listened on; False: it cannot be."""
        if node_id in self._listeners:
            return True
        if self.stopped:
            return False
        try:
            self._listen(node_id, split(self.cluster.listen)[0], port)
        except ListenError as error:
            log("warning", "a broker is not served", cluster=self.cluster.name, node_id=node_id, reason=str(error))
            return False
        return True

    def _listen(self, node_id: int | None, host: str, port: int) -> None:
        listener = listen(host, port)
        acceptor = Acceptor(self.worker, self, listener.fileno(), node_id)
        self._listeners[node_id] = acceptor, listener
        if self.accepting:
            acceptor.start()

    def _broker_changed(self, node_id: int) -> None:
        if node_id in self._listeners:
            self._aim(self._listeners[node_id][0])
        self._send(Brokers(self.cluster.name, self.brokers.as_list()))

    def learn(self, brokers: list[tuple[int, str, int]]) -> None:
        """What another worker has learned."""
        self.brokers.merge(brokers)
        self._aim_all()

    def target_of(self, node_id: int | None) -> tuple[str, int] | None:
        """Where clients of a node's port go; None: to any bootstrap broker, who can at least tell them more."""
        return None if node_id is None else self.brokers.target(node_id)

    def _aim_all(self) -> None:
        """Names of brokers may stand for other addresses by now."""
        self._aimed_at = time.monotonic_ns()
        for acceptor, _ in self._listeners.values():
            self._aim(acceptor)

    def _aim(self, acceptor: Acceptor) -> None:
        """Let the acceptor connect by itself, where that is all there is to do."""
        target = self.target_of(acceptor.node_id)
        if target is None and len(self.cluster.bootstrap) == 1:
            target = split(self.cluster.bootstrap[0])
        address = self.opening.upstream.sole(*target) if target and self.opening.is_plain else None
        if address is None or target is None:
            acceptor.set_target(None, None)
        else:
            acceptor.set_target(sockaddr(*address), target)

    def pause(self) -> None:
        """Accept nobody; who comes waits in the backlog."""
        if self.accepting:
            self.accepting = False
            for acceptor, _ in self._listeners.values():
                acceptor.pause()

    def go_on(self) -> None:
        """Accept again."""
        if not self.accepting and not self.stopped:
            self.accepting = True
            for acceptor, _ in self._listeners.values():
                acceptor.start()

    def stop(self) -> None:
        """Listen no more; who has come already is served."""
        self.stopped = True
        for acceptor, listener in self._listeners.values():
            if self.accepting:
                acceptor.stop()
            listener.close()
        self._listeners.clear()

    # What acceptors and links ask and tell

    def refuses_client(self, peer: bytes) -> bool:
        """Whether a client may not come in, for other reasons than the number of connections."""
        return self.admission.refusal(peer) is not None

    def count_client(self, peer: bytes) -> int:
        """A client has come in: where its host is counted."""
        return self.admission.came(peer)

    def open_link(self, link: Link, acceptor: Acceptor) -> None:
        """Open a link for which there is more to do than connecting two sockets."""
        self._keep(self.opening.open(link))
        self._aim(acceptor)  # a name may have been resolved since

    def on_unreachable(self, link: Link, error: int) -> None:
        """A broker's address does not answer: other addresses of it are tried first from now on, where there are any."""
        self.worker.counters.add(Total.UPSTREAM_CONNECT_FAILURES)
        address = self.opening.upstream.resolved(*link.target) if link.target else None
        if address is not None:
            self.opening.upstream.note(address, False)
            self._aim_all()
        self._keep(self.opening.give_up(link, os.strerror(error)))

    def on_accept_error(self, acceptor: Acceptor, error: int) -> None:
        """The process cannot take one more socket: who waits is taken when others have left."""
        log("warning", "clients cannot be accepted", cluster=self.cluster.name, reason=os.strerror(error))
        self.pause()
        asyncio.get_running_loop().call_later(ACCEPT_PAUSE_S, self.go_on)

    def on_fault(self, link: Link | None, error: Exception) -> None:
        """Something of kproxy's own went wrong on a connection."""
        connection = link.number if link else None
        log("error", "a fault", cluster=self.cluster.name, connection=connection, reason=repr(error))

    def _on_filter_fault(self, *_: object) -> None:
        self.worker.counters.add(Total.FILTER_FAULTS)

    def _on_withheld(self, *_: object) -> None:
        self.worker.counters.add(Total.WITHHELD_ADDRESSES)

    def on_mispaired(self, link: Link) -> bool:
        """A response that answers nothing; whether the connection may go on without its frames being known."""
        log("warning", "a response without its request", connection=link.number, client=self.client_of(link))
        return not self.strict

    def on_refused(self, link: Link, side: int, cause: int, start: bytes) -> int:
        """A frame for which the connection is closed; gives the cause that is counted."""
        direction = Direction(side)
        instead = spoken_instead(start, direction) if cause == CloseCause.BAD_FRAME and len(start) == 4 else None
        found = CloseCause.NOT_KAFKA if instead else CloseCause(cause)
        why = instead or f"it begins with {start.hex(' ')}"
        said = {"connection": link.number, "client": self.client_of(link), "cause": found.name.lower()}
        log("info", "closed over a frame", direction=direction.value, reason=why, **said)
        return found

    def on_closed(self, link: Link, cause: int) -> None:
        """The link has ended."""
        if link.client_host_slot is not None:
            self.admission.left(link.client_host_slot)
        if cause == CloseCause.DRAIN and not link.legs:
            client = link.take_client()
            if client >= 0:
                self.lingering.add(client)
        close_sockets(link)
        if link.legs:
            close_legs(link)
        if link.facts is not None:
            self.chain.on_close(link.facts)

    def describe(self, link: Link, from_start: bool) -> bytes:
        """What an analyzer is told of a link before its first bytes."""
        opened = Opened(link.number, self.cluster.name, self.client_of(link), self.broker_of(link), from_start)
        return msgspec.json.encode(opened)

    def client_of(self, link: Link) -> str:
        """The client's address; with PROXY protocol the one it names."""
        return link.facts.client if link.facts is not None else join(*endpoint_of(link.peer))

    def broker_of(self, link: Link) -> str:
        """The broker's address."""
        return join(*link.target) if link.target else ""

    def facts_of(self, link: Link) -> ConnectionFacts:
        """What filters may know of the connection."""
        if link.facts is None:
            link.facts = ConnectionFacts(
                number=link.number,
                cluster=self.cluster.name,
                client=join(*endpoint_of(link.peer)),
                listener=self.listener_of(link),
                broker=self.broker_of(link),
                addresses=self.brokers if self.cluster.addresses.mode in ("port", "sni") else None,
            )
        return link.facts

    def listener_of(self, link: Link) -> str:
        """The address the client came to."""
        return join(*endpoint_of(link.local_address()))

    def row_of(self, link: Link, now: int, worker: int) -> Connection:
        """A connection as /connections shows it."""
        requests, responses = link.frames_received
        received, sent = link.bytes_received
        api = facts().apis.get(link.last_request)
        return Connection(
            worker=worker,
            number=link.number,
            cluster=self.cluster.name,
            client=self.client_of(link),
            broker=self.broker_of(link),
            node_id=link.node_id,
            age_s=round((now - link.opened_at) / 1e9, 3),
            idle_s=round((now - link.last_at) / 1e9, 3),
            requests=requests,
            responses=responses,
            request_bytes=received,
            response_bytes=sent,
            in_flight=link.in_flight_count,
            last_api=api.name if api else None,
            tls=bool(link.legs and link.legs[0].tls),
        )

    # Time

    def tick(self, now: int) -> None:
        """Close what has taken too long; *now* in ns of the monotonic clock."""
        timeouts = self.config.timeouts
        self.lingering.sweep()
        if now > self._aimed_at + AIMED_NS:
            self._aim_all()
        for link in self.links():
            idle = (now - link.last_at) / 1e9
            stalled = link.incomplete_frame_since
            if not link.received_request and (now - link.opened_at) / 1e9 > timeouts.first_request:
                link.close(CloseCause.FIRST_REQUEST_TIMEOUT)
            elif stalled and (now - stalled) / 1e9 > timeouts.frame:
                link.close(CloseCause.FRAME_TIMEOUT)
            elif link.half_closed and idle > timeouts.half_closed:
                link.close(CloseCause.HALF_CLOSED_TIMEOUT)
            elif idle > timeouts.idle:
                link.close(CloseCause.IDLE)
            elif link.connecting and (now - link.opened_at) / 1e9 > timeouts.connect:
                link.stop_connecting()
                self.on_unreachable(link, 110)  # ETIMEDOUT

    def _keep(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End everything that has not ended."""
        for task in list(self._tasks):
            task.cancel()
        for link in self.links():
            link.close(CloseCause.DRAIN)
        self.lingering.close()

    def leave(self) -> int:
        """How many clients have been told the end, and are still there."""
        self.lingering.sweep()
        return len(self.lingering)


class LinkLimits:
    """What a link may take; sizes in bytes."""

    __slots__ = ("frame_size", "held_frame_size", "in_flight", "unauthenticated_frame_size")

    def __init__(self, config: Config) -> None:
        self.frame_size = config.limits.frame_size
        self.unauthenticated_frame_size = config.limits.unauthenticated_frame_size
        self.held_frame_size = config.limits.held_frame_size
        self.in_flight = 16_384


def clock_offset() -> int:
    """ns from the monotonic clock to the epoch."""
    return time.time_ns() - time.monotonic_ns()
