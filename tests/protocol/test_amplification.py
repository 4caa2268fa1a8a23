"""No message becomes a hundred times its bytes, as JSON or as objects (Envoy's threat model calls that a security bug)."""

import tracemalloc

import pytest

from kproxy.protocol import message
from kproxy.protocol.facts import facts
from tests.support.sampled import sampled
from tests.support.wire import Smallest, newest_layout

MOST = 100  # times the bytes that came
SIZE = 1 << 16

# The worst of all messages, versions and arrays, found by asking all of them (the last test).
WORST = [
    ("StreamsGroupHeartbeatRequest", 0),
    ("DeleteAclsRequest", 3),
    ("AlterClientQuotasRequest", 1),
    ("DescribeClientQuotasResponse", 1),
    ("CreatePartitionsRequest", 3),
    ("ApiVersionsResponse", 4),
    ("FetchRequest", 17),
    ("MetadataResponse", 13),
]


def growth(name: str, version: int, size: int) -> list[tuple[float, float, str]]:
    """(JSON, objects at their peak, which array) as multiples of the input, for each array repeated to *size* bytes."""
    found = []
    layout = message(name)
    for fill in (b"\0", b"\x80"):  # zeros are the shortest numbers; 0x80 makes the longest
        for array, data in Smallest(newest_layout(name, version), version, fill).grown(size):
            text = len(layout.to_json(version, data))
            tracemalloc.start()
            try:
                value = layout.decode(version, data)
                memory = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            del value
            found.append((text / len(data), memory / len(data), array))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version"), sampled(WORST, list(WORST)[::4]))
def test_the_worst_messages_stay_below_the_limit(name: str, version: int) -> None:
    grown = growth(name, version, SIZE)
    assert grown
    for text, memory, array in grown:
        assert text < MOST, f"{array}: JSON of {text:.0f} times its bytes"
        assert memory < MOST, f"{array}: objects of {memory:.0f} times their bytes"


def test_control_characters_and_bad_utf8_stay_below_the_limit() -> None:
    layout = message("ApiVersionsRequest")
    for byte in (b"\1", b"\xff", b'"'):
        data = b"\xff\xff\1" + byte * 32_766 + b"\1\0"
        assert len(layout.to_json(3, data)) < 7 * len(data)
        assert layout.decode(3, data).client_software_name


def test_no_message_at_any_version_goes_beyond_the_limit() -> None:
    for name in facts().messages():
        for version in message(name).versions:
            for text, memory, array in growth(name, version, SIZE // 64):
                assert max(text, memory) < MOST, f"{name} v{version} {array}: {text:.0f}, {memory:.0f}"
