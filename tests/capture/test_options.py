"""Options of pcapng blocks: the draft's examples, and lists that do not end."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.options import Interface, TimeUnit, read_interface, read_options
from tests.support.built_captures import option


@pytest.mark.parametrize(("order", "big"), [("<", False), (">", True)])
def test_options_in_either_byte_order(order: str, big: bool) -> None:
    data = (
        option(2, b"eth0", order) + option(1, b"abcde", order) + option(0, b"", order) + option(3, b"not read", order)
    )
    assert list(read_options(data, big)) == [(2, b"eth0"), (1, b"abcde")]


@pytest.mark.parametrize(
    ("resolution", "unit"),
    [
        (b"\x06", TimeUnit(6)),  # the draft: 6 means microseconds, as does no option at all
        (b"\x09", TimeUnit(9)),
        (b"\x8a", TimeUnit(10, binary=True)),  # the top bit: a negative power of 2
        (b"\x06\x06", TimeUnit(6)),  # not one byte: not believed
    ],
)
def test_time_resolution(resolution: bytes, unit: TimeUnit) -> None:
    body = struct.pack("<HHI", 113, 0, 65535) + option(9, resolution)
    assert read_interface(body, False) == Interface(113, 65535, unit)


def test_an_interface_in_full() -> None:
    options = option(2, b"lo", ">") + option(9, b"\x03", ">") + option(14, struct.pack(">q", -3), ">")
    found = read_interface(struct.pack(">HHI", 1, 0, 96) + options, True)
    assert found == Interface(1, 96, TimeUnit(3, offset=-3), "lo")


def test_too_short_for_an_interface() -> None:
    assert read_interface(b"1234567", False) is None


def test_a_list_of_empty_options_ends() -> None:
    assert len(list(read_options(struct.pack("<HH", 5, 0) * 1000, False))) == 1000


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_options_that_fit(data: bytes, big: bool) -> None:
    assert sum(4 + len(value) for _, value in read_options(data, big)) <= len(data)
    read_interface(data, big)
