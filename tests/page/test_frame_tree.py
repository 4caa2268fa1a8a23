"""The tree of a frame: places cover it, what is inside fields hangs below them, credentials are not in it."""

import base64
import gzip
import json
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.page.frame_tree import FIXED, MOST_ELEMENTS, Node, as_plain, locate
from kproxy.protocol import message
from tests.page.test_detail import every_detail
from tests.support.corpus import CAPTURES, GOLDEN
from tests.support.sampled import sampled

NAMES = sorted(path.name for path in CAPTURES.glob("0[1-6]*.pcap"))


def nodes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(inner for child in tree["children"] for inner in nodes(child))]


@pytest.mark.parametrize("name", sampled(NAMES, NAMES[:3]))
def test_places_are_in_the_bytes_and_in_their_parents(name: str) -> None:
    sides = 0
    for found in every_detail(CAPTURES / name):
        for side in (found["request"], found["response"]):
            if side is None or side["bytes"] is None:
                continue
            sides += 1
            tree = side["tree"]
            assert (tree["start"], tree["end"]) == (0, len(base64.b64decode(side["bytes"])))
            at = 0
            for part in tree["children"]:
                assert part["start"] == at
                at = part["end"]
            assert at == tree["end"] - side["trailing"]
            for node in nodes(tree):
                for child in node["children"]:
                    if child["start"] is not None:
                        assert node["start"] <= child["start"] <= child["end"] <= node["end"]
    assert sides > 20


def test_what_is_inside_fields_is_below_them() -> None:
    found = [
        one
        for one in every_detail(CAPTURES / "03-classic-rebalance-range.pcap")
        if one["row"]["apiName"] == "JoinGroup"
    ]
    metadata = [node for one in found for node in nodes(one["request"]["tree"]) if node["name"] == "metadata"]
    inside = [child for node in metadata for child in node["children"]]
    assert {child["name"] for child in inside} == {"consumer-subscription"}
    values = [node for child in inside for node in child["children"] if node["name"] == "value"]
    topics = [node for value in values for node in value["children"] if node["name"] == "topics"]
    assert {node["value"] for topic in topics for node in topic["children"]} == {"rebal"}


def test_credentials_are_withheld_in_tree_and_bytes() -> None:
    found = [
        one for one in every_detail(CAPTURES / "06-sasl-scram.pcap") if one["row"]["apiName"] == "SaslAuthenticate"
    ]
    assert found
    for one in found:
        (node,) = [node for node in nodes(one["request"]["tree"]) if node["name"] == "authBytes"]
        assert node["value"] == "(withheld)" and "credential" in node["note"]
        assert set(re.findall(rb"p=(.)", base64.b64decode(one["request"]["bytes"]))) <= {b"x"}


def test_large_integers_are_texts() -> None:
    assert as_plain(Node("n", "int64", 1 << 60))["value"] == str(1 << 60)
    assert as_plain(Node("n", "int64", -5))["value"] == -5
    assert json.dumps(as_plain(Node("a", "b", None, 1, 2)))


