"""Typed options and all their mistakes; units, secrets withheld, lines of a journal, paths, endpoints."""

import json
import re
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from kproxy.filters.audit import LONGEST_NAME, shortened, that_fit
from kproxy.filters.mask import EVERY, LEAF, State, parse_path, parse_paths
from kproxy.options import (
    WITHHELD,
    Count,
    OptionMistakes,
    Options,
    OtlpEndpoint,
    Seconds,
    Size,
    Target,
    endpoint_problems,
    is_secret,
    parse_quantity,
    quoted,
    read_options,
    render_quantity,
    target_of,
    text,
    unit_pattern,
    without_secrets,
    without_user_info,
)


class Rule(Options, frozen=True):
    when: Annotated[str, text("A condition.")]
    code: int | None = None


class Sample(Options, frozen=True):
    name: Annotated[str, Meta(max_length=5)] = "x"
    rate: Annotated[int, Meta(ge=1, le=10)] = 5
    share: float = 0.5
    wait: Seconds = 1.0
    room: Size = 1_024
    least: Count = 0
    mode: Literal["block", "drop-and-count"] = "block"
    on: bool = False
    topics: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    values: dict[str, int] = msgspec.field(default_factory=dict)
    first: Rule | None = None

    def __post_init__(self) -> None:
        if self.rate == 7:
            raise ValueError("7 is not for rates")


def mistakes(**values: Any) -> list[tuple[str, str]]:
    with pytest.raises(OptionMistakes) as caught:
        read_options(Sample, values)
    return caught.value.problems


def test_defaults() -> None:
    assert read_options(Sample, {}) == Sample()


def test_values_of_all_types() -> None:
    given = {
        "name": "y",
        "rate": 2,
        "share": 1,
        "wait": "500ms",
        "room": "16KiB",
        "mode": "drop-and-count",
        "on": True,
        "topics": ["a", "b"],
        "rules": [{"when": "true"}, {"when": "false", "code": 3}],
        "values": {"a": 1},
        "first": {"when": "x"},
    }
    assert read_options(Sample, given) == Sample(
        name="y",
        rate=2,
        share=1.0,
        wait=0.5,
        room=16_384,
        mode="drop-and-count",
        on=True,
        topics=("a", "b"),
        rules=(Rule(when="true"), Rule(when="false", code=3)),
        values={"a": 1},
        first=Rule(when="x"),
    )


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"nam": "x"}, "nam", "unknown name: did you mean name?"),
        ({"name": 2024}, "name", 'expected text; found "2024": write it in quotes'),
        ({"name": False}, "name", "expected text; found false: write it in quotes"),
        ({"name": "abcdef"}, "name", "0 to 5 characters"),
        ({"rate": 11}, "rate", "at most 10"),
        ({"rate": "5"}, "rate", "expected a whole number"),
        ({"rate": True}, "rate", "expected a whole number; found true"),
        ({"wait": "5 parsecs"}, "wait", "write 10"),
        ({"wait": -1}, "wait", "more than 0"),
        ({"mode": "blok"}, "mode", "did you mean block?"),
        ({"on": "yes"}, "on", "expected true or false"),
        ({"topics": "a"}, "topics", "expected a list"),
        ({"topics": ["a", 1]}, "topics[1]", "expected text"),
        ({"rules": [{"when": "x"}, {}]}, "rules[1].when", "it is missing"),
        ({"rules": [{"when": "x", "code": "y"}]}, "rules[0].code", "expected a whole number"),
        ({"values": {"a": []}}, "values.a", "expected a whole number; found a list"),
        ({"first": {"when": 1}}, "first.when", "expected text"),
        ({"rate": 7}, "", "7 is not for rates"),
    ],
)
def test_mistakes(values: dict[str, Any], path: str, words: str) -> None:
    ((found, message),) = mistakes(**values)
    assert found == path
    assert words in message


def test_all_mistakes_are_found_at_once() -> None:
    assert [path for path, _ in mistakes(name=1, rate=0, rules=[{"code": "x"}])] == [
        "name",
        "rate",
        "rules[0].code",
        "rules[0].when",
    ]


