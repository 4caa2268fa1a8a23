"""YAML to typed values: hostile files, every mistake with its place, and secrets that no mistake repeats."""

import secrets
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.convert import MOST_ALIASES, MOST_DEPTH, MOST_EVENTS, MOST_TEXT, Conversion, read_tree
from kproxy.config.reading import parse_config, read_config
from kproxy.config.structs import Cluster, Config
from kproxy.errors import ConfigError, Mistake
from tests.support.canaries import Canaries
from tests.support.command import kproxy
from tests.support.tls import certificates


def walk(text: str) -> tuple[Config, list[Mistake]]:
    conversion = Conversion()
    return conversion.convert(read_tree(text, "x"), Config), conversion.mistakes


CLUSTER = "clusters: [{listen: 'a:1', bootstrap: ['b:1']}]\n"


def told(text: str) -> tuple[int, int, str, str]:
    (mistake,) = walk(CLUSTER + text)[1]
    return tuple(mistake)


MISTAKES = [
    ("worker: 2", (2, 1), "worker", "did you mean workers?"),
    ("Timeouts: {}", (2, 1), "Timeouts", "did you mean timeouts?"),
    ("timeouts: {idle-time: 3}", (2, 12), "timeouts.idle-time", "did you mean idle?"),
    ("zzz: 2", (2, 1), "zzz", "unknown name: there are clusters, admin"),
    ('"a\\nb": 2', (2, 1), "'a\\nb'", "unknown name"),
    ("workers: two", (2, 10), "workers", '"two" is not a whole number'),
    ("workers: 1.5", (2, 10), "workers", '"1.5" is not a whole number'),
    ("workers: 010", (2, 10), "workers", "not a whole number"),
    ("workers: 0x10", (2, 10), "workers", "not a whole number"),
    ("workers: 1:30", (2, 10), "workers", "not a whole number"),
    ("workers: 0", (2, 10), "workers", "at least 1"),
    ("workers: 257", (2, 10), "workers", "at most 256"),
    ("workers: []", (2, 10), "workers", "expected a whole number; found a list"),
    ("workers:", (2, 9), "workers", "empty: write a whole number, or leave the line out"),
    ("workers: ~", (2, 10), "workers", "empty"),
    ("admin:", (2, 7), "admin", "empty: write text, or leave the line out"),
    ("outlive: 1", (2, 10), "outlive", '"1" is neither true nor false'),
    ("logs: Json", (2, 7), "logs", "not one of auto, json, text: did you mean json?"),
    ("limits: 3", (2, 9), "limits", "expected a group of connections"),
    ("limits: {memory: 12 gigs}", (2, 18), "limits.memory", 'write 65536, "64KiB"'),
    ("limits: {memory: -1}", (2, 18), "limits.memory", "at least 1"),
    ("timeouts: {idle: .inf}", (2, 18), "timeouts.idle", "not a number of seconds"),
    ("timeouts: {idle: 2000d}", (2, 18), "timeouts.idle", "at most 31,536,000"),
    ("timeouts: {idle: 0}", (2, 18), "timeouts.idle", "more than 0"),
    ("analysis: {sample: .nan}", (2, 20), "analysis.sample", "not a number"),
    ("analysis: {sample: nan}", (2, 20), "analysis.sample", "at least 0"),
    ("analysis: {log: {}}", (2, 17), "analysis.log.path", "missing"),
    ("analysis: {apis: Fetch}", (2, 18), "analysis.api_name", "expected a list"),
    ("analysis: {apis: [[]]}", (2, 19), "analysis.api_name[0]", "expected text"),
    ("analysis: {api_name: [], apis: []}", (2, 26), "analysis.apis", "api_name occurs twice, once by its former name"),
    ("workers: 1\nworkers: 2", (3, 1), "workers", "twice"),
    ("<<: {workers: 2}", (2, 1), "", "merging"),
    ("[a]: 2", (2, 1), "", "plain text"),
]


def test_a_mistake_has_its_place_its_path_and_its_words() -> None:
    for text, place, path, words in MISTAKES:
        line, column, found, message = told(text)
        assert ((line, column), found, words in message) == (place, path, True), (text, message)


def test_clusters_are_needed() -> None:
    assert [(mistake.path, mistake.message) for mistake in walk("workers: 1")[1]] == [("clusters", "it is missing")]
    assert [mistake.path for mistake in walk("clusters: []")[1]] == ["clusters"]
    assert [mistake.path for mistake in walk("- 1")[1]] == [""]


