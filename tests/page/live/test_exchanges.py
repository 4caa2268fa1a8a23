"""LiveExchanges: an exchange of records is the one that the analyzer had; connections are forgotten with their exchanges."""

import threading
from typing import Any

from kproxy.output.jsonl import event_line
from kproxy.page.live.exchanges import LiveExchanges, SharedView
from kproxy.protocol import ApiKey
from kproxy.proxy.page_records import Begun, Shown, Side, Topics, Unusual
from kproxy.session import Exchange, Frame
from tests.page.asking import ORDERS
from tests.page.live.test_files import read

BEGUN = Begun(1, 5, "127.0.0.1:1", "127.0.0.1:2", "orders", sasl_mechanism="PLAIN")


def test_what_the_analyzer_says_of_a_frame_is_shown() -> None:
    known = LiveExchanges()
    unusual = Unusual(False, None, None, "no such version", 0, False, 4, 2, "body of 4 bytes blanked")
    side = Side(b"\0\0\0\7", 1, 2, 3, 4, 9, unusual)
    connection = known.begin(3, BEGUN)
    shown = Shown(3, 6, ApiKey.FETCH, 99, 7, "client", None, side, False, True, None, None)
    exchange = known.exchange(connection, shown)
    assert exchange.connection.number == 3
    assert exchange.response is not None
    assert (exchange.response.message, str(exchange.response.error), exchange.response.trailing) == (
        None, "no such version", 2,
    )  # fmt: skip
    item = known.item(connection, shown)
    assert item.request is None
    assert item.response is not None
    assert item.response.note == "body of 4 bytes blanked"
    assert b'"undecoded":"no such version"' in item.line


def test_names_of_topics_come_with_the_feed_and_with_metadata() -> None:
    known = LiveExchanges()
    connection = known.begin(1, BEGUN)
    known.learn_topics(Topics("orders", {"AAAAAAAAAAAAAAAAAAAAAg": "from the feed"}))
    events, _ = read(ORDERS)
    for event in events:
        if isinstance(event, Exchange):
            known.learn(connection, event)
    assert connection.view.topic_name("AAAAAAAAAAAAAAAAAAAAAg") == "from the feed"
    named = {name for event in events if isinstance(event, Exchange) for name in event.topic_names.values()}
    assert named <= set(connection.view.topics.values())
    assert named


def test_a_line_has_what_is_asked_for() -> None:
    known = LiveExchanges()
    connection = known.begin(1, BEGUN)
    events, _ = read(ORDERS)
    join = next(event for event in events if isinstance(event, Exchange) and event.api_key == ApiKey.JOIN_GROUP)
    sides = [_side(frame) for frame in (join.request, join.response)]
    shown = Shown(
        1, join.at, 11, join.api_version, join.correlation_id, join.client_id, *sides, False, True, None, None
    )
    whole = known.line(connection, shown)
    assert b'"embedded":[{' in whole
    assert b'"embedded":[]' in known.line(connection, shown, ["request"])
    join.connection.number, join.connection.client, join.connection.broker = 1, BEGUN.client, BEGUN.broker
    assert whole.partition(b'"embedded"')[0] == event_line(join).partition(b'"embedded"')[0]


def _side(frame: Frame | None) -> Side:
    assert frame is not None
    return Side(frame.data, frame.started_at, frame.ended_at, 0, frame.body_start, frame.body_version)


def test_a_connection_is_forgotten_when_it_is_over_and_its_exchanges_have_left() -> None:
    known = LiveExchanges()
    for number in (1, 2, 3):
        known.begin(number, BEGUN).last = number * 10
    known.end(1)
    known.end(3)
    known.forget_before(20)
    assert set(known.connections) == {2, 3}
    known.forget_before(31)
    assert set(known.connections) == {2}


class ReadSlowly:
    """A frame; while it is decoded another thread asks for a name that is in it."""

    def __init__(self, frame: Any, view: SharedView, topic_id: str) -> None:
        self.message, self.cut, self.data, self.body_start = frame.message, frame.cut, frame.data, frame.body_start
        self.answers: list[str | None] = []
        self.asking = threading.Thread(target=lambda: self.answers.append(view.topic_name(topic_id)))
        self._frame = frame

    def decode(self) -> Any:
        self.asking.start()
        self.asking.join(0.1)
        return self._frame.decode()


def test_a_name_that_another_thread_is_reading_is_waited_for() -> None:
    exchanges = [event for event in read(ORDERS)[0] if isinstance(event, Exchange)]
    frames = [one.response for one in exchanges if one.api_key == ApiKey.METADATA and one.response is not None]
    frame, topic = next((frame, topic) for frame in frames for topic in frame.decode().topics if topic.name)
    view = SharedView()
    slow: Any = ReadSlowly(frame, view, topic.topic_id)
    view.note(slow)
    assert dict(view.topics)[topic.topic_id] == topic.name
    slow.asking.join(30)
    assert slow.answers == [topic.name]
