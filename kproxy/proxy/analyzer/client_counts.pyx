# cython: language_level=3, auto_pickle=False
"""ClientCounts: exchanges and bytes by client, in numbers of C, because every exchange that passes is counted here."""

from collections.abc import Callable
from typing import TypeAlias

from libc.stdint cimport int64_t

from kproxy.session.exchanges cimport Exchange, Frame

# cluster, client id, name and version of its software
Client: TypeAlias = tuple[str, str | None, str | None, str | None]

MOST_CLIENTS: int = 1_000  # whose numbers wait to be taken

cdef class _Numbers:
    cdef int64_t requests
    cdef int64_t sent  # bytes of requests
    cdef int64_t received  # bytes of responses
    cdef int64_t errors  # responses with an error code
    cdef int64_t throttle_ms


cdef class ClientCounts:
    """Counts exchanges. *take* is called with each client and its numbers: requests, their bytes, bytes of responses, responses
    with an error, throttled ms; by ``flush``, and when there are too many.
    """

    cdef readonly int64_t exchanges
    cdef readonly int64_t frames
    cdef readonly bint is_whole  # the latest exchange: nothing is missing, follows a message, or could not be read
    cdef readonly bint is_refused  # its response has an error code
    cdef readonly int64_t throttle_ms  # in its response
    cdef dict _clients
    cdef object _take

    def __init__(self, take: Callable[[Client, tuple[int, int, int, int, int]], None]):
        self._clients = {}
        self._take = take

    def add(self, Exchange exchange not None) -> None:
        """Count an exchange."""
        cdef Frame request = exchange.request
        cdef Frame response = exchange.response
        cdef _Numbers numbers = self._of(exchange)
        self.exchanges += 1
        numbers.requests += 1
        self.is_whole = exchange.undecoded is None and exchange.unanswered is None
        self.is_refused = False
        self.throttle_ms = 0
        if request is not None:
            self.frames += 1
            numbers.sent += request.wire_size
            self.is_whole = self.is_whole and not (request.cut_code or request.trailing)
        if response is not None:
            self.frames += 1
            numbers.received += response.wire_size
            self.is_whole = self.is_whole and not (response.cut_code or response.trailing)
            response.find_refusal(&self.is_refused, &self.throttle_ms)
            numbers.errors += self.is_refused
            numbers.throttle_ms += self.throttle_ms

    cdef _Numbers _of(self, Exchange exchange):
        peer = exchange.connection
        cdef tuple client = (peer.cluster, exchange.client_id, peer.client_software_name, peer.client_software_version)
        numbers = self._clients.get(client)
        if numbers is None:
            if len(self._clients) >= MOST_CLIENTS:
                self.flush()
            numbers = self._clients[client] = _Numbers()
        return numbers

    def flush(self) -> None:
        """Hand over the numbers of all clients, and begin anew."""
        cdef _Numbers one
        clients, self._clients = self._clients, {}
        for client, numbers in clients.items():
            one = numbers
            self._take(client, (one.requests, one.sent, one.received, one.errors, one.throttle_ms))
