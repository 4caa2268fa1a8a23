"""How processes are started: what they inherit, and what of the directory one is in does not get in."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.config.reading import Options
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.supervisor import processes
from kproxy.proxy.supervisor.processes import (
    ANALYZER,
    CHILD,
    SUPERVISOR,
    WORKER,
    environment,
    start_child,
    supervisor_title,
)

CODE = """
import os, sys
from pathlib import Path
import kproxy
def main(arguments):
    title = Path("/proc/self/cmdline").read_text().rstrip("\\0")
    sys.stdout.write("|".join([str(os.getpgid(0) == os.getpid()), str(Path(kproxy.__file__).parents[1]), title]))
    os.write(arguments.taps[0], b"inherited")
"""


def run_child(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Start a child module that lies in *folder*, on the path; what it wrote to its tap."""
    (folder / "child_of_tests.py").write_text(CODE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    read, write = os.pipe()

    async def main() -> int:
        return await start_child("child_of_tests", ChildArguments(os.getpid(), write, taps=(write,), worker=2)).ended

    out = folder / "out"
    saved = os.dup(1)
    with out.open("wb") as file:
        os.dup2(file.fileno(), 1)
        try:
            assert asyncio.run(main()) == 0
        finally:
            os.dup2(saved, 1)
            os.close(saved)
    assert os.read(read, 100) == b"inherited"
    return out.read_text(encoding="utf-8").split("|")


def test_a_child_has_its_own_group_the_same_kproxy_and_what_it_inherits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, root, title = run_child(tmp_path, monkeypatch)
    assert leader == "True"
    assert root == str(Path(processes.__file__).parents[3])
    assert title == "kproxy: worker 2"


def test_modules_of_the_directory_one_is_in_are_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("asyncio", "msgspec", "kproxy", "yaml"):
        (trap / f"{name}.py").write_text("raise SystemExit('trapped')", encoding="utf-8")
    monkeypatch.chdir(trap)
    assert run_child(tmp_path, monkeypatch)[0] == "True"


@pytest.mark.parametrize(("module", "worker", "named"), [(ANALYZER, -1, True), (WORKER, 0, False)])
def test_the_analyzer_is_known_by_its_command_line(module: str, worker: int, named: bool) -> None:
    """From the start on, before it takes its title."""

    async def main() -> bytes:
        process = start_child(module, ChildArguments(0, -1, worker=worker))  # ends at once, as that is not its parent
        command = b""
        while not command and not process.ended.done():
            command = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            await asyncio.sleep(0)
        await process.ended
        return command

    assert (b"kproxy-analyzer" in asyncio.run(main())) is named


@pytest.mark.parametrize(
    ("options", "title"),
    [
        (Options(file="/etc/kproxy.yaml"), "kproxy run -c /etc/kproxy.yaml"),
        (Options(listen=":1", bootstrap=["a:1", "b:2"]), "kproxy run --listen :1 --bootstrap a:1,b:2"),
        (Options(file="k.yaml", listen=":1", log="secret.jsonl"), "kproxy run -c k.yaml --listen :1"),
    ],
)
def test_the_supervisor_is_called_by_its_command(options: Options, title: str) -> None:
    assert supervisor_title(options) == title


def test_the_supervisor_inherits_its_options_and_is_known_from_the_start_on() -> None:
    """Its command line has the title in it, and no JSON."""
    code = (
        "import sys; from kproxy.config.reading import Options; from kproxy.proxy.supervisor import processes;"
        "processes.SUPERVISOR = 'tests.support.shown_options';"
        "processes.become_supervisor(Options(file='/no/such.yaml', log='x.jsonl'))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    command, options = shown.stdout.splitlines()
    assert command.endswith("kproxy run -c /no/such.yaml")
    assert "{" not in command
    assert options == repr(Options(file="/no/such.yaml", log="x.jsonl"))


def test_one_that_is_killed_says_so() -> None:
    async def main() -> int:
        process = start_child(WORKER, ChildArguments(0, -1))
        process.kill()
        code = await process.ended
        process.kill()
        return code

    assert asyncio.run(main()) == -9


def test_what_is_started_is_there() -> None:
    for module in (WORKER, ANALYZER, SUPERVISOR, CHILD):
        assert (Path(processes.__file__).parents[3] / f"{module.replace('.', '/')}.py").is_file()
    assert Path(sys.executable).is_file()
