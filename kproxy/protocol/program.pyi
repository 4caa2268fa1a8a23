"""A layout at one version as a table of operations; the walk over bytes; where a fault is."""

from collections.abc import Callable
from typing import Self

from kproxy.errors import DecodeError
from kproxy.protocol.facts import Layout
from kproxy.protocol.secrets import Secrecy
from kproxy.protocol.structs import Struct

class Program:
    @property
    def message(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def release(self) -> str:
        """The Kafka release whose jar the layout comes from."""

    def __new__(
        cls,
        layout: Layout,
        version: int,
        types: dict[str, type[Struct]],
        secrecy: Callable[[str, tuple[str, ...]], Secrecy],
        nulls: bool = False,
    ) -> Self: ...
    def walk(self, data: bytes, start: int = 0) -> int: ...
    def check(self, data: bytes, start: int = 0) -> DecodeError | None: ...
    def peek(self, name: str, data: bytes, start: int = 0) -> int: ...
