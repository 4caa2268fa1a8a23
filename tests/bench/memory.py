"""The memory of `kproxy decode` on a capture of any size, made as it is read and stored nowhere.

    python -m tests.bench.memory [--megabytes 10,10240]

Prints the largest resident size for each size of the capture. Some 400 MB/s are made. Connections come and go without FIN,
which is the harder case.
"""

import os
import random
import subprocess
import time
from typing import BinaryIO, cast

from tests.bench.measuring import KPROXY, ended, options_of, started
from tests.bench.traffic import FIRST_AT, Connection, conversations, file_header, send

DECODE = [*KPROXY, "decode", "--format", "jsonl", "-q", "-o", os.devnull, "-"]
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
    at, exchanges, opened = FIRST_AT, 0, 0
    connections: list[Connection | None] = [None] * CONNECTIONS
    for number, exchange in conversations(random.Random(9092)):
        if counted.size >= size:
            break
        connection = connections[number]
        if connection is None or exchanges % LONG_LOG == number:
            connection = connections[number] = Connection(cast(BinaryIO, counted), opened % 25_000, SEGMENT)
            opened += 1
            connection.open(at)
        send(connection, exchange, at)
        at += 1_500
        exchanges += 1
    return exchanges


def peak_of(size: int) -> tuple[int, int]:
    """Exchanges in a capture of *size* bytes, and the most memory in bytes that decoding it took."""
    began = time.monotonic()
    with subprocess.Popen(DECODE, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        exchanges = write_stream(cast(BinaryIO, process.stdin), size)
        process.stdin.close()
        return exchanges, int(ended(process, began).megabytes * 1024 * 1024)


def main() -> None:
    with started():
        for megabytes in options_of(__doc__, megabytes=[10, 1_000]).megabytes:
            exchanges, peak = peak_of(megabytes << 20)
            print(f"{megabytes:>7,} MiB, {exchanges:>9,} exchanges: {peak / (1 << 20):.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
