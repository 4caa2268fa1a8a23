"""SpanOutput: which exchanges become spans, and in which trace."""

import random
from struct import pack

import pytest

from kproxy.output.spans import Span
from kproxy.pipeline.span_output import LEARN_AGAIN_NS, SpanOutput
from kproxy.session import Exchange, Gap
from tests.support.conversation import (
    PARENT,
    SPAN,
    TRACE,
    broker,
    client,
    events_of,
    fetch_exchange,
    produce_exchange,
    records_of,
)
from tests.support.frames import heartbeat, heartbeat_answer, request, response

UNSAMPLED = f"00-{TRACE}-{SPAN}-00".encode()
UNDECIDED = f"{TRACE}-{SPAN}".encode()  # b3


def spans(*exchanges: Exchange, sample: float = 1.0, api_keys: set[int] | None = None, seed: int = 1) -> list[Span]:
    made: list[Span] = []
    output = SpanOutput(made.append, sample=sample, api_keys=api_keys, bits=random.Random(seed).getrandbits)
    for exchange in exchanges:
        output.write(exchange, None)
    return made


def beat() -> Exchange:
    events = events_of(client >> heartbeat(7), broker >> heartbeat_answer(7))
    [exchange] = [event for event in events if isinstance(event, Exchange)]
    return exchange


def described(cluster: str, cluster_id: str, at: int) -> Exchange:
    """DescribeCluster v0 on a connection of that cluster."""
    asked = client >> request(60, 0, 8, b"\0\0", tags=b"\0")
    body = (
        b"\0" * 7 + bytes([len(cluster_id) + 1]) + cluster_id.encode() + pack(">i", 1) + b"\1" + pack(">i", 0) + b"\0"
    )
    events = events_of(asked, broker >> response(8, body, tags=b"\0"))
    [exchange] = [event for event in events if isinstance(event, Exchange)]
    assert exchange.undecoded is None
    exchange.connection.cluster, exchange.at = cluster, at
    return exchange


def test_the_id_of_a_cluster_is_learned_from_its_responses_whatever_is_sampled_and_learned_again() -> None:
    one, other = beat(), beat()
    one.connection.cluster, other.connection.cluster = "one", "other"
    made = spans(
        one,
        described("one", "first", 0),
        one,
        other,
        described("other", "second", 0),
        described("one", "too soon", LEARN_AGAIN_NS - 1),
        one,
        other,
        described("one", "moved", LEARN_AGAIN_NS),
        one,
        api_keys={12},
    )
    found = [span.attributes.get("messaging.kafka.cluster.id") for span in made]
    assert found == [None, "first", None, "first", "second", "moved"]


@pytest.mark.parametrize("sample", [0.0, 1.0])
def test_a_sampled_trace_is_followed_and_one_that_is_not_is_left(sample: float) -> None:
    [span] = spans(produce_exchange(records_of([("traceparent", PARENT)])), sample=sample)
    assert span.trace_id == bytes.fromhex(TRACE)
    assert span.parent is not None
    assert span.parent.span_id == bytes.fromhex(SPAN)
    assert spans(produce_exchange(records_of([("traceparent", UNSAMPLED)])), sample=sample) == []


def test_of_several_traces_one_that_is_sampled_is_enough() -> None:
    other = ("traceparent", f"00-{'1' * 32}-{SPAN}-00".encode())
    [span] = spans(produce_exchange(records_of([other], [("traceparent", PARENT)])), sample=0)
    assert span.parent is None
    assert [link.trace_id.hex() for link in span.links] == ["1" * 32, TRACE]
    assert span.trace_id.hex() not in (TRACE, "1" * 32)
    assert spans(produce_exchange(records_of([other], [("traceparent", UNSAMPLED)])), sample=1) == []


def test_an_undecided_trace_is_decided_by_its_id() -> None:
    """As the sampler TraceIdRatioBased of OpenTelemetry's SDKs: by the lower 64 bits."""
    share = int(TRACE[16:], 16) / 2**64
    exchange = produce_exchange(records_of([("b3", UNDECIDED)]))
    assert len(spans(exchange, sample=share + 0.01)) == 1
    assert len(spans(exchange, sample=share - 0.01)) == 0


@pytest.mark.parametrize("exchange", [beat(), produce_exchange(records_of([])), fetch_exchange(b"")])
def test_without_a_trace_the_share_decides(exchange: Exchange) -> None:
    found = spans(*[exchange] * 2_000, sample=0.25)
    assert 400 < len(found) < 600
    assert len({span.trace_id for span in found}) == len({span.span_id for span in found}) == len(found)
    assert spans(*[exchange] * 100, sample=0) == []


def test_only_the_apis_asked_for_become_spans() -> None:
    found = spans(beat(), produce_exchange(records_of([])), fetch_exchange(b""), api_keys={0, 12})
    assert [span.name for span in found] == ["Heartbeat", "Produce orders"]


def test_what_is_no_exchange_or_has_no_request_is_passed_over() -> None:
    made: list[Span] = []
    output = SpanOutput(made.append, sample=1)
    exchange = beat()
    output.write(Gap(exchange.connection, 1), None)
    output.write(exchange.copy(request=None), None)
    output.flush()
    output.close()
    assert made == []
