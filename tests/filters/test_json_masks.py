"""JSON with values hidden. The referees are Python's json, and texts whose writer knows what is to be hidden."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.filters.json_masks import JsonFields, JsonMask
from kproxy.filters.mask import EVERY, Path, parse_path, parse_paths

STARS = b'"***"'


def mask(*paths: str, replacement: bytes | None = STARS, blanks: bool = True) -> JsonMask:
    return JsonMask(parse_paths(paths), replacement, blanks)


def masked(text: str, *paths: str, replacement: bytes | None = STARS) -> str | None:
    found = mask(*paths, replacement=replacement).edited(text.encode())
    return None if found is None else found.decode()


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a":1,"b":2}', "$.a", '{"a":"***","b":2}'),
        ('{"a":{"b":[1,{"c":2}]}}', "$.a.b[1].c", '{"a":{"b":[1,{"c":"***"}]}}'),
        ('[{"a":1},{"a":2},3]', "$[*].a", '[{"a":"***"},{"a":"***"},"***"]'),
        ('{"a b":1}', "$['a b']", '{"a b":"***"}'),
        ('{"a":{"x":1,"y":[2]}}', "$.a.*", '{"a":{"x":"***","y":"***"}}'),
        ('{"a":1}', "$.b", None),
        ('{"a":1}', "$.a.b", '{"a":"***"}'),
        ('{"a":[{"b":1}],"c":2}', "$.a.b", '{"a":"***","c":2}'),
        ('{"a":null}', "$.a.b", None),
        ('{"a":[ ],"b":{}}', "$.*.c", None),
        ('{"a":{ }}', "$.a[0]", None),
        ('"text"', "$.a", ""),
        ("5", "$.a", ""),
        ("null", "$.a", None),
        ("[ ]", "$.a", None),
        ('{"0":1,"a":[2]}', "$[0]", '"***"'),
        ("[1,2,3]", "$[1]", '[1,"***",3]'),
        ("[1,2,3]", "$[3]", None),
        ('{"\\u0061":"secret"}', "$.a", '{"\\u0061":"***"}'),
        ('{"\\ud83d\\ude00":"secret"}', "$['😀']", '{"\\ud83d\\ude00":"***"}'),
        ('{"\\"\\\\\\/\\b\\f\\n\\r\\t":1}', "$['\"\\/\b\f\n\r\t']", '{"\\"\\\\\\/\\b\\f\\n\\r\\t":"***"}'),
        ('{"ключ":"secret"}', "$['ключ']", '{"ключ":"***"}'),
        ('{"a":"secret","b":0,"a":"secret too"}', "$.a", '{"a":"***","b":0,"a":"***"}'),
        ('{"a":"whole","a":{"b":"part"}}', "$.a.b", '{"a":"***","a":{"b":"***"}}'),
        (' {\n\t"a" : 1 ,\r\n"n": 1e400}  ', "$.a", ' {\n\t"a" : "***" ,\r\n"n": 1e400}  '),
        ('\ufeff{"a":1}', "$.a", '\ufeff{"a":"***"}'),
        ('{"n":123456789012345678901234567890,"f":-0.10e+05,"a":1}', "$.a", None),
    ],
)
def test_paths(text: str, path: str, expected: str | None) -> None:
    if '"n":1' in text:
        expected = '{"n":123456789012345678901234567890,"f":-0.10e+05,"a":"***"}'
    assert masked(text, path) == expected


def test_a_wildcard_holds_beside_a_name() -> None:
    assert masked('{"a":{"b":1,"c":2},"z":{"c":3}}', "$.*.c", "$.a.b") == '{"a":{"b":"***","c":"***"},"z":{"c":"***"}}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', "{}"),
        ('{ "a" : 1 , "b" : 2 }', '{ "b" : 2 }'),
        ('{ "b" : 2 , "a" : 1 }', '{ "b" : 2  }'),
        ('{"b":2,"a":1,"c":3}', '{"b":2,"c":3}'),
        ('{"a":1,"a":2,"b":3,"a":4,"a":5}', '{"b":3}'),
        ('{"a":1,"d":{"a":1,"e":[1,2]},"a":2}', '{"d":{"a":1,"e":[null,2]}}'),
        ('{"d":{"e":"text"},"b":3}', '{"d":{},"b":3}'),
    ],
)
def test_members_that_are_removed(text: str, expected: str) -> None:
    assert masked(text, "$.a", "$.d.e[0]", replacement=None) == expected


NO_JSON = [
    *(
        '{"a":',
        "{",
        "not json",
        "{'a':1}",
        '{"a":1}}',
        '{"a":1}{"a":1}',
        '{"a":1,}',
        "[1,]",
        "[1 2]",
        '{"a" 1}',
        "{1:2}",
    ),
    *(
        '{"a":NaN}',
        "01",
        "1.",
        ".5",
        "-",
        "+1",
        "1e",
        "tru",
        "nul",
        '"\\x"',
        '"\\u12g4"',
        '"\x1f"',
        '"',
        "[",
        "]",
        " ",
        "{,}",
    ),
]


@pytest.mark.parametrize("text", NO_JSON)
def test_what_is_no_json(text: str) -> None:
    assert mask("$.a").edited(text.encode()) == b""
    assert mask("$.a", blanks=False).edited(text.encode()) is None


@pytest.mark.parametrize("broken", [b"\xff", b"\xc1\xa1", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"])
def test_text_that_is_not_utf_8(broken: bytes) -> None:
    text = b'{"x":"%b","a":"secret"}' % broken
    assert mask("$.a").edited(text) == b""
    assert mask("$.a", blanks=False).edited(text) == b'{"x":"%b","a":"***"}' % broken


def test_nothing_is_nothing() -> None:
    assert mask("$.a").edited(b"") is None


def test_deep_json() -> None:
    text = '{"a":' * 200 + '{"b":"secret"}' + "}" * 200
    found = masked(text, "$" + ".a" * 200 + ".b")
    assert found is not None
    assert "secret" not in found
    json.loads(found)


def test_json_as_deep_as_it_is_long() -> None:
    depth = 300_000
    text = '{"x":' + "[" * depth + "]" * depth + ',"a":1}'
    assert masked(text, "$.a") == text[:-2] + '"***"}'
    text = '{"x":' + '{"y":' * depth + "0" + "}" * depth + ',"a":1}'
    assert masked(text, "$.a") == text[:-2] + '"***"}'
    assert masked('{"x":' + "[" * depth, "$.a") == ""


Value = Any
NAMES = st.sampled_from(["a", "b", "c", "é", "", "longer name"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES: st.SearchStrategy[Value] = st.recursive(
    LEAVES,
    lambda below: st.lists(below, max_size=4) | st.lists(st.tuples(NAMES, below), max_size=4).map(tuple),
    max_leaves=20,
)
PATHS = ["$.a", "$.b.a", "$.b.*", "$[*].c", "$.*.b", "$[0]", "$['é'][1]", "$[*][*]['']", "$.c.b.a", "$['longer name']"]


class Writer:
    """Writes a tree as JSON twice at once: as it is, and with what is at the paths hidden. A tuple is an object."""

    def __init__(self, chance: random.Random, paths: list[Path]) -> None:
        self.chance = chance
        self.paths = paths
        self.plain = self.hidden = ""
        self.places: list[tuple[int, int, Path]] = []  # of what is at the paths

    def put(self, text: str, is_hidden: bool) -> None:
        self.plain += text
        self.hidden += "" if is_hidden else text

    def space(self, is_hidden: bool) -> None:
        self.put("".join(self.chance.choices(" \t\r\n", k=self.chance.choice((0, 0, 1, 3)))), is_hidden)

    def value(self, value: Value, at: Path, inside: bool = False) -> None:
        leaf = any(_fits(path, at) for path in self.paths)
        ends = not leaf and value not in (None, (), []) and self.cannot_go_on(value, at)
        if (leaf or ends) and not inside:
            self.hidden += STARS.decode()
        start = len(self.plain.encode())
        if isinstance(value, list | tuple):
            self.group(value, at, inside or leaf or ends)
        else:
            self.put(json.dumps(value, ensure_ascii=self.chance.random() < 0.5), inside or leaf or ends)
        if leaf and not inside:
            self.places.append((start, len(self.plain.encode()), at))

    def cannot_go_on(self, value: Value, at: Path) -> bool:
        """Whether paths lead on from here, and none by a step that such a value has."""
        steps = [path[len(at)] for path in self.paths if len(path) > len(at) and _fits(path[: len(at)], at)]
        kind = str if isinstance(value, tuple) else int if isinstance(value, list) else bytes
        return bool(steps) and not any(
            kind is not bytes and (step == EVERY or isinstance(step, kind)) for step in steps
        )

    def group(self, value: Value, at: Path, inside: bool) -> None:
        self.put("{" if isinstance(value, tuple) else "[", inside)
        for number, item in enumerate(value):
            self.put("," if number else "", inside)
            self.space(inside)
            if isinstance(value, tuple):
                self.put(json.dumps(item[0], ensure_ascii=self.chance.random() < 0.5), inside)
                self.space(inside)
                self.put(":", inside)
                self.space(inside)
            name, below = item if isinstance(value, tuple) else (number, item)
            self.value(below, (*at, name), inside)
            self.space(inside)
        self.space(inside)
        self.put("}" if isinstance(value, tuple) else "]", inside)


def _fits(path: Path, at: Path) -> bool:
    return len(path) == len(at) and all(step in (EVERY, found) for step, found in zip(path, at, strict=True))


@given(TREES, st.lists(st.sampled_from(PATHS), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_all_else_stays_byte_for_byte(tree: Value, paths: list[str], chance: random.Random) -> None:
    writer = Writer(chance, [parse_path(path) for path in paths])
    writer.value(tree, ())
    is_scalar = tree is not None and not isinstance(tree, list | tuple)
    expected = b"" if is_scalar else writer.hidden.encode()
    edited = mask(*paths).edited(writer.plain.encode())
    assert (writer.plain.encode() if edited is None else edited) == expected
    removed = mask(*paths, replacement=None).edited(writer.plain.encode())
    if removed:
        json.loads(removed)
    found = JsonFields(parse_paths(paths)).found(writer.plain.encode())
    assert found == (writer.places if isinstance(tree, list | tuple) else None)


def _is_json(text: bytes) -> bool:
    def no(name: str) -> None:
        raise ValueError(name)

    try:
        json.loads(text.decode().removeprefix("\ufeff"), parse_constant=no, parse_int=str, parse_float=str)
    except ValueError:
        return False
    return True


@given(TREES, st.randoms(use_true_random=False))
def test_damaged_text_is_json_where_python_says_so(tree: Value, chance: random.Random) -> None:
    writer = Writer(chance, [])
    writer.value(tree, ())
    text = bytearray(writer.plain.encode())
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(text) + 1)
        match chance.randrange(3):
            case 0:
                del text[at : at + chance.randrange(4)]
            case 1:
                text[at:at] = bytes([chance.choice(b'{}[]",:\\u0e-+.tfn \x00\x1f\x7f\x80\xc3\xef')])
            case 2:
                text[at : at + 1] = bytes([chance.randrange(256)])
    damaged = bytes(text)
    if damaged:
        begin = damaged.decode(errors="replace").strip("\ufeff \t\r\n")[:1]
        is_masked = mask("$['not there']", "$[99]").edited(damaged) is None
        assert is_masked == (_is_json(damaged) and begin in "{[n")
        is_found = JsonFields(parse_paths(["$['not there']"])).found(damaged) is not None
        assert is_found == (_is_json(damaged) and begin in "{[")


def test_numbers_that_are_none_are_found() -> None:
    """As Python and others write and read them."""
    text = b'{"a":NaN,"b":[Infinity,-Infinity]}'
    assert JsonFields(parse_paths(["$.a", "$.b[1]"])).found(text) == [(5, 8, ("a",)), (23, 32, ("b", 1))]
    assert [JsonFields(parse_paths(["$.a"])).found(b'{"a":%b}' % one) for one in (b"Nan", b"-NaN", b"Inf")] == [
        None
    ] * 3
