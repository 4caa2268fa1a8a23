"""Endpoints as text: what is a number, what a name, and what is neither."""

import socket

import pytest

from kproxy.errors import UsageError
from kproxy.proxy.network import endpoint


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("broker-1:9092", ("broker-1", 9092)),
        ("10.0.0.1:0", ("10.0.0.1", 0)),
        ("[::1]:65535", ("::1", 65535)),
        ("[fe80::1%eth0]:9092", ("fe80::1%eth0", 9092)),
    ],
)
def test_host_and_port_and_back(text: str, parts: tuple[str, int]) -> None:
    assert endpoint.split(text) == parts
    assert endpoint.join(*parts) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broker",
        f"{'b' * 256}:9092",
        "broker:",
        ":9092",
        "::1:9092",
        "[::1]",
        "[broker]:9092",
        "broker:65536",
        "broker:-1",
        "b:+1",
        "b:٣",
        f"b:{'9' * 5_000}",
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_endpoint_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match=r"host:port|has no port"):
        endpoint.split(text)


def test_numbers_can_be_bound_as_they_are_and_names_are_not_numbers() -> None:
    for host in ("127.0.0.1", "::1"):
        known = endpoint.numeric(host)
        assert known is not None
        family, address = known
        with socket.socket(family) as bound:
            bound.bind(address)
            assert bound.getsockname()[0] == host
    assert endpoint.numeric("10.1.2.3", 9092) == (socket.AF_INET, ("10.1.2.3", 9092))
    assert endpoint.numeric("fd00::5", 9092) == (socket.AF_INET6, ("fd00::5", 9092, 0, 0))


@pytest.mark.parametrize(
    "host", ["localhost", "", "1.2.3", "256.0.0.1", "010.0.0.1", "br\x00oker", "bröker", "1.2.3.4 "]
)
def test_a_name_is_to_be_resolved(host: str) -> None:
    assert endpoint.numeric(host) is None
