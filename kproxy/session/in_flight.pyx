# cython: language_level=3, nonecheck=True
"""Requests that are not answered yet, in order, and SASL tokens among them. Bounded by count and bytes."""

from collections import deque

from libc.stdint cimport int64_t

from kproxy.protocol.headers cimport read_response_header, ResponseHeader
from kproxy.session.events cimport Exchange, Frame
from kproxy.session.routes cimport Route

from kproxy.errors import DecodeError

TOKEN = (None, None)


cdef class InFlight:
    """A queue of entries; responses come in request order, so its head is what the next response belongs to.

    An entry is (Exchange, Route): without an exchange it is a token, without a route a request of an API nobody knows.
    """

    def __init__(self, limits):
        self.most = limits.in_flight
        self.most_size = limits.in_flight_size
        self.queue = deque()

    cpdef bint add(self, Exchange exchange, Route route, int64_t size) except -1:
        """Take a request whose frame holds *size* bytes; say whether there is now more than the limits allow."""
        self.queue.append((exchange, route))
        self.size += size
        return self.size > self.most_size or len(self.queue) > self.most

    def add_token(self):
        """Take a token, which the other side will answer with one; the result is as ``add``'s."""
        self.queue.append(TOKEN)
        return len(self.queue) > self.most

    @property
    def overfull(self):
        """Whether the oldest must go; one alone may always stay."""
        held = len(self.queue)
        return held > 1 and (self.size > self.most_size or held > self.most)

    cpdef tuple take(self):
        """The head, removed. Raises IndexError when there is none."""
        cdef tuple entry = self.queue.popleft()
        cdef Exchange exchange = entry[0]
        if exchange is not None and exchange.request is not None:
            self.size -= len(exchange.request.data)
        return entry

    def drop_tokens(self):
        """Forget the tokens: authentication is over."""
        self.queue = deque([entry for entry in self.queue if entry is not TOKEN])

    def skips_tokens(self, Frame frame not None):
        """Whether a response has the correlation id of the first request, though tokens that are not answered come before."""
        for exchange, _ in self.queue:
            if exchange is not None:
                return correlation_id_of(frame.data) == exchange.correlation_id
        return False

    def sought(self):
        """Correlation ids and routes of the requests whose responses can be recognised, oldest first."""
        for exchange, route in self.queue:
            if exchange is not None and route is not None and exchange.correlation_id is not None:
                yield exchange.correlation_id, route

    def find(self, Frame frame not None):
        """How many entries come before the request that *frame* answers; its header is then read. None: no request."""
        for index, (exchange, route) in enumerate(self.queue):
            if exchange is not None and _answers(frame, exchange, route):
                return index
        return None


def correlation_id_of(bytes response not None):
    """The correlation id alone, of a response whose header may be damaged or cut short behind it."""
    try:
        return read_response_header(response[:4], 0).correlation_id
    except DecodeError:
        return None


cdef bint _answers(Frame frame, Exchange exchange, Route route) except -1:
    """Whether a response belongs to that request: its correlation id and, where the API is known, its whole body."""
    cdef ResponseHeader header
    try:
        header = read_response_header(frame.data, 0 if route is None else route.response_header_version)
    except DecodeError:
        return False
    if header.correlation_id != exchange.correlation_id:
        return False
    if route is not None and not route.fits_response(frame.data):
        return False
    frame.header = header
    frame.body_start = header.size
    return True
