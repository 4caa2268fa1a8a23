"""Avro's fingerprints (CRC-64-AVRO of the canonical form), by which its single-object encoding names a schema.

No registry can be asked for one, so they are worked out for the schemas that are at hand.
"""

import json
import re
from collections.abc import Iterable

from kproxy.errors import UsageError
from kproxy.schemas.formats import SchemaType, require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kproxy.schemas.store import Schema

FINGERPRINT = re.compile(r"[0-9a-f]{16}")  # as it stands in the encoding: least significant byte first


def fingerprint(text: str) -> str | None:
    """Return the fingerprint of a schema in Avro; None if it is none, or fastavro is missing."""
    try:
        library = require("fastavro.schema")
    except UsageError:
        return None
    try:
        made: str = library.fingerprint(library.to_parsing_canonical_form(json.loads(text)), "CRC-64-AVRO")
    except Exception:  # of fastavro, for what is no schema
        return None
    return made


class Fingerprints:
    """Finds schemas by their fingerprints; each is worked out once."""

    def __init__(self) -> None:
        self._known: dict[str, Schema] = {}
        self._done: set[Schema] = set()

    def find(self, wanted: str, schemas: "Iterable[Schema]") -> "Schema | None":
        """Return the schema with a fingerprint, among those at hand."""
        for schema in schemas:
            if schema.type == SchemaType.AVRO and schema not in self._done:
                self._done.add(schema)
                if (made := fingerprint(schema.text)) is not None:
                    self._known[made] = schema
        return self._known.get(wanted)
