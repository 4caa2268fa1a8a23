"""Tap records to events: order, what is lost, and that one connection cannot harm another."""

import json
from collections.abc import Iterable, Iterator

import pytest

from kproxy.pipeline import connections
from kproxy.pipeline.connections import Clusters, Connections
from kproxy.pipeline.output import End
from kproxy.proxy.analyzer.process import Stuck
from kproxy.proxy.analyzer.tap_decoder import TapDecoder
from kproxy.proxy.tap.counted import CloseCause
from kproxy.proxy.tap.tapped import Opened, TapKind
from kproxy.session import Event, Exchange, Gap, Limits, Session
from tests.support.frames import (
    delete_topic,
    delete_topic_answer,
    heartbeat,
    heartbeat_answer,
    metadata,
    metadata_answer,
)
from tests.support.tap import Item, opened

ADDRESSES = "10.0.0.5:51234", "10.0.0.9:9092"


class Heard:
    """A Listener that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ends: list[tuple[int, BaseException | None]] = []
        self.taken = 0

    def receive_events(self, events: list[Event]) -> None:
        self.events += events
        self.taken += len(events)

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        if end.side is None:
            self.ends.append((end.connection, fault))

    def exchanges(self, number: int) -> list[Exchange]:
        return [event for event in self.events if event.connection.number == number and isinstance(event, Exchange)]


class Decoder(TapDecoder):
    """A TapDecoder, and what its connections count."""

    def take(self, items: Iterable[Item], sent_after: int = 0) -> None:
        """Decode records whose frames were all sent on so many ns after they came; 0: that is not known."""
        self.decode([(*item, sent_after) for item in items])

    def __len__(self) -> int:
        return len(self.connections)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def decoder(heard: Heard, *, most: int = 20_000, most_held: int = 268_435_456) -> Decoder:
    connections = Connections(Clusters(), heard, Limits(), contain=(Exception, Stuck), most=most, most_held=most_held)
    return Decoder(connections)


def data(number: int, direction: int, frame: bytes, at: int = 5) -> Item:
    return TapKind.DATA, number, direction, at, frame


def lost(number: int, direction: int, size: int) -> Item:
    return TapKind.LOST, number, direction, 5, size.to_bytes(8, "little")


def ask(number: int, correlation_id: int = 1) -> Iterator[Item]:
    """A request and its response."""
    yield data(number, 0, heartbeat(correlation_id))
    yield data(number, 1, heartbeat_answer(correlation_id))


def test_connections_are_told_apart_and_end(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), opened(2, *ADDRESSES)])
    taken.take([data(1, 0, heartbeat(7)), data(2, 0, heartbeat(8)), data(2, 1, heartbeat_answer(8))])
    taken.take([data(1, 1, heartbeat_answer(7)), (TapKind.CLOSE, 1, 0, 9, b"\0")])
    assert [exchange.correlation_id for exchange in heard.exchanges(1)] == [7]
    assert [exchange.correlation_id for exchange in heard.exchanges(2)] == [8]
    assert heard.ends == [(1, None)]
    assert len(taken) == 1


@pytest.mark.parametrize(
    ("records", "ended"),
    [
        (
            [(TapKind.END, 1, 0, 8, b"\1"), (TapKind.CLOSE, 1, 0, 9, bytes([CloseCause.CLIENT_RESET]))],
            "the client reset",
        ),
        (
            [(TapKind.END, 1, 0, 8, b"\0"), (TapKind.CLOSE, 1, 0, 9, bytes([CloseCause.BROKER_CLOSED]))],
            "the client closed",
        ),
        ([(TapKind.END, 1, 1, 8, b"\1")], "the broker reset"),
        ([(TapKind.CLOSE, 1, 0, 9, bytes([CloseCause.CLIENT_RESET]))], "the client reset"),
        ([(TapKind.CLOSE, 1, 0, 9, bytes([CloseCause.IDLE]))], "kproxy closed"),
    ],
)
def test_who_ended_the_connection_is_in_what_it_says_of_requests_in_flight(
    heard: Heard, records: list[Item], ended: str
) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), data(1, 0, heartbeat(7)), *records])
    (exchange,) = heard.exchanges(1)
    why = " (idle)" if ended.startswith("kproxy") else ""
    assert exchange.unanswered == f"{ended} the connection{why} before the response"


def test_the_end_of_a_side_and_of_all(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), data(1, 0, heartbeat(7)), (TapKind.END, 1, 1, 9, b"")])
    assert [exchange.unanswered for exchange in heard.exchanges(1)] == [
        "the broker closed the connection before the response"
    ]
    taken.connections.close_all(10)
    assert heard.ends == [(1, None)]


def test_what_the_tap_lost_is_a_gap_and_the_rest_goes_on(heard: Heard) -> None:
    taken = decoder(heard)
    frame = heartbeat(1)
    taken.take([opened(1, *ADDRESSES), data(1, 0, frame[:10]), lost(1, 0, len(frame) - 10), *ask(1, 2)])
    assert [event.size for event in heard.events if isinstance(event, Gap)] == [len(frame) - 10]
    assert 2 in [exchange.correlation_id for exchange in heard.exchanges(1)]


def test_a_loss_beyond_belief_is_no_number_that_nobody_can_read(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES)] + [lost(1, 0, 2**64 - 1)] * 3)
    assert {event.size for event in heard.events if isinstance(event, Gap)} == {1 << 48}


def test_a_connection_heard_of_in_mid_stream(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES, from_start=False), data(1, 0, heartbeat(1)[5:]), *ask(1, 2), *ask(1, 3)])
    assert 3 in [exchange.correlation_id for exchange in heard.exchanges(1)]


def test_what_was_never_opened_is_passed_over(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([*ask(9), lost(9, 0, 5), (TapKind.END, 9, 0, 5, b""), (TapKind.CLOSE, 9, 0, 5, b"")])
    assert heard.events == [] and heard.ends == []


def test_a_number_that_is_used_again_is_another_connection(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), data(1, 0, heartbeat(1)[:9]), opened(1, *ADDRESSES), *ask(1, 2)])
    # what came of the first: its beginning
    assert [exchange.correlation_id for exchange in heard.exchanges(1)] == [None, 2]


@pytest.mark.parametrize("error", [ValueError("secret words"), MemoryError(), RecursionError(), Stuck()])
def test_a_fault_ends_the_analysis_of_its_connection_alone(
    heard: Heard, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(Session):
        def receive(self, direction: int, data: bytes, at: int, sent_at: int = 0) -> list[Event]:
            if self.connection.number == 1:
                raise error
            return super().receive(direction, data, at, sent_at)

    monkeypatch.setattr(connections, "Session", Faulty)
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), opened(2, *ADDRESSES), *ask(1), *ask(2), *ask(1), *ask(2, 2)])
    assert len(heard.exchanges(2)) == 2
    assert heard.ends == [(1, error)]
    assert taken.connections.faults == {type(error).__name__: 1}
    assert len(taken) == 1


def test_a_fault_while_closing_is_told_once(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty(Session):
        def close(self, at: int) -> list[Event]:
            raise ValueError(at)

    monkeypatch.setattr(connections, "Session", Faulty)
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), (TapKind.CLOSE, 1, 0, 5, b"")])
    taken.connections.close_all(6)
    assert [number for number, _ in heard.ends] == [1]
    assert taken.connections.faults == {"ValueError": 1}


@pytest.mark.parametrize("told", [b"", b"{", b"[]", b"null", b'{"client":1}', b"\xff\xfe", b"[" * 100_000])
def test_an_open_that_says_nothing_is_a_fault(heard: Heard, told: bytes) -> None:
    taken = decoder(heard)
    taken.take([(TapKind.OPEN, 1, 0, 5, told), opened(2, *ADDRESSES), *ask(2)])
    assert len(heard.exchanges(2)) == 1
    assert sum(taken.connections.faults.values()) == 1


def test_the_one_not_heard_of_for_longest_makes_room(heard: Heard) -> None:
    taken = decoder(heard, most=3)
    taken.take([opened(number, *ADDRESSES) for number in (1, 2, 3)])
    taken.take([*ask(1), opened(4, *ADDRESSES), *ask(2), *ask(3), *ask(1, 2)])
    assert heard.ends == [(2, None)]
    assert taken.connections.given_up == 1
    assert [len(heard.exchanges(number)) for number in (1, 2, 3)] == [2, 0, 1]


def test_attack_7_frames_that_never_end_are_held_within_the_budget(heard: Heard) -> None:
    taken = decoder(heard, most_held=1_000_000)
    start = (99 << 20).to_bytes(4, "big")
    for number in range(1, 51):
        taken.take([opened(number, *ADDRESSES), data(number, 0, start + heartbeat(1)[4:] + bytes(1000 * number))])
    held = sum(1000 * number for number in range(1, 51) if (number, None) not in heard.ends)
    assert held <= 1_000_000
    assert taken.connections.given_up > 3
    taken.take([opened(99, *ADDRESSES), *ask(99)])
    assert len(heard.exchanges(99)) == 1


def test_what_is_held_is_forgotten_with_its_frame(heard: Heard) -> None:
    taken = decoder(heard, most_held=1_000)
    taken.take([opened(1, *ADDRESSES)])
    for correlation_id in range(100):
        frame = heartbeat(correlation_id, "g" * 500)
        taken.take([data(1, 0, frame[:400]), data(1, 0, frame[400:]), data(1, 1, heartbeat_answer(correlation_id))])
    assert taken.connections.given_up == 0
    assert len(heard.exchanges(1)) == 100


def closed(number: int, requests: int) -> Item:
    return TapKind.CLOSE, number, 0, 9, b"\0" + requests.to_bytes(8, "little")


def test_requests_of_a_connection_that_was_given_up_are_counted_when_it_closes(heard: Heard) -> None:
    taken = decoder(heard, most=2)
    taken.take([opened(1, *ADDRESSES), *ask(1), data(1, 0, heartbeat(2)), opened(2, *ADDRESSES), opened(3, *ADDRESSES)])
    assert [exchange.unanswered for exchange in heard.events if isinstance(exchange, Exchange)] == [None]
    taken.take([data(1, 1, heartbeat_answer(2)), *ask(1, 3), closed(1, 3), *ask(2), closed(2, 1), closed(3, 0)])
    assert (len(heard.exchanges(1)), len(heard.exchanges(2))) == (1, 1)
    assert taken.connections.left_out == {"analyzer_limits": 2}


def test_requests_of_a_connection_that_failed_are_counted_when_it_closes(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), *ask(1), data(1, 0, heartbeat(2))])
    monkeypatch.setattr(heard, "receive_events", lambda events: events.index(None))
    taken.take([data(1, 1, heartbeat_answer(2))])
    monkeypatch.undo()
    taken.take([*ask(1, 3), closed(1, 3)])
    assert len(heard.exchanges(1)) == 1
    assert taken.connections.left_out == {"fault": 2}


def test_a_connection_that_is_whole_leaves_nothing_out(heard: Heard) -> None:
    taken = decoder(heard)
    taken.take([opened(1, *ADDRESSES), *ask(1), data(1, 0, heartbeat(2)), closed(1, 2)])
    assert [exchange.unanswered is None for exchange in heard.exchanges(1)] == [True, False]
    assert taken.connections.left_out == {}


def test_connections_of_a_cluster_share_what_they_learned(heard: Heard) -> None:
    taken = decoder(heard)
    topic_id = bytes(range(16))
    told = metadata_answer(1, {"orders": topic_id}, {})
    taken.take([opened(1, *ADDRESSES), data(1, 0, metadata(1)), data(1, 1, told)])
    taken.take([opened(2, *ADDRESSES), data(2, 0, delete_topic(2, topic_id))])
    taken.take([data(2, 1, delete_topic_answer(2, topic_id))])
    assert list(heard.exchanges(2)[0].topic_names.values()) == ["orders"]


def test_the_record_of_the_tests_is_that_of_the_proxy() -> None:
    told = json.loads(opened(1, *ADDRESSES)[4])
    assert tuple(told) == Opened.__struct_fields__
