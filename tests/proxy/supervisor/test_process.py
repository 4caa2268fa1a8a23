"""The supervisor as a process of its own, over children that forward nothing: what it does with signals, files and deaths."""

import asyncio
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from kproxy.config.reading import Options
from kproxy.config.structs import Config
from kproxy.errors import ConfigError
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.environment import environment
from kproxy.proxy.supervisor.checking import read_again
from kproxy.proxy.supervisor.process import FileWatch, stamp
from kproxy.proxy.supervisor.processes import SUPERVISOR, WORKER, start_child, supervisor_command, supervisor_title
from tests.support.ports import free_ports
from tests.support.supervised import Supervised, supervised
from tests.support.tls import certificates


class Run:
    """A configuration file, and a supervisor that runs it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.file = folder / "kproxy.yaml"
        self._stack = stack

    def write(self, words: str, **parts: Any) -> None:
        cluster = {"name": words, "listen": "127.0.0.1:19092", "bootstrap": ["127.0.0.1:9092"]}
        cluster |= parts.pop("cluster", {})
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


def test_attack_23_it_serves_when_all_workers_are_ready_and_ends_with_them(run: Run) -> None:
    """Attack 23: with as many files as clients need, or as there may be, and then it says so."""
    process = run.start("plain", workers=2, limits={"connections": 10_000_000})
    assert "ulimit -n" in process.until("limits.connections will not be reached")["reason"]
    children = pids(process, 3)
    serving = process.until("serving")
    assert set(children) == {0, 1, None}
    for pid in children.values():
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert soft == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert serving["listen"] == ["127.0.0.1:19092"]
    assert (serving["workers"], serving["analysis"]) == (2, True)
    assert process.tell(signal.SIGTERM).ended() == 0
    assert process.seen[-1]["event"] == "stopped"
    for pid in children.values():
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("requested", [False, True], ids=["nobody asked", "asked"])
def test_the_admin_server_moves_and_stops_whether_anybody_has_asked_it_or_not(run: Run, requested: bool) -> None:
    first, second = (f"127.0.0.1:{free_ports()}" for _ in range(2))
    process = run.start("plain", admin=first)
    process.until("serving")
    if requested:
        assert urlopen(f"http://{first}/healthz", timeout=20).read() == b"ok\n"
    run.write("plain", admin=second)
    process.until("the configuration was taken")
    with pytest.raises(URLError, match="refused"):
        urlopen(f"http://{first}/healthz", timeout=20)
    if requested:
        assert urlopen(f"http://{second}/healthz", timeout=20).read() == b"ok\n"
    assert process.tell(signal.SIGTERM).ended() == 0
    assert process.sentences == []


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
    assert (first["file"], first["line"], first["column"]) == (str(run.file), 2, 13)
    assert process.until("the configuration before stays")["count"] == 2
    configured = len(process.events("received configure"))
    os.kill(children[0], signal.SIGKILL)
    # with what was there before: else it would not be ready
    while len(process.events("received configure")) == configured:
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


def test_changed_filters_are_loaded_again_when_asked(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "watched_filters.py"
    file.write_text("from kproxy.filters.contract import Filter\n\nclass Mine(Filter):\n    pass\n", encoding="utf-8")
    run.write("plain", cluster={"filters": [{"use": "watched_filters:Mine"}]})
    with supervised(json.dumps({"file": str(run.file), "reload_filters": True}), modules=tmp_path) as process:
        process.until("serving")
        with file.open("a", encoding="utf-8") as module:
            module.write("# changed\n")
        assert process.until("a file has changed")["file"] == str(file)
        process.until("the configuration was taken")
        file.write_text("# gone", encoding="utf-8")
        mistake = process.until("a mistake in the configuration")
        assert (mistake["file"], mistake["path"]) == (str(run.file), "clusters[0].filters[0].use")


def test_a_reload_reads_the_file_once_and_checks_its_filters(tmp_path: Path) -> None:
    """From a pipe, which nothing can be read from again."""
    pipe = tmp_path / "config"
    os.mkfifo(pipe)

    async def read(rules: str) -> Config:
        filters = f"[{{use: deny, with: {{rules: {rules}}}}}]"
        text = f"clusters: [{{listen: 127.0.0.1:1, bootstrap: [b:1], filters: {filters}}}]"
        writing = asyncio.ensure_future(asyncio.to_thread(pipe.write_text, text))
        async with asyncio.timeout(20):
            config = await read_again(Options(file=str(pipe)), None)
        await writing
        return config

    assert asyncio.run(read("[{when: 'apiName == \"Fetch\"'}]")).clusters[0].filters[0].use == "deny"
    with pytest.raises(ConfigError, match="Fetch"):
        asyncio.run(read("[{when: 'apiName == Fetch'}]"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "f"
    file.write_text("one", encoding="utf-8")
    return file


def watch(*files: Path) -> FileWatch:
    watching = FileWatch()
    watching.watch(str(file) for file in files)
    return watching


def looks(watching: FileWatch, count: int = 3) -> list[list[str]]:
    return [found for found in (watching.look() for _ in range(count)) if found]


def test_nothing_is_told_of_what_stays(file: Path) -> None:
    assert looks(watch(file)) == []
    assert stamp(str(file)) is not None
    assert stamp(str(file) + "x") is None
    assert stamp("a\0b") is None


def test_a_file_written_over_is_told_once(file: Path) -> None:
    watching = watch(file)
    file.write_text("longer", encoding="utf-8")
    assert looks(watching) == [[str(file)]]


def test_a_file_put_in_its_place_is_told_though_size_and_time_are_the_same(file: Path, tmp_path: Path) -> None:
    watching = watch(file)
    other = tmp_path / "other"
    other.write_text("two", encoding="utf-8")
    status = file.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    assert looks(watching) == [[str(file)]]


def test_a_mounted_secret_changes_by_a_link_far_from_it(tmp_path: Path) -> None:
    """Kubernetes: tls.crt -> ..data/tls.crt, ..data -> ..2026_01, and ..data is replaced by another link."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_text(name, encoding="utf-8")
    data, file = tmp_path / "..data", tmp_path / "tls.crt"
    data.symlink_to("old")
    file.symlink_to("..data/tls.crt")
    watching = watch(file)
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(data)
    assert looks(watching) == [[str(file)]]


