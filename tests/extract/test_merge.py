"""Which differences between releases make a block of their own; definitions by hand, as small as they get."""

import json
from typing import Any

import pytest

from kproxy.extract.dialect import Message, parse_message
from kproxy.extract.merge import can_read, merge, wire_layout

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
