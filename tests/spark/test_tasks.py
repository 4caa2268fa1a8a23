"""What tasks do: files, blocks and connections to rows, and what connections must know of each other."""

import multiprocessing
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import kproxy.spark.ingest
from kproxy.analyses.library import load_views
from kproxy.analyses.scratch import PREFIX
from kproxy.capture import Capture
from kproxy.capture.roles import Endpoints
from kproxy.capture.segments import SEGMENT_HEADER
from kproxy.capture.splitting import Block, Part, PartSurvey, begin
from kproxy.errors import CaptureError, UsageError
from kproxy.output.tables import TABLES, schema_of
from kproxy.pipeline.run import Options as RunOptions
from kproxy.pipeline.run import Run
from kproxy.protocol.constants import METADATA_TOPIC_ID
from kproxy.spark import divided, grouping
from kproxy.spark.catalog import DONE, Entry, Report, mark_of, tables_of
from kproxy.spark.connections import Head, Shared, SharedEndpoints, SharedView, answers, gather, merge, read_head
from kproxy.spark.divided import BlockFiles, BlockPart, memory, partition_of, stays_in_place
from kproxy.spark.files import InputFile, find_files, open_file, open_raw
from kproxy.spark.ingest import ingest
from kproxy.spark.local import KILLED, LocalContext
from kproxy.spark.report import Folders, OpenedTables
from kproxy.spark.rows import (
    MOST_DAYS,
    ChunkWriter,
    FileRows,
    Options,
    PartWriter,
    Share,
    contract,
    day_of,
    spark_schema,
)
from kproxy.spark.source import Settings
from tests.support.corpus import CAPTURES
from tests.support.relinked import CONTAINERS, RECORDED
from tests.support.sampled import sampled
from tests.support.split_captures import ALL_ROWS, PLAIN, altered, decoded, differences, in_parts, packets_of, rowset

OFFSETS = TABLES["offsets"]
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LITTLE = [name for name in PLAIN if name.endswith(".pcap")]
ALTERATIONS = ("shuffled", "out of order", "started late", "lossy", "repeated", "snaplen", "cut", "damaged")
UUID = "AAAAAAAAAAAAAAAAAAAAAg"
CLIENT, OTHER, SERVER = b"\x0a\x00\x00\x01\xc0\x00", b"\x0a\x00\x00\x02\xc0\x01", b"\x0a\x00\x00\x03\x80\x00"
PART = Part(24, 100, b"", known=True)
INTERBROKER = CAPTURES / "10-kraft-interbroker.pcap"
WHOLE = Share()
NAME = "01-java-produce-consume-group.pcap"
FILE = InputFile("/captures/a.pcap", 1_000, 5)
KEYS = [bytes([number]) * (12 if number % 2 else 36) for number in range(1, 20)]
CAPTURE = CAPTURES / NAME


def offsets(*exchanges: int, at: datetime = NOON) -> pa.RecordBatch:
    rows = [
        {"connection_id": "c", "exchange": number, "seen_at": at, "kind": "list", "partition": 0}
        for number in exchanges
    ]
    return pa.RecordBatch.from_pylist(rows, schema_of(OFFSETS))


def test_chunks_have_all_rows_by_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.spark.rows.CHUNK_ROWS", 3)
    writer = ChunkWriter("key", "2026-01-01")
    writer.write(OFFSETS, offsets(1, 2))
    assert writer.take() == []
    writer.write(OFFSETS, offsets(3, 4))
    full = writer.take()
    assert [pa.ipc.open_stream(chunk.rows).read_all()["exchange"].to_pylist() for chunk in full] == [[1, 2, 3, 4]]
    writer.write(OFFSETS, offsets(5, at=NOON + timedelta(days=1)))
    counts = writer.close()
    [last] = writer.take()
    assert (last.source, last.table, last.day) == ("key", "offsets", "2026-03-02")
    assert pa.ipc.open_stream(last.rows).read_all().schema.equals(schema_of(OFFSETS))
    assert {(part.day, part.rows) for part in counts} == {("2026-03-01", 4), ("2026-03-02", 1)}


