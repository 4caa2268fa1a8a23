"""Captures that begin late, miss packets, or have one side only: no exchange is invented, and none is missing that is there.

tests/support/late_starts.py says what that means. ``pytest -m long`` tries every start of every capture, without it a sample.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.late_starts import Segment, Truth, flows_of, truth_of

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap*"))
SAMPLE = 12  # views of a flow, where not all are tried

Ways = Callable[[list[Segment], random.Random], Iterator[list[Segment]]]


def late(segments: list[Segment], chance: random.Random) -> Iterator[list[Segment]]:
    """Without the first packet, without the first two, ..."""
    del chance
    for first in range(1, len(segments)):
        yield segments[first:]


def within(segments: list[Segment], chance: random.Random) -> Iterator[list[Segment]]:
    """From anywhere within a segment."""
    for first, segment in enumerate(segments):
        if (size := len(segment.tcp.payload)) > 1:
            yield [segment.cut(chance.randrange(1, size)), *segments[first + 1 :]]


def holed(segments: list[Segment], chance: random.Random) -> Iterator[list[Segment]]:
    """Late, and without some packets in the middle."""
    for first in range(len(segments) - 1):
        start = chance.randrange(first + 1, len(segments))
        yield segments[first:start] + segments[start + chance.choice((1, 1, 2, 3, 8)) :]


def one_sided(segments: list[Segment], chance: random.Random) -> Iterator[list[Segment]]:
    """One side only, from any packet on."""
    del chance
    for side in (0, 1):
        for first in range(len(segments)):
            view = [segment for segment in segments[first:] if segment.tcp.side == side]
            if view:
                yield view


WAYS: list[Ways] = [late, within, holed, one_sided]


def faults(truths: list[Truth], way: Ways, most: int | None) -> tuple[int, list[str]]:
    """How many whole requests the views of a capture's flows have, and what is wrong in them."""
    chance = random.Random(11)
    whole, wrong = 0, []
    for truth in truths:
        views = list(way(truth.segments, chance))
        for view in views if most is None or len(views) <= most else chance.sample(views, most):
            seen = truth.view(view)
            whole += seen.whole
            wrong += [f"invented: {one}" for one in seen.invented] + [f"missing: {one}" for one in seen.missing]
    return whole, wrong


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:2])
def test_part_of_a_capture_shows_part_of_its_exchanges_and_nothing_else(path: Path, way: Ways) -> None:
    whole, wrong = faults([truth_of(flow) for flow in flows_of(path)], way, SAMPLE)
    assert not wrong
    assert whole > 10 or "tls" in path.name


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:2])
def test_every_part_of_a_capture_shows_part_of_its_exchanges_and_nothing_else(path: Path, way: Ways) -> None:
    _, wrong = faults([truth_of(flow) for flow in flows_of(path)], way, None)
    assert not wrong
