"""Conditions as SQL beside CEL itself, over rows with values that are at the edges of their types."""

from collections.abc import Iterator
from random import Random
from typing import Any

import cel
import duckdb

from kproxy.output.times import render_instant
from kproxy.page.columns import COLUMNS, IN_FILTERS
from kproxy.page.filtering.sql import condition_sql

TYPES = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "truth": "BOOLEAN",
    "time": "BIGINT",
    "texts": "VARCHAR[]",
}
VALUES: dict[str, list[Any]] = {
    "integer": [0, 1, -1, 2, 3, 7, 12, 100, 512, 1 << 32, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), None],
    "number": [0.0, -0.0, 1.0, -2.5, 0.1, 1e16, 1.2345e-5, 123456.789, 1e22, 3.0, 1e-7, 1.8446744073709552e19, None],
    "text": ["", "a", "é", "client-7", "c1", "12", "-7", None],
    "truth": [True, False, None],
    "time": [0, 1_763_719_507_123_456_789, 1_763_719_507_123_456_000, 1_763_719_507_500_000_000, 1_795_253_400_000_000_000, None],
    "texts": [[], ["a"], ["topic-7", "é"], ["c", "c1", "a"], None],
}  # fmt: skip
PLAIN = ("client", "broker", "apiName")  # texts that are ASCII, as Kafka's names and addresses are
NAMES = sorted(IN_FILTERS)


class Judge:
    """Rows in DuckDB and the same rows for CEL."""

    def __init__(self, seed: int = 1, count: int = 40) -> None:
        source = Random(seed)
        rows = [{name: source.choice(VALUES[COLUMNS[name].type]) for name in NAMES} for _ in range(count)]
        for row, name in ((row, name) for row in rows for name in PLAIN if row[name] == "é"):
            row[name] = "10.0.0.1:9092"
        self._database = duckdb.connect()
        columns = ", ".join(f"{COLUMNS[name].sql[2:]} {TYPES[COLUMNS[name].type]}" for name in NAMES)
        self._database.execute(f"CREATE TABLE e (place BIGINT, {columns})")
        places = ", ".join("?" * (len(NAMES) + 1))
        listed = [[at, *row.values()] for at, row in enumerate(rows)]
        self._database.executemany(f"INSERT INTO e VALUES ({places})", listed)
        self.rows = [
            {name: _in_log(name, value) for name, value in row.items()} | {"event": "exchange"} for row in rows
        ]

    def close(self) -> None:
        self._database.close()

    def differences(self, condition: str) -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
        """Rows for which SQL gives something else than CEL: condition, both, values. What CEL has no truth for is None."""
        found = condition_sql(condition)
        assert found is not None, condition
        query = f"SELECT {found[1]} FROM e ORDER BY place"
        program = cel.compile(condition)
        for row, (made,) in zip(self.rows, self._database.execute(query).fetchall(), strict=True):
            expected = _verdict(program, row)
            if made is not expected:
                yield condition, expected, made, {name: row[name] for name in found[0]}


def _in_log(name: str, value: Any) -> Any:
    return render_instant(value) if COLUMNS[name].type == "time" and value is not None else value


def _verdict(program: Any, row: dict[str, Any]) -> bool | None:
    try:
        found = program.execute(row)
    except (LookupError, TypeError, ArithmeticError, RuntimeError, ValueError):
        return None
    return found if isinstance(found, bool) else None
