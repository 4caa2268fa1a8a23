"""The JSON Schema of the configuration file, for editors: `kproxy check --schema`."""

from typing import Any

import msgspec

from kproxy.config.structs import Config
from kproxy.filters.loading import BUILT_IN, filter_class
from kproxy.options import UNIT, unit_pattern

REFERENCE = "#/$defs/{name}"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """Return the schema as plain values. Where a number may have a unit, the schema allows that text, too."""
    schema = msgspec.json.schema(Config)
    _add_filters(schema["$defs"])
    return {"$schema": DIALECT, "title": "kproxy.yaml", **_with_units(schema)}


def _add_filters(definitions: dict[str, Any]) -> None:
    """Name each built-in filter, and its options where it is used."""
    use = definitions["FilterUse"]
    conditions = []
    for name in BUILT_IN:
        kind = filter_class(name).Options
        options: dict[str, Any] = {"maxProperties": 0}
        if kind is not None:
            (options,), found = msgspec.json.schema_components([kind], ref_template=REFERENCE)
            definitions.update(found)
        # with may be left out only where no option is required
        needed = bool(kind and any(field.required for field in msgspec.structs.fields(kind)))
        then = {"properties": {"with": options}, **({"required": ["with"]} if needed else {})}
        conditions.append({"if": {"properties": {"use": {"const": name}}, "required": ["use"]}, "then": then})
    name = use["properties"]["use"]
    name["anyOf"] = [{"enum": list(BUILT_IN)}, {"type": name.pop("type")}]
    use["allOf"] = conditions


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
