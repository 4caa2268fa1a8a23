"""What is worth knowing of an exchange in one line, by API: topics, partitions, sizes, group, member, transaction.

A table from API to function; a function gets both bodies, decoded to the few fields it declares (body_fields.py).
Strings are made printable where they are used.
"""

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from kproxy.output.bodies import READABLE, Bodies
from kproxy.output.completeness import lists_all
from kproxy.output.escaping import word
from kproxy.output.text.body_fields import (
    AddPartitionsRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Common,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    Group,
    GroupsBody,
    HeartbeatResponse,
    InitProducerIdResponse,
    JoinGroupResponse,
    MarkersRequest,
    MetadataResponse,
    Named,
    NamedTopics,
    ProduceRequest,
    ResourcesBody,
    Topic,
    TopicsBody,
    Transaction,
)
from kproxy.output.text.payload_facts import assigned, assignors, record_count, sasl_words
from kproxy.output.times import render_size
from kproxy.protocol.values import describe

SHOWN_NAMES = 3
NOUNS = {"apiKeys": "APIs"}


@dataclass(slots=True)
class Line:
    """A line in the making: the bodies and topic names it is about, and its words so far. Functions of FACTS add words."""

    bodies: Bodies
    topic_names: Mapping[str, str]
    words: list[str] = field(default_factory=list)

    def request(self, kind: type[Any]) -> Any:
        """Decode the fields of *kind* from the request; all have defaults if there is no request."""
        return _read(self.bodies.request, kind)

    def response(self, kind: type[Any]) -> Any:
        """Decode the fields of *kind* from the response; all have defaults if there is no response."""
        return _read(self.bodies.response, kind)

    def topics(self, topics: Iterable[Topic | Named] | None, empty: str = "") -> None:
        """Add the names of the first few topics."""
        named = list(topics or ())
        if not named:
            self.words += [empty] if empty else []
            return
        self.names([topic.label(self.topic_names) for topic in named[:SHOWN_NAMES]], len(named))

    def names(self, labels: list[str], count: int) -> None:
        """Add labels, and how many more there are of the *count*."""
        more = f" +{count - len(labels)}" if count > len(labels) else ""
        self.words.append(", ".join(labels) + more)

    def partitions(self, topics: Iterable[Topic]) -> None:
        """Add the topics, and the numbers of their partitions, or only how many partitions if there are more than a few."""
        topics = list(topics)
        self.topics(topics)
        partitions = [p.number for topic in topics for p in topic.all_partitions()]
        if len(topics) == 1 and 0 < len(partitions) <= 4:
            self.words[-1] += "-" + ",".join(map(str, partitions))
        elif partitions:
            self.words.append(f"{self.at_least}{len(partitions)} partitions")

    def has(self, side: str, field: str) -> bool:
        """Return whether the presence of a top-level field is certain: it is not if the body is cut before the field."""
        body = self.bodies.request if side == "request" else self.bodies.response
        return side not in self.bodies.beginnings or f'"{field}":'.encode() in (body or b"")

    def count(self, field: str, elements: Sized) -> int | None:
        """Return how many elements a top-level array of the response has; None if the response is cut before its count."""
        beginning = self.bodies.beginnings.get("response")
        if beginning is None or (self.has("response", field) and not (beginning.missing or "").startswith(f"{field}[")):
            return len(elements)
        return beginning.counts.get(field)

    def counts(self, **arrays: Sized) -> None:
        """Add how many elements arrays of the response have; the keywords are their names."""
        counted = [(name, self.count(name, elements)) for name, elements in arrays.items()]
        known = ", ".join(f"{count} {NOUNS.get(name, name)}" for name, count in counted if count is not None)
        self.words += [f"→ {known}"] if known else []

    @property
    def at_least(self) -> str:
        """Return "at least " if the bodies are cut, so that a count could be larger, else ""."""
        return "" if all(map(lists_all, self.bodies.beginnings.values())) else "at least "


Describe: TypeAlias = Callable[[Line], None]


