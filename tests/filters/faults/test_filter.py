"""The filter before a broker that agrees to everything: what both sides get; errors in responses, as in Kafka's javadoc."""

from typing import Any

import pytest

from kproxy.filters.contract import Reply, Request
from kproxy.filters.faults import effects
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.filtering import connection
from tests.support.injected import Injected
from tests.support.messages import make

Codes = dict[str, list[int]]


def produce(*names: str, acks: int = -1) -> Any:
    data = {"index": 0, "records": b""}
    topics = [{"name": name, "partition_data": [data]} for name in names]
    return make("ProduceRequest", acks=acks, topic_data=topics)


def codes(response: Any) -> Codes:
    return {topic.name: [each.error_code for each in topic.partition_responses] for topic in response.responses}


def fetch(*names: str, epoch: int = 0) -> Any:
    topics = [{"topic": name, "partitions": [{"partition": 0}]} for name in names]
    return make("FetchRequest", session_id=5, session_epoch=epoch, topics=topics)


def test_after_the_broker_has_done_it_the_response_says_that_it_failed() -> None:
    proxy = Injected({"api_name": "Produce", "error": "REQUEST_TIMED_OUT", "when": "after", "call": 2, "name": "late"})
    assert [codes(proxy.ask("Produce", 9, produce("a")))["a"] for _ in range(3)] == [[0], [7], [0]]
    assert (proxy.fired("late"), len(proxy.got)) == (1, 3)


