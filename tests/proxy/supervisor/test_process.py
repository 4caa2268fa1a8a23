"""The supervisor as a process of its own, over children that forward nothing: what it does with signals, files and deaths."""

import json
import os
import resource
import select
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.supervised import Supervised, supervised
from tests.support.tls import certificates


class Run:
    """A configuration file, and a supervisor that runs it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.file = folder / "kproxy.yaml"
        self._stack = stack

    def write(self, words: str, **parts: Any) -> None:
        cluster = {
            "name": words,
            "listen": "127.0.0.1:19092",
            "bootstrap": ["127.0.0.1:9092"],
            **parts.pop("cluster", {}),
        }
        config = {"clusters": [cluster], "admin": None, "timeouts": {"drain": parts.pop("drain", 20)}, **parts}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
        new.replace(self.file)

    def start(self, words: str, **parts: Any) -> Supervised:
        self.write(words, **parts)
        return self._stack.enter_context(supervised(json.dumps({"file": str(self.file)})))


@pytest.fixture
def run(tmp_path: Path) -> Any:
    with ExitStack() as stack:
        yield Run(tmp_path, stack)


def pids(process: Supervised, count: int) -> dict[Any, int]:
    """Process ids of the children by worker (None: the analyzer), once so many have been configured."""
    found: dict[Any, int] = {}
    while len(found) < count:
        event = process.until("received configure")
        found[event.get("worker")] = event["pid"]
    return found


def wait_until_gone(pid: int) -> None:
    """By its pidfd, which becomes readable when the process ends."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(20_000), f"process {pid} goes on"
    finally:
        os.close(fd)


def test_it_serves_when_all_workers_are_ready_and_ends_with_them(run: Run) -> None:
    process = run.start("plain", workers=2, limits={"connections": 3_000})
    children = pids(process, 3)
    serving = process.until("serving")
    assert set(children) == {0, 1, None}
    for pid in children.values():  # attack 23: as many files as clients need
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert soft >= min(6_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert serving["listen"] == ["127.0.0.1:19092"]
    assert (serving["workers"], serving["analysis"]) == (2, True)
    assert process.tell(signal.SIGTERM).ended() == 0
    assert process.seen[-1]["event"] == "stopped"
    for pid in children.values():
        assert not Path(f"/proc/{pid}").exists()


def test_an_analyzer_that_is_killed_before_it_is_ready_is_not_blamed_for_its_configuration(run: Run) -> None:
    process = run.start("unready")
    killed = process.until("begun", process="analyzer")["pid"]
    os.kill(killed, signal.SIGKILL)
    ended = process.until("a process ended")
    assert ended["process"] == "analyzer"
    assert ended["reason"] == "it ended by signal 9 (SIGKILL), and is started again"
    second = process.until("begun", process="analyzer")
    assert second["pid"] != killed
    assert process.tell(signal.SIGINT).ended() == 0
    assert not process.events("a process cannot use its configuration")
    assert not [event for event in process.events("a process ended") if event["exit_code"] != -9]


def test_without_analysis_there_is_no_analyzer(run: Run) -> None:
    process = run.start("plain", analysis={"enabled": False})
    process.until("serving")
    assert process.tell(signal.SIGINT).ended() == 0
    assert {event.get("process", "worker") for event in process.events("received configure")} == {"worker"}


def test_killed_children_are_replaced_at_once_and_the_others_hear_of_it(run: Run) -> None:
    process = run.start("plain", workers=2)
    before = pids(process, 3)
    process.until("serving")
    for which in (1, None):
        os.kill(before[which], signal.SIGKILL)
        ended = process.until("a process ended")
        assert (ended["exit_code"], ended["restart_in"]) == (-9, 0.0)
        assert ended["reason"] == "it ended by signal 9 (SIGKILL), and is started again"
        assert ended.get("worker") == which
        after = process.until("received configure")
        assert after.get("worker") == which
        assert after["pid"] != before[which]
        if which is not None:
            assert process.until("received forget_worker")["process"] == "analyzer"
            told = process.until("received brokers", worker=1, pid=after["pid"])  # what the other worker has learned
            assert "9092" in told["reason"]
    assert process.tell(signal.SIGTERM).ended() == 0


def test_nothing_is_left_when_the_supervisor_is_killed(run: Run) -> None:
    process = run.start("hang", workers=2)
    children = pids(process, 3)
    process.until("serving")
    process.tell(signal.SIGKILL)
    for pid in children.values():
        wait_until_gone(pid)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("x.fail", "kproxy: 127.0.0.1:1: address already in use"),
        ("x.die", "kproxy: worker 0 ended with exit code 7 before it was ready"),
    ],
)
def test_a_start_that_fails_is_one_sentence_and_exit_code_1(run: Run, words: str, sentence: str) -> None:
    process = run.start(words, analysis={"enabled": False})
    assert process.ended() == 1
    assert process.sentences == [sentence]


