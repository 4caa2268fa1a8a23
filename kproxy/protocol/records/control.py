"""Read control records, which brokers write into logs between the clients' records (ControlRecordType, ControlRecordUtils).

The key is a version (int16) and a type (int16). The value of a transaction marker is a version and EndTxnMarker
(EndTransactionMarker); the other values are messages whose own first field is their version.
"""

from dataclasses import dataclass

from kproxy.errors import DecodeError
from kproxy.protocol.message import message
from kproxy.protocol.structs import MessageStruct

# type -> (Kafka's name for it, the message in the value)
TYPES = {
    0: ("ABORT", "EndTxnMarker"),
    1: ("COMMIT", "EndTxnMarker"),
    2: ("LEADER_CHANGE", "LeaderChangeMessage"),
    3: ("SNAPSHOT_HEADER", "SnapshotHeaderRecord"),
    4: ("SNAPSHOT_FOOTER", "SnapshotFooterRecord"),
    5: ("KRAFT_VERSION", "KRaftVersionRecord"),
    6: ("KRAFT_VOTERS", "VotersRecord"),
}
KEY_SIZE = 4
VERSION_SIZE = 2


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """A control record's key, and its value if the type is known and the bytes fit it."""

    version: int
    type_id: int
    type: str  # Kafka's name; "UNKNOWN" for a type that consumers ignore
    message: str | None = None  # Kafka's name of the value's message
    value_version: int | None = None
    json: bytes | None = None  # Kafka's JSON of the value
    value: MessageStruct | None = None
    error: str | None = None


def read_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Read a record of a control batch. Never raises: ``error`` says what is wrong."""
    if key is None or len(key) < KEY_SIZE:
        return ControlRecord(-1, -1, "UNKNOWN", error="a control record's key has at least 4 bytes")
    version, type_id = (int.from_bytes(key[at : at + 2], "big", signed=True) for at in (0, 2))
    known = TYPES.get(type_id)
    if version < 0 or known is None:
        error = f"a control record of version {version}" if version < 0 else None
        return ControlRecord(version, type_id, "UNKNOWN", error=error)
    name, layout_name = known
    if value is None or len(value) < VERSION_SIZE:
        return ControlRecord(version, type_id, name, layout_name, error="a control record's value is missing")
    return _with_value(ControlRecord(version, type_id, name, layout_name), layout_name, value)


def _with_value(record: ControlRecord, layout_name: str, value: bytes) -> ControlRecord:
    layout = message(layout_name)
    claimed = int.from_bytes(value[:VERSION_SIZE], "big", signed=True)
    prefix = VERSION_SIZE if layout_name == "EndTxnMarker" else 0
    head = (record.version, record.type_id, record.type, layout_name)
    try:
        json = layout.to_json(claimed, value, prefix)
        return ControlRecord(*head, claimed, json, layout.decode(claimed, value, prefix))
    except DecodeError as error:
        return ControlRecord(*head, claimed, error=str(error))