def offsets_at(*times: datetime | None) -> pa.RecordBatch:
    rows = [
        {"connection_id": "c", "exchange": at, "seen_at": time, "kind": "list", "partition": 0}
        for at, time in enumerate(times)
    ]
    return pa.RecordBatch.from_pylist(rows, schema_of(OFFSETS))


def days(files: list[tuple[str, int]]) -> dict[str, int]:
    return dict(files)


def test_each_row_goes_to_its_day(tmp_path: Path) -> None:
    writer = PartWriter(str(tmp_path), "x", "2026-02-28")
    writer.write(OFFSETS, offsets_at(NOON, NOON + timedelta(hours=11, minutes=59), NOON + timedelta(hours=12), None))
    writer.write(OFFSETS, offsets_at(NOON))
    files = writer.close()
    assert {file.day: file.rows for file in files} == {"2026-02-28": 1, "2026-03-01": 3, "2026-03-02": 1}
    assert {Path(file.path).relative_to(tmp_path).as_posix() for file in files} == {
        f"offsets/day={day}/x.parquet" for day in ("2026-02-28", "2026-03-01", "2026-03-02")
    }
    assert sum(pq.ParquetFile(file.path).metadata.num_rows for file in files) == 5


def test_days_are_bounded(tmp_path: Path) -> None:
    writer = PartWriter(str(tmp_path), "x", "2026-01-01")
    writer.write(OFFSETS, offsets_at(*(NOON + timedelta(days=number) for number in range(100))))
    files = writer.close()
    assert len(files) == MOST_DAYS
    assert sum(file.rows for file in files) == 100


def test_rows_without_a_time_go_with_their_exchange(tmp_path: Path) -> None:
    records = TABLES["records"]
    writer = PartWriter(str(tmp_path), "x", "2026-01-01")
    writer.day = "2026-01-02"
    row = {
        "connection_id": "c",
        "exchange": 1,
        "direction": "produce",
        "partition": 0,
        "partition_offset": 0,
        "headers": [],
    }
    writer.write(records, pa.RecordBatch.from_pylist([row], schema_of(records)))
    assert [file.day for file in writer.close()] == ["2026-01-02"]


def test_any_time_has_a_day() -> None:
    assert day_of(1_763_000_000_000_000_000) == "2025-11-13"
    assert day_of((1 << 63) - 1) == "2262-04-11"
    assert day_of(-(1 << 63)) == "1677-09-21"


@pytest.mark.parametrize("name", sampled(PLAIN, PLAIN[:3]))
def test_parts_of_a_capture_give_the_tables_of_kproxy_decode(tmp_path: Path, name: str) -> None:
    expected = decoded(CAPTURES / name, tmp_path, "--records")
    assert len(expected["exchanges"]) > 20
    for parts, block in ((1, 1 << 16), (2, 1_000), (7, 100), (64, 1 << 16)):
        assert differences(expected, in_parts(CAPTURES / name, parts, block=block)) == {}


def test_so_does_ingest_without_spark(tmp_path: Path) -> None:
    """On the processes of LocalContext: a capture in 7 parts, and one that is small."""
    small = CAPTURES / "06-sasl-scram.pcap"
    context = LocalContext(2)
    report = ingest(context, [str(INTERBROKER)], str(tmp_path / "divided"), options=ALL_ROWS, split_from=0, parts=7)
    ingest(context, [str(small)], str(tmp_path / "read"), options=ALL_ROWS)
    assert (report.read, report.problems) == (1, [])
    assert differences(decoded(INTERBROKER, tmp_path, "--records"), rowset(tmp_path / "divided")) == {}
    (folder := tmp_path / "small").mkdir()
    assert differences(decoded(small, folder, "--records"), rowset(tmp_path / "read")) == {}


