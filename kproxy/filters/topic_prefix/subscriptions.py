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

from collections.abc import Callable
from struct import pack

from kproxy.errors import DecodeError
from kproxy.filters.topic_prefix.names import Kind, Names
from kproxy.protocol.embedded.reader import Reader, Texts

TOPIC = 2 + 4  # bytes of a topic with an empty name and no partitions
SIZE = 2  # bytes of the size in front of a name
FindTopics = Callable[[bytes], Texts | None]  # in_subscription or in_assignment


def to_broker(names: Names, find_topics: FindTopics, data: bytes) -> bytes:
    """Prefix the topics in a subscription or an assignment. Bytes that brokers cannot read either stay as they are."""
    texts = find_topics(data)
    if not texts:
        return data
    return _spliced(data, texts, [names.to_broker(Kind.TOPIC, _text(data, text)) for text in texts])


def to_client(names: Names, find_topics: FindTopics, data: bytes) -> bytes:
    """Take the prefix off the topics in a subscription or an assignment; empty if one of them is not the tenant's."""
    texts = find_topics(data)
    if not texts:
        return data
    own = [name for text in texts if (name := names.to_client(Kind.TOPIC, _text(data, text))) is not None]
    return _spliced(data, texts, own) if len(own) == len(texts) else b""


def in_subscription(data: bytes) -> Texts | None:
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


def in_assignment(data: bytes) -> Texts | None:
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
    """Replace the names at *texts* by *new* names, each with its size before it; return the new bytes."""
    out: list[bytes] = []
    done = 0
    for (start, end, encoding), name in zip(texts, new, strict=True):
        encoded = name.encode(encoding)
        out += (data[done : start - SIZE], pack(">H", len(encoded)), encoded)
        done = end
    return b"".join((*out, data[done:]))
