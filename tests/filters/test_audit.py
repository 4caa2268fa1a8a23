"""Audit: a line for each request, whatever becomes of it; nothing secret, and never more than one line."""

import json
import random
from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.filters.audit import NO_REQUEST, Audit, AuditOptions
from kproxy.filters.contract import Answer, Close, Direction, Outcome, RequestFacts, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.options import Rotated
from tests.support.filtering import Bench, GivenJournal, Scripted
from tests.support.messages import answer_frame, answer_in, request_frame

FILE = Rotated(path="audit.jsonl")


class Audited(Bench):
    """An audited connection."""

    def __init__(self, *others: Any, **options: Any) -> None:
        super().__init__(Audit(AuditOptions(file=FILE, **options)), *others)

    @property
    def journal(self) -> GivenJournal:
        found: GivenJournal = self.runtime.journals["audit.jsonl"]
        return found

    def created(self, *codes: int, correlation_id: int = 7) -> Outcome:
        topics = [{"name": "x", "error_code": code} for code in codes]
        frame = answer_frame("CreateTopicsResponse", 7, correlation_id, topics=topics)
        return self.answer(RequestFacts(19, 7, correlation_id), frame)


def test_who_did_what() -> None:
    bench = Audited()
    bench.at.principal, bench.at.mechanism, bench.at.software = "alice", "PLAIN", ("librdkafka", "2.5")
    assert isinstance(bench.create("a", "b"), Send)
    assert bench.journal.lines == {}
    bench.runtime.at += 0.25
    assert isinstance(bench.created(0, 36), Send)
    assert bench.journal.fields() == [
        {
            "event": "request",
            "at": "1970-01-01T00:16:40.000Z",
            "worker": 0,
            "cluster": "default",
            "connection": 1,
            "client": "10.0.0.5:51234",
            "listener": "10.0.0.1:9092",
            "broker": "10.0.0.9:9092",
            "principal": "alice",
            "mechanism": "PLAIN",
            "clientId": "app",
            "software": "librdkafka",
            "softwareVersion": "2.5",
            "api": "CreateTopics",
            "apiVersion": 7,
            "correlationId": 7,
            "resources": [{"type": "topic", "name": "a"}, {"type": "topic", "name": "b"}],
            "allResources": True,
            "outcome": "failed",
            "errors": {"TOPIC_ALREADY_EXISTS": 1},
            "latencyMs": 250.0,
        }
    ]


def test_a_connection_that_closes_first() -> None:
    bench = Audited()
    bench.create("a", correlation_id=1)
    bench.create("b", correlation_id=1)
    bench.chain.on_close(bench.at)
    assert [line["outcome"] for line in bench.journal.fields()] == ["no response"] * 2
    assert (bench.journal.seen, bench.journal.written) == (2, 2)


def test_what_a_later_filter_answers_is_an_outcome_too() -> None:
    def refuse(request: Any) -> Any:
        raise ZeroDivisionError

    bench = Audited(Scripted(refuse, requests=(19,), fault_error=29))
    assert isinstance(bench.create("a"), Answer)
    assert bench.journal.fields()[0]["errors"] == {"TOPIC_AUTHORIZATION_FAILED": 1}


def test_the_data_plane_is_not_held() -> None:
    audit = Audit(AuditOptions(file=FILE))
    for api_key in (0, 1, 2, 3, 8, 9, 10, 12, 14, 18, 22, 26, 68, 78, 79):
        for direction in Direction:
            assert audit.wants(direction, api_key, 1) is Want.PASS
    for api_key in (11, 13, 19, 20, 21, 29, 30, 31, 32, 33, 36, 37, 42, 44, 45, 47, 49, 50, 51, 57):
        assert audit.wants(Direction.REQUEST, api_key, 1) is Want.HOLD


def test_chosen_topics_of_the_data_plane() -> None:
    bench = Audited(topics=("orders-*",))

    bench.produce("other", version=7, acks=0)
    bench.produce("orders-1", version=7, acks=0)
    (line,) = bench.journal.fields()
    assert (line["api"], line["outcome"]) == ("Produce", "no response is expected")
    assert line["resources"] == [{"type": "topic", "name": "orders-1"}]


def test_topics_by_id_have_the_name_that_metadata_gave() -> None:
    bench = Audited()
    bench.runtime.kept["topic_names"] = {"AAAAAAAAAAAAAAAAAAAAAQ": "a"}
    bench.ask("DeleteTopicsRequest", 6, topics=[{"name": None, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}])
    bench.chain.on_close(bench.at)
    assert bench.journal.fields()[0]["resources"] == [{"type": "topic", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "name": "a"}]


