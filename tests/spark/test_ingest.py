"""The job: folders of captures and logs to Parquet that Spark and DuckDB read; run again, it adds nothing."""

import gzip
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from kproxy.errors import UsageError
from kproxy.output.tables import TABLES, schema_of
from kproxy.spark.catalog import Catalog, Report, number_connections, safe
from kproxy.spark.divided import Result
from kproxy.spark.files import InputFile, find_files
from kproxy.spark.ingest import BUNDLE, Task, bundles, decode_whole, groups, ingest
from kproxy.spark.rows import Chunk, Options, PartFile
from tests.support.corpus import CAPTURES
from tests.support.split_captures import decoded, differences, packets_of, rowset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # Spark takes seconds for each
GOOD, CUT = "01-java-produce-consume-group.pcap", "03-classic-rebalance-range.pcap"
BROKER_PORT = 9092
FILE = InputFile("/captures/a.pcap", 100, 5)
CHANGED = InputFile("/captures/a.pcap", 120, 6)
DATA = (CAPTURES / GOOD).read_bytes()
PCAPNG = (CAPTURES / "07-tls13-dsb.pcapng").read_bytes()
ALL_ROWS = Options(records=True)


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    data = (CAPTURES / GOOD).read_bytes()
    (folder / "a.pcap").write_bytes(data)
    (folder / "b.pcap.gz").write_bytes(gzip.compress((CAPTURES / "05-admin.pcap").read_bytes()))
    (folder / "cut.pcap").write_bytes((CAPTURES / CUT).read_bytes()[:60_000])
    (folder / "odd.pcap").write_bytes(b"this is no capture")
    return folder


def run(spark: "SparkSession", inputs: Path, output: Path, **options: object) -> Report:
    return ingest(spark.sparkContext, [str(inputs)], str(output), **options)  # type: ignore[arg-type]


