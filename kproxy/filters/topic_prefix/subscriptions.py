"""Topic names inside the bytes of classic consumer groups: what members subscribe to, and what their leader assigns.

Brokers read these bytes: OffsetDelete and the expiry of offsets ask which topics a group subscribes to, and a group of the
classic protocol that a KIP-848 member joins is converted with them. So they hold the broker's names there, and the
clients' names here. The user data of assignors (sticky, Kafka Streams) and all of Kafka Connect's protocol are read only by the
members themselves: these bytes pass as they are, from one client of the tenant to another.

    JoinGroup request, protocols[].metadata         subscription
    JoinGroup response, members[].metadata          subscription
    SyncGroup request, assignments[].assignment     assignment
    SyncGroup response, assignment                  assignment
    DescribeGroups response, members[]              both
"""

from struct import pack
from typing import Any

from kproxy.errors import DecodeError
from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.protocol.embedded.consumer import PROTOCOL_TYPE
from kproxy.protocol.embedded.reader import Reader, Texts

TOPIC = 2 + 4  # bytes of a topic with an empty name and no partitions
SIZE = 2  # bytes of the size in front of a name


def join_request(names: Names, message: Any) -> None:
    """Translate the subscriptions of a JoinGroup request."""
    if message.protocol_type == PROTOCOL_TYPE:
        for protocol in message.protocols:
            protocol.metadata = subscription_to_broker(names, protocol.metadata)


def join_response(names: Names, message: Any, protocol_type: str | None) -> None:
    """Translate what the leader of a group gets of its members."""
    if protocol_type == PROTOCOL_TYPE:
        for member in message.members:
            member.metadata = subscription_to_client(names, member.metadata)


def sync_request(names: Names, message: Any) -> None:
    """Translate the assignments of a leader. Before version 5 the bytes say what they are."""
    if message.protocol_type in (None, "", PROTOCOL_TYPE):
        for each in message.assignments:
            each.assignment = assignment_to_broker(names, each.assignment)


def sync_response(names: Names, message: Any, protocol_type: str | None) -> None:
    """Translate the assignment of a member."""
    if protocol_type in (None, "", PROTOCOL_TYPE):
        message.assignment = assignment_to_client(names, message.assignment)


def describe_response(names: Names, message: Any) -> None:
    """Translate what DescribeGroups shows of members."""
    for group in message.groups:
        if group.protocol_type == PROTOCOL_TYPE:
            for member in group.members:
                member.member_metadata = subscription_to_client(names, member.member_metadata)
                member.member_assignment = assignment_to_client(names, member.member_assignment)


def subscription_to_broker(names: Names, data: bytes) -> bytes:
    """Prefix the topics of a subscription. Bytes that brokers cannot read either stay as they are."""
    return _to_broker(names, data, _subscription_texts(data))


def subscription_to_client(names: Names, data: bytes) -> bytes:
    """Take the prefix off the topics of a subscription; empty if one of them is not the tenant's."""
    return _to_client(names, data, _subscription_texts(data))


def assignment_to_broker(names: Names, data: bytes) -> bytes:
    """Prefix the topics of an assignment. Bytes that are no assignment stay as they are."""
    return _to_broker(names, data, _assignment_texts(data))


def assignment_to_client(names: Names, data: bytes) -> bytes:
    """Take the prefix off the topics of an assignment; empty if one of them is not the tenant's."""
    return _to_client(names, data, _assignment_texts(data))


def _to_broker(names: Names, data: bytes, texts: Texts | None) -> bytes:
    if not texts:
        return data
    return _spliced(data, texts, [names.to_broker(Kind.TOPIC, _text(data, text)) for text in texts])


def _to_client(names: Names, data: bytes, texts: Texts | None) -> bytes:
    if not texts:
        return data
    own = [name for text in texts if (name := names.to_client(Kind.TOPIC, _text(data, text))) is not None]
    return _spliced(data, texts, own) if len(own) == len(texts) else b""


def _subscription_texts(data: bytes) -> Texts | None:
    """Return the places of the topics in a subscription; None if the bytes are no subscription.

    INT16 version, topics, user data, from version 1 on owned partitions; then a generation and a rack, which have no topics.
    """
    texts: Texts = []
    reader = Reader("subscription", data, texts=texts)
    try:
        version = reader.int16()
        reader.array(SIZE, reader.string)
        reader.nullable_bytes()
    except DecodeError:
        return None
    if version >= 1 and reader.left:  # kafka-go writes version 1 without the fields that it added
        count = len(texts)
        try:
            reader.array(TOPIC, lambda: (reader.string(), reader.int32s()))
        except DecodeError:
            del texts[count:]
    return texts


def _assignment_texts(data: bytes) -> Texts | None:
    """Return the places of the topics in an assignment; None if the bytes are no assignment.

    INT16 version, topics with partitions, user data.
    """
    texts: Texts = []
    reader = Reader("assignment", data, texts=texts)
    try:
        version = reader.int16()
        reader.array(TOPIC, lambda: (reader.string(), reader.int32s()))
        reader.nullable_bytes()
    except DecodeError:
        return None
    return texts if version >= 0 else None


def _text(data: bytes, text: tuple[int, int, str]) -> str:
    start, end, encoding = text
    return data[start:end].decode(encoding, "replace")


def _spliced(data: bytes, texts: Texts, new: list[str]) -> bytes:
    """Return *data* with *new* names in place of those at *texts*, and with their sizes in front of them."""
    out: list[bytes] = []
    done = 0
    for (start, end, encoding), name in zip(texts, new, strict=True):
        encoded = name.encode(encoding)
        out += (data[done : start - SIZE], pack(">H", len(encoded)), encoded)
        done = end
    return b"".join((*out, data[done:]))
