"""The question "schemas": who writes and reads with which, over rows whose truth is chosen; and from a capture."""

from pathlib import Path
from typing import Any

from tests.support.scenes.rows import Rows
from tests.support.scenes.schemas import GOOD, UNKNOWN

OLD: dict[str, Any] = {**GOOD, "value_schema_version": 1}
NEW: dict[str, Any] = {**GOOD, "value_schema_id": "8", "value_schema_version": 2}


def written(tables: Rows, topic: str, client_id: str, *values: tuple[float, dict[str, Any]]) -> None:
    producer = tables.client(client_id)
    for at, columns in values:
        exchange = producer.produce(at, topic)
        producer.record(exchange, topic, b"text", **columns)


def test_changes_are_told_from_mixtures(tmp_path: Path) -> None:
    tables = Rows()
    written(tables, "changed", "a", (0, OLD), (1, OLD), (2, NEW), (3, NEW), (4, NEW))
    written(tables, "mixed", "old", (0, OLD), (9, OLD))
    written(tables, "mixed", "new", (5, NEW), (6, UNKNOWN))
    consumer = tables.client("reader")
    consumer.record(consumer.fetch(20, "mixed", 0, end=9, count=1), "mixed", None, direction="fetch", **OLD)
    found = {(row["topic"], row["schema_id"]): row for row in tables.answer(tmp_path, "schemas")}
    told = {
        key: (row["produced"], row["fetched"], row["writers"], row["readers"], row["mixed_with"], row["since_version"])
        for key, row in found.items()
    }
    assert told == {
        ("changed", "7"): (2, 0, ["a"], [], 0, None),
        ("changed", "8"): (3, 0, ["a"], [], 0, 1),
        ("mixed", "7"): (2, 1, ["old"], ["reader"], 2, None),
        ("mixed", "8"): (1, 0, ["new"], [], 1, None),
        ("mixed", "9"): (1, 0, ["new"], [], 1, 2),
    }
    assert [key for key, row in found.items() if not row["is_known"]] == [("mixed", "9")]