def test_all_mistakes_are_found_and_the_rest_is_read() -> None:
    config, mistakes = walk(
        "clusters:\n- {listen: 'a:1', bootstap: x}\n- {listen: [], name: 'a b'}\nworkers: x\ntimeouts: {idle: 5m, frame: x}\n"
    )
    assert [mistake.path for mistake in mistakes] == [
        "clusters[0].bootstap",
        "clusters[1].listen",
        "clusters[1].name",
        "workers",
        "timeouts.frame",
    ]
    assert config.clusters == [Cluster(listen="a:1"), Cluster(listen="")]
    assert (config.workers, config.timeouts.idle, config.timeouts.frame) == (1, 300, 60)


@pytest.mark.parametrize(
    ("text", "value"), [("no", "no"), ("123", "123"), ("'1.2.3'", "1.2.3"), ("2020-01-01", "2020-01-01"), ("on", "on")]
)
def test_text_stays_what_was_written(text: str, value: str) -> None:
    config, mistakes = walk(f"clusters: [{{listen: 'a:1', name: {text}}}]")
    assert mistakes == []
    assert config.clusters[0].name == value


@pytest.mark.parametrize(("text", "value"), [("0:9092", "0:9092"), ("12:30", "12:30")])
def test_an_address_is_no_number_of_minutes(text: str, value: str) -> None:
    assert walk(f"clusters: [{{listen: {text}}}]")[0].clusters[0].listen == value


def test_quantities_and_null() -> None:
    text = "limits: {memory: 1GiB, frame_size: 1_000_000}\ntimeouts: {idle: 1h}\nadmin: null\n"
    config, mistakes = walk(CLUSTER + text)
    assert mistakes == []
    for written, session in (("0", 0), ("3", 3), ("1h", 3600)):
        with_session, mistakes = walk(f"clusters: [{{listen: 'a:1', authentication: {{session: {written}}}}}]")
        authentication = with_session.clusters[0].authentication
        assert mistakes == [] and authentication is not None and authentication.session == session
    assert (config.limits.memory, config.limits.frame_size) == (2**30, 1_000_000)
    assert (config.timeouts.idle, config.admin) == (3600, None)


def test_node_ids_are_numbers_or_ranges() -> None:
    config, mistakes = walk("clusters: [{listen: 'a:1', addresses: {node_ids: [0, 7, '1-3', 100-120]}}]")
    assert mistakes == []
    assert config.clusters[0].addresses.node_ids == [0, 7, "1-3", "100-120"]


def test_what_a_filter_is_given_may_be_anything_plain() -> None:
    options = "{a: 1, b: 1.5, c: yes, d: ~, e: [x, 2020-01-01], f: {g: '1'}}"
    config, mistakes = walk(f"clusters: [{{listen: 'a:1', filters: [{{use: a:B, with: {options}}}]}}]")
    expected: dict[str, Any] = {"a": 1, "b": 1.5, "c": True, "d": None, "e": ["x", "2020-01-01"], "f": {"g": "1"}}
    assert mistakes == []
    assert config.clusters[0].filters[0].with_ == expected


def test_an_alias_means_what_it_stands_for() -> None:
    config, mistakes = walk("clusters: [{listen: 'a:1', bootstrap: &b ['b:1']}, {listen: 'c:1', bootstrap: *b}]")
    assert mistakes == []
    assert config.clusters[1].bootstrap == ["b:1"]


def mistakes(text: str) -> list[Mistake]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "kproxy.yaml")
    return caught.value.mistakes


def only(text: str) -> Mistake:
    (mistake,) = mistakes(text)
    return mistake


def test_the_root_has_its_place() -> None:
    root = read_tree("\n\n  a: 1\n", "x")
    assert (root.start_mark.line, root.start_mark.column) == (2, 2)


INVALID = [
    ("", (1, 1), "empty"),
    ("# nothing\n", (1, 1), "empty"),
    ("a: [1, 2", (2, 1), "invalid YAML"),
    ("a: 1\n\tb: 2\n", (2, 1), "; indent with spaces"),
    ("a: 1\n---\nb: 2\n", (2, 1), "invalid YAML"),
    ("a: *nobody\n", (1, 4), "undefined alias"),
    ("a: \x00\n", (1, 1), "invalid YAML"),
    ("a: 'x", (1, 6), "invalid YAML"),
    ("%YAML 9.9\n---\na", (1, 1), "invalid YAML"),
]


