"""Scenes: rows of tables made by hand, in which a finding fires, and nearly the same in which it must not.

Each scene is a function that adds rows and is told whether to show what the finding looks for:

    @scene("acks_below_all", rows=1, client_id="orders", acks=1, records=20)
    def _(tables: Rows, bad: bool) -> None:
        tables.client("orders").produce(0, "invoices", count=20, acks=1 if bad else -1)

``rows`` is how many rows the finding then has, the rest are values of the first row, worked out from the scene by hand.
"""

from tests.support.scenes import clients, consumers, errors, groups, misuse, producers, replicas, schemas, security
from tests.support.scenes.rows import Rows
from tests.support.scenes.scene import SCENES, Scene

__all__ = [
    "SCENES",
    "Rows",
    "Scene",
    "clients",
    "consumers",
    "errors",
    "groups",
    "misuse",
    "producers",
    "replicas",
    "schemas",
    "security",
]
