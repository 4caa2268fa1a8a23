# cython: language_level=3, auto_pickle=False
"""ExchangeCounts: what is counted of each exchange that passes, compiled; by client, software, topic and group, and GroupLag.

AnalysisCounts derives from it, and counts what few exchanges have (errors, frames that could not be read), and other events.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

from libc.stdint cimport int64_t

from kproxy.protocol.found cimport NamedPartition
from kproxy.protocol.program cimport ROLE_GROUP_ID
from kproxy.proxy.analyzer.lag cimport GroupLag, name_of, partitions_of
from kproxy.proxy.analyzer.series cimport Kept, Series
from kproxy.session.exchanges cimport Exchange, Frame

from kproxy.protocol import ApiKey
from kproxy.session.exchanges import Event, peeked

if TYPE_CHECKING:
    from kproxy.output.bodies import Bodies

MOST_GROUPS: int = 10_000  # whose generations are remembered
MOST_CLIENTS: int = 1_000  # whose numbers wait to be added to their series

# cluster, client id, principal, name and version of its software
Client: TypeAlias = tuple[str, str | None, str | None, str | None, str | None]


cdef enum Kind:  # what is counted of an API's exchanges in addition to those of its client
    NOTHING_ELSE = 0
    PRODUCED
    FETCHED
    SOFTWARE
    GROUP
    REBALANCE  # a group whose response names a generation, or a member's epoch
    COMMIT
    ENDS


cdef enum:
    MOST_APIS = 128

cdef int[MOST_APIS] _kinds  # all are NOTHING_ELSE at first
for _api_key, _kind in {
    ApiKey.PRODUCE: PRODUCED,
    ApiKey.FETCH: FETCHED,
    ApiKey.API_VERSIONS: SOFTWARE,
    ApiKey.HEARTBEAT: GROUP,
    ApiKey.LEAVE_GROUP: GROUP,
    ApiKey.SYNC_GROUP: GROUP,
    ApiKey.JOIN_GROUP: REBALANCE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: REBALANCE,
    ApiKey.SHARE_GROUP_HEARTBEAT: REBALANCE,
    ApiKey.STREAMS_GROUP_HEARTBEAT: REBALANCE,
    ApiKey.OFFSET_COMMIT: COMMIT,
    ApiKey.TXN_OFFSET_COMMIT: COMMIT,
    ApiKey.OFFSET_FETCH: COMMIT,
    ApiKey.LIST_OFFSETS: ENDS,
}.items():
    _kinds[<int>_api_key] = _kind

cdef int JOIN_GROUP = ApiKey.JOIN_GROUP
SASL_APIS: frozenset[int] = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


cdef class _Numbers:
    cdef int64_t requests
    cdef int64_t sent  # bytes of requests
    cdef int64_t received  # bytes of responses
    cdef int64_t errors  # responses with an error code
    cdef int64_t throttle_ms


cdef class ExchangeCounts:
    """Counts exchanges. ``add_clients`` adds what clients sent to ``clients`` and ``software``; all else is there at once.

    clients     by cluster and client id: requests, their bytes, bytes of responses, responses with an error, throttled ms
    principals  the same by cluster and principal, for clients that have one
    software    by cluster, name and version: requests, connections
    topics      by cluster, topic and operation: requests, bytes of records
    groups      by cluster and group: requests, responses with an error, rebalances
    """

    cdef readonly Series clients
    cdef readonly Series principals
    cdef readonly Series software
    cdef readonly Series topics
    cdef readonly Series groups
    cdef readonly GroupLag lag
    cdef readonly int64_t exchanges
    cdef readonly int64_t frames
    cdef readonly bint is_whole  # the latest exchange: nothing is missing, follows a message, or could not be read
    cdef readonly bint is_refused  # its response has an error code
    cdef readonly int64_t latest_throttle_ms  # in its response
    cdef public int source  # number of the source of the next events
    cdef public object logins_begun  # type: object  # true while each exchange may end a login
    cdef bint _is_undone
    cdef dict _clients  # type: dict[Client, _Numbers]
    cdef set _connections  # counted in ``software``: source, number
    cdef object _generations  # type: OrderedDict[tuple[str, str], int]  # by cluster and group

    def __init__(self):
        self.clients = Series(5, labels=2)
        self.principals = Series(5, labels=2)
        self.software = Series(2, labels=3)
        self.topics = Series(2, labels=3)
        self.groups = Series(3, labels=2)
        self.lag = GroupLag()
        self._clients = {}
        self._connections = set()
        self._generations = OrderedDict()

    def write(self, event: Event, bodies: Bodies | None, *, shown: bool = True, line: bytes | None = None) -> None:
        """Count an event, with its bodies if another output has read them. Never raises, whatever the bytes hold."""
        if type(event) is not Exchange:
            self.note_event(event)
            return
        self._add(<Exchange>event)
        if (
            not self.is_whole or self.is_refused or self.latest_throttle_ms or self.logins_begun
            or (<Exchange>event).api_key in SASL_APIS or (bodies is not None and bodies.undecoded is not None)
        ):
            self.note_unusual(event, bodies)

    def note_event(self, event: Event) -> None:
        """Note an event that is no exchange."""

    def note_unusual(self, exchange: Exchange, bodies: Bodies | None) -> None:
        """Note an exchange, counted already, that has more to be counted, or may end a login."""

    @property
    def has_failed(self) -> bool:
        """Whether the latest exchange has an error or no response, or was not decoded."""
        return self.is_refused or self._is_undone

    cdef int _add(self, Exchange exchange) except -1:
        cdef Frame request = exchange.request
        cdef Frame response = exchange.response
        cdef _Numbers numbers = self._of(exchange)
        cdef int64_t api_key = -1 if exchange.api_key is None else exchange.api_key
        self.exchanges += 1
        numbers.requests += 1
        self._is_undone = exchange.undecoded is not None or exchange.unanswered is not None
        self.is_whole = not self._is_undone
        self.is_refused = False
        self.latest_throttle_ms = 0
        if request is not None:
            self.frames += 1
            numbers.sent += wire_size(request)
            self.is_whole = self.is_whole and not (request.cut_code or request.trailing)
        if response is not None:
            self.frames += 1
            numbers.received += wire_size(response)
            self.is_whole = self.is_whole and not (response.cut_code or response.trailing)
            response.find_refusal(&self.is_refused, &self.latest_throttle_ms)
            numbers.errors += self.is_refused
            numbers.throttle_ms += self.latest_throttle_ms
        if 0 <= api_key < MOST_APIS and _kinds[api_key] != NOTHING_ELSE:
            self._add_more(_kinds[api_key], exchange)
        return 0

    cdef int _add_more(self, int kind, Exchange exchange) except -1:
        cdef list partitions
        if kind == PRODUCED:
            self._add_sizes("produce", partitions_of(exchange.request), exchange)
            self.lag.note_produced(exchange, partitions_of(exchange.response))
        elif kind == FETCHED:
            partitions = partitions_of(exchange.response)
            self._add_sizes("fetch", partitions, exchange)
            self.lag.note_fetched(exchange, partitions)
        elif kind == SOFTWARE:
            self._add_software(exchange)
        elif kind == ENDS:
            self.lag.note_listed(exchange)
        else:
            self._add_group(kind, exchange)
            if kind == COMMIT:
                self.lag.note_committed(exchange)
        return 0

    cdef _Numbers _of(self, Exchange exchange):
        peer = exchange.connection
        principal = peer.user_name
        if principal is None and peer.tls_to_proxy is not None:
            principal = peer.tls_to_proxy.client_certificate
        cdef tuple client = (
            peer.cluster, exchange.client_id, principal, peer.client_software_name, peer.client_software_version,
        )
        numbers = self._clients.get(client)
        if numbers is None:
            if len(self._clients) >= MOST_CLIENTS:
                self.add_clients()
            numbers = self._clients[client] = _Numbers()
        return numbers

    def add_clients(self) -> None:
        """Add the numbers of all clients to their series, and begin anew."""
        cdef _Numbers one
        clients, self._clients = self._clients, {}
        for (cluster, client_id, principal, name, version), numbers in clients.items():
            one = numbers
            self.clients.add((cluster, client_id), one.requests, one.sent, one.received, one.errors, one.throttle_ms)
            if principal is not None:
                self.principals.add((cluster, principal), one.requests, one.sent, one.received, one.errors, one.throttle_ms)
            self.software.add((cluster, name, version), one.requests, 0)

    cdef int _add_sizes(self, str operation, list partitions, Exchange exchange) except -1:
        """Count the bytes of records by topic."""
        cdef dict sizes = {}
        cdef NamedPartition partition
        cdef Kept kept
        for partition in partitions:
            if partition.records_size:
                name = name_of(partition, exchange.topic_names)
                sizes[name] = sizes.get(name, 0) + partition.records_size
        for name, size in sizes.items():
            kept = self.topics.of((exchange.connection.cluster, name, operation), 1)
            kept.numbers[0] += 1
            kept.numbers[1] += size
        return 0

    cdef int _add_software(self, Exchange exchange) except -1:
        """Count a connection once by its software, which ApiVersions names, perhaps several times."""
        peer = exchange.connection
        connection = self.source, peer.number
        if peer.client_software_name is not None and connection not in self._connections:
            self._connections.add(connection)
            self.software.add((peer.cluster, peer.client_software_name, peer.client_software_version), 0, 1)
        return 0

    def forget(self, number: int) -> None:
        """Forget a connection of the source, which has ended."""
        self._connections.discard((self.source, number))

    cdef int _add_group(self, int kind, Exchange exchange) except -1:
        """Count a request about groups."""
        cdef Kept kept
        if exchange.request is None:
            return 0
        cluster = exchange.connection.cluster
        for group in exchange.request.find(ROLE_GROUP_ID).group_ids():
            kept = self.groups.of((cluster, group), 1)
            kept.numbers[0] += 1
            kept.numbers[1] += self.is_refused
            if kind == REBALANCE and exchange.response is not None:
                kept.numbers[2] += self._is_rebalance((cluster, group), exchange.api_key, exchange.response)
        return 0

    cdef bint _is_rebalance(self, tuple key, int api_key, Frame response) except -1:
        """Return whether a response has a generation of the group, or a member's epoch, that no earlier response had."""
        cdef bint is_classic = api_key == JOIN_GROUP
        if peeked(response, "errorCode"):
            return False
        generation = peeked(response, "generationId" if is_classic else "memberEpoch")
        if generation is None or generation < 0 or (not is_classic and generation == 0):
            return False
        known = self._generations.pop(key, -1)
        # Members reach an epoch one after the other; the generations of a classic group that was empty for long start anew.
        is_new = generation != known if is_classic else generation > known
        self._generations[key] = generation if is_new else known
        if len(self._generations) > MOST_GROUPS:
            self._generations.popitem(last=False)
        return is_new


cdef inline int64_t wire_size(Frame frame):
    return len(frame.data) + frame.absent + 4
