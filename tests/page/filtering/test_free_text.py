"""Free text finds the exchanges that hold it: as many as a search through the lines of the decoded log finds."""

from collections.abc import Iterator

import msgspec
import pytest

from kproxy.page import exporting
from kproxy.page.filtering.filter import Filter, FilterError
from kproxy.page.filtering.free_text import as_cel, searched_texts
from kproxy.page.recorded import Recorded
from kproxy.page.work import Work
from tests.page.asking import opened
from tests.page.test_tables import CAPTURE


@pytest.fixture(scope="module")
def store() -> Iterator[Recorded]:
    with opened(CAPTURE) as made:
        yield made


def holding(store: Recorded, text: str) -> list[int]:
    """The numbers of the exchanges that have a text, by their rows as the page shows them."""
    names = [
        "apiName",
        "clientId",
        "client",
        "broker",
        "topics",
        "groups",
        "errorCodes",
        "principal",
        "unanswered",
        "undecoded",
    ]
    rows = store.page(Work(), limit=500, columns=names).rows
    return [at for at, row in enumerate(rows, 1) if text.lower() in msgspec.json.encode(row).decode().lower()]


@pytest.mark.parametrize(
    "text", ["group", "heartbeat", "MEMBER_ID_REQUIRED", "127.0.0.1", "rebalance", "t-range", "consumer-1", "none"]
)
def test_text_finds_what_holds_it(store: Recorded, text: str) -> None:
    index = store.selected(Work(), text)
    assert index is not None and index.numbers.to_pylist() == holding(store, text)


def test_text_is_joined_to_conditions_and_to_other_text(store: Recorded) -> None:
    for condition, expected in (
        ("heartbeat && latencyMs > 1", 'apiName == "Heartbeat" && latencyMs > 1'),
        ("latencyMs > 1 && heartbeat", 'apiName == "Heartbeat" && latencyMs > 1'),
        ("heartbeat 127.0.0.1", 'apiName == "Heartbeat"'),
        ('"Heartbeat" && (apiKey == 12 || apiKey == 1)', "apiKey == 12"),
    ):
        found, wanted = (store.selected(Work(), one) for one in (condition, expected))
        assert found is not None and wanted is not None
        assert found.numbers.to_pylist() == wanted.numbers.to_pylist() != []


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        ("orders", ["orders"]),
        ("client-a b", ["client-a", "b"]),
        ("latencyMss", ["latencyMss"]),
        ('"a b" && apiKey == 1', ["a b"]),
        ("expectsResponse", []),
        ('apiName = "Fetch"', []),
        ("orders || apiKey == 1", []),
        ("true", []),
        ("", []),
        ("5", []),
    ],
)
def test_what_is_text(condition: str, texts: list[str]) -> None:
    assert searched_texts(condition) == texts
    assert (as_cel(condition) == condition) == (not texts)


def test_a_mistake_in_cel_stays_one() -> None:
    with pytest.raises(FilterError) as raised:
        Filter('apiName = "Fetch"')
    assert raised.value.column is not None


def test_commands_have_the_text_as_cel(store: Recorded) -> None:
    assert "clientId.matches" in exporting.command(store, "jsonl", "orders")