def test_bad_files_cost_themselves_and_are_quarantined(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    report = run(spark, inputs, tmp_path / "out")
    assert (report.read, report.unread, report.skipped) == (3, 1, 0)
    rows = rowset(tmp_path / "out")
    alone = {name: decoded(inputs / name, _folder(tmp_path / name)) for name in ("a.pcap", "b.pcap.gz", "cut.pcap")}
    together = {table: sorted(row for each in alone.values() for row in each[table]) for table in rows}
    assert differences(together, rows) == {}
    assert len(alone["a.pcap"]["exchanges"]) == 23
    assert 0 < len(alone["cut.pcap"]["exchanges"]) < 126
    quarantine = [json.loads(path.read_text()) for path in (tmp_path / "out/_kproxy/quarantine").iterdir()]
    reasons = {Path(each["path"]).name: each["reasons"][0].partition(": ")[2] for each in quarantine}
    assert sorted(reasons) == ["cut.pcap", "odd.pcap"]
    assert "neither pcap nor pcapng" in reasons["odd.pcap"]
    assert "the file ends within a packet" in reasons["cut.pcap"]


def shortest_connection() -> list[bytes]:
    """The packets of the connection in a capture that has the fewest of them, and data."""
    connections: dict[frozenset[bytes], list[bytes]] = {}
    for record in packets_of(GOOD)[1]:
        connections.setdefault(frozenset((record[50:52], record[52:54])), []).append(record)
    return min((some for some in connections.values() if sum(map(len, some)) > 2_000), key=len)


def from_port(port: int, record: bytes) -> bytes:
    """The packet of a connection whose client has this port."""
    at = 52 if record[50:52] == struct.pack(">H", BROKER_PORT) else 50
    return record[:at] + struct.pack(">H", port) + record[at + 2 :]


@pytest.mark.long
def test_a_damaged_file_in_a_folder_of_a_thousand_costs_that_file(spark: "SparkSession", tmp_path: Path) -> None:
    """Each has a connection of its own: files with the same content would count once."""
    header, records = packets_of(GOOD)[0], shortest_connection()
    (folder := tmp_path / "in").mkdir()
    for number in range(1_000):
        some = [from_port(20_000 + number, record) for record in records]
        if number == 617:
            some[-2] = some[-2][:8] + struct.pack("<I", 0x7FFFFFFF) + some[-2][12:]
        (folder / f"{number:04}.pcap").write_bytes(header + b"".join(some))
    report = run(spark, folder, tmp_path / "out")
    assert report.read == 1_000
    whole, part = (decoded(folder / name, _folder(folder / name)) for name in ("0000.pcap", "0617.pcap"))
    assert len(whole["exchanges"]) > 1
    assert report.rows == {
        table: 999 * len(whole[table]) + len(part[table]) for table in whole if whole[table] or part[table]
    }
    [quarantined] = (tmp_path / "out/_kproxy/quarantine").iterdir()
    found = json.loads(quarantined.read_text())
    assert found["path"] == str(folder / "0617.pcap")
    at = len(header + b"".join(records[:-2]))
    assert found["reasons"] == [
        f"{folder}/0617.pcap: byte {at}: a packet of 2147483647 bytes; no capture holds one of more than 262144"
    ]
    files = query_partitioned(tmp_path / "out", "connections")
    assert len(files) == 1_000
    assert run(spark, folder, tmp_path / "out").skipped == 1_000


def _folder(path: Path) -> Path:
    path = path.with_name(path.name + ".tables")
    path.mkdir()
    return path


def test_only_what_is_new_or_changed_is_read(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    first = run(spark, inputs, tmp_path / "out")
    before = rowset(tmp_path / "out")
    again = run(spark, inputs, tmp_path / "out")
    assert (again.read, again.unread, again.skipped, again.problems) == (0, 1, 3, first.problems)
    assert len(first.problems) == 2
    assert rowset(tmp_path / "out") == before
    (inputs / "cut.pcap").write_bytes((CAPTURES / CUT).read_bytes()[:80_000])
    assert run(spark, inputs, tmp_path / "out").read == 1
    assert run(spark, inputs, tmp_path / "out", again=True).read == 3
    after = rowset(tmp_path / "out")
    assert len(after["connections"]) >= len(before["connections"])
    assert len(set(after["records"])) == len(after["records"])
    assert len(query_partitioned(tmp_path / "out", "exchanges")) == len(after["exchanges"])


def query_partitioned(output: Path, table: str) -> list[tuple[object, ...]]:
    with duckdb.connect() as database:
        return database.sql(f"from read_parquet('{output}/{table}/**/*.parquet', hive_partitioning = true)").fetchall()


def test_spark_reads_partitions_by_cluster_and_day(spark: "SparkSession", inputs: Path, tmp_path: Path) -> None:
    run(spark, inputs, tmp_path / "out", cluster="blue/1")
    frame = spark.read.parquet(str(tmp_path / "out" / "exchanges"))
    found = frame.groupBy("cluster", "day").count().collect()
    [(cluster, day, count)] = [(row["cluster"], str(row["day"]), row["count"]) for row in found]
    assert (cluster, day) == ("blue/1", "2026-11-21")  # as the manifest dates the recording
    assert count == len(rowset(tmp_path / "out")["exchanges"])


def test_the_cluster_is_the_one_that_the_traffic_names(tmp_path: Path) -> None:
    """Divided or not: every cluster id that any connection showed, and the first of them by name."""
    [file] = find_files([str(CAPTURES / GOOD)])
    [done] = decode_whole(Options(), str(tmp_path), Task(file))
    assert isinstance(done, tuple)
    result = done[1]
    log = (CAPTURES / "broker-log" / "01-java-produce-consume-group.jsonl.gz").read_bytes()
    assert len(result.cluster_ids) == 1
    assert next(iter(result.cluster_ids)) in gzip.decompress(log).decode()


def test_a_decoded_log_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    from tests.support.command import decode  # noqa: PLC0415 - the other decode

    (tmp_path / "in").mkdir()
    decode("--format", "jsonl", "-o", tmp_path / "in" / "kafka.jsonl", CAPTURES / GOOD)
    report = run(spark, tmp_path / "in", tmp_path / "out")
    assert (report.read, report.problems) == (1, [])
    assert report.rows["exchanges"] == 23


def test_files_are_put_into_place_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.spark.ingest.FILES_AT_A_TIME", 3)
    files = [InputFile(f"/{number}", size, 0) for number, size in enumerate((1, 1, 1, 1, 90, 20, 200))]
    assert [[file.size for file in group] for group in groups(files, 100)] == [[1, 1, 1], [1, 90], [20], [200]]
    assert list(groups([], 100)) == []


def staged(catalog: Catalog, table: str, day: str, rows: int, name: str) -> PartFile:
    path = Path(catalog.staging("job")).parent / name
    path.write_text(f"{rows} rows")
    return PartFile(table, day, str(path), rows)


def places(catalog: Catalog) -> dict[str, str]:
    found = [path for table in TABLES for path in (Path(catalog.folder.root) / table).rglob("*.parquet")]
    return {path.relative_to(catalog.folder.root).as_posix(): path.read_text() for path in found}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "out"))


