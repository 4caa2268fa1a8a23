"""User data of the sticky assignors: what a member had before (StickyAssignor, CooperativeStickyAssignor).

Both are a Struct of the protocol's old types. A reader tells StickyAssignor's two schemas apart by whether a generation
follows the assignment (deserializeTopicPartitionAssignment tries the longer one first).
"""

from typing import Any

from kproxy.protocol.embedded.reader import Reader

TOPIC = 2 + 4  # bytes of a topic with an empty name and no partitions


def open_sticky_user_data(data: bytes) -> dict[str, Any]:
    """``previousAssignment``: topic -> partitions; ``generation`` where it is there. Raises DecodeError."""
    reader = Reader("StickyAssignor user data", data)
    topics = reader.array(TOPIC, lambda: (reader.string() or "", reader.int32s()))
    opened: dict[str, Any] = {"previousAssignment": dict(topics)}
    if reader.left >= 4:
        opened["generation"] = reader.int32()
    return opened


def open_cooperative_user_data(data: bytes) -> dict[str, Any]:
    """``generation``. Raises DecodeError."""
    return {"generation": Reader("CooperativeStickyAssignor user data", data).int32()}
