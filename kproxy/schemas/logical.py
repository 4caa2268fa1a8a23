"""Logical types of Avro as JSON has them, and back: times in ISO 8601, decimals as text with all their digits.

fastavro calls these functions for the types of ``renamed``, by its registry of custom logical types. Its own functions need
minutes for a decimal of a megabyte, as their time grows with the square of its digits, and refuse a time that Python has no
type for, although the record is well.
"""

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kproxy.schemas.formats import Substitutes

PREFIX = "kproxy-"
MOST_BYTES = 1_000  # of a decimal
MOST_SCALE = 1_000
EPOCH = datetime.datetime(1970, 1, 1)
UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
EPOCH_DAY = EPOCH.toordinal()
MICROS = {"millis": 1_000, "micros": 1}
NANOS = {"millis": 10**6, "micros": 1_000, "nanos": 1}
DECIMAL = re.compile(r"(?P<sign>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?")
MOMENT = re.compile(
    r"(?P<seconds>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
)


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


def _unscaled(text: str, schema: Mapping[str, Any]) -> bytes:
    match, scale, precision = DECIMAL.fullmatch(text), schema.get("scale", 0), schema.get("precision")
    if match is None:
        raise ValueError('is not a decimal, as "12.50"')
    digits = match["whole"] + (match["fraction"] or "").ljust(scale, "0")
    if len(match["fraction"] or "") > scale:
        raise ValueError(f"has more than {scale} digits after the point")
    if len(digits.lstrip("0")) > (precision if isinstance(precision, int) else MOST_BYTES):
        raise ValueError(f"has more than {precision} digits")
    try:
        return _decimal_bytes(int(match["sign"] + digits), schema)
    except OverflowError:
        raise ValueError(f"does not fit into {schema['size']} bytes") from None


def _decimal_bytes(unscaled: int, schema: Mapping[str, Any]) -> bytes:
    """Return a decimal in the size of its fixed type, else in as few bytes as it needs. Raises OverflowError."""
    size = schema.get("size") or (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _days(text: str, schema: object) -> int:
    try:
        return datetime.date.fromisoformat(text).toordinal() - EPOCH_DAY
    except ValueError:
        raise ValueError('is not a date, as "2026-01-31"') from None


def _since_epoch(unit: str, *, local: bool) -> "Writer":
    nanos_each, suffix = NANOS[unit], "" if local else "Z"

    def write(text: str, schema: object) -> int:
        match = MOMENT.fullmatch(text)
        try:
            if match is None or local != (match["zone"] is None):
                raise ValueError
            moment = datetime.datetime.fromisoformat(match["seconds"] + (match["zone"] or "Z"))
        except ValueError:
            raise ValueError(f'is not a time, as "2026-01-31T23:59:59{suffix}"') from None
        seconds = (moment - EPOCH.replace(tzinfo=datetime.UTC)) // datetime.timedelta(seconds=1)
        nanos = seconds * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))
        if nanos % nanos_each:
            raise ValueError(f"is finer than {unit}")
        return nanos // nanos_each

    return write


def _in_day(unit: str) -> "Writer":
    write = _since_epoch(unit, local=True)

    def write_time(text: str, schema: object) -> int:
        try:
            return int(write(f"{EPOCH.date()}T{text}", schema))
        except ValueError:
            raise ValueError(f'is not a time of day in {unit}, as "23:59:59"') from None

    return write_time


def _uuid_text(text: str, schema: object) -> str:
    return text if UUID(text) else ""


def _uuid_bytes(text: str, schema: Mapping[str, Any]) -> str | bytes:
    return UUID(text).bytes if schema["size"] == 16 else text


Writer = Callable[[str, Any], Any]
WRITERS: dict[str, Writer] = {
    **{
        f"long-{local}timestamp-{unit}": _since_epoch(unit, local=bool(local))
        for unit in NANOS
        for local in ("", "local-")
    },
    "bytes-decimal": _unscaled,
    "fixed-decimal": _unscaled,
    "int-date": _days,
    "int-time-millis": _in_day("millis"),
    "long-time-micros": _in_day("micros"),
    "string-uuid": _uuid_text,
    "fixed-uuid": _uuid_bytes,
}


def to_json(kind: str, schema: Any, value: Any) -> object:
    """Return a plain value of Avro's type *kind* as JSON has it."""
    reader = READERS.get(f"{kind}-{logical_type(schema)}") if isinstance(schema, dict) else None
    return value if reader is None else reader(value, schema, None)


def from_json(kind: str, schema: Any, value: Any) -> Any:
    """Return the plain value of what ``to_json`` returned, and JSON of no logical type as it is. Raises ValueError, a clause."""
    writer = WRITERS.get(f"{kind}-{logical_type(schema)}") if isinstance(schema, dict) else None
    if writer is None or (isinstance(value, int) and kind in ("int", "long")):  # a year that Python lacks
        return value
    if not isinstance(value, str):
        raise ValueError(f"is not {logical_type(schema)} in quotes")
    try:
        return writer(value, schema)
    except ValueError as error:
        raise ValueError("is not a UUID" if "uuid" in str(logical_type(schema)) else str(error)) from None


DAY_S = 86_400
FIRST_S, LAST_S = -62_135_596_800, 253_402_300_799  # of the years 1 to 9999, which Python has
RANGES: dict[str, tuple[int, int]] = {  # of substitutes
    "int-date": (FIRST_S // DAY_S, LAST_S // DAY_S),
    "int-time-millis": (0, DAY_S * 1_000 - 1),
    "long-time-micros": (0, DAY_S * 10**6 - 1),
    **{
        f"long-{local}timestamp-{unit}": (FIRST_S * 10**9 // NANOS[unit], LAST_S * 10**9 // NANOS[unit])
        for unit in MICROS
        for local in ("", "local-")
    },
}


def substituted(kind: str, schema: Any, plain: Any, to: Substitutes) -> Any:
    """Return a substitute for the plain value of a logical type, as this type allows it; None for others."""
    name = f"{kind}-{logical_type(schema)}"
    if name in RANGES:
        return to.whole(plain, *RANGES[name])
    if name in ("bytes-decimal", "fixed-decimal") and len(plain) <= MOST_BYTES:
        most = (1 << 8 * len(plain) - 1) - 1 if "size" in schema else 10 ** (3 * MOST_BYTES)
        return _decimal_bytes(to.whole(int.from_bytes(plain, "big", signed=True), -most, most), schema)
    if name == "string-uuid" and UUID_TEXT.fullmatch(plain):
        return str(UUID(bytes=to.data(UUID(plain).bytes)))
    return None


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
