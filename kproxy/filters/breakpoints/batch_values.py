"""The values in the JSON of batches (batches_json.py): records, headers, keys, values, numbers and codecs. Each has a path."""

import base64
import binascii
from typing import Any

from kproxy.protocol.records import Codec
from kproxy.protocol.records.objects import Record

OF_RECORDS = ("offset", "timestamp", "key", "value", "headers")


class BatchMistake(ValueError):
    """A value in the JSON of batches that cannot be written. *path* is below the records field ("[0].records[2].key")."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def shown_record(record: Record) -> dict[str, Any]:
    """Return a record as JSON. Its timestamp is the producer's, even if readers see that of the broker."""
    headers = [{"key": key, "value": _shown_bytes(value)} for key, value in record.headers]
    return {
        "offset": record.offset,
        "timestamp": record.create_timestamp,
        "key": _shown_bytes(record.key),
        "value": _shown_bytes(record.value),
        "headers": headers,
    }


def _shown_bytes(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": to_base64(value)}


def read_record(shown: Any, path: str) -> Record:
    """Return the record that JSON describes. Raises BatchMistake."""
    if not isinstance(shown, dict) or not set(shown) <= set(OF_RECORDS):
        raise BatchMistake(path, f"is no record: an object with {', '.join(OF_RECORDS)}")
    headers = shown.get("headers", [])
    if not isinstance(headers, list):
        raise BatchMistake(f"{path}.headers", "is no list")
    return Record(
        offset=read_number(shown.get("offset", 0), f"{path}.offset"),
        timestamp=read_number(shown.get("timestamp", -1), f"{path}.timestamp"),
        key=_bytes(shown.get("key"), f"{path}.key"),
        value=_bytes(shown.get("value"), f"{path}.value"),
        headers=[_header(one, f"{path}.headers[{at}]") for at, one in enumerate(headers)],
    )


def _header(shown: Any, path: str) -> tuple[str, bytes | None]:
    if not isinstance(shown, dict) or set(shown) != {"key", "value"} or not isinstance(shown["key"], str):
        raise BatchMistake(path, 'is no header: {"key": text, "value": text or null}')
    return shown["key"], _bytes(shown["value"], f"{path}.value")


def read_number(value: Any, path: str, bits: int = 64) -> int:
    """Return a whole number of so many bits, the sign included. Raises BatchMistake."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise BatchMistake(path, "is no whole number")
    most = (1 << (bits - 1)) - 1
    if not -most - 1 <= value <= most:
        raise BatchMistake(path, f"{value} is not within {-most - 1} and {most}")
    return value


def read_codec(value: Any, path: str) -> Codec:
    """Return the codec with that name. Raises BatchMistake."""
    names = {codec.name.lower(): codec for codec in Codec}
    if not isinstance(value, str) or value not in names:
        raise BatchMistake(path, f"is none of {', '.join(names)}")
    return names[value]


def _bytes(value: Any, path: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise BatchMistake(path, "holds a lone surrogate, which is no text") from None
    if isinstance(value, dict) and set(value) == {"base64"}:
        return from_base64(value["base64"], f"{path}.base64")
    raise BatchMistake(path, 'is neither text, {"base64": text} nor null')


def to_base64(data: bytes) -> str:
    """Return bytes as Kafka's JSON writes them."""
    return base64.b64encode(data).decode()


def from_base64(value: Any, path: str) -> bytes:
    """Return the bytes that base64 describes. Raises BatchMistake."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BatchMistake(path, "is not base64") from None
