"""Kafka's dialect of JSON: each habit of it that a released jar shows, in the smallest definition that has it."""

import json
from typing import Any

import pytest

from kproxy.extract.definitions import Field, Message, can_read, merge, parse_json, parse_message, wire_layout
from kproxy.protocol.versions import Versions


def parsed(fields: str, more: str = "") -> Message:
    """A definition with these fields, and with more keys."""
    text = f'{{"apiKey": 7, "type": "request", "name": "ARequest", "validVersions": "0-3", "fields": [{fields}]{more}}}'
    return parse_message(text, module="kafka-clients", release="4.3.1")


def only_field(text: str) -> Field:
    (field,) = parsed(text).fields
    return field


@pytest.mark.parametrize(
    "text",
    [
        '// a licence\n{"a": 1}',
        '/* a licence\n// in two lines */ {"a": /* one */ 1}',
        '{"a": 1 // one, and a "quote\n}',
        '{"a": 1}\n  ]}\n',  # 2.8's DescribeProducersRequest ends like this
        '\n\n{"a": 1}',
    ],
)
def test_comments_and_what_follows_the_end_are_left_out(text: str) -> None:
    assert parse_json(text) == {"a": 1}


@pytest.mark.parametrize("about", ["see https://example.org/", "a /* in */ text", 'a \\" and // more'])
def test_comment_signs_in_a_string_are_text(about: str) -> None:
    assert parse_json(f'{{"about": "{about}"}}') == {"about": about.replace("\\", "")}


@pytest.mark.parametrize("text", ["", "[]", '"name"', "{", "// nothing"])
def test_what_is_no_definition_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_a_definition_without_its_name_is_refused() -> None:
    with pytest.raises(KeyError, match="name"):
        parse_message('{"type": "data", "validVersions": "0"}', module="kafka-clients", release="4.3.1")


def test_a_message_says_what_it_is() -> None:
    found = parsed(
        "", ', "flexibleVersions": "2+", "listeners": ["broker", "controller"], "latestVersionUnstable": true'
    )
    assert (found.name, found.type, found.number, found.is_api) == ("ARequest", "request", 7, True)
    assert (found.versions, found.flexible) == (Versions.parse("0-3"), Versions.parse("2+"))
    assert (found.listeners, found.latest_unstable) == (("broker", "controller"), True)


def test_a_message_withdrawn_has_no_versions_and_no_fields() -> None:
    text = '{"apiKey": 4, "type": "request", "name": "LeaderAndIsrRequest", "validVersions": "none"}'
    found = parse_message(text, module="kafka-clients", release="4.3.1")
    assert not found.versions
    assert found.fields == ()


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("int32", '"0x7fffffff"', "2147483647"),
        ("int32", '"-1"', "-1"),
        ("int32", "-2", "-2"),
        ("int64", '"9223372036854775807"', "9223372036854775807"),
        ("int8", '"0"', None),
        ("uint16", "0", None),
        ("bool", '"true"', "true"),
        ("bool", "true", "true"),
        ("bool", '"false"', None),
        ("bool", "false", None),
        ("string", '"null"', "null"),
        ("string", '""', None),
        ("string", '"a b"', '"a b"'),
        ("float64", '"0.5"', "0.5"),
        ("float64", "0.0", None),
        ("[]int32", '"null"', "null"),
        ("[]int32", "null", None),  # a bare null is as good as no default
        ("bytes", '"null"', "null"),
    ],
)
def test_defaults_are_written_one_way(kind: str, default: str, expected: str | None) -> None:
    field = only_field(f'{{"name": "A", "type": "{kind}", "versions": "0+", "default": {default}}}')
    assert field.default == expected


def test_a_default_no_generator_accepts_is_refused() -> None:
    with pytest.raises(ValueError, match="a default of"):
        only_field('{"name": "A", "type": "uuid", "versions": "0+", "default": "x"}')


def test_a_tagged_field_may_leave_out_its_versions_and_write_its_tag_as_text() -> None:
    field = only_field('{"name": "A", "type": "int32", "tag": "0", "taggedVersions": "2+", "ignorable": "true"}')
    assert (field.tag, field.tagged, field.versions) == (0, Versions.parse("2+"), Versions.parse("2+"))
    assert field.ignorable