def key_facts(api_key: int | None, bodies: Bodies, topic_names: Mapping[str, str]) -> str:
    """Return what matters about an exchange, as words with two spaces between them; "" if there is nothing.

    The words are printable whatever the bodies hold, and not cut to a width. A side that is missing or unreadable adds none,
    one larger than READABLE only its size, and one that is cut only what the fields before the cut prove.
    """
    bodies, sizes = _without_large(bodies)
    line = Line(bodies, topic_names)
    table = FACTS_OF_CUT if bodies.beginnings else FACTS
    try:
        (table.get(api_key, _common) if api_key is not None else _common)(line)
    except msgspec.DecodeError:  # JSON of an unknown layout: no facts
        line.words.append("(details with -v)")
    return "  ".join(filter(None, [*sizes, *line.words]))


def _without_large(bodies: Bodies) -> tuple[Bodies, list[str]]:
    """Return the bodies without those larger than READABLE, and words about these."""
    if len(bodies.request or b"") <= READABLE and len(bodies.response or b"") <= READABLE:
        return bodies, []
    sides = {"request": bodies.request, "response": bodies.response}
    large = {side: body for side, body in sides.items() if body is not None and len(body) > READABLE}
    rest = replace(bodies, embedded=[])
    for side in large:
        setattr(rest, side, None)
    return rest, [f"{side} of {render_size(len(body))} as JSON" for side, body in large.items()]


def _read(body: bytes | None, kind: type[Any]) -> Any:
    if body is None:
        return kind()
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(body)


_DECODERS: dict[type[Any], msgspec.json.Decoder[Any]] = {}  # one for each class of fields


def _common(line: Line) -> None:
    """Add group, member and transaction, if they are at the top of the request."""
    common: Common = line.request(Common)
    if common.groupId is not None:
        line.words.append(f"group {word(common.groupId)}")
    if common.transactionalId is not None:
        line.words.append(f"transaction {word(common.transactionalId)}")
    if common.memberId:
        line.words.append(f"member {word(common.memberId, 48)}")
    instance = common.groupInstanceId or common.instanceId
    if instance:
        line.words.append(f"instance {word(instance)}")
    _numbers(line, common)


def _numbers(line: Line, common: Common) -> None:
    if common.generationId is not None:
        line.words.append(f"generation {common.generationId}")
    if common.generationIdOrMemberEpoch is not None:
        line.words.append(f"generation {common.generationIdOrMemberEpoch}")
    if common.memberEpoch is not None:
        named = {0: " (join)", -1: " (leave)", -2: " (static leave)"}.get(common.memberEpoch, "")
        line.words.append(f"epoch {common.memberEpoch}{named}")
    if common.producerId is not None and common.producerId != -1 and common.producerEpoch is not None:
        line.words.append(f"producer {common.producerId}/{common.producerEpoch}")
    if common.committed is not None:
        line.words.append("commit" if common.committed else "abort")
    if common.mechanism is not None:
        line.words.append(word(common.mechanism))
    if common.brokerId is not None:
        line.words.append(f"broker {common.brokerId}")
    if common.validateOnly:
        line.words.append("validate only")


def _produce(line: Line) -> None:
    if line.bodies.request is None:
        return
    request: ProduceRequest = line.request(ProduceRequest)
    line.partitions(request.topicData)
    size = sum(p.size for topic in request.topicData for p in topic.all_partitions())
    line.words.append(record_count(line.bodies.embedded))
    if size or not line.bodies.beginnings:
        line.words.append(line.at_least + render_size(size))
    if request.acks is not None:
        line.words.append(f"acks={'all' if request.acks == -1 else request.acks}")
    if request.transactionalId is not None:
        line.words.append(f"transaction {word(request.transactionalId)}")


def _fetch(line: Line) -> None:
    request: FetchRequest = line.request(FetchRequest)
    response: FetchResponse = line.response(FetchResponse)
    answered = response.responses or response.topics
    line.partitions(answered or request.topics)
    size = sum(p.size for topic in answered for p in topic.all_partitions())
    if line.bodies.response is not None and (size or not line.bodies.beginnings):
        line.words += [record_count(line.bodies.embedded), line.at_least + render_size(size)]
    if request.groupId is not None:
        line.words.append(f"group {word(request.groupId)}")
    if request.replicaId >= 0:
        line.words.append(f"replica {request.replicaId}")
    if request.sessionId:
        line.words.append(f"session {request.sessionId}/{request.sessionEpoch}")


