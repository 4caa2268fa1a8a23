from kproxy.proxy.forwarding.lane import Worker
from kproxy.proxy.forwarding.owner import LinkOwner

class Acceptor:
    """Accepts on one listening socket.

    Args:
        worker: what its links share.
        owner: the virtual cluster.
        fd: a listening, non-blocking socket; TCP_NODELAY and SO_KEEPALIVE set on it are inherited.
        node_id: of the broker whose clients come here; None: the bootstrap address.
    """

    def __init__(self, worker: Worker, owner: LinkOwner, fd: int, node_id: int | None = None) -> None: ...
    @property
    def worker(self) -> Worker: ...
    @property
    def owner(self) -> LinkOwner: ...
    @property
    def fd(self) -> int: ...
    @property
    def node_id(self) -> int | None: ...
    def set_target(self, target: bytes | None, address: tuple[str, int] | None) -> None:
        """Connect clients straight to *target*, a sockaddr; *address* is its (host, port). None: ask the owner to open links."""

    def start(self) -> None:
        """Accept from now on."""

    def stop(self) -> None:
        """Accept no more; what waits in the backlog is taken first, so that no client is turned away."""

    def pause(self) -> None:
        """Accept nothing for now; who comes waits in the backlog."""
