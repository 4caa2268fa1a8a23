"""First bytes: Kafka or not, and in whose words."""

import gzip
import json
import random
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kproxy
from kproxy.protocol import known_message, read_request_header
from kproxy.session import KAFKA, Direction, Exchange, Foreign, looks_like_request, looks_like_responses, recognise
from kproxy.session.recognise import (
    BROKEN,
    PENDING,
    client_software,
    have_layouts,
    is_known,
    is_request,
    leftover,
    may_be_a_newer_version,
    sane_client_id,
)
from tests.support.foreign import rpc, zookeeper
from tests.support.frames import (
    FRANZ_GO_API_VERSIONS,
    api_versions,
    frame,
    heartbeat,
    heartbeat_answer,
    request,
)

GOLDEN_FRAMES = Path(__file__).parents[1] / "golden" / "frames.jsonl.gz"


def kind(data: bytes, direction: Direction = Direction.REQUEST) -> str:
    found = recognise(data, direction)
    assert isinstance(found, Foreign)
    assert found.direction is direction
    return found.kind


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes.fromhex("16030100c8010000c40303"), "tls"),  # ClientHello, RFC 8446 section 5.1
        (bytes.fromhex("1703030045"), "tls"),  # application data: joined in mid-stream
        (b"GET / HTTP/1.1\r\n", "http"),
        (b"POST /topics HTTP/1.1\r\n", "http"),
        (b"PRI * HTTP/2.0\r\n", "http"),
        (b"SSH-2.0-x", "ssh"),
        (b"PROXY TCP6 ::1", "proxy"),
        (b"\r\n\r\n\0\r\nQUIT\n", "proxy"),
        (b"EHLO mail", "text"),
        (bytes.fromhex("0000000804d2162f") + bytes(6), "postgresql"),  # SSLRequest, 80877103
        (bytes.fromhex("0000001f00030000") + b"user\0me\0", "postgresql"),
        (b"\x4a\0\0\0\x0a8.0.36\0", "unknown"),  # MySQL's greeting
        (frame(b"\xff\xfe and ten bytes more"), "unknown"),
    ],
)
def test_foreign_first_bytes_of_a_client(data: bytes, expected: str) -> None:
    assert kind(data) == expected


def test_the_words_say_which_side_and_what_to_change() -> None:
    hello = recognise(bytes.fromhex("16030100c8010000c40303"), Direction.REQUEST)
    alert = recognise(bytes.fromhex("15030300020246"), Direction.RESPONSE)
    assert isinstance(hello, Foreign) and isinstance(alert, Foreign)
    assert "the client speaks TLS" in hello.what and "--keylog" in hello.what
    assert "the broker answered with a TLS alert" in alert.what and "security.protocol=SSL" in alert.what


def test_the_sizes_that_brokers_complain_about_are_known() -> None:
    # "Invalid receive (size = 1195725856 larger than ...)" is HTTP, 369295616 TLS 1.0, 352518912 a TLS alert.
    assert kind((1_195_725_856).to_bytes(4, "big")) == "http"
    assert kind((369_295_616).to_bytes(4, "big")) == "tls"
    assert kind((352_518_912).to_bytes(4, "big"), Direction.RESPONSE) == "tls"


def test_kafka_is_recognised() -> None:
    assert recognise(heartbeat(1), Direction.REQUEST) is KAFKA
    assert recognise(api_versions(0)[:20], Direction.REQUEST) is KAFKA
    assert recognise(frame(b"\x60\x82\x02\x0b\x06\x09\x2a\x86\x48\x86"), Direction.REQUEST) is KAFKA
    assert recognise(b"\0\0\0\x0a\0\0", Direction.RESPONSE) is KAFKA


@pytest.mark.parametrize("size", range(14))
def test_more_bytes_are_asked_for_rather_than_guessed(size: int) -> None:
    assert recognise(heartbeat(1)[:size], Direction.REQUEST) is None


