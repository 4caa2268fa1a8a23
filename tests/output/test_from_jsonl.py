"""Lines of the decoded log read back: what is shown of them is what is shown of the frames they were made of."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.errors import CaptureError
from kproxy.output.from_jsonl import LINE_ERRORS, MOST_CONNECTIONS, LogReader
from kproxy.output.jsonl import event_line
from kproxy.output.text.lines import TextLines
from kproxy.output.text.tree import Tree
from kproxy.session import (
    BadFrame,
    Cut,
    Direction,
    Event,
    Exchange,
    Gap,
    Note,
    NotKafka,
    SaslToken,
    TlsFacts,
    TlsTraffic,
)
from kproxy.session import Tls as TlsEvent
from kproxy.session.events import Connection
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import CONNECTION, START, golden_exchanges
from tests.support.frames import heartbeat, request, response

OTHERS: list[Event] = [
    SaslToken(CONNECTION, START, Direction.REQUEST, 40, {"username": "alice"}),
    Gap(CONNECTION, START, Direction.RESPONSE, None, 12),
    Gap(CONNECTION, START, Direction.REQUEST, 10, 0),
    Gap(CONNECTION, START, Direction.REQUEST, 0, 2, cut=Cut.RESET),
    BadFrame(CONNECTION, START, Direction.REQUEST, "no request"),
    Note(CONNECTION, START, Direction.RESPONSE, "a second answer"),
    NotKafka(CONNECTION, START, "http", Direction.REQUEST, "the client speaks HTTP"),
]
LINE: dict[str, Any] = {
    **{"event": "exchange", "connection": 1, "client": "10.0.0.5:51234", "broker": "[::1]:9092", "apiKey": 1},
    **{"apiVersion": 13, "correlationId": 7, "clientId": "c", "requestAt": "2025-11-21T09:36:37.151234Z"},
    **{"responseAt": "2025-11-21T09:36:37.154334Z", "requestSize": 90, "responseSize": 100},
}


def shown(event: Event, *rest: Any) -> list[str]:
    """The line and the tree of an event."""
    tree = Tree().render(event, *rest) if isinstance(event, Exchange) else ()
    return [TextLines().render(event, *rest), *tree]


def encode(**changes: Any) -> bytes:
    return json.dumps(LINE | changes, separators=(",", ":")).encode() + b"\n"


def test_every_golden_exchange_is_shown_as_if_it_had_just_been_decoded() -> None:
    count = 0
    for asked, _, exchange in golden_exchanges():
        event, bodies = LogReader().read(event_line(exchange))
        assert isinstance(event, Exchange)
        assert shown(event, bodies) == shown(exchange), (asked["apiKey"], asked["version"])
        assert (event.at, event.correlation_id, event.client_id) == (
            START + 3_100_000,
            asked["header"]["correlationId"],
            asked["header"].get("clientId"),
        )
        assert event_line(event, bodies) == event_line(exchange)
        count += 1
    assert count > 500


@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_everything_else_is_shown_alike(event: Event) -> None:
    read, bodies = LogReader().read(event_line(event))
    assert (type(read), bodies, read.at) == (type(event), None, START)
    assert read.connection.number == 3
    assert shown(read) == shown(event)
    assert event_line(read) == event_line(event)


def test_what_is_known_of_tls_is_known_again() -> None:
    facts = TlsFacts(
        "TLS 1.3", ["TLS 1.3"], "TLS_AES_256_GCM_SHA384", "kafka.test", alerts=["client: fatal unknown_ca"]
    )
    facts.client_hello_at, facts.server_hello_at, facts.established_at = START, START + 5, START + 84_300_123
    facts.requests = TlsTraffic(5, 742, 600, 1, 2)
    event = TlsEvent(Connection(3, "10.0.0.5:51234", "10.0.0.9:9092", tls=facts), START)
    read, _ = LogReader().read(event_line(event))
    assert "TLS 1.3 TLS_AES_256_GCM_SHA384, server name kafka.test" in shown(read)[0]
    assert shown(read) == shown(event)
    assert read.connection.tls is not None and read.connection.tls.requests == TlsTraffic(5, 742, 600, 1, 2)


def test_what_was_unanswered_or_undecoded_stays_so() -> None:
    events = events_of(
        client >> heartbeat(7), client >> request(12, 0, 8, b"\0\5ab"), broker >> response(7, b"\0"), closing
    )
    lines = [event_line(event) for event in events]
    reader = LogReader()
    read = [reader.read(line) for line in lines]
    assert any(event.undecoded for event, _ in read if isinstance(event, Exchange))
    assert any(event.unanswered for event, _ in read if isinstance(event, Exchange))
    assert [shown(event, bodies) for event, bodies in read if bodies] == [
        shown(event) for event in events if isinstance(event, Exchange)
    ]


def test_the_mechanism_of_the_handshake_is_remembered() -> None:
    reader = LogReader()
    reader.read(encode(apiKey=17, apiVersion=1, request={"mechanism": "SCRAM-SHA-256"}))
    inside = [{"path": "authBytes", "in": "request", "kind": "sasl-token", "json": {"username": "alice"}}]
    again = encode(apiKey=36, apiVersion=2, request={"authBytes": "(withheld)"}, embedded=inside)
    assert "SCRAM-SHA-256  user alice" in shown(*reader.read(again))[0]
    assert "SCRAM" not in shown(*LogReader().read(again))[0]


def fetch(epoch: int, *partitions: tuple[int, int], **changes: Any) -> bytes:
    named = [{"partition": p, "fetchOffset": at, "partitionMaxBytes": 1} for p, at in partitions]
    topics = [{"topicId": "ABCDEFGHIJKLMNOPQRSTUg", "partitions": named}] if named else []
    body = {"sessionId": 0 if epoch == 0 else 99, "sessionEpoch": epoch, "topics": topics, "forgottenTopicsData": []}
    return encode(request=body, response={"sessionId": 99, "responses": []}, **changes)


def test_a_fetch_session_is_told_in_full_with_the_names_of_earlier_lines() -> None:
    reader = LogReader()
    reader.read(fetch(0, (0, 10), (1, 20), topicNames={"ABCDEFGHIJKLMNOPQRSTUg": "orders"}))
    reader.read(fetch(1, (1, 25)))
    lines = shown(*reader.read(fetch(2)))
    at = lines.index("  fetch session 99, epoch 2: 2 partitions")
    assert lines[at + 1 : at + 3] == ["  ├─ orders-0 from offset 10", "  └─ orders-1 from offset 25"]


def test_a_fetch_session_of_which_lines_are_missing_says_so() -> None:
    reader = LogReader()
    reader.read(fetch(0, (0, 10), (1, 20)))
    lines = shown(*reader.read(fetch(5, (1, 25))))
    assert "  fetch session 99, epoch 5: 1 partition, and those from before the capture" in lines


def test_lines_that_somebody_rewrote_are_read() -> None:
    line = encode(response={"throttleTimeMs": 0, "errorCode": 70})
    rewritten = json.dumps(dict(sorted(json.loads(line).items())), ensure_ascii=False).encode()
    assert b'"errorCode": 70' in rewritten
    assert shown(*LogReader().read(rewritten)) == shown(*LogReader().read(line))
    assert "FETCH_SESSION_ID_NOT_FOUND" in shown(*LogReader().read(rewritten))[0]


@pytest.mark.parametrize(
    "line",
    [
        b"\0" * 40,
        b"[]",
        b'{"event":"exchange"',
        b'{"event":"exchange","connection":1}',
        b'{"event":"somethingNew","connection":1,"client":"a:1","broker":"b:2"}',
        encode(event=3),
        encode(client="\x1b[31m:1"),
        encode(connection=2**70),
        encode(client="a:1\n"),
        encode(requestAt="yesterday"),
        encode(requestAt="2025-99-21T09:36:37.151234Z"),
        encode(request=[1]),
        encode(apiKey=2**70),
        encode(embedded=[{"path": 1}]),
        encode(clientId="x").replace(b'"x"', b'"\xff"'),
        encode(request={"name": "x"}).replace(b'"x"', b'"\xff"'),
        b'{"event":"exchange","request":' + b"[" * 100_000,
    ],
)
def test_what_is_no_line_is_refused(line: bytes) -> None:
    with pytest.raises(CaptureError, match="no event of a decoded log"):
        LogReader().read(line)


def test_nothing_in_a_line_reaches_the_terminal_as_it_is() -> None:
    bad = "\x1b]0;x\x07\u202e\n"
    line = encode(
        **{"clientId": bad, "layout": bad, "undecoded": bad, "unanswered": bad, "topicNames": {"A" * 22: bad}},
        request={bad: bad, "odd": [None, {bad: bad}], "topics": [{"topicId": "A" * 22, "partitions": []}]},
        embedded=[{"path": bad, "in": "request", "kind": "x", "json": {bad: bad}}],
    )
    assert all(text.isprintable() for text in shown(*LogReader().read(line)))
    others = [{"event": "badFrame", "reason": bad}, {"event": "notKafka", "kind": bad, "what": bad}]
    for fields in others:
        assert shown(*LogReader().read(encode(at=LINE["requestAt"], **fields)))[0].isprintable()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = (
    "apiKey",
    "apiVersion",
    "request",
    "response",
    "embedded",
    "topicNames",
    "layout",
    "requestHeader",
    "requestAt",
)


@settings(max_examples=settings.default.max_examples * 4)
@given(
    st.integers(0, 95),
    st.dictionaries(st.sampled_from(NAMES), ANYTHING),
    st.dictionaries(st.text(max_size=9), ANYTHING),
)
def test_any_json_is_shown_or_refused(api_key: int, changes: dict[str, Any], body: dict[str, Any]) -> None:
    line = encode(**({"apiKey": api_key, "request": body, "response": body} | changes))
    try:
        event, bodies = LogReader().read(line)
    except CaptureError:
        return
    try:
        assert all(text.isprintable() for text in shown(event, bodies))
    except LINE_ERRORS:
        return


def test_a_connection_without_a_broker_yet_is_read() -> None:
    event, _ = LogReader().read(encode(broker=""))
    assert (event.connection.broker, event.connection.client) == ("", "10.0.0.5:51234")


def test_connections_are_forgotten_when_there_are_many() -> None:
    reader = LogReader()
    handshake = {"apiKey": 17, "apiVersion": 1, "request": {"mechanism": "PLAIN"}}
    for number in range(MOST_CONNECTIONS + 1):
        reader.read(encode(connection=number, **handshake))
    ask = {"apiKey": 36, "apiVersion": 2, "request": {"authBytes": "(withheld)"}}
    assert "PLAIN" not in shown(*reader.read(encode(connection=0, **ask)))[0]
    assert "PLAIN" in shown(*reader.read(encode(connection=MOST_CONNECTIONS, **ask)))[0]


def test_headers_are_those_of_the_line() -> None:
    header = {"requestApiKey": 1, "requestApiVersion": 13, "correlationId": 7, "clientId": "c"}
    event, bodies = LogReader().read(encode(requestHeader=header, request={}, response={}))
    assert isinstance(event, Exchange) and event.request is not None and event.request.header is not None
    assert msgspec.json.decode(event.request.header.to_json()) == header
    assert "header: requestApiKey 1 (Fetch)  requestApiVersion 13" in "\n".join(shown(event, bodies))


def test_bodies_are_objects_as_those_of_frames() -> None:
    same = 0
    for _, _, exchange in golden_exchanges():
        line = event_line(exchange)
        event, _ = LogReader().read(line)
        assert isinstance(event, Exchange)
        for logged, body in (
            (event.request_body(), exchange.request_body()),
            (event.response_body(), exchange.response_body()),
        ):
            assert (
                logged is None or logged == body or b"(withheld)" in line
            )  # None: records, and bytes that are withheld
            same += logged is not None
    assert same > 900
