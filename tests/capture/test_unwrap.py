"""Which packets are looked into, and what becomes of the rest."""

from scapy.layers.inet import IP, TCP, fragment
from scapy.layers.l2 import Ether

from kproxy.capture import Flows
from kproxy.capture.fragments import INCOMPLETE
from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.unwrap import FRAGMENT, NOT_IP, OTHER_PROTOCOL, UDP, Unwrapper
from tests.support.built_captures import as_packet, kafka_like, streams


def test_the_names_are_those_of_the_outcomes() -> None:
    assert (NOT_IP, FRAGMENT, UDP, OTHER_PROTOCOL) == ("not IP", "IP fragment", "UDP", "neither TCP nor UDP")


def test_what_cannot_be_looked_into_keeps_its_name() -> None:
    packet = as_packet(Ether() / b"?")
    unwrapper = Unwrapper()
    assert [unwrapper(packet, what) for what in OUTCOME_NAMES if what != FRAGMENT] == [
        what for what in OUTCOME_NAMES if what != FRAGMENT
    ]


def test_fragments_become_the_stream_and_a_lost_one_costs_its_datagram() -> None:
    conversation = kafka_like(exchanges=4)
    packets, lost = [], 0
    for number, packet in enumerate(conversation.packets):
        whole = Ether(packet.data)
        whole[IP].id = number + 1
        parts = fragment(whole, 256)
        if not lost and len(parts) > 4:
            lost = len(parts.pop(2)[IP].payload)
            size = len(whole[TCP].payload)
        packets += [as_packet(part, packet.time_ns) for part in parts]
    flows = Flows(unwrap=Unwrapper())
    items = [item for packet in packets for item in flows.receive_packet(packet)] + flows.close()
    ((requests, responses),) = streams(items)
    assert lost
    assert requests.count(b"?" * size) + responses.count(b"?" * size) == 1
    assert [len(requests), len(responses)] == [len(sent) for sent in conversation.sent]
    assert list(flows.passed_over) == [INCOMPLETE]
    assert flows.packets == len(packets)