def test_invalid_yaml_is_reported_with_its_place() -> None:
    for text, place, words in INVALID:
        mistake = only(text)
        assert (mistake.line, mistake.column) == place, text
        assert words in mistake.message and "\n" not in mistake.message, text


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system",
        "!!python/name:os.system",
        "!!python/object/new:type",
        "!local",
        "!!binary",
        "!!set",
    ],
)
def test_25_tags_are_refused(tag: str) -> None:
    found = mistakes(f"clusters: {tag} [id]\n")
    assert ("clusters", 1, 11) in [(mistake.path, mistake.line, mistake.column) for mistake in found]
    assert any("is not allowed" in mistake.message for mistake in found)


def alias_bomb(part: str) -> str:
    levels = [f"a0: &a0 [{', '.join(['x'] * 9)}]"]
    levels += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 10)]
    return "\n".join(f"{part}{level}" for level in levels)


def test_25_an_alias_bomb_is_not_blown_up() -> None:
    filters = "  - listen: a:1\n    bootstrap: [b:1]\n    filters:\n      - use: a:b\n        with:\n"
    text = f"clusters:\n{filters}{alias_bomb('          ')}\n"
    tracemalloc.start()
    try:
        found = mistakes(text)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert any("too large" in mistake.message for mistake in found)


def test_25_a_value_that_contains_itself_ends() -> None:
    text = "clusters:\n  - listen: a:1\n    bootstrap: [b:1]\n    filters: [{use: a, with: &w {again: *w}}]\n"
    assert any("too large" in mistake.message for mistake in mistakes(text))
    assert mistakes("clusters: &c [*c]\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + "[" * (MOST_DEPTH + 1), f"deeper than {MOST_DEPTH}"),
        ("a: " + "[" * 100_000, f"deeper than {MOST_DEPTH}"),
        ("[" + "1," * (MOST_EVENTS + 1) + "]", "values"),
        ("a: &a 1\nb: [" + "*a," * (MOST_ALIASES + 1) + "]", "aliases"),
        ("#" * (MOST_TEXT + 1), "larger than"),
    ],
    ids=["deep", "very deep", "many", "aliases", "big"],
)
def test_25_too_much_is_refused(text: str, words: str) -> None:
    assert words in only(text).message


def test_25_a_million_wrong_names_are_a_hundred_mistakes() -> None:
    found = mistakes("\n".join(f"n{number}: 1" for number in range(20_000)))
    assert len(found) == 100


