"""Selections as files: what kproxy decode writes for the same condition."""

import functools
import json
import os
import shlex
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from kproxy.errors import UsageError
from kproxy.output.times import render_instant
from kproxy.page.exporting import Selection
from kproxy.page.filtering.filter import FilterError
from kproxy.page.live.store import Live
from kproxy.page.recorded import Recorded
from kproxy.page.tables import Tabled
from kproxy.page.work import Cancelled, Work
from kproxy.pipeline.run import Options
from kproxy.protocol.addresses import parse_ip, split_address
from tests.page import asking
from tests.page.asking import CAPTURE, ORDERS, let_in, opened
from tests.page.feeding import feed_of, live, send
from tests.page.test_tables import decoded_tables
from tests.support.corpus import CAPTURES
from tests.support.hostile_names import hostile_names
from tests.support.kafka.processes import eventually
from tests.support.sampled import sampled
from tests.support.secrets_block import without_secrets

TLS = CAPTURES / "07-tls13-dsb.pcapng"
PRODUCED_BY_TLS = 60  # records that its producer says were acknowledged
READ = 600  # records that the consumers of CAPTURE say they read
CONDITION = 'apiName == "JoinGroup" && latencyMs > 1.0'


def decode(*words: str, source: Path = CAPTURE) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "kproxy", "decode", "-q", *words, str(source)], capture_output=True, check=True
    ).stdout


@pytest.mark.parametrize("condition", ["", CONDITION])
def test_lines(store: Recorded, condition: str) -> None:
    found = list(Selection(store, condition).lines(Work()))
    where = ["--where", condition] if condition else []
    expected = [line + b"\n" for line in decode("--format", "jsonl", *where).splitlines()]
    assert found == [line for line in expected if line.startswith(b'{"event":"exchange"')]


def test_of_a_span_the_requests_that_came_in_it(store: Recorded) -> None:
    first, last = store.times()
    assert first is not None and last is not None
    middle = (first + last) // 2
    halves = [list(Selection(store, "", *span).lines(Work())) for span in ((None, middle), (middle + 1, None))]
    requests = list(Selection(store, "requestAt != null").lines(Work()))
    assert sorted(halves[0] + halves[1]) == sorted(requests) and all(halves)


def test_packets_are_decoded_to_the_same_exchanges(store: Recorded, tmp_path: Path) -> None:
    written = Selection(store, CONDITION).write(Work(), "pcapng", tmp_path)
    with opened(written) as again:
        assert again.exchanges == len(list(Selection(store, CONDITION).lines(Work())))
    (tmp_path / "2").mkdir()
    hidden = Selection(store, CONDITION).write(Work(), "pcapng-anonymized", tmp_path / "2")
    assert b"g-range" in written.read_bytes() and b"g-range" not in hidden.read_bytes()


def test_packets_have_the_records_that_the_page_leaves_out(store: Recorded, tmp_path: Path) -> None:
    written = Selection(store, 'apiName == "Fetch"').write(Work(), "pcapng", tmp_path)
    shown = decode("--format", "jsonl", "--records", source=written).splitlines()
    parts = [
        part["json"] for line in shown for part in json.loads(line).get("embedded") or () if part["kind"] == "records"
    ]
    assert [len(part["records"]) for part in parts] == [part["count"] for part in parts]
    assert sum(len(part["records"]) for part in parts) == READ


