"""Frames without requests: whether their bodies are laid out as responses; tried with those of captures and other protocols."""

import random
from pathlib import Path
from struct import pack

import pytest

import kproxy
from kproxy.session import Exchange
from kproxy.session.lone_responses import have_layouts
from tests.support.foreign import rpc, zookeeper

CAPTURES = sorted((Path(__file__).parents[2] / "captures").glob("*.pcap"))


def responses(path: Path) -> dict[str, bytes]:
    """All whole responses of a capture, in a row, by connection."""
    found: dict[str, bytes] = {}
    for event in kproxy.read(path):
        if isinstance(event, Exchange) and event.response is not None and not event.response.cut:
            frame = pack(">i", len(event.response.data)) + event.response.data
            found[event.connection.client] = found.get(event.connection.client, b"") + frame
    return found


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name[:2])
def test_responses_of_every_capture_have_layouts(path: Path) -> None:
    for client, data in responses(path).items():
        several = int.from_bytes(data[:4], "big") + 4 < len(data)
        assert have_layouts(data) == several, client  # a single one is not enough


@pytest.mark.parametrize("protocol", [zookeeper, rpc], ids=lambda protocol: protocol.__name__)
def test_numbered_answers_of_other_protocols_have_none(protocol: type) -> None:
    for seed in range(20):
        data = [data for side, data in protocol(random.Random(seed)) if side == 1]
        assert not any(have_layouts(b"".join(data[start:])) for start in range(len(data)))


def test_a_cut_body_has_a_layout_as_far_as_it_goes_but_does_not_count() -> None:
    heartbeat = pack(">iiih", 10, 1, 0, 0)
    listed = pack(">iiii", 100, 2, 0, 1)  # throttle time, an array of one; 88 bytes were not recorded
    hole = (len(heartbeat) + len(listed), len(heartbeat) + 104)
    data = heartbeat + listed + bytes(88) + pack(">iiih", 10, 3, 0, 0)
    assert have_layouts(data, [hole])
    assert not have_layouts(data[: hole[1]], [hole])  # one whole, one cut
    assert not have_layouts(heartbeat + pack(">iii", 100, 2, 0x7FFFFFFF) + b"?" * 92 + heartbeat)
