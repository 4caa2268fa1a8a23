"""The tree of a frame: places cover it, what is inside fields hangs below them, credentials are not in it."""

import base64
import json
import re
from typing import Any

import pytest

from kproxy.page.exchange.frame_tree import as_plain
from kproxy.page.exchange.positions import Node
from tests.page.detailed import every_detail
from tests.support.traffic import CAPTURES

NAMES = sorted(path.name for path in CAPTURES.glob("0[1-6]*.pcap"))


def nodes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(inner for child in tree["children"] for inner in nodes(child))]


@pytest.mark.parametrize("name", NAMES)
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
