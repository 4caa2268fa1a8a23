"""What must hold for any capture given to `kproxy decode`; used by test_capture_bytes.py and by the hammer."""

import random
import struct
from contextlib import redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from kproxy.cli import main
from kproxy.output.tables import TABLES
from tests.bench.traffic import Connection, file_header
from tests.fuzz.altered_target import Pair
from tests.support.corpus import damaged, golden_lines
from tests.support.tables import query

CAPTURES = Path(__file__).parents[2] / "captures"
DOCUMENTED = {0, 2, 3}  # decoded; no capture at all; damaged (what comes before the damage was decoded)
PARQUET = ["--format", "parquet", "--bodies", "--records"]
OUTPUTS = [["--format", "jsonl"], ["--format", "text"], ["--format", "text", "-v"], PARQUET]
PCAP_MAGIC = b"\xd4\xc3\xb2\xa1"
START = 1_763_000_000_000_000  # microseconds


def check_capture(chance: random.Random, data: bytes, folder: Path, output: list[str] | None = None) -> int:
    """The exit status of decoding *data* to *output*, or any. Anything that is not documented fails the caller."""
    path = folder / "damaged.pcap"
    path.write_bytes(data)
    output = output or chance.choice(OUTPUTS)
    target = folder / ("tables" if "parquet" in output else "out.txt")
    with pytest.raises(SystemExit) as ended, redirect_stderr(StringIO()):
        main(["decode", "--quiet", "-o", str(target), *output, str(path)])
    assert ended.value.code in DOCUMENTED, ended.value.code
    if "parquet" in output and ended.value.code != 2:
        read_tables(target)
    return ended.value.code


def read_tables(folder: Path) -> None:
    """Another program must be able to read every value, dates included."""
    for name in TABLES:
        query(folder, f"select sum(strlen({name}::text)) from {name}")


def damaged_capture(chance: random.Random) -> bytes:
    """A real capture with damage anywhere in the file: headers of blocks, packets, IP, TCP, frames."""
    data = chance.choice(real_captures())
    for _ in range(chance.choice((1, 4, 16, 64))):
        place = chance.randrange(len(data))
        data = data[:place] + damaged(chance, data[place : place + 64]) + data[place + 64 :]
    return data


def damaged_packets(chance: random.Random) -> bytes:
    """A real capture whose file is sound, but what is in some of its packets is not: headers of every layer, frames."""
    data = bytearray(chance.choice([data for data in real_captures() if data.startswith(PCAP_MAGIC)]))
    often = chance.choice((0.5, 0.1, 0.02))
    start = 24
    while start < len(data):
        size = struct.unpack_from("<I", data, start + 8)[0]
        if chance.random() < often:
            end = start + 16 + size
            place = start + 16 + chance.randrange(min(size, chance.choice((14, 34, 54, 100, size))))
            before = bytes(data[place:end])
            after = damaged(chance, before)
            data[place:end] = (after + before[len(after) :])[: len(before)]
        start += 16 + size
    return bytes(data)


def altered_conversation(pairs: list[Pair], folder: Path) -> bytes:
    """A sound capture of one connection with these requests and responses."""
    path = folder / "conversation.pcap"
    with path.open("wb") as out:
        out.write(file_header())
        connection = Connection(out, number=1, segment=32_768)
        connection.open(START)
        for number, (request, response) in enumerate(pairs):
            correlation_id = number.to_bytes(4, "big")
            connection.send(0, request[:8] + correlation_id + request[12:], START + number * 1000)
            connection.send(1, response[:4] + correlation_id + response[8:], START + number * 1000 + 500)
    return path.read_bytes()


def damaged_conversation(chance: random.Random, folder: Path) -> bytes:
    """A sound capture of one connection on which both sides say damaged things, in small or large segments."""
    path = folder / "conversation.pcap"
    with path.open("wb") as out:
        out.write(file_header())
        connection = Connection(out, number=1, segment=chance.choice((1, 7, 100, 1460)))
        if chance.randrange(4):
            connection.open(START)
        for number in range(chance.randrange(1, 12)):
            for side, frame in enumerate(chance.choice(frames_of_apis())):
                same = frame[: 4 if side else 8] + number.to_bytes(4, "big") + frame[8 if side else 12 :]
                said = damaged(chance, same) if chance.randrange(3) == 0 else same
                connection.send(side, said[:4000], START + number * 1000)
    return path.read_bytes()


@cache
def real_captures() -> list[bytes]:
    return [path.read_bytes() for path in sorted(CAPTURES.glob("*.pcap*")) if path.stat().st_size < 200_000]


@cache
def frames_of_apis() -> list[tuple[bytes, bytes]]:
    """A request and a response of every API and version; their correlation ids are to be made the same."""
    requests, responses = ({}, {})  # type: tuple[dict[tuple[int, int], bytes], dict[tuple[int, int], bytes]]
    for line in golden_lines("frames"):
        side = requests if line["direction"] == "request" else responses
        side[line["apiKey"], line["version"]] = bytes.fromhex(line["frameHex"])
    return [(requests[api], responses[api]) for api in sorted(requests.keys() & responses.keys())]