@pytest.mark.parametrize("split_from", [0, 1 << 20])
def test_a_capture_whose_process_is_killed_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_from: int
) -> None:
    """After all its rows were written, and when its connections are looked at; another one is killed once, and read."""
    divide, read, look = divided.decode, kproxy.spark.ingest._decode_whole, grouping.look
    once, killed = CAPTURES / "06-sasl-scram.pcap", tmp_path / "killed"

    def kill(name: str) -> None:
        if name == NAME:
            os.kill(os.getpid(), signal.SIGKILL)

    def decode(file: InputFile, given: Iterable[Any]) -> Iterator[Any]:
        items = list(given)
        if file.name == once.name and not killed.exists():
            killed.touch()
            kill(NAME)
        kill(file.name)
        return iter(items)

    monkeypatch.setattr("kproxy.spark.divided.decode", lambda file, *others: decode(file, divide(file, *others)))
    monkeypatch.setattr(
        "kproxy.spark.ingest._decode_whole",
        lambda options, staging, task, result: decode(task.file, read(options, staging, task, result)),
    )
    monkeypatch.setattr("kproxy.spark.grouping.look", lambda file: (kill(file.name), look(file))[1])
    threads, inputs = threading.enumerate(), [str(CAPTURE), str(once)]
    report = ingest(LocalContext(2), inputs, str(tmp_path / "out"), options=ALL_ROWS, split_from=split_from, parts=2)
    assert (report.read, report.unread, report.problems) == (1, 1, [f"{CAPTURE}: not read: {KILLED}"])
    assert killed.exists()
    assert differences(decoded(once, tmp_path, "--records"), rowset(tmp_path / "out")) == {}
    assert not list((tmp_path / "out" / "_kproxy" / "staging").iterdir())
    assert (multiprocessing.active_children(), threading.enumerate()) == ([], threads)


@pytest.mark.parametrize("how", sampled(ALTERATIONS, ["shuffled", "lossy"]))
def test_so_do_those_of_a_bad_capture(tmp_path: Path, how: str) -> None:
    for seed, name in enumerate(LITTLE[:3] + LITTLE[-2:]):
        (capture := tmp_path / f"{seed}.pcap").write_bytes(altered(name, how, seed))
        (folder := tmp_path / str(seed)).mkdir()
        expected = decoded(capture, folder, "--records")
        assert differences(expected, in_parts(capture, (2, 7, 64)[seed % 3], block=2_000)) == {}, (name, how, seed)


@pytest.mark.parametrize("name", sampled(CONTAINERS, ["SLL2.pcap"]))
def test_so_do_those_of_other_links_and_containers(tmp_path: Path, name: str) -> None:
    (capture := tmp_path / name).write_bytes(CONTAINERS[name]())
    expected = decoded(capture, tmp_path, "--records")
    if "cut" in name or "damaged" in name:
        assert 0 < len(expected["exchanges"]) < 23
    else:
        (folder := tmp_path / "recorded").mkdir()
        recorded = decoded(CAPTURES / RECORDED, folder, "--records")
        assert {table: len(rows) for table, rows in expected.items()} == {t: len(rows) for t, rows in recorded.items()}
        assert len(expected["exchanges"]) == 23  # as the manifest counts them
    for parts, block in ((1, 1 << 16), (2, 1_000), (7, 100), (64, 1 << 16)):
        assert differences(expected, in_parts(capture, parts, block=block)) == {}


def view_at(position: int, shared: Shared) -> SharedView:
    return SharedView(shared, lambda: position, {})


def test_a_name_is_known_from_the_packet_that_shows_it() -> None:
    shared = Shared(names={UUID: (100, "orders")}, waits={40: 120})
    assert view_at(99, shared).topic_name(UUID) is None
    assert view_at(100, shared).topic_name(UUID) == "orders"
    assert view_at(40, shared).topic_name(UUID) == "orders"  # an undivided run holds its events back until packet 120
    assert view_at(1, shared).topic_name(METADATA_TOPIC_ID) == "__cluster_metadata"


def test_what_is_missed_counts_only_if_another_knew_it_in_time() -> None:
    view = view_at(99, Shared())
    assert view.topic_name(UUID) is None
    assert view.missed == {UUID: 99}
    assert answers({}, {UUID: (98, "orders")}, view.missed)
    assert not answers({}, {UUID: (100, "orders")}, view.missed)
    assert not answers({}, {}, view.missed)
    assert answers({UUID: (5, "orders")}, {UUID: (90, "renamed")}, {})