def test_tables_of_a_capture_and_of_tables_are_the_same(store: Recorded, tmp_path: Path) -> None:
    with Tabled([decoded_tables(tmp_path / "tables")]) as tables:
        files = [
            Selection(source, CONDITION).write(Work(), "parquet", _folder(tmp_path, name))
            for source, name in ((store, "a"), (tables, "b"))
        ]
    found = []
    for file in files:
        with zipfile.ZipFile(file) as archive:
            archive.extractall(file.parent)
        found.append(
            {name: pq.read_table(file.parent / "tables" / name) for name in ("exchanges", "group_events", "errors")}
        )
    for name in found[0]:
        columns = [
            column for column in found[0][name].column_names if column != "exchange"
        ]  # decode numbers those that it shows
        assert found[0][name].select(columns).equals(found[1][name].select(columns)), name
    assert found[0]["exchanges"].num_rows == len(list(Selection(store, CONDITION).lines(Work())))


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@pytest.mark.slow
def test_the_command_gives_the_same(store: Recorded, tmp_path: Path) -> None:
    condition = "clientId.contains('m') && latencyMs > 1.0"
    typed = Selection(store, condition).command("jsonl")
    words = shlex.split(typed)
    assert words[0] == "kproxy" and words[-2:] == [">", "exchanges.jsonl"]
    done = subprocess.run([sys.executable, "-m", *words[:-2], "-q"], capture_output=True, check=True)
    lines = [line for line in done.stdout.splitlines() if msgspec.json.decode(line)["event"] == "exchange"]
    assert lines == [line.rstrip() for line in Selection(store, condition).lines(Work())]
    assert "--anonymize" in Selection(store, "", 1, 2).command("pcapng-anonymized")
    assert Selection(store, condition).replay_command() == shlex.join(
        ["kproxy", "replay", "--to", "HOST:PORT", "--where", condition, str(CAPTURE)]
    )
    log = tmp_path / "decoded.jsonl"
    log.write_bytes(decode("--format", "jsonl"))
    with opened(log) as of_log:
        assert Selection(of_log, condition).replay_command() is None
        reasons = Selection(of_log).impossible()
        assert set(reasons) == {"pcapng", "pcapng-anonymized"} and "is a decoded log" in reasons["pcapng"]
    with Tabled([decoded_tables(tmp_path / "my tables")]) as tables:
        assert Selection(tables).replay_command() is None
        assert shlex.split(Selection(tables).command("jsonl"))[2] == str(tmp_path / "my tables")
        assert (
            Selection(tables).commands("parquet")["note"]
            == ""
            == Selection(store, condition).commands("parquet")["note"]
        )
        assert "gives all exchanges" in Selection(tables, condition).commands("parquet")["note"]


def test_files_and_commands_are_of_what_the_page_shows(tmp_path: Path) -> None:
    """With the session keys and the records that it was opened with."""
    bare, keys = tmp_path / "bare.pcapng", tmp_path / "keys.log"
    for path, content in zip((bare, keys), without_secrets(TLS.read_bytes()), strict=True):
        path.write_bytes(content)
    with opened(bare, options=Options(keylog=keys, records=True)) as store:
        packets = Selection(store).write(Work(), "pcapng", tmp_path)
        assert len(decode("--format", "jsonl", source=packets).splitlines()) == store.exchanges > 0
        with zipfile.ZipFile(Selection(store).write(Work(), "parquet", tmp_path)) as archive:
            archive.extractall(tmp_path)
        assert pq.read_table(tmp_path / "tables" / "exchanges").num_rows == store.exchanges
        assert pq.read_table(tmp_path / "tables" / "records").num_rows >= PRODUCED_BY_TLS
        typed = shlex.split(Selection(store).command("jsonl"))[2:-3]
        found = decode(*typed, source=bare).splitlines(keepends=True)
        expected = list(Selection(store).lines(Work()))
        assert [line for line in found if line.startswith(b'{"event":"exchange"')] == expected
        assert f"--keylog {keys}" in (Selection(store).replay_command() or "")
        assert "--records" not in Selection(store).command("pcapng")


