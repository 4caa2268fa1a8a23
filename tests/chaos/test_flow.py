"""Promises 5 to 9 and 18, attacks 7 and 8: peers that do not read, do not write, half-close, come too often, never stop.

The long ones: `python -m pytest tests/chaos -m long`.
"""

import contextlib
import socket
import threading
from struct import unpack_from

import pytest

from kproxy.config.structs import Timeouts
from tests.chaos.conftest import Record, Scripted, Shared, Start
from tests.support.frames import heartbeat, produce
from tests.support.kafka.processes import eventually
from tests.support.peers import Peer, answer, answering, client, size_field, swallowing
from tests.support.ports import free_ports
from tests.support.sockets import address

MIB = 1 << 20
HALF_FRAME = size_field(1_000_000) + produce(1, 1)[4:]
CLOSED = "kproxy_connections_closed_total"


def test_promise_5_attack_8_a_client_that_does_not_read(shared: Shared, record_property: Record) -> None:
    """A broker has 256 MiB for it; then it reads after all, and all of it comes."""
    chunk = size_field(MIB - 4) + heartbeat(1)[8:12] + bytes(MIB - 8)
    taken = [0]

    def counted(peer: Peer) -> None:
        peer.frame()
        for _ in range(256):
            peer.send(chunk)
            taken[0] += 1

    proxy = shared(counted)
    before = proxy.resident_size()
    with client(proxy.bootstrap(), receive_buffer=65_536) as one:
        one.send(heartbeat(1))
        stood = [-1]

        def stands() -> bool:
            stood.append(taken[0])
            return stood[-1] == stood[-2] > 0

        eventually(stands, pause=0.5, what="the broker is made to wait")
        grown = proxy.resident_size() - before
        record_property("MiB the broker got rid of", taken[0])
        record_property("resident bytes grown", grown)
        assert taken[0] < 64  # what sockets take, no more
        assert grown < 2 * MIB
        assert sum(len(one.exactly(MIB)) for _ in range(256)) == 256 * MIB
    assert proxy.resident_size() - before < 2 * MIB


def test_promise_5_a_broker_that_does_not_read(scripted: Scripted, proxied: Start, record_property: Record) -> None:
    free = threading.Event()
    got: list[int] = []

    def later(peer: Peer) -> None:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        free.wait()
        got.append(peer.swallow())

    broker = scripted(later)
    proxy = proxied(broker.address)
    before = proxy.resident_size()
    frame = size_field(MIB - 4) + produce(1, 0)[4:] + bytes(MIB - len(produce(1, 0)))
    sent = [0]
    with client(proxy.bootstrap()) as one:

        def push() -> None:
            for _ in range(256):
                one.send(frame)
                sent[0] += 1
            one.end()

        pushing = threading.Thread(target=push, daemon=True)
        pushing.start()
        stood = [-1]

        def stands() -> bool:
            stood.append(sent[0])
            return stood[-1] == stood[-2] > 0

        eventually(stands, pause=0.5, what="the client is made to wait")
        grown = proxy.resident_size() - before
        record_property("MiB the client got rid of", sent[0])
        record_property("resident bytes grown", grown)
        assert sent[0] < 64
        assert grown < 2 * MIB
        free.set()
        pushing.join(60)
        eventually(lambda: got, what="the broker has read all")
    assert got == [256 * MIB]


@pytest.mark.slow
def test_promise_6_stalled_connections_stay_within_the_budget(
    scripted: Scripted, proxied: Start, record_property: Record
) -> None:
    """500 clients do not read what brokers flood them with; the budget is 32 MiB. Others are served when they are gone."""
    budget = 32 * MIB
    chunk = size_field(MIB - 4) + heartbeat(1)[8:12] + bytes(MIB - 8)

    def flood_or_answer(peer: Peer) -> None:
        request = peer.frame()
        if unpack_from(">i", request, 8)[0] == 1:
            for _ in range(4):
                peer.send(chunk)
            peer.swallow()
        else:
            peer.send(answer(request))

    proxy = proxied(scripted(flood_or_answer).address, limits={"memory": budget})
    before = proxy.resident_size()
    stalled: list[Peer] = []
    for _ in range(500):
        one = client(proxy.bootstrap(), receive_buffer=4_096)
        one.send(heartbeat(1))
        stalled.append(one)
    highest = 0
    samples = [0.0]

    def stands() -> bool:
        nonlocal highest
        highest = max(highest, proxy.resident_size() - before)
        samples.append(proxy.count("kproxy_bytes_total", "response"))
        return samples[-1] == samples[-2] > 0

    eventually(stands, pause=0.3, what="all stand still")
    record_property("resident bytes grown, of 500 stalled", highest)
    record_property("buffered bytes", proxy.count("kproxy_buffered_bytes"))
    print(highest, proxy.count("kproxy_buffered_bytes"), proxy.count("kproxy_connections_open"))
    assert highest < budget * 1.1
    for one in stalled:
        one.reset()

    def served() -> bool:
        with client(proxy.bootstrap()) as one:
            one.send(heartbeat(2))
            return one.frame() == answer(heartbeat(2))

    eventually(served, what="another client is served")


