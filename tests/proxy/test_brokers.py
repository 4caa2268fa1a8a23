"""Which addresses of brokers are advertised, and which are refused."""

import logging
from typing import Any

import pytest

from kproxy.config.structs import Addresses
from kproxy.filters.contract import ConnectionFacts
from kproxy.proxy.brokers import AdvertisedAddresses, BrokerTable, parse_any_ip
from kproxy.proxy.logs import render_text
from kproxy.proxy.network.socket_addresses import is_internal

LISTEN = ("10.0.0.1", 19_092)
CLIENTS = ConnectionFacts(1, "default", "10.0.0.5:51234", "10.0.0.1:19092", "10.0.0.9:9092")


def table(listen: tuple[str, int] = LISTEN, *, hooks: Any = None, **rules: Any) -> BrokerTable:
    return BrokerTable(Addresses(**rules), listen, **(hooks or {}))


def told(brokers: BrokerTable, node_id: int = 1, host: str = "kafka-1.internal", port: int = 9092) -> Any:
    return brokers.advertise(node_id, host, port, CLIENTS)


def reason(brokers: BrokerTable, node_id: int = 1, host: str = "kafka-1.internal", port: int = 9092) -> str:
    """The one reason for which that address is refused."""
    assert told(brokers, node_id, host, port) is None
    assert brokers.target(node_id) != (host, port)
    ((said, times),) = brokers.refused.items()
    assert times == 1
    return said


def test_a_port_for_each_broker_from_the_listeners_on() -> None:
    brokers = table()
    assert [told(brokers, node, f"kafka-{node}") for node in (0, 1, 300)] == [
        ("10.0.0.1", 19_093),
        ("10.0.0.1", 19_094),
        ("10.0.0.1", 19_393),
    ]
    assert brokers.as_list() == [(0, "kafka-0", 9092), (1, "kafka-1", 9092), (300, "kafka-300", 9092)]
    assert brokers.target(300) == ("kafka-300", 9092)
    assert brokers.target(2) is None
    assert not brokers.refused


def test_the_port_is_the_same_after_a_restart_whoever_is_seen_first() -> None:
    first, second = table(first_port=30_000), table(first_port=30_000)
    assert told(first, 7) == told(second, 7) == ("10.0.0.1", 30_007)
    told(second, 3, "kafka-3")
    assert told(second, 7) == ("10.0.0.1", 30_007)


def test_the_host_is_the_one_clients_came_to_or_the_configured_one() -> None:
    over_ipv6 = ConnectionFacts(2, "default", "[::1]:5", "[2001:db8::1]:19092", "10.0.0.9:9092")
    brokers = table(("::", 19_092))
    assert brokers.advertise(1, "kafka-1", 9092, over_ipv6) == ("2001:db8::1", 19_094)
    assert brokers.advertise(1, "kafka-1", 9092, CLIENTS) == ("10.0.0.1", 19_094)
    assert told(table(advertise="kafka.example.com")) == ("kafka.example.com", 19_094)


def test_with_sni_every_broker_has_a_name_on_one_port() -> None:
    served: list[tuple[int, int]] = []
    hooks = {"serve": lambda node_id, port: served.append((node_id, port)) or True}
    brokers = table(hooks=hooks, mode="sni", broker_name="broker-{node_id}.kafka.example.com")
    assert told(brokers, 70_000) == ("broker-70000.kafka.example.com", 19_092)
    assert served == []


def test_which_broker_a_server_name_is() -> None:
    node_of_name = table(mode="sni", broker_name="b-{node_id}.kafka.example.com").node_of_name
    names = {"b-0.kafka.example.com": 0, "B-12.Kafka.Example.com.": 12, "b-2147483647.kafka.example.com": 2_147_483_647}
    assert {name: node_of_name(name) for name in names} == names
    nobody = ("b-2147483648", "b-01", "b--1", "b-٣", "b-", "kafka", "1")
    for name in (*(f"{name}.kafka.example.com" for name in nobody), "b-1.kafka.example.com.evil.net", "1", ""):
        assert node_of_name(name) is None, name


def test_a_broker_that_moves_keeps_its_port() -> None:
    changes: list[int] = []
    served: list[tuple[int, int]] = []
    hooks = {"changed": changes.append, "serve": lambda node_id, port: served.append((node_id, port)) or True}
    brokers = table(hooks=hooks)
    assert told(brokers, 1, "old", 9092) == told(brokers, 1, "old", 9092) == told(brokers, 1, "new", 9093)
    assert brokers.target(1) == ("new", 9093)
    assert changes == [1, 1]
    assert served == [(1, 19_094)]


def test_a_bad_address_of_a_known_broker_does_not_take_its_place() -> None:
    brokers = table()
    told(brokers, 1, "good")
    assert told(brokers, 1, "169.254.169.254", 80) is None
    assert brokers.target(1) == ("good", 9092)


def test_a_port_that_cannot_be_listened_on_is_not_told() -> None:
    may = [False]
    brokers = table(hooks={"serve": lambda node_id, port: may[0]})
    assert reason(brokers) == "its port cannot be listened on"
    may[0] = True
    assert told(brokers) == ("10.0.0.1", 19_094)


