"""What a running proxy's page exports: the exchanges of the traffic itself, as kproxy decode and tshark read them."""

import functools
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from kproxy.errors import UsageError
from kproxy.output.times import render_instant
from kproxy.page import exporting
from kproxy.page.live.store import Live
from kproxy.page.server import page_app
from kproxy.page.work import Cancelled, Work
from kproxy.protocol.addresses import parse_ip, split_address
from tests.page import feeding
from tests.page.asking import TOKEN, Browser
from tests.page.feeding import ORDERS, feed_of, live, send
from tests.support.kafka.processes import eventually
from tests.support.traffic import CAPTURES

PRODUCED = 'apiName == "Produce"'
SCRAM, LOSSY = CAPTURES / "06-sasl-scram.pcap", CAPTURES / "11-lossy-network.pcap"


def decoded(capture: Path = ORDERS) -> list[dict[str, Any]]:
    """The exchanges of a capture as kproxy decode has them."""
    return _of_the_traffic(capture) if capture.is_relative_to(CAPTURES) else feeding.decoded(capture)


_of_the_traffic = functools.cache(feeding.decoded)


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
    _, blocks = exporting.packets(store, work or Work(), form, condition, None, None)
    target.write_bytes(b"".join(blocks))
    return target


def told(lines: Iterable[dict[str, Any]], *without: str) -> list[str]:
    """Lines without some fields, in an order of their own."""
    return sorted(str({name: value for name, value in line.items() if name not in without}) for line in lines)


@pytest.mark.parametrize("condition", ["", PRODUCED])
def test_lines_are_those_of_decode(tmp_path: Path, condition: str) -> None:
    with showing(tmp_path) as store:
        found = list(exporting.lines(store, Work(), condition, None, None))
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


def test_tshark_reads_the_same_requests(tmp_path: Path, require: Callable[[str, object, str], None]) -> None:
    require("tshark", shutil.which("tshark"), "no tshark")
    with showing(tmp_path) as store:
        written = exported(store, "pcapng", tmp_path / "all.pcapng")
    found, expected = dissected(written), dissected(ORDERS)
    assert found == expected != Counter()


def dissected(capture: Path) -> Counter[tuple[str, str]]:
    """How often Wireshark's Kafka dissector finds an API and a correlation id."""
    ports = {line["broker"].rpartition(":")[2] for line in decoded()}
    words = [
        "tshark",
        "-r",
        str(capture),
        "-Y",
        "kafka",
        "-T",
        "fields",
        "-e",
        "kafka.api_key",
        "-e",
        "kafka.correlation_id",
    ]
    words += [word for port in ports for word in ("-d", f"tcp.port=={port},kafka")]
    rows = subprocess.run(words, capture_output=True, check=True, text=True).stdout.splitlines()
    return Counter(pair for row in rows for pair in zip(*(field.split(",") for field in row.split("\t")), strict=False))


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
        packed = exporting.write(store, Work(), "parquet", PRODUCED, None, None, tmp_path)
        everything = exporting.write(store, Work(), "parquet", "", None, None, _folder(tmp_path, "all"))
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


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_the_command_gives_the_same_of_an_export_of_all(tmp_path: Path) -> None:
    condition = f"{PRODUCED} && latencyMs > 0.5"
    with showing(tmp_path) as store:
        exported(store, "pcapng", tmp_path / "exchanges.pcapng")
        expected = [msgspec.json.decode(line) for line in exporting.lines(store, Work(), condition, None, None)]
        words = shlex.split(exporting.command(store, "jsonl", condition))
        assert words[-2:] == [">", "selected-exchanges.jsonl"]
        done = subprocess.run([sys.executable, "-m", *words[:-2], "-q"], capture_output=True, check=True, cwd=tmp_path)
        with pytest.raises(UsageError, match="no command gives the same: exported packets have no principal"):
            exporting.command(store, "jsonl", 'principal == "alice"')
    again = [line for line in map(msgspec.json.decode, done.stdout.splitlines()) if line["event"] == "exchange"]
    assert told(again, "connection") == told(expected, "connection") != []


def test_of_a_span_the_packets_in_it(tmp_path: Path) -> None:
    with showing(tmp_path) as store:
        times = sorted(line["requestAt"] for line in decoded())
        first, last = store.times()
        assert first is not None and last is not None
        _, blocks = exporting.packets(store, Work(), "pcapng", "", first, (first + last) // 2)
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
                    exporting.packets(store, work, form, "", None, None)
                else:
                    exporting.write(store, work, form, "", None, None, tmp_path)
        before = unnamed()
        _, blocks = exporting.packets(store, Work(), "pcapng", "", None, None)
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
        browser = Browser(page_app(store, TOKEN))
        browser.get("/", params={"token": TOKEN}, follow_redirects=True)
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
