"""The defaults keep what the documentation promises."""

import pytest

from kproxy.capture import Limits


def test_the_whole_is_larger_than_a_part_and_fits_a_small_machine() -> None:
    limits = Limits()
    assert limits.held_per_flow < limits.held_in_all
    assert limits.recent_per_chunk < limits.recent_in_all
    assert limits.held_in_all + limits.recent_in_all <= 300 << 20


def test_limits_do_not_change_under_way() -> None:
    with pytest.raises(AttributeError):
        Limits().flows = 1  # type: ignore[misc]