def test_names_keep_their_case() -> None:
    assert only_field('{"name": "timeoutMs", "type": "int32", "versions": "0+"}').name == "timeoutMs"


def test_a_map_key_an_entity_and_a_field_that_is_never_flexible() -> None:
    field = only_field(
        '{"name": "A", "type": "string", "versions": "1+", "nullableVersions": "2", "mapKey": true,'
        ' "entityType": "topicName", "flexibleVersions": "none"}'
    )
    assert (field.is_key, field.entity, field.never_flexible) == (True, "topicName", True)
    assert field.nullable == Versions.parse("2")


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        (
            '{"name": "A", "type": "[]Pair", "versions": "0+"}, {"name": "B", "type": "Pair", "versions": "0+"}',
            ', "commonStructs": [{"name": "Pair", "versions": "0+", "fields":'
            ' [{"name": "Left", "type": "int8", "versions": "0+"}]}]',
        ),
        (
            '{"name": "A", "type": "[]Pair", "versions": "0+", "fields":'
            ' [{"name": "Left", "type": "int8", "versions": "0+"}]}, {"name": "B", "type": "Pair", "versions": "0+"}',
            "",
        ),
    ],
    ids=["beside the fields", "by an earlier field"],
)
def test_structs_stand_where_they_are_used(fields: str, more: str) -> None:
    first, second = parsed(fields, more).fields
    assert (first.type, second.type) == ("[]Pair", "Pair")
    assert [field.name for field in first.fields] == ["Left"]
    assert first.fields == second.fields
    assert first.is_struct
    assert not first.fields[0].is_struct


PLAIN = {"name": "A", "type": "int32", "versions": "0+"}


def message(
    release: str, versions: str, *fields: dict[str, Any], flexible: str = "none", kind: str = "data"
) -> Message:
    definition = {
        "type": kind, "name": "M", "validVersions": versions, "flexibleVersions": flexible, "fields": fields,
    }  # fmt: skip
    return parse_message(json.dumps(definition), module="kafka-clients", release=release)


def blocks(*history: Message) -> list[tuple[str, str]]:
    return [(block.message.release, str(block.versions)) for block in merge(history)]


def tagged(tag: int, **more: Any) -> dict[str, Any]:
    return {"name": f"T{tag}", "type": "int32", "versions": "0+", "tag": tag, "taggedVersions": "0+", **more}


def test_the_newest_speaks_for_versions_it_no_longer_accepts() -> None:
    assert blocks(message("4.3.1", "2-3", PLAIN), message("3.9.2", "0-2", PLAIN)) == [("4.3.1", "0-3")]


def test_versions_that_nobody_declares_are_left_out() -> None:
    assert blocks(message("4.3.1", "3", PLAIN), message("3.9.2", "0-1", PLAIN)) == [("4.3.1", "0-1,3")]


def test_a_field_the_newest_lost_keeps_the_older_form() -> None:
    newest = message("4.3.1", "1-2", {**PLAIN, "versions": "1+"})
    assert blocks(newest, message("3.9.2", "0-2", PLAIN)) == [("4.3.1", "1-2"), ("3.9.2", "0")]


def test_a_layout_changed_in_place_is_kept_beside_the_newest() -> None:
    older = message("3.6.2", "0", PLAIN, {**PLAIN, "name": "B"})
    assert blocks(message("4.3.1", "0-1", PLAIN), message("3.9.2", "0", PLAIN), older) == [
        ("4.3.1", "0-1"),
        ("3.6.2", "0"),
    ]


def test_an_older_form_that_two_releases_share_is_kept_once() -> None:
    old = {"name": "A", "type": "string", "versions": "0+"}
    assert blocks(message("4.3.1", "2", PLAIN), message("3.9.2", "0-1", old), message("2.7.2", "0", old)) == [
        ("4.3.1", "2"),
        ("3.9.2", "0-1"),
    ]


