"""Dead letters: copies of records that a filter has refused, written to another topic in the same Produce request.

A filter has no connection of its own, and a broker takes records only for partitions that it leads. So a copy goes to a partition
of the dead-letter topic that the broker of the connection leads. Which these are is learned from Metadata: the topic is added to
the requests of clients that ask about a topic with a rule, and taken out of the responses (ask, learn). All workers share it.

The copies are a batch of no producer id, so sequences and transactions of the client stay as they are.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kproxy.filters.bounded_set import LONGEST_VALUE
from kproxy.filters.contract import Forward, Replace, Request, Response, Runtime, Verdict
from kproxy.protocol.records import Record, read_records, write_batches
from kproxy.protocol.records.editing import RecordBatch
from kproxy.protocol.structs import struct_types

MAGIC_2_FROM, TOPIC_IDS_FROM = 3, 13  # versions of Produce
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class Leader(NamedTuple):
    """A partition of a dead-letter topic that a broker leads."""

    partition: int
    topic_id: str


Place = tuple[str, str]  # how a topic is named in Produce: the attribute, and its value


class DeadLetters:
    """The dead letters of one filter.

    Args:
        name: of the filter.
        header: the header that says why a record was refused; with -topic and -partition behind it, from where.
    """

    def __init__(self, name: str, header: str) -> None:
        self._name = name
        self._key = f"{name} dead letters"  # in Request.kept, and of the shared set
        self._header = header
        self._leaders: dict[tuple[str, str], Leader] = {}  # by topic and address of the broker
        self._change = 0

    def ask(self, request: Request, dead_letter_topic: Callable[[str], str | None], names: Any) -> Verdict:
        """Add the dead-letter topics of the topics that a Metadata request names."""
        topics: Any = getattr(request.message, "topics", None)
        named = [getattr(one, "name", None) or names.get(getattr(one, "topic_id", "")) for one in topics or ()]
        wanted = {dead_letter_topic(name) for name in named if name} - {None, *named}
        if not wanted:
            return Forward()
        request.kept[self._key] = wanted
        struct = struct_types("MetadataRequest")["MetadataRequestTopic"]
        topics.extend(struct(name=name) for name in sorted(name for name in wanted if name))
        return Replace(request.message)

    def learn(self, response: Response, runtime: Runtime) -> Verdict:
        """Note who leads the partitions of the dead-letter topics, and take those out that the client did not ask for."""
        message: Any = response.message
        wanted = response.request.kept.pop(self._key, None)
        if not wanted:
            return Forward()
        addresses = {one.node_id: f"{one.host}:{one.port}" for one in message.brokers}
        for topic in message.topics:
            for one in topic.partitions if topic.name in wanted else ():
                place = (topic.name, str(one.partition_index), topic.topic_id, addresses.get(one.leader_id, ""))
                if len(text := "\0".join(place)) <= LONGEST_VALUE and place[-1]:
                    runtime.shared_set(self._key).add(text)
        message.topics = [topic for topic in message.topics if topic.name not in wanted]
        return Replace(message)

    def letters(self, records: bytes, problems: Mapping[int, str], topic: str, partition: int) -> list[Record]:
        """Return copies of the refused records of a partition.

        Args:
            records: the records field.
            problems: why records are refused, by number in the field.
            topic: from which they come.
            partition: of the topic.
        """
        every = (record for batch in read_records(records) for record in batch.records)
        origin = [(f"{self._header}-topic", topic.encode()), (f"{self._header}-partition", str(partition).encode())]
        return [
            Record(
                offset=0,
                timestamp=record.timestamp,
                key=record.key,
                value=record.value,
                headers=[*record.headers, (self._header, problems[number].encode()), *origin],
            )
            for number, record in enumerate(every)
            if number in problems
        ]

    def put(self, request: Request, topic: str, letters: list[Record], runtime: Runtime) -> None:
        """Add dead letters to a Produce request, if its broker leads a partition of their topic."""
        message: Any = request.message
        leader = self._leader(topic, request.connection.broker, runtime)
        mine: dict[Place, str] = request.kept.setdefault(self._key, {})
        place = _place(request.api_version, topic, leader)
        known = next((one for one in message.topic_data if _name(one) == place), None)
        is_taken = known is not None and place not in mine  # the client itself writes there
        if leader is None or place is None or is_taken or not letters:
            self._count(runtime, "not written", topic)
            return
        mine[place] = topic
        if known is None:
            types = struct_types("ProduceRequest")
            data = types["PartitionProduceData"](index=leader.partition)
            known = types["TopicProduceData"](partition_data=[data], **dict([place]))
            message.topic_data.append(known)
        else:  # a partition of a request has one batch
            held = read_records(known.partition_data[0].records)
            letters = [record for batch in held for record in batch.records] + letters
        for number, letter in enumerate(letters):
            letter.offset = number
        known.partition_data[0].records = write_batches([RecordBatch(letters)])

    def take_out(self, response: Response, runtime: Runtime) -> None:
        """Take the answers about dead letters out of a Produce response, and count what became of them."""
        message: Any = response.message
        mine: dict[Place, str] = response.request.kept.pop(self._key, {})
        for topic in message.responses:
            for one in topic.partition_responses if _name(topic) in mine else ():
                self._count(runtime, "refused by the broker" if one.error_code else "written", mine[_name(topic)])
        message.responses = [topic for topic in message.responses if _name(topic) not in mine]

    def _leader(self, topic: str, broker: str, runtime: Runtime) -> Leader | None:
        self._change, added = runtime.shared_set(self._key).added_since(self._change)
        for text in added:
            name, partition, topic_id, address = text.split("\0")
            self._leaders[name, address] = Leader(int(partition), topic_id)
        return self._leaders.get((topic, broker))

    def _count(self, runtime: Runtime, outcome: str, topic: str) -> None:
        count = runtime.shared_count(self._name, "dead letters", outcome)
        if count.add() == 1 and outcome != "written":
            runtime.warn(f"{self._name}: dead letters were {outcome}", f"topic {topic}")


def _place(version: int, topic: str, leader: Leader | None) -> Place | None:
    """Return how a Produce request of a version names a topic; None if it cannot."""
    if version < MAGIC_2_FROM or leader is None:
        return None
    if version < TOPIC_IDS_FROM:
        return "name", topic
    return None if leader.topic_id == NO_TOPIC_ID else ("topic_id", leader.topic_id)


def _name(topic: Any) -> Place:
    return ("name", topic.name) if topic.name else ("topic_id", topic.topic_id)