def test_every_request_frame_of_kafka_looks_like_one_and_so_does_its_beginning() -> None:
    count = 0
    with gzip.open(GOLDEN_FRAMES, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            plain_header = line["sample"] == 0 and line["headerVersion"] > 0
            if line["direction"] == "request" and plain_header and line["kind"] != "unsupported-version":
                data = bytes.fromhex(line["frameHex"])
                assert looks_like_request(data) and looks_like_request(data + b"\xff") and looks_like_request(data[:14])
                assert is_request(data[4:]) and not is_request(data[4:] + b"\0") and not is_request(data[4:-1])
                count += 1
    assert count > 350


@pytest.mark.parametrize(
    "data",
    [
        b"",
        heartbeat(1)[:13],
        request(12, 0, 1, b"wrong"),
        request(12, 77, 1, b""),
        request(200, 0, 1, b""),
        request(12, 0, 1, b"", client_id="a\nb"),
        frame(b"\0\0\0\x01"),
    ],
)
def test_what_does_not_look_like_a_request(data: bytes) -> None:
    assert not looks_like_request(data)


def test_client_ids_that_nobody_would_choose() -> None:
    assert sane_client_id(None) and sane_client_id("") and sane_client_id("café-1")
    assert not sane_client_id("a\0b") and not sane_client_id("x" * 513) and not sane_client_id("\udc80")


@given(st.binary(max_size=80), st.sampled_from(list(Direction)))
def test_any_bytes_are_recognised_without_complaint(data: bytes, direction: Direction) -> None:
    found = recognise(data, direction)
    assert found is KAFKA or found is None or (found.kind and found.what)
    assert looks_like_request(data) in (True, False)


def answers(*ids: int) -> bytes:
    return b"".join(heartbeat_answer(number) for number in ids)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (answers(0, 1), True),
        (answers(7, 8, 12)[:-3], True),  # acks=0 in between; the last is not whole
        (answers(0), False),
        (answers(1, 1), False),
        (answers(3, 4, 1), True),
        (answers(1, 2, 1), False),
        (answers(1, 2_000), False),
        (answers(-2, -1), False),
        (answers(0, 1) + b"SSH-2.0-", False),
        (answers(0, 1)[1:], False),
        (bytes(64), False),
        (b"", False),
        (frame(b"\0\0\0\0") + frame(b"\0\0\0\1"), False),
    ],
)
def test_responses_are_told_by_sizes_that_chain_and_ids_that_are_near(data: bytes, expected: bool) -> None:
    assert looks_like_responses(data) is expected


LIBRDKAFKA_0_11 = bytes.fromhex("00000015 0012 0000 00000001 0007 72646b61666b61 00000000")


@pytest.mark.parametrize(
    ("begins", "expected"), [({0, 10}, True), ({0, 10, 20}, True), ({0}, False), ({10}, False), (set(), False)]
)
def test_where_the_beginning_is_not_there_responses_begin_segments(begins: set[int], expected: bool) -> None:
    assert looks_like_responses(answers(5, 6), begins) is expected


def test_a_client_that_says_who_it_is_may_send_a_few_bytes_behind_a_message() -> None:
    assert (
        recognise(LIBRDKAFKA_0_11, Direction.REQUEST) is KAFKA
    )  # its first bytes up to 0.11: an empty array means all APIs
    assert recognise(request(3, 1, 1, b"\xff\xff\xff\xff\0\0\0"), Direction.REQUEST) is KAFKA
    assert not looks_like_request(request(12, 0, 1, heartbeat(1)[17:] + bytes(17)))


@pytest.mark.parametrize(
    "first",
    [
        request(12, 0, 1, b"wrong"),
        request(12, 0, 1, heartbeat(1)[17:] + bytes(17)),
        request(18, 0, 1, bytes(4), client_id=""),
    ],
)
def test_where_only_the_header_is_right_the_response_tells(first: bytes) -> None:
    assert recognise(first, Direction.REQUEST) is None


def test_what_a_zookeeper_server_says_first_is_no_response() -> None:
    connected = frame(pack(">iiq", 0, 30_000, 1 << 56) + pack(">i", 16) + bytes(16) + b"\0")
    replies = [frame(pack(">iqi", xid, 7, 0) + b"data") for xid in (1, 2)]
    assert not looks_like_responses(connected + b"".join(replies))


def test_an_api_versions_request_newer_than_the_facts_is_one() -> None:
    assert recognise(FRANZ_GO_API_VERSIONS, Direction.REQUEST) is KAFKA
    assert looks_like_request(FRANZ_GO_API_VERSIONS)
    assert not is_request(FRANZ_GO_API_VERSIONS[4:].replace(b"kgo", b"k o"))  # no name that KIP-511 allows


