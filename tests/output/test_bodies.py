"""Bodies as Kafka's JSON, and the error codes and topic ids in them, against Kafka's own frames."""

import json
import tracemalloc
from typing import Any

import pytest

from kproxy.output import bodies as bodies_module
from kproxy.output.bodies import MOST_ERRORS, count_errors, find_errors, find_topic_names, read_bodies
from kproxy.protocol import facts
from kproxy.session import Exchange
from tests.support.conversation import broker, client, events_of
from tests.support.frames import heartbeat, response
from tests.support.traffic import golden_exchange, golden_exchanges, golden_pairs


def errors_in(value: Any) -> list[int]:
    """Every number under a name that ends in rrorCode, in order; written apart from the code it checks."""
    if isinstance(value, list):
        return [code for inner in value for code in errors_in(inner)]
    if not isinstance(value, dict):
        return []
    found: list[int] = []
    for name, inner in value.items():
        found += [inner] if name.endswith("rrorCode") and inner else errors_in(inner)
    return found


def at(value: Any, path: str) -> Any:
    """What stands at a path like ``topics[0].partitions[1].errorCode``."""
    for part in path.replace("]", "").replace("[", ".").split("."):
        value = value[int(part)] if part.isdecimal() else value[part]
    return value


def test_every_error_code_in_kafkas_responses_is_found_with_its_path() -> None:
    names = {fact.code: fact.name for fact in facts().errors}
    seen = 0
    for _, line in golden_pairs():
        body = json.dumps(line["json"], separators=(",", ":")).encode()
        found = find_errors(body)
        assert [error.code for error in found] == errors_in(line["json"])
        for error in found:
            assert at(line["json"], error.path) == error.code
            assert error.name == names.get(error.code, f"UNKNOWN_{error.code}")
        seen += len(found)
    assert seen > 300


def test_a_string_that_looks_like_an_error_is_none() -> None:
    assert find_errors(b'{"errorCode":0,"errorMessage":"\\"errorCode\\":3"}') == []
    assert find_errors(None) == []


def test_of_many_errors_the_first_are_listed_and_every_code_is() -> None:
    """JSON by hand: 1,500 times code 3, then 16 twice."""
    codes = [3] * 1_500 + [16, 16]
    body = json.dumps({"topics": [{"errorCode": code} for code in codes]}, separators=(",", ":")).encode()
    found = find_errors(body)
    assert len(found) == MOST_ERRORS + 1
    assert (found[-1].code, found[-1].path) == (16, "topics[1500].errorCode")
    assert found[MOST_ERRORS - 1].path == "topics[999].errorCode"
    assert dict(count_errors(body)) == {3: 1_500, 16: 2}


def test_a_huge_response_is_not_made_objects_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_module, "OPENABLE", 500_000)
    body = b'{"topics":[' + b'{"errorCode":3},' * (500_000 // 16) + b'{"errorCode":16}]}'
    tracemalloc.start()
    found = find_errors(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(error.code, error.path) for error in found] == [(3, ""), (16, "")]
    assert peak < 100_000


def test_bodies_are_kafkas_json() -> None:
    for request, response_line, exchange in golden_exchanges():
        if request["apiKey"] in SECRET:
            continue
        bodies = read_bodies(exchange)
        assert bodies.undecoded is None
        assert without_tags(json.loads(bodies.request or b"")) == request["json"]
        assert without_tags(json.loads(bodies.response or b"")) == response_line["json"]


SECRET = {19, 32, 33, 36, 38, 39, 40, 41, 44, 51, 58}  # something in these is withheld


def without_tags(value: Any) -> Any:
    """JSON without unknown tags, which Kafka's own leaves out."""
    if isinstance(value, list):
        return [without_tags(inner) for inner in value]
    if isinstance(value, dict):
        return {name: without_tags(inner) for name, inner in value.items() if name != "_unknownTaggedFields"}
    return value


def test_a_body_that_cannot_be_read_is_null_and_says_why() -> None:
    events = events_of(client >> heartbeat(7), broker >> response(7, b"\0"))
    exchange = next(event for event in events if isinstance(event, Exchange))
    bodies = read_bodies(exchange)
    assert bodies.response is None
    assert "HeartbeatResponse v0" in (bodies.undecoded or "")


def test_topic_names_are_those_of_the_ids_in_the_bodies() -> None:
    request, response_line = next(
        pair
        for pair in golden_pairs()
        if pair[0]["apiKey"] == 1 and pair[0]["version"] == 13 and pair[0]["json"]["topics"]
    )
    exchange = golden_exchange(request, response_line)
    topic_id = request["json"]["topics"][0]["topicId"]
    exchange.topic_names = {topic_id: "orders", "B" * 22: "not in it"}
    assert find_topic_names(exchange, read_bodies(exchange)) == {topic_id: "orders"}
    exchange.topic_names = {}
    assert find_topic_names(exchange, read_bodies(exchange)) == {}
