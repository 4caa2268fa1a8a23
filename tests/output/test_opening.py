"""What is inside exchanges, and what earlier ones have to tell for it."""

from struct import pack
from typing import Any

from kproxy.output.bodies import read_bodies, read_json
from kproxy.output.opening import MOST_GROUPS, Opener
from kproxy.output.tables.rows import read_body
from kproxy.output.text.lines import TextLines
from kproxy.output.text.tree import Tree
from kproxy.protocol.embedded import Viewers
from kproxy.session import Event, Exchange
from tests.support.conversation import broker, client, events_of
from tests.support.corpus import payloads
from tests.support.frames import (
    FRANZ_GO_API_VERSIONS,
    KAFKA_4_3_REFUSAL,
    array,
    heartbeat,
    heartbeat_answer,
    request,
    response,
    string,
)

CONNECT = max((bytes.fromhex(line["hex"]) for line in payloads("connect-assignment")), key=len)
CONNECT_METADATA = bytes.fromhex(payloads("connect-metadata")[0]["hex"])
BATCH = bytes.fromhex(payloads("internal-topic-batch")[0]["hex"])


def sized(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def join(correlation_id: int, group: str, kind: str, name: str, metadata: bytes) -> bytes:
    """JoinGroup v0: group, session timeout, member, protocol type, protocols."""
    body = string(group) + pack(">i", 9) + string("") + string(kind) + array(string(name) + sized(metadata))
    return request(11, 0, correlation_id, body)


def join_answer(correlation_id: int, name: str) -> bytes:
    """JoinGroup v0: error, generation, protocol, leader, member, members."""
    return response(correlation_id, pack(">hi", 0, 1) + string(name) + string("a") + string("a") + array())


def sync(correlation_id: int, group: str, assignment: bytes) -> bytes:
    """SyncGroup v0: group, generation, member, assignments."""
    body = string(group) + pack(">i", 1) + string("a") + array(string("a") + sized(assignment))
    return request(14, 0, correlation_id, body)


def sync_answer(correlation_id: int, assignment: bytes) -> bytes:
    return response(correlation_id, pack(">h", 0) + sized(assignment))


def opened(opener: Opener, events: list[Event]) -> list[list[tuple[str | None, str, str]]]:
    found = []
    for event in events:
        opener.learn(event)
        assert isinstance(event, Exchange)
        found.append([(one.where, one.kind, one.path) for one in opener.open(event)])
    return found


def conversation() -> list[Event]:
    return events_of(
        client >> join(1, "workers", "connect", "sessioned", CONNECT_METADATA),
        broker >> join_answer(1, "sessioned"),
        client >> sync(2, "workers", CONNECT),
        broker >> sync_answer(2, CONNECT),
    )


def test_a_sync_group_that_does_not_name_its_protocol_is_read_by_the_join_group_before_it() -> None:
    joined, synced = opened(Opener(), conversation())
    assert joined == [("request", "connect-metadata", "protocols[0].metadata")]
    assert synced == [
        ("request", "connect-assignment", "assignments[0].assignment"),
        ("response", "connect-assignment", "assignment"),
    ]


def test_who_joins_in_late_takes_no_connect_assignment_for_a_consumers() -> None:
    (synced,) = opened(Opener(), conversation()[1:])
    assert synced == []


def test_groups_are_forgotten_when_there_are_too_many() -> None:
    """Hostile input 19: any number of group ids."""
    opener = Opener()
    (exchange,) = events_of(client >> join(1, "g", "connect", "x", b""), broker >> join_answer(1, "x"))
    assert isinstance(exchange, Exchange)
    opener.learn(exchange)
    for number in range(MOST_GROUPS):
        body = join(1, f"g{number}", "consumer", "range", b"")
        assert exchange.request is not None
        exchange.request.data = body[4:]
        opener.learn(exchange)
    assert len(opener.groups) == MOST_GROUPS
    assert "g" not in opener.groups


def test_messages_that_hold_nothing_are_let_pass() -> None:
    (exchange,) = events_of(client >> heartbeat(7), broker >> heartbeat_answer(7))
    assert isinstance(exchange, Exchange)
    opener = Opener()
    opener.learn(exchange)
    assert opener.open(exchange) == []


def produce(topic: str, data: bytes) -> bytes:
    """Produce v3: transactional id, acks, timeout, topics."""
    body = string(None) + pack(">hi", 1, 1000) + array(string(topic) + array(pack(">i", 4) + sized(data)))
    return request(0, 3, 5, body)


def produced(topic: str, opener: Opener) -> Any:
    (exchange, *_) = events_of(client >> produce(topic, BATCH), broker >> response(5, array() + pack(">i", 0)))
    assert isinstance(exchange, Exchange)
    (one,) = opener.open(exchange)
    return one.value()


def test_records_of_ordinary_topics_are_shown_on_demand() -> None:
    closed, shown = produced("orders", Opener()), produced("orders", Opener(Viewers()))
    assert (closed["topic"], closed["partition"]) == ("orders", 4)
    assert "records" not in closed
    assert len(shown["records"]) == closed["count"] > 0
    assert shown["records"][0].keys() == {"offset", "timestamp", "key", "value", "headers"}


def test_what_a_client_said_to_a_broker_that_did_not_read_it() -> None:
    (exchange,) = events_of(client >> FRANZ_GO_API_VERSIONS, broker >> KAFKA_4_3_REFUSAL)
    assert isinstance(exchange, Exchange)
    (found,) = Opener().open(exchange)
    assert (found.path, found.where, found.kind) == ("", "request", "unread")
    assert found.json == {"clientSoftwareName": "kgo", "clientSoftwareVersion": "v1.22.2"}
    bodies = read_bodies(exchange)
    # as in the broker's own request log
    assert bodies.request == b"{}"
    assert bodies.response == b'{"errorCode":35,"apiKeys":[{"apiKey":18,"minVersion":0,"maxVersion":4}]}'
    assert "kgo v1.22.2" in TextLines().render(exchange, bodies)
    assert any(
        "only its header is read by a broker that lacks the version" in line for line in Tree().render(exchange, bodies)
    )
    assert read_body(exchange.request) == (None, None) and read_json(exchange).request == b"{}"
