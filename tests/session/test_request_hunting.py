"""Finding requests among other bytes: which signs are enough."""

import random
from struct import pack

import pytest

from kproxy.session.exchanges import route_of
from kproxy.session.hunting import Hunt
from kproxy.session.limits import Limits
from kproxy.session.request_hunting import CutStart, RequestHunt
from tests.support.frames import (
    FRANZ_GO_API_VERSIONS,
    frame,
    heartbeat,
    heartbeat_answer,
    metadata,
    request,
    sasl_authenticate,
)

LIMIT = Limits().frame_size
NOISE = random.Random(5).randbytes(3_000)
# What a Fetch response or a Produce request is full of; read as a frame it is Produce v0 without acks, topics and a client id.
ZEROS = pack(">i", 20) + bytes(20)
LIBRDKAFKA_0_11 = bytes.fromhex("00000015 0012 0000 00000001 0007 72646b61666b61 00000000")


def hunted(*segments: bytes, end: bool = True) -> int | None:
    """How many bytes are passed over before the request found in segments; None: none is."""
    hunt = RequestHunt(LIMIT, 0)
    for at, segment in enumerate(segments):
        if hunt.feed(segment, at):
            return hunt.skipped
    return hunt.skipped if end and hunt.finish() else None


def feed(hunt: Hunt, data: bytes, chunk: int) -> int | None:
    """As ``hunted``, for bytes of which nobody knows where segments began; nothing is said of their end."""
    for start in range(0, len(data), chunk):
        if hunt.feed(data[start : start + chunk], start, begins=False, ends=False):
            return hunt.skipped
    return None


def confirmed(hunt: RequestHunt, response: bytes) -> bool:
    return hunt.confirm(response, len(response))


