"""Captures to be read in parts, and their tables: what `kproxy decode --format parquet` writes, and what parts give together."""

import random
import struct
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kproxy.capture.segments import BLOCK_SIZE, BlockWriter
from kproxy.capture.splitting import PartReader, begin, divide, settle, survey_part
from kproxy.output.tables import TABLES
from kproxy.pipeline.run import Run
from kproxy.spark.connections import ConnectionReader, Segments, answers, gather, merge, read_head
from kproxy.spark.rows import Options, Rows
from tests.support.corpus import CAPTURES
from tests.support.tables import decode

Rowset = dict[str, list[str]]  # table -> its rows as text, sorted: lists in them cannot be sorted otherwise
PLAIN = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
ALL_ROWS = Options(records=True)


def rowset(directory: Path) -> Rowset:
    """The rows of all tables below a directory, without the columns of its partitions."""
    return {
        name: _rows(pq.ParquetFile(file).read() for file in directory.glob(f"{name}/**/*.parquet")) for name in TABLES
    }


def _rows(tables: Iterable[pa.Table | pa.RecordBatch]) -> list[str]:
    return sorted(repr(row) for table in tables for row in table.to_pylist())


def decoded(capture: Path, folder: Path, *options: str) -> Rowset:
    """What kproxy decode makes of a capture."""
    decode(*options, "-o", folder / "decoded", capture)
    return rowset(folder / "decoded")


@cache
def packets_of(name: str) -> tuple[bytes, tuple[bytes, ...]]:
    """The header of a little-endian pcap, and its records."""
    data = (CAPTURES / name).read_bytes()
    at, records = 24, []
    while at + 16 <= len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "little")
        records.append(data[at : at + 16 + size])
        at += 16 + size
    return data[:24], tuple(records)


def altered(name: str, how: str, seed: int) -> bytes:
    """A capture, its packets shuffled, lost, repeated, cut, or damaged."""
    chance = random.Random(f"{name} {how} {seed}")
    header, given = packets_of(name)
    records = list(given)
    if how == "shuffled":
        chance.shuffle(records)
    elif how == "out of order":
        placed = sorted(range(len(records)), key=lambda at: at + 20 * chance.random())
        records = [records[at] for at in placed]
    elif how == "started late":
        records = records[chance.randrange(len(records)) :]
    elif how == "lossy":
        records = [record for record in records if chance.random() < 0.95]
    elif how == "repeated":
        records = [each for record in records for each in [record] * (1 + (chance.random() < 0.05))]
    elif how == "snaplen":
        most = chance.choice((60, 100, 300))
        records = [r if len(r) - 16 <= most else r[:8] + struct.pack("<I", most) + r[12 : 16 + most] for r in records]
    data = bytearray(header + b"".join(records))
    if how == "cut":
        del data[chance.randrange(100, len(data)) :]
    elif how == "damaged":
        at = chance.randrange(24, len(data) - 8)
        data[at : at + 4] = chance.randbytes(4)
    return bytes(data)


def in_parts(capture: Path, parts: int, *, block: int = BLOCK_SIZE, options: Options = ALL_ROWS) -> Rowset:
    """The rows that the parts of a capture give, without Spark: the same steps, one after the other."""
    with capture.open("rb", buffering=0) as raw:
        start, size = begin(raw), capture.stat().st_size
        assert start is not None
        surveys = settle(
            (survey_part(raw, part, start) for part in divide(start, size, parts)),
            lambda part: survey_part(raw, part, start),
        )
        shared = gather(surveys)
        with Run(options.run_options()) as run:
            head = read_head([(raw, start, size)], run, shared.secrets)
        shared.names, shared.waits = head.names, head.waits
        blocks: list[tuple[bytes, int, bytes]] = []
        for survey in surveys:
            if survey.start is None:
                continue
            reader, writer = PartReader(raw, survey.start, survey.part.stop, survey.part.preamble), BlockWriter(block)
            number = survey.first_number
            for batch in reader.batches():
                blocks += writer.receive(batch, number)
                number += batch.count
            blocks += writer.flush()
    blocks.sort()
    found: dict[str, list[pa.RecordBatch]] = {}
    for _ in range(2):
        found.update({name: [] for name in TABLES})
        output = Rows(lambda table, rows: found[table.name].append(rows), options)
        with Run(options.run_options(), [output]) as run:
            connections = ConnectionReader(run, capture.name, shared)
            for key, some in groupby(blocks, key=lambda each: each[0]):
                for _ in connections.read(key, (Segments(data) for _, _, data in some)):
                    pass
        learned = connections.learned
        if not answers(shared.names, learned.names, learned.missed):
            break
        shared.names = merge([shared.names, learned.names])
    numbers = {first: number for number, first in enumerate(sorted(learned.flows), 1)}
    for at, rows in enumerate(found["connections"]):
        index = rows.schema.get_field_index("connection")
        numbered = pa.array([numbers[first] for first in rows.column(index).to_pylist()], pa.int64())
        found["connections"][at] = rows.set_column(index, rows.schema.field(index), numbered)
    return {name: _rows(batches) for name, batches in found.items()}


def differences(expected: dict[str, list[Any]], found: dict[str, list[Any]]) -> dict[str, Any]:
    """What is not the same, by table; empty if all is."""
    return {
        name: (sorted(set(expected[name]) - set(found[name]))[:2], sorted(set(found[name]) - set(expected[name]))[:2])
        for name in expected
        if expected[name] != found[name]
    }
