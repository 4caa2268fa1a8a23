"""LinkOwner: what acceptors, links and lanes (Cython) ask of the virtual cluster that owns them.

The calls go both ways. The owner answers here; to act on a link it calls the link's own methods: ``forward_request``,
``forward_response``, ``answer``, ``resume``, ``close`` (link.pyx). Every method is called from the event loop and must not
block. None is called for a frame that is cut through, except where its docstring says so.

An exception raised by a method called for a frame, an accepted client or a connected broker closes the link with
``CloseCause.ERROR`` after ``on_fault``; one raised by ``describe`` is counted as bytes the tap did not get, and reported by
``on_fault`` once a connection.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from kproxy.filters.contract import RequestFacts, Want
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.sockets import Acceptor
from kproxy.proxy.messages import Connection

PairedRequest: TypeAlias = tuple[int, int, int, RequestFacts | None]
"""The request that a response answers: API key, version, correlation id, and its RequestFacts if it was held."""


class Limits(NamedTuple):
    """Limits of one link; a link keeps those it was made with. Sizes are in bytes, without the size field unless noted."""

    frame_size: int  # largest request that is forwarded; a larger one closes the connection (BAD_FRAME)
    unauthenticated_frame_size: int  # largest request between SaslHandshake and the end of authentication
    held_frame_size: int  # largest frame that is held whole, size field included; see LinkOwner.on_too_large_to_hold
    in_flight: int  # unanswered requests at which the client is not read until half of them are answered


class LinkOwner(Protocol):
    """The owner of links: a virtual cluster in one worker (virtual_cluster.py)."""

    # Read for each accepted client

    @property
    def plan(self) -> Plan:
        """Plan of new links; links that exist are given another one (``Link.plan``)."""

    @property
    def limits(self) -> Limits:
        """Limits of new links."""

    @property
    def sampler(self) -> Callable[[], bool] | None:
        """Returns whether the tap gets the next connection; None: it gets every one."""

    @property
    def logs_in(self) -> bool:
        """Whether kproxy logs new links in to the broker before their first request."""

    # Called by acceptors

    def admit_client(self, peer: bytes) -> int | None:
        """Count a connection of this client (sockaddr); return its slot, or None to refuse it.

        The slot becomes ``Link.client_host_slot``; ``on_closed`` has to uncount it. Called only while
        ``Worker.checks_each_client`` is set.
        """

    def open_link(self, link: Link, acceptor: Acceptor) -> None:
        """Connect a link that takes more than one connect(2): TLS, a name to resolve, a PROXY header, a SOCKS proxy.

        End with ``sockets.pump``, or close the link.
        """

    def on_unreachable(self, link: Link, error: int) -> None:
        """Handle a failed connect to the broker (*error* is an errno); close the link, now or later."""

    def on_accept_error(self, acceptor: Acceptor, error: int) -> None:
        """Handle accept(2) failing for want of descriptors or memory (*error* is an errno): pause accepting for a while."""

    # Called by lanes, for frames that are held

    def on_request(self, link: Link, frame: bytes) -> bool:
        """Decide about a request that was held whole (size field included).

        Return True once it is decided: forwarded, answered, dropped or the link closed. Return False if the decision comes
        later: the client is not read until ``link.resume(Direction.REQUEST)``.
        """

    def on_response(self, link: Link, request: PairedRequest, frame: bytes) -> bool:
        """Decide about a response that was held whole, as ``on_request`` does; ``link.resume(Direction.RESPONSE)``."""

    def on_head(self, link: Link, request: PairedRequest, head: bytes) -> bytes | None:
        """Return the head of a response, size field included, as the client is to see it; None: close the connection.

        If the head changes its size, its size field must be that of the whole changed response.
        """

    def on_tail(self, link: Link, request: PairedRequest, tail: bytes) -> bytes:
        """Return the tail of a response, from the first address on, as the client is to see it: as many bytes."""

    def on_beginning(self, link: Link, direction: int, api_key: int, api_version: int, beginning: bytes) -> Want:
        """Return what to do with a frame that filters want held if it has certain topics; *beginning*: its first bytes.

        Want.PASS: cut it through; Want.HEAD or Want.TAIL: hold only that part; Want.HOLD.
        """

    def on_too_large_to_hold(self, link: Link, direction: int, api_key: int, api_version: int, size: int) -> Want:
        """Return what to do with a frame that a filter wants held whole and that is larger than ``held_frame_size``.

        Want.PASS: cut it through; Want.HEAD, Want.TAIL: hold only that part; Want.REFUSE: close the connection (FRAME_TOO_BIG).
        """

    def on_large_refused(self, link: Link, request: PairedRequest) -> None:
        """Send the client what it gets in place of a response refused for its size; then the connection is closed."""

    def on_handshake(self, link: Link, frame: bytes) -> bool:
        """Note a SaslHandshake request; return whether raw SASL tokens follow it."""

    def is_token(self, link: Link, frame: bytes) -> bool:
        """Return whether a frame that came where a raw SASL token may is one; False: it is a request."""

    # Called for kproxy's own login at the broker

    def on_login_due(self, link: Link) -> None:
        """Log in while the client's requests wait: ``Link.send_own_request``; end with ``Link.end_login``, or close the link."""

    def on_own_response(self, link: Link, frame: bytes | None) -> None:
        """Take the response to a request of kproxy's own; None: the broker has closed, and no response comes."""

    # Called for what goes wrong, and at the end

    def on_mispaired(self, link: Link) -> bool:
        """Note a response that answers no request; return True to forward the rest without framing, False to close."""

    def on_refused(self, link: Link, direction: int, cause: int, start: bytes) -> int:
        """Log a frame the connection is closed for; return the CloseCause to count.

        *start* is the frame's first 4 bytes, empty if they have been forwarded.
        """

    def on_fault(self, link: Link | None, error: Exception) -> None:
        """Log an unexpected exception; None: before the link was made. The caller closes the link, except after ``describe``."""

    def on_out_of_memory(self, link: Link, size: int) -> None:
        """Log that the link is closed to free memory: limits.memory is used up, and it has the largest buffers, *size* bytes."""

    def on_closed(self, link: Link, cause: int) -> None:
        """Release what belongs to the link: close its sockets, uncount its client. Called once, last."""

    # For the tap and the admin port

    def describe(self, link: Link, from_start: bool) -> bytes:
        """Return the JSON of the tap's OPEN record; *from_start*: nothing of the connection has been missed."""

    def row_of(self, link: Link, now: int, worker: int) -> Connection:
        """Return the connection as /connections shows it; *now* in ns of the monotonic clock, *worker* its number."""
