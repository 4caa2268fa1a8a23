"""Compression told by content, decompressed as it is asked for; damage said with its place."""

import gzip
import io
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from kproxy.capture.files import ByteSource, PlainSource, end_waiting_read, open_source, see_through
from kproxy.errors import CaptureError
from tests.support.built_captures import CAPTURES

CONTENT = random.Random(1).randbytes(300_000) + bytes(300_000)
PLAIN = CAPTURES / "01-java-produce-consume-group.pcap"


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self.file, self.step = io.BytesIO(data), step

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self.file.readinto(memoryview(buffer)[: self.step])


def read_all(source: ByteSource, size: int = 50_000) -> bytes:
    buffer, parts = bytearray(size), []
    while count := source.readinto(memoryview(buffer)):
        parts.append(bytes(buffer[:count]))
    return b"".join(parts)


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


FORMS = [
    CONTENT,
    gzip.compress(CONTENT),
    gzip.compress(CONTENT[:5]) + gzip.compress(CONTENT[5:]) + bytes(1000),
    zstd(CONTENT),
    zstd(CONTENT[:5]) + zstd(CONTENT[5:]),
    bytes.fromhex("502a4d1803000000") + b"abc" + zstd(CONTENT),
]


@pytest.mark.parametrize("step", [7919, 1 << 20])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_content(form: bytes, step: int) -> None:
    assert read_all(see_through(Trickle(form, step), "x")) == CONTENT


def test_one_byte_at_a_time() -> None:
    for form in (CONTENT[:999], gzip.compress(CONTENT[:999]), zstd(CONTENT[:999])):
        assert read_all(see_through(Trickle(form, 1), "x"), size=1) == CONTENT[:999]


def test_nothing_is_nothing() -> None:
    assert read_all(see_through(io.BytesIO(b""), "x")) == b""


@pytest.mark.parametrize("keep", [11, 1000, 200_000])
def test_gzip_that_ends_too_early_gives_what_is_there_and_says_so(keep: int) -> None:
    source, found, buffer = see_through(io.BytesIO(FORMS[1][:keep]), "x.gz"), b"", bytearray(1000)
    with pytest.raises(CaptureError, match=rf"x\.gz: the gzip data ends too early, at byte {keep} of the file"):
        while count := source.readinto(memoryview(buffer)):
            found += buffer[:count]
    assert CONTENT.startswith(found)
    assert len(found) > keep - 1000


@pytest.mark.parametrize("form", [FORMS[1], FORMS[3]])
def test_damage_in_the_compressed_data_is_told(form: bytes) -> None:
    damaged = bytearray(form)
    damaged[4:40] = b"\xff" * 36
    with pytest.raises(CaptureError, match="data is damaged"):
        read_all(see_through(io.BytesIO(bytes(damaged)), "x"))


def test_a_checksum_that_does_not_hold_is_told() -> None:
    damaged = bytearray(FORMS[1])
    damaged[-6] ^= 1
    with pytest.raises(CaptureError, match="incorrect data check"):
        read_all(see_through(io.BytesIO(bytes(damaged)), "x"))


@pytest.mark.parametrize("bomb", [gzip.compress(bytes(64 << 20)), zstd(bytes(64 << 20))])
def test_a_bomb_gives_no_more_than_was_asked_for(bomb: bytes) -> None:
    source, buffer = see_through(io.BytesIO(bomb), "x"), bytearray(4096)
    assert [source.readinto(memoryview(buffer)) for _ in range(3)] == [4096] * 3


def test_a_huge_zstd_window_is_refused() -> None:
    header = (
        bytes.fromhex("28b52ffd") + b"\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00"
    )  # 2 GiB, one empty raw block
    with pytest.raises(CaptureError, match="zstd data is damaged"):
        read_all(see_through(io.BytesIO(header), "x"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"none\.pcap: cannot be opened: No such file"):
        open_source(tmp_path / "none.pcap")
    with pytest.raises(CaptureError, match="cannot be opened"):
        open_source("a\0b")
    with pytest.raises(CaptureError, match="Is a directory"):
        open_source(tmp_path)


def test_standard_input_is_a_stream() -> None:
    program = "from kproxy.capture import open_capture\nprint(len(list(open_capture('-'))))"
    read_end, write_end = os.pipe()
    with (
        subprocess.Popen([sys.executable, "-c", program], stdin=read_end, stdout=subprocess.PIPE) as process,
        os.fdopen(write_end, "wb") as pipe,
    ):
        os.close(read_end)
        pipe.write(gzip.compress(PLAIN.read_bytes()))
        pipe.close()
        assert process.communicate()[0] == b"115\n"  # MANIFEST.jsonl


def test_a_signal_handler_can_end_a_read_that_waits() -> None:
    """The system call is repeated after any other signal handler (PEP 475)."""
    reading, writing = os.pipe()
    before = signal.signal(signal.SIGALRM, lambda number, frame: end_waiting_read(frame))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)  # again and again: the first may come too early
    try:
        with open(reading, "rb", buffering=0) as pipe:  # noqa: PTH123 - a descriptor
            assert PlainSource(pipe, "pipe").readinto(memoryview(bytearray(8))) == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(writing)
