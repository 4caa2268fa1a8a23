"""The memory of `kproxy decode` on a capture of any size, made as it is read and stored nowhere.

    python -m tests.bench.memory [--megabytes 10 10240]

Prints the largest resident size for each size of the capture. Some 400 MB/s are made. Connections come and go without FIN,
which is the harder case.
"""

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import BinaryIO, cast

from tests.bench.traffic import Connection, conversations, file_header

KPROXY = [
    sys.executable,
    "-c",
    "from kproxy.cli import main; main()",
    "decode",
    "--format",
    "jsonl",
    "-q",
    "-o",
    os.devnull,
]
SEGMENT = 8_948  # jumbo frames
CONNECTIONS = 8
LONG_LOG = 200  # exchanges a connection lives


class Counted:
    """Writes on, and counts."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self.size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return self.out.write(data)


def write_stream(out: BinaryIO, size: int) -> int:
    """Write a capture of about *size* bytes; how many exchanges are in it. Connections come and go."""
    counted = Counted(out)
    counted.write(file_header())
    at, exchanges, opened = 1_763_000_000_000_000, 0, 0
    connections: list[Connection | None] = [None] * CONNECTIONS
    for number, (asked, answered) in conversations(random.Random(9092)):
        if counted.size >= size:
            break
        connection = connections[number]
        if connection is None or exchanges % LONG_LOG == number:
            connection = connections[number] = Connection(cast(BinaryIO, counted), opened % 25_000, SEGMENT)
            opened += 1
            connection.open(at)
        connection.send(0, asked, at)
        connection.send(1, answered, at + 900)
        at += 1_500
        exchanges += 1
    return exchanges


def peak_of(size: int, command: Sequence[str] = (*KPROXY, "-")) -> tuple[int, int]:
    """Exchanges in a capture of *size* bytes, and the most memory in bytes that decoding it took.

    Raises:
        subprocess.CalledProcessError: decoding did not end with 0.
    """
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        exchanges = write_stream(cast(BinaryIO, process.stdin), size)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return exchanges, usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 1_000])
    for megabytes in parser.parse_args().megabytes:
        exchanges, peak = peak_of(megabytes << 20)
        print(f"{megabytes:>7,} MiB, {exchanges:>9,} exchanges: {peak / (1 << 20):.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
