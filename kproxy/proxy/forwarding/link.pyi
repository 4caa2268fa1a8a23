from enum import IntEnum

from kproxy.filters.contract import ConnectionFacts, RequestFacts
from kproxy.proxy.forwarding.lane import Lane, LinkBase, Pipe, Worker
from kproxy.proxy.forwarding.owner import Limits, LinkOwner
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.streams import Leg

class LinkLife(IntEnum):
    """The states of a link's life."""

    OPENING = ...
    JOINED = ...
    DRAINING = ...
    HALF_CLOSED = ...
    CLOSED = ...

LIFE_TRANSITIONS: dict[LinkLife, set[LinkLife]]

class Link(LinkBase):
    """One client's connection and the broker's. Made by an acceptor; joined by ``sockets.pump`` or ``streams.join_legs``."""

    connecting: bool  # waiting for the broker's socket to be connected
    legs: tuple[Leg, ...] | None  # of a link between transports: (client, broker)
    facts: ConnectionFacts | None  # made when first needed
    client_host_slot: int | None  # index of the client host in the per-address connection counters, or None
    local: bytes | None  # the address the client connected to (sockaddr), once asked for
    peer: bytes  # the client's address as the kernel reported it (sockaddr)
    target: tuple[str, int] | None  # (host, port) of the broker
    node_id: int | None

    def __init__(self, worker: Worker, owner: LinkOwner, plan: Plan, number: int, limits: Limits) -> None: ...
    @property
    def number(self) -> int: ...
    @property
    def requests(self) -> Lane | None: ...
    @property
    def responses(self) -> Lane | None: ...
    @property
    def opened_at(self) -> int:
        """ns, monotonic."""

    @property
    def life_state(self) -> LinkLife: ...
    @property
    def transitions_taken(self) -> set[tuple[LinkLife, LinkLife]]:
        """Transitions of this link's life so far, as pairs of LinkLife."""

    @property
    def in_flight_count(self) -> int:
        """Requests and tokens to be answered, and responses of filters that wait for their turn."""

    @property
    def bytes_received(self) -> tuple[int, int]:
        """(bytes from the client, bytes from the broker)."""

    @property
    def frames_received(self) -> tuple[int, int]:
        """(requests, responses)."""

    @property
    def last_request(self) -> int:
        """API key of the last request; -1 before the first."""

    @property
    def half_closed(self) -> bool:
        """Whether the client, the broker or both have sent their end, and the link is still open."""

    @property
    def incomplete_frame_since(self) -> int:
        """When the last byte of an incomplete frame or header was received (ns, monotonic); 0: there is none."""

    def join(self, requests: Pipe, responses: Pipe) -> None:
        """Make the lanes, each with the pipe that reads and writes for it, and begin to forward."""

    def take_client(self) -> int:
        """Hand the client's socket (file descriptor) over to the caller; -1: it was handed over before, or closed."""

    def client_socket(self) -> int:
        """Return the client's socket (file descriptor), which stays the link's; -1: it was handed over, or closed."""

    def return_client(self, client: int) -> None:
        """Take back the socket that ``take_client`` handed over; close it if the link was closed meanwhile."""

    def local_address(self) -> bytes:
        """Return the address the client connected to (sockaddr); empty if it cannot be determined."""

    def stop_connecting(self) -> None:
        """Stop watching the broker's socket for the end of its connect."""

    def note_progress(self) -> None:
        """Note that a sink took bytes: the connection is not idle."""

    def use_plan(self, plan: Plan) -> None:
        """Look frames up in *plan* from the next one on."""

    def forward_request(self, frame: bytes, held: RequestFacts | None = None) -> None:
        """Forward a held request, or its replacement, to the broker; *held*, its RequestFacts, is kept for its response."""

    def forward_response(self, frame: bytes) -> None:
        """Forward a held response, or its replacement, to the client."""

    def answer(self, frame: bytes) -> None:
        """Queue a filter's response to a request that is not forwarded; it is sent after the responses to earlier requests."""

    def resume(self, direction: int) -> None:
        """Process and read on in a direction whose held frame has been decided about."""

    def drain(self) -> None:
        """Begin no further request; close once everything in flight is answered."""

    def source_lost(self, lane: Lane) -> None:
        """Handle a reset, or another error, of the side a lane reads."""

    def sink_lost(self, lane: Lane, after_end: bool = False) -> None:
        """Handle that the side a lane writes to cannot be written; *after_end*: it had sent its end. It may still be read."""

    def forget(self) -> None:
        """Drop the lanes of a closed link, so that no reference cycle is left; no callback of theirs may be running."""