OPEN_CLUSTER = 'clusters: [{listen: ":19092", bootstrap: ["kafka:9092"]'
PEM = "-----BEGIN PRIVATE KEY-----\\nMIIEvQ%s\\n-----END PRIVATE KEY-----"
FORWARD = ", filters: [{use: telemetry, with: {forward: "
SLIPS = {  # what follows OPEN_CLUSTER, or all of it
    "headers that are one text": '}]\ntraces: {otlp: "http://c:4318", headers: "authorization: Bearer %s"}',
    "headers in a list": '}]\ntraces: {otlp: "http://c:4318", headers: ["%s"]}',
    "a header that is a group": '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: {x: "%s"}}}',
    "a header with a tag": '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: !%s x}}',
    "a header that is an alias": '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: *%s}}',
    "two anchors of one name": "}]\ntraces: {otlp: &%s x, headers: {a: &%s y, b: *%s}}",
    "a header with a line feed": '}]\ntraces: {otlp: "http://c:4318", headers: {authorization: "%s\\n"}}',
    "a header of kproxy's own": '}]\ntraces: {otlp: "http://c:4318", headers: {host: "%s"}}',
    "a collector with a password": '}]\ntraces: {otlp: "http://user:%s@c:4318"}',
    "a collector with a password, and no port": '}]\ntraces: {otlp: "http://user:%s@c"}',
    "traces that are one text": '}]\ntraces: "http://user:%s@c:4318"',
    "a SOCKS proxy without a port": ', through: "socks5://user:%s@proxy"}]',
    "a SOCKS proxy of an unknown kind": ', through: "socks9://user:%s@proxy:1"}]',
    "a SOCKS proxy, with / in its password": ', through: "socks5://user:a:b/%s@proxy:1"}]',
    "a SOCKS proxy, with : and / in its password": ', through: "socks5://user:%s:b/c@proxy:1"}]',
    "a SOCKS proxy, with # in its password": ', through: "socks5://user:%s#b@proxy:1"}]',
    "a SOCKS proxy with a path": ', through: "socks5://user:%s@proxy:1/path"}]',
    "a SOCKS proxy in a list": ', through: ["socks5://user:%s@proxy:1"]}]',
    "brokers with a login": 'clusters: [{listen: ":19092", bootstrap: ["user:%s@kafka:9092"]}]',
    "brokers as a URL": 'clusters: [{listen: ":19092", bootstrap: ["kafka://user:%s@kafka:9092"]}]',
    "brokers in one text": 'clusters: [{listen: ":19092", bootstrap: "user:%s@kafka:9092"}]',
    "a broker that is its listener": 'clusters: [{listen: "u:%s@k:1", bootstrap: ["u:%s@k:1"]}]',
    "a listener as a URL": 'clusters: [{listen: "https://user:%s@kafka:9092", bootstrap: ["kafka:9092"]}]',
    "a key in place of its file": f', broker_tls: {{certificate: "CERTIFICATE", key: "{PEM}"}}}}]',
    "a key in place of a certificate": f', listener_tls: {{certificate: "{PEM}", key: "CERTIFICATE"}}}}]',
    "a key in place of CAs": f', broker_tls: {{ca: "{PEM}"}}}}]',
    "a key in place of a group": f', broker_tls: "{PEM}"}}]',
    "a password that kproxy does not take": ', broker_tls: {key_password: "%s"}}]',
    "a password without a space": ", broker_tls: password:%s}]",
    "a login that kproxy does not take": ', sasl: {username: x, password: "%s"}}]',
    "a token of Vault in place of its file": ", login: {mechanism: PLAIN, cleartext: true, username: x, "
    'password: "vault:a#b", vault: {url: "https://v", token: "%s"}}}]',
    "a Vault with a password": ", login: {mechanism: PLAIN, cleartext: true, username: x, "
    'password: "vault:a#b", vault: {url: "https://u:%s@v"}}}]',
    "a reference to Vault without a field": ', login: {mechanism: PLAIN, cleartext: true, username: x, password: "vault:%s"}}]',
    "an environment that it does not take": '}]\nenvironment: ["AWS_SECRET_ACCESS_KEY=%s"]',
    "headers of telemetry in one text": FORWARD + '{otlp: "http://c:1", headers: "authorization: %s"}}}]}]',
    "a header of telemetry with a line feed": FORWARD + '{otlp: "http://c:1", headers: {a: "%s\\n"}}}}]}]',
    "a collector of telemetry with a password": FORWARD + '{otlp: "http://user:%s@c:1"}}}]}]',
    "forward in one text": FORWARD + '"http://user:%s@c:1"}}]}]',
    "options of a filter in one text": ', filters: [{use: headers, with: "token: %s"}]}]',
    "an option of a filter that does not exist": ', filters: [{use: no.such:Filter, with: {token: "%s"}}]}]',
    "an option that a filter does not take": ', filters: [{use: audit, with: {token: "%s"}}]}]',
    "an option of another kind": ', filters: [{use: headers, with: {set: "token %s"}}]}]',
    "a file of an audit with a password": ', filters: [{use: audit, with: {file: {path: "s3://key:%s@bucket/audit.jsonl"}}}]}]',
    "YAML that ends in a text": '}]\ntraces: {headers: {authorization: "%s}}',
    "YAML with a tab": "}]\ntraces:\n\theaders: %s",
    "YAML with a colon too much": "}]\ntraces: a: %s: b",
    "a character that YAML does not have": '}]\ntraces: {headers: {a: "%s\a"}}',
}


@pytest.mark.parametrize("slip", SLIPS)
def test_no_mistake_repeats_a_secret(slip: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    canary = Canaries(secrets.randbits(32))
    beginning = "" if SLIPS[slip].startswith("clusters") else OPEN_CLUSTER
    text = (beginning + SLIPS[slip]).replace("CERTIFICATE", str(certificates() / "client.pem"))
    assert "%s" in text
    file = tmp_path / "kproxy.yaml"
    file.write_text(text.replace("%s", canary(slip)), encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        read_config(str(file))
    assert kproxy("check", file) == 2
    said = capsysbinary.readouterr()
    assert told.value.mistakes
    assert sorted(canary.found_in({"error": repr(told.value).encode(), "output": said.out + said.err})) == []
