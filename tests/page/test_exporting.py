"""Selections as files: what kproxy decode writes for the same condition."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from kproxy.errors import UsageError
from kproxy.page import exporting
from kproxy.page.filtering.filter import FilterError
from kproxy.page.recorded import Recorded
from kproxy.page.server import page_app
from kproxy.page.tables import Tabled
from kproxy.page.work import Work
from kproxy.pipeline.run import Options
from tests.page.asking import TOKEN, Browser, opened
from tests.page.feeding import ORDERS, feed_of, live, send
from tests.page.test_tables import CAPTURE, decoded_tables
from tests.support.hostile_names import hostile_names
from tests.support.kafka.processes import eventually
from tests.support.secrets_block import without_secrets
from tests.support.traffic import CAPTURES

TLS = CAPTURES / "07-tls13-dsb.pcapng"
PRODUCED_BY_TLS = 60  # records that its producer says were acknowledged
READ = 600  # records that the consumers of CAPTURE say they read
CONDITION = 'apiName == "JoinGroup" && latencyMs > 1.0'


@pytest.fixture(scope="module")
def store() -> Iterator[Recorded]:
    with opened(CAPTURE) as found:
        yield found


def decode(*words: str, source: Path = CAPTURE) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "kproxy", "decode", "-q", *words, str(source)], capture_output=True, check=True
    ).stdout


@pytest.mark.parametrize("condition", ["", CONDITION])
def test_lines(store: Recorded, condition: str) -> None:
    found = list(exporting.lines(store, Work(), condition, None, None))
    where = ["--where", condition] if condition else []
    expected = [line + b"\n" for line in decode("--format", "jsonl", *where).splitlines()]
    assert found == [line for line in expected if line.startswith(b'{"event":"exchange"')]


def test_of_a_span_the_requests_that_came_in_it(store: Recorded) -> None:
    first, last = store.times()
    assert first is not None and last is not None
    middle = (first + last) // 2
    halves = [list(exporting.lines(store, Work(), "", *span)) for span in ((None, middle), (middle + 1, None))]
    requests = list(exporting.lines(store, Work(), "requestAt != null", None, None))
    assert sorted(halves[0] + halves[1]) == sorted(requests) and all(halves)


def test_packets_are_decoded_to_the_same_exchanges(store: Recorded, tmp_path: Path) -> None:
    written = exporting.write(store, Work(), "pcapng", CONDITION, None, None, tmp_path)
    with opened(written) as again:
        assert again.exchanges == len(list(exporting.lines(store, Work(), CONDITION, None, None)))
    (tmp_path / "2").mkdir()
    hidden = exporting.write(store, Work(), "pcapng-anonymized", CONDITION, None, None, tmp_path / "2")
    assert b"g-range" in written.read_bytes() and b"g-range" not in hidden.read_bytes()


def test_packets_have_the_records_that_the_page_leaves_out(store: Recorded, tmp_path: Path) -> None:
    written = exporting.write(store, Work(), "pcapng", 'apiName == "Fetch"', None, None, tmp_path)
    shown = decode("--format", "jsonl", "--records", source=written).splitlines()
    parts = [
        part["json"] for line in shown for part in json.loads(line).get("embedded") or () if part["kind"] == "records"
    ]
    assert [len(part["records"]) for part in parts] == [part["count"] for part in parts]
    assert sum(len(part["records"]) for part in parts) == READ


def test_tables_of_a_capture_and_of_tables_are_the_same(store: Recorded, tmp_path: Path) -> None:
    with Tabled([decoded_tables(tmp_path / "tables")]) as tables:
        files = [
            exporting.write(source, Work(), "parquet", CONDITION, None, None, _folder(tmp_path, name))
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
    assert found[0]["exchanges"].num_rows == len(list(exporting.lines(store, Work(), CONDITION, None, None)))


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_the_command_gives_the_same(store: Recorded, tmp_path: Path) -> None:
    condition = "clientId.contains('m') && latencyMs > 1.0"
    typed = exporting.command(store, "jsonl", condition, None, None)
    words = shlex.split(typed)
    assert words[0] == "kproxy" and words[-2:] == [">", "exchanges.jsonl"]
    done = subprocess.run([sys.executable, "-m", *words[:-2], "-q"], capture_output=True, check=True)
    lines = [line for line in done.stdout.splitlines() if msgspec.json.decode(line)["event"] == "exchange"]
    assert lines == [line.rstrip() for line in exporting.lines(store, Work(), condition, None, None)]
    assert "--anonymize" in exporting.command(store, "pcapng-anonymized", "", 1, 2)
    assert exporting.replay_command(store, condition) == shlex.join(
        ["kproxy", "replay", "--to", "HOST:PORT", "--where", condition, str(CAPTURE)]
    )
    log = tmp_path / "decoded.jsonl"
    log.write_bytes(decode("--format", "jsonl"))
    with opened(log) as of_log:
        assert exporting.replay_command(of_log, condition) is None
        reasons = exporting.impossible(of_log)
        assert set(reasons) == {"pcapng", "pcapng-anonymized"} and "is a decoded log" in reasons["pcapng"]
    with Tabled([decoded_tables(tmp_path / "my tables")]) as tables:
        assert exporting.replay_command(tables, "") is None
        assert shlex.split(exporting.command(tables, "jsonl", ""))[2] == str(tmp_path / "my tables")
        assert exporting.command_note(tables, "") == "" == exporting.command_note(store, condition)
        assert "gives all exchanges" in exporting.command_note(tables, condition)


def test_files_and_commands_are_of_what_the_page_shows(tmp_path: Path) -> None:
    """With the session keys and the records that it was opened with."""
    bare, keys = tmp_path / "bare.pcapng", tmp_path / "keys.log"
    for path, content in zip((bare, keys), without_secrets(TLS.read_bytes()), strict=True):
        path.write_bytes(content)
    with opened(bare, options=Options(keylog=keys, records=True)) as store:
        packets = exporting.write(store, Work(), "pcapng", "", None, None, tmp_path)
        assert len(decode("--format", "jsonl", source=packets).splitlines()) == store.exchanges > 0
        with zipfile.ZipFile(exporting.write(store, Work(), "parquet", "", None, None, tmp_path)) as archive:
            archive.extractall(tmp_path)
        assert pq.read_table(tmp_path / "tables" / "exchanges").num_rows == store.exchanges
        assert pq.read_table(tmp_path / "tables" / "records").num_rows >= PRODUCED_BY_TLS
        typed = shlex.split(exporting.command(store, "jsonl", ""))[2:-3]
        found = decode(*typed, source=bare).splitlines(keepends=True)
        expected = list(exporting.lines(store, Work(), "", None, None))
        assert [line for line in found if line.startswith(b'{"event":"exchange"')] == expected
        assert f"--keylog {keys}" in (exporting.replay_command(store, "") or "")
        assert "--records" not in exporting.command(store, "pcapng", "")


def test_what_cannot_be_exported_is_said(store: Recorded, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format is one of"):
        exporting.write(store, Work(), "exe", "", None, None, tmp_path)
    with pytest.raises(FilterError):
        exporting.write(store, Work(), "pcapng", "nonsense ==", None, None, tmp_path)
    with Tabled([decoded_tables(tmp_path / "tables")]) as tables:
        for form in ("pcapng", "pcapng-anonymized"):
            with pytest.raises(UsageError, match="parquet"):
                exporting.write(tables, Work(), form, "", None, None, tmp_path)
        with pytest.raises(UsageError, match="parquet"):
            exporting.lines(tables, Work(), "", None, None)


def test_of_a_source_that_is_gone_there_are_lines_only(tmp_path: Path) -> None:
    source = tmp_path / "gone.pcap"
    source.write_bytes(CAPTURE.read_bytes())
    with opened(source) as store:
        browser = Browser(page_app(store, TOKEN))
        browser.get("/", params={"token": TOKEN})
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
        reasons = exporting.impossible(store)
        assert set(reasons) == {"pcapng", "pcapng-anonymized", "parquet"}
        assert set(reasons.values()) == {"a pipe was read, which cannot be read again: take jsonl"}
        assert exporting.command(store, "jsonl", "").split()[-3:] == ["-", ">", "exchanges.jsonl"]
        assert exporting.replay_command(store, "") is None


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
        expected = list(exporting.lines(store, Work(), condition, None, None))
        for form in ("jsonl", "pcapng"):
            typed = exporting.command(store, form, condition, None, None)
            subprocess.run(["/bin/sh", "-c", typed], cwd=empty, env=environment, check=True, capture_output=True)
    assert sorted(path.name for path in empty.iterdir()) == ["exchanges.jsonl", "exchanges.pcapng"]
    found = [
        line + b"\n" for line in (empty / "exchanges.jsonl").read_bytes().splitlines() if b'"event":"exchange"' in line
    ]
    assert found == expected != []


ECHO = "kproxy() { for word; do printf '%s\\0' \"$word\"; done; printf '\\001\\0'; }\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_what_a_terminal_would_obey_is_not_in_the_command(
    store: Recorded, tmp_path: Path, shell: str, count: int
) -> None:
    """It is pasted into one; a shell gives kproxy the condition as it is, whatever is in it."""
    names = (name.decode("utf-8", "replace") for name in hostile_names(20_261_123, count))
    hostile = [f"{name}{more}" for name in names for more in ("", "$(touch pwned)", "\x03\x15; touch pwned #")]
    conditions = [text for each in hostile if "\0" not in each and len(text := f"({each})\n") < 8_000]
    typed = [exporting.command(store, "pcapng", condition, None, None) for condition in conditions]
    typed += [exporting.replay_command(store, condition) or "" for condition in conditions]
    assert all(line.isprintable() for line in typed) and len(typed) > count
    script = ECHO + "\n".join(typed)
    done = subprocess.run([shell], input=script.encode(), cwd=tmp_path, capture_output=True, check=True)
    called = [line.split("\0") for line in done.stdout.decode().split("\0\1\0")[:-1]]
    given = [words[words.index("--where") + 1] for words in called]
    assert given == 2 * [condition.strip() for condition in conditions]
    assert list(tmp_path.iterdir()) == []
    store_of_option: Any = SimpleNamespace(live=False, sources=[Path("--help.pcap")])
    assert exporting.command(store_of_option, "pcapng", "").endswith(" ./--help.pcap")
    with pytest.raises(UsageError, match="NUL"):
        exporting.command(store, "pcapng", 'clientId == "\0"', None, None)


def test_packets_are_those_that_tshark_sees(
    store: Recorded, tmp_path: Path, require: Callable[[str, object, str], None]
) -> None:
    """Of the exchanges chosen: their requests and responses, by API and correlation id."""
    require("tshark", shutil.which("tshark"), "no tshark")
    written = exporting.write(store, Work(), "pcapng", CONDITION, None, None, tmp_path)
    words = ["tshark", "-r", str(written), "-d", "tcp.port==9092,kafka", "-Y", "kafka", "-T", "fields"]
    port = msgspec.json.decode(next(iter(exporting.lines(store, Work(), CONDITION, None, None))))["broker"].rpartition(
        ":"
    )[2]
    words[4] = f"tcp.port=={port},kafka"
    fields = ["-e", "kafka.api_key", "-e", "kafka.correlation_id"]
    seen = subprocess.run([*words, *fields], capture_output=True, check=True, text=True).stdout
    ids = Counter(correlation for line in seen.splitlines() for correlation in line.split("\t")[1].split(","))
    lines = [msgspec.json.decode(line) for line in exporting.lines(store, Work(), CONDITION, None, None)]
    assert ids == Counter(
        {str(each): 2 * count for each, count in Counter(line["correlationId"] for line in lines).items()}
    )


def test_what_has_left_a_running_proxys_page_is_no_line(tmp_path: Path) -> None:
    with live(tmp_path) as store:
        feed = feed_of(tmp_path)
        send(feed, ORDERS)
        eventually(lambda: store.last == feed.seen, what="all exchanges")
        chosen = exporting.lines(store, Work(), "", None, None)
        feed.close()
        every, kept = store.last, store.lines
        store.lines = lambda numbers, names: (  # type: ignore[method-assign]
            b"{}" if number == 1 else line for number, line in zip(numbers, kept(numbers, names), strict=True)
        )
        assert len(list(chosen)) == every - 1


def _without_connections(lines: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(str({name: value for name, value in line.items() if name != "connection"}) for line in lines)
