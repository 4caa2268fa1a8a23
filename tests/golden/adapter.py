"""Joins check.py to kproxy: the public API under the names that check.py asks for (its docstring has the contract)."""

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from kproxy.errors import DecodeError
from kproxy.protocol import (
    message,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.protocol.embedded import group, payload, records_field, sasl, telemetry
from kproxy.protocol.embedded.payload import Context, open_request, open_response
from kproxy.protocol.records import Batch, Record, read_batches
from kproxy.protocol.records.control import read_control_record
from kproxy.protocol.records.editing import read_batch

__all__ = [
    "DecodeError",
    "embedded",
    "from_json",
    "records",
    "reencode",
    "request_frame",
    "response_frame",
    "to_json",
    "walk",
]

API_VERSIONS = 18
SIZE_FIELD = 4  # int32 before every frame


def to_json(name: str, version: int, data: bytes) -> bytes:
    return message(name).to_json(version, data)


def reencode(name: str, version: int, data: bytes) -> bytes:
    layout = message(name)
    return layout.encode(version, layout.decode(version, data))


def from_json(name: str, version: int, text: str) -> bytes:
    layout = message(name)
    return layout.encode(version, layout.from_json(version, text))


def walk(name: str, version: int, data: bytes) -> int:
    return message(name).walk(version, data)


def request_frame(frame: bytes) -> dict[str, Any]:
    data = frame[SIZE_FIELD:]
    header = read_request_header(data)
    body = request_message(header.api_key).to_json(header.api_version, data, header.size)
    return {"header": json.loads(header.to_json()), "body": json.loads(body)}


def response_frame(frame: bytes, api_key: int, api_version: int) -> dict[str, Any]:
    data = frame[SIZE_FIELD:]
    header = read_response_header(data, response_header_version(api_key, api_version))
    layout = response_message(api_key)
    try:
        body = layout.to_json(api_version, data, header.size)
    except DecodeError:
        if api_key != API_VERSIONS:
            raise
        body = layout.to_json(0, data, header.size)  # what a broker answers to a version it does not know (KIP-511)
    return {"header": json.loads(header.to_json()), "body": json.loads(body)}


def embedded(line: dict[str, Any]) -> object:
    data = bytes.fromhex(line["hex"])
    if line["kind"] == "carrier":
        return [json.loads(one.to_json()) for one in _carrier(line, data)]
    return json.loads(payload.to_json(PAYLOADS[line["kind"]](data, line)))


def _carrier(line: dict[str, Any], data: bytes) -> list[payload.Embedded]:
    body: Any = message(line["message"]).decode(line["version"], data)
    context = Context(sasl_mechanism=line["about"].split(" ")[-1])
    if line["message"] == "EnvelopeRequest":
        _forwarded[read_request_header(body.request_data).correlation_id] = body
    elif line["message"] == "EnvelopeResponse":
        context.request = _forwarded.get(int.from_bytes(body.response_data[:4], "big"))
    if line["direction"] == "request":
        found = open_request(line["message"], body, context)
    else:
        found = open_response(line["message"], body, context)
    return [replace(one, where=None) for one in found]


_forwarded: dict[int, Any] = {}  # correlation id -> Envelope request: it says what the response on a later line answers

PAYLOADS: dict[str, Callable[[bytes, dict[str, Any]], Any]] = {
    "consumer-subscription": lambda data, line: group.open_consumer_subscription(data, line["assignor"])["value"],
    "consumer-assignment": lambda data, line: group.open_consumer_assignment(data, line["assignor"])["value"],
    "connect-metadata": lambda data, line: _connect_metadata(data, line["protocol"]),
    "connect-assignment": lambda data, line: group.open_connect_assignment(data)["value"],
    "streams-subscription-info": lambda data, line: group.open_subscription_info(data),
    "streams-assignment-info": lambda data, line: group.open_assignment_info(data),
    "telemetry-metrics": lambda data, line: telemetry.open_metrics(data, line["compressionId"]),
    "sasl-token": lambda data, line: sasl.open_token(data, line["mechanism"], from_client=line["from"] == "client"),
    "internal-topic-batch": lambda data, line: _records(data, line["topic"]),
}


def _connect_metadata(data: bytes, protocol: str) -> Any:
    """The worker's own reading has no version in the assignment it holds; the carriers' has."""
    value = group.open_connect_metadata(data, protocol)["value"]
    if value.get("assignment") is not None:
        del value["assignment"]["version"]
    return value


def _records(data: bytes, topic: str) -> list[Any]:
    """The corpus lists what a record means, without its offset and time."""
    opened = json.loads(payload.to_json(records_field.open_records(data, topic, 0)))
    return [{k: v for k, v in record.items() if k in ("key", "value", "embedded")} for record in opened["records"]]


def records(data: bytes) -> list[dict[str, Any]]:
    return [batch_json(batch) for batch in read_batches(data)]


def batch_json(batch: Batch) -> dict[str, Any]:
    """A batch as a line of records.jsonl.gz shows it; fields that its magic has not are None."""
    opened = read_batch(batch.open())
    names = ("lastOffset", "magic", "crcValid", "crc", "attributes", "compression", "timestampType", "position")
    names += ("partitionLeaderEpoch", "lastOffsetDelta", "baseTimestamp", "maxTimestamp", "producerId", "producerEpoch")
    names += ("baseSequence", "lastSequence", "isTransactional", "isControl", "count")
    shown = {name: getattr(batch, snake_case(name)) for name in names}
    shown |= {"baseOffset": opened.base_offset, "sizeInBytes": batch.size, "deleteHorizonMs": batch.delete_horizon}
    return shown | {"records": [record_json(record, batch) for record in opened.records]}


def record_json(record: Record, batch: Batch) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "keyHex": hex_or_none(record.key),
        "valueHex": hex_or_none(record.value),
        "headers": [{"key": key, "valueHex": hex_or_none(value)} for key, value in record.headers],
    }
    if batch.magic == 2:
        shown["sequence"] = record.sequence
    if batch.is_control:
        control = read_control_record(record.key, record.value)
        shown["control"] = {"version": control.version, "typeId": control.type_id, "type": control.type}
        if control.json is not None:
            shown["control"]["value"] = json.loads(control.json)
    return shown


def hex_or_none(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
