"""Real captures, end to end, as captures really come: every event that can be known is the same."""

import random
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from kproxy.capture import Packet, open_capture, read_flows
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import BadFrame, Cut, Event, Exchange, Note, NotKafka
from tests.conftest import Require
from tests.support.built_captures import enhanced, interface, option, pcap, section
from tests.support.corpus import CAPTURES
from tests.support.sampled import sampled
from tests.support.variants import beginnings, decode, frames, ip_of, lines, load, relinked, resegmented, segment, times

NAMES = ["01", "03", "05", "08", "11"]
TWO_SIDED = ["01", "03", "05", "08", "10", "11"]
WITHOUT_TLS = ["01", "02", "03", "04", "05", "06", "08", "09", "10", "11", "12"]
MACS = bytes(12)


def names(events: list[Event]) -> set[str]:
    return {type(event).__name__ for event in events}


@pytest.mark.parametrize("seed", sampled(range(6), [0, 1]))
@pytest.mark.parametrize("name", NAMES)
def test_shuffled_duplicated_and_overlapped_at_random_gives_the_same_events(name: str, seed: int) -> None:
    packets, rng = load(name), random.Random(seed)
    size = rng.choice([200, 536, 1448, 9000])
    mixed = resegmented(packets, size, rng, overlap=rng.choice([0, 300])) + packets * rng.randrange(2)
    rng.shuffle(mixed)
    events = decode(mixed)
    times = name != "11"  # it has retransmissions: two packets, two times, the same bytes
    assert lines(events, times=times) == lines(decode(packets), times=times)
    assert names(events) == {"Exchange"}


@pytest.mark.parametrize("size", sampled([1448, 65_536], [1448]))
@pytest.mark.parametrize("name", sampled(NAMES, NAMES[:2]))
def test_a_lost_segment_costs_at_most_the_frames_it_touched(name: str, size: int) -> None:
    packets, rng = resegmented(load(name), size, random.Random(1)), random.Random(2)
    starts, places = frames(packets)
    expected = lines(decode(packets))
    for lost in rng.sample(range(len(packets)), 40):
        gone = segment(packets[lost])
        stream = gone.key, gone.side
        if stream not in starts and gone.payload:
            continue
        at = (gone.sequence - starts.get(stream, gone.sequence)) % 2**32
        touched = sum(place.start < at + len(gone.payload) and at < place.stop for place in places.get(stream, []))
        events = decode(packets[:lost] + packets[lost + 1 :])
        found = lines(events)
        assert (expected - found).total() <= (touched if gone.payload else 0)
        assert (found - expected).total() <= touched  # each can still be said in part
        assert names(events) <= {"Exchange", "Gap"}


@pytest.mark.parametrize("with_syn", [True, False])
@pytest.mark.parametrize("name", sampled(TWO_SIDED, ["03", "11"]))
def test_the_broker_alone(name: str, with_syn: bool) -> None:
    """Nothing says how to read responses without requests, but they are there, with the right side as the broker."""
    answered = [event for event in decode(load(name)) if isinstance(event, Exchange) and event.response]
    brokers = {event.connection.broker for event in answered}
    packets = [
        packet for packet in load(name) if source(packet) in brokers and (with_syn or not segment(packet).flags & 2)
    ]
    events = decode(packets)
    alone = [event for event in events if isinstance(event, Exchange)]
    assert all(event.request is None and event.connection.broker in brokers for event in alone)
    shown, there = Counter(map(response_of, alone)), Counter(map(response_of, answered))
    first = {event.connection.client: event.correlation_id or 0 for event in reversed(answered)}
    assert all(number is not None and number < first[client] for client, number, _ in shown - there)  # joined late
    counts = Counter(event.connection.client for event in answered)
    told = {event.connection.client for event in events if isinstance(event, NotKafka)}
    if name != "11":  # where packets are missing, nothing shows where the next response begins
        assert {key for key in there - shown if counts[key[0]] > 2 and key[0] not in told} == set()
    assert not {client for client in told if counts[client] > 2}
    said = [event for event in events if isinstance(event, Note)]
    assert all("only the broker's side is in the capture" in event.what for event in said)
    assert {event.connection.client for event in said} == {event.connection.client for event in alone}


def response_of(event: Exchange) -> tuple[str, int | None, int]:
    assert event.response is not None
    return event.connection.client, event.correlation_id, event.response.wire_size


def source(packet: Packet) -> str:
    ip = IP(ip_of(packet))
    return f"{ip.src}:{ip.sport}"


