"""Conditions of breakpoints and what they may cost; what a person decides: ends, audit lines, rules to keep, credentials."""

import hashlib
import json
from typing import Any, Literal, get_args

import pytest
import yaml

from kproxy.filters.audit import Audit, AuditOptions
from kproxy.filters.breakpoints.breakpoint import (
    MATCH_STEPS,
    MOST_BREAKPOINTS,
    MOST_STRUCTS,
    ActiveBreakpoint,
    Breakpoint,
    BreakpointMistake,
    ConditionSteps,
    StoppedSubject,
    activate,
    carries_credentials,
    count_items,
    stoppable_apis,
    why_api_is_refused,
)
from kproxy.filters.breakpoints.decision import (
    DONE,
    MOST_HOLD_S,
    SENTENCES,
    WHYS,
    Action,
    Decision,
    Stopped,
    how_it_ended,
)
from kproxy.filters.breakpoints.filter import Breakpoints, edit_line, write_lines
from kproxy.filters.breakpoints.kept_rules import NoRule, kept_rule
from kproxy.filters.contract import Request
from kproxy.filters.faults.options import FaultsOptions
from kproxy.filters.turns import at_once
from kproxy.options import Rotated, read_options
from kproxy.protocol import ApiKey, message
from kproxy.protocol.constants import METADATA_TOPIC_ID
from kproxy.protocol.facts import facts
from tests.support.filtering import GivenJournal, connection
from tests.support.messages import make

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"


def asked(*topics: str, client_id: str = "app") -> Request:
    data = [{"name": name} for name in topics]
    return Request(connection(), ApiKey.PRODUCE, 9, 7, client_id, make("ProduceRequest", acks=-1, topic_data=data))


def answered(code: int) -> Any:
    topic = {"name": "orders", "partition_responses": [{"error_code": code}]}
    return make("ProduceResponse", responses=[topic])


def matched(breakpoint_: ActiveBreakpoint, subject: StoppedSubject) -> bool:
    return at_once(breakpoint_.matches(subject))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('apiName == "Produce"', {0}),
        ("apiKey in [0, 1]", {0, 1}),
        ('apiName == "Produce" && clientId == "x"', {0}),
        ('clientId == "x" && apiName == "Produce"', {0}),
        ("false", set()),
    ],
)
def test_only_apis_that_a_condition_can_hold_for_are_looked_at(condition: str, expected: set[int]) -> None:
    met = ActiveBreakpoint(Breakpoint(condition))
    assert {key for key in facts().apis if met.may_match(key, 0)} == expected


