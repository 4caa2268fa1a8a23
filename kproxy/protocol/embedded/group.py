"""Member metadata and assignments of classic groups, by the group's protocol type; an unknown type stays bytes.

Where the type is not known (SyncGroup before version 5 does not say), the bytes decide: a consumer assignment to the
last byte is taken for one.
"""

from kproxy.protocol.embedded import connect, consumer
from kproxy.protocol.embedded.payload import Opening


def add_metadata(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    """Open a member's metadata; nothing is added for empty bytes and for unknown protocol types."""
    if not data:
        return
    if protocol_type == consumer.PROTOCOL_TYPE:
        opening.add(path, "consumer-subscription", consumer.open_subscription, data, protocol)
    elif protocol_type == connect.PROTOCOL_TYPE:
        opening.add(path, "connect-metadata", connect.open_metadata, data, protocol)


def add_assignment(opening: Opening, path: str, data: bytes, protocol_type: str | None, protocol: str | None) -> None:
    """Open a member's assignment, as add_metadata does; members without an assignment have no bytes."""
    if not data:
        return
    if protocol_type == connect.PROTOCOL_TYPE:
        opening.add(path, "connect-assignment", connect.open_assignment, data)
    elif protocol_type == consumer.PROTOCOL_TYPE or (protocol_type is None and consumer.is_assignment(data)):
        opening.add(path, "consumer-assignment", consumer.open_assignment, data, protocol)
