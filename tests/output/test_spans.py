"""What a span says of an exchange: the exchange's own words, under the names of the semantic conventions."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from kproxy.output.spans import (
    MOST_LINKS,
    Span,
    TraceContext,
    encode_span,
    find_contexts,
    produced,
    read_context,
    request_of,
    shown,
    span_of,
)
from kproxy.protocol.records.compression import Codec, compress
from kproxy.session import Exchange
from tests.support.conversation import (
    PARENT,
    SPAN,
    TRACE,
    broker,
    client,
    closing,
    events_of,
    fetch_exchange,
    headers_of,
    produce_exchange,
    records_of,
)
from tests.support.frames import batch, heartbeat, heartbeat_answer, record
from tests.support.otlp import attributes

IDS = {"trace_id": b"t" * 16, "span_id": b"s" * 8}
MS = 1_000_000
CONTEXT = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), True)


def test_a_produce_request() -> None:
    exchange = produce_exchange(records_of([("traceparent", PARENT)]))
    contents = produced(exchange)
    span = span_of(exchange, None, **IDS, contents=contents, contexts=find_contexts(contents.records))
    assert (span.name, span.parent, span.links, span.error) == ("Produce orders", CONTEXT, (), None)
    assert span.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "Produce",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.batch.message_count": 1,
        "messaging.kafka.offset": 41,
        "messaging.client.id": "app",
        "server.address": "10.0.0.9",
        "server.port": 9092,
        "network.peer.address": "10.0.0.9",
        "network.peer.port": 9092,
        "client.address": "10.0.0.5",
        "client.port": 51234,
        "kproxy.api_key": 0,
        "kproxy.api_version": 7,
        "kproxy.correlation_id": 5,
        "kproxy.request_bytes": exchange.request.wire_size if exchange.request else None,
        "kproxy.response_bytes": exchange.response.wire_size if exchange.response else None,
        "kproxy.acks": -1,
    }
    assert (span.start, span.end) == (1_000, 2_000)
    assert span.events == [("request received", 1_000), ("response began", 2_000)]


def test_the_phases_are_those_of_the_exchange_and_its_cluster_is_named() -> None:
    """From the first byte to the last one sent on: 2 ms, of 7 from there on for the broker, 3 for the way back."""
    exchange = produce_exchange(records_of([]))
    assert exchange.request is not None and exchange.response is not None
    exchange.connection.cluster = "payments"
    at = 1_700_000_000_000_000_000
    exchange.request.started_at, exchange.request.ended_at, exchange.request.sent_at = at, at + 1 * MS, at + 2 * MS
    exchange.response.started_at, exchange.response.ended_at = at + 9 * MS, at + 11 * MS
    exchange.response.sent_at = at + 12 * MS
    span = span_of(exchange, None, **IDS, cluster_id="MkU3OEVBNTcwNTJENDM2Qk")
    phases = ("request_in_proxy_ms", "broker_ms", "response_in_proxy_ms")
    assert [span.attributes[f"kproxy.{phase}"] for phase in phases] == [2.0, 7.0, 3.0]
    assert [(name, (when - at) / MS) for name, when in span.events] == [
        ("request received", 1),
        ("request sent", 2),
        ("response began", 9),
        ("response sent", 12),
    ]
    assert span.attributes["kproxy.cluster"] == "payments"
    assert span.attributes["messaging.kafka.cluster.id"] == "MkU3OEVBNTcwNTJENDM2Qk"


def test_of_several_partitions_none_is_named() -> None:
    span = span_of(produce_exchange(records_of([], []), records_of([])), None, **IDS)
    assert "messaging.destination.partition.id" not in span.attributes
    assert "messaging.kafka.offset" not in span.attributes
    assert span.attributes["messaging.batch.message_count"] == 3
    assert span.attributes["messaging.destination.name"] == "orders"


def test_a_fetch_is_linked_to_what_it_brought() -> None:
    span = span_of(fetch_exchange(records_of([("traceparent", PARENT)], [])), None, **IDS)
    assert (span.parent, list(span.links)) == (None, [CONTEXT])
    assert span.attributes["messaging.operation.type"] == "receive"
    assert span.attributes["messaging.destination.partition.id"] == "3"
    assert span.attributes["messaging.batch.message_count"] == 2


def test_a_fetch_that_brought_nothing_is_of_what_was_asked_for() -> None:
    span = span_of(fetch_exchange(b""), None, **IDS)
    assert (span.name, span.attributes["messaging.destination.partition.id"]) == ("Fetch orders", "3")
    assert "messaging.batch.message_count" not in span.attributes


def test_there_are_as_many_links_as_the_specification_allows() -> None:
    parents = [("traceparent", f"00-{number:032x}-{SPAN}-01".encode()) for number in range(1, MOST_LINKS + 11)]
    span = span_of(fetch_exchange(records_of(*([each] for each in parents))), None, **IDS)
    assert (len(span.links), span.links_dropped) == (MOST_LINKS, 10)


def test_an_error_code_is_the_status() -> None:
    span = span_of(produce_exchange(records_of([]), records_of([]), error=6), None, **IDS)
    assert span.attributes["error.type"] == "NOT_LEADER_OR_FOLLOWER"
    assert span.error == "NOT_LEADER_OR_FOLLOWER (2 times)"
    assert "messaging.kafka.offset" not in span.attributes


def test_a_group_is_named() -> None:
    events = events_of(client >> heartbeat(7, "shop"), broker >> heartbeat_answer(7))
    [exchange] = [event for event in events if isinstance(event, Exchange)]
    span = span_of(exchange, None, **IDS)
    assert (span.name, span.attributes["messaging.consumer.group.name"]) == ("Heartbeat", "shop")


def test_a_request_without_its_response_is_an_error_only_where_one_was_due() -> None:
    [exchange] = [event for event in events_of(client >> heartbeat(7), closing) if isinstance(event, Exchange)]
    span = span_of(exchange, None, **IDS)
    assert (span.attributes["error.type"], span.error) == ("unanswered", exchange.unanswered)
    silent = span_of(produce_exchange(records_of([]), acks=0), None, **IDS)
    assert (silent.error, silent.start, silent.end) == (None, 1_000, 1_000)


@pytest.mark.parametrize("name", ["\udc80", "x" * 1_000, "ok"])
def test_names_of_peers_can_be_carried(name: str) -> None:
    assert len(shown(name).encode()) <= 255


PARENT_CONTEXT = TraceContext(b"t" * 16, b"p" * 8, True)
OTHER = TraceContext(b"o" * 16, b"q" * 8, None)


def decoded(*spans: Span) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(request_of("edge")(map(encode_span, spans)))


def test_all_of_a_span_arrives() -> None:
    span = Span(b"t" * 16, b"s" * 8, "Produce orders", 10, 30, parent=PARENT_CONTEXT, links_dropped=2)
    span.attributes = {"messaging.system": "kafka", "server.port": 9092, "kproxy.acks": -1}
    span.events = [("request received", 20)]
    span.error = "NOT_LEADER_OR_FOLLOWER"
    [resource] = decoded(span).resource_spans
    assert attributes(resource.resource)["service.name"] == "edge"
    [scope] = resource.scope_spans
    assert scope.scope.name == "kproxy"
    [found] = scope.spans
    assert (found.trace_id, found.span_id, found.parent_span_id) == (b"t" * 16, b"s" * 8, b"p" * 8)
    assert (found.name, found.kind) == ("Produce orders", OtlpSpan.SPAN_KIND_CLIENT)
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (10, 30)
    assert attributes(found) == span.attributes
    assert [(event.name, event.time_unix_nano) for event in found.events] == span.events
    assert (found.status.code, found.status.message) == (Status.STATUS_CODE_ERROR, "NOT_LEADER_OR_FOLLOWER")
    assert found.dropped_links_count == 2
    assert found.flags == 0x301  # sampled, and the parent is another program's


def test_several_spans_and_their_links_are_one_request() -> None:
    spans = [Span(b"t" * 16, bytes([n]) * 8, f"{n}", n, n, links=[PARENT_CONTEXT, OTHER]) for n in range(1, 4)]
    [resource] = decoded(*spans).resource_spans
    [scope] = resource.scope_spans
    assert [span.name for span in scope.spans] == ["1", "2", "3"]
    for span in scope.spans:
        assert [(link.trace_id, link.span_id, link.flags) for link in span.links] == [
            (b"t" * 16, b"p" * 8, 0x301),
            (b"o" * 16, b"q" * 8, 0x300),
        ]
        assert (span.parent_span_id, span.status.code) == (b"", Status.STATUS_CODE_UNSET)


BYTES = bytes.fromhex(TRACE), bytes.fromhex(SPAN)
SHORT = "00" * 8 + TRACE[16:]


@pytest.mark.parametrize(
    ("value", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"cc-{TRACE}-{SPAN}-01", True),  # a later version
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_traceparent(value: str, sampled: bool) -> None:
    assert read_context({b"traceparent": value.encode()}) == TraceContext(*BYTES, sampled)


@pytest.mark.parametrize(
    "value",
    [
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.what",
        "",
        "00-" + "é" * 32,
    ],
)
def test_what_is_malformed_is_no_context(value: str) -> None:
    assert read_context({b"traceparent": value.encode()}) is None


@pytest.mark.parametrize(
    ("value", "trace", "sampled"),
    [
        (f"{TRACE}-{SPAN}-1", TRACE, True),
        (f"{TRACE}-{SPAN}-d", TRACE, True),
        (f"{TRACE}-{SPAN}-0", TRACE, False),
        (f"{TRACE}-{SPAN}", TRACE, None),
        (f"{TRACE}-{SPAN}-1-05e3ac9a4f6e3b90", TRACE, True),
        (f"{TRACE[16:]}-{SPAN}-1", SHORT, True),
    ],
)
def test_single_b3(value: str, trace: str, sampled: bool | None) -> None:
    assert read_context({b"b3": value.encode()}) == TraceContext(bytes.fromhex(trace), BYTES[1], sampled)


@pytest.mark.parametrize("value", ["0", "1", "d", f"{TRACE}", f"{TRACE}-{SPAN}-2", f"{TRACE}-{SPAN}-1-"])
def test_a_single_b3_without_ids_is_no_context(value: str) -> None:
    assert read_context({b"b3": value.encode()}) is None


def test_b3_in_several_headers() -> None:
    ids = {b"x-b3-traceid": TRACE.encode(), b"x-b3-spanid": SPAN.encode()}
    assert read_context(ids) == TraceContext(*BYTES, None)
    assert read_context({**ids, b"x-b3-sampled": b"1"}) == TraceContext(*BYTES, True)
    assert read_context({**ids, b"x-b3-sampled": b"0"}) == TraceContext(*BYTES, False)
    assert read_context({**ids, b"x-b3-flags": b"1"}) == TraceContext(*BYTES, True)
    assert read_context({b"x-b3-traceid": TRACE.encode()}) is None


def test_traceparent_comes_before_b3() -> None:
    assert read_context({b"traceparent": PARENT, b"b3": f"{SHORT}-{SPAN}-0".encode()}) == TraceContext(*BYTES, True)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_records_are_decompressed(codec: Codec) -> None:
    packed = compress(codec, record(None, b"v", 0, headers_of([("traceparent", PARENT)])))
    assert find_contexts([batch(packed, 1, attributes=int(codec))]) == [TraceContext(*BYTES, True)]


def test_each_context_is_found_once_and_what_is_too_large_is_not_read() -> None:
    other = ("b3", f"{SHORT}-{SPAN}".encode())
    data = records_of([("traceparent", PARENT)], [("traceparent", PARENT)], [other], [])
    assert [context.sampled for context in find_contexts([data, data])] == [True, None]
    bomb = batch(compress(Codec.ZSTD, bytes(64 << 20)), 1, attributes=int(Codec.ZSTD))
    assert len(find_contexts([bomb, data, b"no batch", b""])) == 2
    assert find_contexts([bytes(5 << 20), data]) == []
