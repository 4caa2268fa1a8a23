"""Error responses of every API at every version, beside those of Kafka's own classes."""

import json
import subprocess
from pathlib import Path
from typing import Any

from kproxy.filters.contract import Request
from kproxy.filters.error_responses import EMPTY, error_places, error_response
from kproxy.protocol import Direction, known_message
from kproxy.protocol.facts import Field
from tests.conftest import Require
from tests.support.filtering import connection
from tests.support.kafka import jars
from tests.support.marked import VERSIONS, sample_request
from tests.support.messages import make
from tests.support.wire import newest_layout

REFEREE = Path(__file__).parents[1] / "support" / "kafka" / "ErrorResponses.java"
TOPIC_AUTHORIZATION_FAILED = 29
# AbstractRequest.getErrorResponse names what was asked for beside the error that clients look at first, or says it of ""
OTHERWISE = {46: "topics", 50: "results"}


def request(api_key: int, version: int, message: Any = None) -> Request:
    return Request(connection(), api_key, version, 7, "c", message or sample_request(api_key, version))


def as_json(api_key: int, version: int, body: bytes) -> Any:
    message = known_message(Direction.RESPONSE, api_key)
    return json.loads(message.to_json(version, body))


def compared(value: Any, unless: str = "") -> Any:
    """Without the texts for people, and in an order of its own where Kafka's own is that of a hash table."""
    if isinstance(value, dict):
        return {name: compared(it) for name, it in value.items() if name not in ("errorMessage", unless)}
    return sorted(map(compared, value), key=json.dumps) if isinstance(value, list) else value


def encoded(api_key: int, version: int, value: Any) -> bytes:
    message = known_message(Direction.RESPONSE, api_key)
    return message.encode(version, value)


def kafkas_own() -> list[tuple[int, int, str]]:
    """(API, version, what Kafka's own class answers to the sample request)."""
    lines = []
    for api_key, version in VERSIONS:
        message = known_message(Direction.REQUEST, api_key)
        body = message.encode(version, sample_request(api_key, version))
        lines.append(f"{api_key} {version} {TOPIC_AUTHORIZATION_FAILED} {body.hex()}")
    command = jars.java(jars.NEWEST, str(REFEREE))
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    return [(*pair, answer) for pair, answer in zip(VERSIONS, run.stdout.splitlines(), strict=True)]


def test_errors_are_where_kafkas_own_classes_put_them(require: Require) -> None:
    require("kafka", jars.missing() is None, jars.missing() or "")
    seen, wrong = set(), []
    for api_key, version, answer in kafkas_own():
        kind, _, rest = answer.partition(" ")
        if kind == "exception":  # versions that 4.0 has removed (KIP-896), and requests of controllers before KRaft
            continue
        assert kind == "body"
        ours = error_response(request(api_key, version), TOPIC_AUTHORIZATION_FAILED)
        theirs = compared(as_json(api_key, version, bytes.fromhex(rest)), OTHERWISE.get(api_key, ""))
        found = compared(as_json(api_key, version, encoded(api_key, version, ours)), OTHERWISE.get(api_key, ""))
        seen.add(api_key)
        if found != theirs:
            wrong.append((api_key, version, found, theirs))
    assert wrong == []
    assert len(seen) >= 89


def has_error(fields: tuple[Field, ...], version: int) -> bool:
    return any(
        version in field.versions
        and (field.name in ("ErrorCode", "PartitionErrorCode") or has_error(field.fields, version))
        for field in fields
    )


def test_every_response_that_can_have_an_error_has_it() -> None:
    """Also at versions that Kafka's newest classes do not read any more."""
    for api_key, version in VERSIONS:
        message = known_message(Direction.RESPONSE, api_key)
        possible = has_error(newest_layout(message.name, version).fields, version)
        made = error_response(request(api_key, version), TOPIC_AUTHORIZATION_FAILED, "no\n" * 1_000)
        assert (made is not None) == (error_places(api_key, version) is not None) == possible, (api_key, version)
        if made is not None:
            text = json.dumps(as_json(api_key, version, encoded(api_key, version, made)))
            has_it = '"errorCode": 29' in text or '"partitionErrorCode": 29' in text
            assert has_it or api_key in EMPTY, (api_key, version)


def test_what_is_asked_for_twice_is_answered_once() -> None:
    topic = {"name": "a"}
    asked = make("DeleteTopicsRequest", topics=[topic, topic])
    made: Any = error_response(request(20, 6, asked), 44, "no")
    assert [(each.name, each.error_code, each.error_message) for each in made.responses] == [("a", 44, "no")]


def test_a_request_that_asks_for_everything() -> None:
    """Metadata for all topics, OffsetFetch for all partitions: null."""
    made: Any = error_response(request(3, 12, make("MetadataRequest", topics=None)), 29)
    assert made.topics == []
    made = error_response(request(9, 7, make("OffsetFetchRequest", group_id="g", topics=None)), 30)
    assert (made.error_code, made.topics) == (30, [])


def test_an_api_that_is_not_in_the_facts() -> None:
    assert error_places(9_999, 0) is None
    assert error_places(3, 9_999) is None