def test_while_it_goes_on_changing_nothing_is_told(file: Path) -> None:
    watching = watch(file)
    for size in range(5):
        file.write_text("x" * size, encoding="utf-8")
        assert watching.look() == []
    assert looks(watching) == [[str(file)]]


def test_a_file_that_comes_and_one_that_goes(file: Path, tmp_path: Path) -> None:
    watching = watch(file, tmp_path / "later")
    (tmp_path / "later").touch()
    file.unlink()
    assert sorted(looks(watching)[0]) == sorted([str(file), str(tmp_path / "later")])


def test_watching_others_as_well_forgets_no_change(file: Path, tmp_path: Path) -> None:
    watching = watch(file)
    file.write_text("changed", encoding="utf-8")
    watching.watch([str(file), str(tmp_path / "other")])
    assert looks(watching) == [[str(file)]]


def test_it_calls_when_something_has_changed(file: Path) -> None:
    async def main() -> list[str]:
        told: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        following = asyncio.ensure_future(watching.follow(told.set_result))
        file.write_text("changed", encoding="utf-8")
        try:
            return await asyncio.wait_for(told, 20)
        finally:
            following.cancel()

    watching = watch(file)
    assert asyncio.run(main()) == [str(file)]


SCRIPT = """
from kproxy.proxy.logs import start_logging
from kproxy.proxy.supervisor.process import PageAddress
start_logging("json")
address = PageAddress()
address.tell("the page", "http://127.0.0.1:9644/?token=SECRET")
address.tell("the page", "http://127.0.0.1:9644/?token=SECRET")
input()
address.remove()
"""


def started(folder: Path, stderr: int) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stderr=stderr, env=environment)


def test_the_log_names_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    process = started(tmp_path, subprocess.PIPE)
    assert process.stdin is not None and process.stderr is not None
    line = process.stderr.readline()
    (file,) = tmp_path.iterdir()
    assert str(file).encode() in line and b"SECRET" not in line
    assert file.read_text(encoding="ascii") == "http://127.0.0.1:9644/?token=SECRET\n"
    assert file.stat().st_mode & 0o777 == 0o600
    _, rest = process.communicate(b"\n", timeout=60)
    assert (process.returncode, rest, list(tmp_path.iterdir())) == (0, b"", [])


