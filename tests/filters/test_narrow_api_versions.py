"""ApiVersions: what brokers of today offer is not touched; what a required filter could not read is not offered."""

from collections.abc import Iterable
from struct import pack
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Filter, Forward, Send
from kproxy.filters.narrow_api_versions import refused_version
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import Versions, message
from tests.conftest import Require
from tests.support import referees
from tests.support.corpus import captured_exchanges
from tests.support.filtering import Scripted, Served, connection, responded
from tests.support.frames import frame
from tests.support.messages import make, response_frame

API_VERSIONS = 18
VERSIONS = range(5)
Offered = list[tuple[int, int, int]]  # api_key, min_version, max_version


def offer(version: int, *offered: tuple[int, int, int], **values: Any) -> bytes:
    keys = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in offered]
    return message("ApiVersionsResponse").encode(version, make("ApiVersionsResponse", api_keys=keys, **values))


def narrowed(version: int, body: bytes, filters: Iterable[Filter]) -> bytes:
    chain = Chain(filters)
    outcome = responded(chain, connection(Served()), API_VERSIONS, version, response_frame(API_VERSIONS, version, body))
    assert isinstance(outcome, Send), outcome
    assert not chain.faults
    return outcome.frame[8:]


def offered(version: int, body: bytes) -> Offered:
    value: Any = message("ApiVersionsResponse").decode(version, body)
    return [(api.api_key, api.min_version, api.max_version) for api in value.api_keys]


def required(*responses: int, **attributes: Any) -> Filter:
    return Scripted(lambda _: Forward(), responses=responses, required=True, **attributes)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_required_filter_cannot_read_is_not_offered(version: int, require: Require) -> None:
    body = offer(version, (1, 4, 19), (3, 0, 13), (10, 7, 9), (12, 0, 99), (18, 0, 4), (999, 0, 3), (60, -1, 2))
    told = narrowed(version, body, [RewriteAddresses()])
    expected = [(1, 4, 18), (3, 0, 13), (12, 0, 99), (18, 0, 4), (999, 0, 3), (60, 0, 2)]
    assert offered(version, told) == expected
    require("referees", referees.AVAILABLE, "kio or kafka-python is not installed")
    value = referees.kafka_python_decoded("ApiVersionsResponse", version, told)
    assert [(api.api_key, api.min_version, api.max_version) for api in value.api_keys] == expected


def test_an_api_that_nobody_knows_is_not_offered_where_a_required_filter_wants_it() -> None:
    assert offered(3, narrowed(3, offer(3, (999, 0, 3), (3, 0, 12)), [required(999)])) == [(3, 0, 12)]


def test_features_and_what_else_is_said_stays() -> None:
    body = offer(
        4, (3, 0, 99), (17, 0, 1), finalized_features_epoch=9, unknown_tags=((9, b"nine"),), throttle_time_ms=4
    )
    expected = offer(
        4, (3, 0, 13), (17, 0, 1), finalized_features_epoch=9, unknown_tags=((9, b"nine"),), throttle_time_ms=4
    )
    assert narrowed(4, body, [RewriteAddresses()]) == expected


def test_a_required_filter_that_asks_for_some_versions_alone_narrows_nothing_above_them() -> None:
    body = offer(3, (3, 0, 99))
    assert narrowed(3, body, [required(3, versions=Versions.parse("0-9"))]) == body
    assert offered(3, narrowed(3, body, [required(3, versions=Versions.parse("9+"))])) == [(3, 0, 13)]


def test_real_answers_of_brokers_up_to_4_3_1_are_not_touched() -> None:
    chain = Chain([RewriteAddresses(), required(*range(100))])
    files = set()
    for name, exchange in captured_exchanges():
        if exchange.api_key != API_VERSIONS or exchange.response is None or exchange.api_version is None:
            continue
        data = frame(exchange.response.data)
        outcome = responded(chain, connection(Served()), API_VERSIONS, exchange.api_version, data)
        assert isinstance(outcome, Send)
        assert outcome.frame is data, name
        files.add(name[:2])
    assert len(files) >= 8
    assert not chain.faults


def test_the_refusal_of_a_version_is_read_in_the_layout_of_version_0() -> None:
    data = refused_version(frame(pack(">i", -2) + b"new"))
    assert data[:8] == pack(">ii", len(data) - 4, -2)
    value: Any = message("ApiVersionsResponse").decode(0, data, 8)
    assert value.error_code == 35
    assert offered(0, data[8:]) == [(18, 0, 4)]
    assert refused_version(data) is data
