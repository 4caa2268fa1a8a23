"""README.md: .ci/run runs its two commands, its examples print what it shows, and what it names is there."""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROMPT = re.compile(r"^\$ (.+)$", re.MULTILINE)
EXAMPLE = re.compile(r"^\$ (kproxy .+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)


def commands() -> list[str]:
    return PROMPT.findall(README)


def printed(command: str) -> str:
    program = f"{shlex.quote(sys.executable)} -c 'from kproxy.cli import main; main()'"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    shell = f'kproxy() {{ {program} "$@"; }}\n{command}'
    run = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True
    )
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
    assert script.rstrip().endswith('''bash -euo pipefail -c "$(readme_command 2)"'''), "the tests come last"
    function = next(line for line in script.splitlines() if line.startswith("readme_command() "))
    for number, command in enumerate(commands()[:2], start=1):
        shell = f"{function}\nreadme_command {number}"
        run = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        assert run.stdout == command + "\n"


@pytest.mark.parametrize(("command", "shown"), EXAMPLE.findall(README), ids=lambda text: text[:60])
def test_an_example_prints_what_is_shown(command: str, shown: str) -> None:
    parts = [re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?:.*\n)+".join(parts), printed(command)), printed(command)


def test_there_are_examples() -> None:
    assert len(EXAMPLE.findall(README)) >= 5


def test_the_library_does_what_is_shown() -> None:
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert block is not None
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    session = doctest.DocTestParser().get_doctest(block.group(1), {}, "README.md", "README.md", 0)
    results = doctest.DocTestRunner(optionflags=flags).run(session)
    assert results.attempted >= 8
    assert results.failed == 0


def test_files_that_the_readme_names_are_there() -> None:
    named = re.findall(r"(?<![\w/.])(?:kproxy|tests|captures|\.ci)/[\w./-]*[\w]", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_name_of_a_json_line_is_explained() -> None:
    table = README.split("### JSON lines")[1].split("###")[0]
    explained = {
        name for row in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    line = printed("kproxy decode --format jsonl captures/01-java-produce-consume-group.pcap | head -1")
    assert set(json.loads(line)) == explained
