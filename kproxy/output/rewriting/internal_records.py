"""Find the message in a record of an internal topic, so that it can be rewritten.

__cluster_metadata and __remote_log_metadata: AbstractApiMessageSerde, three unsigned varints (frame version, type, version)
and the message. The coordinators' topics: CoordinatorRecordSerde, an int16 (key: the type; value: the version) and the message.
"""

from dataclasses import dataclass
from functools import cache

from kproxy.protocol import Message, message
from kproxy.protocol.facts import facts
from kproxy.protocol.ids import METADATA_TOPIC

COORDINATORS = {
    "__consumer_offsets": "kafka-group-coordinator",
    "__transaction_state": "kafka-transaction-coordinator",
    "__share_group_state": "kafka-share-coordinator",
}
LOGS = {METADATA_TOPIC: "kafka-metadata", "__remote_log_metadata": "kafka-storage"}
INTERNAL_TOPICS = frozenset({*LOGS, *COORDINATORS})
VERSION_SIZE = 2
MOST_VARINT = 5  # bytes


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that hold a message from *start* on."""

    message: Message
    version: int
    start: int


def payload_of_key(topic: str, key: bytes) -> Payload | None:
    """Return the message in the key of a coordinator's record, whose only version is 0; None if it is not known."""
    name = _key_name(topic, key)
    return None if name is None else Payload(message(name), 0, VERSION_SIZE)


def payload_of_value(topic: str, key: bytes | None, value: bytes) -> Payload | None:
    """Return the message in the value of a record; None if it is not known."""
    if topic in LOGS:
        return _framed(value, LOGS[topic])
    name = None if key is None else _key_name(topic, key)
    if name is None or len(value) < VERSION_SIZE:
        return None
    name = name.removesuffix("Key") + "Value"
    version = int.from_bytes(value[:VERSION_SIZE], "big")
    return Payload(message(name), version, VERSION_SIZE) if name in _names() else None


def _framed(value: bytes, module: str) -> Payload | None:
    numbers, position = [], 0
    for _ in range(3):
        number, position = read_unsigned_varint(value, position)
        numbers.append(number)
    name = _by_id(module, "metadata").get(numbers[1])
    return None if name is None or position > len(value) else Payload(message(name), numbers[2], position)


def read_unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number; return it and the position after it. If it is cut off, return -1 and a position past the end."""
    number = 0
    for shift in range(MOST_VARINT):
        if position + shift >= len(data):
            break
        byte = data[position + shift]
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, position + shift + 1
    return -1, len(data) + 1


def _key_name(topic: str, key: bytes) -> str | None:
    module = COORDINATORS.get(topic)
    if module is None or len(key) < VERSION_SIZE:
        return None
    return _by_id(module, "coordinator-key").get(int.from_bytes(key[:VERSION_SIZE], "big"))


@cache
def _names() -> frozenset[str]:
    return frozenset(facts().messages())


@cache
def _by_id(module: str, kind: str) -> dict[int, str]:
    """Map record ids to names, for the messages of one kind in one of Kafka's modules."""
    ending = "Key" if kind == "coordinator-key" else "Record"
    layouts = (facts().layouts(name)[0] for name in facts().messages() if name.endswith(ending))
    ids = ((layout.record_id, layout.name) for layout in layouts if layout.module == module and layout.type == kind)
    return {record_id: name for record_id, name in ids if record_id is not None}
