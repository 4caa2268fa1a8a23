"""The head of a capture: topic names with their packets, and the events that wait for them."""

from pathlib import Path

from kproxy.capture.splitting import begin
from kproxy.pipeline.run import Run
from kproxy.spark.head import Head, read_head
from tests.support.split_captures import packets_of
from tests.support.traffic import CAPTURES

NAME = "01-java-produce-consume-group.pcap"


def head_of(path: Path, size: int | None = None) -> Head:
    with path.open("rb", buffering=0) as raw, Run() as run:
        start = begin(raw)
        assert start is not None
        return read_head(raw, start, path.stat().st_size, run, [], **({} if size is None else {"head": size}))


def test_names_come_with_the_packet_that_shows_them() -> None:
    found = head_of(CAPTURES / NAME)
    [(number, name)] = found.names.values()
    assert name == "orders"
    _, records = packets_of(NAME)
    assert b"orders" in records[number - 1]
    assert found.waits == {}


def test_events_whose_names_come_late_wait_for_them(tmp_path: Path) -> None:
    header, records = packets_of(NAME)
    shown = next(number for topic_id, (number, name) in head_of(CAPTURES / NAME).names.items() if name == "orders")
    late = [*records[: shown - 1], *records[shown:], records[shown - 1]]  # the response with the name comes last
    (path := tmp_path / "late.pcap").write_bytes(header + b"".join(late))
    found = head_of(path)
    assert found.waits
    assert all(packet < until for packet, until in found.waits.items())


def test_only_the_head_is_read() -> None:
    assert head_of(CAPTURES / NAME, 500).names == {}
