"""Narrow the tables of a report to one cluster, or to some days.

A row belongs to the day (UTC) of its own time, as ingest partitions it; rows of the table records, which have no time, to the
day of their exchange. A connection belongs to every day from its first byte to its last: exchanges of a day need their
connection, also if it began long before.
"""

from collections.abc import Mapping
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec import Struct
from pyspark.sql import functions

from kproxy.errors import UsageError
from kproxy.spark.catalog import safe
from kproxy.spark.parts import TIMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_FORMAT = "yyyy-MM-dd"
MOST_NAMED = 20


class Narrowed(Struct, frozen=True):
    """The cluster and the days of a report. ``first`` and ``last`` are included; None: no limit."""

    cluster: str | None = None
    first: date | None = None
    last: date | None = None

    @property
    def has_days(self) -> bool:
        """Whether days are limited."""
        return self.first is not None or self.last is not None


def narrow(source: str, tables: "Mapping[str, DataFrame]", to: Narrowed) -> "dict[str, DataFrame]":
    """Narrow the tables of a source. Raises UsageError for a cluster, if the source does not say whose traffic its rows are."""
    narrowed = dict(tables)
    if to.cluster is not None:
        if "cluster" not in narrowed["connections"].columns:
            raise UsageError(
                f"{source}: --cluster is for tables of kproxy-spark ingest; nothing here says of which cluster a row is"
            )
        names = names_of(to.cluster)
        own = narrowed["connections"].where(functions.col("cluster").isin(names))
        narrowed = {name: _of_cluster(frame, names, own) for name, frame in narrowed.items()}
    if to.has_days:
        narrowed = {name: _of_days(name, frame, narrowed["exchanges"], to) for name, frame in narrowed.items()}
    return narrowed


def names_of(cluster: str) -> list[str]:
    """The values that the column cluster may have: the name as ingest makes it a folder's, or as Spark reads it back."""
    return sorted({safe(cluster), unquote(safe(cluster), "latin-1")})


def check_cluster(tables: "list[DataFrame]", cluster: str) -> None:
    """Raise UsageError if no table of connections has this cluster; list the known clusters."""
    every = reduce(lambda one, other: one.union(other), [frame.select("cluster") for frame in tables])
    there = sorted(unquote(row[0]) for row in every.distinct().limit(1_000).collect() if row[0] is not None)
    if not {*there} & {cluster, *names_of(cluster), *map(unquote, names_of(cluster))}:
        listed = ", ".join(there[:MOST_NAMED]) + (", ..." if len(there) > MOST_NAMED else "")
        raise UsageError(f"there is no cluster {cluster[:80]!r} in these tables; there are {listed or 'none'}")


def _of_cluster(frame: "DataFrame", names: list[str], connections: "DataFrame") -> "DataFrame":
    if "cluster" in frame.columns:
        return frame.where(functions.col("cluster").isin(names))
    return frame.join(connections.select("connection_id"), "connection_id", "left_semi").select(frame.columns)


def _of_days(name: str, frame: "DataFrame", exchanges: "DataFrame", to: Narrowed) -> "DataFrame":
    if name == "connections":
        begins, ends = functions.col("first_seen_at"), functions.coalesce("last_seen_at", "first_seen_at")
        return _between(frame, _day_of(frame, begins), _day_of(frame, ends), to)
    times = [each for each in TIMES if each in frame.columns]
    if "day" in frame.columns:
        day = functions.col("day")
    elif times:
        day = _day(functions.coalesce(*times))
    else:
        wanted = _of_days("exchanges", exchanges, exchanges, to).select("connection_id", "exchange")
        return frame.join(wanted, ["connection_id", "exchange"], "left_semi").select(frame.columns)
    return _between(frame, day, day, to)


def _between(frame: "DataFrame", begins: "Column", ends: "Column", to: Narrowed) -> "DataFrame":
    if to.first is not None:
        frame = frame.where(ends >= to.first.isoformat())
    return frame if to.last is None else frame.where(begins <= to.last.isoformat())


def _day_of(frame: "DataFrame", time: "Column") -> "Column":
    return functions.coalesce(_day(time), functions.col("day")) if "day" in frame.columns else _day(time)


def _day(time: "Column") -> "Column":
    return functions.date_format(time, DAY_FORMAT)
