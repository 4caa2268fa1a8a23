"""VirtualCluster: one bootstrap address of kproxy in front of the brokers of one Kafka cluster, in one worker.

It has the listeners, and the plan and the limits of its links; it is their owner (LinkOwner in forwarding/owner.py).
"""

import asyncio
import contextlib
import errno
import os
import random
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kproxy.config.structs import Cluster, Config
from kproxy.errors import LoginRefused, UpstreamError, UsageError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import ConnectionFacts
from kproxy.filters.loading import load_chain
from kproxy.filters.refuse_logins import RefuseLogins
from kproxy.protocol import Direction, facts
from kproxy.protocol.addresses import parse_address, split_address
from kproxy.proxy.admission import OF_THIS_PROCESS, Admission
from kproxy.proxy.broker_client import Broker, NotListed, discover, explain_foreign_protocol
from kproxy.proxy.brokers import BrokerTable, Reach, Reachability
from kproxy.proxy.codec_thread import in_codec_thread
from kproxy.proxy.filter_dispatch import FilterDispatch
from kproxy.proxy.filter_runtime import FilterRuntime, Journals
from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.forwarding.link import Link, overdue
from kproxy.proxy.forwarding.owner import Limits
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.sockets import Acceptor, close_sockets
from kproxy.proxy.link_opening import LinkOpener, broker_of, client_of, connection_row, listener_of, open_record
from kproxy.proxy.logs import log
from kproxy.proxy.messages import Brokers, Connection, Message, SetBreakpoint
from kproxy.proxy.network.lingering_close import LingeringClose
from kproxy.proxy.network.listening import ListenError, listen
from kproxy.proxy.network.socket_addresses import to_sockaddr
from kproxy.proxy.otlp.exporter import Exporters
from kproxy.proxy.shared_state import SharedCounts, SharedSets
from kproxy.proxy.tap.counted import CloseCause, Total

if TYPE_CHECKING:
    from kproxy.authentication.own_logins import OwnLogins
    from kproxy.filters.breakpoints.breakpoint import Breakpoint
    from kproxy.filters.breakpoints.filter import Breakpoints
    from kproxy.proxy.broker_login import BrokerLogin, LinkLogin
    from kproxy.proxy.stops import Stops

ACCEPT_PAUSE_S = 0.1  # when the process has no file descriptor left
ACCEPT_REPORT_S = 60.0  # until it is reported again
REDISCOVER_S = 5.0
MOST_IN_FLIGHT = 16_384  # requests of a connection
RETARGET_NS = 5_000_000_000
CLOSED_IN_A_TURN = 32  # links, which takes about a millisecond
PROBE_NS = 2_000_000_000
ANSWERED = {  # causes after which the client is to receive what was sent to it last
    CloseCause.DRAIN,
    CloseCause.FILTER,
    CloseCause.FRAME_TOO_BIG,
    CloseCause.AUTHENTICATION_FAILED,
}


