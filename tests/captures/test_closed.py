"""How connections end, as the kernel ended them: closed/*.pcap are of a client and a broker of a few lines on the loopback.

In each, a Heartbeat is answered and another asked; then happens what the name of the file says, recorded by dumpcap.
Who sent FIN or RST first is asked of tshark.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from kproxy.capture import open_capture, read_flows
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.session import Cut, Event, Exchange, Gap
from tests.conftest import Require

CLOSED = Path(__file__).parent / "closed"
PORT = 19_092  # of the broker
NAMES = sorted(path.stem for path in CLOSED.glob("*.pcap"))
IN_FLIGHT = {  # what has no response, or no end, where a connection ends in the middle of something
    "broker-closes": "the broker closed the connection before the response",
    "broker-closes-inside-a-response": "the broker closed the connection inside the response",
    "broker-resets": "the broker reset the connection before the response",
    "client-closes": "the client closed the connection before the response",
    "client-closes-inside-a-response": "the client reset the connection inside the response",
    "client-closes-then-is-answered": None,
    "client-half-closes": None,
    "client-resets": "the client reset the connection before the response",
    "client-resets-inside-a-request": "the client reset the connection inside the request",
}


def events_of(name: str) -> list[Event]:
    with open_capture(CLOSED / f"{name}.pcap") as capture:
        return list(FlowEvents(read_flows(capture)))


def first_to_end(name: str) -> str:
    """Who closed, as tshark sees it."""
    command = [
        "tshark",
        "-r",
        str(CLOSED / f"{name}.pcap"),
        "-T",
        "fields",
        "-Y",
        "tcp.flags.fin == 1 || tcp.flags.reset == 1",
    ]
    command += [*("-e", "tcp.srcport"), *("-e", "tcp.flags.reset")]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    port, reset = first.split("\t")
    return f"the {'broker' if int(port) == PORT else 'client'} {'reset' if reset in ('1', 'True') else 'closed'} the connection"


def test_every_ending_was_recorded() -> None:
    assert sorted(IN_FLIGHT) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_who_sent_fin_or_rst_first_is_who_tshark_says(require: Require, name: str) -> None:
    require("tshark", shutil.which("tshark"), "tshark is not installed")
    assert {event.connection.closed for event in events_of(name) if isinstance(event, Exchange)} == {first_to_end(name)}


@pytest.mark.parametrize("name", NAMES)
def test_what_was_in_flight_says_how_it_ended_and_nothing_is_called_missing(name: str) -> None:
    events = events_of(name)
    assert not [event for event in events if isinstance(event, Gap)]
    *before, last = (event for event in events if isinstance(event, Exchange))
    assert all(event.response is not None and event.bodies is None for event in before)
    assert IN_FLIGHT[name] == (last.bodies or last.unanswered)
    cut = [frame.cut for frame in (last.request, last.response) if frame is not None and frame.cut]
    assert cut == ([Cut.RESET] if last.bodies else [])


def test_a_response_that_was_cut_off_has_the_size_that_it_would_have_had() -> None:
    last = events_of("client-closes-inside-a-response")[-1]
    assert isinstance(last, Exchange) and last.response is not None
    assert (last.response.wire_size, len(last.response.data)) == (200_008, 59_996)
