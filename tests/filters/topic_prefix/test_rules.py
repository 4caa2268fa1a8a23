"""Rules for what no entity type marks: coordinators, pages, resources, fetching, what is offered, refusals."""

from typing import Any

import pytest

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.contract import Close, Reply, Request, RequestFacts, Response
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.patterns import Patterns
from kproxy.filters.topic_prefix.refusal import Refusal, UnknownId, refused
from kproxy.filters.topic_prefix.rules import RULES, Tenant
from kproxy.filters.topic_prefix.translation import NotOurs
from kproxy.protocol import ApiKey, Direction, message
from kproxy.protocol.error_codes import ErrorCode
from tests.support.filtering import connection
from tests.support.messages import make

MOST = 1_000
ID, OTHER = "A" * 21 + "g", "A" * 21 + "w"


def ruled(version: int, value: Any, requested: Any = None, *, cluster: bool = True) -> object:
    """What the rule for a message of the tenant "a." returns, after it has changed the message."""
    name = type(value).__name__
    key = message(name).api_key
    assert key is not None
    tenant = Tenant(Names("a."), Patterns("a."), BoundedSet(), cluster, MOST)
    if name.endswith("Request"):
        request = Request(connection(), key, version, 7, "app", value)
        return RULES[Direction.REQUEST][key](tenant, request, value)
    response = Response(connection(), RequestFacts(key, version, 7, None, requested), value)
    return RULES[Direction.RESPONSE][key](tenant, response, value)


def test_coordinators_are_those_of_groups_and_transactional_ids() -> None:
    for key_type, empty in ((0, "a."), (1, "")):
        several = make("FindCoordinatorRequest", key_type=key_type, coordinator_keys=["x", ""])
        ruled(4, several)
        assert several.coordinator_keys == ["a.x", empty]
        single = make("FindCoordinatorRequest", key_type=key_type, key="x")
        ruled(3, single)
        assert single.key == "a.x"
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        ruled(6, make("FindCoordinatorRequest", key_type=2, coordinator_keys=["a.g:id:0"]))


def test_coordinators_of_others_are_dropped() -> None:
    for key_type, kept in ((0, ["x", ""]), (2, [])):
        found = [{"key": key} for key in ("a.x", "b.x", "a.")]
        answer = make("FindCoordinatorResponse", coordinators=found)
        ruled(4, answer, make("FindCoordinatorRequest", key_type=key_type))
        assert [each.key for each in answer.coordinators] == kept


def test_a_listing_of_all_begins_with_the_least_name() -> None:
    value = make("DescribeTopicPartitionsRequest", topics=[], cursor=None)
    assert ruled(0, value)
    assert (value.cursor.topic_name, value.cursor.partition_index) == ("-", 0)
    legal = "-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    assert min(legal) == "-"  # Java's strings compare as Python's
    named = make("DescribeTopicPartitionsRequest", topics=[{}])
    assert not ruled(0, named)
    assert named.cursor is None
    later = make("DescribeTopicPartitionsRequest", topics=[], cursor={"topic_name": "x"})
    assert not ruled(0, later)
    assert later.cursor.topic_name == "x"


def test_a_cursor_behind_the_tenants_topics_is_the_end() -> None:
    for name, is_kept in (("a.x", True), ("b.x", False)):
        value = make("DescribeTopicPartitionsResponse", next_cursor={"topic_name": name})
        ruled(0, value)
        assert (value.next_cursor is not None) == is_kept


def test_configurations_of_brokers_are_altered_where_that_is_allowed() -> None:
    own = {"resource_type": 2, "resource_name": "x"}
    ruled(1, make("AlterConfigsRequest", resources=[own]), cluster=False)
    value = make("AlterConfigsRequest", resources=[own, {"resource_type": 4, "resource_name": "1"}])
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        ruled(1, value, cluster=False)
    ruled(1, value)
    assert [each.resource_name for each in value.resources] == ["a.x", "1"]


def test_no_client_gets_a_fetch_session() -> None:
    value = make("FetchRequest", session_id=0, session_epoch=0)
    assert ruled(13, value)
    assert value.session_epoch == -1
    assert not ruled(13, value)
    with pytest.raises(Refusal, match="FETCH_SESSION_ID_NOT_FOUND"):
        ruled(7, make("FetchRequest", session_id=5, session_epoch=1))


