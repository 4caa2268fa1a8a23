"""The advertised address of each broker; the tables are from the rules in the module's docstring, worked out by hand."""

from typing import Any

import pytest

from kproxy.config import Addresses
from kproxy.proxy.advertised import AdvertisedAddresses

LISTENER = "10.0.0.1:19092"
NAME = "b-{node_id}.kafka.example.com"


def addresses(**rules: Any) -> AdvertisedAddresses:
    return AdvertisedAddresses(Addresses(**rules), lambda node_id: 19_093 + node_id)


@pytest.mark.parametrize(
    ("rules", "node_0", "node_7"),
    [
        ({}, ("10.0.0.1", 19_093), ("10.0.0.1", 19_100)),
        ({"advertise": "lb"}, ("lb", 19_093), ("lb", 19_100)),
        ({"advertise_port": 443}, ("10.0.0.1", 443), ("10.0.0.1", 450)),
        ({"advertise": "lb", "advertise_port": 30_000}, ("lb", 30_000), ("lb", 30_007)),
        ({"advertise": NAME}, ("b-0.kafka.example.com", 19_093), ("b-7.kafka.example.com", 19_100)),
        (
            {"advertise": NAME, "advertise_port": 443},
            ("b-0.kafka.example.com", 443),
            ("b-7.kafka.example.com", 443),
        ),
        (
            {"mode": "sni", "broker_name": NAME},
            ("b-0.kafka.example.com", 19_092),
            ("b-7.kafka.example.com", 19_092),
        ),
        (
            {"mode": "sni", "broker_name": NAME, "advertise_port": 443},
            ("b-0.kafka.example.com", 443),
            ("b-7.kafka.example.com", 443),
        ),
        ({"advertise_brokers": {"7": "seven:443"}, "advertise_port": 31_000}, ("10.0.0.1", 31_000), ("seven", 443)),
        (
            {"mode": "sni", "broker_name": NAME, "advertise_brokers": {"7": "seven:8443"}},
            ("b-0.kafka.example.com", 19_092),
            ("seven", 8443),
        ),
        ({"advertise_brokers": {"7": "[2001:db8::7]:443"}}, ("10.0.0.1", 19_093), ("2001:db8::7", 443)),
    ],
)
def test_what_clients_are_told(rules: dict[str, Any], node_0: tuple[str, int], node_7: tuple[str, int]) -> None:
    told = addresses(**rules)
    assert told.address_of(0, LISTENER) == node_0
    assert told.address_of(7, LISTENER) == node_7


@pytest.mark.parametrize(
    ("rules", "host", "port", "node_id"),
    [
        ({"advertise": "lb", "advertise_port": 443}, "LB", 446, 3),
        ({"advertise": "lb", "advertise_port": 443}, "lb", 442, None),
        ({"advertise": "lb", "advertise_port": 443}, "other", 446, None),
        ({"advertise": "lb"}, "lb", 19_096, 3),
        ({"advertise_port": 443}, "10.0.0.1", 443, None),  # the host depends on the client
        ({"advertise": NAME, "advertise_port": 443}, "B-3.kafka.example.com", 443, 3),
        ({"advertise": NAME, "advertise_port": 443}, "b-3.kafka.example.com", 444, None),
        ({"advertise": NAME}, "b-3.kafka.example.com", 19_096, 3),
        ({"advertise": NAME}, "b-3.kafka.example.com", 19_097, None),
        ({"mode": "sni", "broker_name": NAME, "advertise_port": 443}, "b-3.kafka.example.com", 443, 3),
        ({"mode": "sni", "broker_name": NAME}, "b-3.kafka.example.com", 19_092, None),  # the port depends on the client
        ({"advertise_brokers": {"7": "Seven:443"}}, "seven", 443, 7),
        ({"advertise_brokers": {"7": "seven:443"}, "advertise": "lb", "advertise_port": 443}, "lb", 450, None),
    ],
)
def test_whose_an_advertised_address_is(rules: dict[str, Any], host: str, port: int, node_id: int | None) -> None:
    assert addresses(**rules).node_of(host, port) == node_id


def test_the_server_name_of_a_broker_with_an_address_of_its_own() -> None:
    told = addresses(mode="sni", broker_name=NAME, advertise_brokers={"7": "Seven.example.com:443"})
    assert told.node_of_name("seven.EXAMPLE.com.") == 7
    assert told.node_of_name("b-3.kafka.example.com") == 3
    assert told.node_of_name("kafka.example.com") is None


def test_ports_that_do_not_exist() -> None:
    told = addresses(advertise_port=65_535, advertise_brokers={"9": "nine:443"})
    assert [told.port_is_too_high(node) for node in (0, 1, 9)] == [False, True, False]
    assert not addresses(advertise=NAME, advertise_port=65_535).port_is_too_high(1)
