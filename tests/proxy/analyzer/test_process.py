"""The analyzer as a process: what `kproxy decode` says of a capture it says of the same bytes in its tap."""

import asyncio
import errno
import itertools
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from select import select
from struct import pack
from threading import Thread
from typing import Any

import msgspec
import pytest

from kproxy.config.structs import Analysis, Traces
from kproxy.errors import UsageError
from kproxy.options import Rotated
from kproxy.output.jsonl import event_line
from kproxy.pipeline import connections
from kproxy.pipeline.connections import Connections
from kproxy.pipeline.output import Source
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.analyzer import page_feed, process
from kproxy.proxy.analyzer.process import FILES, MOST_MESSAGES, Analyzer, Stuck, rotating_file
from kproxy.proxy.analyzer.settling import LogLines, Settlement, cut_off
from kproxy.proxy.analyzer.traces import TraceExport
from kproxy.proxy.logs import EVENTS_LOST
from kproxy.proxy.messages import AnalyzerCounts, Configure, Failed, ForgetWorker, LogEvent, Ready
from kproxy.proxy.page_records import Begun, Pieces, Shown, Tally
from kproxy.proxy.tap.ring import TapReader, TapWriter, create_ring
from kproxy.proxy.tap.tapped import TapKind
from kproxy.schemas.settings import SchemaSources
from kproxy.session import Event, Exchange, Session
from tests.support.command import kproxy
from tests.support.conversation import broker, client, events_of, fetch_exchange, produce_exchange, records_of
from tests.support.corpus import CAPTURES
from tests.support.frames import batch, heartbeat, heartbeat_answer, record, request, response, string
from tests.support.loops import run
from tests.support.otlp import attributes, http_collector
from tests.support.tap import AnalyzerProcess, Item, opened, tap_items

WHOLE = ["01-java-produce-consume-group.pcap", "02-librdkafka-codecs-kip848.pcap", "04-transactions.pcap"]
MORE = ["03-classic-rebalance-range.pcap", "05-admin.pcap"]
ADDRESSES = "10.0.0.5:51234", "10.0.0.9:9092"


def decode(capture: Path) -> list[str]:
    """Lines of `kproxy decode`."""
    with tempfile.NamedTemporaryFile() as output:
        assert kproxy("decode", "--format", "jsonl", "-o", output.name, capture) == 0
        return Path(output.name).read_text(encoding="utf-8").splitlines()


def told(lines: list[str]) -> list[tuple[Any, ...]]:
    """What has to be the same of exchanges that were written as packets and read again."""
    rows = [json.loads(line) for line in lines]
    fields = ("apiName", "apiVersion", "correlationId", "clientId", "requestAt", "responseAt", "responseSize", "errors")
    return sorted(tuple(str(row[field]) for field in fields) for row in rows if row["event"] == "exchange")


def exchange(number: int, correlation_id: int, at: int = 5) -> list[Item]:
    return [
        (TapKind.DATA, number, 0, at, heartbeat(correlation_id)),
        (TapKind.DATA, number, 1, at + 1, heartbeat_answer(correlation_id)),
    ]


@pytest.fixture
def analyzer() -> Iterator[Analyzer]:
    fd = create_ring(65_536)
    yield Analyzer([TapReader(fd)])
    os.close(fd)


@pytest.fixture
def ring(analyzer: Analyzer) -> "Ring":
    return Ring(analyzer)


class Ring:
    """The ring of *analyzer*, read from now on."""

    def __init__(self, analyzer: Analyzer) -> None:
        (self.reader,) = analyzer._readers
        self.reader.attach()
        self.writer = TapWriter(self.reader.fd)

    def put(self, *items: Item) -> None:
        assert all(self.writer.put(*item) for item in items)


def read_and_flush(analyzer: Analyzer) -> None:
    while analyzer.read(0):
        pass
    analyzer.flush()


def correlation_ids(log: Path) -> list[int]:
    return [json.loads(line)["correlationId"] for line in log.read_text().splitlines()]


