"""Keys and values of a stopped message as JSON by their schemas, and back.

In the JSON to edit, ``{"schema": "orders-value, version 3, id 12 (confluent)", "json": VALUE}`` stands for a key or value whose
schema is known, in place of text or base64. ``schema`` is one of those in the message: the framing is copied from there.
Values that were not edited keep their bytes. Values with fields that are withheld everywhere stay text or base64.
"""

import base64
import json
from typing import Any, NamedTuple

from kproxy.errors import KproxyError
from kproxy.filters.breakpoints.editing import Mistake, plain_bytes
from kproxy.protocol.embedded.viewers import without_secrets
from kproxy.schemas.formats import ValueMismatch
from kproxy.schemas.framings import Headers
from kproxy.schemas.store import Located, Schema, Schemas

PARTS = ("key", "value")
MEMBERS = {"schema", "json"}


class Original(NamedTuple):
    """A key or value as it came."""

    located: Located
    timestamp: int
    json: str


class DescribedContents:
    """Opens and closes the keys and values of one message. *schemas*: the sources; a registry may be asked."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._by_place: dict[tuple[str, str, int], list[Original]] = {}  # by part, name of the schema and offset
        self._by_json: dict[tuple[str, str, str], bytes] = {}  # by part, name of the schema and JSON

    def show(self, batches: list[Any], topic: str | None) -> list[Any]:
        """Put JSON in place of keys and values in batches as editing.shown_batches returns them; return the batches."""
        for record in (record for batch in batches for record in batch.get("records", ())):
            headers = [(one["key"], plain_bytes(one["value"])) for one in record["headers"]]
            for part in PARTS:
                data = plain_bytes(record[part])
                described = None if data is None else self._described(data, part, record, topic, headers)
                record[part] = record[part] if described is None else described
        return batches

    def _described(
        self, data: bytes, part: str, record: dict[str, Any], topic: str | None, headers: Headers
    ) -> dict[str, Any] | None:
        located = self._schemas.locate(data, topic, part, headers)
        if located is None or located.schema is None:
            return None
        try:
            value = self._schemas.read(located)[0]
            if without_secrets(value) != value:
                return None
        except (KproxyError, ValueError, RecursionError):
            return None
        name, text = _name(located, located.schema), _canonical(value)
        original = Original(located, record["timestamp"], text)
        self._by_place.setdefault((part, name, record["offset"]), []).append(original)
        self._by_json.setdefault((part, name, text), data)
        return {"schema": name, "json": value}

    def close(self, batch: Any, path: str) -> Any:
        """Return an edited batch with the bytes of keys and values in base64. Raises Mistake."""
        if not isinstance(batch, dict) or not isinstance(batch.get("records"), list):
            return batch
        records = [self._closed(one, f"{path}.records[{at}]") for at, one in enumerate(batch["records"])]
        return {**batch, "records": records}

    def _closed(self, record: Any, path: str) -> Any:
        if not isinstance(record, dict):
            return record
        described = [part for part in PARTS if isinstance(record.get(part), dict) and MEMBERS & record[part].keys()]
        written = {part: self._written(record[part], part, record, f"{path}.{part}") for part in described}
        return {**record, **{part: {"base64": base64.b64encode(data).decode()} for part, data in written.items()}}

    def _written(self, edited: dict[str, Any], part: str, record: dict[str, Any], path: str) -> bytes:
        if edited.keys() != MEMBERS:
            raise Mistake("has schema and json, and nothing else", path)
        name, value = edited["schema"], edited["json"]
        if isinstance(name, str) and (known := self._by_json.get((part, name, _canonical(value)))) is not None:
            return known
        places = [(place, one) for place, ones in self._by_place.items() for one in ones if place[:2] == (part, name)]
        if not places:
            raise Mistake(f"is none of the schemas of a {part} in this message", f"{path}.schema")
        same = [one for place, one in places if place[2] == record.get("offset")]
        before = next(
            (one for one in same if one.timestamp == record.get("timestamp")), same[0] if len(same) == 1 else None
        )
        located = places[0][1].located if before is None else before.located
        try:
            return self._schemas.write(located, value, is_like=before is not None)
        except ValueMismatch as error:
            raise Mistake(error.reason, f"{path}.json.{error.path}" if error.path else f"{path}.json") from error
        except (KproxyError, RecursionError) as error:
            raise Mistake(f"cannot be written by its schema: {error}", f"{path}.json") from error


def _name(located: Located, schema: Schema) -> str:
    number = schema.id if located.framed is None else located.framed.id
    known = [schema.subject, None if schema.version is None else f"version {schema.version}"]
    known.append(None if number is None else f"id {number}")
    framing = "" if located.framed is None else f" ({located.framed.framing})"
    return (", ".join(one for one in known if one is not None) or schema.type) + framing


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
