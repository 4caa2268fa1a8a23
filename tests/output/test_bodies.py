"""Bodies as Kafka's JSON, and the error codes and topic ids in them, against Kafka's own frames."""

import base64
import json
import tracemalloc
from struct import pack
from typing import Any

import pytest

from kproxy.output import bodies as bodies_module
from kproxy.output.bodies import (
    MOST_ERRORS,
    MOST_GROUPS,
    Opener,
    count_errors,
    find_errors,
    find_topic_names,
    read_beginning,
    trailing_of,
    trailing_words,
    user_of,
)
from kproxy.output.exchange_line import read_bodies, read_json
from kproxy.output.from_jsonl import LogReader
from kproxy.output.jsonl import exchange_line
from kproxy.output.tables.body import read_body
from kproxy.output.text.lines import TextLines
from kproxy.output.text.tree import Tree
from kproxy.protocol import facts
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.session import Cut, Event, Exchange
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import golden_exchange, golden_exchanges, golden_pairs, payloads
from tests.support.frames import (
    FRANZ_GO_API_VERSIONS,
    KAFKA_4_3_REFUSAL,
    array,
    frame,
    heartbeat,
    heartbeat_answer,
    metadata,
    metadata_answer,
    produce,
    request,
    response,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
    string,
)


def errors_in(value: Any) -> list[int]:
    """Every number under a name that ends in rrorCode, in order; written apart from the code it checks."""
    if isinstance(value, list):
        return [code for inner in value for code in errors_in(inner)]
    if not isinstance(value, dict):
        return []
    found: list[int] = []
    for name, inner in value.items():
        found += [inner] if name.endswith("rrorCode") and inner else errors_in(inner)
    return found


def at(value: Any, path: str) -> Any:
    """What stands at a path like ``topics[0].partitions[1].errorCode``."""
    for part in path.replace("]", "").replace("[", ".").split("."):
        value = value[int(part)] if part.isdecimal() else value[part]
    return value


def test_every_error_code_in_kafkas_responses_is_found_with_its_path() -> None:
    names = {fact.code: fact.name for fact in facts().errors}
    seen = 0
    for _, line in golden_pairs():
        body = json.dumps(line["json"], separators=(",", ":")).encode()
        found = find_errors(body)
        assert [error.code for error in found] == errors_in(line["json"])
        for error in found:
            assert at(line["json"], error.path) == error.code
            assert error.name == names.get(error.code, f"UNKNOWN_{error.code}")
        seen += len(found)
    assert seen > 300


def test_a_string_that_looks_like_an_error_is_none() -> None:
    assert find_errors(b'{"errorCode":0,"errorMessage":"\\"errorCode\\":3"}') == []
    assert find_errors(None) == []


def test_of_many_errors_the_first_are_listed_and_every_code_is() -> None:
    """JSON by hand: 1,500 times code 3, then 16 twice."""
    codes = [3] * 1_500 + [16, 16]
    body = json.dumps({"topics": [{"errorCode": code} for code in codes]}, separators=(",", ":")).encode()
    found = find_errors(body)
    assert len(found) == MOST_ERRORS + 1
    assert (found[-1].code, found[-1].path) == (16, "topics[1500].errorCode")
    assert found[MOST_ERRORS - 1].path == "topics[999].errorCode"
    assert dict(count_errors(body)) == {3: 1_500, 16: 2}


