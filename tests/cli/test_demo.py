"""kproxy demo as people run it: piped, on a terminal of 80 columns, ended in every way. Only its files stay."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kproxy.cli.app import USAGE
from kproxy.cli.demo import Digest
from kproxy.cli.demo_workload import BROKERS, TOPIC, MockCluster, Workload
from tests.conftest import Require
from tests.support.sampled import sampled

PATIENCE_S = 60
ANSI = re.compile(r"\x1b\[[0-9;]*m")
EXCHANGE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ .* (Produce|Fetch|JoinGroup|FindCoordinator) v\d+ ", re.MULTILINE)


@pytest.fixture
def demo(require: Require, tmp_path: Path) -> Iterator["Demo"]:
    try:
        import confluent_kafka  # noqa: F401, PLC0415
    except ImportError:
        require("demo", False, "confluent-kafka is not installed")
    running = Demo(tmp_path)
    yield running
    running.kill()


class Demo:
    """Runs it with a temporary folder and a mark of its own, by which its processes are found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "TMPDIR": str(folder), "NO_PROXY": "*", "KPROXY_DEMO_TEST": str(folder)}

    def begin(self, *words: str, stdout: int = subprocess.PIPE) -> "subprocess.Popen[str]":
        words = (sys.executable, "-m", "kproxy", "demo", *words)
        self.process = subprocess.Popen(
            words, env=self.environment, stdout=stdout, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        return self.process

    def left(self) -> list[str]:
        """Command lines of what still runs with our mark."""
        mark = f"KPROXY_DEMO_TEST={self.folder}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return [line for line in found if line]

    def kill(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.kill()
        self.process.wait()

    def files(self) -> Path:
        (folder,) = self.folder.glob("kproxy-demo-*")
        return folder


def until(process: "subprocess.Popen[str]", pattern: re.Pattern[str]) -> str:
    """The first line that has it."""
    assert process.stdout is not None
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            if pattern.search(line):
                return line
    finally:
        watchdog.cancel()
    raise AssertionError(f"it ended without {pattern.pattern}: {process.stderr.read() if process.stderr else ''}")


def test_piped_it_shows_traffic_and_a_summary_that_agrees_with_its_files(demo: Demo) -> None:
    out, errors = demo.begin("--seconds", "6").communicate(timeout=PATIENCE_S)
    assert (demo.process.returncode, errors, demo.left()) == (0, "", [])
    assert EXCHANGE.search(out)
    assert "\x1b" not in out
    assert "UNDECODED" not in out
    assert "second member" not in out, "it ends before"
    assert re.search(r" Fetch v\d+ .*\borders-\d", out)  # the name of the topic, which only Metadata tells
    said = re.search(r"^(\d+) records produced, (\d+) consumed by a group of 1 in \d+ s$", out, re.MULTILINE)
    assert said is not None
    produced, consumed = map(int, said.groups())
    assert 0 < consumed <= produced
    files = demo.files()
    log = [json.loads(line) for line in (files / "decoded.jsonl").read_text(encoding="utf-8").splitlines()]
    exchanges = [event for event in log if event["event"] == "exchange"]
    produces = [event for event in exchanges if event["apiName"] == "Produce"]
    assert [event for event in exchanges if event["undecoded"] is not None] == []
    fetches = [event for event in exchanges if event["apiName"] == "Fetch" and event["request"]["topics"]]
    assert {name for event in fetches for name in event["topicNames"].values()} == {"orders"}
    assert {"ApiVersions", "Metadata", "Produce", "JoinGroup", "Fetch"} <= {event["apiName"] for event in exchanges}
    for command in (["decode", str(files / "trace.pcapng")], ["check", "--schema"]):
        run = subprocess.run([sys.executable, "-m", "kproxy", *command], capture_output=True, check=False)
        assert run.returncode == 0
    shown = re.search(r"^\d+ requests: .*\b(\d+) Produce", out, re.MULTILINE)
    assert shown is not None and int(shown[1]) == len(produces)
    assert len(out.splitlines()) < len(exchanges), "a digest, not every request"
    for command in ("decode -v --records", "open", "report"):
        assert f"kproxy {command} {files / 'trace.pcapng'}\n" in out


@pytest.mark.slow
def test_it_begins_with_the_address_of_the_page(demo: Demo) -> None:
    pytest.importorskip("duckdb")
    process = demo.begin()
    line = until(process, re.compile("browser: http"))
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with browser.open(line.split()[-1], timeout=PATIENCE_S) as page:
        assert "<title>kproxy</title>" in page.read().decode()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_on_a_terminal_of_80_columns_no_line_of_traffic_is_wider(demo: Demo) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", "80", "rows", "24"], stdin=theirs, check=True)
    demo.environment["TERM"] = "xterm-256color"
    process = demo.begin("--seconds", "3", stdout=theirs)
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65_536):
            seen += piece
    except OSError:  # the other end is gone
        pass
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0
    text = seen.decode()
    assert "\x1b[" in text
    lines = [ANSI.sub("", line).rstrip("\r") for line in text.splitlines()]
    wide = [line for line in lines if len(line) > 80 and str(demo.folder) not in line and "token=" not in line]
    assert wide == []
    assert any(re.search(r" Produce v\d+ shop orders-\d+ \d+ records? ", line) for line in lines)
    assert any(re.match(r"\d+ requests: ", line) for line in lines)


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_ctrl_c_ends_it_in_order(demo: Demo, number: signal.Signals) -> None:
    process = demo.begin()
    until(process, EXCHANGE)
    os.killpg(process.pid, number)  # as a terminal does: to everybody in the foreground
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors, demo.left()) == (0, "", [])
    assert "records produced" in out


