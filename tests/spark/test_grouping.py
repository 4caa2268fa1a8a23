"""Files of one capture on Spark: rotated, copied, damaged, changed later; captures that only look alike."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kproxy.cli.spark import kproxy_spark
from kproxy.spark.catalog import Report
from kproxy.spark.files import find_files
from kproxy.spark.grouping import look, put_together
from kproxy.spark.ingest import CONTINUED, SPLIT_FROM, Task, decode_whole, ingest, merged
from kproxy.spark.rows import Options, Share
from tests.bench.traffic import write_capture
from tests.support.corpus import CAPTURES
from tests.support.rotated import SEEDS, Packets, cut, packets_of
from tests.support.split_captures import PLAIN, Rowset, decoded, differences, rowset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]  # Spark takes seconds for each
GROUP, OTHER = "03-classic-rebalance-range.pcap", "05-admin.pcap"


def names(folder: Path, *, separate: bool = False) -> list[set[str]]:
    looked = [look(file) for file in find_files([str(folder / "*" / "*")])]
    return [set(file.paths) for file in put_together(looked, separate=separate)]


def test_files_of_the_same_connections_are_one_capture_in_the_order_of_their_packets(tmp_path: Path) -> None:
    parts = cut(packets_of(GROUP), tmp_path / "east", 1)
    shutil.copy(CAPTURES / OTHER, tmp_path / "east")
    (tmp_path / "east" / "bad.pcap").write_bytes(b"bad")
    looked = [look(file) for file in find_files([str(tmp_path / "east")])]
    found = {tuple(file.paths) for file in put_together(looked, separate=False)}
    alone = {(str(tmp_path / "east" / name),) for name in (OTHER, "bad.pcap")}
    assert found == {tuple(map(str, parts))} | alone


def test_the_same_addresses_in_two_folders_are_two_captures_if_a_person_says_so(tmp_path: Path) -> None:
    east, west = (set(map(str, cut(packets_of(GROUP), tmp_path / side, 2))) for side in ("east", "west"))
    assert names(tmp_path) == [east | west]
    assert sorted(names(tmp_path, separate=True), key=sorted) == sorted([east, west], key=sorted)


def test_shares_of_a_capture_in_many_files_make_the_rows_of_all(tmp_path: Path) -> None:
    cut(packets_of(GROUP), tmp_path / "parts", 3)
    looked = [look(file) for file in find_files([str(tmp_path / "parts")])]
    [file] = put_together(looked, separate=False)
    tasks = [Task(file, share=Share(number, 3)) for number in range(3)]
    options, out = Options(records=True), tmp_path / "out"
    done = [item for task in tasks for item in decode_whole(options, str(out), task) if isinstance(item, tuple)]
    [(_, result)] = merged(done)
    assert (result.damages, result.notes) == ([], [])
    assert differences(of_whole(tmp_path, GROUP), without_names(rowset(out))) == {}


def of_whole(folder: Path, *captures: str) -> Rowset:
    together: Rowset = {}
    for name in captures:
        (folder / f"{name}.tables").mkdir()
        for table, rows in decoded(CAPTURES / name, folder / f"{name}.tables", "--records").items():
            together[table] = sorted([*together.get(table, []), *rows])
    return without_names(together)


def without_names(rows: Rowset) -> Rowset:
    """Rows without the names of captures, which parts have not in common."""
    return {table: sorted(_without_name(row) for row in some) for table, some in rows.items()}


def _without_numbers(rows: Rowset) -> Rowset:
    return {table: [re.sub(r"'connection': \d+, ", "", row) for row in some] for table, some in rows.items()}


def _without_name(row: str) -> str:
    before, capture, rest = row.partition("'capture': '")
    return before + capture + rest.partition("'")[2] if capture else row


@pytest.mark.parametrize("split_from", [0, SPLIT_FROM])
def test_rotated_files_give_the_rows_of_the_whole_and_a_changed_one_replaces_them(
    spark: "SparkSession", tmp_path: Path, split_from: int
) -> None:
    """A copy counts once; a bad file is named by each later ingest, too."""
    inputs, output, notes = tmp_path / "in", tmp_path / "out", []
    parts = cut(packets_of(GROUP), inputs, 4)
    shutil.copy(parts[0], inputs / "zz-copy.pcap")
    shutil.copy(CAPTURES / OTHER, inputs)
    (inputs / "bad.pcap").write_bytes(b"bad")

    def read() -> Report:
        options: dict[str, Any] = {"options": Options(records=True), "split_from": split_from, "note": notes.append}
        return ingest(spark.sparkContext, [str(inputs)], str(output), **options)

    report = read()
    expected = of_whole(tmp_path, GROUP, OTHER)
    assert (report.read, report.unread) == (len(parts) + 2, 1)
    assert differences(expected, without_names(rowset(output))) == {}
    assert len(notes) == 1 and "zz-copy.pcap has the same content as" in notes[0]
    assert len(report.problems) == 1 and "bad.pcap: " in report.problems[0]
    assert read() == Report(unread=1, skipped=len(parts) + 2, problems=report.problems)
    shutil.copy(parts[1], inputs / "later-copy.pcap")
    assert read() == Report(unread=1, skipped=len(parts) + 2, problems=report.problems)
    assert len(notes) == 2 and notes[1].startswith(f"{inputs}/later-copy.pcap has the same content as {parts[1]}")
    assert read() == Report(unread=1, skipped=len(parts) + 3, problems=report.problems)
    (inputs / "later-copy.pcap").unlink()
    whole = parts[1].read_bytes()
    shutil.copy(parts[0], parts[1])
    assert read().read == len(parts) + 1
    assert differences(expected, without_names(rowset(output))) != {}
    parts[1].write_bytes(whole)
    mended = read()
    assert (mended.read, mended.skipped, mended.problems) == (len(parts) + 1, 1, report.problems)
    assert differences(expected, without_names(rowset(output))) == {}


def test_files_of_a_later_ingest_that_go_on_are_counted_until_all_are_read_again(
    spark: "SparkSession", tmp_path: Path
) -> None:
    packets, inputs, output, notes = packets_of(GROUP), tmp_path / "in", tmp_path / "out", []
    inputs.mkdir()
    halves = []
    for number, (first, stop) in enumerate([(0, 200), (200, len(packets.packets))]):
        (inputs / f"{number}.pcap").write_bytes(packets.file(first, stop))
        (tmp_path / f"{number}.tables").mkdir()
        halves.append(decoded(inputs / f"{number}.pcap", tmp_path / f"{number}.tables"))
        ingest(spark.sparkContext, [str(inputs)], str(output), note=notes.append)
    ports = [{row.partition("'client_port': ")[2].partition(",")[0] for row in half["connections"]} for half in halves]
    assert len(ports[0] & ports[1]) > 1
    assert notes == [CONTINUED.format(len(ports[0] & ports[1]))]
    assert (
        differences(halves[0], {t: [r for r in rows if r in halves[0][t]] for t, rows in rowset(output).items()}) == {}
    )
    ingest(spark.sparkContext, [str(inputs)], str(output), again=True, note=notes.append)
    (tmp_path / "whole").mkdir()
    whole = without_names(decoded(CAPTURES / GROUP, tmp_path / "whole"))
    assert differences(whole, without_names(rowset(output))) == {}
    assert len(notes) == 1


@pytest.mark.parametrize("name", PLAIN)
def test_files_cut_at_random_give_the_rows_of_the_whole(spark: "SparkSession", tmp_path: Path, name: str) -> None:
    """Divided by connections, over all files."""
    cut(packets_of(name), tmp_path / "in", SEEDS[0])
    notes: list[str] = []
    options: dict[str, Any] = {"options": Options(records=True), "split_from": 0, "parts": 5, "note": notes.append}
    report = ingest(spark.sparkContext, [str(tmp_path / "in")], str(tmp_path / "out"), **options)
    assert (report.problems, notes) == ([], [])
    expected, found = of_whole(tmp_path, name), rowset(tmp_path / "out")
    captures = {row.partition("'capture': '")[2].partition("'")[0] for row in found["connections"]}
    if len(captures) > 1:  # no connection goes on after a cut: these are two captures, and each numbers its connections
        expected, found = _without_numbers(expected), _without_numbers(found)
    assert differences(expected, without_names(found)) == {}


def test_one_of_a_thousand_files_is_damaged_one_is_missing_and_one_is_there_twice(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of the packets that are there; the damaged one is named by each ingest until it is gone."""
    write_capture(tmp_path / "all.pcap", 3 << 20, "mtu1500")
    packets = Packets((tmp_path / "all.pcap").read_bytes())
    each = len(packets.packets) // 1_000
    (inputs := tmp_path / "in").mkdir()
    files = [packets.file(first, first + each) for first in range(0, 1_000 * each, each)]
    last = len(files[617]) - len(packets.packets[618 * each - 1])
    files[617] = files[617][: last + 8] + b"\xff\xff\xff\x7f" + files[617][last + 12 :]  # the length of a packet
    for number, data in enumerate(files):
        (inputs / f"{number:03}.pcap").write_bytes(data)
    (inputs / "444.pcap").unlink()
    shutil.copy(inputs / "100.pcap", inputs / "copy.pcap")
    lost = {*range(444 * each, 445 * each), 618 * each - 1}
    packets.packets = [packets.packets[at] for at in range(1_000 * each) if at not in lost]
    (left := tmp_path / "left.pcap").write_bytes(packets.file(0, len(packets.packets)))

    def read() -> tuple[int, str]:
        code = kproxy_spark.main(["ingest", "-o", str(tmp_path / "out"), str(inputs)], standalone_mode=False)
        return code, capsys.readouterr().err

    code, said = read()
    named = f"{inputs}/617.pcap: byte {last}: a packet of 2147483647 bytes"
    assert code == 3 and said.count("617.pcap") == 1 and named in said
    assert f"{inputs}/copy.pcap has the same content as {inputs}/100.pcap: it counts once" in said
    found = without_names(rowset(tmp_path / "out"))
    assert differences(without_names(decoded(left, tmp_path)), found) == {}
    assert "gap" in str(found["connections"])
    code, said = read()
    assert code == 3 and named in said and "0 files read, " in said and "could not be read" not in said
    (inputs / "617.pcap").unlink()
    code, said = read()
    assert (code, "617" in said) == (0, False)


