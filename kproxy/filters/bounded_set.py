"""BoundedSet: a set of texts that forgets those added longest ago when there are too many."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

MOST_VALUES = 200_000
LONGEST_VALUE = 300  # characters: a topic id with a name of 249, which is the longest


class BoundedSet:
    """A SharedSet (contract.py) of this process.

    Args:
        most: values that it keeps.
        on_new: called with each value that ``add`` has put into it.
    """

    def __init__(self, most: int = MOST_VALUES, on_new: Callable[[str], None] = lambda value: None) -> None:
        self._values: dict[str, None] = {}
        self._changes = 0
        self._most = most
        self._on_new = on_new

    def __contains__(self, value: str) -> bool:
        return value in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def added_since(self, change: int) -> tuple[int, list[str]]:
        """Return the number of the last change, and the values added after change number *change*, the newest last.

        Values that were forgotten since are not among them.
        """
        newest = list(islice(reversed(self._values), self._changes - change))
        return self._changes, newest[::-1]

    def add(self, value: str) -> None:
        """Add a value; an existing one counts as added now. Raises ValueError if it is too long."""
        if len(value) > LONGEST_VALUE:
            raise ValueError(f"a value of {len(value)} characters; at most {LONGEST_VALUE} are shared")
        if self._put(value):
            self._on_new(value)

    def receive(self, values: Iterable[str]) -> None:
        """Add the values that another process has added."""
        for value in values:
            self._put(value)

    def _put(self, value: str) -> bool:
        """Add a value; return whether it is new."""
        is_new = value not in self._values
        if not is_new:
            del self._values[value]
        self._values[value] = None
        self._changes += 1
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        return is_new