def _metadata(line: Line) -> None:
    if line.bodies.request is not None and line.has("request", "topics"):
        request: NamedTopics = line.request(NamedTopics)
        line.topics(request.topics, "all topics" if request.topics is None else "no topics")
    if line.bodies.response is not None:
        response: MetadataResponse = line.response(MetadataResponse)
        line.counts(topics=response.topics, brokers=response.brokers)


def _api_versions(line: Line) -> None:
    request: ApiVersionsRequest = line.request(ApiVersionsRequest)
    for unread in line.bodies.embedded:
        request = msgspec.convert(unread.value(), ApiVersionsRequest)
    if request.clientSoftwareName is not None:
        line.words.append(f"{word(request.clientSoftwareName)} {word(request.clientSoftwareVersion or '')}")
    if line.bodies.response is not None:
        response: ApiVersionsResponse = line.response(ApiVersionsResponse)
        line.counts(apiKeys=response.apiKeys)


def _find_coordinator(line: Line) -> None:
    request: FindCoordinatorRequest = line.request(FindCoordinatorRequest)
    keys = request.coordinatorKeys or ([] if request.key is None else [request.key])
    if keys:
        kind = describe("FindCoordinatorRequest", "keyType", request.keyType) or str(request.keyType)
        line.words.append(f"{kind.lower()} {', '.join(word(key) for key in keys[:SHOWN_NAMES])}")
    response: FindCoordinatorResponse = line.response(FindCoordinatorResponse)
    nodes = [node for node in (*response.coordinators, response) if node.nodeId >= 0]
    if nodes:
        line.words.append(f"→ node {nodes[0].nodeId} {word(nodes[0].host)}:{nodes[0].port}")


def _topics_with_partitions(line: Line) -> None:
    _common(line)
    request: TopicsBody = line.request(TopicsBody)
    if request.topics is None:
        line.words += ["all topics"] if line.has("request", "topics") else []
    else:
        line.partitions(request.topics)


def _list_offsets(line: Line) -> None:
    _topics_with_partitions(line)
    request: TopicsBody = line.request(TopicsBody)
    times = {p.timestamp for topic in request.topics or () for p in topic.partitions if p.timestamp is not None}
    if len(times) == 1:
        time = times.pop()
        line.words.append(describe("ListOffsetsRequest", "timestamp", time) or f"at {time}")
    elif times:
        line.words.append(f"{len(times)} times")


def _offset_fetch(line: Line) -> None:
    _topics_with_partitions(line)
    _groups(line)


def _join_group(line: Line) -> None:
    _common(line)
    line.words.append(assignors(line.bodies.embedded))
    if line.bodies.response is None:
        return
    response: JoinGroupResponse = line.response(JoinGroupResponse)
    if response.generationId >= 0:
        leads = response.leader == response.memberId
        role = f"leader of {len(response.members)}" if leads else "follower"
        line.words.append(f"→ generation {response.generationId}, {word(response.protocolName or '')}, {role}")


def _sync_group(line: Line) -> None:
    _common(line)
    assignment = assigned(line.bodies.embedded)
    line.words.append(f"→ {assignment}" if assignment else "")


def _sasl_authenticate(line: Line) -> None:
    line.words += sasl_words(line.bodies.embedded, line.bodies.sasl_mechanism)


def _group_heartbeat(line: Line) -> None:
    _common(line)
    response: HeartbeatResponse = line.response(HeartbeatResponse)
    if response.memberEpoch is not None:
        line.words.append(f"→ epoch {response.memberEpoch}")


def _groups(line: Line) -> None:
    request: GroupsBody = line.request(GroupsBody)
    groups: list[Group | str] = [*request.groups, *request.groupIds, *request.groupsNames]
    labels = [word((g if isinstance(g, str) else g.groupId) or "") for g in groups[:SHOWN_NAMES]]
    if labels:
        line.words.append("group " + ", ".join(labels))
        if len(groups) > len(labels):
            line.words[-1] += f" +{len(groups) - len(labels)}"


