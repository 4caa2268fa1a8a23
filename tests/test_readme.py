"""README.md's two commands: what .ci/run runs is what README.md says, and what README.md names is there."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROMPT = re.compile(r"^\$ (.+)$", re.MULTILINE)


def commands() -> list[str]:
    return PROMPT.findall(README)


def test_the_first_command_installs_and_does_the_main_job() -> None:
    assert "pip install . " in commands()[0]
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
        run = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=True)
        assert run.stdout == command + "\n"


def test_files_that_the_readme_names_are_there() -> None:
    named = re.findall(r"(?<![\w/.])(?:kproxy|tests|captures|\.ci)/[\w./-]*[\w]", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