def test_the_earliest_wins() -> None:
    assert merge([{UUID: (9, "b")}, {UUID: (3, "a")}, {}]) == {UUID: (3, "a")}


def survey(first: int, packets: int, **found: object) -> PartSurvey:
    part = PartSurvey(PART, 24, 100, b"", packets, first_number=first)
    for name, value in found.items():
        setattr(part, name, value)
    return part


def test_roles_are_guessed_as_in_an_undivided_run() -> None:
    """A connection without SYN between two endpoints: the one that accepted another connection before is the server."""
    joined, accepted = CLIENT + SERVER, OTHER + SERVER
    shared = gather(
        [
            survey(1, 10, connections={joined: [4, False, 9]}),
            survey(11, 10, connections={accepted: [2, True, 9], joined: [1, False, 9]}, servers={SERVER: 2}),
        ]
    )
    assert shared.servers == {SERVER: 12}
    assert shared.flows == {CLIENT: [4], SERVER: [4, 12]}
    undivided = Endpoints()
    for packet in (4, 11, 12, 13):
        if packet in (4, 12):
            undivided.count(joined if packet == 4 else accepted)
        if packet == 12:
            undivided.accepted(accepted, 0)
        found = SharedEndpoints(shared, lambda at=packet: at, lambda: None)  # type: ignore[misc]
        assert found.guess_client(joined) == undivided.guess_client(joined), packet
    assert found.guess_client(joined) == 0  # by the port alone it would be 1


def test_new_flows_are_told() -> None:
    numbers: list[int] = []
    SharedEndpoints(Shared(), lambda: 7, lambda: numbers.append(7)).count(CLIENT + SERVER)
    assert numbers == [7]


def rows_of(path: Path, share: Share = WHOLE, options: Options = ALL_ROWS) -> dict[str, list[str]]:
    """The rows of each table."""
    found: dict[str, list[str]] = {name: [] for name in TABLES}
    for table, rows in FileRows(str(path), path.name, options, share).read():
        found[table.name] += map(repr, rows.to_pylist())
    return found


@pytest.mark.parametrize("shares", [1, 2, 7])
def test_shares_are_the_whole(tmp_path: Path, shares: int) -> None:
    parts = [rows_of(INTERBROKER, Share(number, shares)) for number in range(shares)]
    together = {name: sorted(row for part in parts for row in part[name]) for name in TABLES}
    assert differences(decoded(INTERBROKER, tmp_path, "--records"), together) == {}
    sizes = Counter(bool(part["exchanges"]) for part in parts)
    assert sizes[True] == shares


def test_conditions_and_bodies_are_those_of_decode() -> None:
    found = rows_of(INTERBROKER, options=Options(bodies=True, where='apiName == "Envelope"'))
    assert len(found["exchanges"]) == 1
    assert "requestData" in found["exchanges"][0]
    assert len(found["connections"]) == 19


def head_of(path: Path, size: int | None = None) -> Head:
    with path.open("rb", buffering=0) as raw, Run() as run:
        start = begin(raw)
        assert start is not None
        return read_head([(raw, start, path.stat().st_size)], run, [], **({} if size is None else {"head": size}))


def test_names_come_with_the_packet_that_shows_them() -> None:
    found = head_of(CAPTURES / NAME)
    [(number, name)] = found.names.values()
    assert name == "orders"
    _, records = packets_of(NAME)
    assert b"orders" in records[number - 1]
    assert found.waits == {}


def test_events_whose_names_come_late_wait_for_them(tmp_path: Path) -> None:
    header, records = packets_of(NAME)
    shown = next(number for topic_id, (number, name) in head_of(CAPTURES / NAME).names.items() if name == "orders")
    late = [*records[: shown - 1], *records[shown:], records[shown - 1]]  # the response with the name comes last
    (path := tmp_path / "late.pcap").write_bytes(header + b"".join(late))
    found = head_of(path)
    assert found.waits
    assert all(packet < until for packet, until in found.waits.items())


def test_only_the_head_is_read() -> None:
    assert head_of(CAPTURES / NAME, 500).names == {}


