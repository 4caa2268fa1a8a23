"""Rules for single APIs: coordinators, cursors, resources, fetching, what is offered, refusals."""

from typing import Any

import pytest

from kproxy.filters.contract import Close, Reply, Request
from kproxy.filters.topic_prefix import coordinators, cursors, fetching, offered, resources
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.refusal import Refusal, UnknownId, refused
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.filtering import connection, make, part

NAMES = Names("a.")


@pytest.mark.parametrize(("key_type", "empty"), [(0, "a."), (1, "")])
def test_keys_are_groups_or_transactional_ids(key_type: int, empty: str) -> None:
    message = make("FindCoordinatorRequest", key_type=key_type, coordinator_keys=["x", ""])
    coordinators.request(NAMES, message, 4)
    assert message.coordinator_keys == ["a.x", empty]
    single = make("FindCoordinatorRequest", key_type=key_type, key="x")
    coordinators.request(NAMES, single, 3)
    assert single.key == "a.x"


def test_a_key_of_share_state_is_refused() -> None:
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        coordinators.request(NAMES, make("FindCoordinatorRequest", key_type=2, coordinator_keys=["a.g:id:0"]), 6)


def test_entries_of_others_are_dropped() -> None:
    found = [part("FindCoordinatorResponse", "Coordinator", key=key) for key in ("a.x", "b.x", "a.")]
    message = make("FindCoordinatorResponse", coordinators=found)
    coordinators.response(NAMES, message, 0)
    assert [each.key for each in message.coordinators] == ["x", ""]
    coordinators.response(NAMES, message, 2)
    assert message.coordinators == []


def test_a_listing_of_all_begins_with_the_least_name() -> None:
    message = make("DescribeTopicPartitionsRequest", topics=[], cursor=None)
    assert cursors.request(message)
    assert (message.cursor.topic_name, message.cursor.partition_index) == ("-", 0)
    legal = "-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert min(legal) == "-"  # Java's strings compare as Python's


def test_named_topics_and_given_cursors_stay() -> None:
    named = make("DescribeTopicPartitionsRequest", topics=[part("DescribeTopicPartitionsRequest", "TopicRequest")])
    assert not cursors.request(named)
    assert named.cursor is None
    cursor = part("DescribeTopicPartitionsRequest", "Cursor", topic_name="x")
    assert not cursors.request(make("DescribeTopicPartitionsRequest", topics=[], cursor=cursor))
    assert cursor.topic_name == "x"


def test_a_cursor_behind_the_tenants_topics_is_the_end() -> None:
    for name, is_kept in (("a.x", True), ("b.x", False)):
        cursor = part("DescribeTopicPartitionsResponse", "Cursor", topic_name=name)
        message = make("DescribeTopicPartitionsResponse", next_cursor=cursor)
        cursors.response(NAMES, message)
        assert (message.next_cursor is not None) == is_kept


def test_topics_and_groups_are_the_tenants() -> None:
    asked = [
        part("DescribeConfigsRequest", "DescribeConfigsResource", resource_type=kind, resource_name="x")
        for kind in (2, 4, 8, 16, 32)
    ]
    resources.request(NAMES, asked)
    assert [each.resource_name for each in asked] == ["a.x", "x", "x", "x", "a.x"]


def test_what_is_another_tenants_is_left_out() -> None:
    found = [
        part("ListConfigResourcesResponse", "ConfigResource", resource_type=kind, resource_name=name)
        for kind, name in ((2, "a.x"), (2, "b.x"), (4, "1"), (32, "b.g"), (32, "a.g"), (16, "b.metrics"))
    ]
    kept = [(each.resource_type, each.resource_name) for each in resources.response(NAMES, found)]
    assert kept == [(2, "x"), (4, "1"), (32, "g"), (16, "b.metrics")]


def test_altering_the_clusters_can_be_refused() -> None:
    own = part("AlterConfigsRequest", "AlterConfigsResource", resource_type=2)
    resources.check_alterations([own])
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        resources.check_alterations([own, part("AlterConfigsRequest", "AlterConfigsResource", resource_type=4)])


MOST = 1_000


def test_nobody_gets_a_session() -> None:
    message = make("FetchRequest", session_id=0, session_epoch=0)
    assert fetching.request(message, 13, MOST)
    assert message.session_epoch == -1
    assert not fetching.request(message, 13, MOST)


def test_a_session_does_not_exist() -> None:
    with pytest.raises(Refusal, match="FETCH_SESSION_ID_NOT_FOUND"):
        fetching.request(make("FetchRequest", session_id=5, session_epoch=1), 7, MOST)


def test_versions_with_names_are_limited_and_those_with_ids_are_not() -> None:
    for version, size in ((3, MOST), (12, MOST), (13, 50_000_000)):
        message = make("FetchRequest", session_epoch=-1, max_bytes=50_000_000)
        assert fetching.request(message, version, MOST) == (size == MOST)
        assert message.max_bytes == size


def versions(*ranges: tuple[int, int, int]) -> list[object]:
    return [
        part("ApiVersionsResponse", "ApiVersion", api_key=key, min_version=low, max_version=high)
        for key, low, high in ranges
    ]


def test_what_is_refused_is_not_offered() -> None:
    message = make(
        "ApiVersionsResponse", api_keys=versions((0, 3, 13), (27, 0, 1), (30, 0, 3), (58, 0, 0), (999, 0, 0))
    )
    assert offered.narrow(message, cluster=True)
    assert [(each.api_key, each.min_version, each.max_version) for each in message.api_keys] == [(0, 3, 13), (30, 1, 3)]
    assert not offered.narrow(message, cluster=True)


def test_administration_of_the_cluster_can_be_refused() -> None:
    message = make("ApiVersionsResponse", api_keys=versions((49, 0, 1), (60, 0, 2)))
    assert not offered.narrow(message, cluster=True)
    assert offered.narrow(message, cluster=False)
    assert [each.api_key for each in message.api_keys] == [60]


def test_acls_without_pattern_types_are_refused() -> None:
    assert not offered.is_offered(ApiKey.CREATE_ACLS, 0, cluster=True)
    assert offered.is_offered(ApiKey.CREATE_ACLS, 1, cluster=True)


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
