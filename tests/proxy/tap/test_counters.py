"""Counters in shared memory: what one process counts another reads, also after the first was killed."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kproxy.protocol.facts import facts
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.counters import HISTOGRAM_BUCKETS, Counters, address_hash

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


@pytest.mark.parametrize(
    ("key", "version", "counted_as"),
    [
        (METADATA, 12, (METADATA, 12)),
        (METADATA, 30, (METADATA, None)),
        (METADATA, -1, (METADATA, None)),
        (METADATA, 32_767, (METADATA, None)),
        (-1, 0, (None, None)),
        (127, 0, (None, None)),
        (128, 0, (None, None)),
        (32_767, 3, (None, None)),
        (-32_768, -32_768, (None, None)),
    ],
)
def test_what_is_not_known_is_other(
    counters: Counters, key: int, version: int, counted_as: tuple[int | None, int | None]
) -> None:
    counters.count_request(key, version, 10)
    assert [one[:4] for one in counters.apis()] == [(*counted_as, 1, 10)]


def test_every_known_version_has_its_own_place_and_nothing_else_has_one(counters: Counters) -> None:
    for key in range(-3, 140):
        for version in range(-2, 40):
            counters.count_request(key, version, 1)
    known = {(api.key, version) for api in facts().apis.values() for version in api.versions}
    found = {one[:2]: one.requests for one in counters.apis()}
    assert {place for place, requests in found.items() if None not in place} == known
    assert all(requests == 1 for place, requests in found.items() if None not in place)
    assert sum(found.values()) == 143 * 42


@pytest.mark.parametrize(
    ("latency_ns", "bucket"),
    [(0, 0), (2**14 - 1, 0), (2**14, 1), (2**20 - 1, 6), (2**20, 7), (2**36 - 1, 22), (2**36, 23), (2**64 - 1, 23)],
)
def test_a_bucket_holds_latencies_below_its_bound(counters: Counters, latency_ns: int, bucket: int) -> None:
    counters.count_response(PRODUCE, 9, 1, latency_ns)
    histogram = counters.apis()[0].histogram
    assert histogram == tuple(int(place == bucket) for place in range(HISTOGRAM_BUCKETS))


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