def test_values_nested_without_end() -> None:
    nested: Any = []
    for _ in range(10_000):
        nested = [nested]
    assert mistakes(topics=nested)[0][0] == "topics[0]"


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("10", "seconds", 10),
        ("0.5", "seconds", 0.5),
        ("500ms", "seconds", 0.5),
        ("10 s", "seconds", 10),
        ("5m", "seconds", 300),
        ("1h", "seconds", 3600),
        ("1d", "seconds", 86_400),
        ("4096", "bytes", 4096),
        ("64KiB", "bytes", 65_536),
        ("1.5 MiB", "bytes", 1_572_864),
        ("1GiB", "bytes", 1_073_741_824),
        ("10MB", "bytes", 10_000_000),
    ],
)
def test_quantities(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value
    assert re.search(unit_pattern(unit), text), "an editor with the schema would call it wrong"


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("10 minutes", "seconds"),
        ("-1s", "seconds"),
        ("1e3", "seconds"),
        ("inf", "seconds"),
        ("nan", "bytes"),
        ("64kib", "bytes"),
        ("10s", "bytes"),
        ("0.3", "bytes"),
        ("", "bytes"),
        ("٣s", "seconds"),
        ("9" * 20, "bytes"),
    ],
)
def test_texts_that_are_no_quantity(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match=r"number of"):
        parse_quantity(text, unit)


@given(st.text(max_size=200))
def test_a_quoted_text_is_one_short_line(text: str) -> None:
    shown = quoted(text)
    assert shown.isprintable()
    assert len(shown) <= 80


@pytest.mark.parametrize("unit", ["seconds", "bytes"])
@pytest.mark.parametrize("value", [1, 30, 60, 90, 3_600, 1_000, 1_024, 100 << 20, 1 << 30, 86_400])
def test_a_rendered_quantity_is_read_as_the_same(value: int, unit: str) -> None:
    assert parse_quantity(render_quantity(value, unit), unit) == value


