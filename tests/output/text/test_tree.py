"""The whole of an exchange: every field of Kafka's JSON is in the tree, special values have their names."""

import tracemalloc
from struct import pack
from typing import Any

import pytest

from kproxy.output.text.lines import TextLines
from kproxy.output.text.styles import ANSI
from kproxy.output.text.tree import Tree
from kproxy.session import Exchange
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import golden_exchange, golden_exchanges, golden_pairs
from tests.support.frames import array, heartbeat, heartbeat_answer, request, response, string


def lines_of(exchange: object, width: int = 100) -> list[str]:
    assert isinstance(exchange, Exchange)
    return list(Tree(width=width).render(exchange))


def names_in(value: Any) -> set[str]:
    """Every key of the JSON."""
    if isinstance(value, list):
        return {name for inner in value for name in names_in(inner)}
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in names_in(inner)}
    return set()


def test_every_field_of_every_message_is_there() -> None:
    for asked, answered, exchange in golden_exchanges():
        text = "\n".join(lines_of(exchange))
        missing = {name for name in names_in(asked["json"]) | names_in(answered["json"]) if f"{name}" not in text}
        assert not missing, (asked["message"], asked["version"])


def test_lines_are_lines() -> None:
    for _, _, exchange in golden_exchanges():
        assert all(line.isprintable() for line in lines_of(exchange))


def find(message: str, version: int) -> Exchange:
    return golden_exchange(
        *next(p for p in golden_pairs() if p[0]["message"] == message and p[0]["version"] == version)
    )


def test_the_tree_as_it_looks() -> None:
    (exchange,) = events_of(client >> heartbeat(7), broker >> heartbeat_answer(7, 27))
    assert lines_of(exchange) == [
        "  request  29 bytes",
        "  ├─ header: requestApiKey 12 (Heartbeat)  requestApiVersion 0  correlationId 7  clientId app",
        "  ├─ groupId: g",
        "  ├─ generationId: 5",
        "  └─ memberId: m-1",
        "  response  10 bytes",
        "  ├─ header: correlationId 7",
        "  └─ errorCode: 27 (REBALANCE_IN_PROGRESS)",
        "  REBALANCE_IN_PROGRESS (27, no RetriableException) at errorCode",
        "  ├─ The group is choosing new assignments.",
        "  └─ Client: finish work at hand and join again (JoinGroup).",
    ]


@pytest.mark.parametrize(
    ("message", "version", "shown"),
    [("FetchRequest", 4, "isolationLevel: "), ("SaslAuthenticateRequest", 2, "authBytes: (withheld)")],
)
def test_what_is_shown(message: str, version: int, shown: str) -> None:
    assert shown in "\n".join(lines_of(find(message, version)))


def test_long_arrays_are_wrapped() -> None:
    """OffsetFetch v1: group id, then topics with partition indexes."""
    indexes = array(*(pack(">i", number) for number in range(100)))
    asked = request(9, 1, 7, string("g") + array(string("orders") + indexes))
    (exchange,) = events_of(client >> asked, closing)
    lines = lines_of(exchange, 60)
    start = next(n for n, line in enumerate(lines) if line.endswith("partitionIndexes: 100"))
    assert " ".join(line.strip() for line in lines[start + 1 :]) == ", ".join(map(str, range(100)))
    assert max(map(len, lines)) <= 60


def named_topics(count: int) -> Exchange:
    """Metadata v1: an array of topic names, here all empty."""
    (exchange,) = events_of(client >> request(3, 1, 7, pack(">i", count) + b"\0\0" * count), closing)
    assert isinstance(exchange, Exchange)
    return exchange


def test_long_arrays_end_in_how_many_more() -> None:
    lines = lines_of(named_topics(1_500))
    assert "  └─ topics: 1500" in lines
    assert lines[-2:] == ['     ├─ [999]: name ""', "     └─ … 500 more; --format jsonl has them"]
    assert not any("more" in line for line in lines_of(named_topics(1_000)))
    indexes = array(*(pack(">i", number) for number in range(1_500)))
    (exchange,) = events_of(client >> request(9, 1, 7, string("g") + array(string("orders") + indexes)), closing)
    text = " ".join(line.strip() for line in lines_of(exchange))
    assert text.endswith(" 998, 999, … 500 more; --format jsonl has them")


