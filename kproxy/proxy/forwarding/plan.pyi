from collections.abc import Container, Iterable
from typing import Protocol

from kproxy.filters.contract import Want
from kproxy.protocol import Direction
from kproxy.protocol.program import Program

class Wanting(Protocol):
    """What a plan asks of kproxy.filters.Chain."""

    def wanted(self, direction: Direction, api_key: int, api_version: int) -> Want: ...
    def unknown(self, direction: Direction, api_key: int) -> Want: ...

class Plan:
    """What lanes do with frames of each API and version, made of a chain of filters and the facts.

    Args:
        chain: kproxy.filters.Chain; None: every frame is cut through.
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
        """Whether the tap gets some APIs only, or the first bytes of frames only."""

    @property
    def snaplen(self) -> int: ...
    def wanted(self, direction: int, api_key: int, api_version: int) -> Want:
        """Return what is done with frames of an API at a version."""

    def is_tapped(self, api_key: int, api_version: int) -> bool:
        """Return whether the tap gets frames of an API."""

    def tail_step(self, api_key: int, api_version: int) -> int | None:
        """Return the top-level step of a response at which its tail begins, -1 for the tags; None: it has no tail to hold."""

def stop_of(program: Program, name: str | None) -> int:
    """Return the top-level step that reads the untagged field *name* (Kafka's JSON name); None: the tags. Raises KeyError."""

def walk_in_pieces(
    program: Program, stop: str | None, pieces: Iterable[bytes], client_id: bool = False, header_tags: bool = False
) -> tuple[str, int]:
    """Walk over *pieces* (bytes) as a lane does; return (how it ended, bytes it used). Used by tests."""
