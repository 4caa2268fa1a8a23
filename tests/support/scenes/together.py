"""All scenes in the same tables: each with a cluster, captures and clients of its own, so that none is evidence for another."""

from collections.abc import Callable, Iterable
from typing import Any

from tests.support.scenes.rows import Rows
from tests.support.scenes.scene import SCENES, Scene


def play_all(
    *, bad: bool = True, scenes: Iterable[Scene] = SCENES, change: Callable[[Rows], None] = lambda rows: None
) -> Rows:
    """The rows of all *scenes*. *change* is applied to each before they are put together."""
    every = Rows()
    for scene in scenes:
        number = SCENES.index(scene)
        own = Rows()
        scene.play(own, bad)
        change(own)
        for connection in own.tables["connections"]:
            connection |= {
                "capture": f"{number}-{connection['capture']}",
                "broker_address": address(connection["broker_address"], number),
                "client_address": address(connection["client_address"], number),
            }
        for name, given in own.tables.items():
            every.tables[name] += [{**row, "connection_id": f"{row['connection_id']}-{number}"} for row in given]
    return every


def address(given: str, number: int) -> str:
    """What an address of a scene, 10.x.y.z (also with a port), is among all scenes."""
    first, second, _, last = given.split(".")
    return f"{first}.{second}.{number}.{last}"


def rows_of(scene: Scene, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the rows of a finding whose example is in this scene."""
    return [row for row in rows if row["connection_id"].endswith(f"-{SCENES.index(scene)}")]


def first_of(scene: Scene) -> dict[str, Any]:
    """What the first row of a scene has, among all scenes."""
    number = SCENES.index(scene)
    return {
        name: address(value, number) if name in ("broker", "client_address") else value
        for name, value in scene.first.items()
    }
