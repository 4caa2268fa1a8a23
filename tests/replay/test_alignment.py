"""Elements of two arrays paired, on answers built by hand."""

from typing import Any

from kproxy.protocol.structs import struct_types
from kproxy.replay.alignment import align
from kproxy.replay.identities import Identities, Place

TOPIC = struct_types("MetadataResponse")["MetadataResponseTopic"]
MEMBER = struct_types("JoinGroupResponse")["JoinGroupResponseMember"]
ACL = struct_types("DescribeAclsResponse")["AclDescription"]


def names(pairs: list[tuple[Any, Any]], attribute: str) -> list[tuple[str | None, str | None]]:
    return [tuple(one and getattr(one, attribute) for one in pair) for pair in pairs]  # type: ignore[misc]


def test_by_name_whatever_the_order() -> None:
    old, new = [TOPIC(name="a"), TOPIC(name="b")], [TOPIC(name="c"), TOPIC(name="a")]
    pairs = align("MetadataResponse", old, new, Identities(), Place())
    assert names(pairs, "name") == [("a", "a"), ("b", None), (None, "c")]


def test_by_ids_in_place_of_each_other() -> None:
    identities = Identities(members={"old": "new"})
    old, new = [MEMBER(member_id="old"), MEMBER(member_id="x")], [MEMBER(member_id="x"), MEMBER(member_id="new")]
    pairs = align("JoinGroupResponse", old, new, identities, Place())
    assert names(pairs, "member_id") == [("old", "new"), ("x", "x")]


def test_by_place_where_nothing_identifies_them() -> None:
    old, new = [ACL(principal="a"), ACL(principal="b")], [ACL(principal="a")]
    pairs = align("DescribeAclsResponse", old, new, Identities(), Place())
    assert names(pairs, "principal") == [("a", "a"), ("b", None)]
    assert align("DescribeAclsResponse", old, new, Identities(), Place(), by_place=False) == []


def test_keys_that_come_twice_do_not_identify() -> None:
    old, new = [TOPIC(name="a"), TOPIC(name="a")], [TOPIC(name="a")]
    assert len(align("MetadataResponse", old, new, Identities(), Place())) == 2
    assert align("MetadataResponse", [], [], Identities(), Place()) == []
