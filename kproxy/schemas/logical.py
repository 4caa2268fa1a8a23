"""Logical types of Avro as JSON has them: times in ISO 8601, decimals as text with all their digits.

fastavro calls these functions for the types of ``renamed``, by its registry of custom logical types. Its own functions need
minutes for a decimal of a megabyte, as their time grows with the square of its digits, and refuse a time that Python has no
type for, although the record is well.
"""

import datetime
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

PREFIX = "kproxy-"
MOST_BYTES = 1_000  # of a decimal
MOST_SCALE = 1_000
EPOCH = datetime.datetime(1970, 1, 1)
EPOCH_DAY = EPOCH.toordinal()
MICROS = {"millis": 1_000, "micros": 1}


def _decimal(data: bytes, schema: Mapping[str, Any], _: object) -> str:
    if len(data) > MOST_BYTES:
        raise ValueError(f"a decimal of {len(data):,} bytes; at most {MOST_BYTES:,} are read")
    unscaled, scale = int.from_bytes(data, "big", signed=True), schema.get("scale", 0)
    if not scale:
        return str(unscaled)
    digits = str(abs(unscaled)).zfill(scale + 1)
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _date(days: int, schema: object, _: object) -> str | int:
    try:
        return datetime.date.fromordinal(days + EPOCH_DAY).isoformat()
    except (ValueError, OverflowError):
        return days  # a year that Python lacks


def _moment(micros_each: int, suffix: str) -> "Reader":
    def read(value: int, schema: object, _: object) -> str | int:
        try:
            return (EPOCH + datetime.timedelta(microseconds=value * micros_each)).isoformat() + suffix
        except OverflowError:
            return value

    return read


def _nanos(suffix: str) -> "Reader":
    def read(value: int, schema: object, _: object) -> str | int:
        seconds, nanos = divmod(value, 10**9)
        return f"{(EPOCH + datetime.timedelta(seconds=seconds)).isoformat()}.{nanos:09}{suffix}"

    return read


def _time(micros_each: int) -> "Reader":
    def read(value: int, schema: object, _: object) -> str | int:
        try:
            moment = EPOCH + datetime.timedelta(microseconds=value * micros_each)
        except OverflowError:
            return value
        return moment.time().isoformat() if moment.toordinal() == EPOCH_DAY else value

    return read


def _uuid(data: bytes, schema: object, _: object) -> str | bytes:
    return str(UUID(bytes=data)) if len(data) == 16 else data


Reader = Callable[[Any, Any, Any], object]
_of_moments: dict[str, Reader] = {
    f"long-{local}timestamp-{unit}": _moment(each, "" if local else "Z")
    for unit, each in MICROS.items()
    for local in ("", "local-")
}
READERS: dict[str, Reader] = {  # by the type that is written, and the logical type
    **_of_moments,
    "bytes-decimal": _decimal,
    "fixed-decimal": _decimal,
    "int-date": _date,
    "int-time-millis": _time(MICROS["millis"]),
    "long-time-micros": _time(MICROS["micros"]),
    "fixed-uuid": _uuid,
    "long-timestamp-nanos": _nanos("Z"),
    "long-local-timestamp-nanos": _nanos(""),
}


def renamed(schema: Any) -> Any:
    """Return the JSON of a schema whose logical types have names of ours; fastavro ignores those without a reader here."""
    if isinstance(schema, list):
        return [renamed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    shown = {name: renamed(inner) for name, inner in schema.items()}
    if (logical := shown.pop("logicalType", None)) is not None and (logical != "decimal" or _is_decimal(schema)):
        shown["logicalType"] = f"{PREFIX}{logical}"
    return shown


def logical_type(schema: Mapping[str, Any]) -> str | None:
    """Return the logical type of a renamed schema, by its name in Avro's specification."""
    name = schema.get("logicalType")
    return name.removeprefix(PREFIX) if isinstance(name, str) else None


def register(registry: dict[str, Any]) -> None:
    """Add the readers to fastavro's registry, which its compiled reader and the one in Python share."""
    for name, reader in READERS.items():
        written, _, logical = name.partition("-")
        registry[f"{written}-{PREFIX}{logical}"] = reader


def _is_decimal(schema: Mapping[str, Any]) -> bool:
    scale = schema.get("scale", 0)
    return isinstance(scale, int) and 0 <= scale <= MOST_SCALE  # otherwise the specification says to ignore it
