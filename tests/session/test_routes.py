"""What is done with an API at a version."""

import pytest

from kproxy.session.events import Frame
from kproxy.session.routes import Step, decoded, failed, read_body, route_of
from tests.support.frames import api_versions_refusal, heartbeat, heartbeat_answer, produce, sasl_handshake_answer


def test_a_route_is_made_once_for_a_known_version() -> None:
    assert route_of(3, 12) is route_of(3, 12)
    assert route_of(3, 14) is not route_of(3, 14)


@pytest.mark.parametrize(("api_key", "api_version"), [(93, 0), (-1, 0), (3, -1)])
def test_there_is_none_for_what_is_not_known(api_key: int, api_version: int) -> None:
    assert route_of(api_key, api_version) is None


# Kafka's guide: flexible responses have header 1, ApiVersions' never (KIP-511).
@pytest.mark.parametrize(
    ("api_key", "api_version", "header"), [(12, 3, 0), (12, 4, 1), (18, 3, 0), (7, 0, 0), (68, 0, 1)]
)
def test_the_response_header(api_key: int, api_version: int, header: int) -> None:
    route = route_of(api_key, api_version)
    assert route is not None and route.response_header_version == header


def test_what_the_session_must_do_beyond_pairing() -> None:
    steps = {}
    for api_key, api_version in ((0, 3), (1, 6), (1, 7), (12, 0), (17, 0), (18, 0), (36, 0)):
        route = route_of(api_key, api_version)
        assert route is not None
        steps[api_key, api_version] = (route.request_step, route.response_step)
    assert steps == {
        (0, 3): (Step.PRODUCE, Step.ORDINARY),
        (1, 6): (Step.ORDINARY, Step.ORDINARY),
        (1, 7): (Step.ORDINARY, Step.FETCH),
        (12, 0): (Step.ORDINARY, Step.ORDINARY),
        (17, 0): (Step.SASL_HANDSHAKE, Step.SASL_HANDSHAKE),
        (18, 0): (Step.API_VERSIONS, Step.ORDINARY),
        (36, 0): (Step.ORDINARY, Step.SASL_AUTHENTICATE),
    }


@pytest.mark.parametrize(("acks", "expected"), [(0, False), (1, True), (-1, True)])
def test_acks_decide_whether_produce_is_answered(acks: int, expected: bool) -> None:
    route = route_of(0, 3)
    assert route is not None
    assert route.expects_response(Frame(produce(1, acks)[4:], 0, 0, None, 13)) is expected


def test_a_produce_cut_before_its_acks_counts_as_answered() -> None:
    route = route_of(0, 3)
    assert route is not None
    assert route.expects_response(Frame(produce(1, 0)[4:18], 0, 0, None, 13))


def test_an_api_versions_response_may_be_laid_out_as_version_0() -> None:
    route = route_of(18, 4)
    assert route is not None
    frame = Frame(api_versions_refusal(1)[4:], 0, 0, None, 4)
    route.read_response(frame)
    assert (frame.body_version, frame.error) == (0, None)
    assert decoded(frame).error_code == 35


def test_no_other_response_may() -> None:
    route = route_of(12, 1)
    assert route is not None
    assert not route.fits_response(heartbeat_answer(1)[4:])
    assert route.fits_response(b"\0\0\0\1" + b"\0\0\0\0" + b"\0\0")


def test_an_error_of_the_body_says_where() -> None:
    route = route_of(12, 0)
    assert route is not None
    frame = Frame(heartbeat(1)[4:-1], 0, 0, None, 13)
    read_body(frame, route.request, 0)
    assert frame.message is None and frame.error is not None
    assert (frame.error.message, frame.error.version, frame.error.path) == ("HeartbeatRequest", 0, "memberId")


def test_failure_is_an_error_code_or_a_body_that_cannot_be_read() -> None:
    route = route_of(17, 0)
    assert route is not None
    for error_code, expected in ((0, False), (33, True)):
        frame = Frame(sasl_handshake_answer(1, error_code)[4:], 0, 0, None, 4)
        route.read_response(frame)
        assert failed(frame) is expected
    assert failed(Frame(b"", 0, 0)) and decoded(Frame(b"", 0, 0)) is None
