"""Commands that read a capture, in turn: seconds of CPU, seconds, and the most memory of each, and its ratio to the first's CPU.

    python -m tests.bench.commands [--shape mixed] [--megabytes 1,26,200] [--rounds 3] [--until TEXT] COMMAND ...

    python -m tests.bench.commands 'kproxy decode --format jsonl' 'tshark -T json -r'
    python -m tests.bench.commands --shape loopback 'kproxy decode -q --jobs 1 --format parquet -o {}.tables'
    python -m tests.bench.commands --megabytes 200 --until 'First answer, from' 'kproxy report' 'tshark -r'

Small exchanges (tiny, 38 MB) take as JSON lines a 28th of the CPU of `tshark -T json`; as text, 0.26 of `tshark -T fields`. Half
of text's CPU is reading: packets, flows, sessions, without any output. Parquet takes 1.02 of JSON lines' CPU for small exchanges
(tiny, 38 MB), 1.01 (0.83-1.02) for those among larger ones (mixed, 200 MB), but 1.18 in a short run (mixed, 38 MB): pyarrow's
import and its writer are more instructions (callgrind) than JSON's text. Its private modules alone save 35 of 2,002 million, and
no statistics a tenth of its time; faster compression makes files 1.3 to 2 times as large. Libraries have to be there as bytecode.

A command gets the capture's path at its end; ``{}`` in it is that path, too. `kproxy` is this tree's. CPU is that of all its
processes, start-up included. With --until there are also the seconds until TEXT stands on a terminal. traffic.py has the shapes.
"""

import os
import pty
import shlex
import statistics
import time
from contextlib import suppress

from tests.bench.measuring import KPROXY, Cost, cost, options_of, spread, started
from tests.bench.traffic import SHAPES


def words_of(command: str, path: str) -> list[str]:
    program, *words = shlex.split(command)
    return [*(KPROXY if program == "kproxy" else [program]), *(word.replace("{}", path) for word in words), path]


def seconds_until(text: str, words: list[str]) -> float:
    """Seconds until *text* stands on a terminal that is standard output and standard error, or until the end."""
    began = time.monotonic()
    process, terminal = pty.fork()
    if not process:
        os.execvp(words[0], words)
    shown, first = b"", None
    with suppress(OSError), open(terminal, "rb", buffering=0) as stream:  # noqa: PTH123 - a descriptor
        while data := stream.read(65_536):
            shown += data
            if first is None and text.encode() in shown:
                first = time.monotonic() - began
    os.waitpid(process, 0)
    return time.monotonic() - began if first is None else first


def main() -> None:
    given = options_of(__doc__, "commands", shape="mixed", megabytes=[1.0, 26.0], rounds=3, until="")
    with started() as folder:
        path = str(folder / "traffic.pcap")
        for megabytes in given.megabytes:
            exchanges = SHAPES[given.shape](folder / "traffic.pcap", int(megabytes * 1e6))
            print(f"{given.shape}, {megabytes:g} MB, {exchanges:,} exchanges", flush=True)
            commands = [words_of(command, path) for command in given.commands]
            rounds = [[cost(words) for words in commands] for _ in range(given.rounds)]
            for number, words in enumerate(commands):
                costs = [each[number] for each in rounds]
                medians = Cost(*map(statistics.median, zip(*costs, strict=True)))
                ratios = spread([each[number].cpu / each[0].cpu for each in rounds], 2)
                print(f"  {given.commands[number]:<50} {medians}  {ratios}", flush=True)
                if given.until:
                    first = statistics.median(seconds_until(given.until, words) for _ in range(given.rounds))
                    print(f"    {first:.2f} s until {given.until!r}, or the end", flush=True)


if __name__ == "__main__":
    main()