BEFORE, BEHIND = b"\xff" * 7, b"\xfe" * 5  # what is around a message must not matter


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(Path(GOLDEN) / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def located(line: dict[str, Any]) -> tuple[Node, bytes]:
    body = bytes.fromhex(line["hex"])
    release = None
    for layout in message(line["message"]).layouts[1:]:
        if line["version"] in layout.versions and line.get("older"):
            release = layout.release
    data = BEFORE + body + BEHIND
    return locate(line["message"], line["version"], data, len(BEFORE), len(BEFORE) + len(body), release), data


def check_nesting(node: Node) -> None:
    """Children lie in their parent, one behind the other without gaps; what is before the first is a size, a count or a mark."""
    assert node.start is not None and node.end is not None
    at = node.children[0].start if node.children else node.end
    assert at is not None and node.start <= at
    for child in node.children:
        assert child.start == at, (node.name, child.name)
        check_nesting(child)
        at = child.end
    assert at == node.end or node.more or is_empty_tags(node, at)


def is_empty_tags(node: Node, at: int | None) -> bool:
    """A flexible struct without tagged fields ends in one byte, their count."""
    return at is not None and node.end is not None and node.end - at == 1


def value_bytes(node: Node) -> list[bytes]:
    """The ways in which Kafka may write the value of a leaf, without the size before it."""
    if node.type in FIXED:
        return [struct.pack(FIXED[node.type], node.value)]
    if node.value is None:
        return [b""]
    if node.type == "uuid":
        return [base64.urlsafe_b64decode(node.value + "==")]
    return [node.value.encode() if node.type == "string" else base64.b64decode(node.value)]


def check_leaves(node: Node, data: bytes) -> None:
    for child in node.children:
        check_leaves(child, data)
    if (
        node.children
        or node.type.startswith(("[]", "version", "uvarint"))
        or node.type[0].isupper()
        or node.type == "records"
    ):
        return
    written = data[node.start : node.end]
    for expected in value_bytes(node):
        before = written[: len(written) - len(expected)]
        assert written.endswith(expected), (node.name, node.type, node.value)
        assert len(before) <= 15  # a tag, its size, and the size of the value
        assert node.type not in FIXED or node.name == "taggedFields" or len(before) in (0, *range(2, 11))


def as_json(node: Node) -> Any:
    """The fields of a struct as Kafka's JSON has them."""
    if node.type.startswith("[]"):
        return [as_json(child) for child in node.children]
    if node.children or node.type.startswith("version"):
        return {
            child.name + ("SizeInBytes" if child.type == "records" and child.value is not None else ""): as_json(child)
            for child in node.children
            if child.name != "taggedFields" and not child.name.startswith("tag ")
        }
    return node.value


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(same(found[k], v) for k, v in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if found == [] and expected is None:
        return True  # a null array has no children, as an empty one
    if isinstance(expected, str) and isinstance(found, str) and len(found) >= 4_000:
        return expected.startswith(found[:4_000])
    return bool(found == expected)


@pytest.mark.parametrize("name", ["messages", "structs"])
def test_every_leaf_is_where_kafka_wrote_it(name: str) -> None:
    count = 0
    for line in lines(name):
        node, data = located(line)
        assert node.note is None, (line["message"], line["version"], node.note)
        check_nesting(node)
        check_leaves(node, data)
        assert same(as_json(node), line["json"]), (line["message"], line["version"], as_json(node), line["json"])
        count += 1
    assert count > 1_500


def test_damaged_bytes_are_read_as_far_as_they_go() -> None:
    source = random.Random(3)
    for line in source.sample(list(lines("messages")), 400):
        body = bytearray.fromhex(line["hex"])
        if not body:
            continue
        cut = bytes(body[: source.randrange(len(body))])
        locate(line["message"], line["version"], cut, 0, len(cut))
        body[source.randrange(len(body))] ^= 1 << source.randrange(8)
        node = locate(line["message"], line["version"], bytes(body), 0, len(body))
        assert node.end == len(body)


def test_a_cut_message_has_the_fields_before_the_cut() -> None:
    line = next(line for line in lines("messages") if line["message"] == "FetchRequest" and line["version"] == 4)
    body = bytes.fromhex(line["hex"])
    node = locate("FetchRequest", 4, body, 0, 10)
    assert [child.name for child in node.children] == ["replicaId", "maxWaitMs", "minBytes"]
    assert node.note is not None and "are here" in node.note


def test_long_arrays_are_bounded() -> None:
    topics = message("MetadataRequest")
    one = topics.from_json(0, json.dumps({"topics": [{"name": "t"}] * 5_000}))
    data = topics.encode(0, one)
    (array,) = locate("MetadataRequest", 0, data, 0, len(data)).children
    assert (len(array.children), array.more, array.end) == (MOST_ELEMENTS, 4_000, len(data))


def test_a_version_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="no version 99"):
        locate("FetchRequest", 99, b"", 0, 0)


def test_an_empty_array_is_not_null() -> None:
    """FetchRequest v12: compact arrays, whose count is one more, and 0 for null."""
    empty = bytes.fromhex("ffffffff 000001f4 00000001 7fffffff 00 00000000 ffffffff 01 01 01 00")
    topics = next(
        child for child in locate("FetchRequest", 12, empty, 0, len(empty)).children if child.name == "topics"
    )
    assert (topics.value, topics.children) == ([], [])
    unsubscribed = bytes.fromhex("00 01 01 00")  # MetadataRequest v12: null topics, which means all
    everything = locate("MetadataRequest", 12, unsubscribed, 0, len(unsubscribed)).children[0]
    assert (everything.name, everything.value, everything.children) == ("topics", None, [])
