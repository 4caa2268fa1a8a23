"""The line of an exchange: its numbers, times and texts against Python's own json, datetime and decimal."""

import json
import re
from datetime import datetime
from decimal import Decimal

import pytest

from kproxy.output.bodies import Bodies
from kproxy.output.exchange_line import exchange_line, has_errors
from kproxy.output.from_jsonl import LogReader
from kproxy.session import Exchange, Frame
from tests.support.traffic import CONNECTION

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