@pytest.mark.parametrize("size", [1, 5, 100])
def test_a_request_that_begins_a_segment_is_found_as_soon_as_it_is_whole(size: int) -> None:
    hunt = RequestHunt(LIMIT, 0)
    hunt.feed(NOISE, 0)
    whole = metadata(9)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert [hunt.feed(piece, 1) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert hunt.skipped == len(NOISE)


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_elsewhere_it_is_found_once_another_of_the_same_client_follows(chunk: int) -> None:
    assert feed(RequestHunt(LIMIT, 0), NOISE + metadata(9), chunk) is None
    assert feed(RequestHunt(LIMIT, 0), NOISE + metadata(9) + heartbeat(10), chunk) == len(NOISE)
    other = heartbeat(10, client_id="another")
    assert feed(RequestHunt(LIMIT, 0), NOISE + metadata(9) + other, chunk) is None


def test_the_beginning_of_an_answer_is_enough() -> None:
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(b"?" + heartbeat(9), 0)
    assert not hunt.confirm(heartbeat_answer(9)[4:9], 5)
    assert hunt.confirm(heartbeat_answer(9)[4:9], 6)


@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_a_false_beginning_that_claims_much_does_not_hide_a_request(chunk: int) -> None:
    false = (50_000_000).to_bytes(4, "big") + heartbeat(1)[4:]
    assert feed(RequestHunt(LIMIT, 0), b"?" + false + heartbeat(2) * 2, chunk) == 1 + len(false)
    assert hunted(false, heartbeat(2)) == len(false)


def test_zeros_that_fit_to_the_last_byte_are_no_request() -> None:
    assert hunted(ZEROS) is None
    assert hunted(ZEROS * 50) is None
    assert hunted(*[ZEROS] * 50) is None
    assert hunted(b"?" + ZEROS, heartbeat(1)) == 25
    assert hunted(ZEROS * 40 + bytes(7) + heartbeat(1) + heartbeat(2)) == 40 * 24 + 7
    counted = b"".join(pack(">i", number) for number in range(20_000))
    assert hunted(counted, counted) is None


def test_a_request_around_another_one_is_waited_for_when_it_begins_a_segment() -> None:
    outer = sasl_authenticate(1, b"token " + heartbeat(2) + heartbeat(3) + b" token")
    inner = outer.index(heartbeat(2))
    for size in (5, inner, 1_000):
        hunt = RequestHunt(LIMIT, 0)
        pieces = [outer[at : at + size] for at in range(0, len(outer), size)]
        assert [hunt.feed(piece, 0, begins=not at) for at, piece in enumerate(pieces)].index(True) == len(pieces) - 1
        assert hunt.skipped == 0


@pytest.mark.parametrize("chunk", [1, 5, 1_000])
def test_elsewhere_the_frame_that_is_followed_first_wins_in_any_chunking(chunk: int) -> None:
    outer = b"?" + sasl_authenticate(1, b"token " + heartbeat(2) + b" token") + heartbeat(3)
    assert feed(RequestHunt(LIMIT, 0), outer, chunk) == 1


def test_bytes_behind_a_message_as_librdkafka_sends_them_need_another_sign() -> None:
    assert hunted(LIBRDKAFKA_0_11, metadata(2)) == len(LIBRDKAFKA_0_11)  # another client's
    assert hunted(LIBRDKAFKA_0_11, heartbeat(2, client_id="rdkafka")) == 0
    assert hunted(b"?" + LIBRDKAFKA_0_11 + heartbeat(2, client_id="rdkafka")) == 1
    assert hunted(b"?" + LIBRDKAFKA_0_11) is None
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(LIBRDKAFKA_0_11, 0)
    assert confirmed(hunt, pack(">ihihhh", 1, 0, 1, 18, 0, 0))
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(LIBRDKAFKA_0_11, 0) and hunt.finish()


def test_a_response_that_reads_as_a_request_with_more_behind_it_is_none() -> None:
    """Produce v0's response 3 of topic "t09c": as Produce v3 of a client "t09c" with 8 bytes after the message."""
    response = frame(pack(">iih4siihq", 3, 1, 4, b"t09c", 1, 0, 0, 7))
    assert hunted(response[:-1], end=False) is None
    hunt = RequestHunt(LIMIT, 0)
    for number in range(3, 9):
        assert not hunt.feed(frame(pack(">iih4siihq", number, 1, 4, b"t09c", 1, 0, 0, 7)), number)
    assert not hunt.finish_as_unknown()


@pytest.mark.parametrize("client_id", [None, ""])
def test_without_a_client_id_a_later_request_or_an_answer_must_follow(client_id: str | None) -> None:
    nameless = [heartbeat(number, client_id=client_id) for number in range(7, 10)]
    assert hunted(nameless[0]) == 0  # it begins and ends a segment, and is no run of zeros
    assert hunted(b"?" + nameless[0]) is None
    assert hunted(b"?" + nameless[0] + nameless[1]) == 1
    assert hunted(b"?" + nameless[1] + nameless[0] + b"?") is None
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(b"?" + nameless[2], 0)
    assert confirmed(hunt, heartbeat_answer(9)[4:])


def test_an_api_newer_than_the_facts_needs_another_sign() -> None:
    new = [request(99, 0, number, b"\0what is new") for number in (5, 6)]
    assert hunted(new[0], end=False) is None
    assert hunted(*new) == 0
    assert hunted(b"?" + new[0] + new[1]) == 1
    assert hunted(b"?" + new[1] + new[0]) is None
    assert hunted(request(99, 40, 5, b"\0what is new"), request(99, 40, 6, b"\0what is new")) is None
    assert hunted(FRANZ_GO_API_VERSIONS) == 0


def test_a_damaged_request_is_none_unless_it_begins_a_segment_and_the_next_one_follows() -> None:
    damaged = request(12, 0, 5, b"\0\1g\0\0\0\5\0\x09m-1")
    assert hunted(b"?" + damaged + heartbeat(6)) == 1 + len(damaged)
    assert hunted(damaged, heartbeat(6)) == 0


def test_at_the_end_what_has_begun_is_a_request() -> None:
    assert hunted(b"?", heartbeat(1)[:30]) == 1
    assert hunted(b"?" + heartbeat(1)) == 1
    assert hunted(b"?" + heartbeat(1) + heartbeat(2)[:9]) == 1
    assert hunted(b"?" + heartbeat(1)[:20]) is None
    assert hunted(b"?" + heartbeat(1) + b"\xff and more") is None


def test_a_cut_request_is_one_where_it_fills_its_packet_or_follows_the_last_one() -> None:
    cut = heartbeat(9, "g" * 200)[:20]
    more = len(heartbeat(9, "g" * 200)) - len(cut)

    def finds(unrecorded: int, *, before: bytes = b"", last: tuple[str, int] | None = None) -> bool:
        hunt = RequestHunt(LIMIT, 0, last=last)
        assert not hunt.feed(before + cut[:14] if before else cut[:14], 0)
        assert not hunt.feed(cut[14:], 0, begins=False)
        return hunt.finish(unrecorded)

    assert finds(more) and finds(more + 1)  # it names its client at the beginning of a segment
    assert not finds(more, before=b"?")
    assert finds(more + 1, before=b"?", last=("app", 8))
    assert not finds(more + 1, before=b"?", last=("other", 8))
    assert not finds(more + 1, before=b"?", last=("app", 9))
    few = RequestHunt(LIMIT, 0)
    assert not few.feed(cut[:15], 0) and few.finish(more + 5)  # inside its client id
    few = RequestHunt(LIMIT, 0)
    assert not few.feed(cut[:15], 0) and not few.finish(more + 6)


def test_a_cut_packet_that_could_be_a_response_shows_no_client() -> None:
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(pack(">ihhi", 100, 3, 5, 0) + bytes(2), 0)
    assert hunt.finish_cut(90) is None


def test_the_start_of_a_request_that_a_snaplen_cut_inside_its_clients_name() -> None:
    hunt = RequestHunt(LIMIT, 0)
    assert not hunt.feed(pack(">ihhih", 100, 3, 5, 7, 12) + b"app-", 0)
    assert hunt.finish_cut(86) == CutStart(7, b"\0\x0capp-")
    assert hunt.sought() == [(7, route_of(3, 5))]  # a response would confirm it
    longer = RequestHunt(LIMIT, 0)
    assert not longer.feed(pack(">ihhih", 100, 3, 5, 7, 12) + b"app-", 0)
    assert longer.finish_cut(85) is None and not longer.sought()  # clients write whole requests


def test_the_next_request_of_the_same_client_comes_soon_after() -> None:
    start = CutStart(7, b"\0\x0capp-")
    assert CutStart(8, b"\0\x0capp-").is_next(start) and CutStart(9, b"\0\x0capp-one").is_next(start)
    assert not CutStart(7, b"\0\x0capp-").is_next(start)  # as the count of an array, which stays the same
    assert not CutStart(8, b"\0\x0cbpp-").is_next(start) and not CutStart(8, b"\0\x0capp-").is_next(None)
    assert not CutStart(5_000, b"\0\x0capp-").is_next(start)


def test_a_hunt_that_goes_on_after_a_request_forgets_what_began_before_it() -> None:
    hunt = RequestHunt(LIMIT, 0)
    larger = heartbeat(1, "g" * 200)  # what it claims ends behind the request that is found
    assert not hunt.feed(b"?" + larger[:100], 0)
    assert hunt.feed(metadata(2), 0)
    hunt.feed(NOISE, 0)  # a caller that knew better
    assert hunt.skipped >= 101
