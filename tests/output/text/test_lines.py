"""One event, one line: what it says, that it fits, that nothing in it moves the cursor."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from kproxy.output.exchange_line import read_bodies, read_json
from kproxy.output.jsonl import event_line
from kproxy.output.text.exchange_words import comments
from kproxy.output.text.lines import TextLines
from kproxy.output.text.styles import ANSI, PLAIN, cut, style_for
from kproxy.output.text.tree import Tree
from kproxy.session import BadFrame, Cut, Direction, Event, Exchange, Gap, Note, NotKafka, SaslToken
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import CONNECTION, START, golden_exchange, golden_exchanges, golden_pairs
from tests.support.frames import heartbeat, heartbeat_answer, response

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
WITH_PLAIN = replace(CONNECTION, sasl_mechanism="PLAIN")


def exchange_of(error_code: int = 0, client_id: str | None = "app") -> Event:
    (event,) = events_of(client >> heartbeat(7, client_id=client_id), broker >> heartbeat_answer(7, error_code))
    return event


def test_a_line_has_time_addresses_latency_api_client_id_and_facts() -> None:
    asked, answered = next(pair for pair in golden_pairs() if pair[0]["message"] == "HeartbeatRequest")
    line = TextLines().render(golden_exchange(asked, answered))
    assert line.startswith("09:36:37.151234  10.0.0.5:51234 → 10.0.0.9:9092  3.10 ms  Heartbeat v0 ")
    assert f"generation {asked['json']['generationId']}" in line


def test_errors_are_told_by_name() -> None:
    assert "  REBALANCE_IN_PROGRESS  group g" in TextLines().render(exchange_of(27))
    assert "REBALANCE" not in TextLines().render(exchange_of())


def test_what_is_unanswered_or_undecoded_says_so() -> None:
    (unanswered,) = events_of(client >> heartbeat(7), closing)
    assert "unanswered: the capture ended before the response" in TextLines().render(unanswered)
    (undecoded,) = events_of(client >> heartbeat(7), broker >> response(7, b"\0"))
    assert "UNDECODED response: HeartbeatResponse v0: errorCode" in TextLines().render(undecoded)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = TextLines(ANSI, width)
    for _, _, exchange in golden_exchanges():
        line = lines.render(exchange)
        assert cell_len(ESCAPE.sub("", line)) <= width
        assert line.count("\x1b[0m") == len(ESCAPE.findall(line)) / 2


def test_a_narrow_terminal_still_shows_what_matters() -> None:
    line = TextLines(PLAIN, 80).render(exchange_of(27))
    assert line.startswith("00:00:00.000 .5:51234→.9:9092    1 µs Heartbeat v0   REBALANCE_IN_PROGRESS app")


def test_a_tiny_terminal_still_names_the_api() -> None:
    assert TextLines(PLAIN, 40).render(exchange_of(27)).startswith("00:00:00    1 µs Heartbeat v0   REBALAN…")


def test_without_a_terminal_there_are_no_escapes_and_nothing_is_cut() -> None:
    for _, _, exchange in golden_exchanges():
        line = TextLines().render(exchange)
        assert line.isprintable(), line


def test_hostile_client_ids_stay_in_their_column() -> None:
    line = TextLines().render(exchange_of(client_id="a\nb\x1b[2J\u202e" + "x" * 3000))
    assert "a\\nb\\x1b[2J\\u202exxx" in line
    assert line.isprintable()
    assert len(line) < 250
    assert "  -  " in TextLines().render(exchange_of(client_id=None))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (SaslToken(CONNECTION, START, Direction.REQUEST, 40), "SASL token from client, 40 B, not shown"),
        (
            SaslToken(WITH_PLAIN, START, Direction.REQUEST, 14, {"username": "a b"}),
            'SASL token from client, 14 B, not shown: PLAIN user "a b"',
        ),
        (
            SaslToken(WITH_PLAIN, START, Direction.RESPONSE, 0, {"success": True}),
            "SASL token from broker, 0 B, not shown: PLAIN → authenticated",
        ),
        (Gap(CONNECTION, START, Direction.RESPONSE, 1500), "gap: 1.5 KB from broker missing in the capture"),
        (Gap(CONNECTION, START, Direction.RESPONSE, None, 7), "an unknown number of bytes from broker missing"),
        (Gap(CONNECTION, START, Direction.RESPONSE, 0, 182), "182 B from broker passed over until the next frame"),
        (Note(CONNECTION, START, Direction.RESPONSE, "a\nb"), "broker: a\\nb"),
        (
            Gap(CONNECTION, START, Direction.RESPONSE, 7, cut=Cut.SNAPLEN),
            "gap: 7 B from broker cut by the capture's snaplen",
        ),
        (
            Gap(CONNECTION, START, Direction.REQUEST, None, 3, 1, Cut.CAPTURE_ENDED),
            "3 B of an unfinished size field from client: the capture ended inside it",
        ),
        (
            Gap(CONNECTION, START, Direction.RESPONSE, 0, 2, 1, Cut.RESET),
            "2 B of an unfinished size field from broker: the connection ended inside it",
        ),
        (BadFrame(CONNECTION, START, Direction.REQUEST, "a\nb"), "bad frame from client: a\\nb"),
        (NotKafka(CONNECTION, START, "tls", Direction.REQUEST, "speaks TLS"), "not Kafka (tls): speaks TLS"),
    ],
)
def test_other_events_are_one_line_too(event: Event, said: str) -> None:
    line = TextLines().render(event)
    assert line.startswith("09:36:37.151234  10.0.0.5:51234 → 10.0.0.9:9092  ")
    assert said in line


def test_columns_stay_straight() -> None:
    lines = TextLines()
    first, second = lines.render(exchange_of()), lines.render(exchange_of(27))
    assert first.index("Heartbeat") == second.index("Heartbeat")
    assert isinstance(exchange_of(), Exchange)


@given(
    st.integers(0, len(golden_pairs()) - 1), st.lists(st.tuples(st.integers(8, 400), st.integers(0, 255)), max_size=6)
)
def test_whatever_is_damaged_each_event_is_one_line_in_every_format(pair: int, damage: list[tuple[int, int]]) -> None:
    """Bytes of a real request and response are overwritten: what comes out is still a line, a JSON object, a tree."""
    asked, answered = golden_pairs()[pair]
    request, answer = bytearray.fromhex(asked["frameHex"]), bytearray.fromhex(answered["frameHex"])
    answer[4:8] = asked["header"]["correlationId"].to_bytes(4, "big", signed=True)
    for position, value in damage:
        for data in (request, answer):
            if position < len(data):
                data[position] = value
    for event in events_of(client >> bytes(request), broker >> bytes(answer), closing):
        assert TextLines().render(event).isprintable()
        line = event_line(event)
        assert isinstance(json.loads(line), dict)
        assert line.count(b"\n") == 1
        if isinstance(event, Exchange):
            assert all(line.isprintable() for line in Tree().render(event))


def test_a_comment_is_the_line_with_single_spaces() -> None:
    """With the response and without it, also where it is remembered from an exchange that said the same."""
    lines = TextLines()
    seen = 0
    for *_, exchange in [*golden_exchanges(), *golden_exchanges()]:
        alone = exchange.copy(response=None)
        on_request, on_response = (comment.decode() for comment in comments(exchange, read_bodies(exchange)))
        assert on_response == " ".join(lines.render(exchange).split())
        assert on_request == " ".join(lines.render(alone, read_json(alone)).split())
        seen += 1
    assert seen > 600


@given(st.text(max_size=40))
def test_a_comment_on_any_client_id_is_the_line_with_single_spaces(client_id: str) -> None:
    lines = TextLines()
    event = next(exchange for *_, exchange in golden_exchanges()).copy(client_id=client_id)
    assert comments(event, read_bodies(event))[1].decode() == " ".join(lines.render(event).split())


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_only_on_a_terminal_that_wants_them() -> None:
    assert style_for(Terminal(), {}) is ANSI
    assert style_for(io.StringIO(), {}) is PLAIN
    assert style_for(Terminal(), {"NO_COLOR": "1"}) is PLAIN
    assert style_for(Terminal(), {"TERM": "dumb"}) is PLAIN


def test_painting_wraps_text_and_leaves_nothing_open() -> None:
    assert ANSI.paint(ANSI.error, "x") == "\x1b[1;31mx\x1b[0m"
    assert ANSI.paint(ANSI.error, "") == ""
    assert PLAIN.paint(PLAIN.error, "x") == "x"


def test_cutting_counts_cells() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdef", 4) == "abc…"
    assert cut("注文注文", 8) == "注文注文"  # two cells each (Unicode standard annex 11)
    assert cut("注文注文", 6) == "注文…"
    assert cut("abc", 0) == ""
