"""JSON Schema: the payload is JSON; jsonschema-rs says whether it is valid."""

import json
from collections.abc import Mapping

from kproxy.schemas.formats import Compiled, SchemaError


class JsonSchema(Compiled):
    """Reads the payloads of one schema."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"not a JSON Schema: {error}") from error

    def read(self, payload: bytes, indexes: tuple[int, ...] | None = None) -> object:
        """Return the document. Raises SchemaError if the payload is not JSON."""
        try:
            document: object = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the payload is not JSON: {error}") from error
        return document
