"""Direction: an index in code, a word for people, the same numbers in C."""

import json
import re
from pathlib import Path

import kproxy.protocol
from kproxy.protocol import Direction


def test_a_direction_is_an_index_and_a_word() -> None:
    assert [("client", "broker")[direction] for direction in Direction] == ["client", "broker"]
    assert [direction.text for direction in Direction] == ["request", "response"]
    assert f"{Direction.RESPONSE} {Direction.REQUEST:>8} {Direction.RESPONSE!s}" == "response  request response"
    assert json.dumps(Direction.RESPONSE.text) == '"response"'


def test_the_opposite_direction() -> None:
    assert [direction.other for direction in Direction] == [Direction.RESPONSE, Direction.REQUEST]


def test_the_numbers_in_c_are_those_of_python() -> None:
    text = (Path(kproxy.protocol.__file__).parent / "direction.pxd").read_text(encoding="utf-8")
    in_c = {name: int(number) for name, number in re.findall(r"DIRECTION_(\w+) = (\d+)", text)}
    assert in_c == {direction.name: direction.value for direction in Direction}