class VirtualCluster:
    """The owner of its links.

    Args:
        cluster, config: its own configuration, and the whole one, for limits, timeouts and analysis.
        worker: what all links of the process share.
        admission: the limits of clients, shared by the clusters of the process.
        send: sends a message to the supervisor.
        journals: of the process, which filters write.
        counts: what filters count, in all workers.
        exporters: of the process, for what filters export.
        stops: of the process, if the configuration allows edits.
        breakpoints: those that are set.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: Config,
        worker: Worker,
        admission: Admission,
        send: Callable[[Message], None],
        journals: Journals | None = None,
        counts: SharedCounts | None = None,
        exporters: Exporters | None = None,
        stops: "Stops | None" = None,
        breakpoints: Sequence[SetBreakpoint] = (),
    ) -> None:
        self._stops = stops
        self._set_breakpoints = breakpoints
        self._breakpoints: Breakpoints | None = None
        self.worker = worker
        self.admission = admission
        self._address = parse_address(cluster.listen, any_host=True)
        self._send = send
        self._listeners: dict[int | None, tuple[Acceptor, socket.socket]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._lingering = LingeringClose()
        self.shared_sets = SharedSets(cluster.name, send)
        self._runtime = FilterRuntime(cluster.name, journals or Journals(), self.shared_sets, counts, send, exporters)
        self._filters = FilterDispatch(Chain(()), self.facts_of)
        # LinkOwner: called by lanes, for frames that are held
        self.on_handshake, self.is_token = self._filters.on_handshake, self._filters.is_token
        self.on_request, self.on_response = self._filters.on_request, self._filters.on_response
        self.on_head, self.on_tail = self._filters.on_head, self._filters.on_tail
        self.on_beginning = self._filters.on_beginning
        self.on_too_large_to_hold = self._filters.on_too_large_to_hold
        self.on_large_refused = self._filters.on_large_refused
        self.accepting = False
        self.stopped = False
        self._why_unknown = ""
        self._probed_at = 0
        self._accept_report_at = 0.0
        self.reachability = Reachability(cluster.name, send)
        self.brokers = BrokerTable(
            cluster.addresses,
            self._address,
            serve=self._serve,
            changed=self._broker_changed,
            withheld=lambda reason: worker.counters.add(Total.WITHHELD_ADDRESSES),
        )
        self.configure(cluster, config)

    # Configuration

    def configure(self, cluster: Cluster, config: Config, reload_filters: bool = False) -> None:
        """Use a configuration from now on; open links keep their limits. Raises UsageError, and then nothing has changed."""
        self._runtime.use_schemas(config.schemas)
        breakpoints = self._make_breakpoints(config)
        chain = self._load_chain(cluster, config, reload_filters, breakpoints)
        opener = LinkOpener(
            cluster,
            config,
            self.worker.counters,
            self.brokers,
            self.reachability,
            self.facts_of,
            self._runtime,
            lambda: self._filters.chain,
        )
        before = self._filters.chain
        self._login = _broker_login(cluster, config)
        self.logs_in = self._login is not None
        self._filters.use_chain(chain)
        self._filters.clients_log_in = not self.logs_in
        before.stop()
        self.cluster, self.config, self.opener = cluster, config, opener
        self._filters.logins = opener.logins
        for link in self.links():
            has_other_login = (link.login is None) == self.logs_in or link.is_authenticated != (
                opener.logins is not None
            )
            if link.requests is not None and has_other_login:  # at the broker, or of the client, than new links have
                link.drain()
        self._breakpoints = breakpoints
        self.limits = Limits(
            frame_size=config.limits.frame_size,
            unauthenticated_frame_size=config.limits.unauthenticated_frame_size,
            held_frame_size=config.limits.held_frame_size,
            in_flight=MOST_IN_FLIGHT,
        )
        self._strict = chain.fails_closed
        sample = config.analysis.sample
        self.sampler = None if sample >= 1.0 else lambda: random.random() < sample
        self._make_plan()
        self._set_targets()
        self.reachability.use(cluster)

    def _make_plan(self) -> None:
        """Make the plan of the chain in use, for all links."""
        analysis = self.config.analysis
        keys = {api.name: key for key, api in facts().apis.items()}
        tapped = {keys[name] for name in analysis.apis} if analysis.apis else None
        self.plan = Plan(self._filters.chain, tapped, analysis.snaplen)
        for link in self.links():
            link.plan = self.plan

    def _make_breakpoints(self, config: Config) -> "Breakpoints | None":
        """Return the filter that stops messages, if the configuration allows edits."""
        if not config.page.edits or self._stops is None:
            return None
        from kproxy.filters.breakpoints.filter import Breakpoints  # noqa: PLC0415 - most workers do without it

        return Breakpoints(
            _breakpoints(self._set_breakpoints), self._stops.of_cluster(self._runtime.cluster, self._sockets_of)
        )

    def _sockets_of(self, number: int) -> tuple[int, int]:
        """Return the client's and the broker's socket of a connection: file descriptors, -1 where there is none."""
        return next((link.sockets() for link in self.worker.links if link.number == number), (-1, -1))

    def use_breakpoints(self, breakpoints: Sequence[SetBreakpoint]) -> None:
        """Stop messages that match these breakpoints. Raises ValueError."""
        self._set_breakpoints = breakpoints
        if self._breakpoints is not None:
            self._breakpoints.use(_breakpoints(breakpoints))
            self._filters.chain.forget_wants()
            self._make_plan()

    def _load_chain(self, cluster: Cluster, config: Config, again: bool, breakpoints: "Breakpoints | None") -> Chain:
        """Load the filters. Raises UsageError that begins with the path of the filter in the configuration."""
        try:
            return load_chain(
                cluster,
                wait=asyncio.wait_for,
                most_frame_size=config.limits.frame_size,
                held_frame_size=config.limits.held_frame_size,
                in_thread=in_codec_thread,
                on_fault=self._runtime.count_fault,
                clock=time.monotonic_ns,
                runtime=self._runtime,
                again=again,
                before=[*_own_logins(cluster), *([] if breakpoints is None else [breakpoints])],
                after=[] if cluster.login is None or cluster.authentication is not None else [RefuseLogins()],
            )
        except UsageError as error:
            raise UsageError(f"clusters[{config.clusters.index(cluster)}].{error}") from error

    def count_filter_times(self) -> None:
        """Add the time that filters took since the last call to the counts of all workers."""
        for name, (spent_ns, calls) in self._filters.chain.take_times().items():
            self._runtime.count_time(name, spent_ns, calls)

    def serves(self, cluster: Cluster) -> bool:
        """Return whether the open listeners are those of a configuration."""
        return (self.cluster.listen, self.cluster.addresses) == (cluster.listen, cluster.addresses)

    def links(self) -> list[Link]:
        return list(self.worker.links_of.get(self, ()))

    # Listeners

    async def start(self) -> None:
        """Ask for the brokers, listen on all ports, and only then accept.

        Raises ListenError: the cluster's own address, or a port that the configuration names, cannot be listened on.
        """
        self._listen(None, *self._address)
        mode = self.cluster.addresses.mode
        if mode == "port":
            for node_id in self.brokers.expected():
                self._listen(node_id, self._address.host, self.brokers.port_of(node_id))
        if mode in ("port", "sni") and not await self._discover():
            self._run(self._discover_later())
        self.accepting = True
        for acceptor, _ in self._listeners.values():
            self._set_target(acceptor)
            acceptor.start()

    async def _discover(self) -> bool:
        """Ask a broker for all brokers; False if none answers, for example because it wants a login first."""
        brokers = await self._ask_for_brokers()
        for node_id, host, port in brokers or []:
            self.brokers.learn(node_id, host, port)
        return brokers is not None

    async def _ask_for_brokers(self) -> list[Broker] | None:
        """Ask a broker for all brokers, and note whether one was reached; None if none answers."""
        tls = self.opener.broker_tls
        log_in = None if self._login is None else self._login.log_in_client
        try:
            async with asyncio.timeout(self.config.timeouts.connect):
                where = self.opener.upstream, tls.current if tls else None, self.opener.server_name
                brokers = await discover(*where, log_in)
        except (UpstreamError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            if isinstance(error, NotListed):
                self.reachability.reached()
            else:
                self.reachability.failed(why)
            if why != self._why_unknown:  # this is repeated every few seconds, perhaps for days
                log("warning", "brokers are not known yet", cluster=self.cluster.name, reason=why)
            self._why_unknown = why
            return None
        self.reachability.reached()
        return brokers

    async def _discover_later(self) -> None:
        while not self.stopped and not self.brokers.as_list():
            await asyncio.sleep(REDISCOVER_S)
            if not self.brokers.as_list() and await self._discover():
                return

    def _serve(self, node_id: int, port: int) -> bool:
        """Listen on a broker's port; return whether that is possible."""
        if node_id in self._listeners:
            return True
        if self.stopped:
            return False
        try:
            self._listen(node_id, self._address.host, port)
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
            self._set_target(self._listeners[node_id][0])
        self._send(Brokers(self.cluster.name, self.brokers.as_list()))
        # not now: the response that names the broker is being rewritten
        asyncio.get_running_loop().call_soon(self._drain_misled)

    def learn(self, brokers: list[tuple[int, str, int]]) -> None:
        """Learn the brokers that another worker has learned."""
        self.brokers.merge(brokers)
        self._set_targets()
        self._drain_misled()

    def _drain_misled(self) -> None:
        """Drain links to a bootstrap broker whose clients wanted another broker, which was not known when they connected.

        A cluster that wants a login first answers no question of kproxy's own, so a client's Metadata response is the first to
        name the brokers. The drained client connects again, to the right broker.
        """
        bootstrap = {split_address(address) for address in self.cluster.bootstrap}
        for link in self.links():
            target = None if link.node_id is None else self.brokers.target(link.node_id)
            if target is not None and link.target in bootstrap and link.target != target:
                link.drain()

    def _set_targets(self) -> None:
        """Set the target of each acceptor anew, as a name may have other addresses by now."""
        self._targets_set_at = time.monotonic_ns()
        for acceptor, _ in self._listeners.values():
            self._set_target(acceptor)

    def _set_target(self, acceptor: Acceptor) -> None:
        """Have the acceptor connect by itself if a link takes no more than two plain sockets and a numeric address."""
        target = None if acceptor.node_id is None else self.brokers.target(acceptor.node_id)
        if target is None and len(self.cluster.bootstrap) == 1:
            target = split_address(self.cluster.bootstrap[0])
        address = self.opener.upstream.only_address(*target) if target and self.opener.is_plain else None
        if address is None or target is None:
            acceptor.set_target(None, None)
        else:
            acceptor.set_target(to_sockaddr(*address), target)

    def pause(self) -> None:
        """Accept no clients; they wait in the kernel's backlog."""
        if self.accepting:
            self.accepting = False
            for acceptor, _ in self._listeners.values():
                acceptor.pause()

    def resume(self) -> None:
        """Accept again, unless stopped."""
        if not self.accepting and not self.stopped and OF_THIS_PROCESS.take():
            self.accepting = True
            for acceptor, _ in self._listeners.values():
                acceptor.start()

    def stop(self) -> None:
        """Close the listeners; accepted clients go on.

        Clients in the backlog are accepted first, even if accepting had not begun or was paused: closing the listener would reset
        them, and lose the requests that they have sent.
        """
        self.stopped = True
        for acceptor, listener in list(self._listeners.values()):
            acceptor.stop()
            listener.close()
        self._listeners.clear()

    # LinkOwner: called by acceptors

    def admit_client(self, peer: bytes) -> int | None:
        return self.admission.admit(peer)

    def open_link(self, link: Link, acceptor: Acceptor) -> None:
        self._run(self.opener.open(link))
        self._set_target(acceptor)  # a name may have been resolved since

    def on_unreachable(self, link: Link, error: int) -> None:
        """Close a link whose broker does not answer; from now on the broker's other addresses, if any, are tried first."""
        self.worker.counters.add(Total.UPSTREAM_CONNECT_FAILURES)
        address = self.opener.upstream.resolved(*link.target) if link.target else None
        if address is not None:
            self.opener.upstream.note_attempt(address, False)
            self._set_targets()
        self._run(self.opener.give_up(link, os.strerror(error)))

    def on_accept_error(self, acceptor: Acceptor, error: int) -> None:
        """Pause accepting: the process has no file descriptor or memory for one more connection."""
        self._pause_accepting(error)

    def _pause_accepting(self, error: int) -> None:
        if error == errno.ENOMEM:
            OF_THIS_PROCESS.release()
        now = time.monotonic()
        if now >= self._accept_report_at:  # it fails ten times a second, perhaps for long; the metric counts
            self._accept_report_at = now + ACCEPT_REPORT_S
            log("warning", "clients cannot be accepted", cluster=self.cluster.name, reason=os.strerror(error))
        self.pause()
        asyncio.get_running_loop().call_later(ACCEPT_PAUSE_S, self.resume)

    # LinkOwner: called for kproxy's own login at the broker

    def on_login_due(self, link: Link) -> None:
        """Log in; a link that cannot log in is closed, after a delay, so that its client does not reconnect at once."""
        if link.closed:
            return
        if link.login is None and self._login is not None:
            from kproxy.proxy.broker_login import LinkLogin  # noqa: PLC0415 - as above

            link.login = LinkLogin(link, self._login)
        if link.login is not None:
            self._run(self._log_in(link, link.login))
        else:  # it was accepted under another configuration
            link.end_login()

    async def _log_in(self, link: Link, login: "LinkLogin") -> None:
        try:
            await login.log_in()
        except LoginRefused as error:
            self.worker.counters.add(Total.BROKER_LOGINS_FAILED)
            await self.opener.give_up(link, f"{error}; {error.advice}", CloseCause.BROKER_LOGIN)
        except Exception as error:
            self.on_fault(link, error)
            link.close(CloseCause.ERROR)
        else:
            self.worker.counters.add(Total.BROKER_LOGINS_OK)
            self.reachability.reached()

    def on_own_response(self, link: Link, frame: bytes | None) -> None:
        if link.login is not None:
            link.login.on_response(frame)

    # LinkOwner: called for what goes wrong, and at the end

    def on_fault(self, link: Link | None, error: Exception) -> None:
        """Log an unexpected exception. After a MemoryError free the reserve and pause accepting instead."""
        if isinstance(error, MemoryError):
            self._pause_accepting(errno.ENOMEM)
            return
        connection = link.number if link else None
        log("error", "a fault", cluster=self.cluster.name, connection=connection, reason=repr(error))

    def on_mispaired(self, link: Link) -> bool:
        """Log a response without a request; return whether to go on without framing: not if a filter fails closed."""
        log("warning", "a response without its request", connection=link.number, client=client_of(link))
        return not self._strict

    def on_refused(self, link: Link, side: int, cause: int, start: bytes) -> int:
        """Log a frame for which the connection is closed; return the cause to count."""
        direction = Direction(side)
        is_bad = cause == CloseCause.BAD_FRAME and len(start) == 4
        explanation = explain_foreign_protocol(start, direction) if is_bad else None
        counted = CloseCause.NOT_KAFKA if explanation else CloseCause(cause)
        reason = explanation or f"it begins with {start.hex(' ')}"
        if cause == CloseCause.SESSION_EXPIRED:
            reason = "the session is over, and the client has not logged in again (KIP-368)"
        about = {"connection": link.number, "client": client_of(link), "cause": counted.name.lower()}
        log("info", "closed over a frame", direction=direction.text, reason=reason, **about)
        return counted

    def on_out_of_memory(self, link: Link, size: int) -> None:
        about = {"connection": link.number, "client": client_of(link), "cause": CloseCause.MEMORY.name.lower()}
        log("warning", "closed to free memory", bytes=size, reason="limits.memory is used up", **about)

    def on_closed(self, link: Link, cause: int) -> None:
        """Close the sockets of a link, uncount its client, and notify the filters."""
        if link.login is not None:
            link.login.close()
        if link.client_host_slot is not None:
            self.admission.uncount(link.client_host_slot)
        client_tls, broker_tls = link.tls or (False, False)
        if cause in ANSWERED and not client_tls:
            client = link.take_client()
            if client >= 0:
                self._lingering.add(client)
        for fd in (link.take_client() if client_tls else -1, link.take_broker() if broker_tls else -1):
            if fd >= 0:
                self._lingering.add_tls(fd)
        close_sockets(link)
        if link.facts is not None:
            self._filters.chain.on_close(link.facts)

    # LinkOwner: for the tap and the admin port

    def describe(self, link: Link, from_start: bool) -> bytes:
        return open_record(link, self.cluster.name, from_start)

    def row_of(self, link: Link, now: int, worker: int) -> Connection:
        return connection_row(link, self.cluster.name, now, worker)

    def facts_of(self, link: Link) -> ConnectionFacts:
        """Return what filters may know of the connection, made at the first call."""
        if link.facts is None:
            link.facts = ConnectionFacts(
                number=link.number,
                cluster=self.cluster.name,
                client=client_of(link),
                listener=listener_of(link),
                broker=broker_of(link),
                addresses=self.brokers if self.cluster.addresses.mode in ("port", "sni") else None,
            )
        return link.facts

    # Time

    def tick(self, now: int) -> None:
        """Close links that have exceeded a timeout; *now* in ns of the monotonic clock."""
        timeouts = self.config.timeouts
        self._lingering.sweep()
        state = self.reachability.state
        if state is not Reach.REACHED and any(link.frames_received[1] for link in self.links()):
            self.reachability.reached()
        elif state is Reach.FAILING and now > self._probed_at + PROBE_NS:  # /readyz may keep all clients away
            self._probed_at = now
            self._run(self._probe())
        if now > self._targets_set_at + RETARGET_NS:
            self._set_targets()
        self._close_overdue(overdue(self.worker, self, timeouts, now))

    def _close_overdue(self, links: list[tuple[Link, int | None]]) -> None:
        """Close links, CLOSED_IN_A_TURN in each turn of the loop."""
        for link, cause in links[:CLOSED_IN_A_TURN]:
            if cause is not None:
                link.close(cause)
            elif link.connecting:
                link.stop_connecting()
                self.on_unreachable(link, errno.ETIMEDOUT)
        if links[CLOSED_IN_A_TURN:]:
            asyncio.get_running_loop().call_soon(self._close_overdue, links[CLOSED_IN_A_TURN:])

    async def _probe(self) -> None:
        """Connect to a bootstrap broker as a client's link does, log in if kproxy does, and close."""
        if self._login is not None:
            await self._ask_for_brokers()
            return
        with contextlib.suppress(UpstreamError):
            await self.opener.probe()
            self.reachability.reached()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Close every link that is still open."""
        for task in list(self._tasks):
            task.cancel()
        for number, link in enumerate(self.links(), 1):
            link.close(CloseCause.DRAIN)
            if number % CLOSED_IN_A_TURN == 0:
                await asyncio.sleep(0)
        self._lingering.close()
        self._filters.chain.stop()

    def lingering(self) -> int:
        """Return how many clients have been sent FIN and have not closed yet."""
        self._lingering.sweep()
        return len(self._lingering)


def _breakpoints(breakpoints: Sequence[SetBreakpoint]) -> "list[Breakpoint]":
    from kproxy.filters.breakpoints.breakpoint import Breakpoint  # noqa: PLC0415 - as the filter

    return [msgspec.convert(msgspec.structs.asdict(one), Breakpoint) for one in breakpoints]


def _broker_login(cluster: Cluster, config: Config) -> "BrokerLogin | None":
    """Return how kproxy logs in to the brokers. Raises UsageError."""
    if cluster.login is None:
        return None
    from kproxy.proxy.broker_login import BrokerLogin  # noqa: PLC0415 - few clusters have a login

    return BrokerLogin(cluster.login, config.timeouts)


def _own_logins(cluster: Cluster) -> "list[OwnLogins]":
    """Return the filter that clusters have whose clients log in to kproxy."""
    if cluster.authentication is None:
        return []
    from kproxy.authentication.own_logins import OwnLogins  # noqa: PLC0415 - few clusters end logins

    return [OwnLogins(cluster.authentication.broker_users == "pass")]


def clock_offset() -> int:
    """Return the offset from the monotonic clock to the epoch in ns."""
    return time.time_ns() - time.monotonic_ns()
