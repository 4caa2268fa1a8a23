"""What events are made of."""

from kproxy.session import BadFrame, Connection, Direction, Exchange, Gap, NotKafka, SaslToken, Tls
from kproxy.session.endings import CAPTURE_ENDED, Cut, before_response, inside, who_closed
from kproxy.session.limits import Limits

CONNECTION = Connection(4, "10.0.0.5:51234", "[::1]:9092")


def test_all_events_tell_their_connection_and_time() -> None:
    for event in (Exchange, SaslToken, Gap, NotKafka, BadFrame, Tls):
        said = event(CONNECTION, 7)
        assert said.connection is CONNECTION and said.at == 7


def test_events_are_equal_when_all_their_fields_are() -> None:
    assert Gap(CONNECTION, 7, Direction.RESPONSE, 5) == Gap(CONNECTION, 7, Direction.RESPONSE, 5) != Gap(CONNECTION, 7)
    assert repr(BadFrame(CONNECTION, 7, reason="why")).endswith("at=7, direction=<Direction.REQUEST: 0>, reason='why')")


def test_a_whole_frame_is_not_cut() -> None:
    assert not Cut.WHOLE and Cut.WHOLE.text == ""


def test_each_reason_has_words_of_its_own() -> None:
    texts = [cut.text for cut in Cut if cut]
    assert all(texts) and len(set(texts)) == len(texts)
    assert Cut.LEFT_OUT.text == "left out: the analyzer was behind"


def test_it_is_said_who_sent_fin_or_rst() -> None:
    assert who_closed(Direction.REQUEST, reset=False) == "the client closed the connection"
    assert who_closed(Direction.RESPONSE, reset=True) == "the broker reset the connection"


def test_it_is_said_what_was_in_flight() -> None:
    assert before_response(CAPTURE_ENDED) == "the capture ended before the response"
    assert inside(who_closed(Direction.REQUEST, reset=True), "response") == (
        "the client reset the connection inside the response"
    )


def test_frames_are_as_large_as_brokers_take_them() -> None:
    # SocketServerConfigs.SOCKET_REQUEST_MAX_BYTES_DEFAULT, BrokerSecurityConfigs.DEFAULT_SASL_SERVER_MAX_RECEIVE_SIZE
    assert Limits().frame_size == 100 * 1024 * 1024
    assert Limits().unauthenticated_frame_size == 512 * 1024
