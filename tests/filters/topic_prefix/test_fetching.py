"""Fetch without sessions, and of a size that can be held."""

import pytest

from kproxy.filters.topic_prefix import fetching
from kproxy.filters.topic_prefix.refusal import Refusal
from tests.support.filtering import make

MOST = 1_000


def test_nobody_gets_a_session() -> None:
    message = make("FetchRequest", session_id=0, session_epoch=0)
    assert fetching.request(message, 13, MOST)
    assert message.session_epoch == -1
    assert not fetching.request(message, 13, MOST)


def test_a_session_does_not_exist() -> None:
    with pytest.raises(Refusal, match="FETCH_SESSION_ID_NOT_FOUND"):
        fetching.request(make("FetchRequest", session_id=5, session_epoch=1), 7, MOST)


def test_versions_with_names_are_limited_and_those_with_ids_are_not() -> None:
    for version, size in ((3, MOST), (12, MOST), (13, 50_000_000)):
        message = make("FetchRequest", session_epoch=-1, max_bytes=50_000_000)
        assert fetching.request(message, version, MOST) == (size == MOST)
        assert message.max_bytes == size
