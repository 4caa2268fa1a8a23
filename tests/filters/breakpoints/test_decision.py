"""What a person decides: how stops end, the line of the audit log, the rule to keep, credentials."""

import hashlib
import json
from typing import get_args

import pytest
import yaml

from kproxy.filters.breakpoints.credentials import carries_credentials, why_api_is_refused
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
from kproxy.filters.breakpoints.edit_lines import edit_line, write_lines
from kproxy.filters.breakpoints.filter import Breakpoints
from kproxy.filters.breakpoints.kept_rules import NoRule, kept_rule
from kproxy.filters.faults.options import FaultsOptions
from kproxy.filters.options import read_options
from kproxy.protocol import message
from kproxy.protocol.facts import facts
from kproxy.protocol.ids import METADATA_TOPIC_ID
from tests.support.filtering import GivenJournal, connection, make, part


def test_a_stop_ends_before_the_chain_gives_the_filter_up() -> None:
    assert Breakpoints.timeout > MOST_HOLD_S


def test_what_nobody_decided_goes_on_as_it_came() -> None:
    decision = Decision("resume")
    assert (decision.by, decision.body, decision.error) == ("", b"", 0)


def test_there_is_a_sentence_for_each_way_in_which_a_stop_ends() -> None:
    assert set(SENTENCES) == set(WHYS)
    assert set(DONE) == set(get_args(Action))
    assert how_it_ended("drop", "10.0.0.9:4000", "") == "10.0.0.9:4000 dropped it"
    assert how_it_ended("resume", "", "client closed") == "the client closed the connection"


BEFORE, AFTER = b"a secret of the business", b"another"
STOPPED = Stopped(connection(), "app\x1b[31m", "request", 0, 9, 4, BEFORE, 'apiName == "Produce"', True, True)


class Audit:
    """An audit filter."""

    def __init__(self, journal: GivenJournal, blocks: bool) -> None:
        self.journal = journal
        self.blocks = blocks


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
    assert write_lines([Audit(journal, blocks)], b"{}") is not blocks
    assert not journal.lines


def test_one_journal_of_two_filters_gets_one_line() -> None:
    journal, other = GivenJournal(), GivenJournal()
    assert write_lines([Audit(journal, False), Audit(journal, True), Audit(other, False)], b"{}")
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
    config = part("IncrementalAlterConfigsRequest", "AlterableConfig", name=setting, config_operation=0, value="v")
    resource = part(
        "IncrementalAlterConfigsRequest", "AlterConfigsResource", resource_type=2, resource_name="t", configs=[config]
    )
    asked = make("IncrementalAlterConfigsRequest", resources=[resource], validate_only=False)
    codec = message("IncrementalAlterConfigsRequest")
    assert carries_credentials(codec, 1, asked) is is_secret


@pytest.mark.parametrize("is_sensitive", [False, True])
def test_what_a_broker_marks_as_sensitive_is_not_shown(is_sensitive: bool) -> None:
    config = part(
        "DescribeConfigsResponse", "DescribeConfigsResourceResult", name="x.y", value="v", is_sensitive=is_sensitive
    )
    result = part(
        "DescribeConfigsResponse", "DescribeConfigsResult", resource_type=4, resource_name="1", configs=[config]
    )
    answer = make("DescribeConfigsResponse", results=[result])
    codec = message("DescribeConfigsResponse")
    assert carries_credentials(codec, 4, answer) is is_sensitive


def test_the_log_of_the_controllers_is_not_shown() -> None:
    codec = message("FetchResponse")
    topic = part("FetchResponse", "FetchableTopicResponse", topic_id=METADATA_TOPIC_ID)
    answer = make("FetchResponse", responses=[topic])
    assert carries_credentials(codec, 13, answer)
    named = make(
        "FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="__cluster_metadata")]
    )
    assert carries_credentials(codec, 12, named)
    other = make("FetchResponse", responses=[part("FetchResponse", "FetchableTopicResponse", topic="orders")])
    assert not carries_credentials(codec, 12, other)