@pytest.mark.parametrize("records", [True, False])
def test_the_log_has_values_by_their_schemas_if_records_are_shown(
    analyzer: Analyzer, ring: Ring, tmp_path: Path, records: bool
) -> None:
    (tmp_path / "order.avsc").write_text(
        '{"type":"record","name":"Order","fields":[{"name":"country","type":"string"}]}'
    )
    schemas = SchemaSources(topics={"orders.value": str(tmp_path / "order.avsc")})
    analyzer.show_records(schemas if records else None)
    analyzer.configure(Analysis(log=Rotated(path=str(tmp_path / "kafka.jsonl"))))
    sent = produce_exchange(batch(record(b"k", b"\x0eOceania"), 1))  # a text of 7 bytes, by Avro's specification
    ring.put(opened(1, *ADDRESSES))
    for direction, frame in enumerate((sent.request, sent.response)):
        assert frame is not None
        ring.put((TapKind.DATA, 1, direction, 5 + direction, pack(">i", len(frame.data)) + frame.data))
    read_and_flush(analyzer)
    line = (tmp_path / "kafka.jsonl").read_text()
    assert ('"value": {"country": "Oceania"}' in line) is records
    assert ("Oceania" in line) is records


def test_what_passed_while_it_was_started_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "kafka.jsonl"
    passed = [opened(1, *ADDRESSES), *(item for number in range(1_000) for item in exchange(1, number))]
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log))), before=passed) as analyzer:
        assert analyzer.drain().exchanges == 1_000
    assert correlation_ids(log) == list(range(1_000))


@pytest.mark.parametrize(
    "name", [WHOLE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in (*WHOLE[1:], *MORE))]
)
def test_the_log_is_that_of_kproxy_decode(tmp_path: Path, name: str) -> None:
    log = tmp_path / "kafka.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log)))) as analyzer:
        analyzer.tap(tap_items(CAPTURES / name))
        counts = analyzer.drain()
    expected = decode(CAPTURES / name)
    assert log.read_text().splitlines() == expected
    assert counts.exchanges == sum('"event":"exchange"' in line for line in expected)
    assert counts.faults == {} and counts.ring_faults == 0


@pytest.mark.parametrize("name", [WHOLE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in WHOLE[1:])])
def test_kproxy_decode_reads_the_parts_of_its_log_and_capture(tmp_path: Path, name: str) -> None:
    capture = tmp_path / "kafka.pcapng"
    options = Rotated(path=str(capture), most_size=20_000, keep=1_000)
    with AnalyzerProcess(Analysis(capture=options)) as analyzer:
        analyzer.tap(tap_items(CAPTURES / name))
        analyzer.drain()
    parts = sorted(tmp_path.iterdir())
    assert len(parts) > 1
    assert told([line for part in parts for line in decode(part)]) == told(decode(CAPTURES / name))


def test_an_assignment_is_opened_with_what_a_join_told_before(tmp_path: Path) -> None:
    """JoinGroup v0 names the group's protocol, SyncGroup does so from version 5 only (KIP-559)."""
    asked = string("g") + pack(">i", 10_000) + string("") + string("connect") + pack(">i", 0)
    joined = pack(">hi", 0, 1) + string("default") + string("m") + string("m") + pack(">i", 0)
    # org.apache.kafka.connect.runtime.distributed.ConnectProtocol: version, error, leader, its URL, offset, assignment
    assignment = pack(">hh", 0, 0) + string("m") + string("http://worker/") + pack(">q", 5) + pack(">i", 0)
    log = tmp_path / "kafka.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log)))) as analyzer:
        analyzer.tap(
            [
                opened(1, *ADDRESSES),
                (TapKind.DATA, 1, 0, 5, request(11, 0, 1, asked)),
                (TapKind.DATA, 1, 1, 6, response(1, joined)),
                (TapKind.DATA, 1, 0, 7, request(14, 0, 2, string("g") + pack(">i", 1) + string("m") + pack(">i", 0))),
                (TapKind.DATA, 1, 1, 8, response(2, pack(">hi", 0, len(assignment)) + assignment)),
            ]
        )
        analyzer.drain()
    _, synced = map(json.loads, log.read_text().splitlines())
    assert [one["kind"] for one in synced["embedded"]] == ["connect-assignment"]


