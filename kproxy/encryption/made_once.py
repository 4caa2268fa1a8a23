"""A memory for what is made of the names in one batch."""

from collections.abc import Callable, Hashable
from typing import TypeVar

MOST = 1_000  # then it begins anew

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MadeOnce(dict[K, V]):
    """What a function makes of each name, such as that of a header or the path of a field."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: K) -> V:
        if len(self) >= MOST:
            self.clear()
        self[name] = made = self._make(name)
        return made