@pytest.mark.parametrize("name", ["01", "05", "11"])
def test_a_capture_that_ends_anywhere_has_all_that_was_complete(name: str) -> None:
    packets, rng = load(name), random.Random(4)
    whole = [event for event in decode(packets) if isinstance(event, Exchange)]
    for cut in rng.sample(range(1, len(packets)), 20):
        found = lines(decode(packets[:cut]))
        last = packets[cut].time_ns
        assert lines(event for event in whole if event.response and event.response.ended_at < last) <= found


@pytest.mark.parametrize("name", ["03", "11"])
def test_every_frame_has_the_times_of_its_own_packets(name: str) -> None:
    """In 11, packets were lost, sent again, and overtaken: what waited for others came when its packet came."""
    packets = load(name)
    sent = times(packets)
    waited = 0
    for event in decode(packets):
        assert isinstance(event, Exchange)
        ends = event.connection.client, event.connection.broker
        for frame, way in ((event.request, ends), (event.response, ends[::-1])):
            if frame is None or way not in sent:
                continue
            known = [(at, until) for data, at, until in sent[way] if data[4:] == frame.data]
            assert (frame.started_at, frame.ended_at) in known
            waited += frame.started_at != frame.ended_at
    assert waited or name != "11"


@pytest.mark.parametrize("snaplen", sampled([54, 64, 66, 72, 80, 96, 128, 200, 300, 1000], [66, 300]))
@pytest.mark.parametrize("name", sampled(WITHOUT_TLS, ["02", "05", "11"]))
def test_what_a_snaplen_left_is_shown_and_nothing_is_invented(name: str, snaplen: int) -> None:
    """Every exchange whose header is here is the same as without the snaplen, but for what its bodies say."""
    packets = load(name)
    whole = {(e.connection.client, e.correlation_id): e for e in decode(packets) if isinstance(e, Exchange)}
    requests, responses = heads(packets, snaplen)
    events = decode(replace(packet, data=packet.data[:snaplen]) for packet in packets)
    found = {(e.connection.client, e.correlation_id): e for e in events if isinstance(e, Exchange)}
    assert not [event for event in events if isinstance(event, BadFrame)]
    assert {key for key in found if key[1] is not None} <= whole.keys()
    for key, expected in whole.items():
        if key not in requests or expected.request is None:
            continue
        told = found[key]
        assert told.request is not None and told.undecoded is None
        assert (told.api_key, told.api_version, told.client_id) == (
            expected.api_key,
            expected.api_version,
            expected.client_id,
        )
        assert (told.request.wire_size, told.request.started_at) == (
            expected.request.wire_size,
            expected.request.started_at,
        )
        if expected.response is None or key in responses:
            assert answer_of(told) == answer_of(expected)


def answer_of(exchange: Exchange) -> tuple[object, ...]:
    response = exchange.response
    known = response is not None and (response.wire_size, response.cut is Cut.RESET)
    return known, exchange.latency_ms, exchange.unanswered, exchange.expects_response


def heads(packets: list[Packet], snaplen: int) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """Client and correlation id of requests of which the header is here, and of responses of which the correlation id is."""
    requests, responses = set(), set()
    for sender, receiver, frame, seen in beginnings(packets, snaplen):
        client_id = max(int.from_bytes(frame[12:14], "big", signed=True), 0)
        if seen >= 14 + client_id:
            requests.add((sender, int.from_bytes(frame[8:12], "big", signed=True)))
        if seen >= 8:
            responses.add((receiver, int.from_bytes(frame[4:8], "big", signed=True)))
    return requests, responses


LINKS: dict[str, Callable[[list[Packet]], list[Packet]]] = {
    "QinQ": lambda packets: relinked(packets, 1, MACS + bytes.fromhex("88a80064 8100000a 0800")),
    "cooked": lambda packets: relinked(packets, 113, bytes.fromhex("0000000100060000000000000000 0800")),
    "cooked v2": lambda packets: relinked(packets, 276, bytes.fromhex("0800 0000 00000003 0001 00 06 0000000000000000")),
    "raw": lambda packets: relinked(packets, 101, b""),
    "loopback": lambda packets: relinked(packets, 0, bytes.fromhex("02000000")),
    "cooked and VLAN, each packet": lambda packets: [
        packet
        for pair in zip(LINKS["cooked"](packets), LINKS["QinQ"](packets), strict=True)
        for packet in pair
    ],
    "VXLAN": lambda packets: [_in_vxlan(packet) for packet in packets],
    "fragments": lambda packets: [part for number, packet in enumerate(packets) for part in _fragments(packet, number)],
}  # fmt: skip


