"""Addresses as text, against the ipaddress module and the limits of RFC 1035."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol import addresses
from kproxy.protocol.addresses import Address, parse_address, parse_host

PORTS = st.integers(1, 65_535)


@given(st.ip_addresses(v=4), PORTS)
def test_any_ipv4_address(ip: ipaddress.IPv4Address, port: int) -> None:
    assert parse_address(f"{ip}:{port}") == (str(ip), port)


@given(st.ip_addresses(v=6), PORTS)
def test_any_ipv6_address_in_brackets(ip: ipaddress.IPv6Address, port: int) -> None:
    address = parse_address(f"[{ip}]:{port}")
    assert address == (str(ip), port)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka:9092", Address("kafka", 9092)),
        ("broker-1.kafka.example.com.:9092", Address("broker-1.kafka.example.com.", 9092)),
        ("my_host:1", Address("my_host", 1)),
    ],
)
def test_names(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_the_host_may_be_missing_where_one_listens() -> None:
    assert parse_address(":9092", any_host=True) == ("", 9092)
    with pytest.raises(ValueError, match='no host: write "host:9092" or ":9092"'):
        parse_address("9092", any_host=True)
    with pytest.raises(ValueError, match="no host"):
        parse_address(":9092")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no port"),
        ("kafka", "no port"),
        ("kafka:", "no port"),
        ("kafka:port", "from 1 to 65535"),
        ("kafka:0", "from 1 to 65535"),
        ("kafka:65536", "from 1 to 65535"),
        ("kafka:\uff19", "from 1 to 65535"),
        ("::1:9092", 'in brackets: "\\[::1\\]:9092"'),
        ("[::1:9092", "no IPv6 address"),
        ("[::1]x:9092", "no IPv6 address"),
        ("[kafka]:9092", "no IPv6 address"),
        ("256.1.1.1:9092", "no IPv4 address"),
        ("1.2.3:9092", "no IPv4 address"),
        ("kafka", 'no port: write "host:port"'),
        ("9092", 'no host: write "host:9092"$'),
        ("-kafka:9092", "no name"),
        ("a b:9092", "no name"),
        ("kafka\n:9092", "no name"),
        (f"{'a' * 64}:1", "no name"),
        (f"{'a.' * 127}a:1", "no name"),
        ("kafka..com:1", "no name"),
        ("http://kafka:9092", "without a scheme"),
        ("user:password@kafka:9092", "without a scheme, user"),
    ],
)
def test_what_is_no_address(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_address(text)


def test_a_host_alone() -> None:
    assert parse_host("::1") == "::1"
    with pytest.raises(ValueError, match="no host"):
        parse_host("")


@given(st.ip_addresses(), PORTS)
def test_what_is_joined_splits_again(ip: addresses.IPAddress, port: int) -> None:
    text = addresses.join_address(str(ip), port)
    assert addresses.split_address(text) == (str(ip), port)
    assert text.startswith("[") is (ip.version == 6)
    assert addresses.parse_ip(str(ip)) == addresses.parse_ip(text.rpartition(":")[0]) == ip


@given(st.ip_addresses(v=4), PORTS)
def test_an_ipv4_address_and_its_mapped_form(ip: ipaddress.IPv4Address, port: int) -> None:
    mapped = addresses.mapped(ip)
    assert mapped == ipaddress.IPv6Address(f"::ffff:{ip}") == addresses.mapped(mapped)
    assert addresses.unmapped(mapped) == ip == addresses.unmapped(ip)
    assert addresses.join_ip_address(mapped, port) == f"[::ffff:{ip}]:{port}"
    assert addresses.join_ip_address(ip, port) == f"{ip}:{port}"


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("10.0.0.1", "10.0.0.1"),
        ("kafka", "kafka"),
        ("kafka:x", "kafka:x"),
    ],
)
def test_a_host_without_mapping_and_zone(host: str, plain: str) -> None:
    assert addresses.unmapped_host(host) == plain


def test_a_name_is_no_ip_address() -> None:
    assert addresses.parse_ip("kafka") is None


@pytest.mark.parametrize("any_", [":9644", "0.0.0.0:9644", "[::]:9644"])
def test_what_listens_at_all_addresses_is_reached_at_the_loopback_one(any_: str) -> None:
    assert addresses.as_reached_here(any_) == "127.0.0.1:9644"
    for one in ("10.0.0.1:9644", "[::1]:9644", "host:9644"):
        assert addresses.as_reached_here(one) == one


def test_text_without_a_port_does_not_split() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        addresses.split_address("kafka")
