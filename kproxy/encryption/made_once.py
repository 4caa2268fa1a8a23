"""A memory for what is made of names."""

from collections.abc import Callable, Hashable
from typing import TypeVar

MOST = 1_000

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MadeOnce(dict[K, V]):
    """What a function makes of each name, such as that of a header or a topic; with *most* of them it begins anew."""

    def __init__(self, make: Callable[[K], V], most: int = MOST) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, name: K) -> V:
        made = self._make(name)
        if len(self) >= self._most:
            self.clear()
        self[name] = made
        return made
