"""What is kept from requests for their responses."""

from kproxy.filters.topic_prefix.tenant import MOST_KEPT, STATE, keep, kept_for
from tests.support.filtering import connection


def test_what_is_kept_is_given_once() -> None:
    at = connection()
    keep(at, 7, "what")
    assert (kept_for(at, 8), kept_for(at, 7), kept_for(at, 7)) == (None, "what", None)
    assert kept_for(connection(), 7) is None


def test_a_client_cannot_fill_the_memory() -> None:
    at = connection()
    for number in range(MOST_KEPT + 50):
        keep(at, number, number)
    assert len(at.state[STATE]) == MOST_KEPT
    assert (kept_for(at, 0), kept_for(at, MOST_KEPT + 49)) == (None, MOST_KEPT + 49)