def test_block_holds_the_response_until_the_line_is_written() -> None:
    bench = Audited()
    bench.create("a")
    bench.journal.is_writable = False
    given = bench.created
    real = bench.runtime.sleep

    async def sleep(seconds: float) -> None:
        bench.journal.is_writable = bench.runtime.at > 1_003
        assert not bench.journal.lines
        await real(seconds)

    bench.runtime.sleep = sleep  # type: ignore[method-assign]
    assert isinstance(given(0), Send)
    assert len(bench.journal.lines) == 1


def test_block_refuses_when_nothing_can_be_written() -> None:
    """A request is not forwarded and gets KAFKA_STORAGE_ERROR; a response that waits is not sent, and is counted."""
    bench = Audited(patience=2.0)
    bench.create("a")
    bench.journal.is_writable = False
    assert isinstance(bench.created(0), Close)
    assert (bench.journal.seen, bench.journal.written, bench.journal.dropped) == (1, 0, 1)
    refused = bench.create("b")
    assert isinstance(refused, Answer)
    answer = answer_in(19, 7, refused.frame)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("b", 56)]
    assert bench.journal.seen == 1


def test_drop_and_count_lets_traffic_go_on() -> None:
    bench = Audited(mode="drop-and-count")
    bench.journal.is_writable = False
    for _ in range(10):
        assert isinstance(bench.create("a"), Send)
        assert isinstance(bench.created(0), Send)
    assert (bench.journal.seen, bench.journal.written, bench.journal.dropped) == (10, 0, 10)


def test_a_line_has_a_bounded_length() -> None:
    """A thousand names of 32,000 characters, each six bytes in JSON: some are left out, and the line says so."""
    bench = Audited(mode="drop-and-count")
    names = [f"{number}" + "\x1b" * 32_000 for number in range(1_000)]
    bench.ask("DeleteTopicsRequest", 4, topic_names=names)
    bench.chain.on_close(bench.at)
    (line,) = bench.journal.lines.values()
    fields = json.loads(line)
    assert len(line) < 1 << 16
    assert (fields["allResources"], fields["resources"][0]["name"]) == (False, names[0][:1_000])


def hostile(numbers: random.Random) -> str:
    bad = [
        "\n",
        "\r\n",
        "\x1b[2J",
        "\0",
        "\u202e",
        "\u2028",
        "\x85",
        "\udcff",
        '"',
        "\\",
        "{}",
        "\x7f",
        "é",
        "\U0001d54f",
    ]
    return "".join(numbers.choices(bad, k=numbers.randint(1, 30)))


def test_hostile_names_are_one_line_each() -> None:
    bench, numbers = Audited(mode="drop-and-count"), random.Random(7)
    for _ in range(2_000):
        names = [hostile(numbers) for _ in range(50)]
        bench.at.principal = hostile(numbers)
        frame = request_frame("DeleteTopicsRequest", 4, topic_names=[n.replace("\udcff", "") for n in names])
        bench.chain.on_request(bench.at, frame)
    bench.chain.on_close(bench.at)
    assert len(bench.journal.lines) == 2_000
    for line in bench.journal.lines.values():
        assert line.isascii() and line.decode().isprintable()
        json.loads(line)


def test_no_secret_of_a_login_is_written() -> None:
    bench = Audited()
    bench.ask("SaslHandshakeRequest", 1, mechanism="PLAIN")
    bench.ask("SaslAuthenticateRequest", 2, auth_bytes=b"\0alice\0canary")
    bench.chain.on_close(bench.at)
    (line,) = bench.journal.lines.values()
    assert b"SaslAuthenticate" in line
    assert b"canary" not in line and b"Y2FuYXJ5" not in line and b"63616e617279" not in line


@pytest.mark.parametrize("accepted", [True, False])
def test_a_login_by_raw_tokens_has_one_line(accepted: bool) -> None:
    """After SaslHandshake v0 its tokens are no requests. The broker closes the connection where it refuses them."""
    bench = Audited()
    bench.ask("SaslHandshakeRequest", 0, mechanism="PLAIN")
    bench.chain.on_token(bench.at, b"\0alice\0canary")
    bench.chain.on_token(bench.at, b"\0alice\0canary")
    assert (bench.journal.seen, bench.journal.lines) == (1, {})
    if accepted:
        bench.chain.on_token(bench.at, None)
    bench.chain.on_close(bench.at)
    (line,) = bench.journal.fields()
    assert (line["api"], line["apiVersion"], line["correlationId"]) == ("SaslAuthenticate", None, None)
    assert line["outcome"] == ("done" if accepted else NO_REQUEST)
    assert (line["principal"], line["mechanism"]) == (("alice", "PLAIN") if accepted else (None, None))
    assert (bench.journal.seen, bench.journal.written) == (1, 1)
    assert b"canary" not in bench.journal.lines[1]


