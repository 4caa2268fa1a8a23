"""Captures and logs in the page: the exchanges that kproxy decode shows, in its order, with its values."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.errors import UsageError
from kproxy.output.times import render_instant
from kproxy.page.columns import COLUMNS
from kproxy.page.recorded import Arriving, Recorded
from kproxy.page.server import open_sources
from kproxy.page.store import Loading
from kproxy.page.work import Work
from tests.page.asking import ORDERS, decoded, let_in, opened
from tests.support.corpus import CAPTURES
from tests.support.kafka.processes import eventually
from tests.support.rotated import cut, packets_of

LIKE_THE_LOG = [name for name, column in COLUMNS.items() if column.in_log]


def as_in_the_log(name: str, value: Any) -> Any:
    return render_instant(int(value)) if name in ("requestAt", "responseAt") and value is not None else value


@pytest.mark.parametrize("name", ["01-java-produce-consume-group.pcap", "06-sasl-scram.pcap", "11-lossy-network.pcap"])
def test_rows_are_those_of_the_decoded_log(name: str) -> None:
    lines = decoded(CAPTURES / name)
    with opened(CAPTURES / name) as store:
        page = store.page(Work(), limit=500, columns=LIKE_THE_LOG)
        items = [store.item(number) for number in range(1, len(lines) + 1)]
    assert (page.total, page.numbers) == (len(lines), list(range(1, min(len(lines), 500) + 1)))
    for line, row in zip(lines, page.rows, strict=False):
        assert dict(zip(LIKE_THE_LOG, map(as_in_the_log, LIKE_THE_LOG, row), strict=True)) == {
            each: line[each] for each in LIKE_THE_LOG
        }
    assert [msgspec.json.decode(item.line) for item in items if item is not None] == lines


def test_a_decoded_log_gives_the_same_rows_as_its_capture(tmp_path: Path) -> None:
    log = tmp_path / "orders.jsonl.gz"
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "decode", "-q", "--format", "jsonl", str(ORDERS)],
        capture_output=True,
        check=True,
    )
    log.write_bytes(gzip.compress(done.stdout))
    with opened(log) as of_log, opened(ORDERS) as of_capture:
        assert of_log.page(Work(), columns=LIKE_THE_LOG).rows == of_capture.page(Work(), columns=LIKE_THE_LOG).rows
        assert (of_log.may_have_edits, of_capture.may_have_edits) == (True, False)
        sides = [store.item(1).request for store in (of_log, of_capture)]  # type: ignore[union-attr]
    assert (sides[0].data, sides[0].size) == (b"", sides[1].size)  # type: ignore[union-attr]


def test_files_of_one_capture_give_the_rows_of_the_whole_and_a_bad_one_is_said(tmp_path: Path) -> None:
    cut(packets_of(ORDERS.name), tmp_path, 1)
    (tmp_path / "bad.pcap").write_bytes(b"bad")
    with opened(tmp_path) as of_files, opened(ORDERS) as of_capture:
        assert of_files.page(Work(), columns=LIKE_THE_LOG).rows == of_capture.page(Work(), columns=LIKE_THE_LOG).rows
        assert len(of_files.damages) == 1 and "bad.pcap: " in of_files.damages[0]


def test_how_far_a_compressed_source_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the file, not of what it decompresses to: half of the lines are about half of it, and all of them all."""
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "decode", "-q", "--format", "jsonl", *[str(ORDERS)] * 3],
        capture_output=True, check=True,
    )  # fmt: skip
    log = tmp_path / "orders.jsonl.gz"
    log.write_bytes(gzip.compress(done.stdout))
    size = log.stat().st_size
    assert size * 5 < len(done.stdout)
    told: list[tuple[int, int]] = []

    def loading(done: int, of: int) -> Loading:
        told.append((done, of))
        return Loading(done, of)

    monkeypatch.setattr("kproxy.page.recorded.Loading", loading)
    monkeypatch.setattr("kproxy.page.recorded.LOOK", 1)
    monkeypatch.setattr("kproxy.capture.reader.COMPRESSED_READ", 512)
    with opened(log):
        pass
    assert {of for _, of in told} == {size} and told == sorted(told)
    assert 0.25 * size < told[len(told) // 2][0] < 0.75 * size
    assert told[-1][0] == size


def test_bytes_are_those_of_the_capture() -> None:
    with opened(ORDERS) as store:
        item = store.item(1)
    assert item is not None and item.request is not None
    assert item.request.data in ORDERS.read_bytes()
    assert len(item.request.data) == item.request.size


def test_the_oldest_exchanges_leave_all_tables() -> None:
    with opened(*[CAPTURES / "10-kraft-interbroker.pcap"] * 3, most=1, separate=True) as store:
        assert store.left > 0
        page = store.page(Work(), limit=1)
        assert page.numbers == [store.first] and page.rows[0][0] == store.first
        with store.cursor() as cursor:
            (least,) = cursor.execute("SELECT min(number) FROM exchanges").fetchone() or ()
            left = "SELECT count(*) FROM offsets o ANTI JOIN exchanges e USING (connection_id, exchange)"
            assert (least, cursor.execute(left).fetchone()) == (store.first, (0,))


def test_what_ends_early_is_a_damage_and_what_came_before_is_shown(tmp_path: Path) -> None:
    half = tmp_path / "half.pcap"
    half.write_bytes(ORDERS.read_bytes()[:6_000])
    with opened(half) as store:
        assert 0 < store.exchanges < len(decoded(ORDERS))
        assert len(store.damages) == 1 and "half.pcap" in store.damages[0]


def test_a_file_that_grows_after_it_was_read_is_said(tmp_path: Path) -> None:
    """As one that a capture tool still writes; and one that is gone is none."""
    path = tmp_path / "written.pcap"
    whole = ORDERS.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with opened(path, CAPTURES / "06-sasl-scram.pcap") as store:
        browser = let_in(store)
        assert browser.get("/page/api/source").json()["grown"] == ""
        path.write_bytes(whole)
        said = browser.get("/page/api/source").json()["grown"]
        pattern = (
            r"written\.pcap has grown since it was read, at \d\d:\d\d:\d\d UTC: start kproxy open again to read on,"
            r" or have it read what comes: tail -c \+1 -f written\.pcap \| kproxy open -"
        )
        assert re.fullmatch(pattern, said)
        path.unlink()
        assert browser.get("/page/api/source").json()["grown"] == ""


def test_it_waits_for_bytes_until_it_is_told_not_to() -> None:
    reading, writing = os.pipe()
    answers = [True, True, False]
    arriving = Arriving(os.fdopen(reading, "rb", buffering=0), lambda: answers.pop(0))
    buffer = memoryview(bytearray(10))
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(b"orders")
        assert (arriving.readinto(buffer), bytes(buffer[:6])) == (6, b"orders")
        assert answers == [True, True, False], "there was something to read"
        assert arriving.readinto(buffer) == 0
        assert answers == []
    assert arriving.readinto(buffer) == 0, "the end of a pipe is none to wait for"
    arriving.close()


def test_a_pipe_is_shown_as_it_comes_and_may_be_left_at_any_time() -> None:
    """What a capture of half the bytes has is there while nothing comes, and the rest once it does."""
    whole = ORDERS.read_bytes()
    half = whole[: len(whole) // 2]
    with opened(ORDERS) as of_file:
        expected = of_file.page(Work()).rows
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe, Recorded([Path(f"/dev/fd/{reading}")]) as store:
        store.start()
        pipe.write(half)
        seen = eventually(lambda: store.last, what="rows of the first half")
        assert store.page(Work()).rows == expected[:seen]
        assert not store.wait(0)
        pipe.write(whole[len(half) :])
        eventually(lambda: store.last == len(expected), what="rows of all")
        assert store.page(Work()).rows == expected
        assert not store.wait(0), "the pipe is open"
    os.close(reading)


def test_the_end_of_a_pipe_ends_it() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(gzip.compress(ORDERS.read_bytes()))  # which a pipe holds
    with opened(Path(f"/dev/fd/{reading}")) as store, opened(ORDERS) as of_file:
        assert (store.last, store.loading, store.damages) == (of_file.last, None, [])
    os.close(reading)


def test_what_is_no_source_is_said_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        open_sources([tmp_path / "nothing.pcap"])