def _in_vxlan(packet: Packet) -> Packet:
    inner = Raw(MACS + b"\x08\x00" + ip_of(packet))
    data = bytes(IP(src="192.0.2.1", dst="192.0.2.2") / UDP(dport=4789) / VXLAN(vni=9, flags=8) / inner)
    return replace(packet, link_type=101, data=data, original_size=len(data))


def _fragments(packet: Packet, number: int) -> list[Packet]:
    whole = IP(ip_of(packet))
    whole.id, whole.flags = number, 0
    parts = [bytes(part) for part in fragment(whole, 536)]
    return [replace(packet, link_type=101, data=part, original_size=len(part)) for part in parts]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", sampled(["01", "05"], ["01"]))
def test_the_link_layer_makes_no_difference(name: str, link: str) -> None:
    packets = resegmented(load(name), 9000, random.Random(0))
    assert lines(decode(LINKS[link](packets))) == lines(decode(load(name)))


def test_over_ipv6() -> None:
    def as_ipv6(packet: Packet) -> Packet:
        ip = ip_of(packet)
        address = bytes(12)
        tcp = ip[20:]
        header = b"\x60\0\0\0" + struct.pack(">HBB", len(tcp), 6, 64) + address + ip[12:16] + address + ip[16:20]
        return replace(packet, link_type=101, data=header + tcp, original_size=len(header) + len(tcp))

    packets = resegmented(load("03"), 9000, random.Random(0))
    there = Counter((e.correlation_id, e.api_key) for e in decode(packets) if isinstance(e, Exchange))
    events = [event for event in decode(map(as_ipv6, packets)) if isinstance(event, Exchange)]
    assert Counter((event.correlation_id, event.api_key) for event in events) == there
    assert {event.connection.broker[0] for event in events} == {"["}


# Files


def of_file(path: Path) -> Counter[str]:
    with open_capture(path) as capture:
        found = lines(FlowEvents(read_flows(capture)))
        assert capture.damage is None
        return found


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_pcap_files_of_any_kind(tmp_path: Path, order: str, magic: int) -> None:
    packets = load("03")
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(packets, link_type=packets[0].link_type, magic=magic, order=order))
    assert of_file(path) == lines(decode(packets))


@pytest.mark.parametrize("order", ["<", ">"])
def test_interfaces_with_different_clocks_and_link_types(tmp_path: Path, order: str) -> None:
    packets = load("03")
    raw = relinked(packets, 101, b"")
    file = section(order) + interface(packets[0].link_type, options=option(9, b"\x06", order), order=order)
    file += interface(101, options=option(9, b"\x09", order), order=order)
    for number, packet in enumerate(packets):
        if number % 2:
            file += enhanced(packet.data, packet.time_ns // 1000, interface=0, order=order)
        else:
            file += enhanced(raw[number].data, packet.time_ns, interface=1, order=order)
    path = tmp_path / "a.pcapng"
    path.write_bytes(file)
    assert of_file(path) == lines(decode(packets))


@pytest.fixture
def editcap(require: Require) -> None:
    """Wireshark's tools are installed."""
    require("tshark", shutil.which("editcap") and shutil.which("mergecap"), "Wireshark's tools are not installed")


def tool(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


@pytest.mark.usefixtures("editcap")
@pytest.mark.parametrize("kind", ["pcap", "pcapng", "nsecpcap", "modpcap"])
def test_what_editcap_writes(tmp_path: Path, kind: str) -> None:
    (original,) = CAPTURES.glob("05*")
    tool("editcap", "-F", kind, original, tmp_path / "a")
    assert of_file(tmp_path / "a") == of_file(original)


@pytest.mark.usefixtures("editcap")
def test_what_editcap_cuts_is_what_the_snaplen_cuts(tmp_path: Path) -> None:
    (original,) = CAPTURES.glob("05*")
    tool("editcap", "-s", 96, original, tmp_path / "a")
    assert of_file(tmp_path / "a") == lines(decode(replace(packet, data=packet.data[:96]) for packet in load("05")))


@pytest.mark.usefixtures("editcap")
def test_captures_of_several_clusters_in_one_file(tmp_path: Path) -> None:
    """mergecap gives each its interface; what they share of addresses and ports are connections one after the other."""
    originals = [path for name in ("03", "08", "11") for path in CAPTURES.glob(f"{name}*")]
    tool("mergecap", "-w", tmp_path / "a", *originals)
    names_apart = [without_names(of_file(path)) for path in originals]
    assert without_names(of_file(tmp_path / "a")) == sum(names_apart, Counter())


def without_names(found: Counter[str]) -> Counter[str]:
    """Topic ids are named by what the whole file says."""
    kept: Counter[str] = Counter()
    for line, count in found.items():
        kept[line[: line.index('"topicNames"')]] += count
    return kept