def test_a_capture_stays_where_all_tasks_read_it_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided, "memory", lambda: 2_000)
    assert stays_in_place("local[2]", FILE)
    assert stays_in_place("local", InputFile("file:///captures/a.pcap", 1_000, 5))
    assert not stays_in_place("local[2]", InputFile("/captures/a.pcap", 1_001, 5))
    assert not stays_in_place("local[2]", InputFile("s3://captures/a.pcap", 10, 5))
    assert stays_in_place("local[2]", InputFile("s3a://captures/a.pcap", 10, 5, copied_to="/staging/a"))
    assert not stays_in_place("spark://host:7077", FILE)
    assert not stays_in_place("", FILE)


def test_the_memory_is_that_of_the_machine_or_of_its_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    total = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal:")) << 10
    monkeypatch.setattr(divided, "CGROUP_LIMIT", tmp_path / "memory.max")
    assert memory() == total
    (tmp_path / "memory.max").write_text("max\n")
    assert memory() == total
    (tmp_path / "memory.max").write_text("1048576\n")
    assert memory() == 1 << 20


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"path": "a", "table": "exchange"}, "there is no table 'exchange'; the tables are connections,"),
        ({"path": "a", "tabel": "x"}, "format kproxy has no option tabel"),
        ({"path": "a", "mode": "fast"}, "mode is permissive or failfast, not fast"),
        ({"path": "a", "partitions": "-1"}, "partitions is a number, not -1"),
        ({"path": "a", "bodies": "yes"}, "bodies is true or false, not yes"),
        ({"table": "exchanges"}, "needs a path"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Settings.read(options)
    assert Settings.read({"PATH": "a", "Table": "records"}).rows.records


def test_types_are_sparks() -> None:
    types = {field.name: field.dataType.simpleString() for field in spark_schema(contract("record_batches")).fields}
    assert types["seen_at"] == types["max_timestamp"] == "timestamp"
    assert types["topic"] == "string"
    assert types["is_control"] == "boolean"
    assert spark_schema(contract("records"))["headers"].dataType.simpleString().startswith("array<struct<key:binary")


def parts_of(chance: random.Random) -> list[list[Block]]:
    """Five parts of a thousand packets each."""
    segment = bytes(SEGMENT_HEADER)
    return [[(chance.choice(KEYS), first, segment) for first in chance.sample(range(1, 1_001), 60)] for _ in range(5)]


@pytest.mark.parametrize("most_open", [1, 256])
def test_blocks_come_by_connection_and_packet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int) -> None:
    """Of three partitions; one large connection is not where its hash is."""
    monkeypatch.setattr(divided, "MOST_OPEN", most_open)
    files, parts = BlockFiles(str(tmp_path / "blocks"), 3), parts_of(random.Random(3))
    for number, blocks in enumerate(parts):
        for attempt in ("a", "b"):
            with files.writer(str(number), attempt) as write:
                write(blocks)
    given = [BlockPart(str(number), number * 1_000) for number in range(5)]
    owners = {KEYS[0]: (partition_of({}, 3, (KEYS[0], 0)) + 1) % 3}
    found = [list(files.read(partition, given, owners)) for partition in range(3)]
    expected = sorted((key, at * 1_000 + first) for at, blocks in enumerate(parts) for key, first, _ in blocks)
    assert sorted(key for blocks in found for key, _ in blocks) == expected
    for partition, blocks in enumerate(found):
        assert [key for key, _ in blocks] == sorted(key for key, _ in blocks)
        assert {partition_of(owners, 3, key) for key, _ in blocks} == {partition}
        assert {each.before for _, each in blocks} == {part * 1_000 for part in range(5)}
    assert sorted(path.suffix for path in (tmp_path / "blocks").iterdir()) == [".blocks"] * 5 + [".index"] * 5


def test_an_empty_part_is_no_mistake(tmp_path: Path) -> None:
    files = BlockFiles(str(tmp_path), 2)
    with files.writer("0", "a"):
        pass
    assert list(files.read(1, [BlockPart("0")], {})) == []


