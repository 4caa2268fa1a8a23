"""Bodies as objects, and why there is none."""

import pytest

from kproxy.output.tables import bodies
from kproxy.output.tables.bodies import read_body
from kproxy.session import Frame
from tests.support.traffic import golden_exchanges


def test_every_body_of_kafkas_is_read() -> None:
    for request, response, exchange in golden_exchanges():
        for line, frame in ((request, exchange.request), (response, exchange.response)):
            body, why = read_body(frame)
            assert why is None
            assert body is not None
            assert (body.message.name.lower(), body.version) == (line["message"].lower(), line["version"])


def test_no_frame_is_no_body_and_no_reason() -> None:
    assert read_body(None) == (None, None)


def test_a_frame_that_nobody_can_read_says_so() -> None:
    assert read_body(Frame(b"abc", 0, 0)) == (None, "nothing is known about its layout")


def test_a_large_body_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGEST", 8)
    found = [read_body(exchange.response) for _, _, exchange in golden_exchanges()]
    assert any(why is not None and "is not taken apart" in why for _, why in found)
    assert {body.message.name for body, _ in found if body is not None and body.message.name == "FetchResponse"}
