from kproxy.filters.contract import ConnectionFacts, RequestFacts
from kproxy.proxy.forwarding.lane import Joint, Lane, Pipe, Worker
from kproxy.proxy.forwarding.owner import Limits, LinkOwner
from kproxy.proxy.forwarding.plan import Plan
from kproxy.proxy.forwarding.streams import Leg

class Link(Joint):
    """One client's connection and the broker's. Made by an acceptor; its lanes are given by a pump or by streams."""

    connecting: bool  # waiting for the broker's socket to be connected
    legs: tuple[Leg, ...] | None  # of a link between transports: (client, broker)
    facts: ConnectionFacts | None  # made when somebody needs them
    client_host_slot: int | None  # index of the client host in the per-address connection counters, or None
    local: bytes | None  # the address the client came to (sockaddr), once asked for
    peer: bytes  # the client's address as the kernel gave it (sockaddr)
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
    def in_flight_count(self) -> int:
        """Requests, tokens and answers that wait for their turn."""

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
        """Give the link what reads and writes for it; traffic begins."""

    def take_client(self) -> int:
        """The client's socket (file descriptor), which is the caller's from now on; -1: it was taken, or is closed."""

    def client_socket(self) -> int:
        """The client's socket (file descriptor), which stays the link's; -1 when it has been taken or closed."""

    def return_client(self, client: int) -> None:
        """Take back what ``take_client`` gave; where the link has been closed meanwhile, it is closed now."""

    def local_address(self) -> bytes:
        """The address the client came to (sockaddr); empty when that cannot be told."""

    def stop_connecting(self) -> None:
        """Whether the broker is there or not: the loop need not tell any more."""

    def note_progress(self) -> None:
        """A slow sink has taken something: the connection is not idle."""

    def use_plan(self, plan: Plan) -> None:
        """Frames that begin from now on are looked up in *plan*."""

    def forward_request(self, frame: bytes, held: RequestFacts | None = None) -> None:
        """Send a held request, or what stands for it, on to the broker; *held* is for whoever sees the response.

        Raises ValueError for a frame without a header.
        """

    def forward_response(self, frame: bytes) -> None:
        """Send a held response, or what stands for it, on to the client."""

    def answer(self, frame: bytes) -> None:
        """The client gets this response frame when its turn comes; the request it answers went nowhere."""

    def resume(self, side: int) -> None:
        """The verdict that the direction waited for has been acted on."""

    def drain(self) -> None:
        """Begin no further request; close when what is in flight is answered."""

    def source_lost(self, lane: Lane) -> None:
        """The side a lane reads from is gone without a farewell."""

    def sink_lost(self, lane: Lane, farewell: bool = False) -> None:
        """The side a lane writes to is gone, with or without a *farewell*. What it has sent before may still be read."""

    def forget(self) -> None:
        """Nobody is inside the link any more: it lets go of its lanes, so that the collector need not come for them."""
