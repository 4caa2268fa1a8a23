"""What a span says of an exchange: the exchange's own words, under the names of the semantic conventions."""

import pytest

from kproxy.output.spans import MOST_LINKS, produced, shown, span_of
from kproxy.output.trace_context import TraceContext, find_contexts
from kproxy.session import Exchange
from tests.support.conversation import broker, client, closing, events_of
from tests.support.frames import heartbeat, heartbeat_answer
from tests.support.traced import PARENT, SPAN, TRACE, fetch_exchange, produce_exchange, records_of

IDS = {"trace_id": b"t" * 16, "span_id": b"s" * 8}
MS = 1_000_000
CONTEXT = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), True)


def test_a_produce_request() -> None:
    exchange = produce_exchange(records_of([("traceparent", PARENT)]))
    brought = produced(exchange)
    span = span_of(exchange, None, **IDS, brought=brought, contexts=find_contexts(brought.records))
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
