import asyncio

from kproxy.proxy.forwarding.lane import Pipe
from kproxy.proxy.forwarding.link import Link

class Leg(asyncio.Protocol):
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
    def __init__(self, source: Leg, sink: Leg) -> None: ...

def join_legs(link: Link, client: Leg, broker: Leg) -> None: ...
def close_legs(link: Link) -> None: ...