def test_a_definition_without_versions_makes_no_block() -> None:
    assert blocks(message("4.3.1", "none"), message("3.9.2", "0", PLAIN)) == [("3.9.2", "0")]


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ({**PLAIN, "name": "Renamed"}, PLAIN),
        ({**PLAIN, "ignorable": True, "entityType": "brokerId", "mapKey": True, "default": "-1"}, PLAIN),
        ({**PLAIN, "type": "records"}, {**PLAIN, "type": "bytes"}),
        ({**PLAIN, "type": "[]X", "fields": [PLAIN]}, {**PLAIN, "type": "[]Y", "fields": [PLAIN]}),
        ({**PLAIN, "nullableVersions": "1+"}, PLAIN),  # compared at version 0
    ],
    ids=["name", "what is no bytes", "records", "struct name", "nullable in another version"],
)
def test_what_gives_the_same_bytes_is_one_block(newer: dict[str, Any], older: dict[str, Any]) -> None:
    assert blocks(message("4.3.1", "0", newer), message("3.9.2", "0", older)) == [("4.3.1", "0")]


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        (PLAIN, {**PLAIN, "type": "int64"}),
        (PLAIN, {**PLAIN, "type": "[]int32"}),
        ({**PLAIN, "type": "string", "nullableVersions": "0+"}, {**PLAIN, "type": "string"}),
        ({**PLAIN, "type": "X", "fields": [PLAIN]}, {**PLAIN, "type": "[]X", "fields": [PLAIN]}),
        ({**PLAIN, "type": "X", "fields": [PLAIN]}, {**PLAIN, "type": "X", "fields": [PLAIN, PLAIN]}),
        ({**PLAIN, "type": "string", "flexibleVersions": "none"}, {**PLAIN, "type": "string"}),
        (tagged(0), PLAIN),
        (tagged(0), tagged(1)),
        (tagged(0, default="1"), tagged(0, default="2")),
        (tagged(0, type="int64"), tagged(0)),
    ],
    ids=[
        "type", "array", "nullable", "one or many", "in a struct", "never flexible",
        "tagged", "another tag", "default of a tag", "type of a tag",
    ],
)  # fmt: skip
def test_what_gives_other_bytes_is_two_blocks(newer: dict[str, Any], older: dict[str, Any]) -> None:
    pair = message("4.3.1", "0", newer, flexible="0+"), message("3.9.2", "0", older, flexible="0+")
    assert blocks(*pair) == [("4.3.1", "0"), ("3.9.2", "0")]


def test_flexible_since_another_version_is_two_blocks() -> None:
    assert blocks(message("4.3.1", "0", PLAIN, flexible="0+"), message("3.9.2", "0", PLAIN, flexible="1+")) == [
        ("4.3.1", "0"),
        ("3.9.2", "0"),
    ]


def test_tags_that_were_added_need_no_block_but_tags_that_went_do() -> None:
    more = message("4.3.1", "0", PLAIN, tagged(0), tagged(1), flexible="0+", kind="request")
    less = message("3.9.2", "0", PLAIN, tagged(1), flexible="0+", kind="request")
    assert blocks(more, less) == [("4.3.1", "0")]
    assert can_read(wire_layout(more, 0), wire_layout(less, 0))
    assert not can_read(wire_layout(less, 0), wire_layout(more, 0))


def test_tags_added_inside_an_element_count_alike() -> None:
    def nested(*fields: dict[str, Any]) -> dict[str, Any]:
        return {"name": "S", "type": "[]S", "versions": "0+", "fields": list(fields)}

    more = message("4.3.1", "0", nested(PLAIN, tagged(0)), flexible="0+", kind="response")
    less = message("3.9.2", "0", nested(PLAIN), flexible="0+", kind="response")
    assert blocks(more, less) == [("4.3.1", "0")]
    assert blocks(less, more) == [("3.9.2", "0"), ("4.3.1", "0")]


def test_a_stored_record_may_hold_any_tag_so_older_tags_are_kept_apart() -> None:
    more = message("4.3.1", "0", PLAIN, tagged(0), flexible="0+", kind="metadata")
    less = message("3.9.2", "0", PLAIN, flexible="0+", kind="metadata")
    assert blocks(more, less) == [("4.3.1", "0"), ("3.9.2", "0")]
