"""The measuring itself: what does more work comes out as slower, and no ratio is asserted on time."""

from tests.bench.bodies import compact, fetch_response_v13, metadata_response_v12, uvarint
from tests.bench.ratio import paired


def test_a_ratio_has_both_sides_and_its_spread() -> None:
    ratio = paired(lambda: sum(range(10)), lambda: sum(range(10)), rounds=3, seconds=0.001)
    assert 0 < ratio.least <= ratio.times <= ratio.most
    assert "x" in ratio.line("ours", "theirs")


def test_bodies_are_of_the_sizes_that_are_quoted() -> None:
    assert len(metadata_response_v12()) == 28_492
    assert len(fetch_response_v13()) == 21_172


def test_varints_are_those_of_the_protocol() -> None:
    # The examples of the Protocol Buffers encoding guide, whose base-128 varints KIP-482 took over.
    assert uvarint(1) == b"\x01"
    assert uvarint(150) == b"\x96\x01"
    assert compact(None) == b"\0"
    assert compact(b"a") == b"\x02a"
