"""Which clients are accepted: by address and by second, over all workers."""

import socket

import pytest

from kproxy.config import Limits
from kproxy.proxy import admission
from kproxy.proxy.admission import Admission
from kproxy.proxy.network.socket_addresses import to_sockaddr
from kproxy.proxy.tap.counters import Counters, SharedLimits

HERE, THERE = (to_sockaddr(socket.AF_INET, (host, 5_000)) for host in ("10.0.0.1", "10.0.0.2"))
SIX = to_sockaddr(socket.AF_INET6, ("2001:db8::1", 5_000, 0, 0))
MAPPED = to_sockaddr(socket.AF_INET6, ("::ffff:10.0.0.1", 6_000, 0, 0))


def made(shared: SharedLimits | None = None, **limits: int) -> Admission:
    return Admission(Limits(**limits), Counters.create(), shared or SharedLimits.create(), b"key")


def test_without_limits_by_address_or_second_nobody_need_be_asked() -> None:
    assert not made().checks_each_client
    assert made(connections_per_address=1).checks_each_client
    assert made(connections_per_second=1).checks_each_client


@pytest.mark.parametrize("peer", [HERE, SIX])
def test_an_address_is_counted_over_all_workers_whatever_its_port(peer: bytes) -> None:
    shared = SharedLimits.create()
    one, other = (made(shared, connections_per_address=3) for _ in range(2))
    slots = [one.admit(peer), other.admit(peer), other.admit(peer[:2] + b"\x11\x22" + peer[4:])]
    assert len(set(slots)) == 1
    assert one.admit(peer) is other.admit(peer) is None
    assert one.admit(THERE) is not None
    assert slots[2] is not None
    other.uncount(slots[2])
    assert one.admit(peer) is not None


def test_an_ipv4_client_is_the_same_at_a_socket_of_both_families() -> None:
    asked = made(connections_per_address=1)
    assert asked.admit(HERE) is not None
    assert asked.admit(MAPPED) is None


def test_who_came_before_the_limit_counts() -> None:
    asked = made()
    asked.count(HERE)
    asked.count(HERE)
    asked.configure(Limits(connections_per_address=2))
    assert asked.admit(HERE) is None
    assert asked.admit(THERE) is not None


def test_so_many_a_second_of_all_workers_and_a_second_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000_000_000
    monkeypatch.setattr(admission.time, "monotonic_ns", lambda: now)
    shared = SharedLimits.create()
    one, other = (made(shared, connections_per_second=10) for _ in range(2))

    def came(count: int) -> int:
        return sum(asked.admit(HERE) is not None for _ in range(count) for asked in (one, other))

    assert came(6) == 10
    now += 400_000_000
    assert came(3) == 4
    now += 3_600_000_000_000
    assert came(6) == 10  # what was not used is not saved up


def test_a_client_that_a_second_refuses_takes_no_place_of_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000_000_000
    monkeypatch.setattr(admission.time, "monotonic_ns", lambda: now)
    asked = made(connections_per_second=1, connections_per_address=2)
    assert [asked.admit(HERE) is not None for _ in range(5)] == [True, False, False, False, False]
    now += 1_000_000_000
    assert asked.admit(HERE) is not None


def test_one_a_second_lets_one_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100_000_000_000
    monkeypatch.setattr(admission.time, "monotonic_ns", lambda: now)
    asked = made(connections_per_second=1)
    came = 0
    for _ in range(400):
        now += 100_000_000
        came += asked.admit(HERE) is not None
    assert came == 40
