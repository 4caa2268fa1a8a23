"""How long a message may be stopped: less than the filter may take, and than what clients wait for a response."""

from kproxy.filters.breakpoints.decision import MOST_HOLD_S, Decision
from kproxy.filters.breakpoints.filter import Breakpoints


def test_a_stop_ends_before_the_chain_gives_the_filter_up() -> None:
    assert Breakpoints.timeout > MOST_HOLD_S


def test_what_nobody_decided_goes_on_as_it_came() -> None:
    decision = Decision("resume")
    assert (decision.by, decision.body, decision.error) == ("", b"", 0)
