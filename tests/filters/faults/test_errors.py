"""Errors in responses; what Kafka says of each is in the javadoc of the class of the response."""

from typing import Any

from kproxy.filters.contract import Reply, Request
from kproxy.filters.faults import errors
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.filtering import connection, make, part


def request(api_key: int, version: int, message: Any) -> Request:
    return Request(connection(), api_key, version, 7, "c", message)


def commit(*names: str) -> Request:
    topics = [
        part(
            "OffsetCommitRequest",
            "OffsetCommitRequestTopic",
            name=name,
            partitions=[part("OffsetCommitRequest", "OffsetCommitRequestPartition", partition_index=0)],
        )
        for name in names
    ]
    return request(ApiKey.OFFSET_COMMIT, 8, make("OffsetCommitRequest", topics=topics))


def metadata(*names: str) -> Any:
    topics = [
        part(
            "MetadataResponse",
            "MetadataResponseTopic",
            name=name,
            partitions=[part("MetadataResponse", "MetadataResponsePartition", partition_index=0, leader_id=4)],
        )
        for name in names
    ]
    return make("MetadataResponse", topics=topics)


def test_api_versions_answers_an_unsupported_version_in_version_0_with_what_it_offers_of_itself() -> None:
    reply = errors.whole(request(ApiKey.API_VERSIONS, 4, make("ApiVersionsRequest")), ErrorCode.UNSUPPORTED_VERSION)
    assert isinstance(reply, Reply)
    message: Any = reply.message
    assert (reply.version, message.error_code) == (0, 35)
    assert [(api.api_key, api.min_version, api.max_version) for api in message.api_keys] == [(18, 0, 4)]
    other = errors.whole(request(ApiKey.API_VERSIONS, 4, make("ApiVersionsRequest")), ErrorCode.INVALID_REQUEST)
    assert isinstance(other, Reply)
    assert other.version is None


def test_the_topics_selected_are_answered_apart_and_put_into_the_response() -> None:
    whole = commit("a", "b", "c")
    assert errors.can_split(whole)
    part_ = errors.part_of(whole, lambda name, _: name == "b")
    answered: Any = errors.whole(errors.part_of(whole, lambda name, _: name != "b"), 0)
    errors.merge(answered.message, part_, ErrorCode.NOT_COORDINATOR)
    found = {topic.name: [p.error_code for p in topic.partitions] for topic in answered.message.topics}
    assert found == {"a": [0], "c": [0], "b": [16]}


def test_transactions_are_merged_below_the_transaction_they_are_of() -> None:
    def topics(*names: str) -> Request:
        asked = [
            part("AddPartitionsToTxnRequest", "AddPartitionsToTxnTopic", name=name, partitions=[0]) for name in names
        ]
        txn = part("AddPartitionsToTxnRequest", "AddPartitionsToTxnTransaction", transactional_id="t", topics=asked)
        return request(ApiKey.ADD_PARTITIONS_TO_TXN, 4, make("AddPartitionsToTxnRequest", transactions=[txn]))

    response = make("AddPartitionsToTxnResponse")
    inner = part("AddPartitionsToTxnResponse", "AddPartitionsToTxnResult", transactional_id="t")
    response.results_by_transaction = [inner]
    assert not errors.can_split(topics("a"))  # the response has an error of its own
    assert errors.answers_topics(topics("a"))


def test_metadata_of_a_topic_fails_and_the_others_stay() -> None:
    asked = request(ApiKey.METADATA, 12, make("MetadataRequest", topics=None))
    response = metadata("a", "b")
    errors.put_in_place(asked, response, ErrorCode.TOPIC_AUTHORIZATION_FAILED, lambda name, _: name == "a")
    assert [(topic.error_code, len(topic.partitions)) for topic in response.topics] == [(29, 0), (0, 1)]


def test_metadata_has_errors_of_partitions() -> None:
    asked = request(ApiKey.METADATA, 12, make("MetadataRequest", topics=None))
    response = metadata("a")
    errors.put_in_place(asked, response, ErrorCode.LISTENER_NOT_FOUND, lambda *_: True)
    (topic,) = response.topics
    assert (topic.error_code, topic.partitions[0].error_code, topic.partitions[0].leader_id) == (0, 72, -1)


def test_an_error_of_the_fetch_session_is_of_the_whole_response() -> None:
    data = part("FetchResponse", "PartitionData", partition_index=0)
    response = make(
        "FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="a", partitions=[data])]
    )
    asked = request(ApiKey.FETCH, 12, make("FetchRequest"))
    assert errors.is_of_whole_response(asked, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert not errors.is_of_whole_response(
        request(ApiKey.FETCH, 4, make("FetchRequest")), ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )
    errors.put_in_place(asked, response, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, lambda *_: True)
    assert (response.error_code, response.responses) == (70, [])


def test_a_partition_of_a_fetch_that_fails_has_no_records() -> None:
    data = part("FetchResponse", "PartitionData", partition_index=0, high_watermark=8, records=b"xyz")
    response = make(
        "FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="a", partitions=[data])]
    )
    errors.put_in_place(request(ApiKey.FETCH, 12, make("FetchRequest")), response, 1, lambda *_: True)
    assert (data.error_code, data.high_watermark, data.records) == (1, -1, b"")
    assert errors.whole(request(ApiKey.DESCRIBE_LOG_DIRS, 0, make("DescribeLogDirsRequest")), 29) is not None
