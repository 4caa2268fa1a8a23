"""How well bytes fit a layout, while only the first of them are here too."""

import pytest

from kproxy.protocol import request_message
from kproxy.session.exchanges import route_of
from kproxy.session.fitting import BROKEN, PENDING, is_known, leftover, may_be_newer, response_leftover
from tests.support.frames import KAFKA_4_3_REFUSAL, heartbeat

BODY = heartbeat(1)[17:]  # behind size, header and the client id "app"


@pytest.mark.parametrize("here", range(len(BODY) + 1))
@pytest.mark.parametrize("behind", [0, 3])
def test_any_beginning_of_a_message_may_still_fit_and_the_end_tells_what_is_behind(here: int, behind: int) -> None:
    message = request_message(12)
    assert message is not None
    expected = behind if here == len(BODY) else PENDING
    assert leftover(message, 0, BODY[:here], 0, len(BODY) + behind) == expected


def test_a_length_that_the_frame_cannot_hold_is_seen_before_it_is_whole() -> None:
    message = request_message(12)
    assert message is not None
    claims = b"\0\1g\0\0\0\5\x00\x40"
    assert leftover(message, 0, claims, 0, 100) == PENDING
    assert leftover(message, 0, claims, 0, 60) == BROKEN


def test_what_is_known_and_what_the_next_releases_may_bring() -> None:
    assert is_known(12, 0) and not is_known(12, 77) and not is_known(127, 0)
    assert may_be_newer(127, 0) and may_be_newer(12, 5) and not may_be_newer(12, 77)


def test_a_broker_that_lacks_the_version_answers_api_versions_in_version_0() -> None:
    route = route_of(18, 4)
    assert route is not None
    assert response_leftover(route, KAFKA_4_3_REFUSAL[4:], len(KAFKA_4_3_REFUSAL) - 4) == 0
