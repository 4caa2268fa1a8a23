"""An exchange as a span, by OpenTelemetry's semantic conventions for messaging and for Kafka (1.43; development).

    name         the API, and the topic if there is exactly one: "Produce orders"
    kind         CLIENT: the client's call to the broker. kproxy itself does not appear in the trace
    time         from the request's first byte to the response's last one, as the proxy saw them
    events       "request received": its last byte; "request sent": its last byte, to the broker; "response began": its first
                 byte; "response sent": its last byte, to the client. Events without a known time are left out
    parent       Produce: the span in the headers of its records, if they have only one
    links        Produce: the spans in these headers, if there are several. Fetch, ShareFetch: those in the fetched records
    status       error if the response has an error code, or if a response was expected and did not come

Attributes: messaging.*, server.*, client.*, network.peer.*, user_agent.original, error.type (Kafka's name of the first error) as
the conventions define them. Attributes that the conventions lack begin with ``kproxy.``: the name of the virtual cluster, the
fields of the header, sizes, and the phases of /metrics in milliseconds (request_in_proxy_ms, broker_ms, response_in_proxy_ms).
messaging.kafka.cluster.id is set once a response has shown Kafka's id of the cluster. No attribute has keys, values or headers of
records, or anything else that could be a secret.

OTLP is written with protobuf's messages of the package opentelemetry-proto. It was chosen over opentelemetry-sdk with its
exporter: 20 µs of CPU a span against 145, 6 MB against 14, and no threads; and the SDK counts no span that it drops (CPython
3.11, 15 attributes; opentelemetry-proto and opentelemetry-sdk 1.45).

Trace contexts in the headers of records: W3C Trace Context (traceparent) and Zipkin's B3, single and multiple. A producer that is
traced puts the context of its span there (OpenTelemetry's and Zipkin's instrumentations of Kafka clients). Names are compared
without regard to case. A malformed header counts as no context, as both specifications demand.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct, field
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from kproxy import __version__
from kproxy.errors import DecodeError
from kproxy.output.bodies import Bodies, count_errors
from kproxy.output.escaping import well_formed
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.records import Limits, count_records, open_batches, read_batches
from kproxy.protocol.records.in_place import find_headers
from kproxy.session import Exchange, Frame
from kproxy.session.exchanges import peeked

MIB = 1 << 20
LIMITS = Limits(decompressed=4 * MIB, total=4 * MIB)  # for one records field
MOST_READ = 4 * MIB  # compressed bytes of records read from one request or response
MOST_RECORDS = 4_096  # records with a context read from one request or response

TRACEPARENT, B3 = b"traceparent", b"b3"
B3_TRACE, B3_SPAN, B3_SAMPLED, B3_FLAGS = b"x-b3-traceid", b"x-b3-spanid", b"x-b3-sampled", b"x-b3-flags"
NAMES = (TRACEPARENT, B3, B3_TRACE, B3_SPAN, B3_SAMPLED, B3_FLAGS)
# version "ff" is invalid; one above 00 may have more behind a dash
W3C = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
SINGLE = re.compile(rb"([0-9a-f]{16}|[0-9a-f]{32})-([0-9a-f]{16})(?:-([01d]))?(?:-[0-9a-f]{16})?")
TRACE_ID = re.compile(rb"[0-9a-f]{16}|[0-9a-f]{32}")
SPAN_ID = re.compile(rb"[0-9a-f]{16}")
SAMPLED_VALUES = {b"1": True, b"d": True, b"true": True, b"0": False, b"false": False}


class TraceContext(Struct, frozen=True):
    """The identity of another program's span."""

    trace_id: bytes  # 16 bytes, not all 0
    span_id: bytes  # 8 bytes, not all 0
    sampled: bool | None  # None: the sender leaves the decision to others (B3)