@pytest.mark.slow
def test_promise_7_attack_7_half_frames_are_gone_in_time(
    scripted: Scripted, proxied: Start, record_property: Record
) -> None:
    """A thousand clients send half a frame and then nothing; and one that is slow, but goes on, stays."""
    proxy = proxied(scripted(swallowing).address, timeouts={"frame": 2.0})
    before = proxy.resident_size()
    halves = [client(proxy.bootstrap()) for _ in range(1_000)]
    for one in halves:
        one.send(HALF_FRAME)
    for one in halves:
        assert one.closed()
        one.close()
    record_property("resident bytes after a thousand", proxy.resident_size() - before)
    assert proxy.count(CLOSED, "frame_timeout") == 1_000
    assert proxy.count("kproxy_connections_open") == 0


def test_attack_7_all_but_one_byte_costs_what_was_received(
    scripted: Scripted, proxied: Start, record_property: Record
) -> None:
    """99 MiB of a frame, and its last byte never: it has gone on to the broker already."""
    got: list[int] = []

    def count(peer: Peer) -> None:
        got.append(peer.swallow())

    proxy = proxied(scripted(count).address, timeouts={"frame": 2.0})
    before = proxy.resident_size()
    size = 99 * MIB
    start = size_field(size - 4) + produce(1, 0)[4:]
    with client(proxy.bootstrap()) as one:
        one.send(start)
        one.send(bytes(size - len(start) - 1))
        assert one.closed()
    eventually(lambda: got, what="the broker sees the end")
    grown = proxy.resident_size() - before
    record_property("resident bytes grown", grown)
    assert got == [size - 1]
    assert grown < 2 * MIB
    assert proxy.count(CLOSED, "frame_timeout") == 1


def test_promise_7_who_says_nothing_is_gone_and_the_idle_stay_longer_than_brokers_let_them(
    scripted: Scripted, proxied: Start
) -> None:
    proxy = proxied(scripted(answering).address, timeouts={"first_request": 1.0, "idle": 3.0})
    with client(proxy.bootstrap()) as silent, client(proxy.bootstrap()) as one:
        one.send(heartbeat(1))
        assert one.frame() == answer(heartbeat(1))
        assert silent.closed()
        one.send(heartbeat(2))
        assert one.frame() == answer(heartbeat(2))
        assert one.closed()
    assert proxy.count(CLOSED, "first_request_timeout") == 1
    assert proxy.count(CLOSED, '"idle"') == 1
    assert Timeouts().idle > 600  # connections.max.idle.ms of a broker


def test_promise_8_one_address_cannot_take_all(scripted: Scripted, proxied: Start) -> None:
    proxy = proxied(scripted(answering).address, limits={"connections_per_address": 3})
    served = [client(proxy.bootstrap()) for _ in range(3)]
    for one in served:
        one.send(heartbeat(1))
        one.frame()
    with client(proxy.bootstrap()) as refused:
        assert refused.closed()
    other = socket.create_connection(address(proxy.bootstrap()), 30, source_address=("127.0.0.9", 0))
    with Peer(other) as from_elsewhere:
        from_elsewhere.send(heartbeat(4))
        assert from_elsewhere.frame() == answer(heartbeat(4))
    for each in served:
        each.close()


def test_promise_9_every_answer_comes_after_a_half_close(shared: Shared) -> None:
    """The broker answers only when it has seen the client's end."""

    def answer_at_the_end(peer: Peer) -> None:
        requests = []
        try:
            while True:
                requests.append(peer.frame())
        except EOFError:
            for request in requests:
                peer.send(answer(request))

    proxy = shared(answer_at_the_end)
    for _ in range(20):
        with client(proxy.bootstrap()) as one:
            requests = [heartbeat(number) for number in range(100)]
            one.send(b"".join(requests))
            one.end()
            assert one.rest() == b"".join(map(answer, requests))
    assert proxy.count(CLOSED, "reset") == 0


def test_promise_18_no_more_connections_to_brokers_than_clients_make(
    proxied: Start, scripted: Scripted, record_property: Record
) -> None:
    """A broker that closes at once, and one that is not there: clients come back 200 times."""
    broker = scripted(lambda peer: None)
    proxy = proxied(broker.address)
    for _ in range(200):
        with client(proxy.bootstrap()) as one:
            one.swallow()
    opened, connects = proxy.count("kproxy_connections_opened_total"), proxy.count("kproxy_upstream_connects_total")
    record_property("clients, connects, accepted by the broker", (opened, connects, broker.accepted))
    assert broker.accepted <= 200
    assert connects <= opened == 200

    unreachable = proxied(f"127.0.0.1:{free_ports()}")
    with contextlib.ExitStack() as together:  # each is closed only after a second or so
        clients = [together.enter_context(client(unreachable.bootstrap())) for _ in range(20)]
        for one in clients:
            one.send(heartbeat(1))
        assert all(one.closed() for one in clients)
    assert unreachable.count(CLOSED, "upstream_unreachable") == 20
    assert unreachable.count("kproxy_upstream_connects_total") <= 20
