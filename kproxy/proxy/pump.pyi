import asyncio

from kproxy.proxy.lane import Pipe
from kproxy.proxy.link import Link

class SocketPipe(Pipe):
    """Reads one non-blocking socket and writes another.

    Args:
        loop: uvloop's.
        source, sink: file descriptors; whoever made them closes them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, source: int, sink: int) -> None: ...
    @property
    def source(self) -> int: ...
    @property
    def sink(self) -> int: ...
    def readable(self) -> None:
        """The source has something."""

    def writable(self) -> None:
        """The sink takes more."""

def pump(link: Link, client: int, broker: int) -> None:
    """Join two connected, non-blocking sockets (file descriptors); they are the link's from now on."""

def close_sockets(link: Link) -> None:
    """Close the sockets of a link that was pumped, or was going to be."""
