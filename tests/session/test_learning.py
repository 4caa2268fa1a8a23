"""What exchanges tell beyond themselves."""

from kproxy.session.cluster import ClusterView
from kproxy.session.events import Connection
from kproxy.session.exchanges import Exchange, Frame, Route, read_body, route_of
from kproxy.session.learning import Learning
from tests.support.frames import (
    delete_topic,
    request,
    sasl_authenticate,
    sasl_handshake,
    string,
)

ORDERS = bytes(range(16))


def learner() -> tuple[Learning, Connection, ClusterView]:
    connection, cluster = Connection(1, "c:1", "b:1"), ClusterView()
    return Learning(connection, cluster, 100), connection, cluster


def asked(framed: bytes, api_key: int, api_version: int, body_start: int) -> tuple[Route, Frame]:
    route = route_of(api_key, api_version)
    assert route is not None
    frame = Frame(framed[4:], 0, 0, None, body_start)
    read_body(frame, route.request, api_version)
    assert frame.error is None
    return route, frame


def test_the_mechanism_and_no_more_of_it_than_is_sane() -> None:
    learning, connection, _ = learner()
    learning.from_handshake(asked(sasl_handshake(1, 1, "SCRAM-SHA-512"), 17, 1, 13)[1])
    assert connection.sasl_mechanism == "SCRAM-SHA-512"
    learning.from_handshake(asked(request(17, 1, 1, string("x" * 5_000)), 17, 1, 13)[1])
    assert connection.sasl_mechanism == "x" * 255


def test_the_user_is_the_first_that_a_token_names() -> None:
    learning, connection, _ = learner()
    learning.from_handshake(asked(sasl_handshake(1, 1, "PLAIN"), 17, 1, 13)[1])
    for token in (b"no token of PLAIN", b"\0alice\0alice-secret", b"\0mallory\0"):
        route, frame = asked(sasl_authenticate(1, token), 36, 0, 13)
        learning.from_exchange(route, Exchange(connection, 0, 36, 0, 1, "app", frame))
    assert connection.user_name == "alice"


def test_a_topic_is_named_even_when_its_name_is_learned_later() -> None:
    learning, connection, cluster = learner()
    route, frame = asked(delete_topic(1, ORDERS), 20, 6, 14)
    exchange = Exchange(connection, 0, 20, 6, 1, "app", frame)
    learning.from_exchange(route, exchange)
    cluster.learn_topic("AAECAwQFBgcICQoLDA0ODw", "orders")
    assert dict(exchange.topic_names) == {"AAECAwQFBgcICQoLDA0ODw": "orders"}
