"""Keys and values as people read them, and viewers that misbehave."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol.embedded.viewers import FAULTS_ALLOWED, MOST_SHOWN, Content, Viewers

VALUE = Content(topic="orders")


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (None, None),
        (b"", {"text": "", "size": 0}),
        (b"order-17", {"text": "order-17", "size": 8}),
        ("größe\n".encode(), {"text": "größe\n", "size": 8}),
        (b'{"a": [1, 2.5, null]}', {"json": {"a": [1, 2.5, None]}, "size": 21}),
        (b'{"a": 12345678901234567890}', {"json": {"a": 12345678901234567890}, "size": 27}),
        (b'{"a": NaN}', {"text": '{"a": NaN}', "size": 10}),
        (b"{not json", {"text": "{not json", "size": 9}),
        (b"\x00\x00\x00\x00\x00\x00\x00\x2a", {"hex": "000000000000002a", "size": 8}),  # a Java long, not a schema id
        (b"\x1b[31m", {"hex": "1b5b33316d", "size": 5}),
        (b"\xff\xfe", {"hex": "fffe", "size": 2}),
    ],
)
def test_bytes_are_shown_as_what_they_are(data: bytes | None, seen: object) -> None:
    assert Viewers().view(data, VALUE) == seen


def test_what_is_long_is_cut_and_tells_its_size() -> None:
    assert Viewers().view(b"\xff" * 5000, VALUE) == {"hex": "ff" * MOST_SHOWN, "size": 5000}
    text = Viewers().view("ö".encode() * 5000, VALUE)
    assert text == {"text": "ö" * MOST_SHOWN, "size": 10_000}


def test_passwords_of_connectors_are_withheld() -> None:
    """Hostile input 21: Connect keeps its configuration as JSON records."""
    config = {"properties": {"database.password": "canary", "topics": "a", "nested": [{"api_key": "canary"}]}}
    seen = Viewers().view(json.dumps(config).encode(), Content(topic="connect-configs"))
    assert "canary" not in json.dumps(seen)
    assert seen is not None
    assert seen["json"]["properties"]["topics"] == "a"


def test_json_without_end_is_not_parsed() -> None:
    seen = Viewers().view(b"[" * 60_000, VALUE)
    assert seen is not None
    assert seen.keys() == {"text", "size"}


class Gps:
    name = "gps"

    def view(self, data: bytes, content: Content) -> object | None:
        if content.topic != "positions" or content.part != "value":
            return None
        return {"latitude": data[0], "longitude": data[1]}


def test_a_viewer_of_ones_own_is_asked_first() -> None:
    viewers = Viewers()
    viewers.add(Gps())
    assert viewers.view(b"AB", Content(topic="positions")) == {"gps": {"latitude": 65, "longitude": 66}, "size": 2}
    assert viewers.view(b"AB", Content(topic="orders")) == {"text": "AB", "size": 2}


def test_a_viewer_that_raises_is_passed_over_and_then_no_longer_asked() -> None:
    viewers = Viewers()
    viewers.add(Gps())
    for _ in range(FAULTS_ALLOWED):
        assert viewers.view(b"", Content(topic="positions")) == {"text": "", "size": 0}
    assert viewers.faults["gps"].startswith("IndexError")
    assert viewers.view(b"AB", Content(topic="positions")) == {"text": "AB", "size": 2}


def test_a_viewer_that_gives_what_json_cannot_carry_is_passed_over() -> None:
    class Odd:
        name = "odd"

        def view(self, data: bytes, content: Content) -> object | None:
            return {"value": float("nan")} if data else object()

    viewers = Viewers()
    viewers.add(Odd())
    assert viewers.view(b"a", VALUE) == {"text": "a", "size": 1}
    assert viewers.view(b"", VALUE) == {"text": "", "size": 0}
    assert viewers.faults.keys() == {"odd"}


@given(st.binary(max_size=200))
def test_any_bytes_are_shown(data: bytes) -> None:
    seen = Viewers().view(data, VALUE)
    assert seen is not None
    assert seen["size"] == len(data)
    json.dumps(seen, allow_nan=False)
