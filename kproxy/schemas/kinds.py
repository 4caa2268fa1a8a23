"""The types of values in SQL, for views of topics: of DuckDB and of Spark.

A kind is the name of a type of DuckDB, or a list of one kind for an array, a dict of kinds by field, or a Map. JSON stands for
what has no type of its own: unions of several types, a type inside itself, google.protobuf.Any.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

Kind: TypeAlias = "str | list[Kind] | dict[str, Kind] | Map"
ANY = "JSON"
MOST_LEVELS = 16
MOST_KINDS = 5_000  # of a schema, in all its levels
DIGITS = 38  # of a decimal
IN_SPARK = {
    "VARCHAR": "STRING",
    "JSON": "STRING",
    "UUID": "STRING",
    "TIME": "STRING",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "INTEGER": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20, 0)",
}


class Map(NamedTuple):
    """The kinds of the keys and values of a map."""

    key: str
    value: Kind


class Counted:
    """Counts the kinds of one schema, as types that use others twice at every level have no end."""

    def __init__(self) -> None:
        self._left = MOST_KINDS

    def may_go_on(self, level: int) -> bool:
        """Return whether there may be one more kind, so many levels deep."""
        self._left -= 1
        return self._left > 0 and level < MOST_LEVELS


def decimal(precision: int, scale: int) -> str:
    """Return the kind of decimals, which are text in JSON."""
    return f"DECIMAL({precision}, {scale})" if 0 <= scale <= precision <= DIGITS and precision else "VARCHAR"


def duckdb_type(kind: Kind) -> str:
    """Return the name of the type in DuckDB."""
    if isinstance(kind, Map):
        return f"MAP({kind.key}, {duckdb_type(kind.value)})"
    if isinstance(kind, list):
        return f"{duckdb_type(kind[0])}[]"
    if isinstance(kind, dict):
        if not _can_be_struct(kind):
            return ANY
        return f"STRUCT({', '.join(f'{_quoted(name)} {duckdb_type(inner)}' for name, inner in kind.items())})"
    return ANY if kind == "NULL" else kind  # of a field that is null wherever DuckDB looked


def spark_type(kind: Kind) -> str:
    """Return the name of the type in Spark's SQL; keys of maps are text in JSON, and stay text."""
    if isinstance(kind, Map):
        return f"MAP<STRING, {spark_type(kind.value)}>"
    if isinstance(kind, list):
        return f"ARRAY<{spark_type(kind[0])}>"
    if isinstance(kind, dict):
        if not _can_be_struct(kind):
            return "STRING"
        fields = (f"`{name.replace('`', '``')}`: {spark_type(inner)}" for name, inner in kind.items())
        return f"STRUCT<{', '.join(fields)}>"
    return IN_SPARK.get(kind, kind)


def agreed(found: Sequence[Mapping[str, Kind]]) -> dict[str, Kind]:
    """Return the kind of each field, by its name; fields for which schemas have different kinds are left out."""
    every: dict[str, list[Kind]] = {}
    for kinds in found:
        for name, kind in kinds.items():
            every.setdefault(name, []).append(kind)
    return {name: kinds[0] for name, kinds in every.items() if all(kind == kinds[0] for kind in kinds)}


def _can_be_struct(fields: Mapping[str, Kind]) -> bool:
    """Return whether an engine's struct can have these fields: it has at least one, and none whose names differ in case alone."""
    return 0 < len(fields) == len({name.casefold() for name in fields})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
