"""Captures that begin late, miss packets, or have one side only: no exchange is invented, and none is missing that is there.

tests/support/late_starts.py says what that means. ``pytest -m long`` tries every start of every capture, without it a sample.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kproxy.session import Exchange, NotKafka
from tests.support.late_starts import Segment, Truth, describe, events_of, flows_of, truth_of
from tests.support.sampled import sampled

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
@pytest.mark.parametrize("path", sampled(CAPTURES, CAPTURES[::6]), ids=lambda path: path.name[:2])
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


FEW = 3  # requests that tell a connection from another protocol, whatever is left of each
LOSSY = "11"  # its requests are written in several segments, of which the first ones may be those that are lost


@pytest.mark.parametrize("size", [20, 26, 42])
@pytest.mark.parametrize("path", sampled(CAPTURES, CAPTURES[::6]), ids=lambda path: path.name[:2])
def test_joined_late_with_a_small_snaplen_it_is_kafka_and_nothing_is_invented(path: Path, size: int) -> None:
    """The default of old tools, 68 or 96 bytes, leaves so much of a payload: the client's name may be cut."""
    chance = random.Random(7)
    wrong = []
    for flow in flows_of(path):
        full = [one for one in events_of(flow) if isinstance(one, Exchange)]
        asked = {
            (one.api_key, one.api_version, one.correlation_id, one.request.wire_size) for one in full if one.request
        }
        answered = {(one.correlation_id, one.response.wire_size) for one in full if one.response}
        for first in chance.sample(range(1, len(flow)), min(len(flow) - 1, SAMPLE)):
            events = events_of([one.recorded(size) for one in flow[first:]])
            left = sum(one.request is not None and one.request.started_at >= flow[first].at for one in full)
            if left >= FEW and path.name[:2] != LOSSY:
                wrong += [f"{first}: {one.what}" for one in events if isinstance(one, NotKafka)]
            for one in [event for event in events if isinstance(event, Exchange)]:
                sent = (
                    (one.api_key, one.api_version, one.correlation_id, one.request.wire_size) if one.request else None
                )
                if sent not in asked | {None}:
                    wrong.append(f"{first}: invented: {describe(one)}")
                if one.response and (one.correlation_id, one.response.wire_size) not in answered:
                    wrong.append(f"{first}: invented response: {describe(one)}")
    assert not wrong
