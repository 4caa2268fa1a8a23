"""The analyzer's files: each output that the configuration can ask for, writing in parts."""

from pathlib import Path

from kproxy.config import Rotated
from kproxy.output.jsonl import event_line
from kproxy.proxy.analyzer.outputs import FILES, rotating_file
from tests.support.conversation import broker, client, events_of
from tests.support.frames import heartbeat, heartbeat_answer


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
