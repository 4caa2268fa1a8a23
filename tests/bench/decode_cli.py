"""`kproxy decode` against tshark on the same capture, and with several jobs against one.

    python -m tests.bench.decode_cli [--shapes mtu1500,loopback,tiny,mixed] [--megabytes 1,5,26,100] [--rounds 3]
                                     [--only jsonl,text,jobs] [--jobs N] [--kproxy COMMAND]

`--format jsonl` against `tshark -T json`, `--format text` against `tshark -T fields -e kafka.api_key`: CPU seconds of the whole
process, start-up included, in turn; medians of the rounds and of their ratios, with the spread. The jobs: seconds by the clock,
and the same output; cores that others use spoil that. The shapes are in traffic.py. Needs tshark. With --kproxy another kproxy is
timed in place of this tree's: the path of its command.
"""

import os
import shlex
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measuring import KPROXY, cost, options_of, spread, started
from tests.bench.traffic import SHAPES

TSHARK = {"jsonl": ["-T", "json"], "text": ["-T", "fields", "-e", "kafka.api_key"]}


def count_exchanges(kproxy: list[str], path: Path) -> int:
    """Lines that `--format jsonl` prints: a benchmark of a program that loses exchanges is worth nothing."""
    command = [*kproxy, "decode", "--format", "jsonl", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        return sum(1 for line in run.stdout if b'"undecoded":null' in line)


def against_tshark(kproxy: list[str], output: str, path: Path, rounds: int) -> str:
    ours = [*kproxy, "decode", "--format", output, str(path)]
    theirs = ["tshark", *TSHARK[output], "-r", str(path)]
    rows = [(cost(ours).cpu, cost(theirs).cpu) for _ in range(rounds)]
    ours_median, theirs_median = (statistics.median(row[side] for row in rows) for side in (0, 1))
    size = path.stat().st_size / 1e6
    return (
        f"  {output:<6} {ours_median:7.3f} s ({size / ours_median:6.1f} MB/s)"
        f"   tshark {' '.join(TSHARK[output]):<25} {theirs_median:7.3f} s ({size / theirs_median:6.1f} MB/s)"
        f"   {spread([b / a for a, b in rows])}"
    )


def several_jobs(kproxy: list[str], jobs: int, path: Path, rounds: int) -> str:
    files = {1: path.with_name("one.jsonl"), jobs: path.with_name("several.jsonl")}
    rows = []
    for _ in range(rounds):
        decode = [*kproxy, "decode", "-q", "--format", "jsonl"]
        rows.append([cost([*decode, "--jobs", str(n), "-o", str(out), str(path)]).seconds for n, out in files.items()])
        assert len({out.read_bytes() for out in files.values()}) == 1
    alone, together = (statistics.median(row[side] for row in rows) for side in (0, 1))
    return f"  --jobs {jobs} {together:.2f} s, --jobs 1 {alone:.2f} s   {spread([a / b for a, b in rows], 2)}"


def lines(
    kproxy: list[str], shape: str, size: int, path: Path, only: list[str], jobs: int, rounds: int
) -> Iterator[str]:
    exchanges = SHAPES[shape](path, size)
    decoded = count_exchanges(kproxy, path)
    yield f"{shape}: {path.stat().st_size / 1e6:.1f} MB, {decoded:,} of {exchanges:,} exchanges decoded"
    for what in only:
        yield several_jobs(kproxy, jobs, path, rounds) if what == "jobs" else against_tshark(kproxy, what, path, rounds)


def main() -> None:
    given = options_of(
        __doc__, shapes=[*SHAPES], megabytes=[1.0, 5.0, 26.0, 100.0], rounds=3, only=[*TSHARK],
        jobs=len(os.sched_getaffinity(0)), kproxy=shlex.join(KPROXY),
    )  # fmt: skip
    with started() as folder:
        for shape in given.shapes:
            for megabytes in given.megabytes:
                measured = (shlex.split(given.kproxy), shape, int(megabytes * 1_000_000), folder / "traffic.pcap")
                for line in lines(*measured, given.only, given.jobs, given.rounds):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
