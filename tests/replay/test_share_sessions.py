"""Share sessions: epochs as ShareRequestMetadata of Kafka counts them, and a ShareFetch that is sent again."""

from typing import Any

from kproxy.protocol.structs import struct_types
from kproxy.replay.share_sessions import FINAL, LAST, ShareSessions, acquires_later
from tests.support.replayed import recorded

TYPES = struct_types("ShareFetchRequest")


def fetch(epoch: int) -> Any:
    return TYPES["ShareFetchRequest"](share_session_epoch=epoch, topics=[TYPES["FetchTopic"]()])


def test_epochs_go_on_after_one_that_was_sent_again() -> None:
    session = ShareSessions()
    first, second, third = fetch(0), fetch(1), fetch(2)
    assert not session.translate(first)
    session.ask_again(first)
    assert (first.share_session_epoch, first.topics) == (1, [])
    assert session.translate(second) and second.share_session_epoch == 2
    assert session.translate(third) and third.share_session_epoch == 3


def test_a_session_that_begins_or_ends() -> None:
    session = ShareSessions(epoch=7)
    last, new, next_one = fetch(FINAL), fetch(0), fetch(1)
    assert not session.translate(last) and last.share_session_epoch == FINAL
    assert not session.translate(new) and not session.translate(next_one) and next_one.share_session_epoch == 1


def test_after_the_last_epoch_comes_the_first() -> None:
    session = ShareSessions(epoch=LAST)
    one, other = fetch(5), fetch(6)
    session.translate(one)
    session.translate(other)
    assert (one.share_session_epoch, other.share_session_epoch) == (LAST, 1)


def test_only_a_share_fetch_is_sent_again() -> None:
    assert not acquires_later(recorded(1).requests[0], fetch(1), None)
