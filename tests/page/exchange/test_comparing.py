"""Two exchanges compared."""

from collections.abc import Iterator

import msgspec
import pytest

from kproxy.page.exchange.comparing import compare
from kproxy.page.recorded import Recorded
from tests.page.asking import opened
from tests.page.test_tables import CAPTURE


@pytest.fixture(scope="module")
def store() -> Iterator[Recorded]:
    with opened(CAPTURE) as found:
        yield found


def test_an_exchange_is_equal_to_itself(store: Recorded) -> None:
    assert compare(store, 5, 5) == {"differences": [], "more": False}
    assert compare(store, 5, 10**9) is None


def test_fields_that_differ(store: Recorded) -> None:
    lines = {number: msgspec.json.decode(item.line) for number, item in store.blocks.items(1, store.last)}
    beats = [number for number, line in lines.items() if line["apiName"] == "Heartbeat" and line["response"]]
    a, b = beats[0], next(n for n in beats if lines[n]["request"]["memberId"] != lines[beats[0]]["request"]["memberId"])
    found = compare(store, a, b)
    assert found is not None
    request = [(one["path"], one["a"], one["b"]) for one in found["differences"] if one["side"] == "request"]
    assert request == [
        (name, lines[a]["request"][name], lines[b]["request"][name])
        for name in lines[a]["request"]
        if lines[a]["request"][name] != lines[b]["request"][name]
    ]
    assert not {one["path"] for one in found["differences"]} & {"correlationId", "requestAt"}


def test_of_different_apis_what_one_lacks_is_null(store: Recorded) -> None:
    found = compare(store, 1, 5)
    assert found is not None
    assert ("exchange", "apiName") in {(one["side"], one["path"]) for one in found["differences"]}
    assert any(None in (one["a"], one["b"]) for one in found["differences"] if one["side"] == "request")
