"""Keys of FindCoordinator."""

import pytest

from kproxy.filters.topic_prefix import coordinators
from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.refusal import Refusal
from tests.support.filtering import make, part

NAMES = Names("a.")


@pytest.mark.parametrize(("key_type", "empty"), [(0, "a."), (1, "")])
def test_keys_are_groups_or_transactional_ids(key_type: int, empty: str) -> None:
    message = make("FindCoordinatorRequest", key_type=key_type, coordinator_keys=["x", ""])
    coordinators.request(NAMES, message, 4)
    assert message.coordinator_keys == ["a.x", empty]
    single = make("FindCoordinatorRequest", key_type=key_type, key="x")
    coordinators.request(NAMES, single, 3)
    assert single.key == "a.x"


def test_a_key_of_share_state_is_refused() -> None:
    with pytest.raises(Refusal, match="CLUSTER_AUTHORIZATION_FAILED"):
        coordinators.request(NAMES, make("FindCoordinatorRequest", key_type=2, coordinator_keys=["a.g:id:0"]), 6)


def test_entries_of_others_are_dropped() -> None:
    found = [part("FindCoordinatorResponse", "Coordinator", key=key) for key in ("a.x", "b.x", "a.")]
    message = make("FindCoordinatorResponse", coordinators=found)
    coordinators.response(NAMES, message, 0)
    assert [each.key for each in message.coordinators] == ["x", ""]
    coordinators.response(NAMES, message, 2)
    assert message.coordinators == []