def test_what_cannot_be_exported_is_said(store: Recorded, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format is one of"):
        Selection(store).write(Work(), "exe", tmp_path)
    with pytest.raises(FilterError):
        Selection(store, "nonsense ==").write(Work(), "pcapng", tmp_path)
    with Tabled([decoded_tables(tmp_path / "tables")]) as tables:
        for form in ("pcapng", "pcapng-anonymized"):
            with pytest.raises(UsageError, match="parquet"):
                Selection(tables).write(Work(), form, tmp_path)
        with pytest.raises(UsageError, match="parquet"):
            Selection(tables).lines(Work())


def test_of_a_source_that_is_gone_there_are_lines_only(tmp_path: Path) -> None:
    source = tmp_path / "gone.pcap"
    source.write_bytes(CAPTURE.read_bytes())
    with opened(source) as store:
        browser = let_in(store)
        asked = {"format": "jsonl", "filter": ""}
        assert browser.get("/page/api/command", params=asked).json()["impossible"] == {}
        source.unlink()
        reasons = browser.get("/page/api/command", params=asked).json()["impossible"]
        assert set(reasons) == {"pcapng", "pcapng-anonymized", "parquet"}
        for form, reason in reasons.items():
            answer = browser.get("/page/api/export", params={"format": form})
            assert (answer.status_code, answer.json()["error"]) == (400, reason)
            assert reason.startswith(f"{source} is not there any more")
        assert len(browser.get("/page/api/export", params=asked).text.splitlines()) == store.exchanges


def test_of_a_pipe_there_are_lines_only_and_the_command_reads_one_as_well() -> None:
    with Recorded([Path("-")]) as store:  # not read here
        reasons = Selection(store).impossible()
        assert set(reasons) == {"pcapng", "pcapng-anonymized", "parquet"}
        assert set(reasons.values()) == {"a pipe was read, which cannot be read again: take jsonl"}
        assert Selection(store).command("jsonl").split()[-3:] == ["-", ">", "exchanges.jsonl"]
        assert Selection(store).replay_command() is None


def test_the_command_runs_nothing_else(tmp_path: Path) -> None:
    """A shell gives kproxy the condition and the file names as they are, whatever is in them."""
    folder = tmp_path / "it's $(touch pwned) `touch pwned` \n; touch pwned"
    folder.mkdir()
    source = folder / '-a "b" * $HOME.pcap'
    source.write_bytes(CAPTURE.read_bytes())
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kproxy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kproxy "$@"\n')
    (programs / "kproxy").chmod(0o755)
    empty = tmp_path / "here"
    empty.mkdir()
    condition = (
        """clientId != "$(touch pwned)`touch pwned`" && clientId != '\\\\; touch pwned #' // it's\n&& apiKey == 11"""
    )
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    with opened(source) as store:
        expected = list(Selection(store, condition).lines(Work()))
        for form in ("jsonl", "pcapng"):
            typed = Selection(store, condition).command(form)
            subprocess.run(["/bin/sh", "-c", typed], cwd=empty, env=environment, check=True, capture_output=True)
    assert sorted(path.name for path in empty.iterdir()) == ["exchanges.jsonl", "exchanges.pcapng"]
    found = [
        line + b"\n" for line in (empty / "exchanges.jsonl").read_bytes().splitlines() if b'"event":"exchange"' in line
    ]
    assert found == expected != []


ECHO = "kproxy() { for word; do printf '%s\\0' \"$word\"; done; printf '\\001\\0'; }\n"


@pytest.mark.slow
@pytest.mark.parametrize("shell", sampled(["sh", "bash"], ["sh"]))
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_what_a_terminal_would_obey_is_not_in_the_command(
    store: Recorded, tmp_path: Path, shell: str, count: int
) -> None:
    """It is pasted into one; a shell gives kproxy the condition as it is, whatever is in it."""
    names = (name.decode("utf-8", "replace") for name in hostile_names(20_261_123, count))
    hostile = [f"{name}{more}" for name in names for more in ("", "$(touch pwned)", "\x03\x15; touch pwned #")]
    conditions = [text for each in hostile if "\0" not in each and len(text := f"({each})\n") < 8_000]
    typed = [Selection(store, condition).command("pcapng") for condition in conditions]
    typed += [Selection(store, condition).replay_command() or "" for condition in conditions]
    assert all(line.isprintable() for line in typed) and len(typed) > count
    script = ECHO + "\n".join(typed)
    done = subprocess.run([shell], input=script.encode(), cwd=tmp_path, capture_output=True, check=True)
    called = [line.split("\0") for line in done.stdout.decode().split("\0\1\0")[:-1]]
    given = [words[words.index("--where") + 1] for words in called]
    assert given == 2 * [condition.strip() for condition in conditions]
    assert list(tmp_path.iterdir()) == []
    store_of_option: Any = SimpleNamespace(live=False, sources=[Path("--help.pcap")])
    assert Selection(store_of_option).command("pcapng").endswith(" ./--help.pcap")
    with pytest.raises(UsageError, match="NUL"):
        Selection(store, 'clientId == "\0"').command("pcapng")


def test_what_has_left_a_running_proxys_page_is_no_line(tmp_path: Path) -> None:
    with live(tmp_path) as store:
        feed = feed_of(tmp_path)
        send(feed, ORDERS)
        eventually(lambda: store.last == feed.seen, what="all exchanges")
        chosen = Selection(store).lines(Work())
        feed.close()
        every, kept = store.last, store.lines
        store.lines = lambda numbers, names: (  # type: ignore[method-assign]
            b"{}" if number == 1 else line for number, line in zip(numbers, kept(numbers, names), strict=True)
        )
        assert len(list(chosen)) == every - 1


PRODUCED = 'apiName == "Produce"'
SCRAM, LOSSY = CAPTURES / "06-sasl-scram.pcap", CAPTURES / "11-lossy-network.pcap"


def decoded(capture: Path = ORDERS) -> list[dict[str, Any]]:
    """The exchanges of a capture as kproxy decode has them."""
    return _of_the_traffic(capture) if capture.is_relative_to(CAPTURES) else asking.decoded(capture)


_of_the_traffic = functools.cache(asking.decoded)


@contextmanager
def showing(folder: Path, capture: Path = ORDERS) -> Iterator[Live]:
    """A live store that was fed a capture."""
    with live(folder) as store:
        feed = feed_of(folder)
        send(feed, capture)
        eventually(lambda: store.last == feed.seen > 0, what="all exchanges")
        yield store
        feed.close()


def exported(store: Live, form: str, target: Path, condition: str = "", work: Work | None = None) -> Path:
    """The packets of a selection, in a file."""
    _, blocks = Selection(store, condition).packets(work or Work(), form)
    target.write_bytes(b"".join(blocks))
    return target


def told(lines: Iterable[dict[str, Any]], *without: str) -> list[str]:
    """Lines without some fields, in an order of their own."""
    return sorted(str({name: value for name, value in line.items() if name not in without}) for line in lines)


@pytest.mark.parametrize("condition", ["", PRODUCED])
def test_lines_are_those_of_decode(tmp_path: Path, condition: str) -> None:
    with showing(tmp_path) as store:
        found = list(Selection(store, condition).lines(Work()))
    expected = [line for line in decoded() if not condition or line["apiName"] == "Produce"]
    assert all(line.endswith(b"\n") for line in found)
    assert told(map(msgspec.json.decode, found), "connection") == told(expected, "connection") != []


@pytest.mark.parametrize("capture", [ORDERS, SCRAM, LOSSY], ids=lambda path: path.stem)
def test_packets_are_decoded_to_the_exchanges_of_the_traffic(tmp_path: Path, capture: Path) -> None:
    with showing(tmp_path, capture) as store:
        again = decoded(exported(store, "pcapng", tmp_path / "all.pcapng"))
    expected = decoded(capture)
    assert told(again, "connection") == told(expected, "connection") != []


def test_of_a_selection_its_packets_in_the_order_of_their_times(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        again = decoded(exported(store, "pcapng", tmp_path / "some.pcapng", PRODUCED))
    times = [line["requestAt"] for line in again]
    assert Counter(times) == Counter(line["requestAt"] for line in decoded() if line["apiName"] == "Produce")


def test_anonymized_has_no_name_address_or_record(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        plain = exported(store, "pcapng", tmp_path / "plain.pcapng").read_bytes()
        hidden = exported(store, "pcapng-anonymized", tmp_path / "hidden.pcapng")
    lines = decoded()
    names, value = {b"orders-producer", b"orders-consumer", b"orders-group"}, b"tahovcjqxelszgnubipwdkryfm"
    assert [name for name in names if name not in plain] == [] and value not in plain
    assert [name for name in {*names, value} if name in hidden.read_bytes()] == []
    addresses = {parse_ip(split_address(line[end])[0]).packed for line in lines for end in ("client", "broker")}  # type: ignore[union-attr]
    assert all(address in plain for address in addresses)
    assert [line["apiName"] for line in decoded(hidden)] == [
        line["apiName"] for line in decoded(tmp_path / "plain.pcapng")
    ]
    ends = {split_address(line[end])[0] for line in decoded(hidden) for end in ("client", "broker")}
    assert ends.isdisjoint(split_address(line[end])[0] for line in lines for end in ("client", "broker"))


def test_tables_are_those_of_decode(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        packed = Selection(store, PRODUCED).write(Work(), "parquet", tmp_path)
        everything = Selection(store).write(Work(), "parquet", _folder(tmp_path, "all"))
    expected = {}
    for name, where in (("some", ["--where", PRODUCED]), ("every", [])):
        words = ["decode", "-q", "--format", "parquet", *where, "-o", str(tmp_path / name), str(ORDERS)]
        subprocess.run([sys.executable, "-m", "kproxy", *words], check=True)
        expected[name] = tmp_path / name
    for file, name in ((packed, "some"), (everything, "every")):
        with zipfile.ZipFile(file) as archive:
            archive.extractall(file.parent)
        for table in ("exchanges", "record_batches", "offsets", "group_events", "errors"):
            found = pq.read_table(file.parent / "tables" / table)
            right = pq.read_table(expected[name] / table)
            assert found.schema.equals(right.schema), table
            left_out = {"connection_id", "exchange", "connection"}  # numbered anew
            assert told(found.to_pylist(), *left_out) == told(right.to_pylist(), *left_out), (name, table)
    assert pq.read_table(packed.parent / "tables" / "connections").num_rows > 0


def test_the_command_gives_the_same_of_an_export_of_all(tmp_path: Path) -> None:
    condition = f"{PRODUCED} && latencyMs > 0.5"
    with showing(tmp_path) as store:
        exported(store, "pcapng", tmp_path / "exchanges.pcapng")
        expected = [msgspec.json.decode(line) for line in Selection(store, condition).lines(Work())]
        words = shlex.split(Selection(store, condition).command("jsonl"))
        assert words[-2:] == [">", "selected-exchanges.jsonl"]
        done = subprocess.run([sys.executable, "-m", *words[:-2], "-q"], capture_output=True, check=True, cwd=tmp_path)
        with pytest.raises(UsageError, match="no command gives the same: exported packets have no principal"):
            Selection(store, 'principal == "alice"').command("jsonl")
    again = [line for line in map(msgspec.json.decode, done.stdout.splitlines()) if line["event"] == "exchange"]
    assert told(again, "connection") == told(expected, "connection") != []


def test_of_a_span_the_packets_in_it(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        times = sorted(line["requestAt"] for line in decoded())
        first, last = store.times()
        assert first is not None and last is not None
        _, blocks = Selection(store, "", first, (first + last) // 2).packets(Work(), "pcapng")
        (tmp_path / "half.pcapng").write_bytes(b"".join(blocks))
    found = sorted(line["requestAt"] for line in decoded(tmp_path / "half.pcapng"))
    assert found == [at for at in times if at <= render_instant((first + last) // 2)] != []


def test_one_that_is_given_up_ends(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        work = Work()
        work.cancel()
        for form in ("pcapng", "parquet"):
            with pytest.raises(Cancelled):
                if form == "pcapng":
                    Selection(store).packets(work, form)
                else:
                    Selection(store).write(work, form, tmp_path)
        before = unnamed()
        _, blocks = Selection(store).packets(Work(), "pcapng")
        assert next(blocks)
        assert unnamed() == before + 1
        del blocks  # a browser that goes away while it is sent
        assert unnamed() == before


def unnamed() -> int:
    """How many temporary files without a name this process has open."""
    found = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(name.endswith("(deleted)") and "memfd" not in name for name in found)


def test_over_http_each_is_a_download(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        browser = let_in(store)
        for form, magic in (
            ("pcapng", b"\x0a\x0d\x0d\x0a"),
            ("pcapng-anonymized", b"\x0a\x0d\x0d\x0a"),
            ("parquet", b"PK"),
        ):
            answer = browser.get("/page/api/export", params={"format": form, "filter": PRODUCED})
            assert (answer.status_code, answer.content.startswith(magic)) == (200, True)
            assert answer.headers["content-disposition"].startswith("attachment")
        answer = browser.get("/page/api/command", params={"format": "jsonl", "filter": PRODUCED})
        assert answer.json()["of"] == "exchanges.pcapng" and PRODUCED in answer.json()["command"]