def test_quantities_are_rendered_as_people_write_them() -> None:
    written = [render_quantity(value, "seconds") for value in (0.0005, 0.5, 10.0, 90.0, 3_600.0)]
    assert written == ["0.0005", "500ms", "10s", "90s", "1h"]
    assert [render_quantity(value, "bytes") for value in (100, 65_536, 100 << 20)] == ["100B", "64KiB", "100MiB"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("socks5://user:p@ss/w:rd@proxy:1080", f"socks5://{WITHHELD}@proxy:1080"),
        ("http://token@collector", f"http://{WITHHELD}@collector"),
        ("user:canary@kafka:9092", f"{WITHHELD}@kafka:9092"),
        ("-----BEGIN PRIVATE KEY-----\nMIIcanary", WITHHELD),
        ("kafka:9092", "kafka:9092"),
        ("http://collector:4318/v1", "http://collector:4318/v1"),
        ("alice@example.com", "alice@example.com"),
        ("/etc/kproxy/tls@2/key.pem", "/etc/kproxy/tls@2/key.pem"),
    ],
)
def test_what_is_left_out(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert "canary" not in quoted(text)


def test_only_urls_lose_their_user_in_what_is_shown_as_it_is() -> None:
    assert without_user_info("a:b@c") == "a:b@c"
    assert without_user_info("http://a:b@c") == f"http://{WITHHELD}@c"


@pytest.mark.parametrize(("name", "text"), [("traces.headers", "Bearer x"), ("broker_tls", "password:x")])
def test_what_may_be_a_secret(name: str, text: str) -> None:
    assert is_secret(name, text)
    assert not is_secret("bootstrap", "kafka:9092")


def test_text_is_cut_and_made_whole() -> None:
    assert shortened("orders") == "orders"
    assert shortened("é" * 5_000) == "é" * LONGEST_NAME
    assert shortened("a\udcffb") == "a\ufffdb"
    assert shortened("\ud83d\ude00") == "\U0001f600"  # two halves are one character
    assert (shortened(None), shortened(7)) == (None, 7)


def test_the_first_values_that_fit() -> None:
    values = ["\x1b" * 10] * 5  # 62 bytes each as JSON
    assert len(that_fit(values, 200)) == 3
    assert that_fit(values, 10) == []
    assert len(json.dumps(that_fit(values, 400)).encode()) <= 400


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ("a",)),
        ("$.a_b-c.$d", ("a_b-c", "$d")),
        ("$['a b']", ("a b",)),
        ('$["it\'s"][0].x', ("it's", 0, "x")),
        ("$[*].*", (EVERY, EVERY)),
        ("$['0'][0]", ("0", 0)),
        ("$['']", ("",)),
    ],
)
def test_steps(path: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize("path", ["", "$", "a.b", "$.", "$..a", "$[a]", "$.a[", "$.a b", "$[-1]", "$[0:1]"])
def test_what_is_no_path(path: str) -> None:
    with pytest.raises(ValueError, match="is no JSON path"):
        parse_path(path)


def test_a_whole_value_is_hidden_with_all_that_is_in_it() -> None:
    for paths in (["$.a", "$.a.b"], ["$.a.b", "$.a"]):
        assert parse_paths(paths) == [State({"a": LEAF}, {}, None)]


def test_a_name_leads_where_wildcards_lead_as_well() -> None:
    assert parse_paths(["$.*.c", "$.a.b"]) == [
        State({"a": 2}, {}, 1),
        State({"c": LEAF}, {}, None),
        State({"b": LEAF, "c": LEAF}, {}, None),
    ]


def test_the_states_are_bounded() -> None:
    paths = ["$" + ".*" * at + ".a" + ".*" * (15 - at) + f".x{at}" for at in range(16)]  # 2 ** 16 sets of them
    with pytest.raises(ValueError, match="write fewer wildcards"):
        parse_paths(paths)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://collector:4318", Target(False, "collector", 4318, "")),
        ("https://otlp.example.com:443/otlp/", Target(True, "otlp.example.com", 443, "/otlp")),
        ("http://[::1]:4318/", Target(False, "::1", 4318, "")),
        ("https://10.0.0.1:1/a/b", Target(True, "10.0.0.1", 1, "/a/b")),
    ],
)
def test_urls(url: str, target: Target) -> None:
    endpoint = OtlpEndpoint(otlp=url)
    assert target_of(endpoint) == target
    assert list(endpoint_problems(endpoint)) == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("collector:4318", "not the URL of a collector"),
        ("grpc://collector:4317", "not the URL of a collector"),
        ("http://collector", 'write "http://collector:4318"'),
        ("http://collector:0", "4317 for grpc"),
        ("http://collector:70000", "4317 for grpc"),
        ("http://c4nary:c4nary@collector:4318", "headers (authorization)"),
        ("http://collector:4318/?token=c4nary", "leave out what begins with ? or #"),
        ("http://collector:4318/c4nary #", "leave out what begins with ? or #"),
        ("http://col lector:4318", "not http(s)://host:port"),
        ("http://collector:4318/\r\nX-Other: c4nary", "not http(s)://host:port"),
        ("http://collector:٤٣١٨", "not http(s)://host:port"),
    ],
)
def test_what_is_no_url_is_said_without_repeating_it(url: str, words: str) -> None:
    [(path, message)] = endpoint_problems(OtlpEndpoint(otlp=url))
    assert path == "otlp"
    assert words in message
    assert "c4nary" not in message


@pytest.mark.parametrize(
    ("settings", "path", "words"),
    [
        ({"protocol": "grpc", "otlp": "http://c:4317/path"}, "otlp", "grpc has no path"),
        ({"protocol": "grpc", "headers": {"grpc-timeout": "1"}}, "headers.grpc-timeout", "gRPC's own"),
        ({"headers": {"a b": "c4nary"}}, "headers", '"a b" is not the name of a header'),
        ({"headers": {"Host": "c4nary"}}, "headers.Host", "sets this header itself"),
        ({"headers": {"authorization": "c4nary\r\nx: y"}}, "headers.authorization", "printable ASCII"),
        ({"headers": {"x": "c4nary" * 2_000}}, "headers.x", "8,000"),
        ({"headers": {f"x-{number}": "" for number in range(51)}}, "headers", "at most 50"),
        ({"ca": "ca.pem"}, "ca", "no effect with http://"),
    ],
)
def test_contradictions(settings: dict[str, object], path: str, words: str) -> None:
    endpoint = OtlpEndpoint(**{"otlp": "http://c:4318", **settings})  # type: ignore[arg-type]
    [(found, message)] = endpoint_problems(endpoint)
    assert found == path
    assert words in message
    assert "c4nary" not in message