def read_context(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    """Return the context in the headers of a record (names in lower case); traceparent wins over b3, and b3 over X-B3-…."""
    return _of_w3c(headers.get(TRACEPARENT)) or _of_single(headers.get(B3)) or _of_several(headers)


def find_contexts(fields: Iterable[bytes]) -> list[TraceContext]:
    """Return the distinct contexts in records fields, in their order. Bounded by the constants above; never raises."""
    distinct: dict[tuple[bytes, bytes], TraceContext] = {}
    left, records = MOST_READ, MOST_RECORDS
    for data in fields:
        left -= len(data)
        if left < 0 or records <= 0:
            break
        for opened in open_batches(read_batches(data), LIMITS):
            headers = [] if opened.batch.magic < 2 else find_headers(opened, NAMES, records)
            records -= len(headers)
            for context in filter(None, map(read_context, headers)):
                distinct.setdefault((context.trace_id, context.span_id), context)
    return list(distinct.values())


def _of_w3c(value: bytes | None) -> TraceContext | None:
    match = None if value is None else W3C.fullmatch(value.strip(b" \t"))
    if match is None or (match[5] is not None and match[1] == b"00"):
        return None
    return _made(match[2], match[3], bool(int(match[4], 16) & 1))


def _of_single(value: bytes | None) -> TraceContext | None:
    match = None if value is None else SINGLE.fullmatch(value.strip(b" \t").lower())
    return None if match is None else _made(match[1], match[2], None if match[3] is None else SAMPLED_VALUES[match[3]])


def _of_several(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    trace_id, span_id = headers.get(B3_TRACE, b"").lower(), headers.get(B3_SPAN, b"").lower()
    if not TRACE_ID.fullmatch(trace_id) or not SPAN_ID.fullmatch(span_id):
        return None
    debug = headers.get(B3_FLAGS) == b"1"
    return _made(trace_id, span_id, True if debug else SAMPLED_VALUES.get(headers.get(B3_SAMPLED, b"").lower()))


def _made(trace_id: bytes, span_id: bytes, sampled: bool | None) -> TraceContext | None:
    trace, span = bytes.fromhex(trace_id.decode().rjust(32, "0")), bytes.fromhex(span_id.decode())
    return TraceContext(trace, span, sampled) if any(trace) and any(span) else None


MOST_LINKS = 128  # of a span: the default limit of the specification
LONGEST = 255  # characters of a value
LARGEST = 16 << 20  # bytes of a body that is read for its topics
MOST_ERRORS = 5  # named in the status
OPERATIONS = {
    ApiKey.PRODUCE: "send",
    ApiKey.FETCH: "receive",
    ApiKey.SHARE_FETCH: "receive",
    ApiKey.OFFSET_COMMIT: "settle",
    ApiKey.TXN_OFFSET_COMMIT: "settle",
    ApiKey.SHARE_ACKNOWLEDGE: "settle",
}
_TOPICS = ("topic_data", "responses", "topics")  # the names that different messages use
_PARTITIONS = ("partition_data", "partition_responses", "partitions")
_NAMES = ("name", "topic", "topic_name")
_NUMBERS = ("index", "partition", "partition_index")
NAME_THE_CLUSTER = frozenset((ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER))  # APIs whose responses have its id
_RESPONSES_WITH_RECORDS = (ApiKey.FETCH, ApiKey.SHARE_FETCH)

Value = str | int | float


class Span(Struct):
    """A span of OpenTelemetry; times are in nanoseconds since the epoch."""

    trace_id: bytes
    span_id: bytes
    name: str
    start: int
    end: int
    parent: TraceContext | None = None
    links: Sequence[TraceContext] = ()
    links_dropped: int = 0
    attributes: dict[str, Value] = field(default_factory=dict)
    events: list[tuple[str, int]] = field(default_factory=list)
    error: str | None = None  # for the status; None: no error


class Contents(Struct):
    """The topics, partitions and records in an exchange."""

    topics: set[str] = field(default_factory=set)
    partitions: set[tuple[str, int]] = field(default_factory=set)
    records: list[bytes] = field(default_factory=list)  # records fields


def produced(exchange: Exchange) -> Contents:
    """Return what a Produce request holds; nothing if it is cut."""
    return _contents(_body(exchange.request), exchange)


def span_of(
    exchange: Exchange,
    bodies: Bodies | None,
    *,
    trace_id: bytes,
    span_id: bytes,
    contents: Contents | None = None,
    contexts: Sequence[TraceContext] = (),
    cluster_id: str | None = None,
) -> Span:
    """Return the span of an exchange whose request was seen.

    Args:
        exchange: the exchange.
        bodies: its bodies, if they were already read for another output.
        trace_id, span_id: ids for the new span; the ids of a parent are in *contexts*.
        contents, contexts: for a Produce request, the results of ``produced`` and ``find_contexts``.
        cluster_id: the result of ``cluster_id_in`` for an earlier response of the cluster.
    """
    request, response = exchange.request, exchange.response
    assert request is not None
    if contents is None:
        contents = _contents_of(exchange)
    if exchange.api_key in _RESPONSES_WITH_RECORDS:
        contexts = find_contexts(contents.records)
    parent = contexts[0] if len(contexts) == 1 and exchange.api_key == ApiKey.PRODUCE else None
    links = () if parent is not None else contexts[:MOST_LINKS]
    topic = next(iter(contents.topics)) if len(contents.topics) == 1 else None
    api = exchange.api_name or "unknown"
    span = Span(
        trace_id,
        span_id,
        api if topic is None else f"{api} {topic}",
        request.started_at,
        max(request.ended_at, request.started_at) if response is None else max(response.ended_at, request.started_at),
        parent=parent,
        links=links,
        links_dropped=0 if parent is not None else len(contexts) - len(links),
        events=_events(request, response),
    )
    _describe(span.attributes, exchange, contents, api, topic)
    if cluster_id is not None:
        span.attributes["messaging.kafka.cluster.id"] = cluster_id
    _note_errors(span, exchange, bodies)
    return span


def cluster_id_in(exchange: Exchange) -> str | None:
    """Return the id of the Kafka cluster from a response of one of NAME_THE_CLUSTER; None if it has none (Metadata before v2)."""
    cluster_id = getattr(_body(exchange.response), "cluster_id", None)
    return shown(cluster_id) if cluster_id else None


def _events(request: Frame, response: Frame | None) -> list[tuple[str, int]]:
    """Return what happened in the exchange, and when. A broker may answer before it has the whole request."""
    times = [("request received", request.ended_at), ("request sent", request.sent_at)]
    if response is not None:
        times += [("response began", response.started_at), ("response sent", response.sent_at)]
    return sorted(((name, at) for name, at in times if at > 0), key=itemgetter(1))


def _describe(
    attributes: dict[str, Value], exchange: Exchange, contents: Contents, api: str, topic: str | None
) -> None:
    request, response = exchange.request, exchange.response
    assert request is not None
    attributes["messaging.system"] = "kafka"
    attributes["messaging.operation.name"] = api
    operation = OPERATIONS.get(ApiKey(exchange.api_key)) if exchange.api_key in OPERATIONS else None
    if operation is not None:
        attributes["messaging.operation.type"] = operation
    if topic is not None:
        attributes["messaging.destination.name"] = topic
    if len(contents.partitions) == 1:
        attributes["messaging.destination.partition.id"] = str(next(iter(contents.partitions))[1])
    if contents.records:
        count = sum(map(count_records, contents.records))
        attributes["messaging.batch.message_count"] = count
        if count == 1 and (offset := _offset(exchange, contents)) is not None:
            attributes["messaging.kafka.offset"] = offset
    if (group := _group(exchange)) is not None:
        attributes["messaging.consumer.group.name"] = group
    if exchange.client_id:
        attributes["messaging.client.id"] = shown(exchange.client_id)
    _describe_peers(attributes, exchange)
    for name, value in (
        ("kproxy.cluster", exchange.connection.cluster or None),
        ("kproxy.api_key", exchange.api_key),
        ("kproxy.api_version", exchange.api_version),
        ("kproxy.correlation_id", exchange.correlation_id),
        ("kproxy.request_bytes", request.wire_size),
        ("kproxy.response_bytes", None if response is None else response.wire_size),
        ("kproxy.throttle_time_ms", (peeked(response, "throttle_time_ms") if response is not None else 0) or None),
        ("kproxy.acks", peeked(request, "acks") if exchange.api_key == ApiKey.PRODUCE else None),
        ("kproxy.request_in_proxy_ms", exchange.request_in_proxy_ms),
        ("kproxy.broker_ms", exchange.broker_ms),
        ("kproxy.response_in_proxy_ms", exchange.response_in_proxy_ms),
    ):
        if value is not None:
            attributes[name] = value


def _describe_peers(attributes: dict[str, Value], exchange: Exchange) -> None:
    peer = exchange.connection
    for address, names in (
        (peer.broker, ("server.address", "server.port", "network.peer.address", "network.peer.port")),
        (peer.client, ("client.address", "client.port")),
    ):
        host, colon, port = address.rpartition(":")
        if colon and port.isdecimal():
            host = host.removeprefix("[").removesuffix("]")
            attributes.update(zip(names, (host, int(port), host, int(port)), strict=False))
    if peer.client_software_name:
        version = peer.client_software_version
        software = f"{peer.client_software_name}/{version}" if version else peer.client_software_name
        attributes["user_agent.original"] = shown(software)


def _note_errors(span: Span, exchange: Exchange, bodies: Bodies | None) -> None:
    if exchange.unanswered is not None:
        span.attributes["error.type"] = "unanswered"
        span.error = exchange.unanswered[:LONGEST]
        return
    counts = _errors(exchange.response, bodies)
    if counts:
        names = {error_name(code): count for code, count in counts.items()}
        span.attributes["error.type"] = next(iter(names))
        texts = [name if count == 1 else f"{name} ({count} times)" for name, count in names.items()]
        span.error = ", ".join(texts[:MOST_ERRORS]) + (
            f" and {len(texts) - MOST_ERRORS} others" * (len(texts) > MOST_ERRORS)
        )


def _errors(response: Frame | None, bodies: Bodies | None) -> Counter[int]:
    if bodies is not None and bodies.response is not None:
        return count_errors(bodies.response)
    if response is None or response.message is None or response.error is not None or response.cut:
        return Counter()
    try:
        return count_errors(response.to_json())
    except DecodeError:
        return Counter()


def _contents_of(exchange: Exchange) -> Contents:
    """Return what a Fetch received; for any other API, what the request names."""
    if exchange.api_key == ApiKey.PRODUCE:
        return produced(exchange)
    if exchange.api_key in _RESPONSES_WITH_RECORDS:
        answered = _contents(_body(exchange.response), exchange, only_with_records=True)
        if answered.records:
            return answered
    return _contents(_body(exchange.request), exchange)


def _body(frame: Frame | None) -> Any:
    return None if frame is None or frame.cut or len(frame.data) > LARGEST else frame.body()


def _contents(body: Any, exchange: Exchange, *, only_with_records: bool = False) -> Contents:
    contents = Contents()
    for topic in _list(body, _TOPICS):
        name = _topic_name(topic, exchange)
        if name is None:
            continue
        partitions = _list(topic, _PARTITIONS)
        records = [data for partition in partitions if (data := getattr(partition, "records", None))]
        contents.records += records
        if only_with_records and not records:
            continue
        contents.topics.add(name)
        for partition in partitions:
            number = partition if isinstance(partition, int) else _first(partition, _NUMBERS)
            if isinstance(number, int) and (not only_with_records or getattr(partition, "records", None)):
                contents.partitions.add((name, number))
    return contents


def _list(value: Any, names: Iterable[str]) -> Sequence[Any]:
    elements = _first(value, names)
    return elements if isinstance(elements, list) else ()


def _first(value: Any, names: Iterable[str]) -> Any:
    """Return the first of these attributes that exists and is not empty."""
    return next((attribute for name in names if (attribute := getattr(value, name, None)) not in (None, "", [])), None)


def _topic_name(topic: Any, exchange: Exchange) -> str | None:
    name = topic if isinstance(topic, str) else _first(topic, _NAMES)
    if name is None:
        topic_id = getattr(topic, "topic_id", ZERO_UUID)
        name = None if topic_id == ZERO_UUID else exchange.topic_names.get(topic_id, topic_id)
    return shown(name) if isinstance(name, str) else None


def _group(exchange: Exchange) -> str | None:
    """Return the group that a request names, if it names exactly one."""
    if exchange.api_key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS):
        return None
    body = _body(exchange.request)
    group = getattr(body, "group_id", None)
    if not group:
        groups = _list(body, ("groups", "groups_names", "group_ids"))
        group = (
            (groups[0] if isinstance(groups[0], str) else getattr(groups[0], "group_id", None))
            if len(groups) == 1
            else None
        )
    return shown(group) if isinstance(group, str) and group else None


def _offset(exchange: Exchange, contents: Contents) -> int | None:
    """Return the offset of a single record, as the broker assigned it (Produce) or as it was fetched."""
    if exchange.api_key == ApiKey.PRODUCE:
        topics = _list(_body(exchange.response), _TOPICS)
        answers = [partition for topic in topics for partition in _list(topic, _PARTITIONS)]
        offset = answers[0].base_offset if len(answers) == 1 and answers[0].error_code == 0 else -1
        return offset if offset >= 0 else None
    batches = [batch for data in contents.records for batch in read_batches(data)]
    return batches[0].base_offset if len(batches) == 1 else None


def shown(text: str) -> str:
    """Return text from a peer as OTLP can carry it: valid UTF-8, not too long."""
    return well_formed(text)[:LONGEST]


SAMPLED, HAS_IS_REMOTE, IS_REMOTE = 0x1, 0x100, 0x200  # SpanFlags of trace.proto


def encode_span(span: Span) -> bytes:
    """Encode a span as a ScopeSpans message. Several of them concatenated are one valid message with all spans."""
    scope = ScopeSpans()
    encoded = scope.spans.add(
        trace_id=span.trace_id,
        span_id=span.span_id,
        flags=SAMPLED | HAS_IS_REMOTE,
        name=span.name,
        kind=OtlpSpan.SPAN_KIND_CLIENT,
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        dropped_links_count=span.links_dropped,
    )
    if span.parent is not None:
        encoded.parent_span_id = span.parent.span_id
        encoded.flags |= IS_REMOTE
    for context in span.links:
        flags = HAS_IS_REMOTE | IS_REMOTE | (SAMPLED if context.sampled else 0)
        encoded.links.add(trace_id=context.trace_id, span_id=context.span_id, flags=flags)
    for name, value in span.attributes.items():
        attribute = encoded.attributes.add(key=name).value
        if isinstance(value, str):
            attribute.string_value = value
        elif isinstance(value, float):
            attribute.double_value = value
        else:
            attribute.int_value = value
    for name, at in span.events:
        encoded.events.add(name=name, time_unix_nano=at)
    if span.error is not None:
        encoded.status.code = Status.STATUS_CODE_ERROR
        encoded.status.message = span.error
    encoded_scope: bytes = scope.SerializeToString()
    return encoded_scope


def request_of(service_name: str) -> Callable[[Iterable[bytes]], bytes]:
    """Return a function that makes an ExportTraceServiceRequest from encoded spans."""
    resource = ResourceSpans()
    for name, value in (("service.name", service_name), ("service.version", __version__)):
        resource.resource.attributes.add(key=name).value.string_value = value
    resource.scope_spans.add().scope.name = "kproxy"
    resource.scope_spans[0].scope.version = __version__

    def request(spans: Iterable[bytes]) -> bytes:
        export = ExportTraceServiceRequest()
        export.resource_spans.add().CopyFrom(resource)
        export.resource_spans[0].scope_spans[0].MergeFromString(b"".join(spans))
        body: bytes = export.SerializeToString()
        return body

    return request