def test_a_file_is_there_once_it_is_committed(catalog: Catalog) -> None:
    assert not catalog.has(FILE, "o")
    parts = [staged(catalog, "errors", "2026-01-01", 3, "x"), staged(catalog, "errors", "2026-01-01", 4, "y")]
    entry = catalog.commit(FILE, "o", "prod", parts, [])
    assert entry.rows == {"errors": 7}
    assert places(catalog) == {
        f"errors/cluster=prod/day=2026-01-01/{FILE.key}-00000.parquet": "3 rows",
        f"errors/cluster=prod/day=2026-01-01/{FILE.key}-00001.parquet": "4 rows",
    }
    assert catalog.has(FILE, "o")
    assert not catalog.has(FILE, "other options")
    assert not catalog.has(CHANGED, "o")


def test_a_folder_of_others_is_refused(catalog: Catalog) -> None:
    Path(catalog.folder.root, "_checkpoint").mkdir(parents=True)
    catalog.claim()
    catalog.claim()
    (Path(catalog.folder.root) / "_kproxy.json").rename(Path(catalog.folder.root) / "notes.txt")
    with pytest.raises(UsageError, match=r"has other things in it \(notes.txt\); -o wants a new or empty directory"):
        catalog.claim()


def test_a_changed_file_replaces_its_rows(catalog: Catalog) -> None:
    catalog.commit(FILE, "o", "prod", [staged(catalog, "errors", "2026-01-01", 3, "x")], [])
    catalog.commit(CHANGED, "o", "prod", [staged(catalog, "errors", "2026-01-02", 5, "y")], [])
    assert list(places(catalog).values()) == ["5 rows"]
    assert not (Path(catalog.folder.root) / "errors/cluster=prod/day=2026-01-01").exists()


