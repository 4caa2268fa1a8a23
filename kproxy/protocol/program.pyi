"""A layout at one version as a table of operations; the walk over bytes; where a fault is."""

from collections.abc import Callable

from kproxy.errors import DecodeError
from kproxy.protocol.facts import Layout
from kproxy.protocol.secrets import Secrecy
from kproxy.protocol.structs import Struct

class Program:
    """What the sinks execute: one layout of one message at one version. Made by kproxy.protocol.message."""

    @property
    def message(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def release(self) -> str:
        """The Kafka release whose jar the layout comes from."""

    def __init__(
        self,
        layout: Layout,
        version: int,
        types: dict[str, type[Struct]],
        secrecy: Callable[[str, tuple[str, ...]], Secrecy],
    ) -> None: ...
    def walk(self, data: bytes, start: int = 0) -> int:
        """Bytes the message takes from *start* on. Raises DecodeError."""

    def check(self, data: bytes, start: int = 0) -> DecodeError | None:
        """Whether the message fills *data* from *start* on exactly; the DecodeError when it does not, else None."""

    def peek(self, name: str, data: bytes, start: int = 0) -> int:
        """The integer that the untagged top-level field *name* (Kafka's JSON name) holds. Raises DecodeError, KeyError."""
