"""Pseudonyms: same for the same, other for another, of the same size, and by the key."""

from ipaddress import IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.rewriting.pseudonyms import Pseudonyms

NAMES = Pseudonyms(b"a key of the tests")


@given(st.text(min_size=1, max_size=300))
def test_a_pseudonym_has_as_many_bytes_and_is_the_same_each_time(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    names = Pseudonyms(b"a key of the tests")
    made = names.text(text)
    assert len(made.encode()) == len(text.encode())
    assert names.text(text) == made == Pseudonyms(b"a key of the tests").text(text)


def test_bytes_that_are_no_text_keep_their_size() -> None:
    assert len(NAMES.text("a\udcff\udc80").encode()) == 3


def test_another_key_gives_other_pseudonyms() -> None:
    assert NAMES.text("orders-consumer") != Pseudonyms(b"another").text("orders-consumer")
    assert NAMES.data(b"orders-consumer") != Pseudonyms(b"another").data(b"orders-consumer")


def test_short_names_stay_apart() -> None:
    names = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pseudonyms = Pseudonyms(b"a key of the tests")
    made = [pseudonyms.text(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(a != b for a, b in zip(names, made, strict=True))


@pytest.mark.parametrize("text", ["", "*", "User:*"])
def test_what_names_nobody_stays(text: str) -> None:
    assert NAMES.text(text) == text


def test_a_user_has_one_name_as_principal_and_by_itself() -> None:
    assert NAMES.text("User:alice") == f"User:{NAMES.text('alice')}"
    assert NAMES.text("alice") != "alice"


@pytest.mark.parametrize("address", ["10.0.0.5", "127.0.0.1", "192.168.100.255", "0.0.0.0"])
def test_an_ipv4_address_keeps_its_digits_in_packets_and_in_text(address: str) -> None:
    made = NAMES.text(address)
    assert made != address
    assert [len(part) for part in made.split(".")] == [len(part) for part in address.split(".")]
    assert str(NAMES.address(ip_address(address))) == made
    assert NAMES.endpoint(f"{address}:9092") == f"{made}:9092"
    assert NAMES.text(f"/{address}") == f"/{made}"
    assert not ip_address(made).is_multicast


def test_what_only_looks_like_an_address_is_a_name() -> None:
    assert len(NAMES.text("999.999.999.999")) == 15
    assert len(NAMES.text("1.2.3")) == 5


def test_an_ipv6_address_becomes_a_local_one() -> None:
    made = NAMES.endpoint("[2001:db8::1]:9093")
    host = IPv6Address(made.removesuffix(":9093").strip("[]"))
    assert host in ip_network("fd00::/8")


@given(st.binary(max_size=5_000))
def test_bytes_keep_their_size(data: bytes) -> None:
    assert len(NAMES.data(data)) == len(data)
