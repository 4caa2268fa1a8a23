"""The JSON Schema of the configuration file, for editors: `kproxy check --schema`."""

from typing import Any

import msgspec

from kproxy.config.structs import UNIT, Config
from kproxy.config.units import unit_pattern

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """Return the schema as plain values. Where a number may have a unit, the schema allows that text, too."""
    schema = msgspec.json.schema(Config)
    return {"$schema": DIALECT, "title": "kproxy.yaml", **_with_units(schema)}


def _with_units(part: Any) -> Any:
    if isinstance(part, list):
        return [_with_units(item) for item in part]
    if not isinstance(part, dict):
        return part
    if UNIT not in part:
        return {name: _with_units(value) for name, value in part.items()}
    number = {name: value for name, value in part.items() if name not in (UNIT, "default", "description")}
    text = {"type": "string", "pattern": unit_pattern(part[UNIT])}
    about = {name: part[name] for name in ("default", "description") if name in part}
    return {"anyOf": [number, text], **about}