def test_it_starts_small_and_is_found_by_its_name(tmp_path: Path) -> None:
    with AnalyzerProcess(Analysis()) as analyzer:
        process = Path("/proc") / str(analyzer.process.pid)
        assert (process / "cmdline").read_bytes().rstrip(b"\0") == b"kproxy: analyzer (kproxy-analyzer)"
        resident = int((process / "statm").read_text().split()[1]) * resource.getpagesize()
        assert resident < 50 << 20
        assert os.getpriority(os.PRIO_PROCESS, analyzer.process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5


def test_a_killed_analyzer_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "kafka.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log)))) as analyzer:
        analyzer.tap([opened(1, *ADDRESSES), *exchange(1, 1)])
        while not log.stat().st_size:
            analyzer.until(AnalyzerCounts)
        analyzer.process.kill()
        analyzer.process.wait()
        epoch = analyzer.writers[0].epoch
        cut = (TapKind.DATA, 1, 0, 5, heartbeat(2)[:7])
        analyzer.tap([cut])  # nobody reads: it stays in the ring, and is passed over
        analyzer.control.close()
        analyzer.start()
        assert analyzer.writers[0].epoch == epoch + 1
        analyzer.tap([opened(1, *ADDRESSES, from_start=False), *exchange(1, 3), *exchange(1, 4)])
        analyzer.drain()
    first, second = sorted(tmp_path.iterdir())
    assert correlation_ids(first) == [1]
    assert correlation_ids(second)[-1] == 4


def test_it_ends_with_its_supervisor() -> None:
    with AnalyzerProcess(Analysis()) as analyzer:
        analyzer.control.shutdown(2)
        assert analyzer.process.wait(30) == 0
        assert analyzer.writers[0].epoch == 0  # nobody reads: workers need not write


def test_a_dead_workers_connections_are_closed_and_the_others_go_on(tmp_path: Path) -> None:
    log = tmp_path / "kafka.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log))), rings=2) as analyzer:
        for ring in (0, 1):
            analyzer.tap([opened(1, *ADDRESSES), (TapKind.DATA, 1, 0, 5, heartbeat(ring))], ring=ring)
        analyzer.send(ForgetWorker(0))
        while analyzer.until(AnalyzerCounts).unanswered == 0:
            pass
        analyzer.tap([(TapKind.DATA, 1, 1, 6, heartbeat_answer(1))], ring=1)
        analyzer.drain()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(row["correlationId"], row["response"] is None) for row in rows] == [(0, True), (1, False)]


def test_what_a_dead_worker_wrote_last_is_analyzed_to_its_end(analyzer: Analyzer, ring: Ring) -> None:
    """However far behind the analyzer was: kproxy's own drain ends so, too."""
    ring.put(opened(1, *ADDRESSES), *(item for number in range(200) for item in exchange(1, number)))
    asyncio.run(analyzer.forget(0))
    assert (analyzer.counts.exchanges, len(analyzer.taps[0].connections)) == (200, 0)
    ring.put(opened(2, *ADDRESSES), *exchange(2, 1))
    asyncio.run(analyzer.finish())
    assert analyzer.counts.exchanges == 201
    assert ring.writer.epoch == 0


