import asyncio

from kproxy.proxy.forwarding.lane import Pipe
from kproxy.proxy.forwarding.link import Link

class Poller:
    """The epoll of one worker's plain sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None: ...
    def close(self) -> None:
        """Watch nothing any more."""

    def run(self) -> None:
        """Something has happened to some of the sockets."""

class SocketPipe(Pipe):
    """Reads one non-blocking socket and writes another; whoever made them closes them."""

def pump(link: Link, client: int, broker: int) -> None:
    """Join two connected, non-blocking sockets (file descriptors); they are the link's from now on."""

def close_sockets(link: Link) -> None:
    """Close the sockets of a link that was pumped, or was going to be."""
