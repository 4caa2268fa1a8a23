"""Who may come in: shares of workers, addresses over all of them, and so many a second."""

import socket

import pytest

from kproxy.config import Limits
from kproxy.proxy import admission
from kproxy.proxy.admission import Admission
from kproxy.proxy.network.socket_addresses import to_sockaddr
from kproxy.proxy.tap.counters import Counters

HERE, THERE = (to_sockaddr(socket.AF_INET, (host, 5_000)) for host in ("10.0.0.1", "10.0.0.2"))
SIX = to_sockaddr(socket.AF_INET6, ("2001:db8::1", 5_000, 0, 0))


def test_connections_are_shared_out_so_that_all_workers_together_take_the_limit_or_a_little_more() -> None:
    for limit, workers in ((10, 1), (10, 3), (1, 4), (10_000, 7)):
        most = Admission(Limits(connections=limit), workers, [Counters.create()], b"k").most_connections
        assert limit <= most * workers < limit + workers


def test_without_limits_by_address_or_second_nobody_need_be_asked() -> None:
    assert not Admission(Limits(), 1, [Counters.create()], b"k").checks_each_client
    assert Admission(Limits(connections_per_address=1), 1, [Counters.create()], b"k").checks_each_client
    assert Admission(Limits(connections_per_second=1), 1, [Counters.create()], b"k").checks_each_client


@pytest.mark.parametrize("peer", [HERE, SIX])
def test_an_address_is_counted_over_all_workers_whatever_its_port(peer: bytes) -> None:
    counters = [Counters.create(), Counters.create()]
    limits = Limits(connections_per_address=3)
    one = Admission(limits, 2, counters, b"key")
    other = Admission(limits, 2, counters[::-1], b"key")
    places = [one.count(peer), other.count(peer), other.count(peer[:2] + b"\x11\x22" + peer[4:])]
    assert one.refusal(peer) == other.refusal(peer) == "connections_per_address"
    assert one.refusal(THERE) is None
    other.uncount(places[2])
    assert one.refusal(peer) is None


def test_so_many_a_second_and_a_second_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    asked = Admission(Limits(connections_per_second=10), 2, [Counters.create()], b"k")  # five for each worker
    assert [asked.refusal(HERE) for _ in range(6)] == [None] * 5 + ["connections_per_second"]
    now += 0.4
    assert [asked.refusal(HERE) for _ in range(3)] == [None, None, "connections_per_second"]
    now += 3_600
    assert [asked.refusal(HERE) for _ in range(6)].count(None) == 5  # what was not used is not saved up


def test_less_than_one_a_second_lets_one_in_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    asked = Admission(Limits(connections_per_second=1), 4, [Counters.create()], b"k")
    came = 0
    for _ in range(400):
        now += 0.1
        came += asked.refusal(HERE) is None
    assert came == 10  # of forty seconds, a quarter each


def test_other_limits_hold_at_once() -> None:
    asked = Admission(Limits(connections=4), 1, [Counters.create()], b"k")
    asked.configure(Limits(connections=8, connections_per_address=1), 1)
    assert (asked.most_connections, asked.checks_each_client) == (8, True)
    asked.count(HERE)
    assert asked.refusal(HERE) == "connections_per_address"
    asked.configure(Limits(connections=8), 1)
    assert asked.refusal(HERE) is None
