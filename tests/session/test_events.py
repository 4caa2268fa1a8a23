"""What events are made of."""

from kproxy.session import BadFrame, Connection, Direction, Exchange, Frame, Gap, NotKafka, SaslToken

CONNECTION = Connection(4, "10.0.0.5:51234", "[::1]:9092")


def test_the_wire_size_has_the_size_field() -> None:
    assert Frame(b"12345", 1, 2).wire_size == 9


def test_an_exchange_begins_with_nothing_known() -> None:
    exchange = Exchange(CONNECTION, 5)
    assert exchange.request is None and exchange.response is None and exchange.fetch_session is None
    assert exchange.expects_response and dict(exchange.topic_names) == {}


def test_all_events_tell_their_connection_and_time() -> None:
    for event in (Exchange, SaslToken, Gap, NotKafka, BadFrame):
        said = event(CONNECTION, 7)
        assert said.connection is CONNECTION and said.at == 7


def test_directions_are_words() -> None:
    assert [str(direction) for direction in Direction] == ["request", "response"]
