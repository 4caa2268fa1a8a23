"""kproxy decode on decoded logs: the same as on the captures they were made of, and what it says of damaged ones."""

import gzip
import json
import os
import re
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from kproxy.capture import Capture
from kproxy.cli import main
from kproxy.errors import CaptureError
from kproxy.pipeline.decoded_log import LONGEST_LINE, MOST_NAMED, READ, DecodedLog, open_input
from tests.support.traffic import CAPTURES

FIRST = CAPTURES / "01-java-produce-consume-group.pcap"
ADMIN = CAPTURES / "05-admin.pcap"
KRAFT = CAPTURES / "10-kraft-interbroker.pcap"
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))


class Kproxy:
    """Runs the command line in this process; gives exit code, output, what went to standard error."""

    def __init__(self, capture: pytest.CaptureFixture[bytes], folder: Path) -> None:
        self._capture = capture
        self._folder = folder

    def __call__(self, *words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main([str(word) for word in words])
        out, err = self._capture.readouterr()
        return int(exit_.value.code or 0), out.decode(), err.decode()

    def log(self, capture: Path, name: str = "kafka.jsonl") -> Path:
        """The decoded log of a capture."""
        path = self._folder / name
        assert self("decode", "-q", "--format", "jsonl", "-o", path, capture)[0] == 0
        return path


HERE = re.compile(r", [\d,]+ of [\d,]+ bytes are here")  # of a cut body, which a log does not have


@pytest.fixture
def kproxy(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Kproxy:
    return Kproxy(capsysbinary, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_shown_as_the_capture_it_was_made_of(kproxy: Kproxy, name: str) -> None:
    log = kproxy.log(CAPTURES / name)

    def shown(*words: str, path: Path) -> tuple[int, str, str]:
        answer = kproxy("decode", *words, path)
        return answer[0], HERE.sub("", answer[1]), answer[2]

    assert shown(path=log) == shown(path=CAPTURES / name)
    lines, expected = (shown("-q", "-v", path=path)[1].splitlines() for path in (log, CAPTURES / name))
    assert len(lines) == len(expected)
    odd = [line for line in zip(lines, expected, strict=True) if line[0] != line[1]]
    # topicNames has the ids of the bodies, not those of records of internal topics
    assert len(odd) == (1 if name == KRAFT.name else 0)
    assert all("topicId: " in line[0] for line in odd)


def test_jsonl_of_a_log_is_its_lines(kproxy: Kproxy) -> None:
    log = kproxy.log(ADMIN)
    assert kproxy("decode", "--format", "jsonl", log)[1] == log.read_text(encoding="utf-8")


def test_conditions_choose_lines(kproxy: Kproxy) -> None:
    log = kproxy.log(ADMIN)
    for condition in ("size(errors) > 0", "apiKey == 3 && latencyMs > 1.0", "has(request.groups)", "event == 'gap'"):
        for output_format in ("text", "jsonl"):
            words = ("decode", "--where", condition, "--format", output_format)
            assert kproxy(*words, log) == kproxy(*words, ADMIN)
    assert 0 < len(kproxy("decode", "-q", "--where", "size(errors) > 0", log)[1].splitlines()) < 150


def test_compressed_logs_parts_and_captures_go_in_one_command(kproxy: Kproxy, tmp_path: Path) -> None:
    lines = kproxy.log(FIRST).read_bytes().splitlines(keepends=True)
    parts = [tmp_path / name for name in ("kafka.000001.jsonl.gz", "kafka.000002.jsonl.zst", "kafka.000003.jsonl")]
    parts[0].write_bytes(gzip.compress(b"".join(lines[:9])))
    parts[1].write_bytes(zstandard.compress(b"".join(lines[9:17])))
    parts[2].write_bytes(b"".join(lines[17:]).rstrip(b"\n"))  # somebody's editor took the last newline
    expected, admin = (kproxy("decode", "-q", path)[1] for path in (FIRST, ADMIN))
    assert kproxy("decode", "-q", *parts) == (0, expected, "")
    assert kproxy("decode", "-q", parts[0], parts[1], parts[2], ADMIN)[1] == expected + admin
    _, again, _ = kproxy("decode", "-q", "--format", "jsonl", *parts)
    assert again.encode() == b"".join(lines)


def test_a_part_just_begun_is_an_empty_log(kproxy: Kproxy, tmp_path: Path) -> None:
    empty = tmp_path / "kafka.jsonl"
    empty.touch()
    code, out, err = kproxy("decode", empty)
    assert (code, out) == (0, "")
    assert "0 frames" in err


def test_standard_input_is_shown_as_it_comes(tmp_path: Path, kproxy: Kproxy) -> None:
    first, second = kproxy.log(FIRST).read_bytes().splitlines(keepends=True)[:2]
    reading, writing = os.pipe()
    os.write(writing, first)  # and no more: neither telling what it is nor giving the line may wait for the next
    with open_input(Path(f"/dev/fd/{reading}")) as log:
        assert isinstance(log, DecodedLog)
        lines = iter(log)
        assert next(lines) == first
        os.write(writing, second[:20])
        os.write(writing, second[20:])
        assert next(lines) == second
        os.close(writing)
        assert list(lines) == []
    os.close(reading)


def test_a_cut_line_at_the_end_is_told_and_the_rest_shown(kproxy: Kproxy) -> None:
    log = kproxy.log(FIRST)
    data = log.read_bytes()
    last = len(data.splitlines()[-1])
    log.write_bytes(data[: len(data) - last // 2])
    code, out, err = kproxy("decode", log)
    assert code == 3
    assert out.splitlines() == kproxy("decode", "-q", FIRST)[1].splitlines()[:-1]
    assert err.splitlines()[-1] == f"kproxy: {log}: line 23: the file ends within this line"


def test_a_log_cut_in_its_first_line_is_still_a_log(kproxy: Kproxy) -> None:
    log = kproxy.log(FIRST)
    log.write_bytes(log.read_bytes()[:40])
    code, out, err = kproxy("decode", "-q", log)
    assert (code, out, err) == (3, "", f"kproxy: {log}: line 1: the file ends within this line\n")


def test_a_line_of_garbage_is_named_and_passed_over(kproxy: Kproxy) -> None:
    log = kproxy.log(FIRST)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"\0" * 30 + b"\n", b"\n", *lines[4:]]))
    code, out, err = kproxy("decode", "-q", log)
    assert code == 3
    assert out == kproxy("decode", "-q", FIRST)[1]
    assert err.startswith(f"kproxy: {log}: line 5: no event of a decoded log (") and err.endswith("), passed over\n")
    assert err.count("\n") == 1


def test_a_line_that_cannot_be_shown_is_named(kproxy: Kproxy) -> None:
    log = kproxy.log(FIRST)
    lines = log.read_text(encoding="utf-8").splitlines()
    row = next(json.loads(line) for line in lines if '"Produce"' in line)
    row["embedded"] = [{"path": "x", "in": "request", "kind": "records", "json": 3}]
    log.write_text("\n".join([json.dumps(row), *lines]) + "\n", encoding="utf-8")
    code, out, err = kproxy("decode", "-q", log)
    assert (code, out) == (3, kproxy("decode", "-q", FIRST)[1])
    assert "line 1: cannot be shown (" in err


def test_many_bad_lines_are_counted(kproxy: Kproxy) -> None:
    log = kproxy.log(FIRST)
    log.write_bytes(log.read_bytes() + b"{}\n" * (MOST_NAMED + 7))
    _, _, err = kproxy("decode", "-q", log)
    assert len(err.splitlines()) == MOST_NAMED + 1
    assert err.endswith(f"{log}: and 7 more lines\n")


def test_damage_of_the_compression_is_told_after_the_lines_before_it(kproxy: Kproxy, tmp_path: Path) -> None:
    whole = gzip.compress(kproxy.log(ADMIN).read_bytes())
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    code, out, err = kproxy("decode", "-q", cut)
    assert code == 3
    assert out and kproxy("decode", "-q", ADMIN)[1].startswith(out)
    assert "the gzip data ends too early" in err
    assert err.count("\n") == 1


class Endless:
    """A log whose second line is as long as it is told, in pieces."""

    def __init__(self, first: bytes, size: int) -> None:
        self.pieces = [first, *([b"x" * READ] * (size // READ)), b"\n" + first]

    def readinto(self, buffer: memoryview) -> int:
        piece = self.pieces.pop(0) if self.pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        pass


def test_a_line_beyond_the_cap_is_not_held() -> None:
    first = b'{"event":"gap"}\n'
    log = DecodedLog(Endless(first, 3 * LONGEST_LINE), "x")
    tracemalloc.start()
    assert list(log) == [first, first]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * LONGEST_LINE
    assert log.damages == ["x: line 2: has 201.3 MB; lines longer than 67.1 MB are not read, passed over"]
    held = DecodedLog(Endless(first, LONGEST_LINE - READ), "x")
    assert [len(line) for line in held] == [len(first), LONGEST_LINE - READ + 1, len(first)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "pcapng"), "--format pcapng"),
        (("--format", "parquet", "--records"), "--records"),
        (("-v", "--records"), "--records"),
    ],
)
def test_what_needs_bytes_says_so_before_it_writes(
    kproxy: Kproxy, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    log, output = kproxy.log(FIRST), tmp_path / "output"
    code, out, err = kproxy("decode", *words, "-o", output, FIRST, log)
    assert (code, out) == (2, "")
    assert err == f"kproxy: {log} is a decoded log, which has no bytes of frames and records: {said} needs captures\n"
    assert not output.exists()


def test_other_json_is_neither(kproxy: Kproxy, tmp_path: Path) -> None:
    other = tmp_path / "package.json"
    other.write_text('{\n  "name": "kafka"\n}\n', encoding="utf-8")
    code, _, err = kproxy("decode", other)
    assert code == 2
    assert 'neither a capture nor a line of a decoded log, an object with "event"' in err
    with pytest.raises(CaptureError, match="neither"):
        open_input(other)


def test_what_a_file_is_is_told_by_its_content(tmp_path: Path) -> None:
    renamed = tmp_path / "capture.jsonl"
    renamed.write_bytes(FIRST.read_bytes())
    with open_input(renamed) as capture:
        assert isinstance(capture, Capture)
    ordered = tmp_path / "log.pcap"
    ordered.write_text('{"client": "a:1", "event": "gap"}\n', encoding="utf-8")
    with open_input(ordered) as log:
        assert isinstance(log, DecodedLog)


def test_stopped_it_ends_as_if_the_file_did() -> None:
    line = b'{"event":"gap"}\n'
    whole = line * (2 * READ // len(line))
    log = DecodedLog(BytesIO(whole), "x")
    lines = []
    for each in log:
        lines.append(each)
        log.stop()
    assert log.damages == []
    assert 0 < log.position < len(whole)
    assert b"".join(lines) == whole[: log.position]