@pytest.mark.parametrize(("api_key", "api_version"), [(3, 99), (93, 0), (0, 14)])
def test_a_connection_may_begin_with_what_the_facts_lack(api_key: int, api_version: int) -> None:
    assert recognise(request(api_key, api_version, 1, b"\0what is new"), Direction.REQUEST) is KAFKA
    nameless = request(api_key, api_version, 1, b"\0what is new", client_id=None)
    assert kind(nameless) == "unknown"
    assert kind(request(api_key, api_version, 1, b"", client_id="a\0b")) == "unknown"


@pytest.mark.parametrize(("api_key", "api_version"), [(1_001, 0), (3, 101), (-1, 0), (3, -1)])
def test_what_no_release_will_have_is_not_kafka(api_key: int, api_version: int) -> None:
    assert kind(request(api_key, api_version, 1, b"")) == "unknown"


FRANZ_GO = FRANZ_GO_API_VERSIONS[4:]


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\1\1", b"\4kgo", b"\4kgo\x08v1.22", b"\4kgo\2-", b"\x80\1" + b"a" * 127 + b"\2v", b"\4k\xc3\xa9\2v"],
)  # fmt: skip
def test_what_is_no_name_of_software(body: bytes) -> None:
    assert client_software(body, 0) is None


def test_every_cut_of_a_name_is_none() -> None:
    start = read_request_header(FRANZ_GO).size
    for cut in range(start, len(FRANZ_GO) - 6):  # six bytes are what version 5 added
        assert client_software(FRANZ_GO[:cut], start) is None


BODY = heartbeat(1)[17:]  # behind size, header and the client id "app"


def test_any_beginning_of_a_message_may_still_fit_and_the_end_tells_what_is_behind() -> None:
    for here in range(len(BODY) + 1):
        for behind in [0, 3]:
            message = known_message(Direction.REQUEST, 12)
            expected = behind if here == len(BODY) else PENDING
            assert leftover(message, 0, BODY[:here], 0, len(BODY) + behind) == expected, (here, behind)


def test_a_length_that_the_frame_cannot_hold_is_seen_before_it_is_whole() -> None:
    message = known_message(Direction.REQUEST, 12)
    claims = b"\0\1g\0\0\0\5\x00\x40"
    assert leftover(message, 0, claims, 0, 100) == PENDING
    assert leftover(message, 0, claims, 0, 60) == BROKEN


def test_what_is_known_and_what_the_next_releases_may_bring() -> None:
    assert is_known(12, 0) and not is_known(12, 77) and not is_known(127, 0)
    assert may_be_a_newer_version(127, 0) and may_be_a_newer_version(12, 5)
    assert not may_be_a_newer_version(12, 77)


CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap"))


def responses(path: Path) -> dict[str, bytes]:
    """All whole responses of a capture, in a row, by connection."""
    found: dict[str, bytes] = {}
    for event in kproxy.read(path):
        if isinstance(event, Exchange) and event.response is not None and not event.response.cut:
            frame = pack(">i", len(event.response.data)) + event.response.data
            found[event.connection.client] = found.get(event.connection.client, b"") + frame
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:2])
def test_responses_of_every_capture_have_layouts(path: Path) -> None:
    for client, data in responses(path).items():
        several = int.from_bytes(data[:4], "big") + 4 < len(data)
        assert have_layouts(data) == several, client  # a single one is not enough


@pytest.mark.parametrize("protocol", [zookeeper, rpc], ids=lambda protocol: protocol.__name__)
def test_numbered_answers_of_other_protocols_have_none(protocol: type) -> None:
    for seed in range(4):
        data = [data for side, data in protocol(random.Random(seed)) if side == 1]
        assert not any(have_layouts(b"".join(data[start:])) for start in range(len(data)))


def test_a_cut_body_has_a_layout_as_far_as_it_goes_but_does_not_count() -> None:
    heartbeat = pack(">iiih", 10, 1, 0, 0)
    listed = pack(">iiii", 100, 2, 0, 1)  # throttle time, an array of one; 88 bytes were not recorded
    hole = (len(heartbeat) + len(listed), len(heartbeat) + 104)
    data = heartbeat + listed + bytes(88) + pack(">iiih", 10, 3, 0, 0)
    assert have_layouts(data, [hole])
    assert not have_layouts(data[: hole[1]], [hole])  # one whole, one cut
    assert not have_layouts(heartbeat + pack(">iii", 100, 2, 0x7FFFFFFF) + b"?" * 92 + heartbeat)
