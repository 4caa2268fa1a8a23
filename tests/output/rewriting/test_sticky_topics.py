"""User data of the sticky assignors: bytes written by hand after AbstractStickyAssignor's schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.rewriting.sticky_topics import rewrite_sticky

# StickyAssignorUserData v1: one topic "orders" with partitions 0 and 2; generation 5
VERSION_1 = bytes.fromhex("0000000100066f726465727300000002000000000000000200000005")


def upper(name: str) -> str:
    return name.upper()


@pytest.mark.parametrize("data", [VERSION_1, VERSION_1[:-4]], ids=["v1", "v0"])
def test_topics_get_other_names_and_the_rest_stays(data: bytes) -> None:
    assert rewrite_sticky(data, upper) == data.replace(b"orders", b"ORDERS")


def test_a_generation_alone_stays() -> None:
    assert rewrite_sticky(b"\0\0\0\7", upper) == b"\0\0\0\7"


@pytest.mark.parametrize("data", [VERSION_1 + b"x", VERSION_1[:-5], b"\xff" * 30, b"\0\0\0\1\x7f\xff", b"abc"])
def test_anything_else_is_told_apart(data: bytes) -> None:
    assert rewrite_sticky(data, upper) is None


@given(st.binary(max_size=60))
def test_any_bytes_keep_their_size_or_are_refused(data: bytes) -> None:
    written = rewrite_sticky(data, lambda name: "x" * len(name.encode("utf-8", "surrogateescape")))
    assert written is None or len(written) == len(data)
