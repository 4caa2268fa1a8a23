"""Frames and exchanges; what is done with an API at a version; what is not answered yet."""

import copy
import pickle

import pytest

from kproxy.session.endings import Cut
from kproxy.session.events import Connection
from kproxy.session.exchanges import (
    Exchange,
    Frame,
    InFlight,
    Route,
    correlation_id_of,
    decoded,
    failed,
    read_body,
    route_of,
)
from kproxy.session.limits import Limits
from tests.support.conversation import broker, client, events_of
from tests.support.corpus import golden_exchanges
from tests.support.frames import (
    heartbeat,
    heartbeat_answer,
    produce,
    produce_answer,
    response,
    sasl_handshake_answer,
)

CONNECTION = Connection(4, "10.0.0.5:51234", "[::1]:9092")


def test_frames_and_exchanges_are_equal_when_all_their_fields_are() -> None:
    one, other = (Exchange(CONNECTION, 5, request=Frame(b"abc", 1, 2)) for _ in range(2))
    assert one == other and one != 5
    assert other.request is not None
    other.request.cut = Cut.SNAPLEN
    assert one != other
    assert "SNAPLEN" in repr(other) and "at=5" in repr(other)


def test_a_cut_frame_has_its_size_on_the_wire_and_no_body() -> None:
    cut = Frame(b"abc", 1, 2, cut=Cut.SNAPLEN, size=1_000)
    assert (cut.size, cut.wire_size, cut.cut, cut.body()) == (1_000, 1_004, Cut.SNAPLEN, None)
    assert Frame(b"abc", 1, 2).size == 3 and not Frame(b"abc", 1, 2).cut
    copy = pickle.loads(pickle.dumps(cut.copy(trailing=3)))
    assert (copy.size, copy.trailing) == (1_000, 3) and copy != cut and copy.copy(trailing=0) == cut


def test_bodies_tells_why_either_is_cut() -> None:
    whole, cut = Frame(b"abcd", 1, 2), Frame(b"abc", 1, 2, cut=Cut.LEFT_OUT, size=4)
    assert Exchange(CONNECTION, 5, request=whole, response=whole).bodies is None
    assert Exchange(CONNECTION, 5, request=whole, response=cut).bodies == "left out: the analyzer was behind"
    assert Exchange(CONNECTION, 5, request=cut, response=cut).bodies == "left out: the analyzer was behind"
    both = Exchange(CONNECTION, 5, request=cut, response=cut.copy(cut=Cut.SNAPLEN))
    assert both.bodies == "request: left out: the analyzer was behind; response: cut by the capture's snaplen"


def test_a_response_whose_end_was_never_sent_has_no_latency_and_says_who_ended_it() -> None:
    closed = Connection(4, "10.0.0.5:51234", "[::1]:9092", closed="the client reset the connection")
    cut = Frame(b"abc", 2_000_000, 3_000_000, cut=Cut.SNAPLEN, size=4)
    exchange = Exchange(closed, 5, request=Frame(b"abcd", 1_000_000, 1_000_000), response=cut)
    assert exchange.latency_ms == 2.0
    exchange.response = cut.copy(cut=Cut.RESET)
    assert exchange.latency_ms is None and exchange.bodies == "the client reset the connection inside the response"


def test_a_copy_has_the_changes_and_leaves_the_original() -> None:
    frame = Frame(b"abc", 1, 2, body_start=1)
    exchange = Exchange(CONNECTION, 5, 3, 12, 7, "app", frame)
    assert exchange.copy() == exchange and exchange.copy() is not exchange
    changed = exchange.copy(request=frame.copy(data=b"abcd"), undecoded="why")
    assert changed.request == Frame(b"abcd", 1, 2, body_start=1) and changed.undecoded == "why"
    assert exchange.request is frame and frame.data == b"abc" and exchange.undecoded is None


def test_what_is_missing_or_cannot_be_read_has_no_body() -> None:
    nothing = Exchange(CONNECTION, 5)
    assert nothing.request_body() is None and nothing.response_body() is None
    assert nothing.api_name is None and nothing.latency_ms is None
    assert Exchange(CONNECTION, 5, api_key=9999).api_name is None
    (undecoded,) = events_of(client >> heartbeat(7), broker >> response(7, b"\0"))
    assert isinstance(undecoded, Exchange) and undecoded.undecoded is not None
    assert undecoded.response_body() is None and undecoded.request_body() is not None