def test_other_options_or_another_cluster_make_other_rows() -> None:
    marks = [mark_of(Options(), None), mark_of(Options(records=True), None), mark_of(Options(), "prod")]
    assert len(set(marks)) == 3
    assert marks[0] == mark_of(Options(), None)


def test_records_have_a_table_if_they_are_asked_for() -> None:
    assert "records" not in [table.name for table in tables_of(Options())]
    assert "records" in [table.name for table in tables_of(Options(records=True))]


def test_a_report_adds_up() -> None:
    report = Report()
    for number in (1, 2):
        entry = Entry(f"/{number}", 1, 1, "i", "o", DONE, rows={"errors": number}, problems=["cut"] * (number - 1))
        report.add(entry)
    assert (report.read, report.rows, report.problems) == (2, {"errors": 3}, ["cut"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.pcap", "a.pcapng", "c.jsonl", ".hidden", "_SUCCESS"):
        (tmp_path / name).write_bytes(CAPTURE.read_bytes())
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.pcap").write_bytes(b"")
    return tmp_path


def names(*inputs: object) -> list[str]:
    return [file.name for file in find_files(map(str, inputs))]


def test_folders_files_and_patterns(folder: Path) -> None:
    assert names(folder) == ["a.pcapng", "b.pcap", "c.jsonl"]
    assert names(folder / "*.pcap*") == ["a.pcapng", "b.pcap"]
    assert names(folder / "**" / "*.pcap") == ["b.pcap", "d.pcap"]
    assert names(folder / "b.pcap", folder / "b.*") == ["b.pcap"]
    assert names(f"file://{folder}/b.pcap") == ["b.pcap"]


def test_a_name_with_brackets_is_a_file_if_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "trace[1].pcap").touch()
    assert names(tmp_path / "trace[1].pcap") == ["trace[1].pcap"]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match=r"/nowhere/\*\.pcap: no such file"):
        find_files(["/nowhere/*.pcap"])
    with pytest.raises(CaptureError, match=r"/nowhere/a\.pcap: cannot be opened: No such file"):
        open_file("/nowhere/a.pcap")


def test_identity_changes_with_the_content_and_the_key_does_not(folder: Path) -> None:
    [before] = find_files([str(folder / "b.pcap")])
    (folder / "b.pcap").write_bytes(b"more")
    [after] = find_files([str(folder / "b.pcap")])
    assert (before.key, before.size) == (after.key, CAPTURE.stat().st_size)
    assert before.identity != after.identity


def test_a_file_opens_as_what_it_is() -> None:
    with open_file(str(CAPTURE)) as capture:
        assert isinstance(capture, Capture)
        assert capture.name == str(CAPTURE)


def test_other_file_systems_are_read_through_pyarrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local file system stands in for an object store: the same calls of pyarrow.fs."""
    from pyarrow import fs  # noqa: PLC0415

    def file_system(name: str) -> tuple[fs.FileSystem, str]:
        return fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()), name.removeprefix("store://")

    monkeypatch.setattr("kproxy.spark.files._file_system", file_system)
    [file] = find_files(["store://b.pcap"])
    assert (file.path, file.size) == ("store://b.pcap", CAPTURE.stat().st_size)
    raw = open_raw(file.path)
    raw.seek(4)
    assert raw.readinto(buffer := memoryview(bytearray(4))) == 4
    assert bytes(buffer) == CAPTURE.read_bytes()[4:8]
    raw.close()
    with open_file(file.path) as capture:
        assert isinstance(capture, Capture)


def test_tasks_of_a_report_find_its_tables_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another report opens them anew, as they may have changed. Where a process gets one task only, they are closed after it."""
    decoded(INTERBROKER, tmp_path)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/none")
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    opened, folders = (
        OpenedTables(),
        Folders([str(tmp_path / "decoded")], load_views(), False, None, RunOptions(), "first"),
    )
    with opened.use(folders) as first:
        assert len([*tmp_path.glob(f"{PREFIX}*")]) == 1  # Spark removes it when it ends the process
    with opened.use(folders) as second:
        assert second is first
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    with opened.use(replace(folders, report="second")) as third:
        assert third is not first
    assert [*tmp_path.glob(f"{PREFIX}*")] == []
