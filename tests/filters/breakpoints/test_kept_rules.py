"""Rules to keep: the YAML is a configuration that kproxy takes, and means what was done."""

import pytest
import yaml

from kproxy.filters.breakpoints.kept_rules import NoRule, kept_rule
from kproxy.filters.faults.options import FaultsOptions
from kproxy.filters.options import read_options
from kproxy.protocol import message
from tests.support.filtering import make

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