def test_a_page_is_fed_while_it_is_there(analyzer: Analyzer, ring: Ring, tmp_path: Path) -> None:
    path = str(tmp_path / "feed")
    analyzer.feed_page(path)
    assert [message.event for message in analyzer.take_messages()] == ["the page gets no exchanges"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        analyzer.feed_page(path)
        page, _ = listener.accept()
    ring.put(opened(1, *ADDRESSES), *exchange(1, 1))
    read_and_flush(analyzer)
    with page:
        page.settimeout(60)
        sent = page.recv(1 << 20)
    records = [record for piece in Pieces().feed(sent) for record in piece]
    assert [record.client for record in records if isinstance(record, Begun)] == [ADDRESSES[0]]
    (shown,) = [record for record in records if isinstance(record, Shown)]
    assert shown.request is not None
    assert shown.request.data == heartbeat(1)[4:]
    assert records[-1] == Tally(1, 0, 0, 1.0, shown.at)
    ring.put(*exchange(1, 2))
    read_and_flush(analyzer)
    analyzer.flush()
    assert analyzer._run.outputs == [analyzer.counts]
    assert analyzer.counts.exchanges == 2


def test_a_page_that_took_nothing_for_too_long_gets_another_feed(
    analyzer: Analyzer, ring: Ring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_feed, "MOST_HELD", 1 << 20)
    path = str(tmp_path / "feed")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        analyzer.feed_page(path)
        first, _ = listener.accept()
        ring.put(opened(1, *ADDRESSES))
        for number in itertools.count(2):
            ring.put(opened(number, *ADDRESSES), (TapKind.CLOSE, number, 0, 5, b"\0"))
            read_and_flush(analyzer)
            if select([listener], [], [], 0)[0]:
                break
        second, _ = listener.accept()
    with first, second:
        analyzer.flush()
        second.settimeout(60)
        records = [record for piece in Pieces().feed(second.recv(1 << 20)) for record in piece]
        analyzer.feed_page("")
    assert [record.client for record in records if isinstance(record, Begun)] == [ADDRESSES[0]]


def test_files_follow_the_configuration_without_a_restart(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(first)))) as analyzer:
        analyzer.tap([opened(1, *ADDRESSES), *exchange(1, 1)])
        while not first.stat().st_size:
            analyzer.until(AnalyzerCounts)
        for options in (Analysis(log=Rotated(path=str(second))), Analysis(log=Rotated(path=str(second)), snaplen=5)):
            analyzer.configure(options)
            assert analyzer.until(Ready, Failed) == Ready()
        analyzer.send(Configure(msgspec.Raw(b'{"clusters": 5}')))
        assert "clusters" in analyzer.until(Failed).why
        analyzer.tap(exchange(1, 2))
        analyzer.drain()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.jsonl", "second.jsonl"]
    assert correlation_ids(second) == [2]


def test_attack_23_a_folder_that_is_not_there_is_said_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "kafka.jsonl"
    with AnalyzerProcess(Analysis(log=Rotated(path=str(log)))) as analyzer:
        analyzer.tap([opened(1, *ADDRESSES), *exchange(1, 1)])
        message = analyzer.until(LogEvent)
        assert (message.event, message.keys["file"]) == ("file cannot be written", str(log))
        assert os.strerror(errno.ENOENT) in str(message.keys["reason"])
        log.parent.mkdir()
        correlation_id = 1
        while not log.exists():
            correlation_id += 1
            analyzer.tap(exchange(1, correlation_id))
            analyzer.until(AnalyzerCounts)
        counts = analyzer.drain()
    written = log.read_bytes()
    assert counts.outputs["log"].written == len(written) > 0
    assert counts.outputs["log"].dropped > 0
    assert counts.exchanges == correlation_id  # counted, whatever the disk does


def changed(data: bytes, rng: random.Random) -> bytes:
    """Other bytes in their place."""
    other = bytearray(data)
    for _ in range(rng.randrange(1, 8)):
        other[rng.randrange(min(len(other), rng.choice((12, 60, 100_000))))] = rng.choice((0, 255, 127, 128, 1))
    return rng.choice((bytes(other), data[: rng.randrange(len(data))], data + data, rng.randbytes(50)))


def mutated(items: list[Item], rng: random.Random, number: int) -> Iterator[Item]:
    """Records of one connection with bytes changed, lost, doubled, out of place."""
    for kind, _, direction, at, data in items:
        said = changed(data, rng) if kind == TapKind.DATA and rng.random() < 0.3 else data
        if rng.random() < 0.05:
            yield TapKind.LOST, number, direction, at, rng.choice((0, 1, 1000, 2**64 - 1)).to_bytes(8, "little")
        elif rng.random() > 0.02:
            yield kind, number, direction if rng.random() > 0.02 else 1 - direction, at, said


