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


def example_fits(row: Mapping[str, Any], tables: Rows) -> bool:
    """Whether the exchange that a row names as its example is there, and lies between the first and the last time of the row."""
    if row["exchange"] is None:  # its evidence is a connection, which may have no time in a scene
        return any(each["connection_id"] == row["connection_id"] for each in tables.tables["connections"])
    if row["first_at"] is None or row["last_at"] is None or row["first_at"] > row["last_at"]:
        return False
    found = (each for each in tables.tables["exchanges"] if each["exchange"] == row["exchange"])
    return any(
        each["connection_id"] == row["connection_id"]
        and each["request_at"] <= row["last_at"]
        and (each["response_at"] or each["request_at"]) >= row["first_at"]
        for each in found
    )


SCENES: list[Scene] = []
OF_CLIENTS = {  # name no group and no topic: a client that does so in two clusters is one client
    "anonymous_clients", "authentication_failed", "connection_churn", "empty_fetch_loop",
    "idle_connections", "metadata_storm", "no_connection", "not_kafka", "old_tls", "plaintext_credentials", "reconnect_loop",
    "slow_broker", "small_fetches", "throttled", "tls_failed", "too_many_partitions", "two_clusters", "unanswered_requests",
}  # fmt: skip


def scene(finding: str, *, rows: int = 1, **first: Any) -> Callable[[Play], Play]:
    """Add the function to the scenes of *finding*."""

    def add(play: Play) -> Play:
        SCENES.append(Scene(finding, play, rows, first))
        return play

    return add
