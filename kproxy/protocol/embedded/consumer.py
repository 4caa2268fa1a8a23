"""The consumer protocol: subscriptions of members of a classic consumer group, and assignments by their leader.

INT16 version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment at that version. Newer versions are read as the
newest known one, and the bytes behind it are ignored (ConsumerProtocol.deserializeSubscription). A payload too short for its
version is read as the version whose fields it has.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.reader import Reader
from kproxy.protocol.embedded.sticky import open_cooperative_user_data, open_sticky_user_data
from kproxy.protocol.embedded.streams import open_assignment_info, open_subscription_info
from kproxy.protocol.message import Message, message
from kproxy.protocol.structs import MessageStruct

PROTOCOL_TYPE = "consumer"

# Kafka Streams is a consumer group whose one assignor is called "stream" (StreamsPartitionAssignor.name).
SUBSCRIPTION_USER_DATA: dict[str, Callable[[bytes], Any]] = {
    "sticky": open_sticky_user_data,
    "cooperative-sticky": open_cooperative_user_data,
    "stream": open_subscription_info,
}
ASSIGNMENT_USER_DATA: dict[str, Callable[[bytes], Any]] = {"stream": open_assignment_info}


def open_subscription(data: bytes, assignor: str | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``assignor``, ``value``, and ``userData``: the decoded value.userData, null if there is none.

    Without an assignor, only version and value. ``readAs`` appears if another version's layout was used, ``extraBytes`` if
    bytes follow; ``userDataError`` says why user data could not be decoded. Raises DecodeError.
    """
    opened, user_data = _open(message("ConsumerProtocolSubscription"), data)
    if assignor is None:
        return opened
    named = {"version": opened.pop("version"), "assignor": assignor, "value": opened.pop("value")}
    return named | _user_data(SUBSCRIPTION_USER_DATA.get(assignor), user_data) | opened


def open_assignment(data: bytes, assignor: str | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``value``, and ``userData`` if the assignor's user data is known. Raises DecodeError."""
    opened, user_data = _open(message("ConsumerProtocolAssignment"), data)
    read = ASSIGNMENT_USER_DATA.get(assignor or "")
    return opened if read is None else opened | _user_data(read, user_data)


def read_subscription(data: bytes) -> MessageStruct:
    """Decode a ConsumerProtocolSubscription to an object. Raises DecodeError."""
    return _read(message("ConsumerProtocolSubscription"), data, whole=False)


def read_assignment(data: bytes, *, whole: bool = False) -> MessageStruct:
    """Decode a ConsumerProtocolAssignment to an object; *whole* demands a known version and no bytes behind it.

    Raises DecodeError.
    """
    return _read(message("ConsumerProtocolAssignment"), data, whole=whole)


def is_assignment(data: bytes) -> bool:
    """Return whether the bytes are exactly a consumer protocol assignment of a known version."""
    try:
        opened, _ = _open(message("ConsumerProtocolAssignment"), data)
    except DecodeError:
        return False
    return "readAs" not in opened and "extraBytes" not in opened


def _read(layout: Message, data: bytes, *, whole: bool) -> MessageStruct:
    reader, version = _begin(layout, data)
    known, end = _fit(layout, version, data, reader.position)
    if whole and (known != version or end != len(data)):
        raise reader.malformed(f"it is not version {version} to its last byte")
    return layout.decode(known, data[:end], reader.position)


def _begin(layout: Message, data: bytes) -> tuple[Reader, int]:
    """Return a reader positioned behind the version, and the version. Raises DecodeError."""
    reader = Reader(layout.name, data)
    version = reader.int16()
    if version < 0:
        raise reader.malformed(f"version {version} is below 0")
    return reader, version


def _open(layout: Message, data: bytes) -> tuple[dict[str, Any], bytes | None]:
    reader, version = _begin(layout, data)
    known, end = _fit(layout, version, data, reader.position)
    opened: dict[str, Any] = {
        "version": version,
        "value": msgspec.Raw(layout.to_json(known, data[:end], reader.position)),
    }
    if known != version:
        opened["readAs"] = known
    if end != len(data):
        opened["extraBytes"] = len(data) - end
    value: Any = layout.decode(known, data[:end], reader.position)
    return opened, value.user_data


def _fit(layout: Message, version: int, data: bytes, start: int) -> tuple[int, int]:
    """Return the version whose layout fits the payload, and where it ends. Raises DecodeError."""
    known = min(version, layout.versions.highest)
    try:
        return known, start + layout.walk(known, data, start)
    except DecodeError:
        # kafka-go writes version 1 without the fields that version 1 added (groupMetadata.writeTo)
        for lower in range(known - 1, -1, -1):
            with contextlib.suppress(DecodeError):
                if start + layout.walk(lower, data, start) == len(data):
                    return lower, len(data)
        raise


def _user_data(read: Callable[[bytes], Any] | None, data: bytes | None) -> dict[str, Any]:
    if read is None or not data:
        return {"userData": None}
    try:
        return {"userData": read(data)}
    except DecodeError as error:
        return {"userData": None, "userDataError": str(error)}