# Routes


@pytest.mark.parametrize(("api_key", "api_version"), [(93, 0), (-1, 0), (3, -1)])
def test_there_is_none_for_what_is_not_known(api_key: int, api_version: int) -> None:
    assert route_of(api_key, api_version) is None


def test_a_produce_cut_before_its_acks_counts_as_answered() -> None:
    route = route_of(0, 3)
    assert route is not None
    assert route.expects_response(Frame(produce(1, 0)[4:18], 0, 0, None, 13))


def test_no_other_response_may() -> None:
    route = route_of(12, 1)
    assert route is not None
    assert not route.fits_response(heartbeat_answer(1)[4:])
    assert route.fits_response(b"\0\0\0\1" + b"\0\0\0\0" + b"\0\0")


def test_an_error_of_the_body_says_where() -> None:
    route = route_of(12, 0)
    assert route is not None
    frame = Frame(heartbeat(1)[4:-1], 0, 0, None, 13)
    read_body(frame, route.request, 0)
    assert frame.message is None and frame.error is not None
    assert (frame.error.message, frame.error.version, frame.error.path) == ("HeartbeatRequest", 0, "memberId")


def test_failure_is_an_error_code_or_a_body_that_cannot_be_read() -> None:
    route = route_of(17, 0)
    assert route is not None
    for error_code, expected in ((0, False), (33, True)):
        frame = Frame(sasl_handshake_answer(1, error_code)[4:], 0, 0, None, 4)
        route.read_response(frame)
        assert failed(frame) is expected
    assert failed(Frame(b"", 0, 0)) and decoded(Frame(b"", 0, 0)) is None


# Requests in flight


def heartbeats(*correlation_ids: int, limits: Limits | None = None) -> tuple[InFlight, list[bool]]:
    in_flight = InFlight(limits or Limits())
    full = []
    for correlation_id in correlation_ids:
        frame = Frame(heartbeat(correlation_id)[4:], 0, 0)
        exchange = Exchange(Connection(1, "c:1", "b:1"), 0, 12, 0, correlation_id, "app", frame)
        full.append(in_flight.add(exchange, heartbeat_route(), len(frame.data)))
    return in_flight, full


def heartbeat_route() -> Route:
    found = route_of(12, 0)
    assert found is not None
    return found


def test_count_and_bytes_are_bounded_but_one_may_always_stay() -> None:
    assert heartbeats(1, 2, 3, limits=Limits(in_flight=2))[1] == [False, False, True]
    in_flight, full = heartbeats(1, 2, limits=Limits(in_flight_size=30))
    assert full == [False, True] and in_flight.overfull
    in_flight.take()
    assert not in_flight.overfull
    assert not heartbeats(1, limits=Limits(in_flight_size=3))[0].overfull


def test_the_request_of_a_response_is_found_by_correlation_id_and_body() -> None:
    in_flight, _ = heartbeats(1, 2, 3)
    in_flight.add_token()
    frame = Frame(heartbeat_answer(3)[4:], 0, 0)
    assert in_flight.find(frame) == 2
    assert frame.header is not None and frame.body_start == 4
    assert in_flight.find(Frame(heartbeat_answer(8)[4:], 0, 0)) is None
    assert in_flight.find(Frame(produce_answer(3)[4:], 0, 0)) is None
    assert in_flight.find(Frame(b"\0", 0, 0)) is None


def test_a_response_skips_tokens_to_the_first_request_alone() -> None:
    in_flight, _ = heartbeats()
    in_flight.add_token()
    answer = Frame(heartbeat_answer(3)[4:], 0, 0)
    assert not in_flight.skips_tokens(answer)
    for number in (3, 4):
        in_flight.queue.extend(heartbeats(number)[0].queue)
    assert in_flight.skips_tokens(answer)
    assert not in_flight.skips_tokens(Frame(heartbeat_answer(4)[4:], 0, 0))
    assert not in_flight.skips_tokens(Frame(b"", 0, 0))


def test_a_correlation_id_alone_can_be_read() -> None:
    assert correlation_id_of(b"\xff\xff\xff\xfe and damage") == -2
    assert correlation_id_of(b"\0\0\0") is None


def test_no_more_than_the_oldest_64_are_sought() -> None:
    in_flight, _ = heartbeats(*range(70))
    assert [correlation_id for correlation_id, _ in in_flight.sought()] == list(range(64))


