"""README.md and the manual: .ci/run runs README's two commands, examples print what is shown, and what is named exists."""

import doctest
import html
import importlib.util
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, ConnectionFacts, Send
from kproxy.manual import TOPICS, text
from kproxy.protocol import message
from tests.conftest import Require
from tests.support.tables import MANIFEST

ROOT = Path(__file__).parents[1]
FOUND = 4  # exit status of a report that found what was asked for
LONGEST = 160  # lines
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = README + "\n".join(map(text, TOPICS))
PICTURE = ROOT / "deploy" / "release" / "terminal.svg"
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
PROMPT = re.compile(r"^\$ (.+)$", re.MULTILINE)
EXAMPLE = re.compile(r"^\$ (kproxy .+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)


def commands() -> list[str]:
    return PROMPT.findall(README)


def printed(command: str) -> str:
    program = f"{shlex.quote(sys.executable)} -c 'from kproxy.cli import main; main()'"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    shell = f'kproxy() {{ {program} "$@"; }}\n{command}'
    with tempfile.TemporaryDirectory(prefix="kproxy-readme-") as folder:
        (Path(folder) / "captures").symlink_to(ROOT / "captures")
        words = ["bash", "-c", shell]
        run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert run.returncode in (0, FOUND), run.stderr
    return run.stdout


def test_the_first_command_installs_and_does_the_main_job() -> None:
    assert "pip install -e . " in commands()[0]
    assert commands()[0].endswith("kproxy decode captures/01-java-produce-consume-group.pcap")


def test_the_second_command_installs_and_passes_the_tests() -> None:
    assert "pip install -e '.[test]' " in commands()[1]
    assert commands()[1].endswith("python -m pytest")


def test_ci_runs_the_two_commands_word_for_word() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '''bash -euo pipefail -c "$(readme_command 1)"''' in script
    assert '''run_tests bash -euo pipefail -c "$(readme_command 2)"''' in script
    function = next(line for line in script.splitlines() if line.startswith("readme_command() "))
    for number, command in enumerate(commands()[:2], start=1):
        shell = f"{function}\nreadme_command {number}"
        run = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        assert run.stdout == command + "\n"


@pytest.mark.parametrize(("command", "shown"), EXAMPLE.findall(README), ids=lambda shown: shown[:60])
def test_an_example_prints_what_is_shown(command: str, shown: str) -> None:
    parts = [re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?:.*\n)+".join(parts), printed(command)), printed(command)


def test_the_rebalances_in_the_picture_are_those_that_the_members_reported() -> None:
    shown = html.unescape(re.sub(r"<[^>]*>", "", PICTURE.read_text(encoding="utf-8"))).replace("\xa0", " ")
    (expected,) = (entry["expect"]["groups"]["g-range"] for entry in MANIFEST if entry["file"].startswith("03-"))
    assert re.findall(r"g-range +(\d+)  (?:joined|left)", shown) == [str(n) for n in expected["generations_seen"]]


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) <= LONGEST


def test_the_frames_that_tshark_calls_malformed_are_counted_in_the_manifest() -> None:
    made = [entry["tshark_4_0_17"] for entry in MANIFEST if entry.get("tshark_4_0_17")]
    frames, malformed = (sum(each[name] for each in made) for name in ("kafka_frames", "malformed_frames"))
    assert f"of the {frames:,} Kafka frames in `captures`, tshark 4.0.17 calls {malformed} malformed" in " ".join(
        DOCUMENTS.split()
    )


def test_the_picture_is_what_kproxy_gives_today(require: Require) -> None:
    require("report", importlib.util.find_spec("duckdb"), "duckdb is not installed")
    words = [sys.executable, "deploy/release/readme.py", "--check"]
    run = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout


def test_there_are_examples() -> None:
    assert len(EXAMPLE.findall(README)) >= 1


def test_the_library_does_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = [block for block in PYTHON.findall(DOCUMENTS) if block.startswith(">>>")]
    assert len(blocks) == 1
    for block in blocks:
        session = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL).run(session)
        assert results.attempted >= 2
        assert results.failed == 0


@pytest.mark.parametrize(("name", "answered"), [("internal-a", {"internal-a": 44}), ("orders", None)])
def test_the_filter_does_what_it_says(name: str, answered: dict[str, int] | None) -> None:
    (block,) = (block for block in PYTHON.findall(DOCUMENTS) if "class DenyTopics" in block)
    defined: dict[str, Any] = {}
    exec(block, defined)
    wish = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    create = message("CreateTopicsRequest")
    body = create.encode(5, create.from_json(5, json.dumps({"topics": [wish], "timeoutMs": 1, "validateOnly": False})))
    header = struct.pack(">hhih", 19, 5, 7, 1) + b"x\0"
    frame = struct.pack(">i", len(header + body)) + header + body
    outcome = Chain([defined["DenyTopics"]("internal-")]).on_request(ConnectionFacts(1, "c", "", "", ""), frame)
    if answered is None:
        assert outcome == Send(frame)
    else:
        assert isinstance(outcome, Answer)
        response = message("CreateTopicsResponse").decode(5, outcome.frame, 9)
        assert {topic.name: topic.error_code for topic in response.topics} == answered


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"(?<![\w/.])(?:kproxy|tests|captures|deploy|dashboards|\.ci)/[\w./-]*[\w]", DOCUMENTS)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_promise_and_attack_that_a_test_names_is_in_the_list() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    promises, attacks = (set(re.findall(r"^\| (\d+) \|", part, re.MULTILINE)) for part in text.split("## Attacks"))
    names = [
        name
        for module in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def test_(\w+)\(", module.read_text(encoding="utf-8"))
    ]
    assert {number for name in names for number in re.findall(r"promise_(\d+)_", name)} <= promises
    assert {number for name in names for number in re.findall(r"attack_(\d+)_", name)} <= attacks
