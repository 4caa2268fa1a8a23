"""Dead letters: copies of records that a filter has refused, written to another topic in the same Produce request.

A filter has no connection of its own, and a broker takes records only for partitions that it leads. So a copy goes to a partition
of the dead-letter topic that the broker of the connection leads. Which these are is learned from Metadata: the topic is added to
the requests of clients that ask about a topic with a rule, and taken out of the responses (ask, learn). All workers share it.

The copies are a batch of no producer id, so sequences and transactions of the client stay as they are. A request gets at most
MOST_BYTES of them: they are not compressed, so there could be a thousand times the bytes that the client sent, and a broker that
refuses a request for its size refuses the valid records in it too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kproxy.errors import EncodeError
from kproxy.filters.bounded_set import LONGEST_VALUE
from kproxy.filters.contract import Forward, Replace, Request, Response, Runtime, Verdict
from kproxy.protocol.records import Record, read_batches, write_batches
from kproxy.protocol.records.editing import RecordBatch, read_batch
from kproxy.protocol.records.limits import DEFAULT_LIMITS
from kproxy.protocol.records.reading import open_batches
from kproxy.protocol.structs import struct_types

MAGIC_2_FROM, TOPIC_IDS_FROM = 3, 13  # versions of Produce
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
MOST_BYTES = 1_040_000  # of copies in a request; a batch has at most 1,048,588 (message.max.bytes) by default
MOST_OF_RECORD, MOST_OF_HEADER = 40, 10  # bytes of a record, and of a header, without their contents
MOST_PARTITIONS = 100_000  # whose leaders are known
MOST_LOGGED = 1_000
CANNOT_CARRY = "the broker of the request leads none of its partitions, the request writes to it itself, or is too old"
DO_NOT_FIT = f"the records cannot be read, or have more than {MOST_BYTES:,} bytes together"


class Leader(NamedTuple):
    """Which broker leads a partition of a dead-letter topic."""

    topic_id: str
    address: str  # of the broker; empty: none leads it
    said_at: float  # seconds since the epoch, when a Metadata response said it


class Refused(NamedTuple):
    """A partition of a Produce request with refused records."""

    topic: str
    partition: int
    records: bytes  # the records field
    problems: Mapping[int, str]  # why records are refused, by number in the field
    dead_letter_topic: str


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
        self._leaders: dict[str, dict[int, Leader]] = {}  # by topic and partition
        self._partitions = 0  # that are in it
        self._change = 0
        self._logged: set[tuple[str, str]] = set()

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
        self._take_shared(runtime)
        addresses = {one.node_id: f"{one.host}:{one.port}" for one in message.brokers}
        for topic in message.topics:
            for one in topic.partitions if topic.name in wanted else ():
                leader = Leader(topic.topic_id, addresses.get(one.leader_id, ""), runtime.now())
                known = self._leaders.get(topic.name, {}).get(one.partition_index)
                if known is None or known[:2] != leader[:2]:
                    self._share(topic.name, one.partition_index, leader, runtime)
        message.topics = [topic for topic in message.topics if topic.name not in wanted]
        return Replace(message)

    def _share(self, topic: str, partition: int, leader: Leader, runtime: Runtime) -> None:
        """Tell all workers. The time makes each text another one: the set passes only new texts on."""
        text = "\0".join((topic, str(partition), leader.topic_id, leader.address, f"{leader.said_at:.6f}"))
        if len(text) <= LONGEST_VALUE:
            runtime.shared_set(self._key).add(text)

    def _take_shared(self, runtime: Runtime) -> None:
        """Note what this and other workers have shared since the last call."""
        self._change, added = runtime.shared_set(self._key).added_since(self._change)
        for text in added:
            topic, partition, topic_id, address, said_at = text.split("\0")
            leader = Leader(topic_id, address, float(said_at))
            partitions = self._leaders.setdefault(topic, {})
            known = partitions.get(int(partition))
            if known is None or known.said_at <= leader.said_at:
                partitions[int(partition)] = leader
                self._partitions += known is None
        if self._partitions > MOST_PARTITIONS:
            self._leaders, self._partitions = {}, 0

    async def put(self, request: Request, refused: Sequence[Refused], runtime: Runtime) -> None:
        """Add copies of refused records to a Produce request, as far as its broker leads a partition of their topic.

        They are made in a thread. The counts of what is written and what is not are those of records.
        """
        left = MOST_BYTES
        for topic in dict.fromkeys(one.dead_letter_topic for one in refused):
            mine = [one for one in refused if one.dead_letter_topic == topic]
            letters: list[Record] = []
            why = CANNOT_CARRY
            if (found := self._free_place(request, topic, runtime)) is not None:
                why = DO_NOT_FIT
                for one in mine:
                    made, left = await runtime.in_thread(partial(self._letters, one, left))
                    letters += made
                records = await runtime.in_thread(partial(_written, letters))
                if records:
                    self._add(request, topic, *found, records, len(letters))
                else:
                    letters = []
            missing = sum(len(one.problems) for one in mine) - len(letters)
            if missing:
                self._count(runtime, "not written", missing, f"topic {topic}: {why}")

    def _letters(self, refused: Refused, most: int) -> tuple[list[Record], int]:
        """Return copies of the refused records of a partition that fit into *most* bytes together, and how many are left."""
        origin = [
            (f"{self._header}-topic", refused.topic.encode()),
            (f"{self._header}-partition", str(refused.partition).encode()),
        ]
        letters = []
        for number, record in enumerate(_records(refused.records)) if most > MOST_OF_RECORD else ():
            if number in refused.problems:
                headers = [*record.headers, (self._header, refused.problems[number].encode()), *origin]
                size = _size(record.key, record.value, headers)
                if size <= most:
                    most -= size
                    letters.append(
                        Record(timestamp=record.timestamp, key=record.key, value=record.value, headers=headers)
                    )
        return letters, most

    def _free_place(self, request: Request, topic: str, runtime: Runtime) -> tuple[int, Place] | None:
        """Return a partition that the broker of a request leads, and how the request names its topic; None: there is none.

        Nor is there one if the client itself writes to the topic: a partition of a request has one batch.
        """
        self._take_shared(runtime)
        broker, version = request.connection.broker, request.api_version
        led = ((at, one.topic_id) for at, one in self._leaders.get(topic, {}).items() if one.address == broker)
        partition, topic_id = next(led, (None, NO_TOPIC_ID))
        if partition is None or version < MAGIC_2_FROM or (version >= TOPIC_IDS_FROM and topic_id == NO_TOPIC_ID):
            return None
        place = ("topic_id", topic_id) if version >= TOPIC_IDS_FROM else ("name", topic)
        message: Any = request.message
        return None if any(_name(one) == place for one in message.topic_data) else (partition, place)

    def _add(self, request: Request, topic: str, partition: int, place: Place, records: bytes, count: int) -> None:
        request.kept.setdefault(self._key, {})[place] = topic, count
        types = struct_types("ProduceRequest")
        data = types["PartitionProduceData"](index=partition, records=records)
        message: Any = request.message
        message.topic_data.append(types["TopicProduceData"](partition_data=[data], **dict([place])))

    def take_out(self, response: Response, runtime: Runtime) -> None:
        """Take the answers about dead letters out of a Produce response, and count what became of them."""
        message: Any = response.message
        mine: dict[Place, tuple[str, int]] = response.request.kept.pop(self._key, {})
        for answer in message.responses:
            for one in answer.partition_responses if _name(answer) in mine else ():
                topic, count = mine[_name(answer)]
                self._count(runtime, "refused by the broker" if one.error_code else "written", count, f"topic {topic}")
        message.responses = [answer for answer in message.responses if _name(answer) not in mine]

    def _count(self, runtime: Runtime, outcome: str, count: int, about: str) -> None:
        """Count copies, and log what became of them the first time, unless they were written."""
        runtime.shared_count(self._name, "dead letters", outcome).add(count)
        if outcome != "written" and (outcome, about) not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add((outcome, about))
            runtime.warn(f"{self._name}: dead letters were {outcome}", about)


def _records(field: bytes) -> Iterable[Record]:
    """Yield the records of a records field; the objects of one batch exist at a time."""
    for opened in open_batches(read_batches(field), DEFAULT_LIMITS):
        yield from read_batch(opened).records


def _size(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return how many bytes a record has in a batch, at most."""
    of_headers = sum(
        len(name.encode(errors="surrogateescape")) + len(data or b"") + MOST_OF_HEADER for name, data in headers
    )
    return MOST_OF_RECORD + len(key or b"") + len(value or b"") + of_headers


def _written(letters: list[Record]) -> bytes:
    """Return a batch of records; nothing if there are none, or if they do not fit into one."""
    for number, letter in enumerate(letters):
        letter.offset = number
    try:
        return write_batches([RecordBatch(letters)]) if letters else b""
    except EncodeError:  # times too far apart
        return b""


def _name(topic: Any) -> Place:
    return ("name", topic.name) if topic.name else ("topic_id", topic.topic_id)
