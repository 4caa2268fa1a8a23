"""Any bytes, any message, any version: a value or a DecodeError, never anything else, and never much memory."""

import contextlib
import random
import tracemalloc
from collections import defaultdict

import hypothesis
import hypothesis.strategies as st
import pytest

from kproxy.errors import DecodeError
from kproxy.protocol import message
from tests.fuzz.codec_target import check_codec
from tests.support.corpus import EDGES, damaged, golden_bodies
from tests.support.sampled import sampled

BODIES = golden_bodies()
LAYOUTS = sorted({(name, version) for name, version, _ in BODIES})
LONG_EDGES = [edge for edge in EDGES if len(edge) > 2]
BY_MESSAGE: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
for _name, _version, _data in BODIES:
    BY_MESSAGE[_name].append((_version, _data))


def test_damaged_bytes_of_kafka_give_a_value_or_a_decode_error() -> None:
    for name, bodies in BY_MESSAGE.items():
        chance = random.Random(f"damage {name}")
        refused = 0
        for version, data in bodies:
            for _ in range(3):
                refused += not check_codec(name, version, damaged(chance, data))
        assert refused, f"not one damaged {name} was refused: the damage does nothing, or nothing is checked"


@hypothesis.given(layout=st.sampled_from(LAYOUTS), data=st.binary(max_size=300))
@hypothesis.settings(max_examples=hypothesis.settings.default.max_examples * 20)
def test_any_bytes_give_a_value_or_a_decode_error(layout: tuple[str, int], data: bytes) -> None:
    check_codec(*layout, data)


@hypothesis.given(sample=st.sampled_from(BODIES), seed=st.integers(0, 2**32))
@hypothesis.settings(max_examples=hypothesis.settings.default.max_examples * 20)
def test_any_damage_gives_a_value_or_a_decode_error(sample: tuple[str, int, bytes], seed: int) -> None:
    name, version, data = sample
    check_codec(name, version, damaged(random.Random(seed), data))


@pytest.mark.parametrize("edge", sampled(LONG_EDGES, LONG_EDGES[:2]), ids=bytes.hex)
def test_a_length_on_the_wire_reserves_no_memory(edge: bytes) -> None:
    """Every message, every place of a short sample overwritten with a huge length: memory stays near the input's size."""
    shortest: dict[str, tuple[int, bytes]] = {}
    for name, version, data in BODIES:
        if 8 <= len(data) <= 400:
            shortest[name] = (version, data)
    for name, (version, _) in shortest.items():
        message(name).programs(version)  # what is compiled stays, and is no matter of the bytes
    tracemalloc.start()
    try:
        for name, (version, data) in shortest.items():
            for place in range(0, len(data), 3):
                with contextlib.suppress(DecodeError):
                    message(name).decode(version, data[:place] + edge + data[place + len(edge) :])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