def test_what_depends_on_the_message_may_meet_every_api() -> None:
    met = ActiveBreakpoint(Breakpoint('"orders" in topics'))
    assert all(met.may_match(key, 0) for key in facts().apis)
    version_two = ActiveBreakpoint(Breakpoint('apiVersion == 2 && "orders" in topics'))
    assert [version for version in range(6) if version_two.may_match(0, version)] == [2]


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ('"orders" in topics', True),
        ('"other" in topics', False),
        ('topic == "orders"', True),
        ('topic.startsWith("pay")', True),
        ('topic == "other"', False),
        ('request.acks == -1 && clientId == "app"', True),
        ("principal == 'alice'", False),
        ("request.noSuchField == 1", False),
    ],
)
def test_what_a_condition_meets_of_a_request(condition: str, matches: bool) -> None:
    assert matched(ActiveBreakpoint(Breakpoint(condition)), StoppedSubject(asked("orders", "payments"), {})) is matches


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ('errorNames == ["NOT_LEADER_OR_FOLLOWER"]', True),
        (
            "errors.exists(e, e.code == 6 && e.name == 'NOT_LEADER_OR_FOLLOWER'"
            " && e.path == 'responses[0].partitionResponses[0].errorCode')",
            True,
        ),
        ("response.responses[0].partitionResponses[0].errorCode == 6", True),
        ('"orders" in topics && size(errors) > 0', True),
        ("size(errors) == 0", False),
    ],
)
def test_what_a_condition_meets_of_a_response_and_its_request(condition: str, matches: bool) -> None:
    met = ActiveBreakpoint(Breakpoint(condition, "response"))
    assert matched(met, StoppedSubject(asked("orders"), {}, answered(6))) is matches


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("clientId ==", "breakpoint 2: condition 'clientId ==' is wrong at column"),
        ("client == nobody", "nothing is called 'nobody'"),
        ('apiName == "SaslAuthenticate"', "SaslAuthenticate is part of a login, and cannot be stopped"),
        ('apiName == "CreateDelegationToken"', "CreateDelegationToken carries credentials"),
        ('apiName == "produce"', "holds for no API"),
        ('"Produce"', "must give true or false"),
        ("api", "must give true or false"),
        ("errors == []", "nothing is called 'errors'"),
        ("x" * 5_000, "at most 4,000 characters"),
        (f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, a == b)))", "too many loops in each other"),
    ],
)
def test_conditions_that_cannot_be_used_are_refused_with_a_reason(condition: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^breakpoint 2: ") as refused:
        activate([Breakpoint('apiName == "Fetch"'), Breakpoint(condition)])
    assert words in str(refused.value)


def test_a_condition_that_is_wrong_has_its_place() -> None:
    with pytest.raises(BreakpointMistake) as refused:
        activate([Breakpoint("true"), Breakpoint('apiName == "Fetch" && client == nobody')])
    assert (refused.value.number, refused.value.wrong.column, refused.value.wrong.length) == (2, 33, 6)


def test_the_apis_that_it_may_stop_are_named() -> None:
    assert stoppable_apis(Breakpoint("apiKey < 3 && clientId == 'x'")) == ["Produce", "Fetch", "ListOffsets"]
    every = stoppable_apis(Breakpoint('principal != "alice"', "response"))
    assert len(every) > 60
    assert not {"SaslHandshake", "SaslAuthenticate", "CreateDelegationToken", "AlterUserScramCredentials"} & set(every)
    with pytest.raises(ValueError, match="part of a login"):
        stoppable_apis(Breakpoint('apiName == "SaslAuthenticate"'))


def test_the_number_of_breakpoints_is_bounded() -> None:
    with pytest.raises(ValueError, match="at most 50"):
        activate([Breakpoint("true")] * (MOST_BREAKPOINTS + 1))


@pytest.mark.parametrize(
    "condition",
    [
        "topics.all(a, topics.exists(b, b == a))",
        "topics.map(a, topics) == []",
        'topic == "a" && request.topicData.all(a, request.topicData.exists(b, b.name == a.name))',
    ],
)
def test_a_condition_of_too_many_steps_is_not_asked_and_given_up(condition: str) -> None:
    """In CEL's library the second takes a minute."""
    met = ActiveBreakpoint(Breakpoint(condition))
    assert matched(met, StoppedSubject(asked("a", "b"), {})) is (condition != "topics.map(a, topics) == []")
    assert met.given_up is None
    assert not matched(met, StoppedSubject(asked(*map(str, range(1_000))), {}))
    assert met.given_up is not None
    assert "it takes too long to go through the 1,000 items of a message" in met.given_up
    assert met.cannot_match(asked("a"))


def test_a_body_of_too_many_elements_is_not_made_for_a_condition() -> None:
    large = StoppedSubject(asked(*map(str, range(MOST_STRUCTS + 1))), {})
    met, other = ActiveBreakpoint(Breakpoint("request.acks == -1")), ActiveBreakpoint(Breakpoint('"2500" in topics'))
    assert not matched(met, large)
    assert "more than 2,500 elements" in str(met.given_up)
    assert matched(other, large)
    assert not matched(other, StoppedSubject(asked(*map(str, range(30_000))), {}))
    assert "go through the 30,000 items of a message" in str(other.given_up)


def test_the_steps_for_all_topics_of_a_message_count() -> None:
    met = ActiveBreakpoint(Breakpoint('topic == "none" && "other" in topics'))
    assert not matched(met, StoppedSubject(asked(*map(str, range(400))), {}))
    assert met.given_up is None
    assert not matched(met, StoppedSubject(asked(*map(str, range(500))), {}))
    assert "go through the 500 items of a message" in str(met.given_up)
    assert "Begin it with what is quick" in str(met.given_up)


@pytest.mark.parametrize(
    ("condition", "cannot_match"),
    [
        ('clientId == "other"', True),
        ('"orders" in topics && clientId == "other"', True),
        ('principal == "alice" && topic == "orders"', True),
        ('client.startsWith("10.9.") || software == "librdkafka"', True),
        ('clientId == "app"', False),
        ('"none" in topics', False),
        ('clientId == "other" || "none" in topics', False),
    ],
)
def test_the_header_and_the_connection_may_say_that_it_cannot_hold(condition: str, cannot_match: bool) -> None:
    request = asked("orders")
    request.message = None  # type: ignore[assignment]
    assert ActiveBreakpoint(Breakpoint(condition)).cannot_match(request) is cannot_match


@pytest.mark.parametrize(
    ("condition", "steps"),
    [
        ('apiName == "Produce" && clientId in ["a", "b"]', 1),
        ('"orders" in topics', 100),
        ('topics.exists(t, t.startsWith("a"))', 100),
        ("topics.all(a, topics.exists(b, b == a))", 2 * 100**2),
        ("topics.all( a , a in topics)", 100**2),
        ("topics.all(a, topics == groups)", 100**2),
        ("size(topics.filter(t, t == 'x')) > 0", 100**2),
        ("topics.map(a, topics) != []", 100**3),
        ("topics.all(a, true) && groups.all(a, true)", 2 * 100),
        ("topics.exists(t, t.matches('^a'))", 100 * MATCH_STEPS),
        ("request.topics.exists(t, t.partitions.exists(p, p.index == 0))", 2 * 100),
        ("request.topics.exists(t, t.partitions.exists(p, t.partitions.exists(q, q == p)))", 3 * 100**2),
        ("request.topics.exists(t, request.topics[0].partitions.exists(p, p.index == t.index))", 2 * 100**2),
        ("request.topics.exists(t, [1].exists(p, p == t.index))", 2 * 100**2),
        ('"topics.all(a, topics)" == clientId // topics.all(', 1),
        ("'it\\'s topics.all(a, topics)' == clientId", 1),
    ],
)
def test_steps_for_a_hundred_items(condition: str, steps: int) -> None:
    assert ConditionSteps(condition).most(100) == steps


def test_items_that_are_written_in_the_condition_count_as_well() -> None:
    ten = "[1,2,3,4,5,6,7,8,9,0]"
    assert ConditionSteps(f"{ten}.all(a, {ten}.all(b, {ten}.all(c, a == b)))").most(0) > 10**3


def test_items_are_those_of_all_lists() -> None:
    assert count_items(["a", "b"]) == 2
    assert count_items({"topics": [{"partitions": [1, 2, 3]}, {"partitions": []}], "name": "abc"}) == 5
    assert count_items("abc") == 0


def test_a_stop_ends_before_the_chain_gives_the_filter_up() -> None:
    assert Breakpoints.timeout > MOST_HOLD_S


def test_there_is_a_sentence_for_each_way_in_which_a_stop_ends() -> None:
    assert set(SENTENCES) == set(WHYS)
    assert set(DONE) == set(get_args(Action))
    assert how_it_ended("drop", "10.0.0.9:4000", "") == "10.0.0.9:4000 dropped it"
    assert how_it_ended("resume", "", "client closed") == "the client closed the connection"


BEFORE, AFTER = b"a secret of the business", b"another"
STOPPED = Stopped(connection(), "app\x1b[31m", "request", 0, 9, 4, BEFORE, 'apiName == "Produce"', True, True)


def audit_of(journal: GivenJournal, blocks: bool) -> Audit:
    mode: Literal["block", "drop-and-count"] = "block" if blocks else "drop-and-count"
    audit = Audit(AuditOptions(file=Rotated(path="audit.jsonl"), mode=mode))
    audit._journal = journal
    return audit


def test_what_is_in_a_line() -> None:
    decision = Decision("replace", "127.0.0.1:5000", AFTER)
    line = edit_line(STOPPED, decision, ["topicData[0].name"], worker=3, now=1_700_000_000.5)
    assert b"secret" not in line
    assert b"\x1b" not in line
    found = json.loads(line)
    assert found["before"] == {"size": len(BEFORE), "sha256": hashlib.sha256(BEFORE).hexdigest()}
    assert found["after"] == {"size": len(AFTER), "sha256": hashlib.sha256(AFTER).hexdigest()}
    assert found["changed"] == ["topicData[0].name"]
    assert (found["event"], found["action"], found["by"]) == ("edit", "replace", "127.0.0.1:5000")
    assert (found["at"], found["worker"], found["client"]) == ("2023-11-14T22:13:20.500Z", 3, "10.0.0.5:51234")
    assert (found["api"], found["apiVersion"], found["correlationId"]) == ("Produce", 9, 4)


def test_an_error_has_its_name_and_no_other_action_has_a_body() -> None:
    found = json.loads(edit_line(STOPPED, Decision("error", "a", error=3), [], 0, 0.0))
    assert (found["error"], found["after"]) == ("UNKNOWN_TOPIC_OR_PARTITION", None)
    assert json.loads(edit_line(STOPPED, Decision("drop", "a"), [], 0, 0.0))["error"] is None


@pytest.mark.parametrize("blocks", [False, True])
def test_a_journal_that_cannot_be_written_forbids_the_change_where_it_blocks(blocks: bool) -> None:
    journal = GivenJournal()
    journal.is_writable = False
    assert write_lines([audit_of(journal, blocks)], b"{}") is not blocks
    assert not journal.lines


def test_one_journal_of_two_filters_gets_one_line() -> None:
    journal, other = GivenJournal(), GivenJournal()
    assert write_lines([audit_of(journal, False), audit_of(journal, True), audit_of(other, False)], b"{}")
    assert (list(journal.lines.values()), list(other.lines.values())) == ([b"{}"], [b"{}"])
    assert write_lines([], b"{}")


WHERE = 'clientId == "a \\"quoted\\" name" && "orders" in topics'
PRODUCE, PRODUCED = message("ProduceRequest"), message("ProduceResponse")


def throttled(ms: int) -> bytes:
    return PRODUCED.encode(9, make("ProduceResponse", throttle_time_ms=ms))


def fault(text: str) -> dict[str, object]:
    (use,) = yaml.safe_load(text)["filters"]
    assert use["use"] == "faults"
    read_options(FaultsOptions, use["with"])
    (found,) = use["with"]["faults"]
    assert isinstance(found, dict)
    return found


def test_what_was_done_to_a_request() -> None:
    common = {"api_name": "Produce", "where": WHERE}
    assert fault(kept_rule(WHERE, "request", PRODUCE, 9, "error", error=6)) == {
        **common,
        "error": "NOT_LEADER_OR_FOLLOWER",
    }
    assert fault(kept_rule(WHERE, "request", PRODUCE, 9, "drop")) == {**common, "black_hole": True}
    assert fault(kept_rule(WHERE, "request", PRODUCE, 9, "close")) == {**common, "disconnect": True}


def test_what_was_done_to_a_response() -> None:
    common = {"api_name": "Produce", "where": WHERE}
    dropped = fault(kept_rule(WHERE, "response", PRODUCED, 9, "drop"))
    assert dropped == {**common, "black_hole": True, "when": "after"}
    edited = kept_rule(WHERE, "response", PRODUCED, 9, "replace", before=throttled(0), after=throttled(1_500))
    assert fault(edited) == {**common, "throttle": 1.5}


@pytest.mark.parametrize(
    ("condition", "direction", "action", "words"),
    [
        (WHERE, "request", "replace", "no rule that changes fields"),
        (WHERE, "response", "replace", "no rule that changes fields"),
        ("size(errors) > 0", "response", "drop", "cannot ask about the response"),
        ('topic == "x"', "request", "drop", "has no topic"),
    ],
)
def test_what_cannot_be_kept_has_a_reason(condition: str, direction: str, action: str, words: str) -> None:
    codec = PRODUCE if direction == "request" else PRODUCED
    empty = codec.encode(9, make(codec.name))
    with pytest.raises(NoRule, match=words):
        kept_rule(condition, direction, codec, 9, action, before=empty, after=empty)  # type: ignore[arg-type]


REFUSED = {
    *("SaslHandshake", "SaslAuthenticate", "AlterUserScramCredentials", "Envelope", "FetchSnapshot"),
    *(f"{verb}DelegationToken" for verb in ("Create", "Renew", "Expire", "Describe")),
}


def test_which_apis_cannot_be_stopped() -> None:
    assert {api.name for key, api in facts().apis.items() if why_api_is_refused(key) is not None} == REFUSED


@pytest.mark.parametrize(
    ("setting", "is_secret"),
    [
        ("sasl.jaas.config", True),
        ("ssl.keystore.password", True),
        ("listener.name.internal.ssl.key.password", True),
        ("a.setting.of.a.plugin", True),  # Kafka does not know it: it may be a secret
        ("retention.ms", False),
        ("cleanup.policy", False),
    ],
)
def test_a_secret_setting_is_not_shown(setting: str, is_secret: bool) -> None:
    config = {"name": setting, "config_operation": 0, "value": "v"}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
    asked = make("IncrementalAlterConfigsRequest", resources=[resource], validate_only=False)
    codec = message("IncrementalAlterConfigsRequest")
    assert carries_credentials(codec, 1, asked) is is_secret


@pytest.mark.parametrize("is_sensitive", [False, True])
def test_what_a_broker_marks_as_sensitive_is_not_shown(is_sensitive: bool) -> None:
    config = {"name": "x.y", "value": "v", "is_sensitive": is_sensitive}
    result = {"resource_type": 4, "resource_name": "1", "configs": [config]}
    answer = make("DescribeConfigsResponse", results=[result])
    codec = message("DescribeConfigsResponse")
    assert carries_credentials(codec, 4, answer) is is_sensitive


def test_the_log_of_the_controllers_is_not_shown() -> None:
    codec = message("FetchResponse")
    answer = make("FetchResponse", responses=[{"topic_id": METADATA_TOPIC_ID}])
    assert carries_credentials(codec, 13, answer)
    named = make("FetchResponse", responses=[{"topic": "__cluster_metadata"}])
    assert carries_credentials(codec, 12, named)
    other = make("FetchResponse", responses=[{"topic": "orders"}])
    assert not carries_credentials(codec, 12, other)
