"""What is worth knowing of an exchange in one line, by API: topics, partitions, sizes, group, member, transaction.

FACTS maps each API to a function, which decodes the few fields of the bodies that it needs (body_fields.py). Strings are made
printable where they are used.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from kproxy.output.bodies import READABLE, Bodies, lists_all
from kproxy.output.escaping import word
from kproxy.output.text.body_fields import (
    Common,
    FetchResponse,
    Group,
    Named,
    ProduceRequest,
    Request,
    Resource,
    Response,
    Topic,
    Transaction,
)
from kproxy.output.times import counted, render_size
from kproxy.protocol.embedded.payload import Embedded
from kproxy.protocol.values import describe

SHOWN_NAMES = 3
SHOWN_TOPICS = 2  # of an assignment
SHOWN_PARTITIONS = 6
T = TypeVar("T")
Fields = TypeVar("Fields")
NOUNS = {"apiKeys": "APIs"}


@dataclass(slots=True)
class Line:
    """A line in the making: the bodies and topic names it is about, and its words so far. Functions of FACTS add words."""

    bodies: Bodies
    topic_names: Mapping[str, str]
    words: list[str] = field(default_factory=list)

    def request(self) -> Request:
        """Decode the fields of the request; all have defaults if there is no request."""
        return _decode(_request, self.bodies.request)

    def response(self) -> Response:
        """Decode the fields of the response; all have defaults if there is no response."""
        return _decode(_response, self.bodies.response)

    def topics(self, topics: Iterable[Named] | None, empty: str = "") -> None:
        """Add the names of the first few topics."""
        self.names(list(topics or ()), lambda topic: topic.label(self.topic_names), empty=empty)

    def names(self, named: Sequence[T], label: Callable[[T], str], before: str = "", empty: str = "") -> None:
        """Add the labels of the first few after the word *before*, and how many more there are; *empty* if there are none."""
        words = before + _first_of(named, SHOWN_NAMES, label) if named else empty
        self.words += [words] if words else []

    def partitions(self, topics: Iterable[Topic]) -> None:
        """Add the topics, and the numbers of their partitions, or only how many partitions if there are more than a few."""
        topics = list(topics)
        self.topics(topics)
        partitions = [p.number for topic in topics for p in topic.all_partitions()]
        if len(topics) == 1 and 0 < len(partitions) <= 4:
            self.words[-1] += "-" + ",".join(map(str, partitions))
        elif partitions:
            self.words.append(self.at_least + counted(len(partitions), "partition"))

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
        amounts = [(name, self.count(name, elements)) for name, elements in arrays.items()]
        known = ", ".join(
            counted(count, NOUNS.get(name, name).removesuffix("s")) for name, count in amounts if count is not None
        )
        self.words += [f"→ {known}"] if known else []

    @property
    def at_least(self) -> str:
        """Return "at least " if the bodies are cut, so that a count could be larger, else ""."""
        return "" if all(map(lists_all, self.bodies.beginnings.values())) else "at least "


Describe: TypeAlias = Callable[[Line], object]


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


def _decode(decoder: msgspec.json.Decoder[Fields], body: bytes | None) -> Fields:
    return decoder.decode(b"{}" if body is None else body)


_common_fields = msgspec.json.Decoder(Common)
_produced = msgspec.json.Decoder(ProduceRequest)
_request = msgspec.json.Decoder(Request)
_fetched = msgspec.json.Decoder(FetchResponse)
_response = msgspec.json.Decoder(Response)


def _common(line: Line, common: Common | None = None) -> None:
    """Add group, member and transaction, if they are at the top of the request."""
    common = _decode(_common_fields, line.bodies.request) if common is None else common
    for name, text in (
        ("group", common.groupId),
        ("transaction", common.transactionalId),
        ("member", common.memberId or None),
        ("instance", common.groupInstanceId or common.instanceId or None),
    ):
        if text is not None:
            line.words.append(f"{name} {word(text, 48 if name == 'member' else 64)}")
    for generation in (common.generationId, common.generationIdOrMemberEpoch):
        if generation is not None:
            line.words.append(f"generation {generation}")
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
    request = _decode(_produced, line.bodies.request)
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
    request, response = line.request(), _decode(_fetched, line.bodies.response)
    line.partitions(response.responses or request.topics or ())
    size = sum(p.size for topic in response.responses for p in topic.all_partitions())
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
        topics = line.request().topics
        line.topics(topics, "all topics" if topics is None else "no topics")
    if line.bodies.response is not None:
        response = line.response()
        line.counts(topics=response.topics, brokers=response.brokers)


def _api_versions(line: Line) -> None:
    request = line.request()
    for unread in line.bodies.embedded:
        request = msgspec.convert(unread.value(), Request)
    if request.clientSoftwareName is not None:
        line.words.append(f"{word(request.clientSoftwareName)} {word(request.clientSoftwareVersion or '')}")
    if line.bodies.response is not None:
        line.counts(apiKeys=line.response().apiKeys)


def _find_coordinator(line: Line) -> None:
    request, response = line.request(), line.response()
    keys = request.coordinatorKeys or ([] if request.key is None else [request.key])
    if keys:
        kind = describe("FindCoordinatorRequest", "keyType", request.keyType) or str(request.keyType)
        line.words.append(f"{kind.lower()} {', '.join(word(key) for key in keys[:SHOWN_NAMES])}")
    nodes = [node for node in (*response.coordinators, response) if node.nodeId >= 0]
    if nodes:
        line.words.append(f"→ node {nodes[0].nodeId} {word(nodes[0].host)}:{nodes[0].port}")


def _topics_with_partitions(line: Line) -> Request:
    request = line.request()
    _common(line, request)
    if request.topics is None:
        line.words += ["all topics"] if line.has("request", "topics") else []
    else:
        line.partitions(request.topics)
    return request


def _list_offsets(line: Line) -> None:
    topics = _topics_with_partitions(line).topics or ()
    times = {p.timestamp for topic in topics for p in topic.partitions if p.timestamp is not None}
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
    response = line.response()
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
    epoch = line.response().memberEpoch
    line.words += [] if epoch is None else [f"→ epoch {epoch}"]


def _groups(line: Line) -> None:
    request = line.request()
    groups: list[Group | str] = [*request.groups, *request.groupIds, *request.groupsNames]
    line.names(groups, lambda group: word((group if isinstance(group, str) else group.groupId) or ""), "group ")


def _named_topics(line: Line) -> None:
    request = line.request()
    if request.topicNames:
        line.names(request.topicNames, lambda name: word(name, 48))
    else:
        line.topics(request.topics)
    _common(line, request)


def _resources(line: Line) -> None:
    request = line.request()
    line.names(request.resources, _resource)
    _common(line, request)


def _resource(resource: Resource) -> str:
    kind = describe("DescribeConfigsRequest", "resourceType", resource.resourceType) or str(resource.resourceType)
    return f"{kind.lower()} {word(resource.resourceName, 48)}"


def _init_producer_id(line: Line) -> None:
    _common(line)
    response = line.response()
    if response.producerId >= 0:
        line.words.append(f"→ producer {response.producerId}/{response.producerEpoch}")


def _add_partitions(line: Line) -> None:
    request = line.request()
    transactions = request.transactions
    if request.v3AndBelowTransactionalId is not None:
        transactions = [Transaction(request.v3AndBelowTransactionalId, request.v3AndBelowTopics)]
    line.names(transactions, lambda transaction: word(transaction.transactionalId), "transaction ")
    line.topics(topic for transaction in transactions for topic in transaction.topics)


def _markers(line: Line) -> None:
    markers = line.request().markers
    line.names(
        markers, lambda m: f"{'commit' if m.transactionResult else 'abort'} producer {m.producerId}/{m.producerEpoch}"
    )
    line.topics(topic for marker in markers for topic in marker.topics)


# Payloads inside bytes and records fields


def record_count(embedded: Iterable[Embedded]) -> str:
    """Return how many records Produce or Fetch carry, ``57 records``; "" if none."""
    fields = [one.json for one in embedded if one.kind == "records" and one.error is None]
    count = sum(field["count"] for field in fields)
    return counted(count, "record") if fields else ""


def assignors(embedded: Iterable[Embedded]) -> str:
    """Return the assignors or Connect protocols that a member offers, in its order of preference."""
    offered = [
        word(one.json.get("assignor") or one.json.get("protocol") or "")
        for one in embedded
        if one.where == "request" and one.error is None and isinstance(one.json, dict)
    ]
    return ", ".join(offered)


def assigned(embedded: Iterable[Embedded]) -> str:
    """Return the assignment in a SyncGroup response, ``orders-0,1,2``; "" if it is not known."""
    for one in embedded:
        if one.where == "response" and one.error is None:
            return _connect(one) if one.kind == "connect-assignment" else _topics(one)
    return ""


def sasl_words(embedded: Iterable[Embedded], mechanism: str | None) -> list[str]:
    """Return mechanism, user and outcome of one step of an authentication."""
    words = [] if mechanism is None else [word(mechanism)]
    for one in embedded:
        words += token_words(one.json if one.error is None else {"size": 0}, from_client=one.where == "request")
    return words


def token_words(parts: dict[str, Any], *, from_client: bool) -> list[str]:
    """Return the user or the outcome that the parts of a token tell."""
    if not from_client:
        return [_outcome(parts)]
    return [f"user {word(parts['username'])}"] if parts.get("username") else []


def _outcome(parts: dict[str, Any]) -> str:
    refusal = parts.get("error") or parts.get("status")
    if refusal or parts.get("success") is False:
        return f"→ refused {word(refusal)}" if refusal else "→ refused"
    if "iterations" in parts:
        return "→ challenge"
    return "→ token" if "size" in parts else "→ authenticated"


def _topics(one: Embedded) -> str:
    topics = one.value()["value"]["assignedPartitions"]
    return (
        _first_of(
            topics, SHOWN_TOPICS, lambda topic: f"{word(topic['topic'], 48)}-{_partition_numbers(topic['partitions'])}"
        )
        or "nothing"
    )


def _connect(one: Embedded) -> str:
    plan = one.value()["value"]["assigned"]
    return f"{len(plan['connectors'])} connectors, {len(plan['tasks'])} tasks"


def _partition_numbers(partitions: list[int]) -> str:
    more = ",…" if len(partitions) > SHOWN_PARTITIONS else ""
    return ",".join(map(str, partitions[:SHOWN_PARTITIONS])) + more


def _first_of(named: Sequence[T], most: int, label: Callable[[T], str]) -> str:
    """Return the labels of the first few, and how many more there are; "" if there are none."""
    return ", ".join(map(label, named[:most])) + (f" +{len(named) - most}" if len(named) > most else "")


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
