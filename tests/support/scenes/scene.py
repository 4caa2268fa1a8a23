"""A scene and the list of all."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.support.scenes.rows import Rows

Play = Callable[[Rows, bool], None]


class Scene(NamedTuple):
    """What to play, and what the finding then says: the number of rows and values of the first."""

    finding: str
    play: Play
    rows: int
    first: Mapping[str, Any]


SCENES: list[Scene] = []


def scene(finding: str, *, rows: int = 1, **first: Any) -> Callable[[Play], Play]:
    """Add the function to the scenes of *finding*."""

    def add(play: Play) -> Play:
        SCENES.append(Scene(finding, play, rows, first))
        return play

    return add