def test_frames_and_exchanges_can_be_copied_and_pickled() -> None:
    exchange = Exchange(CONNECTION, 5, 3, 12, 7, "app", Frame(b"abc", 1, 2))
    assert copy.copy(exchange) == exchange == pickle.loads(pickle.dumps(exchange))


# Bytes after a message


def test_a_response_with_bytes_after_it_is_found_by_its_correlation_id_once_none_fits_exactly() -> None:
    in_flight = InFlight(Limits())
    route = route_of(12, 0)
    assert route is not None
    for correlation_id in (7, 8):
        in_flight.add(Exchange(CONNECTION, 1, 12, 0, correlation_id, request=Frame(b"", 1, 1)), route, 0)
    late = heartbeat_answer(8)[4:] + b"\0\0"
    assert (
        not route.fits_response(late)
        and not route.fits_response(late, trailing=1)
        and route.fits_response(late, trailing=2)
    )
    assert in_flight.find(Frame(late, 1, 1)) == 1
    assert in_flight.find(Frame(late[:5], 1, 1)) is None


def api_versions(version: int, body: bytes) -> Frame:
    """An ApiVersions response as its route reads it."""
    route = route_of(18, version)
    assert route is not None
    frame = Frame(bytes(3) + b"\1" + body, 0, 0, body_start=4)
    route.read_response(frame)
    return frame


REFUSED = (35).to_bytes(2, "big")
RANGE_OF_API_VERSIONS = bytes.fromhex("0012 0000 0003")


def test_a_refusal_is_read_as_version_0_with_bytes_after_it_or_without() -> None:
    """KIP-511: a broker that lacks the version of an ApiVersions request answers in the layout of version 0."""
    for version in [1, 2, 3, 4, 9]:
        for count, ranges in [(0, b""), (1, RANGE_OF_API_VERSIONS), (2, 2 * RANGE_OF_API_VERSIONS)]:
            for after in [0, 1, 3]:
                frame = api_versions(version, REFUSED + count.to_bytes(4, "big") + ranges + bytes(after))
                assert (frame.body_version, frame.trailing, frame.error) == (0, after, None), (version, count, after)
                assert frame.body().error_code == 35 and len(frame.body().api_keys) == count, (version, count, after)


@pytest.mark.parametrize("version", [1, 2])
def test_an_answer_at_its_own_version_stays_one_with_bytes_after_it(version: int) -> None:
    body = bytes(2) + (1).to_bytes(4, "big") + RANGE_OF_API_VERSIONS + (77).to_bytes(4, "big")
    for after in range(4):
        frame = api_versions(version, body + bytes(after))
        assert (frame.body_version, frame.trailing, frame.body().throttle_time_ms) == (version, after, 77)


def test_what_is_no_refusal_is_not_read_as_one() -> None:
    frame = api_versions(3, bytes(2) + bytes(4) + b"neither version 3 nor version 0")
    assert frame.message is None and frame.error is not None and frame.trailing == 0


def named(value: object, ending: str) -> list[object]:
    """The values of all fields in Kafka's JSON whose names end so, other than those that say nothing."""
    if isinstance(value, dict):
        here = [one for name, one in value.items() if name.endswith(ending) and one not in (0, None, "A" * 22)]
        return here + [one for inner in value.values() for one in named(inner, ending)]
    return [one for inner in value for one in named(inner, ending)] if isinstance(value, list) else []


def test_what_a_walk_finds_in_a_body_is_in_kafkas_json() -> None:
    found = [0, 0, 0]
    for asked, answered, exchange in golden_exchanges():
        for line, frame in ((asked, exchange.request), (answered, exchange.response)):
            assert frame is not None and frame.error is None
            codes, topic_ids = named(line["json"], "rrorCode"), named(line["json"], "topicId")
            groups = [one for one in named(line["json"], "groupId") if isinstance(one, str)]
            assert sorted(frame.error_codes()) == sorted(map(int, map(str, set(codes))))
            assert sorted(frame.topic_ids()) == sorted(map(str, topic_ids))
            assert sorted(group for group in frame.group_ids() if group) == sorted(filter(None, groups))
            found = [n + len(more) for n, more in zip(found, (codes, topic_ids, groups), strict=True)]
    assert min(found) > 100
