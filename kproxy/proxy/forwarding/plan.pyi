from collections.abc import Container
from typing import Protocol

from kproxy.filters.contract import Want
from kproxy.session import Direction

class Wanting(Protocol):
    """What a plan asks of kproxy.filters.Chain."""

    def wanted(self, direction: Direction, api_key: int, api_version: int) -> Want: ...
    def unknown(self, direction: Direction, api_key: int) -> Want: ...

class Plan:
    """What a lane looks up of an API at a version.

    Args:
        chain: kproxy.filters.Chain; None: every frame passes.
        tapped: API keys whose frames the tap gets; None: all.
        snaplen: bytes of a frame that the tap gets; 0: all.
    """

    def __init__(
        self, chain: Wanting | None = None, tapped: Container[int] | None = None, snaplen: int = 0
    ) -> None: ...
    @property
    def chain(self) -> Wanting | None: ...
    @property
    def selective(self) -> bool:
        """Whether some APIs are not tapped, or frames not whole."""

    @property
    def snaplen(self) -> int: ...
    def wanted(self, side: int, api_key: int, api_version: int) -> Want:
        """What is done with frames of an API at a version; side 0 is the client's."""

    def is_tapped(self, api_key: int, api_version: int) -> bool:
        """Whether the tap gets frames of an API."""

    def tail_step(self, api_key: int, api_version: int) -> int | None:
        """The top-level step of a response where the end begins that is looked at, -1 for the tags; None: it is not TAIL."""
