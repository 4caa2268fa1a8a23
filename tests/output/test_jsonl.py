"""The decoded log: its docstring is the contract, so the docstring is what it is compared with."""

import json
import re
from datetime import datetime
from decimal import Decimal
from struct import pack
from typing import Any

import msgspec
import pytest

from kproxy.output import jsonl
from kproxy.output.bodies import Bodies
from kproxy.output.exchange_line import exchange_line, has_errors
from kproxy.output.from_jsonl import LogReader
from kproxy.output.jsonl import event_line
from kproxy.session import BadFrame, Connection, Direction, Exchange, Frame, Gap, Note, NotKafka, SaslToken
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import CONNECTION, START, golden_exchanges, payloads
from tests.support.frames import heartbeat, heartbeat_answer, produce, response

NAME = re.compile(r"^    (\w+) +(?:\S)", re.MULTILINE)
OTHERS = [
    SaslToken(CONNECTION, START, Direction.REQUEST, 40),
    Gap(CONNECTION, START, Direction.RESPONSE, None, 12),
    BadFrame(CONNECTION, START, Direction.REQUEST, "no request"),
    Note(CONNECTION, START, Direction.RESPONSE, "a second answer"),
    NotKafka(CONNECTION, START, "tls", Direction.REQUEST, "the client speaks TLS"),
]


def documented() -> tuple[list[str], list[str]]:
    """Names in the docstring: of an exchange, and of anything else."""
    text = jsonl.__doc__ or ""
    exchange, _, others = text.partition("Anything else has")
    return NAME.findall(exchange), NAME.findall(others)


def only(*steps: Any) -> dict[str, Any]:
    """The one exchange of a conversation, as its line says it."""
    (line,) = [event_line(event) for event in events_of(*steps)]
    return json.loads(line)  # type: ignore[no-any-return]


def test_an_exchange_has_the_documented_fields_in_the_documented_order() -> None:
    names, _ = documented()
    for _, _, exchange in golden_exchanges():
        assert list(json.loads(exchange_line(exchange))) == names


def test_everything_else_has_its_documented_fields() -> None:
    _, names = documented()
    for event in OTHERS:
        row = json.loads(event_line(event))
        assert list(row)[:5] == ["event", "connection", "client", "broker", "at"]
        assert set(list(row)[5:]) <= set(names)
        assert f'"{row["event"]}": ' in (jsonl.__doc__ or "")
    assert json.loads(event_line(OTHERS[1])) == {
        "event": "gap",
        "connection": 3,
        "client": "10.0.0.5:51234",
        "broker": "10.0.0.9:9092",
        "at": "2025-11-21T09:36:37.151234Z",
        "direction": "response",
        "size": None,
        "skipped": 12,
    }


def test_names_from_the_wire_that_are_no_text_are_written_with_a_mark() -> None:
    connection = Connection(3, CONNECTION.client, CONNECTION.broker)
    connection.sasl_mechanism = "PLAIN\udcff"
    refusal = {"status": "\ud800", "scope": "read"}  # JSON of a broker's token may have an escaped half of a pair
    row = json.loads(event_line(SaslToken(connection, START, Direction.RESPONSE, 40, refusal)))
    assert row["mechanism"] == "PLAIN\ufffd"
    assert row["token"] == {"status": "\ufffd", "scope": "read"}


def test_every_golden_exchange_is_one_line_of_strict_json() -> None:
    for asked, answered, exchange in golden_exchanges():
        line = exchange_line(exchange)
        assert line.endswith(b"}\n")
        assert line.count(b"\n") == 1
        row = msgspec.json.decode(line)
        assert row["apiKey"] == asked["apiKey"]
        assert row["apiVersion"] == asked["version"]
        assert row["correlationId"] == asked["header"]["correlationId"]
        assert row["clientId"] == asked["header"].get("clientId")
        assert row["requestSize"] == len(asked["frameHex"]) // 2
        assert row["responseSize"] == len(answered["frameHex"]) // 2
        assert row["undecoded"] is None
        header = {k: v for k, v in row["requestHeader"].items() if k != "_unknownTaggedFields"}
        assert header == asked["header"]


def test_errors_have_path_code_and_name() -> None:
    row = only(client >> heartbeat(7), broker >> heartbeat_answer(7, 27))
    assert row["errors"] == [{"path": "errorCode", "code": 27, "name": "REBALANCE_IN_PROGRESS"}]
    assert only(client >> heartbeat(7), broker >> heartbeat_answer(7))["errors"] == []


def test_what_is_missing_is_null() -> None:
    row = only(client >> produce(5, acks=0))
    assert (row["response"], row["responseSize"], row["latencyMs"], row["responseAt"]) == (None, None, None, None)
    assert row["expectsResponse"] is False
    assert row["unanswered"] is None
    row = only(client >> heartbeat(7), closing)
    assert row["unanswered"] == "the capture ended before the response"
    assert row["expectsResponse"] is True


def test_what_cannot_be_read_is_null_and_told() -> None:
    row = only(client >> heartbeat(7), broker >> response(7, b"\0"))
    assert row["response"] is None
    assert "HeartbeatResponse v0: errorCode" in row["undecoded"]


def test_hostile_strings_stay_inside_their_line() -> None:
    hostile = 'a"\n\x1b[31m\0\u202e\u2028\\'
    row = only(client >> heartbeat(7, client_id=hostile), broker >> heartbeat_answer(7))
    assert row["clientId"] == hostile
    assert row["requestHeader"]["clientId"] == hostile