def test_known_addresses_are_looked_up_and_not_learned() -> None:
    brokers = table()
    assert brokers.known(1, "kafka-1", 9092, CLIENTS) is None
    told(brokers, 1, "kafka-1", 9092)
    assert brokers.known(1, "kafka-1", 9092, CLIENTS) == ("10.0.0.1", 19_094)
    assert brokers.known(1, "kafka-1", 9093, CLIENTS) is None
    assert brokers.as_list() == [(1, "kafka-1", 9092)]


def test_what_another_worker_learned_is_served_here_too() -> None:
    served: list[int] = []
    changes: list[int] = []
    there = table()
    told(there, 1, "a")
    told(there, 2, "b")
    here = table(
        hooks={"serve": lambda node_id, port: served.append(port) or node_id != 2, "changed": changes.append},
        allow_link_local=True,
    )
    here.merge(there.as_list())
    assert here.as_list() == [(1, "a", 9092)]
    assert served == [19_094, 19_095]
    assert changes == []  # else two workers would tell each other for ever
    assert told(here, 1, "a") == ("10.0.0.1", 19_094)


def test_the_brokers_that_the_configuration_names() -> None:
    assert table(node_ids=[7, 0, "100-103", "102-104"]).expected() == [0, 7, 100, 101, 102, 103, 104]
    assert table().expected() == []


def test_attack_20_numbers_that_cannot_be() -> None:
    for node_id in (-1, 1 << 31):
        assert reason(table(), node_id, "kafka", 9092) == "an impossible node id"
    for port in (0, -1, 65_536):
        assert reason(table(), 1, "kafka", port) == "an impossible port"
    assert reason(table(), 46_443, "kafka", 9092) == "a node id too high for first_port"


def test_the_highest_node_id_that_has_a_port() -> None:
    assert told(table(), 46_442) == ("10.0.0.1", 65_535)


