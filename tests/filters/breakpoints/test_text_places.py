"""Where paths and bytes stand in edited text: a reader that was told where each value is says the same."""

import json
import random
from typing import Any

import pytest

from kproxy.filters.breakpoints.text_places import place_of_byte, place_of_path

TEXT = """{
  "acks": -1,
  "topicData" : [ {"name": "a\\"]}", "partitions": []},
    {"name": null, "partitions": [1, 22]} ],
  "last": {"acks": 5}
}"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", (1, 1)),
        ("acks", (2, 11)),
        ("topicData", (3, 17)),
        ("topicData[0]", (3, 19)),
        ("topicData[0].name", (3, 28)),
        ("topicData[1].name", (4, 14)),
        ("topicData[1].partitions[1]", (4, 38)),
        ("last.acks", (5, 20)),
        ("missing", (1, 1)),
        ("topicData[7].name", (3, 17)),
        ("topicData[1].missing", (4, 5)),
        ("topicData[1].partitions[1].deeper", (4, 38)),
        ("acks[0]", (2, 11)),
    ],
)
def test_a_path_is_found_or_the_nearest_around_it(path: str, place: tuple[int, int]) -> None:
    assert place_of_path(TEXT, path) == place


def test_of_two_members_of_a_name_the_one_that_counts() -> None:
    text = '{"a": 1, "a": 2}'
    assert json.loads(text) == {"a": 2}
    assert place_of_path(text, "a") == (1, 15)


def tree(numbers: random.Random, depth: int, marks: dict[str, str], path: str) -> Any:
    """A random value, in which each leaf is a text of its own."""
    kind = numbers.choice(["object", "array", "leaf"]) if depth else "leaf"
    if kind == "object":
        names = numbers.sample(["a", "bé", "c d", "\u202e", '"', "name"], numbers.randint(0, 4))
        return {name: tree(numbers, depth - 1, marks, f"{path}.{name}" if path else name) for name in names}
    if kind == "array":
        return [tree(numbers, depth - 1, marks, f"{path}[{at}]") for at in range(numbers.randint(0, 4))]
    mark = f"leaf {len(marks)};"
    marks[mark] = path
    return mark


def test_each_leaf_of_random_json_is_found_where_its_text_is() -> None:
    numbers = random.Random(7)
    seen = 0
    for _ in range(200):
        marks: dict[str, str] = {}
        value = tree(numbers, 5, marks, "")
        for style in ({"indent": 2}, {"separators": (",", ":")}, {"indent": 1, "ensure_ascii": False}):
            text = json.dumps(value, **style)  # type: ignore[arg-type]
            for mark, path in marks.items():
                if "[" in path.replace("[", "", 1) or path.count(".") or path:
                    line, column = place_of_path(text, path)
                    assert text.split("\n")[line - 1][column - 1 :].startswith(f'"{mark}"'), (path, text)
                    seen += 1
    assert seen > 1_000


def test_a_byte_is_found_in_lines_of_hex() -> None:
    text = "00 01 02\n03 04\n"
    assert [place_of_byte(text, number) for number in range(7)] == [
        (1, 1),
        (1, 4),
        (1, 7),
        (2, 1),
        (2, 4),
        (2, 6),
        (2, 6),
    ]
    assert place_of_byte("", 0) == (1, 1)
    assert place_of_byte("0a0b", 1) == (1, 3)
