"""Credentials in captures are in no output: planted wherever Kafka carries some, searched for in any spelling."""

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.support.canaries import Canaries, capture, record_scenes, scenes, unpacked
from tests.support.command import kproxy

SEED = 20_261_122
CUTS = {
    "whole": {},
    "from the middle on": {"without": 7},
    "cut by snaplen": {"snaplen": 110},
    "half of it": {"snaplen": 200, "without": 5},
}


class Streams:
    """What a command writes to its standard streams."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()

    def run(self, *words: object) -> bytes:
        stream = io.TextIOWrapper(self.bytes, encoding="utf-8", errors="backslashreplace", write_through=True)
        with redirect_stdout(stream), redirect_stderr(stream):
            kproxy(*words)
        stream.flush()
        return self.bytes.getvalue()


def run(*words: object) -> bytes:
    return Streams().run(*words)


def outputs(file: Path, folder: Path, *, records: bool = False) -> Iterator[tuple[str, bytes]]:
    """Everything that is made from a capture, by name."""
    asked = ["--records"] if records else []
    yield "text", run("decode", file)
    yield "tree", run("decode", "-v", *asked, file)
    log = folder / "log.jsonl"
    yield "jsonl, what it says", run("decode", "--format", "jsonl", *asked, "-o", log, file)
    yield "jsonl", log.read_bytes()
    yield "tree of jsonl", run("decode", "-v", log)
    for name, options in (("pcapng", []), ("anonymized", ["--anonymize"])):
        written = folder / f"{name}.pcapng"
        run("decode", "--format", "pcapng", *options, "-o", written, file)
        yield name, written.read_bytes()
        if name == "pcapng":
            yield "pcapng, read again", run("decode", "-v", *asked, written)
    tables = folder / "tables"
    run("decode", "--format", "parquet", "--bodies", *asked, "-o", tables, file)
    for part in tables.rglob("*.parquet"):
        yield f"parquet {part.parent.name}", repr(parquet.read_table(part).to_pylist()).encode()
        yield f"parquet {part.parent.name} file", part.read_bytes()
    for form in ("text", "html", "json", "markdown"):
        yield f"report {form}", run("report", "--all", "--format", form, *asked, file)
    yield "sql", run("sql", file, "SELECT * FROM exchanges", "--format", "csv")


@pytest.mark.slow
def test_credentials_are_in_no_output(tmp_path: Path) -> None:
    canary = Canaries(SEED)
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(scenes(canary)))
    made = {name: unpacked(data) for name, data in outputs(file, tmp_path, records=True)}
    assert made["text"].count(b"SaslAuthenticate") > 100
    assert sorted(canary.found_in(made)) == []


@pytest.mark.slow
@pytest.mark.parametrize("cut", list(CUTS)[1:])
def test_credentials_of_captures_that_are_cut_are_in_no_output(cut: str, tmp_path: Path) -> None:
    canary = Canaries(SEED)
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(scenes(canary), **CUTS[cut]))
    made = {form: run("decode", *options, file) for form, options in SHOWN.items()}
    assert made["tree"]
    assert sorted(canary.found_in(made)) == []


SHOWN = {"tree": ["-v", "--records"], "jsonl": ["--format", "jsonl", "--records"], "pcapng": ["--format", "pcapng"]}


@pytest.mark.slow
def test_records_are_shown_only_when_asked_for(tmp_path: Path) -> None:
    """Keys, values and headers of records: with --records, and in captures, which are of the traffic itself."""
    canary = Canaries(SEED)
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(record_scenes(canary)))
    made = {name: unpacked(data) for name, data in outputs(file, tmp_path) if not name.startswith("pcapng")}
    assert b"Produce" in made["text"] and b"Fetch" in made["text"]
    assert sorted(canary.found_in(made)) == []
    asked = run("decode", "-v", "--records", file)
    assert {where for _, where, _ in canary.found_in({"asked": asked})} >= {"produced value", "fetched key"}


def test_what_is_said_of_a_damaged_log_repeats_nothing_of_it(tmp_path: Path) -> None:
    """Its reason is what the tables of Spark have in their quarantine, too."""
    canary = Canaries(SEED)
    file, log = tmp_path / "a.pcap", tmp_path / "log.jsonl"
    file.write_bytes(capture(record_scenes(canary)))
    run("decode", "-q", "--format", "jsonl", "--records", "-o", log, file)
    whole = next(line for line in log.read_bytes().split(b"\n") if b"kpCANARY9" in line)
    damaged = tmp_path / "damaged.jsonl"
    told = []
    for number, wrong in enumerate(damages_of(whole)):
        damaged.write_bytes(log.read_bytes() + wrong + b"\n")
        told.append(run("decode", "-q", "-o", tmp_path / f"{number}.txt", damaged))
    assert sum(b"damaged.jsonl" in said for said in told) > 30
    assert sorted(canary.found_in({str(number): said for number, said in enumerate(told)})) == []


def damages_of(line: bytes) -> Iterator[bytes]:
    """A line that is cut off, with another character, and with a value of another kind; among its canaries, too."""
    places = [found.start() + shift for found in re.finditer(rb'"', line) for shift in (0, 1)]
    for at in places[:: max(1, len(places) // 40)]:
        yield line[:at]
        yield line[:at] + b"\xff" + line[at:]
        yield line[:at] + b'"' + line[at:]
    yield re.sub(rb'":[0-9]+', b'":"kpCANARY9"', line)
    yield b'"' + line.replace(b'"', b"'") + b'"'
    yield b'{"event":' + line + b"}"
