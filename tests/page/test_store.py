"""Rows of a store: pages of a view, sorted, anywhere in it."""

import re
from collections.abc import Iterator

import pytest

from kproxy.errors import UsageError
from kproxy.output.where import CHEAP, OF_LINE
from kproxy.page.columns import ADDED, COLUMNS, CONTRACT, SHOWN
from kproxy.page.recorded import Recorded
from kproxy.page.work import Cancelled, Work
from tests.page.asking import ORDERS, opened


@pytest.fixture(scope="module")
def store() -> Iterator[Recorded]:
    with opened(ORDERS) as found:
        yield found


@pytest.mark.parametrize(
    "sort", ["latencyMs", "-latencyMs", "apiName", "-requestAt", "responseSize", "number", "-number"]
)
def test_pages_together_are_the_view_in_its_order(store: Recorded, sort: str) -> None:
    name = sort.removeprefix("-")
    every = store.page(Work(), limit=500, columns=["number", name])
    known = [row for row in every.rows if row[1] is not None]
    key = (lambda row: int(row[1])) if name == "requestAt" else (lambda row: row[1])
    known.sort(key=key, reverse=sort.startswith("-"))
    expected = [row[1] for row in known] + [None] * (len(every.rows) - len(known))
    pages = [store.page(Work(), "", sort, offset, 7, ["number", name]) for offset in range(0, every.total, 7)]
    assert [row[1] for page in pages for row in page.rows] == expected
    assert sorted(number for page in pages for number in page.numbers) == every.numbers


@pytest.mark.parametrize("sort", ["number", "-number", "-latencyMs"])
def test_where_an_exchange_is_in_a_view(store: Recorded, sort: str) -> None:
    numbers = store.page(Work(), "", sort, limit=500).numbers
    index = store.index(Work(), "", sort)
    assert [index.offset_of(number) for number in numbers] == list(range(len(numbers)))
    assert index.offset_of(1_000_000) is None


def test_an_answer_has_at_most_500_rows_and_none_behind_the_end(store: Recorded) -> None:
    assert store.page(Work(), offset=1_000_000).rows == []
    assert len(store.page(Work(), limit=10**9).rows) == min(500, store.exchanges)


def test_a_column_that_there_is_not(store: Recorded) -> None:
    for asked in ({"sort": "number; DROP TABLE exchanges"}, {"columns": ["nonsense"]}, {"sort": "-"}):
        with pytest.raises(UsageError, match="there is no column"):
            store.page(Work(), **asked)  # type: ignore[arg-type]


def test_times(store: Recorded) -> None:
    rows = store.page(Work(), limit=500, columns=["requestAt", "responseAt"]).rows
    assert store.times() == (min(int(row[0]) for row in rows if row[0]), max(int(row[1] or row[0]) for row in rows))


def test_a_filter_on_bodies_that_was_given_up_goes_on_where_it_was(
    store: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = "size(request) >= 0 && correlationId >= 0"
    expected = store.page(Work(), condition, limit=500).numbers
    asked = "size(request) >= 0 && correlationId >= -1"  # the same, and not known yet
    monkeypatch.setattr("kproxy.page.filtering.filter.LINES", 5)
    looked_at: list[int] = []
    lines = store.lines

    def counted(numbers: list[int], names: list[str]) -> Iterator[bytes]:
        if len(looked_at) == 10:
            work.cancel("this takes too long")
        looked_at.extend(numbers)
        return lines(numbers, names)

    monkeypatch.setattr(store, "lines", counted)
    work = Work()
    with pytest.raises(Cancelled, match="this takes too long: ") as ended:
        store.page(work, asked)
    told = re.search(rf"(\d+) of the {len(expected)} exchanges whose bodies it needs were read", str(ended.value))
    assert told is not None and int(told[1]) in (0, 5, 10), "what was asked last may have been given up"
    del looked_at[int(told[1]) :]
    work = Work()
    monkeypatch.setattr(store, "lines", lambda numbers, names: looked_at.extend(numbers) or lines(numbers, names))
    assert store.page(work, asked, limit=500).numbers == expected
    assert sorted(looked_at) == expected, "each was looked at once"


def test_a_filter_that_takes_long_holds_up_no_other_one(store: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes minutes for an export of many exchanges; who asks for the same one waits for its answer."""
    bodies, lines, others = "response != null && apiKey == 3", store.lines, list[int]()

    def lines_of(numbers: list[int], names: list[str]) -> Iterator[bytes]:
        others.append(store.page(Work(), "apiKey == 18").total)
        with pytest.raises(Cancelled, match="this filter is evaluated already"):
            store.page(Work(0.01), bodies)
        (gone := Work()).cancel()
        with pytest.raises(Cancelled, match="disconnected"):
            store.page(gone, bodies)
        return lines(numbers, names)

    expected = store.page(Work(), f"{bodies} && true").total
    monkeypatch.setattr(store, "lines", lines_of)
    assert store.page(Work(), bodies).total == expected > 0
    assert others == [store.page(Work(), "apiKey == 18").total] != [0]


def test_views_that_are_kept_are_bounded_in_bytes(store: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    store._indexes.clear()
    monkeypatch.setattr("kproxy.page.store.MOST_INDEX_BYTES", 20 * store.exchanges)
    sorts = ("latencyMs", "-latencyMs", "apiName", "-requestAt", "responseSize")
    pages = [store.page(Work(), "", sort, limit=500).numbers for sort in sorts for _ in range(2)]
    assert pages[::2] == pages[1::2]
    sizes = [index.numbers.nbytes for index in store._indexes.values()]
    assert len(sizes) == 2 and sum(sizes) <= 20 * store.exchanges


def test_what_is_said_to_be_in_the_decoded_log_is_there() -> None:
    assert {name for name, column in COLUMNS.items() if column.in_log} <= {*CHEAP, *OF_LINE}
    assert set(CHEAP) - set(COLUMNS) == {"event", "trailing"}


def test_each_is_made_of_a_column_that_exists() -> None:
    for column in COLUMNS.values():
        assert column.sql.removeprefix("e.") in {*CONTRACT, *ADDED}
        assert column.meaning
    assert "number" in SHOWN
