"""Kafka's dialect of JSON: each habit of it that a released jar shows, in the smallest definition that has it."""

import pytest

from kproxy.extract.dialect import Field, Message, parse_json, parse_message
from kproxy.protocol.versions import Versions


def message(fields: str, more: str = "") -> Message:
    """A definition with these fields, and with more keys."""
    text = f'{{"apiKey": 7, "type": "request", "name": "ARequest", "validVersions": "0-3", "fields": [{fields}]{more}}}'
    return parse_message(text, module="kafka-clients", release="4.3.1")


def only_field(text: str) -> Field:
    (field,) = message(text).fields
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
    found = message(
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
    first, second = message(fields, more).fields
    assert (first.type, second.type) == ("[]Pair", "Pair")
    assert [field.name for field in first.fields] == ["Left"]
    assert first.fields == second.fields
    assert first.is_struct
    assert not first.fields[0].is_struct
