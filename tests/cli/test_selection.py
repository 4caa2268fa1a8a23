"""The short options for conditions select what a workload of the captures' manifest did; completion offers what exists."""

import json

import pytest

from kproxy.cli.selection import condition_of
from tests.cli.conftest import Kproxy
from tests.support.corpus import CAPTURES

REBALANCE = CAPTURES / "03-classic-rebalance-range.pcap"  # three members of the group g-range read the topic rebal
TRANSACTIONS = CAPTURES / "04-transactions.pcap"


def selected(kproxy: Kproxy, *words: object) -> list[dict[str, object]]:
    code, out, errors = kproxy("decode", "-q", "--format", "jsonl", *words, REBALANCE)
    assert (code, errors) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("name", ["JoinGroup", "joingroup", "11"])
def test_an_api_by_name_in_any_case_or_by_key(kproxy: Kproxy, name: str) -> None:
    assert {row["apiName"] for row in selected(kproxy, "--api", name)} == {"JoinGroup"}


def test_values_are_alternatives_and_options_are_not(kproxy: Kproxy) -> None:
    rows = selected(
        kproxy, "--api", "JoinGroup", "--api", "SyncGroup", "--client", "member-1", "--where", "latencyMs > 0.0"
    )
    assert {row["apiName"] for row in rows} == {"JoinGroup", "SyncGroup"}
    assert {row["clientId"] for row in rows} == {"member-1"}
    assert len(rows) < len(selected(kproxy, "--api", "JoinGroup", "--api", "SyncGroup"))


@pytest.mark.parametrize(
    ("options", "apis"),
    [
        (["--topic", "rebal", "--api", "Fetch"], {"Fetch"}),
        (["--topic", "re*l", "--api", "Metadata"], {"Metadata"}),
        (["--topic", "other"], set()),
        (["--group", "g-range", "--api", "FindCoordinator"], {"FindCoordinator"}),
        (["--group", "g-?ange", "--api", "LeaveGroup"], {"LeaveGroup"}),
        (["--client", "127.0.0.1", "--api", "Heartbeat"], {"Heartbeat"}),
        (["--client", "127.0.0"], set()),
        (["--client", "member-*", "--api", "Heartbeat"], {"Heartbeat"}),
    ],
)
def test_topics_groups_and_clients(kproxy: Kproxy, options: list[str], apis: set[str]) -> None:
    assert {row["apiName"] for row in selected(kproxy, *options)} == apis


def test_a_name_is_a_text_whatever_is_in_it() -> None:
    condition = condition_of(topics=('a"] || true',))
    assert condition == '"a\\"] || true" in topics'
    assert condition_of() is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["decode", "--api", "Fetchh", REBALANCE], "there is no API 'Fetchh'; did you mean Fetch"),
        (["decode", "--api", "qqq", REBALANCE], "there is no API 'qqq'; kproxy api lists them all"),
        (
            ["decode", "--api", "Fetch", "--where", "apiNam == 1", REBALANCE],
            "--where 'apiNam == 1': nothing is called 'apiNam'",
        ),
        (["decode", "--where", "qqq == 1", REBALANCE], "(column 1); kproxy help conditions lists the names"),
        (["report", "--only", "latensy", REBALANCE], "there is no analysis 'latensy'; did you mean latency"),
        (["report", "--only", "qqq", REBALANCE], "there is no analysis 'qqq'; kproxy report --list shows them"),
        (["filters", "audi"], "there is no filter 'audi'; did you mean audit?"),
        (["run", "--listen", ":1", "--bootstrap", "b:1", "--fault", "leader_mved"], "did you mean leader_moved?"),
        (["api", "Fetc"], "there is no API or message 'Fetc'; did you mean Fetch"),
        (["api", "--errors", "NOT_COORDINATR"], "did you mean NOT_COORDINATOR"),
    ],
)
def test_a_wrong_name_gets_what_was_perhaps_meant_and_no_list_of_all(
    kproxy: Kproxy, words: list[object], sentence: str
) -> None:
    code, out, errors = kproxy(*words)
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert sentence in errors and len(errors) < 300


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kproxy de", {"decode", "demo"}),
        ("kproxy decode --form", {"--format"}),
        ("kproxy decode --format ", {"text", "jsonl", "pcapng", "parquet"}),
        ("kproxy decode --api prod", {"Produce"}),
        ("kproxy decode --where latencyMs>1.0&&apiN", {"latencyMs>1.0&&apiName"}),
        ("kproxy report --only laten", {"latency"}),
        ("kproxy filters aud", {"audit"}),
        ("kproxy run --fault leader", {"leader_moved"}),
        ("kproxy api joing", {"JoinGroup"}),
        ("kproxy completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_a_shell_completes(kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch, words: str, expected: set[str]) -> None:
    """As bash does it: Click's protocol."""
    monkeypatch.setenv("_KPROXY_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    _, out, _ = kproxy()
    assert {line.removeprefix("plain,") for line in out.splitlines()} == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_kproxy(kproxy: Kproxy, shell: str) -> None:
    code, out, _ = kproxy("completion", shell)
    assert code == 0 and f"_KPROXY_COMPLETE={shell}_complete" in out
