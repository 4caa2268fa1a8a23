"""What is settled of a ring is what is in the file, or was dropped, whatever the disk does."""

import json
import random
from pathlib import Path

import pytest

from kproxy.config import Rotated
from kproxy.output.jsonl import event_line
from kproxy.pipeline.connections import Connections
from kproxy.pipeline.output import Source
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.analyzer.process import FILES, rotating_file
from kproxy.proxy.analyzer.settling import LogLines, Settlement, cut_off
from kproxy.proxy.tap.ring import TapReader, create_ring
from kproxy.session import Event
from tests.support.conversation import broker, client, events_of
from tests.support.frames import heartbeat, heartbeat_answer


def rings(count: int) -> tuple[list[TapReader], list[Connections]]:
    run = Run(Options(), [])
    return [TapReader(create_ring(65_536)) for _ in range(count)], [run.open_live(str(ring)) for ring in range(count)]


def exchange(number: int) -> Event:
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
        log.write(exchange(number), None)
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
    log.write(exchange(1), None)
    log.flush()
    whole = (tmp_path / "a.jsonl").read_bytes()
    with (tmp_path / "a.jsonl").open("ab") as more:  # written, and the analyzer was killed before it settled
        more.write(event_line(exchange(2), None) + b'{"event":"exch')
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


def test_the_log_has_the_lines_of_the_events(tmp_path: Path) -> None:
    log = FILES["log"](rotating_file(Rotated(path=str(tmp_path / "a.jsonl")), lambda: 0.0, fail))
    steps = [step for number in (1, 2, 3) for step in (client >> heartbeat(number), broker >> heartbeat_answer(number))]
    events = events_of(*steps)
    for event in events:
        log.write(event, None)
    log.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"".join(map(event_line, events))


def test_a_file_has_the_sizes_and_the_number_of_parts_of_the_configuration(tmp_path: Path) -> None:
    file = rotating_file(Rotated(path=str(tmp_path / "a.jsonl"), most_size=6_000, keep=2), lambda: 0.0, fail)
    log = FILES["log"](file)
    for number in range(100):
        for event in events_of(client >> heartbeat(number), broker >> heartbeat_answer(number)):
            log.write(event, None)
    log.close()
    assert len(file.parts()) == 1
    assert all(path.stat().st_size < 8_000 for path in tmp_path.iterdir())
