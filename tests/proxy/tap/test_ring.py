"""The tap ring: every byte in order or counted as dropped, between real processes, and a reader that believes nothing."""

import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import pairwise

import pytest

from kproxy.proxy.tap.ring import (
    SMALLEST_RING,
    TapReader,
    TapWriter,
    await_reader,
    create_ring,
    detach_reader,
    reader_position,
)
from kproxy.proxy.tap.sealed import create_sealed, sealed_size
from kproxy.proxy.tap.tapped import TapKind

HEAD, TAIL, DATA = 0, 64, 4096
HEADER = 32

# Writes random chunks, each with its number; where there is no room it says so on standard output when it is done.
WRITER = """
import random, sys
from kproxy.proxy.tap.ring import TapWriter
writer, seed, count = TapWriter(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
rng, dropped = random.Random(seed), []
for number in range(count):
    chunk = rng.randbytes(rng.choice((0, 1, 7, 8, 100, 3000, rng.randrange(20_000))))
    while not writer.put(2, number, number & 1, number * 10**9, chunk, number * 1_000 - 1):
        if "--drop" in sys.argv:
            dropped.append(number)
            break
print(*dropped)
"""
READER = """
import os, signal, sys
from kproxy.proxy.tap.ring import TapReader
reader = TapReader(int(sys.argv[1]))
reader.attach()
print("attached", flush=True)
while not reader.read(4):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def ring() -> Iterator[int]:
    fd = create_ring(SMALLEST_RING)
    yield fd
    os.close(fd)


def start(script: str, fd: int, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", script, str(fd), *map(str, arguments)]
    return subprocess.Popen(command, pass_fds=[fd], stdout=subprocess.PIPE, text=True)


def chunks(seed: int, count: int) -> list[bytes]:
    rng = random.Random(seed)
    return [rng.randbytes(rng.choice((0, 1, 7, 8, 100, 3000, rng.randrange(20_000)))) for _ in range(count)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_byte_comes_in_order_from_another_process(ring: int, seed: int) -> None:
    reader = TapReader(ring)
    reader.attach()
    rng = random.Random(-seed)
    with start(WRITER, ring, seed, 1000) as writer:
        items = []
        while writer.poll() is None or reader.waiting:
            items += reader.read(rng.randrange(1, 20))
    assert items == [(2, n, n & 1, n * 10**9, chunk, n * 1_000 - 1) for n, chunk in enumerate(chunks(seed, 1000))]
    assert reader.faults == 0


def test_what_does_not_fit_is_dropped_whole_and_nothing_else(ring: int) -> None:
    reader = TapReader(ring)
    reader.attach()
    with start(WRITER, ring, 4, 5000, "--drop") as writer:
        assert writer.stdout is not None
        items = []
        while writer.poll() is None or reader.waiting:
            items += reader.read(3)
        dropped = {int(number) for number in writer.stdout.read().split()}
    sent = chunks(4, 5000)
    assert {item[1] for item in items} == set(range(5000)) - dropped
    assert all(sha256(item[4]).digest() == sha256(sent[item[1]]).digest() for item in items)
    assert all(before[1] < after[1] for before, after in pairwise(items))


def test_a_full_ring_refuses_until_it_is_read(ring: int) -> None:
    writer, reader = TapWriter(ring), TapReader(ring)
    reader.attach()
    written = 0
    while writer.put(TapKind.DATA, 1, 0, written, bytes(1000)):
        written += 1
    assert written == SMALLEST_RING // (HEADER + 1000)
    assert not writer.put(TapKind.DATA, 1, 0, 0, bytes(1000))
    assert [item[3] for item in reader.read(written * 2)] == list(range(written))
    assert writer.put(TapKind.DATA, 1, 0, 0, bytes(1000))


@pytest.mark.parametrize("size", [SMALLEST_RING // 2 - HEADER, 0])
def test_the_largest_chunk_is_half_the_ring(ring: int, size: int) -> None:
    writer, reader = TapWriter(ring), TapReader(ring)
    reader.attach()
    for _ in range(5):
        assert writer.put(TapKind.DATA, 1, 0, 0, bytes(size))
        assert [len(item[4]) for item in reader.read(9)] == [size]
    assert not writer.put(TapKind.DATA, 1, 0, 0, bytes(SMALLEST_RING // 2 - HEADER + 1))
    assert reader.read(9) == []


def test_nothing_is_written_while_nobody_reads(ring: int) -> None:
    writer = TapWriter(ring)
    assert writer.epoch == 0
    assert not writer.put(TapKind.DATA, 1, 0, 0, b"x")
    reader = TapReader(ring)
    reader.attach()
    assert writer.epoch == 1
    assert writer.put(TapKind.DATA, 1, 0, 0, b"x")
    detach_reader(ring)
    assert writer.epoch == 0
    assert not writer.put(TapKind.DATA, 1, 0, 0, b"x")


def test_after_a_killed_reader_the_next_one_begins_with_what_is_new(ring: int) -> None:
    writer = TapWriter(ring)
    with start(READER, ring) as killed:
        assert killed.stdout is not None and killed.stdout.readline() == "attached\n"
        assert writer.put(TapKind.DATA, 1, 0, 0, b"read by the first")
        assert killed.wait() == -9
    while writer.put(TapKind.DATA, 1, 0, 0, bytes(1000)):
        pass  # nobody reads: full, and the writer goes on without waiting
    reader = TapReader(ring)
    assert reader.attach() == 2
    assert writer.epoch == 2
    assert writer.put(TapKind.OPEN, 2, 0, 0, b"{}")
    assert reader.read(9) == [(TapKind.OPEN, 2, 0, 0, b"{}", 0)]


def test_a_new_writer_goes_on_where_the_one_before_ended(ring: int) -> None:
    reader = TapReader(ring)
    reader.attach()
    assert TapWriter(ring).put(TapKind.DATA, 1, 0, 0, b"first")
    assert TapWriter(ring).put(TapKind.DATA, 1, 0, 0, b"second")
    assert [item[4] for item in reader.read(9)] == [b"first", b"second"]


def test_the_position_says_how_much_was_read(ring: int) -> None:
    writer, reader = TapWriter(ring), TapReader(ring)
    reader.attach()
    for number in range(1, 200):
        assert writer.put(TapKind.DATA, 1, 0, 0, bytes(1000))
        assert reader.waiting >= HEADER + 1000
        before = reader.position + reader.waiting
        assert len(reader.read(1)) == 1
        assert (reader.position, reader.waiting) == (before, 0), number
        assert reader_position(ring) == before


def word(size: int, kind: int = TapKind.DATA) -> bytes:
    return struct.pack("<Q", size << 16 | kind)


@pytest.mark.parametrize(
    ("head", "record"),
    [
        pytest.param(4096, word(2**48 - 1), id="a size beyond everything"),
        pytest.param(4096, word(4096), id="a size beyond what was written"),
        pytest.param(HEADER, word(1), id="a size beyond what was written, by a little"),
        pytest.param(8, word(0), id="half a header"),
        pytest.param(4096, word(0, len(TapKind) + 1), id="a kind that is none"),
        pytest.param(4096, word(0, 0), id="the end of the ring, beyond what was written"),
        pytest.param(SMALLEST_RING + 8, word(0), id="more than the ring holds"),
        pytest.param(2**64 - 8, word(0), id="less than nothing"),
        pytest.param(4097, word(0), id="a place between two words"),
        pytest.param(2**63, word(2**47), id="a number that is negative elsewhere"),
    ],
)
def test_what_cannot_be_is_a_fault_and_the_reader_begins_anew(ring: int, head: int, record: bytes) -> None:
    reader = TapReader(ring)
    epoch = reader.attach()
    os.pwrite(ring, record, DATA)
    os.pwrite(ring, struct.pack("<Q", head), HEAD)
    assert reader.read(1000) == []
    assert reader.faults == 1
    assert TapWriter(ring).epoch == epoch + 1  # so that the writer tells again what is open


def test_no_garbage_crashes_the_reader(ring: int) -> None:
    rng = random.Random(5)
    reader = TapReader(ring)
    reader.attach()
    for _ in range(3000):
        head = rng.choice((rng.randrange(2**64), rng.randrange(SMALLEST_RING // 8) * 8))
        os.pwrite(ring, rng.randbytes(64) + word(rng.randrange(200), rng.randrange(9)), DATA + rng.randrange(60_000))
        os.pwrite(ring, struct.pack("<Q", head), HEAD)
        for item in reader.read(100):
            assert len(item[4]) <= SMALLEST_RING
    assert reader.faults > 100


def test_a_ring_must_be_one() -> None:
    with pytest.raises(ValueError, match="too small"):
        create_ring(SMALLEST_RING - 1)
    with pytest.raises(ValueError, match=r"no memfd|not sealed"):
        TapReader(0)


def test_what_was_written_for_a_reader_that_died_before_it_attached_is_read_by_the_next(ring: int) -> None:
    writer = TapWriter(ring)
    await_reader(ring)
    epoch = writer.epoch
    assert writer.put(TapKind.OPEN, 7, 0, 1, b"a connection")
    await_reader(ring)  # the one that was awaited has died
    assert writer.epoch == epoch  # the writer goes on: it does not describe the connection again
    reader = TapReader(ring)
    assert reader.attach() == epoch
    assert reader.read(10) == [(TapKind.OPEN, 7, 0, 1, b"a connection", 0)]


@pytest.mark.parametrize("is_awaited", [False, True])
def test_the_writer_notices_that_what_it_wrote_for_an_awaited_reader_is_skipped(ring: int, is_awaited: bool) -> None:
    writer = TapWriter(ring)
    await_reader(ring)
    epoch = writer.epoch
    assert writer.put(TapKind.OPEN, 7, 0, 1, b"a connection")
    detach_reader(ring)
    if is_awaited:
        await_reader(ring)
    reader = TapReader(ring)
    assert reader.attach() == writer.epoch != epoch
    assert reader.read(10) == []


@pytest.mark.parametrize("size", [0, 4096, 16384])
def test_the_size_cannot_be_changed(size: int) -> None:
    fd = create_sealed("test", 8192)
    try:
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
        assert sealed_size(fd) == 8192
        assert os.pread(fd, 8192, 0) == bytes(8192)
    finally:
        os.close(fd)


def test_a_memfd_that_can_shrink_is_refused() -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    try:
        with pytest.raises(ValueError, match="not sealed"):
            sealed_size(fd)
    finally:
        os.close(fd)


def test_another_file_is_refused() -> None:
    with tempfile.TemporaryFile() as file, pytest.raises(ValueError, match=r"no memfd|not sealed"):
        sealed_size(file.fileno())


def test_untouched_pages_cost_nothing() -> None:
    fd = create_sealed("test", 64 << 20)
    try:
        assert os.fstat(fd).st_blocks == 0
    finally:
        os.close(fd)


def test_every_kind_passes_the_ring_and_the_next_number_is_a_fault() -> None:
    fd = create_ring(1 << 16)
    writer, reader = TapWriter(fd), TapReader(fd)
    reader.attach()
    for kind in TapKind:
        assert writer.put(kind, 1, 0, 5, b"x")
    assert [item[0] for item in reader.read(10)] == list(TapKind)
    assert writer.put(max(TapKind) + 1, 1, 0, 5, b"x")
    assert reader.read(10) == []
    assert reader.faults == 1


def test_no_kind_is_0_which_marks_the_end_of_the_ring() -> None:
    assert 0 not in list(TapKind)


def test_only_the_write_that_reaches_what_a_resting_reader_waits_for_rings(ring: int) -> None:
    doorbell = os.eventfd(0, os.EFD_NONBLOCK)
    writer, reader = TapWriter(ring, doorbell), TapReader(ring)
    reader.attach()

    def rings(puts: int) -> int:
        for _ in range(puts):
            assert writer.put(TapKind.DATA, 1, 0, 0, bytes(32))  # 64 bytes with its header
        try:
            return os.eventfd_read(doorbell)
        except BlockingIOError:
            return 0

    assert reader.rest(1)
    assert [rings(1), rings(5)] == [1, 0]
    assert not reader.rest(6 * 64), "they wait already"
    assert reader.rest(6 * 64 + 1)
    assert [rings(1), rings(SMALLEST_RING // 64 - 8)] == [1, 0]
    while reader.read(100):
        pass
    assert reader.rest(3 * 64)
    assert [rings(2), rings(3)] == [0, 1], "across the end of the ring"
    os.close(doorbell)