@pytest.mark.slow
@pytest.mark.parametrize("count", [300_000, 2_000_000])
def test_neither_output_nor_memory_grow_without_bounds(count: int) -> None:
    """A topic is two bytes on the wire, and would be a dict and a line of the tree."""
    exchange = named_topics(count)
    tracemalloc.start()
    size = sum(map(len, Tree().render(exchange))) + len(TextLines().render(exchange))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size < 50_000
    assert peak < 100_000_000
    assert ("too much to show" in "\n".join(lines_of(exchange))) == (count > 1_000_000)


def test_topic_ids_have_names() -> None:
    exchange = find("FetchRequest", 13)
    topic_id = next(p for p in golden_pairs() if p[0]["message"] == "FetchRequest" and p[0]["version"] == 13)[0][
        "json"
    ]["topics"][0]["topicId"]
    exchange.topic_names = {topic_id: "orders"}
    assert f"{topic_id} (orders)" in "\n".join(lines_of(exchange))


def test_structs_that_fit_take_one_line_and_others_do_not() -> None:
    asked, answered = next(p for p in golden_pairs() if p[0]["apiKey"] == 18 and p[1]["json"].get("apiKeys"))
    wide = lines_of(golden_exchange(asked, answered), 200)
    narrow = lines_of(golden_exchange(asked, answered), 20)
    assert any("[0]: apiKey" in line and "maxVersion" in line for line in wide)
    assert any(line.endswith("[0]") for line in narrow)


def test_a_body_that_cannot_be_read_says_why() -> None:
    (exchange,) = events_of(client >> heartbeat(7), broker >> response(7, b"\0"))
    assert any("HeartbeatResponse v0" in line for line in lines_of(exchange))


def test_colours_are_closed_on_every_line() -> None:
    (exchange,) = events_of(client >> heartbeat(7), broker >> heartbeat_answer(7, 27))
    assert isinstance(exchange, Exchange)
    for line in Tree(ANSI).render(exchange):
        assert line.count("\x1b[") == 2 * line.count("\x1b[0m")


def test_payloads_stand_below_their_fields() -> None:
    """JoinGroup v0 with a subscription of version 0 to one topic, and one of which only two bytes came."""
    subscription = pack(">h", 0) + array(string("orders")) + pack(">i", -1)
    protocols = array(
        string("range") + pack(">i", len(subscription)) + subscription, string("sticky") + pack(">i", 2) + b"\0\0"
    )
    body = string("g") + pack(">i", 9000) + string("") + string("consumer") + protocols
    (exchange,) = events_of(client >> request(11, 0, 7, body), closing)
    lines = lines_of(exchange)
    start = next(n for n, line in enumerate(lines) if "protocols: 2" in line)
    assert lines[start:] == [
        "  └─ protocols: 2",
        "     ├─ [0]",
        "     │  ├─ name: range",
        "     │  └─ metadata: consumer-subscription",
        "     │     ├─ version: 0",
        "     │     ├─ assignor: range",
        "     │     ├─ value",
        "     │     │  ├─ topics: [orders]",
        "     │     │  └─ userData: null",
        "     │     └─ userData: null",
        "     └─ [1]",
        "        ├─ name: sticky",
        "        └─ metadata: consumer-subscription, ConsumerProtocolSubscription v0: topics: needs 4 bytes, 0 left (at byte 0)",
    ]


def test_a_token_is_withheld_and_opened() -> None:
    token = b"\0alice\0hunter2"
    asked = request(36, 0, 7, pack(">i", len(token)) + token)
    (exchange,) = events_of(client >> asked, closing)
    text = "\n".join(lines_of(exchange))
    assert "authBytes: (withheld), sasl-token" in text
    assert "username: alice" in text or "username alice" in text
    assert "hunter2" not in text
