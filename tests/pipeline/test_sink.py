"""Where output goes: in blocks or at once, never over an input."""

import errno
import os
import stat
from pathlib import Path

import pytest

from kproxy.errors import UsageError
from kproxy.pipeline.sink import BLOCK, RotatingFile, Sink, check_output
from tests.support.loops import Clock


def test_lines_are_written_in_blocks_and_all_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with Sink(path, live=False) as sink:
        sink.write(b"one\n")
        assert path.read_bytes() == b""
        sink.write(b"x" * BLOCK)
        assert path.stat().st_size == BLOCK + 4
        sink.write(b"end\n")
    assert path.read_bytes() == b"one\n" + b"x" * BLOCK + b"end\n"


def test_a_live_sink_writes_at_once(tmp_path: Path) -> None:
    with Sink(tmp_path / "out", live=True) as sink:
        sink.write(b"one\n")
        assert (tmp_path / "out").read_bytes() == b"one\n"


def test_what_was_written_before_an_error_stays(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Sink(tmp_path / "out", live=False) as sink:
        sink.write(b"one\n")
        raise ZeroDivisionError
    assert (tmp_path / "out").read_bytes() == b"one\n"


def test_standard_output_stays_open(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    with Sink(None, live=False) as sink:
        sink.write(b"one\n")
    print("two")
    assert capsysbinary.readouterr().out == b"one\ntwo\n"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(given)
    for path, said in (
        (tmp_path, "is a directory"),
        (tmp_path / "no" / "out", "folder does not exist"),
        (given, "is also an input"),
        (tmp_path / "link", "is also an input"),
    ):
        with pytest.raises(UsageError, match=said):
            check_output(path, [given])
    check_output(None, [given])
    check_output(tmp_path / "out", [given, Path("-")])
    assert given.read_bytes() == b"precious"


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


def rotating(
    path: Path, clock: Clock, *, size: int = 100, age: float = 60, keep: int = 3, **more: object
) -> RotatingFile:
    return RotatingFile(
        path, most_size=size, most_age=age, keep=keep, clock=clock, **{"block": 0, "report": str} | more
    )  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in sorted(folder.iterdir())}


def test_a_big_part_is_numbered_and_the_oldest_go(tmp_path: Path, clock: Clock) -> None:
    file = rotating(tmp_path / "kafka.jsonl", clock, size=10)
    for number in range(5):
        assert file.write(b"line %d 01234\n" % number)
    assert contents(tmp_path) == {
        "kafka.000003.jsonl": b"line 2 01234\n",
        "kafka.000004.jsonl": b"line 3 01234\n",
        "kafka.jsonl": b"line 4 01234\n",
    }
    assert file.written == 5 * 13


def test_an_old_part_is_numbered_unless_it_is_empty(tmp_path: Path, clock: Clock) -> None:
    file = rotating(tmp_path / "a.log", clock, age=60)
    file.write(b"one\n")
    clock.now += 59
    file.write(b"two\n")
    clock.now += 1
    file.write(b"three\n")
    assert contents(tmp_path) == {"a.000001.log": b"one\ntwo\n", "a.log": b"three\n"}
    clock.now += 61
    assert file.is_open()
    clock.now += 61
    assert file.is_open()
    assert contents(tmp_path) == {"a.000001.log": b"one\ntwo\n", "a.000002.log": b"three\n", "a.log": b""}


def test_a_new_process_goes_on_with_the_numbers_and_appends_to_nothing(tmp_path: Path, clock: Clock) -> None:
    rotating(tmp_path / "a.log", clock).write(b"torn li")
    (tmp_path / "a.000041.log").write_bytes(b"older")
    (tmp_path / "a.000041.log.bak").write_bytes(b"somebody's")
    (tmp_path / "ab.000042.log").write_bytes(b"another's")
    rotating(tmp_path / "a.log", clock).write(b"new\n")
    assert contents(tmp_path) == {
        "a.000041.log": b"older",
        "a.000041.log.bak": b"somebody's",
        "a.000042.log": b"torn li",
        "a.log": b"new\n",
        "ab.000042.log": b"another's",
    }


def test_every_part_begins_as_it_must(tmp_path: Path, clock: Clock) -> None:
    parts = iter(range(9))
    file = rotating(tmp_path / "a.pcapng", clock, size=13, begin_part=lambda: b"header %d;" % next(parts))
    for data in (b"one", b"two", b"three"):
        file.write(data)
    assert contents(tmp_path) == {"a.000001.pcapng": b"header 0;onetwo", "a.pcapng": b"header 1;three"}


def test_what_is_held_back_counts_and_is_written_to_its_own_part(tmp_path: Path, clock: Clock) -> None:
    file = rotating(tmp_path / "a.log", clock, size=10, block=1000)
    for number in range(5):
        assert file.write(b"line %d\n" % number)
    assert contents(tmp_path) == {
        "a.000001.log": b"line 0\nline 1\n",
        "a.000002.log": b"line 2\nline 3\n",
        "a.log": b"",
    }
    file.flush()
    assert contents(tmp_path)["a.log"] == b"line 4\n"


def test_as_many_parts_are_kept_as_it_was_told(tmp_path: Path, clock: Clock) -> None:
    file = rotating(tmp_path / "a.log", clock, size=1, keep=5)
    for number in range(9):
        file.write(b"%d\n" % number)
        assert len(contents(tmp_path)) == min(number + 1, 5)
    assert contents(tmp_path) == {
        "a.000005.log": b"4\n",
        "a.000006.log": b"5\n",
        "a.000007.log": b"6\n",
        "a.000008.log": b"7\n",
        "a.log": b"8\n",
    }


def test_attack_23_trying_again_on_a_full_disk_pushes_no_part_out(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rotating(tmp_path / "a.log", clock, size=1, keep=3)
    for data in (b"one\n", b"two\n", b"three\n"):
        assert file.write(data)
    before = contents(tmp_path)
    assert len(before) == 3
    with monkeypatch.context() as full:
        fail(full, errno.ENOSPC)
        for _ in range(20):
            clock.now += 1
            assert not file.write(b"lost\n")
    clock.now += 1
    found = {name: data for name, data in contents(tmp_path).items() if data}
    assert sorted(found.values()) == sorted(before.values())
    assert file.write(b"four\n")
    assert contents(tmp_path) == {"a.000002.log": b"two\n", "a.000003.log": b"three\n", "a.log": b"four\n"}


def test_only_the_owner_may_read(tmp_path: Path, clock: Clock) -> None:
    before = os.umask(0)
    try:
        rotating(tmp_path / "a.log", clock).write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.log").stat().st_mode) == 0o600


def test_attack_24_a_link_is_never_written_through(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "a.log").symlink_to(tmp_path / "victim")
    assert rotating(tmp_path / "a.log", clock).write(b"x\n")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert not (tmp_path / "a.log").is_symlink()
    assert (tmp_path / "a.000001.log").is_symlink()  # moved out of the way, not followed


def test_attack_24_nor_is_one_that_is_made_in_between(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "a.log").write_bytes(b"before")
    rename = Path.rename

    def race(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        (tmp_path / "a.log").symlink_to(tmp_path / "victim")
        return moved

    monkeypatch.setattr(Path, "rename", race)
    file = rotating(tmp_path / "a.log", clock)
    assert not file.write(b"x\n")
    assert (tmp_path / "victim").read_bytes() == b"precious"


def fail(monkeypatch: pytest.MonkeyPatch, code: int, after: int = 0) -> None:
    """A disk that takes *after* more bytes."""
    real = os.write

    def write(fd: int, data: bytes) -> int:
        nonlocal after
        taken = min(after, len(data))
        if taken == 0:
            raise OSError(code, os.strerror(code))
        after -= taken
        return real(fd, data[:taken])

    monkeypatch.setattr(os, "write", write)


def test_attack_23_a_full_disk_drops_and_counts_and_leaves_whole_lines(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    file = rotating(tmp_path / "a.log", clock, begin_part=lambda: b"# log\n", report=said.append)
    assert file.write(b"one\n")
    with monkeypatch.context() as full:
        fail(full, errno.ENOSPC, after=2)
        assert not file.write(b"two\n")
        for _ in range(90):  # seconds
            clock.now += 1
            assert not file.write(b"more\n")
            assert not file.write(b"even more\n")
    assert file.failures == 91
    assert file.dropped == 4 + 90 * 15
    assert said == ["No space left on device; trying again every second"] * 2  # once a minute
    clock.now += 1
    assert file.write(b"three\n")
    assert contents(tmp_path) == {"a.000001.log": b"# log\none\n", "a.log": b"# log\nthree\n"}
    assert file.written == len(b"# log\none\n# log\nthree\n")


def test_attack_23_a_folder_that_is_gone_and_comes_back(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "logs"
    file = rotating(folder / "a.log", clock)
    assert not file.write(b"one\n")
    assert not file.write(b"two\n")
    assert file.failures == 1  # tried again once a second, not for every line
    folder.mkdir()
    clock.now += 1
    assert file.write(b"three\n")
    assert contents(folder) == {"a.log": b"three\n"}


def test_attack_23_a_folder_in_the_place_of_the_file(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "a.log").mkdir()
    file = rotating(tmp_path / "a.log", clock)
    assert not file.write(b"one\n")
    assert file.failures == 1


def test_attack_23_too_many_open_files(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    file = rotating(tmp_path / "a.log", clock)
    with monkeypatch.context() as few:

        def refuse(*_arguments: object) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        few.setattr(os, "open", refuse)
        assert not file.write(b"one\n")
    clock.now += 1
    assert file.write(b"two\n")


def test_another_program_renames_removes_or_truncates_the_part(tmp_path: Path, clock: Clock) -> None:
    """The next one is begun at the same path; nothing is written to the old one, and there are no holes."""
    path = tmp_path / "a.log"
    file = rotating(path, clock, begin_part=lambda: b"begin\n")
    file.write(b"one\n")
    path.rename(tmp_path / "renamed")
    file.write(b"two\n")
    os.truncate(path, 0)
    file.write(b"three\n")
    path.unlink()
    file.write(b"four\n")
    assert contents(tmp_path) == {"a.log": b"begin\nfour\n", "renamed": b"begin\none\n"}


def test_a_buffered_file_looks_each_second(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "a.log"
    file = rotating(path, clock, block=1_000)
    file.write(b"one\n")
    path.rename(tmp_path / "renamed")
    file.write(b"two\n")
    clock.now += 1
    file.write(b"three\n")
    file.flush()
    assert contents(tmp_path) == {"a.log": b"three\n", "renamed": b"one\ntwo\n"}
