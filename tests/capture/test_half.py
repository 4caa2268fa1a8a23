"""What is held and remembered is accounted for, and given back; the counters of a half tell what happened to it."""

import random

from kproxy.capture import Flows, Gap, Limits
from kproxy.capture.half import Budget, Half
from tests.support.built_captures import Conversation, kafka_like, reassemble


def test_a_fresh_half_has_counted_nothing() -> None:
    half = Half(Budget())
    assert (half.size, half.missing, half.retransmitted, half.out_of_order, half.differing, half.keep_alives) == (
        0,
    ) * 6
    assert not half.from_start


def test_a_budget_without_limits_has_the_usual_ones() -> None:
    assert Budget().limits == Limits()


def test_held_bytes_are_accounted_for_and_given_back() -> None:
    packets = kafka_like(exchanges=10).packets
    rng = random.Random(5)
    rng.shuffle(packets)
    flows, most = Flows(), 0
    for packet in packets:
        flows.receive_packet(packet)
        most = max(most, flows.budget.held)
    payload = sum(len(packet.data) - 54 for packet in packets)
    assert payload / 2 < most < payload + 300 * len(packets)
    flows.close()
    assert (flows.budget.held, flows.budget.recent) == (0, 0)


def test_tiny_segments_count_for_more_than_their_bytes() -> None:
    made = Conversation().handshake()
    made.next[0] += 10  # something is lost
    made.send(0, b"x" * 100, size=1)
    flows, items = Flows(Limits(held_per_flow=5000)), []
    for packet in made.packets:
        items += flows.receive_packet(packet)
    assert [item.size for item in items if isinstance(item, Gap)] == [10]


def test_held_bytes_of_all_flows_are_bounded() -> None:
    flows = Flows(Limits(held_in_all=100_000))
    for i in range(300):
        made = Conversation(client=("10.0.0.5", 2000 + i)).handshake()
        made.next[0] += 10
        made.send(0, b"x" * 3000)
        for packet in made.packets:
            flows.receive_packet(packet)
            assert flows.budget.held < 102_000


def test_remembered_bytes_are_bounded_and_given_back() -> None:
    flows = Flows(Limits(recent_in_all=10_000, recent_per_chunk=1000))
    for i in range(20):
        for packet in Conversation(client=("10.0.0.5", 2000 + i)).handshake().send(0, b"x" * 5000, size=700).packets:
            flows.receive_packet(packet)
            assert flows.budget.recent <= 10_000
    assert flows.budget.recent > 5000
    flows.close()
    assert flows.budget.recent == 0


def test_what_is_not_remembered_cannot_differ() -> None:
    made = Conversation().handshake().send(0, b"abc")
    again = made.packet(0, made.isn[0] + 1, b"XYZ", "PA")
    half = reassemble([*made.packets, again], Limits(recent_per_chunk=0))[0].flow.half(0)
    assert (half.differing, half.retransmitted) == (0, 3)
    half = reassemble([*made.packets, again])[0].flow.half(0)
    assert (half.differing, half.retransmitted) == (3, 3)


def test_the_counters_of_a_half() -> None:
    made = Conversation().handshake().send(0, b"abcdefghi", size=3)
    one, two, three = made.packets[3:]
    flow = reassemble([*made.packets[:3], one, three, two, two])[0].flow
    half = flow.half(0)
    assert (half.size, half.retransmitted, half.out_of_order, half.missing) == (9, 3, 1, 0)
    assert half.from_start
    flow = reassemble([*made.packets[:3], one, three])[0].flow
    assert (flow.half(0).size, flow.half(0).missing) == (6, 3)