def test_who_does_not_drain_in_time_is_killed(run: Run) -> None:
    process = run.start("deaf", drain="100ms")
    children = pids(process, 2)
    process.until("serving")
    assert process.tell(signal.SIGTERM).ended() == 1
    assert process.events("stopped before all was answered")
    wait_until_gone(children[0])


def test_the_second_signal_ends_it_at_once(run: Run) -> None:
    process = run.start("deaf", drain=3600)
    process.until("serving")
    process.tell(signal.SIGINT).until("received drain")
    assert process.tell(signal.SIGINT).ended() == 130


def test_signals_that_come_together_are_one(run: Run) -> None:
    """timeout(1) sends two; so do npm and others, which pass on what the terminal has sent to all.

    Stopped meanwhile, so that both are there when it looks, however late this process gets to the second.
    """
    process = run.start("plain", drain=3600)
    process.until("serving")
    process.tell(signal.SIGSTOP).tell(signal.SIGTERM).tell(signal.SIGINT).tell(signal.SIGCONT)
    assert process.ended() == 0
    assert process.seen[-1]["event"] == "stopped"


def test_it_outlives_its_clients(run: Run) -> None:
    process = run.start("clients", outlive=True, analysis={"enabled": False})
    worker = pids(process, 1)[0]
    process.until("serving")
    process.tell(signal.SIGTERM).until("asked to stop, going on until no client is connected")
    os.kill(worker, signal.SIGUSR1)  # the stand-in's clients leave
    assert process.until("draining")["count"] == 0
    assert process.ended() == 0


def test_changes_of_the_configuration_are_used_and_mistakes_are_not(run: Run) -> None:
    process = run.start("one")
    children = pids(process, 2)
    process.until("serving")
    process.tell(signal.SIGHUP).until("the configuration was taken")  # even if nothing has changed
    run.write("two")
    process.until("the configuration was taken")
    run.file.write_text("clusters:\n  - listen: nowhere\n    bootstap: [b:1]\n", encoding="utf-8")
    first = process.until("a mistake in the configuration")
    assert (first["file"], first["line"], first["column"]) == (str(run.file), 2, 5)
    assert process.until("the configuration before stays")["count"] == 3
    configured = len(process.events("received configure"))
    os.kill(children[0], signal.SIGKILL)
    while (
        len(process.events("received configure")) == configured
    ):  # with what was there before: else it would not be ready
        process.until("received configure")
    run.write("two.fail")
    assert "address already in use" in process.until("the configuration before stays")["reason"]
    run.write("two", workers=3)
    assert process.until("received configure", worker=2)
    run.write("two", workers=1)
    process.until("the configuration was taken", workers=1)
    assert process.tell(signal.SIGTERM).ended() == 0


def test_a_renewed_certificate_is_passed_on_without_configuring(run: Run, tmp_path: Path) -> None:
    pem = shutil.copy(certificates() / "broker.pem", tmp_path)
    tls = {"listener_tls": {"certificate": pem, "key": pem}}
    process = run.start("one", cluster=tls)
    process.until("serving")
    os.utime(pem, ns=(1, 1))
    process.until("received reload_certificates")
    assert process.tell(signal.SIGTERM).ended() == 0
    assert len(process.events("received configure")) == 2  # worker and analyzer, at the start


def test_its_start_can_be_interrupted(run: Run) -> None:
    process = run.start("mute", drain=3600)
    process.until("begun")
    assert process.tell(signal.SIGINT).ended() == 0
    assert process.events("serving") == []


def test_workers_that_serve_are_drained_before_the_rest_is_ready(run: Run) -> None:
    process = run.start("clients.unready", drain=3600)
    while "worker" not in process.until("received configure"):
        pass
    assert process.tell(signal.SIGTERM).until("draining")["count"] == 3
    assert process.ended() == 0
    assert process.seen[-1]["event"] == "stopped"


def test_a_message_that_cannot_be_decoded_is_logged_and_skipped(run: Run) -> None:
    process = run.start("garbled", analysis={"enabled": False})
    event = process.until("a message of a process cannot be decoded")
    assert (event["level"], event["worker"]) == ("error", 0)
    assert "something new" in event["reason"]
    process.until("serving")
    assert process.tell(signal.SIGTERM).ended() == 0


def test_23_too_few_files_are_told_of(run: Run) -> None:
    process = run.start("plain", limits={"connections": 10_000_000})
    told = process.until("limits.connections will not be reached")
    assert "ulimit -n" in told["reason"]
    process.until("serving")


def test_changed_filters_are_loaded_again_when_asked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "watched_filters.py"
    file.write_text("", encoding="utf-8")
    run.write("plain", cluster={"filters": [{"use": "watched_filters:Mine"}]})
    with supervised(json.dumps({"file": str(run.file), "reload_filters": True}), modules=tmp_path) as process:
        process.until("serving")
        file.write_text("# changed", encoding="utf-8")
        assert process.until("a file has changed")["file"] == str(file)
        process.until("the configuration was taken")