def test_a_second_login_by_raw_tokens_has_a_line_of_its_own() -> None:
    bench = Audited()
    for name in (b"alice", b"bob"):
        bench.ask("SaslHandshakeRequest", 0, mechanism="PLAIN")
        bench.chain.on_token(bench.at, b"\0" + name + b"\0canary")
        bench.chain.on_token(bench.at, None)
    assert [line["principal"] for line in bench.journal.fields()] == ["alice", "bob"]
    others = Audited(api_name=("CreateTopics",))
    others.chain.on_token(others.at, b"\0alice\0canary")
    others.chain.on_close(others.at)
    assert others.journal.seen == 0


def test_a_produce_that_wants_no_answer_is_closed_where_nothing_can_be_written() -> None:
    bench = Audited(topics=("orders-*",), patience=1.0)
    bench.journal.is_writable = False
    assert isinstance(bench.produce("orders-1", version=7, acks=0), Close)


def test_options_with_mistakes() -> None:
    with pytest.raises(UsageError, match="there is no API 'CreateTopic'"):
        load_filter("audit", {"file": {"path": "x"}, "api_name": ["CreateTopic"]})
    with pytest.raises(UsageError, match=r"file.path: it is missing"):
        load_filter("audit", {"file": {}})


def test_two_audits_and_a_reload_mix_no_numbers() -> None:
    """Each request is in the file of the filter that took its number, also if another filter sees its response."""
    bench = Audited()
    second = Audit(AuditOptions(file=Rotated(path="topics.jsonl"), api_name=("CreateTopics", "ListGroups")))
    bench.use(bench.filter, second)
    bench.ask("ListGroupsRequest", 4, correlation_id=6)
    assert bench.create("a").__class__ is Send
    assert isinstance(bench.created(0), Send)
    third = Audit(AuditOptions(file=Rotated(path="new.jsonl")))
    bench.create("b", correlation_id=8)
    bench.use(third)
    assert isinstance(bench.created(0, correlation_id=8), Send)
    bench.chain.on_close(bench.at)
    first, topics = bench.journal, bench.runtime.journals["topics.jsonl"]
    assert {name: kept.seen for name, kept in bench.runtime.journals.items()} == {
        "audit.jsonl": 3,
        "topics.jsonl": 3,
        "new.jsonl": 0,
    }
    assert [line["correlationId"] for line in first.fields()] == [7]
    assert [line["correlationId"] for line in topics.fields()] == [7]


def test_the_principal_of_a_request_sent_behind_a_login() -> None:
    bench = Audited()
    bench.create("a")
    bench.at.principal, bench.at.mechanism = "bob", "PLAIN"
    bench.created(0)
    assert [(line["principal"], line["mechanism"]) for line in bench.journal.fields()] == [("bob", "PLAIN")]


def test_other_topics_before_it_and_an_id_do_not_hide_a_chosen_topic() -> None:
    bench = Audited(topics=("orders-*",))
    names = [*(f"other-{number}" for number in range(2_000)), "orders-1"]
    bench.produce(*names, version=7, acks=0)
    bench.ask("ProduceRequest", 13, acks=0, topic_data=[{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}])
    assert [line["resources"] for line in bench.journal.fields()] == [
        [{"type": "topic", "name": "orders-1"}],
        [{"type": "topic", "id": "AAAAAAAAAAAAAAAAAAAAAQ"}],
    ]


def test_a_line_that_is_late_is_waited_for_in_both_modes() -> None:
    """For as long as the disk may answer; a response does not leave before."""
    bench = Audited(mode="drop-and-count")
    bench.create("a")
    bench.journal.is_writable, bench.journal.is_late = False, True
    real = bench.runtime.sleep

    async def sleep(seconds: float) -> None:
        bench.journal.is_writable = bench.runtime.at > 1_000.5
        await real(seconds)

    bench.runtime.sleep = sleep  # type: ignore[method-assign]
    assert isinstance(bench.created(0), Send)
    assert (bench.journal.written, bench.journal.dropped) == (1, 0)


def test_what_is_too_large_to_be_held_has_a_line_with_its_number() -> None:
    bench = Audited(mode="drop-and-count")
    bench.chain.note_too_large(bench.at, Direction.REQUEST, 19, 7, 5_000)
    bench.create("a", correlation_id=1)
    bench.create("b", correlation_id=2)
    bench.chain.note_too_large(bench.at, Direction.RESPONSE, 19, 7, 6_000)
    bench.created(0, correlation_id=2)
    lines = bench.journal.fields()
    assert [(line["api"], line["correlationId"], line["outcome"]) for line in lines] == [
        ("CreateTopics", -1, "the request of 5000 bytes is too large to be read"),
        ("CreateTopics", 1, "the response of 6000 bytes is too large to be read"),
        ("CreateTopics", 2, "done"),
    ]
    assert (bench.journal.seen, bench.journal.written, bench.journal.dropped) == (3, 3, 0)
