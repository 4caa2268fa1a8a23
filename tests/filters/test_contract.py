"""The contract as the author of a filter meets it, by a filter written as one would."""

import json
from collections.abc import Awaitable
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Direction, Filter, Forward, Outcome, Request, RequestFacts, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.protocol import Versions, message, response_header_version
from tests.conftest import Require
from tests.support import referees
from tests.support.filtering import connection, make, part, request_frame

CREATE_TOPICS = 19
VERSIONS = range(8)


def create_topics(version: int, *names: str) -> bytes:
    topics = [
        part("CreateTopicsRequest", "CreatableTopic", name=name, num_partitions=3, replication_factor=1)
        for name in names
    ]
    return request_frame("CreateTopicsRequest", version, make("CreateTopicsRequest", topics=topics))


def judged(version: int, *names: str) -> Outcome:
    chain = Chain([load_filter("tests.filters.made_under_prefix:TopicPrefix", {"prefix": "team-a."})])
    outcome = chain.on_request(connection(), create_topics(version, *names))
    assert not isinstance(outcome, Awaitable)
    return outcome


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_users_filter_allows_goes_to_the_broker_as_it_came(version: int) -> None:
    frame = create_topics(version, "team-a.orders", "team-a.clicks")
    assert judged(version, "team-a.orders", "team-a.clicks") == Send(frame)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_it_refuses_is_answered_in_its_place(version: int, require: Require) -> None:
    outcome = judged(version, "team-a.orders", "other")
    assert isinstance(outcome, Answer)
    assert int.from_bytes(outcome.frame[:4], "big") == len(outcome.frame) - 4
    assert int.from_bytes(outcome.frame[4:8], "big") == 7  # the correlation id of the request
    body = outcome.frame[8 + response_header_version(CREATE_TOPICS, version) :]
    said = json.loads(message("CreateTopicsResponse").to_json(version, body))
    assert [(topic["name"], topic["errorCode"]) for topic in said["topics"]] == [("team-a.orders", 44), ("other", 44)]
    require("referees", referees.AVAILABLE, "kio or kafka-python is not installed")
    value = referees.kafka_python_decoded("CreateTopicsResponse", version, body)
    assert [(topic.name, topic.error_code) for topic in value.topics] == [("team-a.orders", 44), ("other", 44)]


class Plain(Filter):
    requests = (3,)
    responses = (10,)


def test_what_the_attributes_ask_for() -> None:
    plain = Plain()
    assert [plain.wants(Direction.REQUEST, key, 0) for key in (3, 10)] == [Want.HOLD, Want.PASS]
    assert [plain.wants(Direction.RESPONSE, key, 0) for key in (3, 10)] == [Want.PASS, Want.HOLD]
    plain.versions = Versions.parse("2-4")
    assert [plain.wants(Direction.REQUEST, 3, version) for version in (1, 2, 5)] == [Want.PASS, Want.HOLD, Want.PASS]


def test_a_filter_that_overrides_nothing_forwards() -> None:
    anything: Any = None
    assert Plain().on_request(anything) == Plain().on_response(anything) == Forward()
    assert Plain().on_tail(connection(), RequestFacts(1, 16, 7), b"\0") == b"\0"
    Plain().on_close(connection())


def test_a_new_response_is_of_the_requests_api() -> None:
    request = Request(connection(), 12, 0, 7, "app", make("HeartbeatRequest"))
    assert request.new_response(error_code=27) == make("HeartbeatResponse", error_code=27)
    with pytest.raises(TypeError, match="has no field no_such"):
        request.new_response(no_such=1)
