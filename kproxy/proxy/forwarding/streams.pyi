import asyncio

from kproxy.proxy.forwarding.lane import Pipe
from kproxy.proxy.forwarding.link import Link

class Leg(asyncio.Protocol):
    """The asyncio protocol of one side of a link; *tls*: whether it is encrypted."""

    def __init__(self, tls: bool) -> None: ...
    @property
    def transport(self) -> asyncio.Transport:
        """None before connection_made."""

    @property
    def tls(self) -> bool: ...
    @property
    def lost(self) -> bool:
        """The connection is gone."""

class TransportPipe(Pipe):
    """Reads one leg and writes the other."""

    def __init__(self, source: Leg, sink: Leg) -> None: ...

def join_legs(link: Link, client: Leg, broker: Leg) -> None:
    """Join two connected legs, whose transports the link owns from now on."""

def close_legs(link: Link) -> None:
    """Close the transports of a link after what has been written to them is sent."""
