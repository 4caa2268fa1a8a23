"""What is not answered yet."""

from kproxy.session.events import Connection, Exchange, Frame
from kproxy.session.in_flight import TOKEN, InFlight, correlation_id_of
from kproxy.session.limits import Limits
from kproxy.session.routes import Route, route_of
from tests.support.frames import heartbeat, heartbeat_answer, produce_answer


def heartbeats(*correlation_ids: int, limits: Limits | None = None) -> tuple[InFlight, list[bool]]:
    in_flight = InFlight(limits or Limits())
    full = []
    for correlation_id in correlation_ids:
        frame = Frame(heartbeat(correlation_id)[4:], 0, 0)
        exchange = Exchange(Connection(1, "c:1", "b:1"), 0, 12, 0, correlation_id, "app", frame)
        full.append(in_flight.add(exchange, route(), len(frame.data)))
    return in_flight, full


def route() -> Route:
    found = route_of(12, 0)
    assert found is not None
    return found


def test_they_come_out_in_the_order_they_went_in() -> None:
    in_flight, _ = heartbeats(5, 4, 9)
    taken = [in_flight.take()[0] for _ in range(3)]
    assert [exchange.correlation_id for exchange in taken if exchange] == [5, 4, 9]
    assert not in_flight.queue


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


def test_tokens_take_their_turn_and_can_be_dropped() -> None:
    in_flight, _ = heartbeats(1)
    in_flight.add_token()
    assert list(in_flight.sought()) == [(1, route())]
    assert in_flight.queue[1] is TOKEN
    in_flight.drop_tokens()
    assert len(in_flight.queue) == 1
    assert InFlight(Limits(in_flight=0)).add_token()


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
