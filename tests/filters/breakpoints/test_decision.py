"""How long a message may be stopped: less than the filter may take, and than what clients wait for a response."""

from typing import get_args

from kproxy.filters.breakpoints.decision import DONE, MOST_HOLD_S, SENTENCES, WHYS, Action, Decision, how_it_ended
from kproxy.filters.breakpoints.filter import Breakpoints


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
