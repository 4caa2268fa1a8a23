"""Decode the user data of the sticky assignors: a member's previous assignment (StickyAssignor, CooperativeStickyAssignor).

Both are a Struct of the protocol's old types. StickyAssignor has two schemas, one with a generation behind the assignment
(deserializeTopicPartitionAssignment tries the longer one first).
"""

from typing import Any

from kproxy.protocol.embedded.reader import Reader

TOPIC = 2 + 4  # bytes of a topic with an empty name and no partitions


def open_sticky_user_data(data: bytes) -> dict[str, Any]:
    """Decode to ``previousAssignment`` (topic -> partitions), and ``generation`` if present. Raises DecodeError."""
    reader = Reader("StickyAssignor user data", data)
    topics = reader.array(TOPIC, lambda: (reader.string() or "", reader.int32s()))
    opened: dict[str, Any] = {"previousAssignment": dict(topics)}
    if reader.left >= 4:
        opened["generation"] = reader.int32()
    return opened


def open_cooperative_user_data(data: bytes) -> dict[str, Any]:
    """Decode to ``generation``. Raises DecodeError."""
    return {"generation": Reader("CooperativeStickyAssignor user data", data).int32()}
