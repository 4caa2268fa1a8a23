"""Counters in shared memory: what one process counts another reads, also after the first was killed."""

import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from kproxy.protocol.facts import facts
from kproxy.proxy.tap.counted import CloseCause, Phase, Total
from kproxy.proxy.tap.counters import (
    DURATION_BUCKETS,
    LOWEST_DURATION,
    SIZE_BUCKETS,
    Counters,
    SharedLimits,
    address_hash,
)
from kproxy.proxy.tap.sealed import create_sealed
from kproxy.proxy.tap.tapped import TapKind

METADATA, PRODUCE = 3, 0
WORKER = """
import os, signal, sys
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.counters import Counters
counters = Counters(int(sys.argv[1]))
counters.count_request(0, 9, 100)
counters.count_response(0, 9, 50, 20_000)
counters.add(Total.CONNECTIONS_OPENED, 5)
counters.add(Total.CONNECTIONS_OPEN, 5)
counters.add(Total.CONNECTIONS_OPEN, -2)
counters.add(Total.IN_FLIGHT, 7)
counters.count_close(CloseCause.CLIENT_CLOSED)
counters.add_address(1234, 3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def counters() -> Iterator[Counters]:
    made = Counters.create()
    yield made
    os.close(made.fd)


def test_what_a_killed_worker_counted_is_read_and_settled(counters: Counters) -> None:
    worker = subprocess.run([sys.executable, "-c", WORKER, str(counters.fd)], pass_fds=[counters.fd], check=False)
    assert worker.returncode == -9
    produce = counters.apis()[0]
    assert produce[:7] == (PRODUCE, 9, 1, 100, 1, 50, 20_000)
    assert counters.totals()[Total.CONNECTIONS_OPEN] == 3
    assert counters.closes()[CloseCause.CLIENT_CLOSED] == 1
    assert counters.address_count(1234) == 3

    counters.close_open_gauges()
    assert counters.closes()[CloseCause.WORKER_DIED] == 3
    assert counters.address_count(1234) == 0
    totals = counters.totals()
    assert (totals[Total.CONNECTIONS_OPEN], totals[Total.IN_FLIGHT], totals[Total.CONNECTIONS_OPENED]) == (0, 0, 5)

    again = Counters(counters.fd)  # the worker that comes after counts on
    again.count_request(PRODUCE, 9, 1)
    assert [one.requests for one in counters.apis()] == [2]


def test_what_is_not_known_is_other(counters: Counters) -> None:
    counters.count_request(METADATA, 12, 10)
    for version in (30, -1, 32_767):
        counters.count_request(METADATA, version, 10)
    for key, version in ((-1, 0), (127, 0), (128, 0), (32_767, 3), (-32_768, -32_768)):
        counters.count_request(key, version, 10)
    expected = {(METADATA, 12, 1, 10), (METADATA, None, 3, 30), (None, None, 5, 50)}
    assert {one[:4] for one in counters.apis()} == expected


def test_every_known_version_has_its_own_place_and_nothing_else_has_one(counters: Counters) -> None:
    for key in range(-3, 140):
        for version in range(-2, 40):
            counters.count_request(key, version, 1)
    known = {(api.key, version) for api in facts().apis.values() for version in api.versions}
    found = {one[:2]: one.requests for one in counters.apis()}
    assert {place for place, requests in found.items() if None not in place} == known
    assert all(requests == 1 for place, requests in found.items() if None not in place)
    assert sum(found.values()) == 143 * 42


def bucket_of(duration_ns: int) -> int:
    """By logarithm, which the code does without."""
    if duration_ns <= 0:
        return 0
    place = math.ceil(4 * (math.log2(duration_ns * 1e-9) - LOWEST_DURATION))
    return min(max(place, 0), DURATION_BUCKETS - 1)


@pytest.mark.parametrize(
    "duration_ns", [0, 1, 953, 954, 1_134, 1_135, 10**6, 10**9, 10**9 + 1, 2**37, 10**12, 2**64 - 1]
)
def test_a_duration_is_in_the_bucket_of_its_logarithm(counters: Counters, duration_ns: int) -> None:
    counters.count_response(PRODUCE, 9, 1, duration_ns)
    counters.count_phase(PRODUCE, Phase.BROKER, duration_ns)
    expected = tuple(int(place == bucket_of(duration_ns)) for place in range(DURATION_BUCKETS))
    assert counters.apis()[0].histogram == expected
    produce = counters.histograms()[0]
    assert produce.phases[Phase.BROKER] == expected
    assert produce.phase_ns == (0, duration_ns, 0)
    assert not any(produce.phases[Phase.REQUEST_IN_PROXY]) and not any(produce.phases[Phase.RESPONSE_IN_PROXY])


def test_durations_of_all_lengths_are_in_the_buckets_of_their_logarithms(counters: Counters) -> None:
    rng = random.Random(5)
    durations = [int(2 ** rng.uniform(0, 45)) for _ in range(20_000)]
    for duration in durations:
        counters.count_phase(PRODUCE, Phase.REQUEST_IN_PROXY, duration)
    counters.count_request(PRODUCE, 9, 1)
    found = counters.histograms()[0].phases[Phase.REQUEST_IN_PROXY]
    assert found == tuple(map(Counter(map(bucket_of, durations)).__getitem__, range(DURATION_BUCKETS)))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1_023, 1_024, 1_025, 2**30, 2**30 + 1, 2**40])
def test_a_size_is_in_the_bucket_up_to_the_next_power_of_two(counters: Counters, size: int) -> None:
    counters.count_request(METADATA, 12, size)
    counters.count_response(METADATA, 12, size, 0)
    bucket = min(max(size - 1, 0).bit_length(), SIZE_BUCKETS - 1)
    expected = tuple(int(place == bucket) for place in range(SIZE_BUCKETS))
    assert counters.histograms()[0].sizes == (expected, expected)


def test_histograms_are_of_apis_at_all_versions(counters: Counters) -> None:
    for key, version in ((METADATA, 12), (METADATA, 1), (30_000, 0), (PRODUCE, 3)):
        counters.count_request(key, version, 100)
    found = counters.histograms()
    assert [(one.api_key, sum(one.sizes[0])) for one in found] == [(PRODUCE, 1), (METADATA, 2), (None, 1)]


def test_idle_counters_cost_pages_not_megabytes(counters: Counters) -> None:
    for key in (0, 1, 3, 18):
        counters.count_request(key, 3, 10)
    for number in range(8):
        counters.add_address(address_hash(f"10.0.0.{number}", b"key"), 1)
    counters.apis(), counters.totals(), counters.closes()
    assert os.fstat(counters.fd).st_blocks * 512 <= 64 * 1024
    counters.close_open_gauges()
    assert os.fstat(counters.fd).st_blocks * 512 <= 32 * 1024


def test_connections_of_an_address_over_all_workers(counters: Counters) -> None:
    other = Counters.create()
    place = address_hash("10.1.2.3", b"one key for all")
    assert counters.add_address(place, 1) == 1
    assert other.add_address(place, 1) == 1
    assert other.add_address(place, 1) == 2
    assert other.add_address(place, -1) == 1
    assert other.add_address(place, -1) == 0
    assert other.add_address(place, -1) == 0  # and not 4,294,967,295, which would shut the address out
    os.close(other.fd)


def test_places_of_addresses_depend_on_the_key() -> None:
    assert address_hash("10.1.2.3", b"a") != address_hash("10.1.2.3", b"b")
    assert len({address_hash(f"10.0.0.{number}", b"a") % 65_536 for number in range(256)}) > 250


def test_other_files_are_refused() -> None:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    with pytest.raises(ValueError, match="not sealed"):
        Counters(fd)
    os.close(fd)


def test_hostile_numbers_in_the_memory_do_not_crash_the_reader(counters: Counters) -> None:
    counters.count_request(PRODUCE, 9, 1)
    os.pwrite(counters.fd, b"\xff" * 8, 8)  # how many slots are used
    os.pwrite(counters.fd, b"\xff" * 4096, 4096 + 8192)  # the slots themselves
    assert len(counters.apis()) == 4096


ROOT = Path(__file__).parents[3]
TAKE = """
import sys
from kproxy.proxy.tap.counters import SharedLimits
shared = SharedLimits(int(sys.argv[1]))
sys.stdin.read()  # all begin together
print(sum(shared.take_address(77, 1000) for _ in range(20000)), sum(shared.take_turn(0, 300) for _ in range(20000)))
"""


def test_no_place_is_taken_twice_and_none_stays_free() -> None:
    shared = SharedLimits.create()
    words = [sys.executable, "-c", TAKE, str(shared.fd)]
    pipe = subprocess.PIPE
    takers = [
        subprocess.Popen(words, stdin=pipe, stdout=pipe, pass_fds=[shared.fd], cwd=ROOT, text=True) for _ in range(4)
    ]
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.close()
        taker.stdin = None
    taken = [tuple(map(int, taker.communicate(timeout=60)[0].split())) for taker in takers]
    assert sum(places for places, _ in taken) == shared.address_count(77) == 1_000
    assert sum(turns for _, turns in taken) == 300
    shared.release_address(77)
    assert shared.take_address(77, 1_000)
    assert not shared.take_address(77, 1_000)


def test_a_place_that_nobody_has_cannot_be_released() -> None:
    shared = SharedLimits.create()
    shared.release_address(5)
    assert shared.address_count(5) == 0  # and not 4,294,967,295, which would shut the address out


def test_a_worker_that_died_gives_back_what_it_had() -> None:
    shared, dead = SharedLimits.create(), Counters.create()
    for address, count in ((1, 3), (2, 1)):
        for _ in range(count):
            assert shared.take_address(address, 100)
    for _ in range(2):
        dead.add_address(1, 1)
    dead.put(Total.CONNECTIONS_OPEN, 2)
    shared.release_all_of(dead)
    assert [shared.address_count(address) for address in (1, 2)] == [1, 1]
    assert shared.connections == 0


def test_a_file_that_holds_no_limits() -> None:
    with Path(os.devnull).open("rb") as file, pytest.raises(ValueError, match="no memfd"):
        SharedLimits(file.fileno())
    fd = create_sealed("x", 4_096)
    try:
        with pytest.raises(ValueError, match="holds no limits"):
            SharedLimits(fd)
    finally:
        os.close(fd)


PACKAGE = Path(str(files("kproxy.proxy")))
SOURCES = [path for pattern in ("*.pyx", "*.pxd") for path in PACKAGE.rglob(pattern)]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_extension_modules_take_the_numbers_from_the_python_enums(source: Path) -> None:
    text = source.read_text("utf-8")
    for enum, prefix in ((Total, ""), (CloseCause, ""), (TapKind, "TAP_")):
        for name in enum:
            defined = re.findall(rf"^(?:cdef int +| +){prefix}{name.name} = (.+)$", text, re.M)
            assert [value for value in defined if value != f"{enum.__name__}.{name.name}"] == []


def test_every_total_and_every_cause_has_a_place_of_its_own() -> None:
    counters = Counters.create()
    for total in Total:
        counters.add(total, 1 + total)
    for cause in CloseCause:
        counters.count_close(cause)
    assert counters.totals() == {total: 1 + total for total in Total}
    assert counters.closes() == dict.fromkeys(CloseCause, 1)