def test_a_job_that_is_killed_while_it_commits_leaves_no_rows(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [staged(catalog, "errors", day, 3, day) for day in ("2026-01-01", "2026-01-02")]
    moved: list[Path] = []
    replace = Path.replace

    def killed_at_the_second(self: Path, target: Path) -> Path:
        if "errors" in str(target):
            moved.append(target)
            if len(moved) == 2:
                raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", killed_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        catalog.commit(FILE, "o", "prod", parts, [])
    monkeypatch.undo()
    assert len(places(catalog)) == 1
    assert not catalog.has(FILE, "o")
    assert catalog.recover() == [FILE.path]
    assert places(catalog) == {}
    assert catalog.recover() == []
    assert not (Path(catalog.folder.root) / "_kproxy" / "staging").exists()


def test_problems_are_in_the_quarantine_until_the_file_is_whole(catalog: Catalog) -> None:
    catalog.commit(FILE, "o", "prod", [], ["cut at byte 7"])
    [quarantined] = (Path(catalog.folder.root) / "_kproxy" / "quarantine").iterdir()
    assert quarantined.read_text() == '{"path": "/captures/a.pcap", "reasons": ["cut at byte 7"], "rows": 0}\n'
    assert catalog.has(FILE, "o")  # it will not become better by itself
    catalog.commit(CHANGED, "o", "prod", [], [])
    assert not quarantined.exists()


def test_a_cluster_cannot_name_another_folder() -> None:
    assert safe("../../etc") == "..%2F..%2Fetc"
    assert safe("prod eu/1") == "prod%20eu%2F1"
    assert safe("") == "unknown"
    assert len(safe("x" * 5_000)) == 100


def test_connections_are_numbered_by_their_first_packets(tmp_path: Path) -> None:
    schema = schema_of(TABLES["connections"])
    always = [field for field in schema if not field.nullable]
    row = {field.name: 0 if pa.types.is_integer(field.type) else "" for field in always} | {"client_ids": []}
    path = tmp_path / "c.parquet"
    numbered = [{**row, "connection": first} for first in (70, 5, 31)]
    pq.write_table(pa.Table.from_pylist(numbered, schema), path)
    number_connections(path, [5, 6, 31, 70])
    assert pq.ParquetFile(path).read(["connection"]).column(0).to_pylist() == [4, 1, 3]
    assert pq.ParquetFile(path).schema_arrow.equals(schema)


def repacked(order: str, *, nanoseconds: bool) -> bytes:
    """The capture with other bytes in its headers."""
    header, records = packets_of(GOOD)
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    major, minor, zone, figures, snaplen, link = struct.unpack("<HHiIII", header[4:])
    data = struct.pack(f"{order}IHHiIII", magic, major, minor, zone, figures, snaplen, link)
    for record in records:
        seconds, fraction, *sizes = struct.unpack("<IIII", record[:16])
        data += struct.pack(f"{order}IIII", seconds, fraction * (1_000 if nanoseconds else 1), *sizes) + record[16:]
    return data


def tagged() -> bytes:
    """The capture with a VLAN tag in each frame."""
    header, records = packets_of(GOOD)
    framed = [
        record[:8]
        + struct.pack("<II", *(size + 4 for size in struct.unpack("<II", record[8:16])))
        + (record[16:28] + b"\x81\x00\x00\x07" + record[28:])
        for record in records
    ]
    return header + b"".join(framed)


def block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


SHAPES: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "big endian": ("a.pcap", lambda: repacked(">", nanoseconds=False), None),
    "nanoseconds": ("a.pcap", lambda: repacked("<", nanoseconds=True), None),
    "VLAN": ("a.pcap", tagged, None),
    "sections": ("a.pcapng", lambda: PCAPNG + block(0x0B16B00B, b"odd!") + PCAPNG, None),
    "gzip members": ("a.pcap.gz", lambda: gzip.compress(DATA[:70_000]) + gzip.compress(DATA[70_000:]), None),
    "zstd frames": (
        "a.pcap.zst",
        lambda: b"".join(zstandard.compress(part) for part in (DATA[:70_000], DATA[70_000:])),
        None,
    ),
    "rubbish behind gzip": ("a.pcap.gz", lambda: gzip.compress(DATA) + b"rubbish", "a.pcap.gz"),
    "half of gzip": ("a.pcap.gz", lambda: gzip.compress(DATA)[:8_000], "a.pcap.gz"),
    "odd name": ("a b%20{ü}\n[1].pcap", lambda: DATA, None),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("as_chunks", [False, True])
def test_rows_are_those_of_kproxy_decode(tmp_path: Path, shape: str, *, as_chunks: bool) -> None:
    name, make, problem = SHAPES[shape]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(make())
    [file] = find_files([str(tmp_path / "in")])
    *chunks, done = decode_whole(ALL_ROWS, None if as_chunks else str(tmp_path / "out"), Task(file))
    assert isinstance(done, tuple)
    found, result = done
    expected = decoded(Path(file.path), tmp_path, "--records")
    assert found == file
    assert [damage for damage in result.damages if problem is None or problem not in damage] == []
    assert bool(result.damages) == (problem is not None)
    assert len(expected["exchanges"]) > 4
    if as_chunks:
        assert {chunk.table for chunk in chunks if isinstance(chunk, Chunk)} == {
            name for name in expected if expected[name]
        }
    else:
        assert differences(expected, rowset(tmp_path / "out")) == {}


def outcome(path: Path, folder: Path) -> Result:
    [file] = find_files([str(path)])
    [done] = decode_whole(ALL_ROWS, str(folder), Task(file))
    assert isinstance(done, tuple)
    return done[1]


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (zero := tmp_path / "zero.pcap").touch()
    assert "zero.pcap: " in outcome(zero, tmp_path / "out").damages[0]
    (gone := tmp_path / "gone.pcap").write_bytes(DATA)
    [file] = find_files([str(gone)])
    gone.unlink()
    [done] = decode_whole(ALL_ROWS, str(tmp_path / "out"), Task(file))
    assert isinstance(done, tuple)
    assert "No such file" in done[1].damages[0]
    if os.geteuid():
        (closed := tmp_path / "closed.pcap").write_bytes(DATA)
        closed.chmod(0)
        assert "Permission denied" in outcome(closed, tmp_path / "out").damages[0]


def test_links_are_followed_and_folders_named_as_captures_are_folders(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").mkdir()
    (tmp_path / "x.pcap" / "a.pcap").write_bytes(DATA)
    (tmp_path / "x.pcap" / "b.pcap").symlink_to("a.pcap")
    (tmp_path / "x.pcap" / "dead.pcap").symlink_to("nowhere")
    found = find_files([str(tmp_path / "*.pcap")])
    assert [file.name for file in found] == ["a.pcap", "b.pcap"]
    assert outcome(Path(found[1].path), tmp_path / "out").damages == []


def test_a_task_that_fails_costs_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, data: bytes | None) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("kproxy.spark.rows.open_file", fail)
    (tmp_path / "a.pcap").write_bytes(DATA)
    (damage,) = outcome(tmp_path / "a.pcap", tmp_path / "out").damages
    assert "a bug of kproxy: RuntimeError at test_ingest.py:" in damage
    assert "odd" not in damage, "what an exception says may be of a record"


def test_small_files_share_a_task_and_large_ones_have_their_own() -> None:
    sizes = [BUNDLE // 2, BUNDLE // 2, 1, 2 * BUNDLE, 1, 1]
    files = [InputFile(f"/{number}", size, 0) for number, size in enumerate(sizes)]
    assert [[file.size for file in bundle] for bundle in bundles(files)] == [
        sizes[:2],
        sizes[2:3],
        sizes[3:4],
        sizes[4:],
    ]
    assert list(bundles([])) == []