LINK_LOCAL = (
    *("169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "fd00:ec2::254"),
    # inet_aton(3) takes these, and getaddrinfo with it
    *("2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "169.254.43518", "0xa9.254.169.254", "169.254.169.254."),
)
NO_NAMES = ("", "a b", "x\n", "a/b", "http://x", "x\0y", "é", "a" * 254, "user@host", "a\u202eb")


def test_attack_20_hosts_where_no_broker_can_be() -> None:
    for host in LINK_LOCAL:
        assert reason(table(), host=host) == "a link-local address (allow_link_local)", host
        assert told(table(allow_link_local=True), host=host) == ("10.0.0.1", 19_094), host
    for host in ("0.0.0.0", "::", "0", "224.0.0.1", "ff02::1"):
        assert reason(table(allow_link_local=True), host=host) == "an unspecified or multicast address", host
    for host in NO_NAMES:
        assert reason(table(), host=host) == "a host that is no name", host


@pytest.mark.parametrize(
    ("listen", "rules", "host", "port"),
    [
        (("10.0.0.1", 19_092), {}, "10.0.0.1", 19_092),
        (("10.0.0.1", 19_092), {}, "10.0.0.1", 19_094),  # the port of this very broker
        (("10.0.0.1", 19_092), {}, "10.0.0.1", 19_093),  # of another one, served already
        (("10.0.0.1", 19_092), {}, "167772161", 19_092),
        (("0.0.0.0", 19_092), {}, "localhost", 19_092),
        (("0.0.0.0", 19_092), {}, "127.0.0.1", 19_092),
        (("::", 19_092), {}, "LOCALHOST", 19_092),
        (("", 19_092), {}, "localhost", 19_092),
        (("", 19_092), {}, "127.0.0.1", 19_092),
        (("localhost", 19_092), {}, "127.0.0.1", 19_092),
        (("127.0.0.1", 19_092), {}, "localhost", 19_093),
        (("0.0.0.0", 19_092), {"advertise": "kafka.example.com"}, "Kafka.example.com", 19_092),
        (("0.0.0.0", 19_092), {"advertise": "lb", "advertise_port": 443}, "LB", 443),  # node 0's
        (("0.0.0.0", 19_092), {"advertise": "lb", "advertise_port": 443}, "lb", 444),
        (("0.0.0.0", 19_092), {"advertise_brokers": {"1": "one.example.com:443"}}, "one.example.com", 443),
    ],
)
def test_attack_20_no_loop(listen: tuple[str, int], rules: dict[str, Any], host: str, port: int) -> None:
    brokers = table(listen, **rules)
    assert told(brokers, 0, "kafka-0")
    assert reason(brokers, 1, host, port) == "an address of this proxy's own"


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [
        (("127.0.0.1", 19_092), "127.0.0.1", 9_092),
        (("127.0.0.1", 19_092), "localhost", 19_099),
        (("10.0.0.1", 9_092), "127.0.0.1", 9_092),  # a sidecar on the broker's machine, on another address
        (("10.0.0.1", 9_092), "kafka", 9_092),
        (("0.0.0.0", 9_092), "10.0.0.7", 9_092),
    ],
)
def test_what_is_no_loop(listen: tuple[str, int], host: str, port: int) -> None:
    assert told(table(listen), 1, host, port) is not None


def test_the_brokers_behind_the_same_load_balancer_are_no_loop() -> None:
    """Clients are told lb:443 and up; lb:9094 leads to the brokers themselves."""
    brokers = table(("0.0.0.0", 9094), advertise="lb", advertise_port=443)
    assert told(brokers, 1, "lb", 9094) == ("lb", 444)
    assert reason(brokers, 2, "lb", 445) == "an address of this proxy's own"


def test_a_broker_whose_advertised_port_cannot_be() -> None:
    assert reason(table(advertise_port=65_535), 1) == "a node id too high for advertise_port"


def test_a_broker_does_not_get_the_bootstrap_port() -> None:
    assert reason(table(first_port=19_091), 1) == "its port would be the listener's own"


def test_attack_19_no_more_brokers_than_allowed() -> None:
    served: list[int] = []
    withheld: list[str] = []
    hooks = {"serve": lambda node_id, port: served.append(port) or True, "withheld": withheld.append}
    brokers = table(hooks=hooks, most_brokers=3)
    answers = [told(brokers, node, "kafka") for node in range(10_000)]
    assert [answer is not None for answer in answers] == [True] * 3 + [False] * 9_997
    assert len(served) == 3
    assert withheld == ["more brokers than most_brokers"] * 9_997
    assert brokers.refused == {"more brokers than most_brokers": 9_997}
    assert told(brokers, 2, "moved") is not None


def test_every_reason_is_logged_once_and_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    brokers = table()
    with caplog.at_level(logging.WARNING, "kproxy"):
        for node in range(50):
            told(brokers, node, "evil\nhost\x1b[31m")
            told(brokers, node, "kafka", 0)
    assert {record.getMessage() for record in caplog.records} == {"a broker's address is not served"}
    lines = [render_text(record) for record in caplog.records]
    assert [line.split("served  ")[1] for line in lines] == [
        r'node_id=0 broker="evil\nhost\u001b[31m:9092" reason="a host that is no name"',
        'node_id=0 broker=kafka:0 reason="an impossible port"',
    ]


def test_addresses_in_every_form() -> None:
    forms = {
        "1.16777215": "1.255.255.255",
        "10.1": "10.0.0.1",
        "[2001:db8::1]": "2001:db8::1",
        "::ffff:10.0.0.1": "10.0.0.1",
    }
    assert {host: str(parse_any_ip(host)) for host in forms} == forms
    for host in ("kafka", "1.2.3.4.5", "256.1", "1.16777216", "08.1.1.1", "4294967296", "-1"):
        assert parse_any_ip(host) is None, host
    internal = {"169.254.1.1": True, "fe80::1": True, "10.0.0.1": False}
    assert {host: is_internal(parse_any_ip(host)) for host in internal} == internal  # type: ignore[arg-type]


def test_what_discovery_found_is_learned() -> None:
    changes: list[int] = []
    brokers = table(hooks={"changed": changes.append})
    assert brokers.learn(1, "kafka-1", 9092)
    assert brokers.learn(1, "kafka-1", 9092)
    assert not brokers.learn(2, "169.254.169.254", 80)
    assert (brokers.as_list(), changes) == ([(1, "kafka-1", 9092)], [1])


LISTENER = "10.0.0.1:19092"
NAME = "b-{node_id}.kafka.example.com"
SNI = {"mode": "sni", "broker_name": NAME}
BY_NAME = {"advertise": NAME}


def addresses(**rules: Any) -> AdvertisedAddresses:
    return AdvertisedAddresses(Addresses(**rules), lambda node_id: 19_093 + node_id)


@pytest.mark.parametrize(
    ("rules", "node_0", "node_7"),
    [
        ({}, ("10.0.0.1", 19_093), ("10.0.0.1", 19_100)),
        ({"advertise": "lb"}, ("lb", 19_093), ("lb", 19_100)),
        ({"advertise_port": 443}, ("10.0.0.1", 443), ("10.0.0.1", 450)),
        ({"advertise": "lb", "advertise_port": 30_000}, ("lb", 30_000), ("lb", 30_007)),
        (BY_NAME, ("b-0.kafka.example.com", 19_093), ("b-7.kafka.example.com", 19_100)),
        (BY_NAME | {"advertise_port": 443}, ("b-0.kafka.example.com", 443), ("b-7.kafka.example.com", 443)),
        (SNI, ("b-0.kafka.example.com", 19_092), ("b-7.kafka.example.com", 19_092)),
        (SNI | {"advertise_port": 443}, ("b-0.kafka.example.com", 443), ("b-7.kafka.example.com", 443)),
        ({"advertise_brokers": {"7": "seven:443"}, "advertise_port": 31_000}, ("10.0.0.1", 31_000), ("seven", 443)),
        (SNI | {"advertise_brokers": {"7": "seven:8443"}}, ("b-0.kafka.example.com", 19_092), ("seven", 8443)),
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
