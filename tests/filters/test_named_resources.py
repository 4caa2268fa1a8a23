"""What requests name, how their responses went, and topics that responses name though their requests do not."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.filters.contract import Request
from kproxy.filters.error_responses import error_response
from kproxy.filters.named_resources import (
    MOST_RESOURCES,
    TELLING,
    acts_on_all_topics,
    errors_of,
    keep_topics,
    names_topics,
    resources_of,
    topic_places,
    topics_in,
    topics_of,
    without,
)
from kproxy.protocol import ApiKey, Direction, known_message, response_message
from kproxy.protocol.facts import Field, facts
from tests.support.filtering import connection
from tests.support.marked import VERSIONS, sample_request, sample_response
from tests.support.messages import make
from tests.support.wire import newest_layout

ENTITIES = {"topicName", "groupId", "transactionalId"}


def texts(fields: tuple[Field, ...], struct: Any, version: int) -> set[str]:
    """The names of topics, groups and transactions in a request, found by another walk than the one under test."""
    found: set[str] = set()
    for field in fields:
        value = getattr(struct, field.attribute) if version in field.versions else None
        values = value if isinstance(value, list) else [value]
        if field.is_struct:
            found |= {text for each in values if each is not None for text in texts(field.fields, each, version)}
        elif field.entity in ENTITIES:
            found |= {each for each in values if each}
    return found


def test_every_topic_group_and_transaction_is_named() -> None:
    for api_key, version in VERSIONS:
        sample = sample_request(api_key, version)
        layout = newest_layout(f"{facts().apis[api_key].name}Request", version)
        named = {str(each.get("name")) for each in resources_of(api_key, version, sample)}
        assert texts(layout.fields, sample, version) <= named, (api_key, version)


def principals(fields: tuple[Field, ...], struct: Any, version: int, path: str = "") -> set[str]:
    """The names of principals in a request: users and owners, not the kinds of principals ("User")."""
    found: set[str] = set()
    for field in fields:
        value = getattr(struct, field.attribute) if version in field.versions else None
        below = f"{path}.{field.name}"
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            if field.is_struct:
                found |= principals(field.fields, each, version, below)
            elif field.type == "string" and re.search(PRINCIPALS, below) and not below.endswith("Type"):
                found.add(each)
    return found


PRINCIPALS = r"Principal|Owner|Renewer|Upsertions\.Name|Deletions\.Name|Users\.Name|Entity\.EntityName"
WITH_PRINCIPALS = {29, 30, 31, 38, 41, 49, 50, 51}  # ACLs, tokens, quotas, SCRAM


def test_every_principal_is_named() -> None:
    for api_key, version in VERSIONS:
        sample = sample_request(api_key, version)
        layout = newest_layout(f"{facts().apis[api_key].name}Request", version)
        found = principals(layout.fields, sample, version)
        shown = {str(value) for each in resources_of(api_key, version, sample) for value in each.values()}
        assert found <= shown, (api_key, version)
        assert bool(found) == (api_key in WITH_PRINCIPALS), (api_key, version)


def test_settings_are_named_and_their_values_are_not() -> None:
    config = {"name": "retention.ms", "value": "canary-secret"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    found = resources_of(44, 1, make("IncrementalAlterConfigsRequest", resources=[resource]))
    assert found == [{"type": "topic", "name": "t", "settings": ("retention.ms",)}]


def test_acls_with_whom_they_allow_what() -> None:
    creation = {
        "resource_type": 3,
        "resource_name": "g",
        "principal": "User:ann",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    assert resources_of(30, 3, make("CreateAclsRequest", creations=[creation])) == [
        {
            "type": "group",
            "name": "g",
            "pattern": "LITERAL",
            "principal": "User:ann",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        }
    ]
    creation |= {"resource_pattern_type": 4, "operation": 99, "permission_type": 2}
    (found,) = resources_of(30, 3, make("CreateAclsRequest", creations=[creation]))
    assert (found["pattern"], found["operation"], found["permission"]) == ("PREFIXED", "99", "DENY")
    (found,) = resources_of(30, 0, make("CreateAclsRequest", creations=[creation]))
    asked = make(
        "DescribeAclsRequest", resource_type_filter=2, resource_name_filter="t", pattern_type_filter=2, operation=1
    )
    (found,) = resources_of(29, 3, asked)
    assert (found["type"], found["name"], found["pattern"], found["operation"]) == ("topic", "t", "MATCH", "ANY")


def test_quotas_with_whom_they_are_for_and_without_their_values() -> None:
    """As kafka-configs.sh calls it: --entity-type users --entity-name ann --entity-type clients --entity-default."""
    entity = [
        {"entity_type": "user", "entity_name": "ann"},
        {"entity_type": "client-id", "entity_name": None},
    ]
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1234.5}]}
    whole, settings = ("user=ann", "client-id=<default>"), ("producer_byte_rate",)
    found = resources_of(49, 1, make("AlterClientQuotasRequest", entries=[entry]))
    assert found == [
        {"type": "quota", "entity": "user", "name": "ann", "quotaOf": whole, "settings": settings},
        {"type": "quota", "entity": "client-id", "name": None, "quotaOf": whole, "settings": settings},
    ]
    component = {"entity_type": "ip", "match_type": 1, "match": None}
    found = resources_of(48, 1, make("DescribeClientQuotasRequest", components=[component]))
    assert found == [{"type": "quota", "entity": "ip", "name": None, "match": "default"}]


def test_users_without_their_credentials() -> None:
    upsertion = {"name": "ann", "salt": b"canary-secret", "salted_password": b"canary-secret"}
    found = resources_of(51, 0, make("AlterUserScramCredentialsRequest", upsertions=[upsertion]))
    assert found == [{"type": "user", "name": "ann"}]


def test_there_is_a_bound() -> None:
    topics = [{"name": f"t{n}"} for n in range(5_000)]
    found = resources_of(19, 7, make("CreateTopicsRequest", topics=[*topics, *topics]))
    assert len(found) == MOST_RESOURCES + 1


def test_every_error_code_is_counted() -> None:
    """Those that error_response puts in, whose places Kafka's own classes confirm."""
    for api_key, version in VERSIONS:
        made = error_response(Request(connection(), api_key, version, 7, "c", sample_request(api_key, version)), 29)
        if made is None:
            continue
        expected = repr(made).count("error_code=29")
        assert errors_of(api_key, version, made)["TOPIC_AUTHORIZATION_FAILED"] == expected, (api_key, version)