def test_fetches_with_names_are_limited_and_those_with_ids_are_not() -> None:
    for version, size in ((3, MOST), (12, MOST), (13, 50_000_000)):
        value = make("FetchRequest", session_epoch=-1, max_bytes=50_000_000)
        assert ruled(version, value) == (size == MOST)
        assert value.max_bytes == size


def test_leaders_of_all_partitions_are_not_elected() -> None:
    with pytest.raises(Refusal, match="that it names"):
        ruled(2, make("ElectLeadersRequest", topic_partitions=None))
    assert ruled(2, make("ElectLeadersRequest", topic_partitions=[])) is False


def test_patterns_are_confined_and_none_stays_none() -> None:
    for name, attribute in (
        ("ListTransactionsRequest", "transactional_id_pattern"),
        ("ConsumerGroupHeartbeatRequest", "subscribed_topic_regex"),
    ):
        for given, sent, changed in (("x.*", r"a\.(?:x.*)", True), (None, None, False), ("", "", False)):
            value = make(name, **{attribute: given})
            assert ruled(1, value) is changed
            assert getattr(value, attribute) == sent
    value = make("StreamsGroupHeartbeatRequest", topology={"subtopologies": [{"source_topic_regex": ["x.*"]}]})
    ruled(0, value)
    assert value.topology.subtopologies[0].source_topic_regex == [r"a\.(?:x.*)"]
    ruled(0, make("StreamsGroupHeartbeatRequest", topology=None))


@pytest.mark.parametrize(("version", "name"), [(11, ""), (12, None)])
def test_a_topic_by_the_id_of_another_tenants_does_not_exist(version: int, name: str | None) -> None:
    asked = make("MetadataRequest", topics=[{"topic_id": ID, "name": None}])
    partition = {"leader_id": 1}
    topics = [{"name": "b.x", "topic_id": each, "partitions": [partition], "is_internal": True} for each in (ID, OTHER)]
    told = make("MetadataResponse", topics=topics)
    ruled(version, told, asked)
    unknown = make("MetadataResponse", "MetadataResponseTopic", error_code=100, name=name, topic_id=ID)
    assert told.topics[0] == unknown  # KafkaApis answers so for an id that no topic has
    assert told.topics[1].name == "b.x"  # not asked for: it will be left out


def test_acls_whose_request_is_not_known_are_not_shown() -> None:
    for name in ("DescribeAclsResponse", "DeleteAclsResponse"):
        with pytest.raises(NotOurs):
            ruled(2, make(name))


def test_what_brokers_say_of_an_expression_is_said_of_the_clients() -> None:
    confined = r"a\.(?:x[)"
    value = make("ConsumerGroupHeartbeatResponse", error_message=f"`{confined}` is not valid")
    request = make("ConsumerGroupHeartbeatRequest", subscribed_topic_regex=confined)
    ruled(1, value, request)
    assert value.error_message == "`x[` is not valid"


REFUSAL = Refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for tenants")


def asked(api_key: ApiKey, version: int, message: Any) -> Request:
    return Request(connection(), api_key, version, 7, "app", message)


def test_without_room_for_an_error_the_connection_is_closed() -> None:
    unknown = asked(ApiKey.LIST_GROUPS, 99, make("ListGroupsRequest"))
    assert refused(unknown, REFUSAL) == Close("CLUSTER_AUTHORIZATION_FAILED: not for tenants")


def test_where_no_response_is_expected_the_connection_is_closed() -> None:
    for acks, verdict in ((0, Close), (1, Reply)):
        assert isinstance(refused(asked(ApiKey.PRODUCE, 13, make("ProduceRequest", acks=acks)), UnknownId()), verdict)


def test_partitions_of_an_unknown_id_have_the_error_and_nothing_else_has() -> None:
    partitions = [{"partition": number} for number in (0, 3)]
    fetch = make("FetchRequest", topics=[{"topic_id": ID, "partitions": partitions}])
    verdict: Any = refused(asked(ApiKey.FETCH, 13, fetch), UnknownId())
    shown = [
        (topic.topic_id, each.partition_index, each.error_code, each.high_watermark, each.records)
        for topic in verdict.message.responses
        for each in topic.partitions
    ]
    assert verdict.message.error_code == 0
    assert shown == [(ID, 0, 100, -1, b""), (ID, 3, 100, -1, b"")]
    topic = {"topic_id": ID, "partition_indexes": [0, 3]}
    groups = [{"group_id": name, "topics": topics} for name, topics in (("g", [topic]), ("all", None), ("g", [topic]))]
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
