"""Activity and heat map: sums over buckets are what the exchanges are."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from kproxy.errors import UsageError
from kproxy.page.activity import LEVELS, activity, groups, heatmap
from kproxy.page.recorded import Recorded
from kproxy.page.work import Work


@pytest.fixture(scope="module")
def lines(store: Recorded) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in store.lines(list(range(1, store.last + 1)), [])]


@pytest.mark.parametrize("condition", ["", "latencyMs > 1.0"])
def test_activity_by_api(store: Recorded, lines: list[dict[str, Any]], condition: str) -> None:
    kept = [line for line in lines if not condition or (line["latencyMs"] or 0) > 1.0]
    found = activity(store, Work(), condition, "api", 50)
    counted = {one["name"]: sum(one["exchanges"]) for one in found["series"]}
    assert counted == Counter(line["apiName"] for line in kept)
    sizes = {one["name"]: sum(one["bytes"]) for one in found["series"]}
    assert sum(sizes.values()) == sum((line["requestSize"] or 0) + (line["responseSize"] or 0) for line in kept)
    failed = {one["name"]: sum(one["errors"]) for one in found["series"] if any(one["errors"])}
    assert failed == Counter(line["apiName"] for line in kept if line["errors"])
    assert len(found["startsNs"]) == 50 and len(found["series"][0]["exchanges"]) == 50


def test_by_client_and_by_error(store: Recorded, lines: list[dict[str, Any]]) -> None:
    clients = activity(store, Work(), "", "client", 3)["series"]
    assert {one["name"]: sum(one["exchanges"]) for one in clients} == Counter(line["clientId"] or "" for line in lines)
    errors = activity(store, Work(), "", "error", 3)["series"]
    names = Counter(name for line in lines for name in {error["name"] for error in line["errors"]})
    assert {one["name"]: sum(one["exchanges"]) for one in errors} == names


def test_of_a_span_only_what_is_in_it(store: Recorded) -> None:
    first, last = store.times()
    assert first is not None and last is not None
    middle = (first + last) // 2
    halves = [activity(store, Work(), "", "api", 4, *span)["series"] for span in ((first, middle), (middle + 1, last))]
    assert sum(sum(one["exchanges"]) for half in halves for one in half) == store.exchanges
    assert activity(store, Work(), "", "api", 4, last + 1, last)["series"] == []


def test_many_keys_are_added_up(store: Recorded) -> None:
    from kproxy.page.activity import _series  # noqa: PLC0415

    made = _series([(f"k{n:02}", 0, n, 2 * n, 0) for n in range(1, 31)], 2, "client")
    assert [one["name"] for one in made] == [f"k{n}" for n in range(30, 18, -1)] + ["others"]
    assert made[-1] == {
        "name": "others",
        "exchanges": [sum(range(1, 19)), 0],
        "bytes": [2 * sum(range(1, 19)), 0],
        "errors": [0, 0],
    }


def test_the_heat_map_counts_each_latency_once(store: Recorded, lines: list[dict[str, Any]]) -> None:
    found = heatmap(store, Work(), "", 7)
    latencies = [line["latencyMs"] * 1000 for line in lines if line["latencyMs"] is not None]
    expected = Counter(next(at for at, bound in enumerate(LEVELS) if value <= bound) for value in latencies)
    summed = [sum(column) for column in zip(*found["counts"], strict=True)]
    assert {level: count for level, count in enumerate(summed) if count} == expected
    assert found["latencyUs"] == LEVELS and len(found["counts"]) == 7


def test_wrong_questions(store: Recorded) -> None:
    for by, buckets in (("nothing", 5), ("api", 0), ("api", 1_000_000)):
        with pytest.raises(UsageError):
            activity(store, Work(), "", by, buckets)


def test_groups_are_known_by_any_request_that_names_them(store: Recorded) -> None:
    first, last = store.times()
    assert first is not None and last is not None
    (whole,) = groups(store, Work(), None, None)["groups"]
    (later,) = groups(store, Work(), last - 300_000_000, last)["groups"]
    assert whole["joined"] and not later["joined"]
    assert whole["name"] == later["name"] and later["exchanges"] < whole["exchanges"]
    requests = [
        msgspec.json.decode(line).get("request") or {} for line in store.lines(list(range(1, store.last + 1)), [])
    ]
    assert {request["groupId"] for request in requests if "groupId" in request} == {whole["name"]}
