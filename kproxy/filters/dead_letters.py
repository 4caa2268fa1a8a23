"""Dead letters: copies of records that a filter has refused, written to another topic in the same Produce request.

A filter has no connection of its own, and a broker takes records only for partitions that it leads. So a copy goes to a partition
of the dead-letter topic that the broker of the connection leads. Which these are is learned from Metadata: the topic is added to
the requests of clients that ask about a topic with a rule, and taken out of the responses (ask, learn). All workers share it.

The copies are a batch of no producer id, so sequences and transactions of the client stay as they are. A request gets at most
MOST_BYTES of them, with what filters behind add to each (Filter.growth): they are not compressed, so there could be a thousand
times the bytes that the client sent, and a broker that refuses a request for its size refuses the valid records in it too.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kproxy.errors import EncodeError
from kproxy.filters.bounded_set import LONGEST_VALUE
from kproxy.filters.contract import Filter, Forward, Replace, Request, Response, Runtime, Verdict
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import error_code
from kproxy.protocol.records import Record, read_batches
from kproxy.protocol.records.editing import RecordBatch, read_batch, write_batches
from kproxy.protocol.records.limits import DEFAULT_LIMITS
from kproxy.protocol.records.reading import open_batches
from kproxy.protocol.structs import struct_types

MAGIC_2_FROM, TOPIC_IDS_FROM = 3, 13  # versions of Produce
MOST_BYTES = 1_040_000  # of copies in a request; a batch has at most 1,048,588 (message.max.bytes) by default
MOST_OF_RECORD, MOST_OF_HEADER = 40, 10  # bytes of a record, and of a header, without their contents
MOST_PARTITIONS = 100_000  # whose leaders are known
MOST_LOGGED = 1_000
NOT_LED = "no partition of it is known that is led by the broker to which the request goes; has the topic been created?"
WRITES_ITSELF = "the client's own request writes to this topic, and kproxy adds nothing to what it writes there"
TOO_OLD = f"the client uses Produce before version {MAGIC_2_FROM}, whose records have no headers: update the client"
NO_ID = f"the broker has not told the id of the topic, which Produce from version {TOPIC_IDS_FROM} on needs"
UNREADABLE = "the refused batch cannot be read, so there is nothing to copy"
TOO_MANY = f"a request has room for {MOST_BYTES:,} bytes of dead letters, encrypted if they are: use smaller batches"
MOST_SAID = 200  # characters of a broker's message


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


class Copied(NamedTuple):
    """The copies of the refused records of a partition."""

    letters: list[Record]
    left: int  # bytes of the request
    too_many: int  # records for which there was no room


Growth = Callable[[Record], int]  # see Filter.growth
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

    async def put(
        self, request: Request, refused: Sequence[Refused], runtime: Runtime, later: Sequence[Filter] = ()
    ) -> None:
        """Add copies of refused records to a Produce request, as far as its broker leads a partition of their topic.

        *later*: the filters that see the request afterwards.

        They are made in a thread. The counts of what is written and what is not are those of records.
        """
        left = MOST_BYTES
        for topic in dict.fromkeys(one.dead_letter_topic for one in refused):
            mine = [one for one in refused if one.dead_letter_topic == topic]
            found = self._free_place(request, topic, runtime)
            if isinstance(found, str):
                self._miss(runtime, topic, sum(len(one.problems) for one in mine), found)
                continue
            grows = [grow for other in later if (grow := other.growth(topic)) is not None]
            letters: list[Record] = []
            for one in mine:
                copied = await runtime.in_thread(partial(self._letters, one, left, grows))
                left = copied.left
                letters += copied.letters
                self._miss(runtime, topic, copied.too_many, TOO_MANY)
                self._miss(runtime, topic, len(one.problems) - copied.too_many - len(copied.letters), UNREADABLE)
            if letters:
                try:
                    records = await runtime.in_thread(partial(_written, letters))
                except EncodeError as error:
                    self._miss(runtime, topic, len(letters), f"they cannot be written as one batch: {error}")
                else:
                    self._add(request, topic, *found, records, len(letters))

    def _letters(self, refused: Refused, most: int, grows: Sequence[Growth] = ()) -> Copied:
        """Return copies of the refused records of a partition that fit into *most* bytes together, with what *grows* add."""
        origin = [
            (f"{self._header}-topic", refused.topic.encode()),
            (f"{self._header}-partition", str(refused.partition).encode()),
        ]
        if most <= MOST_OF_RECORD:  # records do not have to be unpacked for nothing
            return Copied([], most, len(refused.problems))
        letters, too_many = [], 0
        for number, record in enumerate(_records(refused.records)):
            if number in refused.problems:
                headers = [*record.headers, (self._header, refused.problems[number].encode()), *origin]
                letter = Record(timestamp=record.timestamp, key=record.key, value=record.value, headers=headers)
                size = _size(record.key, record.value, headers) + sum(grow(letter) for grow in grows)
                if size > most:
                    too_many += 1
                    continue
                most -= size
                letters.append(letter)
        return Copied(letters, most, too_many)

    def _free_place(self, request: Request, topic: str, runtime: Runtime) -> tuple[int, Place] | str:
        """Return a partition that the broker of a request leads, and how the request names its topic; else why there is none.

        There is none if the client itself writes to the topic: a partition of a request has one batch.
        """
        self._take_shared(runtime)
        broker, version = request.connection.broker, request.api_version
        led = ((at, one.topic_id) for at, one in self._leaders.get(topic, {}).items() if one.address == broker)
        partition, topic_id = next(led, (None, ZERO_UUID))
        if version < MAGIC_2_FROM:
            return TOO_OLD
        if partition is None:
            return NOT_LED
        if version >= TOPIC_IDS_FROM and topic_id == ZERO_UUID:
            return NO_ID
        place = ("topic_id", topic_id) if version >= TOPIC_IDS_FROM else ("name", topic)
        message: Any = request.message
        return WRITES_ITSELF if any(_name(one) == place for one in message.topic_data) else (partition, place)

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
                if one.error_code:
                    error = error_code(one.error_code)
                    said = (getattr(one, "error_message", None) or error.meaning).rstrip(".")[:MOST_SAID]
                    self._count(
                        runtime,
                        "refused by the broker",
                        count,
                        topic,
                        f"{error.name}: {said}. What to do: {error.then}",
                    )
                else:
                    self._count(runtime, "written", count, topic)
        message.responses = [answer for answer in message.responses if _name(answer) not in mine]

    def _miss(self, runtime: Runtime, topic: str, count: int, why: str) -> None:
        if count:
            self._count(runtime, "not written", count, topic, why)

    def _count(self, runtime: Runtime, outcome: str, count: int, topic: str, why: str = "") -> None:
        """Count copies; where there is a *why*, log the first of it and the topic."""
        runtime.shared_count(self._name, "dead letters", outcome).add(count)
        if why and (topic, why) not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add((topic, why))
            records = f"{count:,} record{'s' * (count != 1)}"
            runtime.warn(f"{self._name}: dead letters were {outcome}", f"{records} for the topic {topic}: {why}")


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
    """Return a batch of records. Raises EncodeError."""
    for number, letter in enumerate(letters):
        letter.offset = number
    return write_batches([RecordBatch(letters)])


def _name(topic: Any) -> Place:
    return ("name", topic.name) if topic.name else ("topic_id", topic.topic_id)