def test_what_two_hosts_captured_counts_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Their files overlap in time, and so they are not divided."""
    packets = packets_of(GROUP)
    cut(packets, tmp_path / "east", 7)
    (tmp_path / "west").mkdir()
    (tmp_path / "west" / "all.pcap").write_bytes(packets.later(3).file(5, len(packets.packets)))
    notes: list[str] = []
    options: dict[str, Any] = {"options": Options(records=True), "split_from": 0, "note": notes.append}
    inputs = [str(tmp_path / side) for side in ("east", "west")]
    ingest(spark.sparkContext, inputs, str(tmp_path / "out"), **options)
    assert len(notes) == 1 and "its files overlap in time" in notes[0]
    assert differences(of_whole(tmp_path, GROUP), without_names(rowset(tmp_path / "out"))) == {}
    ingest(spark.sparkContext, inputs, str(tmp_path / "apart"), separate=True, **options)
    assert len(rowset(tmp_path / "apart")["connections"]) == 2 * len(rowset(tmp_path / "out")["connections"])


@pytest.mark.parametrize("split_from", [0, SPLIT_FROM])
def test_clusters_with_equal_addresses_and_ports_in_one_capture_are_named(
    spark: "SparkSession", tmp_path: Path, split_from: int
) -> None:
    packets = packets_of(GROUP).with_packets_of(packets_of(GROUP).others(1))
    (tmp_path / "both.pcap").write_bytes(packets.file(0, len(packets.packets)))
    ingested = ingest(spark.sparkContext, [str(tmp_path)], str(tmp_path / "out"), split_from=split_from)
    expected = "both.pcap: two different streams of bytes between the same addresses and ports, in 5 connections"
    assert [expected in problem for problem in ingested.problems] == [True]


@pytest.mark.parametrize("split_from", [0, SPLIT_FROM])
def test_clocks_that_differ_in_one_capture_are_named(spark: "SparkSession", tmp_path: Path, split_from: int) -> None:
    """One file, merged by time, of what clients and a broker sent, by a clock of their own each."""
    clients, broker = packets_of(GROUP).sides()
    packets = clients.with_packets_of(broker.later(2))
    (tmp_path / "both.pcap").write_bytes(packets.file(0, len(packets.packets)))
    ingested = ingest(spark.sparkContext, [str(tmp_path)], str(tmp_path / "out"), split_from=split_from)
    expected = "both.pcap: the clocks that it was captured with differ by 2.00 s or more"
    assert [expected in problem for problem in ingested.problems] == [True]
