"""What events are made of."""

from kproxy.session import BadFrame, Connection, Direction, Exchange, Gap, NotKafka, SaslToken, Tls

CONNECTION = Connection(4, "10.0.0.5:51234", "[::1]:9092")


def test_all_events_tell_their_connection_and_time() -> None:
    for event in (Exchange, SaslToken, Gap, NotKafka, BadFrame, Tls):
        said = event(CONNECTION, 7)
        assert said.connection is CONNECTION and said.at == 7


def test_events_are_equal_when_all_their_fields_are() -> None:
    assert Gap(CONNECTION, 7, Direction.RESPONSE, 5) == Gap(CONNECTION, 7, Direction.RESPONSE, 5) != Gap(CONNECTION, 7)
    assert repr(BadFrame(CONNECTION, 7, reason="why")).endswith("at=7, direction=<Direction.REQUEST: 0>, reason='why')")
