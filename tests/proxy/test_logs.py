"""The log: one event one line whatever is in it (21 of the promises), and never in the way (23 of the hostile inputs)."""

import ast
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy import logs
from kproxy.proxy.logs import BURST, KEYS, LEVELS, LineHandler, Relay, log, render_json, render_text, start_logging
from kproxy.proxy.messages import LogEvent

PACKAGE = Path(logs.__file__).parent
HOSTILE = "a\nb\r\x1b[31m\u202egnp\u2028\x00\x85" + "x" * 5_000


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def record(event: str, **keys: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "kproxy", "levelname": "INFO", "msg": event, "keys": keys, "created": 1.5})


def written(read: int) -> list[str]:
    return os.read(read, 1 << 20).decode("ascii").split("\n")[:-1]


def test_an_event_as_json() -> None:
    line = render_json(record("serving", listen=[":1"], workers=2, analysis=True, admin=None))
    assert json.loads(line) == {
        "at": "1970-01-01T00:00:01.500000Z",
        "level": "info",
        "event": "serving",
        "listen": [":1"],
        "workers": 2,
        "analysis": True,
        "admin": None,
    }


def test_an_event_as_text() -> None:
    line = render_text(record("a process ended", worker=0, reason="no such file"))
    assert line.endswith('info    a process ended  worker=0 reason="no such file"')


@given(st.text(max_size=300))
def test_21_one_event_is_one_line_of_printable_ascii(name: str) -> None:
    for render in (render_json, render_text):
        line = render(record("refused", client_id=name, reason=name))
        assert re.fullmatch(r"[ -~]+", line)
    assert json.loads(render_json(record("refused", client_id=name)))["client_id"] == name


@pytest.mark.parametrize("render", [render_json, render_text])
def test_21_hostile_names_are_escaped_and_cut(render: Any) -> None:
    line = render(record(HOSTILE, **dict.fromkeys(KEYS, HOSTILE)))
    assert re.fullmatch(r"[ -~]+", line)
    assert len(line) <= logs.LONGEST_LINE


def test_only_what_may_be_said_is_relayed() -> None:
    read, write = os.pipe()
    start_logging("json", write)
    Relay("worker", 3).write(LogEvent("nonsense", "x", {"client": "c", "password": "p", "worker": 9}))
    (line,) = written(read)
    assert {"level": "info", "event": "x", "client": "c", "worker": 3}.items() <= json.loads(line).items()
    assert "password" not in line


def test_a_flood_of_events_is_cut_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    read, write = os.pipe()
    start_logging("json", write)
    relay = Relay("analyzer")
    for _ in range(BURST):
        relay.write(LogEvent("info", "x"))
    assert len(written(read)) == BURST
    for _ in range(1_000):
        relay.write(LogEvent("info", "x"))
    now[0] = 1.0
    relay.write(LogEvent("info", "y"))
    events = [json.loads(line) for line in written(read)]
    assert [(event["event"], event.get("count")) for event in events] == [("events left out", 1_000), ("y", None)]


def test_23_a_full_disk_loses_events_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.open("/dev/full", os.O_WRONLY)  # every write is answered by ENOSPC: full(4)
    read, write = os.pipe()
    handler = LineHandler(full, "json")
    for _ in range(3):
        handler.emit(record("x"))
    assert handler.lost == 3
    os.dup2(write, full)
    handler.emit(record("y"))
    assert [(json.loads(line)["event"], json.loads(line).get("count")) for line in written(read)] == [
        ("events lost: they could not be written in time", 3),
        ("y", None),
    ]
    assert handler.lost == 0


def test_23_a_pipe_that_nobody_reads_does_not_stop_us() -> None:
    read, write = os.pipe()
    handler = LineHandler(write, "json")
    for number in range(10_000):
        handler.emit(record("x" * 300, count=number))
    assert handler.lost > 0
    lines = written(read)
    assert all(json.loads(line)["count"] == number for number, line in enumerate(lines)), "what was written is whole"


def test_23_nor_one_that_is_closed() -> None:
    read, write = os.pipe()
    os.close(read)
    handler = LineHandler(write, "json")
    handler.emit(record("x"))
    assert handler.lost == 1


def test_what_libraries_say_is_an_event_too() -> None:
    read, write = os.pipe()
    start_logging("auto", write)
    try:
        raise ValueError("boom\nboom")
    except ValueError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    logging.getLogger("asyncio").info("not of interest")
    (line,) = written(read)
    event = json.loads(line)
    assert (event["level"], event["logger"], event["reason"]) == ("error", "asyncio", "ValueError('boom\\nboom')")


def test_a_terminal_gets_text() -> None:
    main, terminal = os.openpty()
    start_logging("auto", terminal)
    log("warning", "draining", seconds=30)
    assert os.read(main, 1_000).decode().rstrip().endswith("warning draining  seconds=30")
    start_logging("json", terminal)
    log("warning", "draining", seconds=30)
    assert json.loads(os.read(main, 1_000))["seconds"] == 30


CALLS = {"log", "say_log", "_log"}


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in CALLS and path.name != "logs.py":
                yield path.name, node


def test_events_have_no_keys_but_those_of_the_vocabulary() -> None:
    found = list(calls())
    assert len(found) > 10
    unknown = [(file, key.arg) for file, call in found for key in call.keywords if key.arg and key.arg not in KEYS]
    assert unknown == []


def test_events_have_fixed_words_and_levels() -> None:
    for file, call in calls():
        words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        if len(words) >= 2:
            assert words[0] in LEVELS, file
            assert len(words[1]) < 80, file
