"""--where: right answers, nothing read that is not named, one sentence for what is wrong."""

import pytest
from msgspec.structs import replace

from kproxy.errors import UsageError
from kproxy.output.bodies import Bodies
from kproxy.output.entities import Entities
from kproxy.output.where import Where
from kproxy.session import Direction, Event, Exchange, Gap, Tls
from kproxy.session.events import TlsFacts
from tests.support.conversation import broker, client, closing, events_of
from tests.support.corpus import CONNECTION, START
from tests.support.frames import (
    array,
    heartbeat,
    heartbeat_answer,
    request,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
    string,
)


def exchange(error_code: int = 27) -> Event:
    (event,) = events_of(client >> heartbeat(7), broker >> heartbeat_answer(7, error_code))
    return event


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ('apiName == "Heartbeat" && apiVersion == 0', True),
        ("apiKey == 12 && correlationId == 7 && connection == 1", True),
        ("latencyMs > 500.0", False),
        ("latencyMs < 0.01 && requestSize == 29 && responseSize == 10", True),
        ('clientId.startsWith("a") && client.endsWith(":51234")', True),
        ('request.groupId == "g"', True),
        ("response.errorCode == 27", True),
        ('errors.exists(e, e.name == "REBALANCE_IN_PROGRESS")', True),
        ('errors.exists(e, e.name == "NONE")', False),
        ("undecoded == null && unanswered == null && expectsResponse", True),
        ('requestHeader.clientId in ["app", "b"]', True),
        ('requestAt < "2000"', True),
        ("topicNames.size() == 0 && embedded.size() == 0", True),
        ("true", True),
        ('address == "10.0.0.5" && software == null && softwareVersion == null && mechanism == null', True),
        ('"REBALANCE_IN_PROGRESS" in errorNames && errorNames == ["REBALANCE_IN_PROGRESS"]', True),
    ],
)
def test_answers(expression: str, answer: bool) -> None:
    assert Where(expression)(exchange()) is answer


def test_scalars_need_no_body() -> None:
    where = Where('apiName == "Heartbeat" && latencyMs >= 0.0')
    assert not where.reads_bodies
    assert where.read_bodies(exchange()) is None
    assert where(exchange(), Bodies(b"not JSON", b"not JSON"))  # not looked at


def test_bodies_are_read_once_when_named() -> None:
    where = Where("response.errorCode == 27")
    bodies = where.read_bodies(exchange())
    assert bodies is not None
    assert where(exchange(0), bodies)  # the given ones count


def test_events_that_lack_a_name_are_not_wanted() -> None:
    gap = Gap(CONNECTION, START, Direction.RESPONSE, 100)
    assert not Where("apiKey == 12")(gap)
    assert Where('event == "gap" && size > 50')(gap)
    assert not Where("size > 50")(exchange())


def test_a_line_is_judged_as_it_stands() -> None:
    line = b'{"event":"exchange","apiKey":12,"latencyMs":3.5,"response":{"errorCode":27},"new":1}'
    assert Where("latencyMs > 3.0").holds_for(line)
    assert Where("response.errorCode == 27").holds_for(line)
    assert not Where("apiKey == 3").holds_for(line)
    assert not Where("requestSize > 0").holds_for(line)  # it has none


def test_tls_is_a_name_too() -> None:
    secure = replace(CONNECTION, tls=TlsFacts(version="TLS 1.3"))
    assert Where('event == "tls" && tls.version == "TLS 1.3"')(Tls(secure, START))


def test_a_missing_field_is_false_and_told_once() -> None:
    where = Where('request.topics[0].name == "orders"')
    assert [where(exchange()) for _ in range(3)] == [False] * 3
    assert where.notes == ["no field 'topics'"]


def test_a_huge_body_is_not_looked_into_and_that_is_told() -> None:
    bodies = Bodies(b'{"groupId":"' + b"g" * 17_000_000 + b'"}', b'{"errorCode":27}')
    where = Where('request.groupId != ""')
    assert not where(exchange(), bodies)
    assert where.notes == ["request of more than 16.0 MB as JSON was not looked into"]
    assert Where("errors.exists(e, e.code == 27)")(exchange(), bodies)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("apiKey = 3", "column 8"),
        ("apiKey ==", "column 10"),
        ("(((", "column 4"),
        ("apikey == 3", "nothing is called 'apikey' (column 1); did you mean apiKey?"),
        ("true && latency > 1.0", "did you mean latencyMs?"),
        ("zzz == 1", "kproxy help conditions lists the names"),
        ('api == "Fetch"', "did you mean apiName?"),
        ("fetch(apiKey)", "no function 'fetch'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(expression: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Where(expression)
    assert said in str(caught.value)
    assert str(caught.value).startswith("where") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "expression", ["unanswered.startsWith('a')", "apiKey.size() == 1", 'apiName.matches("(")', "1 / 0 == 1"]
)
def test_what_cannot_be_answered_is_false(expression: str) -> None:
    where = Where(expression)
    assert not where(exchange())
    assert len(where.notes) == 1
    assert "\n" not in where.notes[0]


@pytest.mark.parametrize("expression", ["apiKey", "clientId", "1 + 1"])
def test_what_is_no_condition_is_said_in_one_sentence(expression: str) -> None:
    with pytest.raises(UsageError) as caught:
        Where(expression)(exchange())
    assert "\n" not in str(caught.value)


def metadata(correlation_id: int, *topics: str) -> bytes:
    """Metadata v0: topics."""
    return request(3, 0, correlation_id, array(*map(string, topics)))


LOGIN = (
    client >> sasl_handshake(1, 1, "PLAIN"),
    broker >> sasl_handshake_answer(1),
    client >> sasl_authenticate(2, b"\0alice\0secret"),
    broker >> sasl_authenticate_answer(2),
)
WORK = (client >> heartbeat(3, "billing"), broker >> heartbeat_answer(3), client >> metadata(4, "orders", "a b"))


def exchanges(*steps: object) -> list[Exchange]:
    return [event for event in events_of(*steps, closing) if isinstance(event, Exchange)]


def test_topics_groups_and_the_principal_after_a_login() -> None:
    entities = Entities()
    found = [entities.of(exchange) for exchange in exchanges(*LOGIN, *WORK)]
    assert [one["principal"] for one in found] == [None, "alice", "alice", "alice"]
    assert [one["groups"] for one in found] == [[], [], ["billing"], []]
    assert [one["topics"] for one in found] == [[], [], [], ["orders", "a b"]]


def test_without_a_login_the_certificate_says_who_it_is_and_else_nobody() -> None:
    (first, *_) = exchanges(*WORK)
    assert Entities().of(first)["principal"] is None
    assert Entities().of(first)["groups"] == ["billing"]
