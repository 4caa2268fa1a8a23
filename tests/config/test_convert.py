"""Nodes to structs: the message for each kind of mistake, and that the conversion continues."""

from typing import Any

import pytest

from kproxy.config.convert import Conversion
from kproxy.config.structs import Cluster, Config
from kproxy.config.yaml_tree import read_tree
from kproxy.errors import Mistake


def walk(text: str) -> tuple[Config, list[Mistake]]:
    conversion = Conversion()
    return conversion.convert(read_tree(text, "x"), Config), conversion.mistakes


CLUSTER = "clusters: [{listen: 'a:1', bootstrap: ['b:1']}]\n"


def told(text: str) -> tuple[int, int, str, str]:
    (mistake,) = walk(CLUSTER + text)[1]
    return tuple(mistake)


@pytest.mark.parametrize(
    ("text", "place", "path", "words"),
    [
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
        (
            "analysis: {api_name: [], apis: []}",
            (2, 26),
            "analysis.apis",
            "api_name occurs twice, once by its former name",
        ),
        ("workers: 1\nworkers: 2", (3, 1), "workers", "twice"),
        ("<<: {workers: 2}", (2, 1), "", "merging"),
        ("[a]: 2", (2, 1), "", "plain text"),
    ],
)
def test_a_mistake_has_its_place_its_path_and_its_words(
    text: str, place: tuple[int, int], path: str, words: str
) -> None:
    line, column, found, message = told(text)
    assert (line, column) == place
    assert found == path
    assert words in message


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
    ("text", "value"),
    [("no", "no"), ("123", "123"), ("'1.2.3'", "1.2.3"), ("2020-01-01", "2020-01-01"), ("on", "on")],
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
