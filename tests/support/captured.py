"""Real traffic, as it was recorded (captures/README.md)."""

from collections.abc import Iterator
from pathlib import Path

from kproxy.capture import open_capture, read_flows
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import Exchange

CAPTURES = Path(__file__).parents[2] / "captures"


def captured_exchanges() -> Iterator[tuple[str, Exchange]]:
    """Every answered request of every capture, with the name of its file; not those whose bytes are missing in part."""
    for path in sorted(CAPTURES.glob("*.pcap*")):
        with open_capture(path) as capture:
            for event in FlowEvents(read_flows(capture)):
                if isinstance(event, Exchange) and event.response is not None and not event.response.cut:
                    yield path.name, event
