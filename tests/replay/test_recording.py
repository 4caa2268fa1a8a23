"""What is read of captures, against the manifest: counts of requests that a separate minimal reader of headers made."""

import json
from collections import Counter

import pytest

from kproxy.errors import UsageError
from kproxy.protocol import ApiKey
from kproxy.replay.recording import read_recording
from tests.support.corpus import CAPTURES
from tests.support.replayed import capture, recorded

MANIFEST = {
    line["file"][:2]: line for line in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}
PLAIN = ("01", "02", "03", "04", "05", "08", "09", "10", "11", "12")


@pytest.mark.parametrize("number", PLAIN)
def test_every_request_is_there(number: str) -> None:
    found = recorded(int(number))
    counts = Counter(f"{one.api_key} v{one.api_version}" for one in found.requests)
    assert counts == MANIFEST[number]["requests_by_api_and_version"]
    assert found.seen == len(found.requests)


def test_requests_are_in_the_order_of_their_times() -> None:
    found = recorded(3).requests
    assert [one.number for one in found] == list(range(1, 127))
    assert [one.sent_at for one in found] == sorted(one.sent_at for one in found)
    assert all(one.answered_at > one.sent_at for one in found if one.answered_at)


def test_the_cluster_is_learned_of_all_requests_whatever_is_selected() -> None:
    found = recorded(1, where='apiName == "Produce"')
    assert [one.api_key for one in found.requests] == [ApiKey.PRODUCE]
    assert found.topics == {"orders": 3}  # as captures/README.md has it
    assert list(found.names.values()) == ["orders"]
    assert found.nodes == {"127.0.0.1:9092": 1}


def test_a_fetch_session_is_kept_in_full_where_it_was_not_selected_whole() -> None:
    every = [one for one in recorded(3).requests if one.api_key == ApiKey.FETCH]
    assert not any(one.session for one in every)
    later = recorded(3, where='apiName == "Fetch" && request.sessionEpoch > 3')
    broken = [one for one in later.requests if one.session is not None]
    assert broken
    assert all(one.body().session_epoch == 4 for one in broken)  # those after it follow it
    assert {p.partition for one in broken for p in one.session.partitions if one.session} <= set(range(6))


def test_a_decoded_log_has_nothing_to_send() -> None:
    with pytest.raises(UsageError, match="is a decoded log, which has no records"):
        read_recording([next((CAPTURES / "decoded").glob("01-*"))])


def test_what_is_held_is_bounded() -> None:
    with pytest.raises(UsageError, match=r"more than 20\.0 KB .*: select some of them with --where"):
        read_recording([capture(1)], most_held=20_000)