def test_requests_that_name_topics() -> None:
    named = {api_key: names_topics(api_key) for api_key in (0, 1, 3, 8, 11, 12, 18, 19, 33, 36, 68, 78, 9_999)}
    assert {api_key for api_key, has_topics in named.items() if has_topics} == {0, 1, 3, 8, 19, 33, 68, 78}


TOPIC = 2  # of ResourceType, and of ConfigResource.Type
NO_TOPICS = {(ApiKey.LIST_CONFIG_RESOURCES, 0)}  # only subscriptions of client metrics (KIP-714)
CASES = [
    (key, version)
    for key in sorted(TELLING)
    if (known := response_message(key)) is not None
    for version in known.versions
    if (key, version) not in NO_TOPICS
]
# What else can be asked for without a name. "A null list" is what Kafka's documentation of the field says of it
HEEDED_ELSEWHERE = {
    ApiKey.METADATA: "the filters take topics out of its response themselves, as clients ask by ids as well",
    ApiKey.ELECT_LEADERS: "an action on all partitions: acts_on_all_topics",
    ApiKey.DELETE_ACLS: "an action on what the patterns of a request match: acts_on_all_topics",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "a null list means that nothing has changed since the last heartbeat",
    ApiKey.SHARE_GROUP_HEARTBEAT: "a null list means that nothing has changed since the last heartbeat",
}
# A list that is empty means all there are
EMPTY_MEANS_ALL = {ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS}


def fields_of(message: Any) -> tuple[Field, ...]:
    return newest_layout(message.name, max(message.versions)).fields


def walk(fields: tuple[Field, ...], above: tuple[Field, ...] = ()) -> Iterator[tuple[Field, ...]]:
    for field in fields:
        yield (*above, field)
        yield from walk(field.fields, (*above, field))


def names_a_topic(way: tuple[Field, ...]) -> bool:
    return way[-1].entity == "topicName" or (way[-1].type == "uuid" and way[-1].name == "TopicId")


def names_a_resource(way: tuple[Field, ...]) -> bool:
    return way[-1].name == "ResourceName"


def tells_of_topics_not_asked_for(api_key: int) -> bool:
    """By the facts: whether a list of topics may be null, or only the response names topics or resources."""
    asked, told = (known_message(direction, api_key) for direction in Direction)
    ways = list(walk(fields_of(asked)))
    may_be_null = any(each.is_array and each.nullable for way in ways if names_a_topic(way) for each in way)
    answers = list(walk(fields_of(told)))
    only_told = any(map(names_a_topic, answers)) and not any(map(names_a_topic, ways))
    resources = any(map(names_a_resource, answers)) and not any(map(names_a_resource, ways))
    return may_be_null or only_told or resources


def test_each_api_whose_response_may_name_what_its_request_does_not_is_heeded() -> None:
    brokers = [key for key, api in facts().apis.items() if "broker" in api.listeners]
    found = {ApiKey(key) for key in brokers if tells_of_topics_not_asked_for(key)}
    assert found | EMPTY_MEANS_ALL == TELLING | HEEDED_ELSEWHERE.keys()