def test_the_topics_selected_fail_and_the_broker_gets_the_others() -> None:
    proxy = Injected({"error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "topic": "a*"})
    assert codes(proxy.ask("Produce", 9, produce("a1", "b", "a2"))) == {"a1": [6], "b": [0], "a2": [6]}
    assert [topic.name for topic in proxy.got[0].topic_data] == ["b"]
    assert codes(proxy.ask("Produce", 9, produce("b"))) == {"b": [0]}
    assert codes(proxy.ask("Produce", 9, produce("a1"))) == {"a1": [6]}
    assert len(proxy.got) == 2


@pytest.mark.parametrize(
    ("effect", "outcome", "reaches_the_broker"),
    [
        ({"disconnect": True}, "closed", False),
        ({"disconnect": True, "when": "after"}, "closed", True),
        ({"black_hole": True}, "silent", False),
        ({"black_hole": True, "when": "after"}, "silent", True),
    ],
)
def test_connections_are_lost_before_or_after(effect: dict[str, Any], outcome: str, reaches_the_broker: bool) -> None:
    proxy = Injected({"api_name": "Produce", "name": "f", **effect})
    assert proxy.ask("Produce", 9, produce("a")) == outcome
    assert (len(proxy.got) == 1) is reaches_the_broker
    assert proxy.fired("f") == 1


def test_a_response_is_cut_and_its_size_field_promises_more() -> None:
    proxy = Injected({"api_name": "Heartbeat", "truncate": 9})
    cut, sent = proxy.ask("Heartbeat", 3, make("HeartbeatRequest"))
    assert (cut, sent) == (
        "cut",
        b"\0\0\0\x0a" + b"\0\0\0\x07" + b"\0",
    )  # correlation id, throttle time, error: 4 + 4 + 2


def test_a_delay_is_before_or_after_and_before_another_effect() -> None:
    proxy = Injected({"api_name": "Produce", "delay": "2s", "error": "NOT_LEADER_OR_FOLLOWER"})
    assert codes(proxy.ask("Produce", 9, produce("a"))) == {"a": [6]}
    assert proxy.slept == [2.0]
    assert proxy.filter.timeout > 2.0
    after = Injected({"api_name": "Produce", "delay": "3s", "when": "after"})
    assert codes(after.ask("Produce", 9, produce("a"))) == {"a": [0]}
    assert (after.slept, len(after.got)) == ([3.0], 1)


def test_a_throttled_client_is_told_and_not_read() -> None:
    proxy = Injected({"scenario": "throttled", "throttle": "250ms"})
    assert proxy.ask("Produce", 9, produce("a")).throttle_time_ms == 250
    assert proxy.at.mute_s == 0.25


def test_a_produce_that_expects_no_answer_is_closed_as_brokers_do() -> None:
    """It is the only way in which its client learns of an error (KafkaApis.handleProduceRequest)."""
    proxy = Injected({"api_name": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "name": "f"})
    assert proxy.ask("Produce", 9, produce("a", acks=0)) == "closed"
    assert (proxy.got, proxy.fired("f")) == ([], 1)


def test_nothing_is_kept_for_a_produce_that_expects_no_answer() -> None:
    """An effect on responses is kept for the next request that has one; of records nothing stays in memory."""
    proxy = Injected({"api_name": "Produce", "delay": "3s", "when": "after", "times": 1, "name": "f"})
    for _ in range(3):
        proxy.ask("Produce", 9, produce("a", acks=0))
    assert (len(proxy.got), proxy.slept, proxy.fired("f")) == (3, [], 0)
    assert codes(proxy.ask("Produce", 9, produce("a"))) == {"a": [0]}
    assert (proxy.slept, proxy.fired("f")) == ([3.0], 1)
    split = Injected({"api_name": "Produce", "topic": "a", "error": "NOT_LEADER_OR_FOLLOWER", "name": "f"})
    split.ask("Produce", 9, produce("a", "b", acks=0))
    assert [[topic.name for topic in got.topic_data] for got in split.got] == [["b"]]


def test_a_fetch_fails_in_the_broker_s_response_for_the_topics_of_its_session() -> None:
    proxy = Injected({"api_name": "Fetch", "topic": "a", "error": "OFFSET_OUT_OF_RANGE", "skip": 1, "name": "f"})

    def asked(message: Any) -> Codes:
        response = proxy.ask("Fetch", 12, message)
        return {topic.topic: [each.error_code for each in topic.partitions] for topic in response.responses}

    assert asked(fetch("a", "b")) == {"a": [0], "b": [0]}
    assert asked(fetch(epoch=1)) == {"a": [1]}
    assert asked(make("FetchRequest", session_id=5, session_epoch=2)) == {"a": [1]}
    assert (proxy.calls("f"), len(proxy.got)) == (3, 3)


def test_metadata_fails_in_the_broker_s_response_and_brokers_stay() -> None:
    proxy = Injected({"api_name": "Metadata", "error": "LEADER_NOT_AVAILABLE", "name": "f"})
    topic = {"name": "a"}
    proxy.answers = [make("MetadataResponse", brokers=[{"node_id": 1, "host": "h", "port": 9}], topics=[topic])]
    found = proxy.ask("Metadata", 9, make("MetadataRequest", topics=None))
    assert ([each.error_code for each in found.topics], len(found.brokers)) == ([5], 1)
    proxy.ask("Metadata", 9, make("MetadataRequest", topics=[]))
    assert proxy.calls("f") == 1


def test_only_what_faults_name_is_held() -> None:
    proxy = Injected({"api_name": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"})
    held = {(key, direction) for direction in (0, 1) for (key, _), want in proxy.chain.table(direction).items() if want}  # type: ignore[arg-type]
    assert held == {(0, 0), (1, 0), (3, 1)}  # Produce and Fetch requests, Metadata responses


def request(api_key: int, version: int, message: Any) -> Request:
    return Request(connection(), api_key, version, 7, "c", message)


def metadata(*names: str) -> Any:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "leader_id": 4}]} for name in names]
    return make("MetadataResponse", topics=topics)


def test_api_versions_answers_an_unsupported_version_in_version_0_with_what_it_offers_of_itself() -> None:
    reply = effects.error_reply(
        request(ApiKey.API_VERSIONS, 4, make("ApiVersionsRequest")), ErrorCode.UNSUPPORTED_VERSION
    )
    assert isinstance(reply, Reply)
    message: Any = reply.message
    assert (reply.version, message.error_code) == (0, 35)
    assert [(api.api_key, api.min_version, api.max_version) for api in message.api_keys] == [(18, 0, 4)]
    other = effects.error_reply(request(ApiKey.API_VERSIONS, 4, make("ApiVersionsRequest")), ErrorCode.INVALID_REQUEST)
    assert isinstance(other, Reply)
    assert other.version is None


