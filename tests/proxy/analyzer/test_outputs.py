"""The analyzer's files while traffic runs: each part of a capture can be read alone."""

from copy import copy
from pathlib import Path

import pytest

from kproxy.capture import open_capture, read_flows
from kproxy.config import Rotated
from kproxy.output.jsonl import event_line
from kproxy.pipeline.flow_reader import Pipeline
from kproxy.proxy.analyzer.outputs import Capture, DecodedLog, with_same_ip_version
from kproxy.session import Connection, Event, Exchange
from tests.support.conversation import broker, client, events_of
from tests.support.frames import heartbeat, heartbeat_answer, produce
from tests.support.traffic import CONNECTION

KEY = (0, 1)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(reason: str) -> None:
    raise AssertionError(reason)


def exchanges(count: int, first: int = 1) -> list[Event]:
    steps = []
    for number in range(first, first + count):
        steps += [client >> heartbeat(number), broker >> heartbeat_answer(number)]
    return events_of(*steps)


def read(path: Path) -> list[int | None]:
    """Correlation ids of the exchanges in a capture, all of which can be read."""
    with open_capture(path) as capture:
        found = [event for event in Pipeline(read_flows(capture)) if isinstance(event, Exchange)]
        assert capture.damage is None
    assert all(exchange.undecoded is None and exchange.request is not None for exchange in found)
    return [exchange.correlation_id for exchange in found]


def test_the_log_has_the_lines_of_the_events(tmp_path: Path, clock: Clock) -> None:
    log = DecodedLog(Rotated(path=str(tmp_path / "a.jsonl")), clock, fail)
    events = exchanges(3)
    for event in events:
        log.take(KEY, event, None)
    log.closed(KEY, 5)
    log.file.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"".join(map(event_line, events))


def test_every_part_of_a_capture_can_be_read_alone(tmp_path: Path, clock: Clock) -> None:
    options = Rotated(path=str(tmp_path / "a.pcapng"), most_size=6_000, keep=100)
    capture = Capture(options, clock, fail)
    for event in exchanges(100):
        capture.take(KEY, event, None)
        other = copy(event)
        other.connection = Connection(1, "10.0.0.6:51234", "10.0.0.9:9092")
        capture.take((1, 1), other, None)  # the same number in another worker is another connection
    capture.closed(KEY, 10**9)
    capture.file.close()
    parts = [*capture.file.parts(), capture.file.path]
    assert len(parts) > 5
    found = [read(part) for part in parts]
    assert sorted(number for part in found for number in part if number) == sorted([*range(1, 101)] * 2)
    assert all(part == sorted(part, key=lambda number: number or 0) for part in found)


def test_a_part_begins_between_take_and_close(tmp_path: Path, clock: Clock) -> None:
    capture = Capture(Rotated(path=str(tmp_path / "a.pcapng"), most_age=60), clock, fail)
    for event in exchanges(1):
        capture.take(KEY, event, None)
    clock.now = 61
    capture.closed(KEY, 10**9)  # its end belongs to the part before
    capture.file.close()
    assert read(tmp_path / "a.000001.pcapng") == [1]
    assert read(tmp_path / "a.pcapng") == []
    assert len(capture._conversations) == 0


def test_after_a_full_disk_the_next_part_begins_anew(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "captures"
    said: list[str] = []
    capture = Capture(Rotated(path=str(folder / "a.pcapng")), clock, said.append)
    first, second, third = exchanges(3)
    capture.take(KEY, first, None)
    folder.mkdir()
    capture.take(KEY, second, None)
    clock.now = 2
    capture.take(KEY, third, None)
    capture.file.close()
    assert read(folder / "a.pcapng") == [3]
    assert said == ["No such file or directory; trying again every second"]


def test_pipelined_requests_are_read_again(tmp_path: Path, clock: Clock) -> None:
    capture = Capture(Rotated(path=str(tmp_path / "a.pcapng")), clock, fail)
    both = heartbeat(1) + produce(2, acks=0) + heartbeat(3)
    for event in events_of(client >> both, broker >> heartbeat_answer(1), broker >> heartbeat_answer(3)):
        capture.take(KEY, event, None)
    capture.file.close()
    assert sorted(number or 0 for number in read(tmp_path / "a.pcapng")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("client_address", "broker_address", "readable"),
    [
        ("[2001:db8::1]:5", "10.0.0.9:9092", True),
        ("10.0.0.1:5", "[::1]:9092", True),
        ("10.0.0.1:5", "broker.example:9092", False),
        ("/run/kafka.sock", "10.0.0.9:9092", False),
    ],
)
def test_addresses_that_do_not_go_together(
    tmp_path: Path, clock: Clock, client_address: str, broker_address: str, readable: bool
) -> None:
    capture = Capture(Rotated(path=str(tmp_path / "a.pcapng")), clock, fail)
    for event in exchanges(2):
        event.connection = Connection(1, client_address, broker_address)
        capture.take(KEY, event, None)
    capture.file.close()
    assert read(tmp_path / "a.pcapng") == ([1, 2] if readable else [])
    assert capture.unwritable == (0 if readable else 1)


def test_ipv4_addresses_are_mapped_as_rfc_4291_says() -> None:
    mixed = with_same_ip_version(Connection(1, "[2001:db8::1]:5", "10.0.0.9:9092"))
    assert (mixed.client, mixed.broker) == ("[2001:db8::1]:5", "[::ffff:10.0.0.9]:9092")
    assert with_same_ip_version(CONNECTION) is CONNECTION
