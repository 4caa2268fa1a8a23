"""All scenes in the same tables: each with a cluster, captures and clients of its own, so that none is evidence for another."""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tests.support.scenes.rows import Rows
from tests.support.scenes.scene import SCENES, Scene

ADDRESSES = ("broker", "client_address", "address", "advertised", "clusters")
ADVERTISED = re.compile(r"10\.\d+\.\d+\.\d+")
OF_A_STAGE = re.compile(r"\b1\d(?=\.\d+\.\d+\.\d)|-\d(?=-\d+')")  # in the text of a row: addresses, ids of connections


def play_all(
    *,
    bad: bool = True,
    scenes: Iterable[Scene] = SCENES,
    change: Callable[[Rows], None] = lambda rows: None,
    stage: int = 0,
    every: Rows | None = None,
) -> Rows:
    """The rows of all *scenes*. *change* is applied to each before they are put together.

    *every*: add to these rows, which have those of other stages: of scenes that were played in another way.
    """
    every = Rows() if every is None else every
    for scene in scenes:
        number = SCENES.index(scene)
        own = Rows()
        scene.play(own, bad)
        change(own)
        for connection in own.tables["connections"]:
            connection |= {
                "capture": f"{stage}-{number}-{connection['capture']}",
                "broker_address": address(connection["broker_address"], number, stage),
                "client_address": address(connection["client_address"], number, stage),
            }
        for exchange in own.tables["exchanges"]:
            if exchange["advertised"] is not None:
                exchange["advertised"] = [
                    ADVERTISED.sub(partial(_advertised, number, stage), one) for one in exchange["advertised"]
                ]
        for name, given in own.tables.items():
            suffix = f"-{stage}-{number}"
            every.tables[name] += [{**row, "connection_id": f"{row['connection_id']}{suffix}"} for row in given]
    return every


def address(given: str, number: int, stage: int = 0) -> str:
    """What an address of a scene, 10.x.y.z (also with a port), is among all scenes."""
    _, second, _, last = given.split(".")
    return f"1{stage}.{second}.{number}.{last}"


def _advertised(number: int, stage: int, found: re.Match[str]) -> str:
    return address(found[0], number, stage)


def rows_of(scene: Scene, rows: Iterable[dict[str, Any]], stage: int = 0) -> list[dict[str, Any]]:
    """Those of the rows of a finding whose example is in this scene."""
    return [row for row in rows if row["connection_id"].endswith(f"-{stage}-{SCENES.index(scene)}")]


def text_of(row: dict[str, Any], *left_out: str) -> str:
    """A row as text that is the same for all stages, without some of its columns."""
    return OF_A_STAGE.sub("", repr({name: value for name, value in row.items() if name not in left_out}))


def first_of(scene: Scene) -> dict[str, Any]:
    """What the first row of a scene has, among all scenes."""
    number = SCENES.index(scene)
    return {
        name: ADVERTISED.sub(partial(_advertised, number, 0), value) if name in ADDRESSES else value
        for name, value in scene.first.items()
    }