def test_transactions_are_merged_below_the_transaction_they_are_of() -> None:
    def topics(*names: str) -> Request:
        asked = [{"name": name, "partitions": [0]} for name in names]
        txn = {"transactional_id": "t", "topics": asked}
        return request(ApiKey.ADD_PARTITIONS_TO_TXN, 4, make("AddPartitionsToTxnRequest", transactions=[txn]))

    assert not effects.can_split(topics("a"))  # the response has an error of its own
    assert effects.answers_topics(topics("a"))


def test_metadata_of_a_topic_fails_and_the_others_stay() -> None:
    asked = request(ApiKey.METADATA, 12, make("MetadataRequest", topics=None))
    response = metadata("a", "b")
    effects.put_in_place(asked, response, ErrorCode.TOPIC_AUTHORIZATION_FAILED, lambda name, _: name == "a")
    assert [(topic.error_code, len(topic.partitions)) for topic in response.topics] == [(29, 0), (0, 1)]


def test_metadata_has_errors_of_partitions() -> None:
    asked = request(ApiKey.METADATA, 12, make("MetadataRequest", topics=None))
    response = metadata("a")
    effects.put_in_place(asked, response, ErrorCode.LISTENER_NOT_FOUND, lambda *_: True)
    (topic,) = response.topics
    assert (topic.error_code, topic.partitions[0].error_code, topic.partitions[0].leader_id) == (0, 72, -1)


def test_an_error_of_the_fetch_session_is_of_the_whole_response() -> None:
    response = make("FetchResponse", responses=[{"topic": "a", "partitions": [{"partition_index": 0}]}])
    asked = request(ApiKey.FETCH, 12, make("FetchRequest"))
    assert effects.is_of_whole_response(asked, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert not effects.is_of_whole_response(
        request(ApiKey.FETCH, 4, make("FetchRequest")), ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    effects.put_in_place(asked, response, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, lambda *_: True)
    assert (response.error_code, response.responses) == (70, [])


def test_a_partition_of_a_fetch_that_fails_has_no_records() -> None:
    told = {"partition_index": 0, "high_watermark": 8, "records": b"xyz"}
    response = make("FetchResponse", responses=[{"topic": "a", "partitions": [told]}])
    data = response.responses[0].partitions[0]
    effects.put_in_place(request(ApiKey.FETCH, 12, make("FetchRequest")), response, 1, lambda *_: True)
    assert (data.error_code, data.high_watermark, data.records) == (1, -1, b"")
    assert effects.error_reply(request(ApiKey.DESCRIBE_LOG_DIRS, 0, make("DescribeLogDirsRequest")), 29) is not None


def test_partitions_that_an_incremental_response_leaves_out_are_added() -> None:
    there = {"partition_index": 1, "high_watermark": 9, "records": b"x"}
    response = make("FetchResponse", responses=[{"topic": "a", "partitions": [there]}])
    topics = {("a", ""): {0, 1}, ("b", ""): {2}, ("c", ""): {0}}
    effects.add_missing_partitions(
        request(ApiKey.FETCH, 12, make("FetchRequest")), response, topics, lambda name, _: name != "c"
    )
    found = [
        (topic.topic, [(p.partition_index, p.high_watermark, p.records) for p in topic.partitions])
        for topic in response.responses
    ]
    assert found == [("a", [(1, 9, b"x"), (0, -1, b"")]), ("b", [(2, -1, b"")])]


def test_topics_that_are_known_by_id_are_added_by_id() -> None:
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    response = make("FetchResponse")
    effects.add_missing_partitions(
        request(ApiKey.FETCH, 13, make("FetchRequest")), response, {("", topic_id): {0}}, lambda *_: True
    )
    assert [(topic.topic, topic.topic_id) for topic in response.responses] == [("", topic_id)]