def topic_texts(struct: Any, fields: tuple[Field, ...], version: int) -> Iterator[tuple[Any, str]]:
    """The names of topics in a message, with the structs that have them."""
    for field in fields:
        if version not in field.versions:
            continue
        value = getattr(struct, field.attribute)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if field.is_struct:
            for each in values:
                yield from topic_texts(each, field.fields, version)
        elif (
            field.entity == "topicName"
            or field.name == "ResourceName"
            or (field.type == "uuid" and field.name == "TopicId")
        ):
            yield from ((struct, each) for each in values)


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_one_topic_is_taken_out_and_all_others_stay(api_key: int, version: int) -> None:
    layout = newest_layout(f"{facts().apis[api_key].name}Response", version)

    def sample() -> Any:
        made = sample_response(api_key, version)
        for struct, _ in topic_texts(made, layout.fields, version):
            if hasattr(struct, "resource_type"):
                struct.resource_type = TOPIC
        return made

    def named(made: Any) -> set[str]:
        return {text for _, text in topic_texts(made, layout.fields, version)}

    def name_of(topic_id: str) -> str:
        return topic_id

    every = topics_in(api_key, version, sample(), name_of)
    assert {topic for topic in every if topic is not None} <= named(sample())
    assert every
    for topic in every:
        made = sample()
        without(api_key, version, made, {topic}, name_of)
        gone = named(sample()) - named(made)
        assert topic in gone or (
            api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS and topic == sample().next_cursor.topic_name
        )
        assert topic not in topics_in(api_key, version, made, name_of)
        assert len([each for each in every if each in gone]) == 1
    kept = sample()
    without(api_key, version, kept, {"another"}, name_of)
    assert kept == sample()


def test_the_next_page_does_not_say_which_topic_it_begins_with() -> None:
    """A name that is before it and after the last: the broker goes on with what is first from there (KIP-966)."""

    def paged(*names: str, cursor: str) -> Any:
        topics = [{"name": n} for n in names]
        after = {"topic_name": cursor, "partition_index": 4}
        made = make("DescribeTopicPartitionsResponse", topics=topics, next_cursor=after)
        without(75, 0, made, {"secret-1"}, lambda topic_id: None)
        return made.next_cursor.topic_name, made.next_cursor.partition_index

    assert paged("open", cursor="secret-1") == ("s", 0)
    assert paged("open", "second", cursor="secret-1") == ("secr", 0)
    assert paged(cursor="secret-1") == ("s", 0)
    assert paged("open", cursor="other") == ("other", 4)
    name, index = paged("open", "secret-1", cursor="secret-1")  # in the midst of its partitions
    assert "secret-1" < name < "secret-1." and index == 0


def test_resources_of_other_types_are_no_topics() -> None:
    types = (TOPIC, 3, 4)
    told = [{"resource_type": each, "resource_name": "x"} for each in types]
    made = make("DescribeAclsResponse", resources=told)
    without(29, 3, made, {"x"}, lambda topic_id: None)
    assert [each.resource_type for each in made.resources] == [3, 4]


def test_actions_on_topics_that_are_not_named() -> None:
    assert acts_on_all_topics(43, make("ElectLeadersRequest", topic_partitions=None))
    assert not acts_on_all_topics(43, make("ElectLeadersRequest", topic_partitions=[]))


ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4  # Kafka's codes of PatternType; of ResourceType 1 is ANY, 3 is GROUP


@pytest.mark.parametrize(
    ("resource_type", "name", "pattern_type", "expected"),
    [
        *((TOPIC, "x", LITERAL, False), (TOPIC, "x", PREFIXED, True), (TOPIC, "*", LITERAL, True)),
        *((TOPIC, "x", ANY, True), (TOPIC, "x", MATCH, True), (TOPIC, None, LITERAL, True)),
        *((1, None, ANY, True), (1, "x", LITERAL, True)),
        *((3, "x", LITERAL, False), (3, "*", LITERAL, False), (3, None, ANY, False)),
    ],
)
def test_acls_that_are_for_topics_without_their_names(
    resource_type: int, name: str | None, pattern_type: int, expected: bool
) -> None:
    deleted = {"resource_type_filter": resource_type, "resource_name_filter": name, "pattern_type_filter": pattern_type}
    assert acts_on_all_topics(31, make("DeleteAclsRequest", filters=[deleted])) is expected
    if name is not None and resource_type != ANY:
        created = {"resource_type": resource_type, "resource_name": name, "resource_pattern_type": pattern_type}
        assert acts_on_all_topics(30, make("CreateAclsRequest", creations=[created])) is expected


ORDERS = "AAAAAAAAAAAAAAAAAAAAAQ"


def offsets(*names: str) -> Any:
    topics = [{"name": name} for name in names]
    return make("OffsetFetchRequest", groups=[{"group_id": "g", "topics": topics}])


def test_topics_of_requests_are_found_by_name_and_by_id_and_below_other_arrays() -> None:
    by_id = make("ProduceRequest", topic_data=[{"topic_id": ORDERS}])
    for api_key, version, value, expected in (
        (ApiKey.OFFSET_FETCH, 8, offsets("a", "b"), [("a", ""), ("b", "")]),
        (ApiKey.DELETE_TOPICS, 1, make("DeleteTopicsRequest", topic_names=["c"]), [("c", "")]),
        (ApiKey.PRODUCE, 13, by_id, [("", ORDERS)]),
        (ApiKey.HEARTBEAT, 4, make("HeartbeatRequest"), []),
    ):
        assert list(topics_of(value, topic_places(api_key, version))) == expected


def test_a_message_keeps_only_some_topics() -> None:
    value = offsets("a", "b")
    keep_topics(value, topic_places(ApiKey.OFFSET_FETCH, 8), lambda name, _: name == "b")
    assert value == offsets("b")