def test_a_client_id_that_is_no_utf_8_is_the_same_everywhere() -> None:
    frame = heartbeat(7, client_id="abc").replace(b"abc", b"a\x80c")
    row = only(client >> frame, broker >> heartbeat_answer(7))
    assert row["clientId"] == row["requestHeader"]["clientId"] == "a\ufffdc"


def test_what_is_inside_payloads_is_embedded() -> None:
    line = next(line for line in payloads("carrier") if line["message"] == "SyncGroupRequest" and line["version"] == 5)
    frame = pack(">hhih", 14, 5, 7, 3) + b"app\0" + bytes.fromhex(line["hex"])
    (exchange,) = events_of(client >> pack(">i", len(frame)) + frame, closing)
    embedded = json.loads(event_line(exchange))["embedded"]
    assert embedded == [one | {"in": "request"} for one in line["embedded"]]


LAST = 2**63 - 1  # in the year 2262


def line(asked: int, answered: int, client_id: str | None = "app") -> bytes:
    """The line of an exchange with frames of those times."""
    exchange = Exchange(CONNECTION, answered, 12, 4, 7, client_id, Frame(b"12345678", asked, asked))
    exchange.response = Frame(b"1234", answered, answered)
    return exchange_line(exchange, Bodies(request=b"{}", response=b"{}"))


@pytest.mark.parametrize("at", [0, 1, 999, 1000, 10**9 - 1, 1_763_717_791_151_234_000, 1_763_717_791_000_000_789, LAST])
def test_times_are_those_of_datetime(at: int) -> None:
    told = json.loads(line(at, at))["requestAt"]
    seconds, fraction = re.fullmatch(r"(.{19})\.(\d{6}|\d{9})Z", told).groups()  # type: ignore[union-attr]
    assert int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0")) == at
    assert len(fraction) == (9 if at % 1000 else 6)


def test_a_second_before_1970_is_the_first() -> None:
    assert json.loads(line(-1, -1))["requestAt"] == "1970-01-01T00:00:00.999999999Z"


@pytest.mark.parametrize("latency", [0, 1, -1, 400_000, -400_000, 999_999, 10**6, 12_345_678_901, 10**16, -(10**17)])
def test_latency_is_in_milliseconds_to_the_nanosecond(latency: int) -> None:
    told = json.loads(line(10**18, 10**18 + latency), parse_float=Decimal)["latencyMs"]
    assert told == Decimal(latency) / 10**6
    assert told.as_tuple().exponent == -6


@pytest.mark.parametrize(
    ("asked_sent", "answered_sent", "told"),
    [
        (0, 0, (None, None, None)),
        (1_020_000, 5_000_000, ("0.020000", "1.980000", "2.000000")),
        (1_000_001, 3_000_000, ("0.000001", "1.999999", "0.000000")),
        (1_020_000, 0, ("0.020000", "1.980000", None)),  # the client had not taken it
        (3_500_000, 4_000_000, ("2.500000", "0.000000", "1.000000")),  # answered before it was whole
        (0, 4_000_000, (None, None, "1.000000")),
    ],
)
def test_phases_are_in_milliseconds_and_read_again(
    asked_sent: int, answered_sent: int, told: tuple[str | None, ...]
) -> None:
    exchange = Exchange(CONNECTION, 3_000_000, 12, 4, 7, "app", Frame(b"12345678", 1_000_000, 1_000_000))
    exchange.response = Frame(b"1234", 3_000_000, 3_000_000)
    assert exchange.request is not None
    exchange.request.sent_at, exchange.response.sent_at = asked_sent, answered_sent
    line = exchange_line(exchange, Bodies(request=b"{}", response=b"{}"))
    row = json.loads(line, parse_float=str)
    phases = "requestInProxyMs", "brokerMs", "responseInProxyMs"
    assert tuple(row[phase] for phase in phases) == told
    read, bodies = LogReader().read(line)
    assert isinstance(read, Exchange) and bodies is not None
    assert json.loads(exchange_line(read, bodies), parse_float=str) == row
    for one in (exchange, read):
        found = one.request_in_proxy_ms, one.broker_ms, one.response_in_proxy_ms
        assert found == tuple(None if text is None else float(text) for text in told)


@pytest.mark.parametrize("client_id", [None, "", 'a"b\\', "é\n\x1b", "日本", "x" * 300, "bad\udc80byte"])
def test_texts_are_json_and_the_same_every_time(client_id: str | None) -> None:
    expected = client_id and client_id.replace("\udc80", "�")
    for _ in range(2):
        assert json.loads(line(1, 2, client_id))["clientId"] == expected


def test_more_texts_than_are_kept() -> None:
    for number in range(10_000):
        assert json.loads(line(1, 2, f"client-{number}"))["clientId"] == f"client-{number}"


def test_a_line_after_a_large_one_is_whole() -> None:
    large = Bodies(request=b'{"a":"%b"}' % (b"x" * 3_000_000))
    exchange = Exchange(CONNECTION, 1, 12, 4, 7, "app", Frame(b"12345678", 1, 1))
    assert len(json.loads(exchange_line(exchange, large))["request"]["a"]) == 3_000_000
    assert json.loads(line(1, 2))["correlationId"] == 7


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (None, False),
        (b"", False),
        (b'{"errorCode":', False),
        (b'{"errorCode":0}', False),
        (b'{"errorCode":0,"topicErrorCode":-1}', True),
        (b'{"topics":[{"errorCode":0},{"errorCode":27}]}', True),
        (b'{"name":"rrorCode\\":5"}', False),
    ],
)
def test_error_codes_are_seen(response: bytes | None, told: bool) -> None:
    assert has_errors(response) is told
