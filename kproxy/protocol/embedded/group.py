"""Decode member metadata and assignments of classic groups, by the group's protocol type; unknown types stay bytes.

If the type is not in the message (SyncGroup before version 5), the bytes decide: if they are exactly a consumer assignment, they
are decoded as one.
"""

from kproxy.protocol.embedded import connect, consumer
from kproxy.protocol.embedded.payload import Opening


def add_metadata(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    """Decode a member's metadata and add it to *opening*; adds nothing for empty bytes and unknown protocol types."""
    if not data:
        return
    if protocol_type == consumer.PROTOCOL_TYPE:
        opening.add(path, "consumer-subscription", consumer.open_subscription, data, protocol)
    elif protocol_type == connect.PROTOCOL_TYPE:
        opening.add(path, "connect-metadata", connect.open_metadata, data, protocol)


def add_assignment(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    """As add_metadata, for a member's assignment; it is empty for members without one."""
    if not data:
        return
    if protocol_type == connect.PROTOCOL_TYPE:
        opening.add(path, "connect-assignment", connect.open_assignment, data)
    elif protocol_type == consumer.PROTOCOL_TYPE or (protocol_type is None and consumer.is_assignment(data)):
        opening.add(path, "consumer-assignment", consumer.open_assignment, data, protocol)
