"""Requests answered with an error."""

from typing import Any

from kproxy.filters.contract import Close, Reply, Request
from kproxy.filters.topic_prefix.refusal import Refusal, UnknownId, refused
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.filtering import connection, make, part

REFUSAL = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for tenants")
ID = "A" * 21 + "g"


def asked(api_key: ApiKey, version: int, message: Any) -> Request:
    return Request(connection(), api_key, version, 7, "app", message)


def test_the_error_is_where_the_response_has_one() -> None:
    assert refused(
        asked(ApiKey.ELECT_LEADERS, 2, make("ElectLeadersRequest", topic_partitions=None)), REFUSAL
    ) == Reply(make("ElectLeadersResponse", error_code=31))
    expected = make("DescribeAclsResponse", error_code=31, error_message="not for tenants")
    assert refused(asked(ApiKey.DESCRIBE_ACLS, 2, make("DescribeAclsRequest")), REFUSAL) == Reply(expected)


def test_without_room_for_an_error_the_connection_is_closed() -> None:
    unknown = asked(ApiKey.LIST_GROUPS, 99, make("ListGroupsRequest"))
    assert refused(unknown, REFUSAL) == Close("CLUSTER_AUTHORIZATION_FAILED: not for tenants")


def test_where_no_response_is_expected_the_connection_is_closed() -> None:
    for acks, verdict in ((0, Close), (1, Reply)):
        assert isinstance(refused(asked(ApiKey.PRODUCE, 13, make("ProduceRequest", acks=acks)), UnknownId()), verdict)


def test_partitions_of_an_unknown_id_have_the_error_and_nothing_else_has() -> None:
    partitions = [part("FetchRequest", "FetchPartition", partition=number) for number in (0, 3)]
    fetch = make("FetchRequest", topics=[part("FetchRequest", "FetchTopic", topic_id=ID, partitions=partitions)])
    verdict: Any = refused(asked(ApiKey.FETCH, 13, fetch), UnknownId())
    shown = [
        (topic.topic_id, each.partition_index, each.error_code, each.high_watermark, each.records)
        for topic in verdict.message.responses
        for each in topic.partitions
    ]
    assert verdict.message.error_code == 0
    assert shown == [(ID, 0, 100, -1, b""), (ID, 3, 100, -1, b"")]
    topic = part("OffsetFetchRequest", "OffsetFetchRequestTopics", topic_id=ID, partition_indexes=[0, 3])
    groups = [
        part("OffsetFetchRequest", "OffsetFetchRequestGroup", group_id=name, topics=topics)
        for name, topics in (("g", [topic]), ("all", None))
    ]
    verdict = refused(asked(ApiKey.OFFSET_FETCH, 10, make("OffsetFetchRequest", groups=groups)), UnknownId())
    found = [
        (
            group.group_id,
            group.error_code,
            [(p.partition_index, p.error_code) for t in group.topics for p in t.partitions],
        )
        for group in verdict.message.groups
    ]
    assert found == [("g", 0, [(0, 100), (3, 100)]), ("all", 14, [])]
