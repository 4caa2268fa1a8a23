"""``kproxy decode --jobs``: several processes give what one gives, to the byte; when they cannot, one decodes it all."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kproxy.cli.formats import text_renderer
from kproxy.cli.jobs import Progress, decode_in_parts
from kproxy.output.jsonl import event_line
from kproxy.pipeline.decoded_log import open_input
from kproxy.pipeline.inputs import Files
from kproxy.pipeline.line_output import Lines, Render
from kproxy.pipeline.run import Options, Run
from kproxy.pipeline.sink import Sink
from kproxy.pipeline.summary import Summary
from tests.bench.traffic import write_capture
from tests.support.sampled import sampled

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
RENDERS = {"jsonl": event_line, "text": text_renderer(verbose=True, on_terminal=False)}


def decode(
    path: Path,
    output: Path,
    *,
    render: Render = event_line,
    jobs: int = 1,
    head: int = 0,
    options: Options = Options(),  # noqa: B008 - frozen
    advance: Callable[[], None] = lambda: None,
) -> tuple[bool, bytes, list[str]]:
    """Decode; return whether it was divided, what was written, and the summary with all else that a person is told."""
    summary = Summary()
    with Run(options, [Lines(render, Sink(output, live=False)), summary]) as run:
        divided = jobs > 1 and decode_in_parts(run, Files([path]), jobs, Progress(), advance, head=head)
        if not divided:
            with open_input(path) as source:
                for _ in run.read(source):
                    pass
        notes = run.condition.notes if run.condition is not None else []
        said = [*summary.lines(run.packets_passed_over), *run.damages, *notes]
    return divided, output.read_bytes(), said


@pytest.mark.parametrize(("head", "jobs", "form"), [(0, 2, "jsonl"), (3_000, 3, "text")])
@pytest.mark.parametrize("name", sampled(NAMES, NAMES[::4]))
def test_parts_give_what_one_run_gives(name: str, head: int, jobs: int, form: str, tmp_path: Path) -> None:
    render = RENDERS[form]
    whole = decode(CAPTURES / name, tmp_path / "whole", render=render)
    parts = decode(CAPTURES / name, tmp_path / "parts", render=render, jobs=jobs, head=head)
    assert parts == (True, *whole[1:])


def test_a_condition_holds_in_all_parts_and_what_it_could_not_answer_is_told_once(tmp_path: Path) -> None:
    options = Options(where="response.errorCode == 0 && latencyMs > 1.0")
    path = CAPTURES / "03-classic-rebalance-range.pcap"
    whole = decode(path, tmp_path / "whole", options=options)
    parts = decode(path, tmp_path / "parts", options=options, jobs=3)
    assert parts == (True, *whole[1:])
    assert len(whole[2]) > 1  # exchanges whose response has no errorCode


def test_a_capture_cut_off_says_so_once(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURES / "04-transactions.pcap").read_bytes()[:-31])
    whole = decode(path, tmp_path / "whole")
    parts = decode(path, tmp_path / "parts", jobs=2)
    assert parts == (True, *whole[1:])
    assert "ends within a packet" in parts[2][-1]


def test_when_a_process_is_killed_one_run_goes_on_where_the_lines_ended(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    write_capture(path, 30_000_000, "mtu1500")
    whole = decode(path, tmp_path / "whole")

    def kill_one() -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
        os.kill(int(children[-1]), signal.SIGKILL)

    parts = decode(path, tmp_path / "parts", jobs=2, advance=kill_one)
    assert parts == (False, *whole[1:])


@pytest.mark.slow
def test_the_command_decodes_in_parts_and_ends_at_an_interrupt(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    write_capture(path, 60_000_000, "mtu1500")
    command = [sys.executable, "-m", "kproxy", "decode", "--format", "jsonl", str(path)]
    outputs = {}
    for jobs in ("1", "2"):
        run = subprocess.run([*command, "--jobs", jobs], capture_output=True, check=True)
        outputs[jobs] = (run.stdout, run.stderr)
    assert outputs["1"] == outputs["2"]

    with subprocess.Popen([*command, "--jobs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.read(100)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert b"exchanges on" in process.stderr.read()
    assert process.returncode in (0, 130)  # all may have been decoded by then
    assert outputs["1"][0].startswith((first + rest)[:1_000])


def test_lines_are_passed_on_to_head_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    write_capture(path, 60_000_000, "mtu1500")
    script = f"{sys.executable} -m kproxy decode --format jsonl --jobs 2 {path} | head -n 1"
    run = subprocess.run(["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True, check=False)
    assert (run.returncode, len(run.stdout.splitlines()), run.stderr) == (0, 1, "")
