"""Breakpoints in a chain: what is held, what becomes of it by each decision, and that nothing is held without one."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kproxy.filters.audit import Audit, AuditOptions
from kproxy.filters.breakpoints.breakpoint import Breakpoint
from kproxy.filters.breakpoints.decision import Decision, Stopped
from kproxy.filters.breakpoints.filter import Breakpoints
from kproxy.filters.contract import Answer, Close, Direction, Outcome, RequestFacts, Send, Silence, Want
from kproxy.options import Rotated
from kproxy.protocol import ApiKey, known_message, message, response_message
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import facts
from tests.support.filtering import Bench
from tests.support.frames import request
from tests.support.messages import answer_frame, make, request_frame, response_frame

BY = "127.0.0.1:5000"
PRODUCE = Breakpoint('apiName == "Produce"')


class Person:
    """A Holder that decides at once."""

    def __init__(self, decide: Callable[[Stopped], Decision] | str) -> None:
        self.decide = decide
        self.held: list[Stopped] = []
        self.released: list[int] = []
        self.noted: list[tuple[str, list[str], str]] = []
        self.given_up: list[tuple[str, str, str]] = []

    def hold(self, stopped: Stopped) -> Awaitable[Decision] | str:
        self.held.append(stopped)
        if isinstance(self.decide, str):
            return self.decide
        return self._decision(self.decide(stopped))

    async def _decision(self, decision: Decision) -> Decision:
        return decision

    def release(self, connection: int) -> None:
        self.released.append(connection)

    def give_up(self, condition: str, direction: str, why: str) -> None:
        self.given_up.append((condition, direction, why))

    def note(self, stopped: Stopped, decision: Decision, changed: list[str], refused: str) -> None:
        self.noted.append((decision.action, changed, refused))


class Stopping(Bench):
    """A chain with breakpoints, and a connection."""

    def __init__(self, decide: Callable[[Stopped], Decision] | str, *breakpoints: Breakpoint, others: Any = ()) -> None:
        self.person = Person(decide)
        super().__init__(Breakpoints(breakpoints, self.person), *others)

    def counts(self, event: str) -> dict[str, int]:
        return {name: count for (of, name), count in self.counted().items() if of == event}


def produce(topic: str = "orders", acks: int = -1) -> bytes:
    return request_frame("ProduceRequest", 9, acks=acks, topic_data=[{"name": topic}])


def produced(code: int = 0) -> bytes:
    topic = {"name": "orders", "partition_responses": [{"index": 0, "error_code": code}]}
    return answer_frame("ProduceResponse", 9, responses=[topic])


def resume(_: Stopped) -> Decision:
    return Decision("resume", BY)


def test_without_a_breakpoint_no_frame_is_held_that_would_not_be_for_conditions() -> None:
    bench = Stopping(resume)
    identifying = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA}
    for direction in (Direction.REQUEST, Direction.RESPONSE):
        held = {key for (key, _), want in bench.chain.table(direction).items() if want is not Want.PASS}
        assert held <= identifying
        assert all(bench.filter.wants(direction, key, 0) is Want.PASS for key in facts().apis)
    frame = produce()
    assert bench.send(frame) == Send(frame)
    assert not bench.person.held
    assert not bench.chain.fails_closed


def test_only_what_a_condition_can_meet_is_held() -> None:
    bench = Stopping(resume, PRODUCE, Breakpoint('apiName == "Fetch" && size(errors) > 0', "response"))
    requests, responses = (
        {key for key in facts().apis if bench.filter.wants(direction, key, 4) is Want.HOLD}
        for direction in (Direction.REQUEST, Direction.RESPONSE)
    )
    assert (requests, responses) == ({ApiKey.PRODUCE, ApiKey.FETCH}, {ApiKey.FETCH})
    assert bench.filter.wants_of_large(Direction.RESPONSE, ApiKey.FETCH, 4) is Want.PASS


def test_logins_and_tokens_are_never_held() -> None:
    bench = Stopping(resume, Breakpoint("true"), Breakpoint("true", "response"))
    passing = {key for key in facts().apis if bench.filter.wants(Direction.REQUEST, key, 0) is Want.PASS}
    names = {facts().apis[key].name for key in passing}
    assert {"SaslHandshake", "SaslAuthenticate", "AlterUserScramCredentials", "CreateDelegationToken"} <= names
    assert "Produce" not in names


def test_other_breakpoints_are_used_from_the_next_frame_on() -> None:
    bench = Stopping(resume)
    bench.send(produce())
    bench.filter.use([PRODUCE])
    bench.chain.forget_wants()
    bench.send(produce())
    assert len(bench.person.held) == 1
    bench.filter.use([])
    bench.chain.forget_wants()
    bench.send(produce())
    assert len(bench.person.held) == 1


def test_what_is_resumed_leaves_as_it_came() -> None:
    bench = Stopping(resume, PRODUCE)
    frame = produce() + b"\x01\x02"  # bytes behind the message, as real software sends them
    frame = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
    outcome = bench.send(frame)
    assert isinstance(outcome, Send)
    assert outcome.frame is frame
    (stopped,) = bench.person.held
    assert (stopped.direction, stopped.api_key, stopped.api_version, stopped.correlation_id) == ("request", 0, 9, 7)
    assert not bench.person.noted


def test_a_replaced_request_goes_on_with_its_header_and_is_decided_about_behind() -> None:
    def edit(stopped: Stopped) -> Decision:
        return Decision("replace", BY, produce("payments")[-len(stopped.body) - 2 :])

    bench = Stopping(edit, PRODUCE)
    outcome = bench.send(produce("orders"))
    assert isinstance(outcome, Send)
    assert outcome.frame == produce("payments")
    assert bench.person.noted == [("replace", ["topicData[0].name"], "")]


def test_the_error_is_that_of_kafkas_own_error_response() -> None:
    bench = Stopping(lambda _: Decision("error", BY, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED), PRODUCE)
    outcome = bench.send(produce())
    assert isinstance(outcome, Answer)
    body = outcome.frame[9:]
    answered: Any = message("ProduceResponse").decode(9, body)
    assert [topic.name for topic in answered.responses] == ["orders"]


def test_a_dropped_request_silences_its_direction_and_one_without_a_response_is_dropped_alone() -> None:
    bench = Stopping(lambda _: Decision("drop", BY), PRODUCE)
    assert isinstance(bench.send(produce()), Silence)
    assert bench.send(produce(acks=0)) == Answer(b"")
    assert [stopped.expects_response for stopped in bench.person.held] == [True, False]


def test_a_closed_connection_says_who_closed_it() -> None:
    assert Stopping(lambda _: Decision("close", BY), PRODUCE).send(produce()) == Close(f"at a breakpoint, by {BY}")


RESPONSES = Breakpoint('apiName == "Produce" && "orders" in topics', "response")


def stopped_response(decide: Callable[[Stopped], Decision], frame: bytes) -> tuple[Stopping, Outcome]:
    bench = Stopping(decide, RESPONSES)
    sent = bench.send(produce())
    assert isinstance(sent, Send)
    assert sent.request is not None
    return bench, bench.answer(sent.request, frame)


def test_a_response_is_stopped_by_what_its_request_names() -> None:
    bench, outcome = stopped_response(resume, produced())
    assert outcome == Send(produced())
    (stopped,) = bench.person.held
    assert (stopped.direction, stopped.api_key) == ("response", 0)


def test_a_response_is_replaced_or_says_an_error() -> None:
    codec = known_message(Direction.RESPONSE, 0)
    _, outcome = stopped_response(
        lambda stopped: Decision("replace", BY, produced(7)[-len(stopped.body) :]), produced()
    )
    assert outcome == Send(produced(7))
    _, outcome = stopped_response(lambda _: Decision("error", BY, error=29), produced())
    assert isinstance(outcome, Send)
    assert codec.decode(9, outcome.frame[9:]) == make("ProduceResponse", responses=[{"name": "orders"}])
    _, outcome = stopped_response(lambda _: Decision("drop", BY), produced())
    assert isinstance(outcome, Silence)


def test_a_response_whose_request_came_before_the_breakpoint_passes() -> None:
    bench = Stopping(resume, RESPONSES)
    assert bench.answer(RequestFacts(0, 9, 7), produced()) == Send(produced())
    assert not bench.person.held


def test_what_cannot_be_held_passes_and_is_counted() -> None:
    bench = Stopping("too many", PRODUCE)
    frame = produce()
    assert bench.send(frame) == Send(frame)
    assert bench.counts("passed") == {"too many": 1}


def test_a_secret_setting_passes_and_is_counted() -> None:
    topic = {"name": "t", "configs": [{"name": "sasl.jaas.config", "value": "x password=y"}]}
    bench = Stopping(resume, Breakpoint('apiName == "CreateTopics"'))
    frame = request_frame("CreateTopicsRequest", 7, topics=[topic])
    assert bench.send(frame) == Send(frame)
    assert not bench.person.held
    assert bench.counts("passed") == {"credentials": 1}


def test_decisions_are_counted_by_what_they_are() -> None:
    bench = Stopping(
        lambda stopped: Decision("resume", why="time over") if b"late" in stopped.body else Decision("resume", BY),
        PRODUCE,
    )
    bench.send(produce())
    bench.send(produce("late"))
    assert bench.counts("ended") == {"resume": 1, "time over": 1}


@pytest.mark.parametrize("mode", ["drop-and-count", "block"])
def test_edits_are_in_the_audit_log_before_they_have_an_effect(mode: str) -> None:
    options = AuditOptions(file=Rotated(path="audit.jsonl"), mode=mode)  # type: ignore[arg-type]
    bench = Stopping(lambda _: Decision("close", BY), PRODUCE, others=[Audit(options)])
    assert isinstance(bench.send(produce()), Close)
    (line,) = [json.loads(one) for one in bench.runtime.journals["audit.jsonl"].lines.values()]
    assert (line["event"], line["action"], line["by"]) == ("edit", "close", BY)
    bench.runtime.journals["audit.jsonl"].is_writable = False
    outcome = bench.send(produce())
    if mode == "block":
        assert outcome == Send(produce())
        assert bench.person.noted[-1] == ("close", [], "the audit log cannot be written")
    else:
        assert isinstance(outcome, Close)
    bench.chain.stop()
    assert bench.runtime.kept["audits"] == []


def test_a_closed_connection_is_released() -> None:
    bench = Stopping(resume, PRODUCE)
    bench.chain.on_close(bench.at)
    assert bench.person.released == [bench.at.number]


def altered(value: str) -> bytes:
    resource = {"resource_name": "1", "configs": [{"name": "ssl.keystore.password", "value": value}]}
    return request_frame("IncrementalAlterConfigsRequest", 1, resources=[resource])


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("password", ["secret", "another"])
def test_no_condition_tells_of_a_secret_by_whether_it_holds(direction: Any, password: str) -> None:
    """Neither what is stopped nor what is counted is another for the password that is asked for."""
    asks = 'request.resources.exists(r, r.configs.exists(c, c.value == "secret"))'
    bench = Stopping(resume, Breakpoint(asks, direction))
    frame = altered(password)
    outcome = bench.send(frame)
    assert isinstance(outcome, Send)
    if direction == "response":
        answer = response_message(44)
        assert answer is not None and outcome.request is not None
        bench.answer(outcome.request, response_frame(44, 1, answer.encode(1, make("IncrementalAlterConfigsResponse"))))
    assert bench.person.held == []
    assert bench.counts("passed") == {"credentials": 1}


def test_other_connections_go_on_while_many_topics_are_asked_about() -> None:
    topics = [{"name": f"topic-{number}"} for number in range(5_000)]
    frame = request_frame("MetadataRequest", 12, topics=topics)
    for wanted in ("topic-4999", "no such"):
        bench = Stopping(resume, Breakpoint(f'apiName == "Metadata" && topic == "{wanted}"'))

        async def work(bench: Stopping = bench) -> int:
            outcome = bench.chain.on_request(bench.at, frame)
            assert isinstance(outcome, Awaitable)
            asked = asyncio.ensure_future(outcome)
            turns = 0
            while not asked.done():
                await asyncio.sleep(0)
                turns += 1
            return turns

        assert asyncio.run(work()) > 8
        assert len(bench.person.held) == (wanted != "no such")


def of_topics(count: int) -> bytes:
    topics = [{"name": f"topic-{number}"} for number in range(count)]
    return request_frame("MetadataRequest", 12, topics=topics)


@pytest.mark.parametrize("first", ["", 'topic == "topic-0" && '])
def test_a_condition_that_takes_too_long_is_given_up_and_others_are_asked(first: str) -> None:
    slow = f"{first}topics.all(a, topics.exists(b, b == a))"
    bench = Stopping(resume, Breakpoint(slow), Breakpoint('"topic-1999" in topics'))
    large, small = of_topics(2_000), of_topics(2)
    assert bench.send(large) == Send(large)
    ((condition, direction, why),) = bench.person.given_up
    assert (condition, direction) == (slow, "request")
    assert "2,000 items" in why
    assert [one.condition for one in bench.person.held] == ['"topic-1999" in topics']
    assert bench.counts("given up") == {"too slow": 1}

    bench.send(small)
    bench.filter.use([PRODUCE, Breakpoint(slow)])
    bench.send(small)
    assert len(bench.person.held) == len(bench.person.given_up) == 1, "it is not asked again when another is set"
    bench.filter.use([PRODUCE])
    bench.filter.use([Breakpoint(slow)])
    bench.send(small)
    assert len(bench.person.held) == 2


class Undecoded(Breakpoints):
    """Says what came to it decoded."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.given: list[Any] = []

    def on_request(self, request: Any) -> Any:
        self.given.append(request.client_id)
        return super().on_request(request)

    def on_response(self, response: Any) -> Any:
        self.given.append(response.request.client_id)
        return super().on_response(response)


def test_of_another_client_nothing_is_decoded() -> None:
    bench = Stopping(resume)
    bench.use(Undecoded([Breakpoint('apiName == "Produce" && clientId == "x"', "response")], bench.person))
    for client_id, matches in (("other", False), ("x", True)):
        body = message("ProduceRequest").encode(9, make("ProduceRequest", acks=-1))
        frame = request(0, 9, 7, body, tags=b"\0", client_id=client_id)
        sent = bench.send(frame)
        assert isinstance(sent, Send)
        assert sent.frame is frame
        asked = sent.request or RequestFacts(0, 9, 7)
        assert (asked.message is not None) is matches
        answer = produced()
        assert bench.answer(asked, answer) == Send(answer)
        assert bench.filter.given == ([client_id] * 2 if matches else [])
    assert len(bench.person.held) == 1
