"""Filters of the page select the exchanges that ``kproxy decode --where`` shows."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy import read
from kproxy.errors import OptionError
from kproxy.output.where import Where
from kproxy.page.filtering.filter import INSTEAD, Filter, FilterError
from kproxy.page.recorded import Recorded
from kproxy.page.tables import Tabled
from kproxy.page.work import Work
from kproxy.session import Exchange
from tests.page.asking import CAPTURE, opened
from tests.page.test_tables import decoded_tables
from tests.support.command import kproxy
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled

SCRAM = CAPTURES / "06-sasl-scram.pcap"
OTHERS = [CAPTURES / "01-java-produce-consume-group.pcap", CAPTURES / "11-lossy-network.pcap"]


@pytest.fixture(scope="module")
def store() -> Iterator[Recorded]:
    with opened(CAPTURE, *OTHERS) as found:
        yield found


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tabled]:
    with Tabled([decoded_tables(tmp_path_factory.mktemp("filtered") / "tables", "--bodies")]) as found:
        yield found


@cache
def lines_of(store: Recorded) -> dict[int, bytes]:
    return dict(enumerate(store.lines(list(range(1, store.last + 1)), []), 1))


def expected(store: Recorded, condition: str) -> list[int]:
    where = Where(condition)
    return [number for number, line in lines_of(store).items() if where.holds_for(line)]


def selected(store: Any, condition: str) -> list[int]:
    found = store.selected(Work(), condition)
    return list(found.numbers.to_pylist())


COLUMNAR = [
    'apiName == "Fetch"', "latencyMs > 2.0", "latencyMs > 2", 'apiName in ["JoinGroup", "SyncGroup"]', "unanswered != null",
    'clientId.startsWith("cons")',
    'clientId.matches("^c.*[0-9]$")', "apiKey == 3 && latencyMs < 50.0", "requestSize > responseSize",
    "!(apiKey == 1)",
    "!(latencyMs > 1.0) || unanswered != null", 'size(clientId) > 5 && !clientId.contains("x")', "true", "false",
    "size(errors) > 0", "errors.exists(e, e.code == 27)", 'errors.all(e, e.name != "NONE")', "errors == []", "trailing == null",
    'event == "exchange"', "expectsResponse", "!expectsResponse", "requestSize + responseSize > 500", "apiVersion * 2 > 9",
    'client.startsWith("127.")', 'broker.endsWith("9092")', "correlationId % 2 == 0", "latencyMs > 1.0 ? apiKey > 2 : apiKey < 2",
    'requestAt > "2026"', 'requestAt.startsWith("20")', "requestAt < responseAt", "connection in [1, 2]", "apiKey == apiVersion",
    "undecoded == null", "layout == null", "string(apiKey) == '3'", "apiVersion > 5 || latencyMs > 1.0", "has(trailing.request)",
    "bodies == null",
    "[apiKey].exists(k, k == 3)", "at == null", "apiKey > 1 && 5 < apiVersion", 'clientId == null || clientId != ""',
]  # fmt: skip
OF_BODIES = [
    'request.groupId == "orders"', "has(response.errorCode) && response.errorCode != 0", "response.throttleTimeMs >= 0",
    'apiName == "JoinGroup" && request.protocols.exists(p, p.name == "range")', "request == null || apiKey == 3",
]  # fmt: skip
OF_LINES = [
    "size(errors) > 1", "errors.exists(e, e.path.contains('rror'))", "size(embedded) > 0", "requestHeader.clientId == clientId",
    "size(topicNames) >= 0", "missing != null", "errors.exists_one(e, e.code == 27)", "bodies != null && missing.request != null",
]  # fmt: skip


def test_the_same_exchanges_as_decode_shows(store: Recorded, tables: Tabled) -> None:
    """Of tables too. The conditions that are offered for columns that only the table has are filters."""
    for condition in [*COLUMNAR, *OF_BODIES, *OF_LINES, *INSTEAD.values()]:
        numbers = expected(store, condition)
        assert selected(store, condition) == numbers, condition
        if condition in COLUMNAR + OF_BODIES:
            assert selected(tables, condition) == [number for number in numbers if number <= tables.last], condition


@pytest.mark.parametrize(
    ("condition", "column", "word"),
    [
        ("apiKey ==", 10, "ends too early"),
        ("apiKey = 3", 8, "."),
        ("apiKey\n== =", 11, "write =="),
        ("latency > 5.0", 1, "latencyMs"),
        ('true && apikey == 3', 9, "apiKey"),
        ('apiKey == "3"', 1, "cannot be compared"),
        ("size(apiNam) > 2", 6, "apiName"),
        ("apiName.startWith('x')", 9, "startsWith"),
        ("apiKey", 1, "a number, not true or false; write apiKey > 0"),
        ("latencyMs > 2.0 && errors", 20, r"errors is a list of objects, not true or false; write size.errors. > 0"),
        ("true || errorName != null", 9, "cannot name the column errorName; write \"NOT_LEADER"),
        ("number > 3", 1, "cannot name the column number$"),
        ("apiKey == 3 || size(topics) > 'x'", 16, "size.topics. is a number"),
        ("max(requestSize, 3) > 1", 1, "no function 'max'"),
        ("(" * 100 + "true" + ")" * 100, 61, "brackets"),
        ("true || " * 1000 + "true", 4001, "4,000"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(store: Recorded, condition: str, column: int | None, word: str) -> None:
    with pytest.raises(FilterError, match=word) as wrong:
        selected(store, condition)
    assert wrong.value.column == column
    assert condition[:40] not in str(wrong.value) or len(condition) < 8
    assert "\n" not in str(wrong.value)


def test_what_tables_cannot_answer_is_said(tmp_path: Any) -> None:
    with Tabled([decoded_tables(tmp_path / "bare")]) as bare:
        for condition, word in (
            ("request.groupId == 'a'", "--bodies"),
            ("size(errors) > 1", "each error code once"),
            ("apiKey == 3 && size(embedded) > 0", "embedded"),
        ):
            with pytest.raises(FilterError, match=word):
                selected(bare, condition)


OF_ENTITIES = [
    '"orders" in topics', '!("orders" in topics)', '"orders-group" in groups', 'groups.exists(g, g.startsWith("g-"))',
    "topics.exists(t, t.contains('e')) && latencyMs > 1.0", "topics == []", "size(topics) > 1", "groups != [] && apiKey == 11",
    "principal == 'alice'", "principal == null", "principal.startsWith('al') || 'g-range' in groups", "topics[0] == clientId",
    "'orders' in topics && request.acks == -1", "groups.exists(g, g == request.groupId)", "topics.all(t, size(t) > 3)",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("place", sampled([CAPTURE, OTHERS[0], SCRAM], [SCRAM]), ids=lambda path: path.stem[:2])
def test_topics_groups_and_principals_as_decode_has_them(place: Path, tmp_path: Path) -> None:
    """Of a capture, of the log that was made of it, of tables: the same, and what the log's own lines show."""
    log, tables = tmp_path / "a.jsonl", tmp_path / "tables"
    assert kproxy("decode", "-q", "--format", "jsonl", "-o", log, place) == 0
    assert kproxy("decode", "-q", "--format", "parquet", "--bodies", "-o", tables, place) == 0
    lines = [line for line in map(msgspec.json.decode, log.read_bytes().splitlines()) if line["event"] == "exchange"]
    found = {}
    with opened(place) as of_capture, opened(log) as of_log, Tabled([tables]) as of_tables:
        for condition in OF_ENTITIES:
            found[condition] = selected(of_capture, condition)
            shown = [event.correlation_id for event in read(log, where=condition) if isinstance(event, Exchange)]
            assert shown == [lines[number - 1]["correlationId"] for number in found[condition]], condition
            assert selected(of_log, condition) == found[condition]
            assert selected(of_tables, condition) == found[condition], condition
    every = enumerate(lines, 1)
    groups = {
        number: (line["request"] or {}).get("groupId") for number, line in every if line["apiKey"] in (11, 12, 14)
    }
    for group in ("orders-group", "g-range"):
        joined = [number for number, name in groups.items() if name == group]
        of_group = found['"orders-group" in groups'] if group == "orders-group" else None
        assert of_group is None or [number for number in of_group if number in groups] == joined
    login = "principal == 'alice'"
    assert bool(found[login]) == ("sasl" in place.name)
    for number in found[login] and range(1, len(lines) + 1):
        before = [line for line in lines[:number] if line["connection"] == lines[number - 1]["connection"]]
        assert (number in found[login]) == any(line["apiName"] == "SaslAuthenticate" for line in before)


def test_every_filter_that_decode_takes_is_taken() -> None:
    for condition in COLUMNAR + OF_BODIES + OF_LINES + OF_ENTITIES:
        assert Filter(condition).names == set(Where(condition).names)
    for condition in ("", "nonsense == 1", "a &&"):
        with pytest.raises(OptionError):
            Where(condition)
        with pytest.raises(FilterError):
            Filter(condition)


def test_rows_that_come_later_are_selected_too(store: Recorded) -> None:
    from kproxy.page.filtering.worker import Workers  # noqa: PLC0415

    worker, asked = Workers(1), Filter("clientId.contains('o') && latencyMs > 1.0")
    middle = store.last // 2
    try:
        first = asked.select(store, worker, Work(), 0, middle).to_pylist()
        second = asked.select(store, worker, Work(), middle, store.last).to_pylist()
    finally:
        worker.close()
    assert first + second == expected(store, asked.condition)
    assert msgspec.json.decode(lines_of(store)[1])["event"] == "exchange"
