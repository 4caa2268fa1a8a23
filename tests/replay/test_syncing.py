"""SyncGroup requests of one generation are sent together."""

from kproxy.protocol import ApiKey
from kproxy.replay.syncing import held_generation, sent_together
from tests.support.replayed import recorded


def test_those_of_a_generation_stand_beside_each_other() -> None:
    """In the capture a member is answered before another one asks, and goes on."""
    before = recorded(3).requests
    after = sent_together(before)
    assert sorted(one.number for one in after) == sorted(one.number for one in before)
    asked = [one for one in after if one.api_key == ApiKey.SYNC_GROUP]
    assert len(asked) == 8
    for one in asked:
        same = [place for place, other in enumerate(after) if held_generation(other) == held_generation(one)]
        assert same == list(range(same[0], same[-1] + 1))
    for connection in {one.connection for one in before}:
        order = [[one.number for one in some if one.connection == connection] for some in (before, after)]
        assert order[0] == order[1]  # of a connection, what was sent first is sent first


def test_of_other_requests_nothing_is_held() -> None:
    assert {held_generation(one) for one in recorded(1).requests if one.api_key != ApiKey.SYNC_GROUP} == {""}