@pytest.mark.slow
def test_ctrl_c_before_it_is_ready_ends_it_too(demo: Demo) -> None:
    process = demo.begin()
    until(process, re.compile("mock brokers"))
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, demo.left()) == (0, [])
    assert "Traceback" not in out


@pytest.mark.slow
def test_it_ends_when_the_reader_closes_the_pipe(demo: Demo) -> None:
    process = demo.begin()
    until(process, EXCHANGE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr is not None
    assert (process.stderr.read(), demo.left()) == ("", [])


def test_without_confluent_kafka_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "confluent_kafka.py").write_text("raise ModuleNotFoundError", encoding="utf-8")
    path = os.pathsep.join(
        [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])])]
    )
    words = [sys.executable, "-m", "kproxy", "demo", "--seconds", "1"]
    run = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False, encoding="utf-8"
    )
    assert run.returncode == USAGE
    assert run.stdout == ""
    assert run.stderr == (
        "kproxy: the demo runs the mock cluster of confluent-kafka, which is missing: pip install 'kproxy-kafka[demo]'\n"
    )


def copying(target: Path) -> list[str]:
    """In place of kproxy decode: what copies its input to *target*."""
    return ["sh", "-c", 'exec cat > "$0"', str(target)]


def test_a_capture_is_followed_to_its_end_part_after_part(tmp_path: Path) -> None:
    capture, seen = tmp_path / "trace.pcapng", tmp_path / "seen"
    digest = Digest(capture, print, copying(seen))
    capture.write_bytes(b"one ")
    wait_for(seen, b"one ")
    with capture.open("ab") as growing:
        growing.write(b"two ")
    wait_for(seen, b"one two ")
    with capture.open("ab") as growing:
        growing.write(b"three ")
        growing.flush()
        capture.rename(tmp_path / "trace.1.pcapng")
        capture.write_bytes(b"four ")
        wait_for(seen, b"one two three four ")
    with capture.open("ab") as growing:
        growing.write(b"five")
    digest.stop()
    assert seen.read_bytes() == b"one two three four five"


def test_a_missing_capture_shows_nothing(tmp_path: Path) -> None:
    Digest(tmp_path / "trace.pcapng", print, copying(tmp_path / "seen")).stop()
    assert (tmp_path / "seen").read_bytes() == b""


def test_what_is_new_is_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    def line(api: str, client_id: str, rest: str = "orders-0  1 record") -> str:
        return f"09:00:00.000001  10.0.0.1:5000 → 10.0.0.2:9092  0.1 ms  {api} v10             {client_id}              {rest}"

    produced, failed = line("Produce", "shop"), line("Produce", "web", "NOT_LEADER_OR_FOLLOWER  orders-0")
    joined = line("JoinGroup", "billing-1", "group billing  range")
    (tmp_path / "decoded.txt").write_text(
        "\n".join([produced] * 3 + [failed] * 5 + [joined] * 2) + "\n", encoding="utf-8"
    )
    shown: list[str] = []
    digest = Digest(tmp_path / "trace.pcapng", shown.append, ["cat", str(tmp_path / "decoded.txt")])
    digest.stop()
    assert shown == [produced] + [failed] * 4 + [joined] * 2
    assert digest.left_out == {"Produce": 3}
    assert digest.seen == {("shop", "Produce"): 3, ("web", "Produce"): 5, ("billing-1", "JoinGroup"): 2}


def wait_for(path: Path, content: bytes) -> None:
    paused = threading.Event()
    for _ in range(500):
        if path.exists() and path.read_bytes() == content:
            return
        paused.wait(0.02)
    raise AssertionError(f"{path.read_bytes()!r}, not {content!r}")


def test_what_is_produced_can_be_read_and_what_is_counted_is_there() -> None:
    cluster = MockCluster()
    assert len(set(cluster.bootstrap)) == BROKERS
    workload = Workload(",".join(cluster.bootstrap))
    workload.start()
    until = time.monotonic() + PATIENCE_S
    while workload.counts.consumed < 5 and time.monotonic() < until:
        time.sleep(0.05)
    counts = workload.stop()
    assert 5 <= counts.consumed <= counts.produced
    assert (counts.failed, counts.consumers) == (0, 1)
    reader = Consumer({"bootstrap.servers": cluster.bootstrap[0], "group.id": "reader", "log_level": 2})
    partitions = reader.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions
    reader.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in partitions])  # a group takes seconds
    orders = []
    while len(orders) < counts.produced and time.monotonic() < until + PATIENCE_S:
        record = reader.poll(1)
        if record is not None and record.error() is None:
            orders.append((record.key(), json.loads(record.value() or b"")))
    reader.close()
    assert sorted(order["order"] for _, order in orders) == list(range(1, counts.produced + 1))
    assert all(key == order["customer"].encode() for key, order in orders)


def test_a_cluster_that_is_not_there_is_counted_as_failures_and_does_not_hang() -> None:
    workload = Workload("127.0.0.1:1")
    workload.start()
    counts = workload.stop()
    assert (counts.produced, counts.consumed) == (0, 0)