def test_on_a_terminal_the_log_has_the_address(tmp_path: Path) -> None:
    here, there = pty.openpty()
    process = started(tmp_path, there)
    line = os.read(here, 4_096)
    process.communicate(b"\n", timeout=60)
    os.close(here)
    os.close(there)
    assert b"http://127.0.0.1:9644/?token=SECRET" in line
    assert list(tmp_path.iterdir()) == []


def test_no_file_can_be_written(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": "", "TMPDIR": "/proc/nowhere", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=b"\n", capture_output=True, env=environment, check=True)
    assert b"could not be written" in done.stderr and b"SECRET" not in done.stderr


CODE = """
import os
from pathlib import Path
def main(arguments):
    title = Path("/proc/self/cmdline").read_text().rstrip("\\0")
    fds = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if Path(f"/proc/self/fd/{fd}").is_symlink())
    words = [str(os.getpgid(0) == os.getpid()), str(fds), os.readlink("/proc/self/fd/0"), title]
    os.write(arguments.control, "|".join(words).encode())
"""


@pytest.mark.parametrize(("worker", "name"), [(2, "worker 2"), (-1, "analyzer (kproxy-analyzer)")])
def test_a_child_has_its_own_group_and_title_and_no_file_descriptor_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: int, name: str
) -> None:
    (tmp_path / "child_of_tests.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    read, write = os.pipe()
    tap = os.memfd_create("tap")

    async def main() -> int:
        arguments = ChildArguments(os.getpid(), write, taps=(tap,), worker=worker)
        return await start_child("child_of_tests", arguments).ended

    assert asyncio.run(main()) == 0
    leader, fds, standard_input, title = os.read(read, 1_000).decode().split("|")
    assert leader == "True"
    assert fds == str(sorted([0, 1, 2, write, tap]))
    assert standard_input == os.devnull
    assert title == f"kproxy: {name}"
    for fd in (read, write, tap):
        os.close(fd)


@pytest.mark.parametrize(
    ("options", "title"),
    [
        (Options(file="/etc/kproxy.yaml"), "kproxy run -c /etc/kproxy.yaml"),
        (Options(listen=":1", bootstrap=["a:1", "b:2"]), "kproxy run --listen :1 --bootstrap a:1,b:2"),
        (Options(file="k.yaml", listen=":1", log="secret.jsonl"), "kproxy run -c k.yaml --listen :1"),
    ],
)
def test_the_supervisor_is_called_by_its_command(options: Options, title: str) -> None:
    assert supervisor_title(options) == title


def test_the_supervisor_inherits_its_options_and_is_known_from_the_start_on(tmp_path: Path) -> None:
    """Its command line has the title in it, and no JSON; modules of the directory it is in are not its own."""
    for name in ("asyncio", "msgspec", "kproxy", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('trapped')", encoding="utf-8")
    given = Options(file="/no/such.yaml", log="x.jsonl")
    words, fd = supervisor_command(given)
    words[words.index(SUPERVISOR)] = "tests.support.shown_options"
    shown = subprocess.run(
        words, capture_output=True, text=True, check=True, env=environment(), pass_fds=[fd], cwd=tmp_path
    )
    os.close(fd)
    command, options = shown.stdout.splitlines()
    assert command.endswith("kproxy run -c /no/such.yaml")
    assert "{" not in command
    assert options == repr(given)


def test_what_only_the_command_line_needs_is_not_in_its_memory() -> None:
    words = [sys.executable, "-c", f"import sys, kproxy.cli.running, {WORKER}; print(*sys.modules)"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True, env=environment()).stdout.split()
    assert "asyncio" in loaded
    assert not {"click", "difflib", "gettext"} & set(loaded)


def main(_: ChildArguments) -> None:
    """A child that waits: this module is one in the next test."""
    signal.pause()


def test_one_that_is_killed_says_so() -> None:
    async def killed() -> int:
        process = start_child(__name__, ChildArguments(os.getpid(), -1))
        process.kill()
        code = await process.ended
        process.kill()
        return code

    assert asyncio.run(killed()) == -9
