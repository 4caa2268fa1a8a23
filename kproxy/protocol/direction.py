"""The two directions of a connection. Its numbers in C are in direction.pxd; a test compares them."""

from enum import IntEnum


class Direction(IntEnum):
    """One half of a connection: an index (0, 1) for code, and ``text`` for JSON and people.

    Compare with ``==``, as code that runs for every frame passes plain numbers.
    """

    REQUEST = 0  # client to broker
    RESPONSE = 1  # broker to client

    @classmethod
    def of(cls, text: str) -> "Direction":
        """Return the direction named ``"request"`` or ``"response"``. Raises ValueError."""
        return _DIRECTIONS[_TEXTS.index(text)]

    @property
    def text(self) -> str:
        """``"request"`` or ``"response"``."""
        return _TEXTS[self]

    @property
    def other(self) -> "Direction":
        """The opposite direction."""
        return _DIRECTIONS[1 - self]

    def __str__(self) -> str:
        return _TEXTS[self]

    def __format__(self, spec: str) -> str:
        return format(_TEXTS[self], spec)


_TEXTS = ("request", "response")
_DIRECTIONS = tuple(Direction)
