import asyncio

from kproxy.proxy.forwarding.lane import Pipe, Worker
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.owner import LinkOwner

class Acceptor:
    """Accepts on one listening socket.

    Args:
        worker: what its links share.
        owner: a LinkOwner, the virtual cluster.
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
        """Connect clients to the broker at *target* (sockaddr) and *address* (host, port); None: ask the owner."""

    def start(self) -> None:
        """Accept clients."""

    def stop(self) -> None:
        """Stop accepting, after the clients in the backlog, so that none of them is reset."""

    def pause(self) -> None:
        """Stop accepting for now; clients wait in the backlog."""

class Poller:
    """The epoll of one worker's plain sockets.

    Args:
        loop: uvloop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def close(self) -> None:
        """Stop watching."""

    def run(self) -> None:
        """Handle the events of sockets that are ready."""

class SocketPipe(Pipe):
    """Reads one non-blocking socket and writes another; ``close_sockets`` closes them."""

def pump(link: Link, client: int, broker: int) -> None:
    """Join two connected, non-blocking sockets (file descriptors), which the link owns from now on."""

def close_sockets(link: Link) -> None:
    """Close the sockets that a link owns."""
