"""Places that processes share: each is taken once, whoever asks at the same time; a worker that died gives its own back."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.proxy.tap.counted import Total
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.sealed import create_sealed
from kproxy.proxy.tap.shared_limits import SharedLimits

ROOT = Path(__file__).parents[3]
TAKE = """
import sys
from kproxy.proxy.tap.shared_limits import SharedLimits
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