@pytest.mark.parametrize("name", [WHOLE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in WHOLE[1:])])
def test_no_traffic_harms_the_analysis_of_other_connections(tmp_path: Path, name: str) -> None:
    """Attacks 2, 3, 6, 7, 10, 12, 14 and 28, thrown at everything that stands behind the tap."""
    analysis = Analysis(
        log=Rotated(path=str(tmp_path / "kafka.jsonl")), capture=Rotated(path=str(tmp_path / "kafka.pcapng"))
    )
    rng = random.Random(name)
    taps: dict[int, list[Item]] = {}
    for item in tap_items(CAPTURES / name):
        taps.setdefault(item[1], []).append(item)
    with AnalyzerProcess(analysis) as analyzer:
        analyzer.tap([opened(1, *ADDRESSES)])
        for round_number in range(5):
            for number, items in enumerate(taps.values(), 1000 * (round_number + 1)):
                analyzer.tap([opened(number, "10.1.1.1:5", ADDRESSES[1], from_start=rng.random() < 0.5)])
                analyzer.tap(list(mutated(items[1:], rng, number)))
            analyzer.tap(exchange(1, round_number))
        counts = analyzer.drain()
    assert counts.faults == {}
    rows = [json.loads(line) for line in (tmp_path / "kafka.jsonl").read_text().splitlines()]
    assert [row["correlationId"] for row in rows if row["connection"] == 1] == list(range(5))


def test_an_analysis_that_hangs_is_given_up(analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Session):
        def receive(self, direction: int, data: bytes, at: int, sent_at: int = 0) -> list[Event]:
            while self.connection.number == 1:
                pass
            return super().receive(direction, data, at, sent_at)

    def decode() -> None:
        with analyzer._watched():
            analyzer.taps[0].decode(
                [
                    (*item, 0)
                    for item in [opened(1, *ADDRESSES), opened(2, *ADDRESSES), *exchange(1, 1), *exchange(2, 2)]
                ]
            )

    monkeypatch.setattr(connections, "Session", Hanging)
    monkeypatch.setattr(process, "STUCK_S", 0.2)
    thread = Thread(target=decode)
    thread.start()
    while thread.is_alive():
        analyzer.watch(thread)
        thread.join(0.01)
    assert analyzer.counts.exchanges == 1
    assert analyzer.message().faults == {"Stuck": 1}
    assert analyzer.messages[0].keys == {"connection": 1, "reason": "Stuck"}


def test_log_events_that_are_dropped_are_counted_and_reported(analyzer: Analyzer) -> None:
    for number in range(MOST_MESSAGES + 3):
        analyzer.report("an event", connection=number)
    lost, *events = analyzer.take_messages()
    assert lost == LogEvent("warning", EVENTS_LOST, {"count": 3})
    assert [event.keys["connection"] for event in events] == list(range(3, MOST_MESSAGES + 3))
    analyzer.report("an event")
    assert analyzer.take_messages() == [LogEvent("error", "an event", {})]
    assert analyzer.take_messages() == []


def test_a_ring_that_holds_what_cannot_be_begins_anew(analyzer: Analyzer, ring: Ring) -> None:
    ring.put(opened(1, *ADDRESSES), *exchange(1, 1))
    assert asyncio.run(analyzer.read_all()) == 3
    os.pwrite(ring.reader.fd, pack("<Q", 2**63), 0)  # the ring's head
    assert asyncio.run(analyzer.read_all()) == 0
    counts = analyzer.message()
    assert (counts.ring_faults, counts.connections, counts.exchanges) == (1, 0, 1)


@pytest.mark.slow
def test_a_sleeping_analyzer_loses_nothing_of_a_burst_as_large_as_its_ring() -> None:
    with AnalyzerProcess(Analysis()) as analyzer:
        analyzer.until(AnalyzerCounts)  # it has read for a second, and sleeps
        burst = [opened(1, *ADDRESSES), *(item for number in range(37_000) for item in exchange(1, number))]
        assert all(analyzer.writers[0].put(*item) for item in burst), "no room"
        assert analyzer.drain().exchanges == 37_000


