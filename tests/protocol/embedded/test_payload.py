"""What was found, as JSON; what could not be read, in its place."""

import json

import msgspec

from kproxy.errors import Malformed
from kproxy.protocol.embedded.payload import Context, Embedded, Opening, to_json


def test_an_embedded_payload_is_an_object_of_path_in_kind_and_json() -> None:
    one = Embedded("protocols[0].metadata", "request", "consumer-subscription", {"value": msgspec.Raw(b'{"a":1}')})
    assert one.to_json() == (
        b'{"path":"protocols[0].metadata","in":"request","kind":"consumer-subscription","json":{"value":{"a":1}}}'
    )
    assert one.value() == {"value": {"a": 1}}


def test_inside_a_record_there_is_no_side() -> None:
    assert json.loads(Embedded("value", None, "x", 1).to_json()) == {"path": "value", "kind": "x", "json": 1}


def test_a_broken_payload_stands_in_its_place_and_the_next_one_is_opened() -> None:
    opening = Opening("response", Context())

    def broken(data: bytes) -> object:
        raise Malformed("is not it", message="thing")

    assert opening.add("a", "x", broken, b"") is None
    assert opening.add("b", "x", len, b"123") == 3
    first, second = opening.found
    assert json.loads(first.to_json()) == {
        "path": "a", "in": "response", "kind": "x", "error": "thing: is not it (at byte 0)",
    }  # fmt: skip
    assert second.json == 3


def test_what_a_terminal_would_obey_is_escaped() -> None:
    """Hostile input 18: as the codec does in its JSON."""
    text = to_json({"user": "a\x1b[2J\x7f\x9b\u202e\u2028ö"})
    assert text == b'{"user":"a\\u001b[2J\\u007f\\u009b\\u202e\\u2028\xc3\xb6"}'
    assert json.loads(text) == {"user": "a\x1b[2J\x7f\x9b\u202e\u2028ö"}


def test_a_name_that_is_not_utf8_is_replaced() -> None:
    """Hostile input 18: decoded strings carry such bytes as lone surrogates."""
    name = b"t\xff".decode("utf-8", "surrogateescape")
    text = to_json({"topic": name, name: [name, msgspec.Raw(b"1")]})
    assert "\ufffd" in json.loads(text)["topic"]
    assert list(json.loads(text).values())[1][1] == 1