def test_a_huge_response_is_not_made_objects_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_module, "OPENABLE", 500_000)
    body = b'{"topics":[' + b'{"errorCode":3},' * (500_000 // 16) + b'{"errorCode":16}]}'
    tracemalloc.start()
    found = find_errors(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(error.code, error.path) for error in found] == [(3, ""), (16, "")]
    assert peak < 100_000


def test_bodies_are_kafkas_json() -> None:
    for request_line, response_line, exchange in golden_exchanges():
        if request_line["apiKey"] in SECRET:
            continue
        bodies = read_bodies(exchange)
        assert bodies.undecoded is None
        assert without_tags(json.loads(bodies.request or b"")) == request_line["json"]
        assert without_tags(json.loads(bodies.response or b"")) == response_line["json"]


SECRET = {19, 32, 33, 36, 38, 39, 40, 41, 44, 51, 58}  # something in these is withheld


def without_tags(value: Any) -> Any:
    """JSON without unknown tags, which Kafka's own leaves out."""
    if isinstance(value, list):
        return [without_tags(inner) for inner in value]
    if isinstance(value, dict):
        return {name: without_tags(inner) for name, inner in value.items() if name != "_unknownTaggedFields"}
    return value


def test_topic_names_are_those_of_the_ids_in_the_bodies() -> None:
    request, response_line = next(
        pair
        for pair in golden_pairs()
        if pair[0]["apiKey"] == 1 and pair[0]["version"] == 13 and pair[0]["json"]["topics"]
    )
    exchange = golden_exchange(request, response_line)
    topic_id = request["json"]["topics"][0]["topicId"]
    exchange.topic_names = {topic_id: "orders", "B" * 22: "not in it"}
    assert find_topic_names(exchange, read_bodies(exchange)) == {topic_id: "orders"}
    exchange.topic_names = {}
    assert find_topic_names(exchange, read_bodies(exchange)) == {}


# Metadata v13 of librdkafka 2.16 for topics = null, with three bytes more, and its mock cluster's answer with one more.
NULL_TOPICS = frame(bytes.fromhex("0003 000d 00000002 0007 72646b61666b61 00 00000000 010000"))
NO_TOPICS_ANSWER = frame(bytes.fromhex("00000002 00 00000000 01 00 ffffffff 01 0000 00 00"))
BROKERS = {1: ("kafka-1", 9092), 2: ("kafka-2", 9092)}
ANSWER = metadata_answer(7, {"orders": bytes(15) + b"\1", "payments": bytes(15) + b"\2"}, BROKERS)


def line(*steps: Any) -> tuple[Exchange, dict[str, Any]]:
    (exchange,) = [event for event in events_of(*steps) if isinstance(event, Exchange)]
    return exchange, json.loads(exchange_line(exchange))


def cut_answer(size: int, cut: Cut) -> tuple[Exchange, dict[str, Any]]:
    """A Metadata exchange whose response has the first *size* bytes only."""
    return line(client >> metadata(7), broker >> ANSWER[:size], broker.loses(len(ANSWER) - size, cut))


def test_a_whole_exchange_has_nothing_of_it() -> None:
    exchange, row = line(client >> heartbeat(7), broker >> heartbeat_answer(7))
    assert (row["bodies"], row["trailing"], row["missing"]) == (None, None, None)
    assert trailing_of(exchange) == {}


def test_bytes_after_messages_are_told_by_side() -> None:
    exchange, row = line(client >> NULL_TOPICS, broker >> NO_TOPICS_ANSWER)
    assert row["trailing"] == trailing_of(exchange) == {"request": 3, "response": 1}
    assert (row["undecoded"], row["bodies"], row["missing"]) == (None, None, None)
    assert row["request"]["topics"] is None and row["response"]["controllerId"] == -1
    assert (row["requestSize"], row["responseSize"]) == (len(NULL_TOPICS), len(NO_TOPICS_ANSWER))
    _, row = line(client >> NULL_TOPICS, broker >> frame(NO_TOPICS_ANSWER[4:-1]))
    assert row["trailing"] == {"request": 3}
    assert [trailing_words(size) for size in (1, 3, 1000)] == [
        "1 byte after the message",
        "3 bytes after the message",
        "1,000 bytes after the message",
    ]


@pytest.mark.parametrize(
    ("cut", "why"),
    [
        (Cut.SNAPLEN, "cut by the capture's snaplen"),
        (Cut.MISSING, "missing in the capture"),
        (Cut.LEFT_OUT, "left out: the analyzer was behind"),
    ],
)
def test_a_cut_body_has_its_first_fields_and_the_sizes_of_the_wire(cut: Cut, why: str) -> None:
    size = ANSWER.index(b"payments")
    exchange, row = cut_answer(size, cut)
    assert (row["bodies"], row["undecoded"], row["unanswered"]) == (why, None, None)
    assert (row["responseSize"], row["apiName"]) == (len(ANSWER), "Metadata")
    assert row["latencyMs"] is not None
    assert [one["host"] for one in row["response"]["brokers"]] == ["kafka-1", "kafka-2"]
    assert [one.get("name") for one in row["response"]["topics"]] == ["orders", None]
    assert row["missing"] == {"response": "topics[1].name"}
    assert exchange.response is not None
    assert exchange.response.beginning() == row["response"]


def test_a_body_of_which_no_field_is_whole_is_null() -> None:
    _, row = cut_answer(10, Cut.LEFT_OUT)
    assert (row["response"], row["missing"]) == (None, {"response": "throttleTimeMs"})
    _, row = line(client >> metadata(7)[:12], client.loses(len(metadata(7)) - 12, Cut.SNAPLEN), closing)
    assert (row["request"], row["missing"], row["correlationId"]) == (None, {"request": ""}, 7)


def test_a_body_that_is_whole_but_for_bytes_after_it_lacks_nothing() -> None:
    _, row = line(client >> NULL_TOPICS[:-2], client.loses(2, Cut.SNAPLEN), broker >> NO_TOPICS_ANSWER)
    assert (row["missing"], row["request"]["topics"]) == ({"request": None}, None)
    assert row["requestSize"] == len(NULL_TOPICS)


def test_a_fault_before_the_cut_is_no_matter_of_the_cut() -> None:
    bad = ANSWER[:13] + b"\0" + ANSWER[14:30]  # brokers = null
    _, row = line(client >> metadata(7), broker >> bad, broker.loses(len(ANSWER) - len(bad), Cut.SNAPLEN))
    assert row["bodies"] == "cut by the capture's snaplen"
    assert row["undecoded"].startswith("response: MetadataResponse v12: brokers: is null")


def test_a_body_newer_than_the_facts_is_not_guessed_at() -> None:
    newer = frame(bytes.fromhex("0003 003f 00000002 ffff 00 00 00 00 00"))
    (exchange,) = events_of(client >> newer[:-2], client.loses(2, Cut.SNAPLEN), closing)
    assert isinstance(exchange, Exchange) and exchange.request is not None
    assert read_beginning(exchange.request).json == b"{}" and exchange.request.beginning() is None


def of_every_kind() -> list[list[Event]]:
    return [
        events_of(client >> NULL_TOPICS, broker >> NO_TOPICS_ANSWER),
        *(
            events_of(client >> metadata(7), broker >> ANSWER[:size], broker.loses(len(ANSWER) - size, cut))
            for size in (10, 60, len(ANSWER) - 1)
            for cut in (Cut.SNAPLEN, Cut.MISSING, Cut.LEFT_OUT)
        ),
        events_of(client >> metadata(7), broker >> ANSWER[:40], client.resets(), broker.is_reset(), closing),
        events_of(client >> metadata(7), broker >> ANSWER[:40], closing),
        events_of(client >> produce(7, 0)[:-2], client.loses(2, Cut.SNAPLEN), closing),
    ]


def test_the_log_is_read_back_as_it_was_written() -> None:
    kinds = of_every_kind()
    told = 0
    for events in kinds:
        for exchange in [event for event in events if isinstance(event, Exchange)]:
            written = exchange_line(exchange)
            read, bodies = LogReader().read(written)
            assert isinstance(read, Exchange) and bodies is not None
            assert exchange_line(read, bodies) == written
            assert read.latency_ms == exchange.latency_ms
            told += read.bodies is not None or bool(trailing_of(read))
    assert told == len(kinds)


def test_a_log_from_before_these_fields_is_read() -> None:
    (exchange,) = events_of(client >> heartbeat(7), broker >> heartbeat_answer(7))
    assert isinstance(exchange, Exchange)
    older = exchange_line(exchange).replace(b',"bodies":null,"trailing":null,"missing":null,"edited":[]}', b"}")
    assert b"bodies" not in older
    read, bodies = LogReader().read(older)
    assert bodies is not None and bodies.beginnings == {}
    assert exchange_line(read, bodies) == exchange_line(exchange)  # type: ignore[arg-type]


def test_text_and_tree_can_show_all_of_it() -> None:
    for events in of_every_kind():
        for exchange in [event for event in events if isinstance(event, Exchange)]:
            bodies = read_bodies(exchange)
            assert "UNDECODED" not in TextLines().render(exchange, bodies)
            assert "not decoded" not in "\n".join(Tree().render(exchange, bodies))


AUTHENTICATE = 36


def login(mechanism: str, token: bytes) -> Exchange:
    steps = (
        client >> sasl_handshake(1, 1, mechanism),
        broker >> sasl_handshake_answer(1),
        client >> sasl_authenticate(2, token),
        broker >> sasl_authenticate_answer(2),
    )
    events = [event for event in events_of(*steps, closing) if isinstance(event, Exchange)]
    return next(event for event in events if event.api_key == AUTHENTICATE)


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),  # RFC 4616: authorization id, user, password
        ("PLAIN", b"other\0alice\0secret", "alice"),
        ("PLAIN", b"\0\0secret", None),
        ("PLAIN", b"no NUL at all", None),
        ("SCRAM-SHA-256", b"n,,n=alice,r=" + base64.b64encode(b"nonce"), "alice"),  # RFC 5802
        ("SCRAM-SHA-256", b"c=biws,r=x,p=" + base64.b64encode(b"proof"), None),
        ("GSSAPI", b"\x60\x82\x02\x76", None),
        ("PLAIN", b"", None),
    ],
)
def test_the_user_of_a_token(mechanism: str, token: bytes, user: str | None) -> None:
    exchange = login(mechanism, token)
    body, _ = read_body(exchange.request)
    assert body is not None
    assert user_of(exchange, body.struct, None) == user


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


def produce_to(topic: str, data: bytes) -> bytes:
    """Produce v3: transactional id, acks, timeout, topics."""
    body = string(None) + pack(">hi", 1, 1000) + array(string(topic) + array(pack(">i", 4) + sized(data)))
    return request(0, 3, 5, body)


def produced(topic: str, opener: Opener) -> Any:
    (exchange, *_) = events_of(client >> produce_to(topic, BATCH), broker >> response(5, array() + pack(">i", 0)))
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