def test_it_is_behind_when_a_ring_fills_or_nobody_reads_it(analyzer: Analyzer, ring: Ring) -> None:
    assert not analyzer.is_far_behind()
    ring.put(opened(1, *ADDRESSES))
    assert analyzer.is_far_behind(), "nothing was read between two looks"
    asyncio.run(analyzer.read_all())
    assert not analyzer.is_far_behind()
    ring.put(*exchange(1, 1))
    analyzer.read(0)
    correlation_id = 1
    while ring.reader.waiting <= 65_536 // 8 + 4096:
        correlation_id += 1
        ring.put(*exchange(1, correlation_id))
    assert analyzer.is_far_behind(), "the ring fills"
    asyncio.run(analyzer.finish())
    assert not analyzer.is_far_behind()


def test_much_work_is_no_hang(analyzer: Analyzer, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    cpu = itertools.count()
    monkeypatch.setattr(process, "raise_in", lambda thread, exception: raised.append(exception))
    monkeypatch.setattr(process.time, "process_time", lambda: float(next(cpu)))  # a second of CPU between two looks
    thread = Thread()
    with analyzer._watched():
        for number in range(1, 100):
            analyzer.taps[0].decode([(*item, 0) for item in [opened(number, *ADDRESSES)]])
            analyzer.watch(thread)
    for _ in range(100):
        analyzer.watch(thread)  # idle
    assert raised == []
    with analyzer._watched():
        for _ in range(4):
            analyzer.watch(thread)
    assert raised == [Stuck]


def rings(count: int) -> tuple[list[TapReader], list[Connections]]:
    run = Run(Options(), [])
    return [TapReader(create_ring(65_536)) for _ in range(count)], [run.open_live(str(ring)) for ring in range(count)]


def heartbeat_exchange(number: int) -> Event:
    return events_of(client >> heartbeat(number, "g" * (number % 50)), broker >> heartbeat_answer(number))[0]


def lines(folder: Path) -> list[int]:
    text = b"".join(file.read_bytes() for file in sorted(folder.glob("a*.jsonl")))
    return sorted(json.loads(line)["correlationId"] for line in text.splitlines())


@pytest.mark.parametrize("seed", range(6))
def test_what_is_settled_is_what_is_in_the_files_and_what_was_dropped(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folder, away = tmp_path / "logs", tmp_path / "away"
    folder.mkdir()
    now = 0.0
    options = Rotated(path=str(folder / "a.jsonl"), most_size=chance.choice((5_000, 1 << 20)), keep=10_000)
    file = rotating_file(options, lambda: now, lambda reason: None)
    readers, connections = rings(2)
    settlement = Settlement(readers, connections)
    log = LogLines(event_line, file)
    settlement.use(log)
    written = [0, 0]
    for number in range(1, 1_000):
        ring = chance.randrange(2)
        log.start_source(Source(ring + 1, ""))
        log.write(heartbeat_exchange(number), None)
        written[ring] += 1
        now += 0.1
        if chance.random() < 0.02 and folder.exists():
            folder.rename(away)
        if chance.random() < 0.1 and away.exists():
            away.rename(folder)
        if chance.random() < 0.05:
            log.flush()
            assert [reader.settled[0] for reader in readers] == written
    if away.exists():
        away.rename(folder)
    log.close()
    found = lines(folder)
    assert len(found) == len(set(found))
    assert [reader.settled[0] for reader in readers] == written
    assert len(found) + settlement.left_out().get("output", 0) == sum(written)


def test_a_log_is_cut_off_where_it_was_settled(tmp_path: Path) -> None:
    file = rotating_file(Rotated(path=str(tmp_path / "a.jsonl")), lambda: 0.0, lambda reason: None)
    readers, connections = rings(2)
    settlement = Settlement(readers, connections)
    log = LogLines(event_line, file)
    settlement.use(log)
    log.write(heartbeat_exchange(1), None)
    log.flush()
    whole = (tmp_path / "a.jsonl").read_bytes()
    with (tmp_path / "a.jsonl").open("ab") as more:  # written, and the analyzer was killed before it settled
        more.write(event_line(heartbeat_exchange(2), None) + b'{"event":"exch')
    (tmp_path / "a.000001.jsonl").write_bytes(b"another part")
    (tmp_path / "b.jsonl").write_bytes(b"another file")
    cut_off(tmp_path / "a.jsonl", readers)
    assert (tmp_path / "a.jsonl").read_bytes() == whole
    assert (tmp_path / "a.000001.jsonl").read_bytes() == b"another part"
    assert (tmp_path / "b.jsonl").read_bytes() == b"another file"


def test_the_first_analyzer_cuts_nothing_off(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"of an earlier run")
    cut_off(tmp_path / "a.jsonl", rings(1)[0])
    assert (tmp_path / "a.jsonl").read_bytes() == b"of an earlier run"


def fail(reason: str) -> None:
    raise AssertionError(reason)


def test_a_file_has_the_sizes_and_the_number_of_parts_of_the_configuration(tmp_path: Path) -> None:
    file = rotating_file(Rotated(path=str(tmp_path / "a.jsonl"), most_size=6_000, keep=2), lambda: 0.0, fail)
    log = FILES["log"](file)
    for number in range(100):
        for event in events_of(client >> heartbeat(number), broker >> heartbeat_answer(number)):
            log.write(event, None)
    log.close()
    assert len(file.parts()) == 1
    assert all(path.stat().st_size < 8_000 for path in tmp_path.iterdir())


def test_spans_of_the_apis_asked_for_are_exported_and_counted() -> None:
    async def main(address: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        traces = TraceExport(Traces(otlp=address, sample=1, apis=["Produce"]), [].append, counts)
        assert counts == {"exported": 0, "dropped": 0, "failed": 0}
        for exchange in (produce_exchange(records_of([])), fetch_exchange(b"")):
            traces.output.write(exchange, None)
        await traces.close(30)
        return counts

    with http_collector() as collector:
        assert run("asyncio", main(collector.address)) == {"exported": 1, "dropped": 0, "failed": 0}
        assert [span.name for span in collector.spans()] == ["Produce orders"]


def test_another_configuration_is_used_from_then_on() -> None:
    async def main(first: str, second: str) -> None:
        analyzer = Analyzer([])

        def write(exchange: Exchange) -> None:
            for output in analyzer._run.outputs:
                output.write(exchange, None)

        exchange = produce_exchange(records_of([]))
        analyzer.trace(Traces(otlp=first, sample=1))
        write(exchange)
        analyzer.trace(Traces(otlp=first, sample=1))  # the same: goes on
        write(exchange)
        with pytest.raises(UsageError):
            analyzer.trace(Traces(otlp="https://c:1", ca="/no/such/file"))
        write(exchange)
        analyzer.trace(Traces(otlp=second, sample=1, service_name="second"))
        write(exchange)
        await analyzer.end_traces(30)
        assert analyzer.message().spans == {"exported": 4, "dropped": 0, "failed": 0}
        analyzer.trace(None)
        write(exchange)
        await asyncio.wait_for(analyzer.end_traces(30), 30)
        assert analyzer.message().spans == {"exported": 4, "dropped": 0, "failed": 0}

    with http_collector() as first, http_collector() as second:
        run("asyncio", main(first.address, second.address))
        assert (len(first.spans()), len(second.spans())) == (3, 1)
        [resource] = second.requests[0].resource_spans
        assert attributes(resource.resource)["service.name"] == "second"


def test_without_traces_an_analyzer_imports_nothing_of_them() -> None:
    code = "import sys, kproxy.proxy.analyzer.process; print(*(name for name in sys.modules if name.startswith(NAMES)))"
    names = ("opentelemetry", "google.protobuf", "grpc", "kproxy.proxy.otlp", "kproxy.output.spans", "h11")
    words = [sys.executable, "-c", f"NAMES = {names!r}; {code}"]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout.split() == []
