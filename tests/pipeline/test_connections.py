"""Live connections: bounded, shared knowledge of their cluster, and no harm to each other."""

import pytest

from kproxy.pipeline.connections import Clusters, Connections, new_cluster_view
from kproxy.pipeline.output import End
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.session import Event, Exchange, Limits
from kproxy.session.endings import Cut
from tests.support.frames import heartbeat, heartbeat_answer


class Heard:
    """A Listener that remembers, and fails when it is to."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ends: list[tuple[End, BaseException | None]] = []
        self.fault: BaseException | None = None
        self.taken = 0

    def receive_events(self, events: list[Event]) -> None:
        if self.fault is not None and events:
            raise self.fault
        self.events += events
        self.taken += len(events)

    def end_connection(self, end: End, fault: BaseException | None) -> None:
        self.ends.append((end, fault))


@pytest.fixture
def heard() -> Heard:
    return Heard()


def opened(heard: Heard, *numbers: int, contain: tuple[type[BaseException], ...] = (Exception,)) -> Connections:
    connections = Connections(Clusters(), heard, Limits(), contain=contain, most=20_000, most_held=268_435_456)
    for number in numbers:
        connections.open(number, 1, client="c:1", broker="b:1", cluster="orders", from_start=True)
    return connections


def exchange(connections: Connections, number: int, at: int = 5) -> None:
    connections.receive(number, 0, heartbeat(7), at)
    connections.receive(number, 1, heartbeat_answer(7), at + 1)


def test_the_ends_of_a_side_and_of_all_are_passed_on(heard: Heard) -> None:
    connections = opened(heard, 1)
    exchange(connections, 1)
    connections.end(1, 1, 8)
    connections.close(1, 9)
    assert [end for end, _ in heard.ends] == [End(1, 8, "broker"), End(1, 9, reason="finished")]
    assert [type(event) for event in heard.events] == [Exchange]
    assert len(connections) == 0 and connections.last_at == 9


def test_why_connections_end(heard: Heard) -> None:
    connections = opened(heard, 1, 2, 3)
    connections.open(1, 4, client="c:1", broker="b:1", cluster="orders", from_start=True)
    connections.receive(3, 0, heartbeat(1), 10)
    connections.close_all(20)
    assert [(end.connection, end.reason) for end, _ in heard.ends] == [
        (1, "reused"),
        (2, "end of capture"),
        (1, "end of capture"),
        (3, "end of capture"),
    ]


def test_an_exception_while_writing_ends_that_connection_alone(heard: Heard) -> None:
    connections = opened(heard, 1, 2)
    heard.fault = ZeroDivisionError()
    exchange(connections, 1)
    heard.fault = None
    exchange(connections, 1)
    exchange(connections, 2)
    assert [event.connection.number for event in heard.events] == [2]
    assert connections.faults == {"ZeroDivisionError": 1}
    assert [(end.connection, fault) for end, fault in heard.ends if fault] == [(1, heard.ends[0][1])]


def test_an_exception_that_is_not_to_be_contained_goes_on(heard: Heard) -> None:
    connections = opened(heard, 1, contain=())
    heard.fault = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        exchange(connections, 1)


def test_what_was_never_opened_is_passed_over(heard: Heard) -> None:
    connections = opened(heard)
    exchange(connections, 9)
    connections.leave_out(9, 0, 5, 5, Cut.LEFT_OUT)
    connections.end(9, 0, 5)
    connections.close(9, 5)
    assert (heard.events, heard.ends) == ([], [])


def test_clusters_are_bounded() -> None:
    clusters = Clusters()
    views = [clusters.view(str(number)) for number in range(1_001)]
    assert clusters.view("1000") is views[1_000]
    assert clusters.view("0") is not views[0]


def test_the_topic_of_the_metadata_log_is_known_from_the_start() -> None:
    assert new_cluster_view().topic_name(METADATA_TOPIC_ID) == METADATA_TOPIC