def _named_topics(line: Line) -> None:
    request: NamedTopics = line.request(NamedTopics)
    if request.topicNames:
        line.names([word(name, 48) for name in request.topicNames[:SHOWN_NAMES]], len(request.topicNames))
    else:
        line.topics(request.topics)
    _common(line)


def _resources(line: Line) -> None:
    request: ResourcesBody = line.request(ResourcesBody)
    labels = []
    for resource in request.resources[:SHOWN_NAMES]:
        kind = describe("DescribeConfigsRequest", "resourceType", resource.resourceType)
        labels.append(f"{(kind or str(resource.resourceType)).lower()} {word(resource.resourceName, 48)}")
    if labels:
        line.names(labels, len(request.resources))
    _common(line)


def _init_producer_id(line: Line) -> None:
    _common(line)
    response: InitProducerIdResponse = line.response(InitProducerIdResponse)
    if response.producerId >= 0:
        line.words.append(f"→ producer {response.producerId}/{response.producerEpoch}")


def _add_partitions(line: Line) -> None:
    request: AddPartitionsRequest = line.request(AddPartitionsRequest)
    transactions = request.transactions
    if request.v3AndBelowTransactionalId is not None:
        transactions = [Transaction(request.v3AndBelowTransactionalId, request.v3AndBelowTopics)]
    if transactions:
        line.words.append("transaction")
        line.names([word(t.transactionalId) for t in transactions[:SHOWN_NAMES]], len(transactions))
        line.words[-2:] = [" ".join(line.words[-2:])]
        line.topics(topic for transaction in transactions for topic in transaction.topics)


def _markers(line: Line) -> None:
    markers = line.request(MarkersRequest).markers
    labels = [
        f"{'commit' if m.transactionResult else 'abort'} producer {m.producerId}/{m.producerEpoch}"
        for m in markers[:SHOWN_NAMES]
    ]
    if labels:
        line.names(labels, len(markers))
        line.topics(topic for marker in markers for topic in marker.topics)


FACTS: dict[int, Describe] = {
    0: _produce,
    1: _fetch,
    2: _list_offsets,
    3: _metadata,
    8: _topics_with_partitions,  # OffsetCommit
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join_group,
    14: _sync_group,
    15: _groups,  # DescribeGroups
    18: _api_versions,
    19: _named_topics,  # CreateTopics
    20: _named_topics,  # DeleteTopics
    21: _topics_with_partitions,  # DeleteRecords
    22: _init_producer_id,
    23: _topics_with_partitions,  # OffsetForLeaderEpoch
    24: _add_partitions,
    27: _markers,
    28: _topics_with_partitions,  # TxnOffsetCommit
    32: _resources,  # DescribeConfigs
    33: _resources,  # AlterConfigs
    36: _sasl_authenticate,
    37: _named_topics,  # CreatePartitions
    42: _groups,  # DeleteGroups
    44: _resources,  # IncrementalAlterConfigs
    47: _topics_with_partitions,  # OffsetDelete
    61: _named_topics,  # DescribeProducers
    68: _group_heartbeat,  # ConsumerGroupHeartbeat
    69: _groups,  # ConsumerGroupDescribe
    75: _named_topics,  # DescribeTopicPartitions
    76: _group_heartbeat,  # ShareGroupHeartbeat
    77: _groups,  # ShareGroupDescribe
    78: _fetch,  # ShareFetch
    79: _topics_with_partitions,  # ShareAcknowledge
    88: _group_heartbeat,  # StreamsGroupHeartbeat
    89: _groups,  # StreamsGroupDescribe
}

# Functions that also work if fields are missing; the other APIs use _common.
FACTS_OF_CUT: dict[int, Describe] = {
    key: _topics_with_partitions if key == 2 else FACTS[key]
    for key in (0, 1, 2, 3, 8, 9, 18, 19, 20, 21, 23, 28, 37, 47, 61, 68, 75, 76, 78, 79, 88)
}
