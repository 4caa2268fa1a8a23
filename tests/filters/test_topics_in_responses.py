"""Topics that responses name, of requests that name none of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.filters.topics_in_responses import TELLING, acts_on_all_topics, topics_in, without
from kproxy.protocol import ApiKey, request_message, response_message
from kproxy.protocol.facts import Field, facts
from tests.support.filtering import make, part
from tests.support.sample_requests import sample_response
from tests.support.wire import newest_layout

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
    asked, told = request_message(api_key), response_message(api_key)
    assert asked is not None and told is not None
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


def texts(struct: Any, fields: tuple[Field, ...], version: int) -> Iterator[tuple[Any, str]]:
    """The names of topics in a message, with the structs that have them."""
    for field in fields:
        if version not in field.versions:
            continue
        value = getattr(struct, field.attribute)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if field.is_struct:
            for each in values:
                yield from texts(each, field.fields, version)
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
        for struct, _ in texts(made, layout.fields, version):
            if hasattr(struct, "resource_type"):
                struct.resource_type = TOPIC
        return made

    def named(made: Any) -> set[str]:
        return {text for _, text in texts(made, layout.fields, version)}

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
        topics = [
            part("DescribeTopicPartitionsResponse", "DescribeTopicPartitionsResponseTopic", name=n) for n in names
        ]
        after = part("DescribeTopicPartitionsResponse", "Cursor", topic_name=cursor, partition_index=4)
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
    told = [
        part("DescribeAclsResponse", "DescribeAclsResource", resource_type=each, resource_name="x") for each in types
    ]
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
    deleted = part(
        "DeleteAclsRequest",
        "DeleteAclsFilter",
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern_type,
    )
    assert acts_on_all_topics(31, make("DeleteAclsRequest", filters=[deleted])) is expected
    if name is not None and resource_type != ANY:
        created = part(
            "CreateAclsRequest",
            "AclCreation",
            resource_type=resource_type,
            resource_name=name,
            resource_pattern_type=pattern_type,
        )
        assert acts_on_all_topics(30, make("CreateAclsRequest", creations=[created])) is expected
