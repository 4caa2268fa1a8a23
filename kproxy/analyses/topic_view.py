"""A view of the records of one topic, in DuckDB: a column for each field of their values, typed as the schema says."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kproxy.analyses.loading import quoted
from kproxy.encryption.envelope import MARKER
from kproxy.errors import UsageError
from kproxy.output.tables import TABLES
from kproxy.schemas.kinds import Kind, duckdb_type
from kproxy.schemas.viewer import SchemaViewer, why_no_objects

if TYPE_CHECKING:
    import duckdb

    from kproxy.protocol.embedded.viewers import Viewers

BEFORE = ("client_id", "direction", "partition", "partition_offset", "timestamp", "key_json")
MOST_STRUCTURE = 1 << 20  # characters: of JSON whose every record has other fields


def make_topic_view(connection: "duckdb.DuckDBPyConnection", topic: str, viewers: "Viewers | None") -> None:
    """Create a view with the topic's name over the tables records and exchanges.

    Only values that are objects in JSON are in it. Before their fields come client_id, direction, partition, partition_offset,
    timestamp and key_json; a field with one of these names gets "_1" behind it. The types of fields are those of the schemas that
    *viewers* met, where they agree; of other fields, DuckDB finds them in the values.

    Raises UsageError for the name of a table, and for a topic without such values.
    """
    if topic.lower() in TABLES:
        raise UsageError(f"--view {topic}: there is a table of this name; query the table records in place of a view")
    objects = f"FROM records WHERE topic = {quoted(topic)} AND json_type(value_json) = 'OBJECT'"
    [(structure,)] = connection.execute(f"SELECT json_group_structure(value_json::JSON)::VARCHAR {objects}").fetchall()
    if structure in (None, "{}"):
        raise UsageError(f"--view {topic}: {_why_none(connection, topic)}")
    if len(structure) > MOST_STRUCTURE:
        raise UsageError(f"--view {topic}: the values have too many different fields")
    kinds = {} if viewers is None else SchemaViewer.of(viewers).kinds(topic)
    found = json.loads(structure)
    if not kinds and not isinstance(found, dict):  # all of them are {}
        raise UsageError(f"--view {topic}: the values of this topic have no fields")
    every = kinds | {
        name: kind for name, kind in (found if isinstance(found, dict) else {}).items() if name not in kinds
    }
    typed, columns = _columns(every)
    connection.execute(
        f"CREATE VIEW {_name(topic)} AS SELECT {', '.join((*BEFORE, *columns))} FROM (SELECT {', '.join(BEFORE)}, value_json, "
        f"from_json(value_json, {quoted(json.dumps(typed))}) AS value "
        f"FROM (SELECT * {objects}) JOIN exchanges USING (connection_id, exchange))"
    )


def _why_none(connection: "duckdb.DuckDBPyConnection", topic: str) -> str:
    """Return why no value of a topic is an object."""
    is_encrypted = f"starts_with(hex(value), '{MARKER.hex().upper()}')"
    row = connection.execute(
        f"SELECT count(*), count(*) FILTER ({is_encrypted}), min(value_problem) FILTER ({is_encrypted}) "
        f"FROM records WHERE topic = {quoted(topic)}"
    ).fetchone()
    return why_no_objects(*(row or (0, 0, None)))


def _columns(kinds: Mapping[str, Kind]) -> tuple[dict[str, str], list[str]]:
    """Return what from_json makes of the fields, their types by name, and the columns of the view, with names of their own."""
    typed, columns, taken = dict[str, str](), list[str](), {name.casefold() for name in BEFORE}
    for name, kind in kinds.items():
        if name.casefold() in {known.casefold() for known in typed}:  # no struct has both
            pointer = "/" + name.replace("~", "~0").replace("/", "~1")
            column = f"json_extract(value_json, {quoted(pointer)})"
        else:
            typed[name], column = duckdb_type(kind), f"value.{_name(name)}"
        shown = name
        while shown.casefold() in taken:
            shown += "_1"
        taken.add(shown.casefold())
        columns.append(f"{column} AS {_name(shown)}")
    return typed, columns


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
