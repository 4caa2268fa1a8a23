"""Audit through a running proxy, whatever happens to its disk and its processes: by the counts of clients and of the broker
nothing is missing. All kinds of kills under load: `python -m pytest tests/chaos/test_audit.py -m long`.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.chaos.conftest import Scripted, Start
from tests.conftest import Require
from tests.support.frames import heartbeat, heartbeat_answer, produce, produce_answer
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.namespaces import can_mount, fill, fill_inodes, small_disk
from tests.support.peers import Peer, client, heartbeats
from tests.support.sampled import sampled

STORAGE_ERROR = 56
HEARTBEAT = b"\0\x0c"
MODES = ("block", "drop-and-count")


class Totals(NamedTuple):
    """What the files of worker 0 say."""

    seen: int
    written: int
    dropped: int
    numbers: list[int]  # of lines
    missing: int  # that lines say
    answered: set[int]  # correlation ids


def use(folder: Path, mode: str, patience: str = "300ms", **file: Any) -> dict[str, Any]:
    """The filter in the configuration; *patience* with a disk that takes nothing."""
    rotated = {"path": str(folder / "audit.jsonl"), "keep": 1_000, **file}
    return {"use": "audit", "with": {"file": rotated, "mode": mode, "patience": patience, "api_name": ["Heartbeat"]}}


def audited(
    proxied: Start, address: str, folder: Path, mode: str, settings: dict[str, Any] | None = None, **more: Any
) -> Proxy:
    filters = [use(folder, mode, **more)]
    settings = {"workers": 1, "analysis": {"enabled": False}, **(settings or {})}
    return proxied(address, virtual={"addresses": {"mode": "fixed"}, "filters": filters}, **settings)


def said(folder: Path, worker: int = 0) -> list[dict[str, Any]]:
    """All lines, also of parts that were moved to folders beside it."""
    parts = sorted(folder.parent.glob(f"*/audit-{worker}*.jsonl*"))
    lines = [line for part in parts if part.suffix != ".counts" for line in part.read_text("ascii").splitlines()]
    return [json.loads(line) for line in lines]


def totals(folder: Path, worker: int = 0) -> Totals:
    words = (folder / f"audit-{worker}.jsonl.counts").read_bytes()
    seen, written, dropped = (int.from_bytes(words[at : at + 8], "little") for at in (8, 16, 24))
    lines = said(folder, worker)
    return Totals(
        seen,
        written,
        dropped,
        [line["sequence"] for line in lines if "sequence" in line],
        sum(line["count"] for line in lines if line["event"] in ("dropped", "lost")),
        {line["correlationId"] for line in lines if line.get("outcome") == "done"},
    )


class BrokerClient:
    """A client that counts: which requests were answered well, which were refused, which got no answer."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.asked = 0
        self.well: set[int] = set()
        self.refused: set[int] = set()
        self.unanswered: set[int] = set()

    def ask(self, count: int, step: int = 1) -> None:
        """Send requests one by one, on a connection that is opened again when it is closed."""
        left = count
        while left:
            with client(self.proxy.bootstrap()) as one:
                while left:
                    left -= 1
                    self.asked += step
                    try:
                        one.send(heartbeat(self.asked))
                        answer = one.frame()
                    except (EOFError, OSError, AssertionError):
                        self.unanswered.add(self.asked)
                        break
                    if answer == heartbeat_answer(self.asked):
                        self.well.add(self.asked)
                    else:
                        assert answer == heartbeat_answer(self.asked, STORAGE_ERROR)
                        self.refused.add(self.asked)


def check(found: Totals, asking: BrokerClient) -> None:
    """The equation, by the files and by the client's counts: a request that was refused was not seen."""
    assert found.seen == found.written + found.dropped == asking.asked - len(asking.refused)
    assert len(found.numbers) == len(set(found.numbers)) == found.written
    assert found.missing == found.dropped


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk(scripted: Scripted, proxied: Start, require: Require, tmp_path: Path, mode: str) -> None:
    """block: what was answered well is in the file, all of it. drop-and-count: all is answered well."""
    require("mount", can_mount(), "file systems cannot be mounted here")
    with small_disk(tmp_path / "small", 1 << 18) as disk:
        proxy = audited(proxied, scripted(heartbeats).address, disk, mode)
        asking = BrokerClient(proxy)
        asking.ask(20)
        filler = fill(disk)
        asking.ask(25)
        if mode == "block":
            eventually(lambda: "No space left" in proxy.get("/readyz", but=(503,))[1], what="/readyz says why")
        filler.unlink()
        asked = asking.asked

        def written_again() -> bool:
            asking.ask(1)
            return asking.asked in totals(disk).answered

        eventually(written_again, what="a line is written again")
        proxy.stop(patience=60)
        found = totals(disk)
        check(found, asking)
        if mode == "block":
            assert asking.well <= found.answered
            assert asking.refused | asking.unanswered
        else:
            assert len(asking.well) == asking.asked
            assert set(range(1, 21)) <= found.answered
            assert 0 < found.dropped <= asking.asked - 20
        assert asked == 45


@pytest.mark.parametrize("mode", sampled(MODES, ["block"]))
def test_a_read_only_directory(scripted: Scripted, proxied: Start, require: Require, tmp_path: Path, mode: str) -> None:
    """kproxy does not begin there, so that nothing passes unseen; it says why, with the place."""
    require("mount", can_mount(), "file systems cannot be mounted here")
    broker = scripted(heartbeats)
    with small_disk(tmp_path / "small", 1 << 18) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(RuntimeError, match=r"with\.file\.path: .* is not writable"):
            audited(proxied, broker.address, disk, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", sampled(MODES, ["block"]))
def test_one_accident_after_another(
    scripted: Scripted, proxied: Start, require: Require, tmp_path: Path, mode: str
) -> None:
    """The disk is full when kproxy starts, and when a worker is killed; files are rotated, cut and moved by other programs."""
    require("mount", can_mount(), "file systems cannot be mounted here")
    with small_disk(tmp_path / "small", 1 << 18, inodes=40) as disk:
        folder = disk / "audit"
        folder.mkdir()
        filler = fill(disk)
        proxy = audited(proxied, scripted(heartbeats).address, folder, mode, {"admin": None}, most_size=3_000)
        asking = BrokerClient(proxy)
        asking.ask(3)
        kill_worker(proxy)
        asking.ask(3)
        kill_all(proxy)
        asking.ask(3)
        filler.unlink()
        writes_again(asking, folder)
        asking.ask(20)
        part = folder / "audit-0.jsonl"
        part.rename(folder / "audit-0.jsonl.1")  # logrotate
        asking.ask(2)
        shutil.copy(part, folder / "audit-0.jsonl.2")  # logrotate, copytruncate
        os.truncate(part, 0)
        asking.ask(2)
        folder.rename(disk / "moved")
        asking.ask(2)
        kill_worker(proxy)
        asking.ask(2)
        folder.mkdir()
        writes_again(asking, folder)
        fillers = fill_inodes(disk)
        asking.ask(20)  # until the next part cannot be made
        kill_worker(proxy)
        asking.ask(2)
        for each in fillers:
            each.unlink()
        writes_again(asking, folder)
        (folder / "audit-0.jsonl.counts").unlink()
        asking.ask(1)
        kill_all(proxy)
        writes_again(asking, folder)
        proxy.stop(patience=60)
        found = totals(folder)
        check(found, asking)
        assert sorted(found.numbers)[-1] == found.seen
        if mode == "block":
            assert asking.well <= found.answered
        else:
            assert len(asking.well) == asking.asked


def kill_worker(proxy: Proxy) -> None:
    """Kill the worker while nothing is in flight, and wait for the next one."""
    (before,) = proxy.workers()
    os.kill(before, signal.SIGKILL)
    eventually(lambda: proxy.workers() not in ([], [before]), what="another worker")
    answers(proxy)


def kill_all(proxy: Proxy) -> None:
    """Kill all processes at once, and start it again."""
    for pid in proxy.pids():
        os.kill(pid, signal.SIGKILL)
    proxy.process.wait(60)
    eventually(lambda: not proxy.pids()[1:], what="no process is left")
    proxy.start()


def answers(proxy: Proxy) -> None:
    """Wait until a client can connect."""
    eventually(lambda: client(proxy.bootstrap()).socket.close() is None, what="it accepts")


def writes_again(asking: BrokerClient, folder: Path) -> None:
    """Ask until a line is in the file again."""

    def written() -> bool:
        asking.ask(1)
        return asking.asked in totals(folder).answered

    eventually(written, what="a line is written again")


class Clients:
    """Clients that ask all the time, each in a thread; what was answered well is in ``well``."""

    def __init__(self, proxy: Proxy, count: int) -> None:
        self.well: set[int] = set()
        self.refused: set[int] = set()
        self._proxy = proxy
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(number, count)) for number in range(count)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, number: int, step: int) -> None:
        asking = BrokerClient(self._proxy)
        asking.asked = number
        asking.well, asking.refused = self.well, self.refused
        while not self._stopped.is_set():
            with contextlib.suppress(OSError, EOFError):
                asking.ask(10, step)

    def reach(self, count: int) -> None:
        """Wait until so many were answered well."""
        eventually(lambda: len(self.well) >= count, what=f"{count} answers", patience=120)


class Counting:
    """A broker's script that counts the requests it was sent."""

    def __init__(self) -> None:
        self.asked: set[int] = set()

    def __call__(self, peer: Peer) -> None:
        while True:
            number = int.from_bytes(peer.frame()[8:12], "big")
            self.asked.add(number)
            peer.send(heartbeat_answer(number))


CLIENTS = 4


def under_kills(proxy: Proxy, counting: Counting, folder: Path, kills: list[Callable[[Proxy], None]]) -> None:
    """Kill under load, then check by what the broker was sent and what clients were answered."""

    def all_totals() -> list[Totals]:
        return [totals(folder, worker) for worker in range(proxy.config["workers"])]

    with Clients(proxy, CLIENTS) as clients:
        for kill in kills:
            clients.reach(len(clients.well) + random.randrange(20, 80))
            kill(proxy)
        # What a killed worker had in flight is counted when the next one opens its file; the others may answer before. One that
        # is dying may still write a line for each client
        before = [each.written for each in eventually(all_totals, what="a file that is not renamed while it is read")]
        eventually(
            lambda: all(each.written > was + CLIENTS for each, was in zip(all_totals(), before, strict=True)),
            what="each worker writes lines again",
            patience=180,
        )
    proxy.stop(patience=60)
    found = all_totals()
    for each in found:
        assert each.seen == each.written + each.dropped
        assert len(each.numbers) == len(set(each.numbers)) == each.written
        assert each.missing == each.dropped
    seen = sum(each.seen for each in found)
    assert len(counting.asked) <= seen <= len(counting.asked) + CLIENTS * len(kills)  # a number, and then the kill
    without = clients.well - set().union(*(each.answered for each in found))
    assert len(without) <= (0 if mode_of(proxy) == "block" else sum(each.dropped for each in found))


def mode_of(proxy: Proxy) -> str:
    return str(proxy.config["clusters"][0]["filters"][0]["with"]["mode"])


def kill_one_worker(proxy: Proxy) -> None:
    os.kill(random.choice(proxy.workers()), signal.SIGKILL)


def kill_supervisor(proxy: Proxy) -> None:
    """Kill the supervisor alone; its workers end by themselves."""
    pids = proxy.pids()
    proxy.process.kill()
    proxy.process.wait(60)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="no process is left")
    proxy.start()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [0, pytest.param(30, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", sampled(MODES, ["block"]))
def test_kills_under_load(scripted: Scripted, proxied: Start, tmp_path: Path, mode: str, kills: int) -> None:
    """Of a worker, of the supervisor, of all, with two workers; *kills*: so many at random. Each answer has its line, once."""
    counting, folder = Counting(), tmp_path / "audit"
    folder.mkdir()
    proxy = audited(proxied, scripted(counting).address, folder, mode, {"workers": 2}, most_size=20_000)
    each = [kill_one_worker, kill_supervisor, kill_all]
    under_kills(proxy, counting, folder, random.choices(each, k=kills) if kills else each)


@pytest.mark.slow
def test_other_options_under_load(scripted: Scripted, proxied: Start, tmp_path: Path) -> None:
    """Another path, another mode, the path before: each answer has its line in one of the files."""
    counting, folders = Counting(), [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    proxy = audited(proxied, scripted(counting).address, folders[0], "block")
    with Clients(proxy, CLIENTS) as clients:
        for folder, mode in ((folders[1], "block"), (folders[1], "drop-and-count"), (folders[0], "block")):
            clients.reach(len(clients.well) + 30)
            proxy.config["clusters"][0]["filters"] = [use(folder, mode, most_size=10_000)]
            taken = proxy.log.read_text().count("the configuration was taken")
            proxy.write()
            eventually(lambda taken=taken: proxy.log.read_text().count("the configuration was taken") > taken)
        clients.reach(len(clients.well) + 30)
    proxy.stop(patience=60)
    answered: set[int] = set()
    seen = dropped = 0
    for folder in folders:
        words = (folder / "audit-0.jsonl.counts").read_bytes()
        counted = [int.from_bytes(words[at : at + 8], "little") for at in (8, 16, 24)]
        lines = [json.loads(line) for part in folder.glob("*.jsonl") for line in part.read_text("ascii").splitlines()]
        numbers = sorted(line["sequence"] for line in lines if "sequence" in line)
        assert len(numbers) == len(set(numbers)) == counted[1] == counted[0] - counted[2]
        dropped += counted[2]
        answered |= {line["correlationId"] for line in lines if line.get("outcome") == "done"}
        seen += counted[0]
    assert len(clients.well - answered) <= dropped  # while the mode is drop-and-count
    assert seen == len(counting.asked)


@pytest.mark.slow
def test_a_thousand_requests_at_once(scripted: Scripted, proxied: Start, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    folder.mkdir()
    proxy = audited(proxied, scripted(heartbeats).address, folder, "block", patience="60s", most_size=50_000)
    with client(proxy.bootstrap()) as one:
        one.send(b"".join(heartbeat(number) for number in range(1_000)))
        for number in range(1_000):
            assert one.frame() == heartbeat_answer(number)
    proxy.stop(patience=60)
    found = totals(folder)
    assert (found.seen, found.written, found.dropped) == (1_000, 1_000, 0)
    assert found.answered == set(range(1_000))
    assert found.numbers and sorted(found.numbers) == list(range(1, 1_001))


@contextlib.contextmanager
def frozen(disk: Path) -> Iterator[None]:
    """A disk that takes no write for as long as the block lasts: whoever writes to it hangs."""
    subprocess.run(["fsfreeze", "--freeze", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(disk)], check=True)


@contextlib.contextmanager
def disk_that_can_freeze(folder: Path) -> Iterator[Path]:
    """An ext4 in a file."""
    image, disk = folder / "image", folder / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(disk)], check=True)
    try:
        (disk / "audit").mkdir()
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def can_freeze(folder: Path) -> bool:
    if not can_mount() or not shutil.which("fsfreeze") or not shutil.which("mkfs.ext4"):
        return False
    try:
        folder.mkdir()
        with disk_that_can_freeze(folder):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@pytest.mark.slow
@pytest.mark.parametrize("mode", sampled(MODES, ["drop-and-count"]))
def test_a_disk_that_hangs(scripted: Scripted, proxied: Start, require: Require, tmp_path: Path, mode: str) -> None:
    """Other APIs of the same worker go on; audited requests are refused, or counted; what was being written counts once."""
    require("freeze", can_freeze(tmp_path / "tried"), "no disk can be frozen here")
    with disk_that_can_freeze(tmp_path) as disk:
        folder = disk / "audit"

        def script(peer: Peer) -> None:
            while True:
                asked = peer.frame()
                number = int.from_bytes(asked[8:12], "big")
                peer.send(heartbeat_answer(number) if asked[4:6] == HEARTBEAT else produce_answer(number))

        proxy = audited(proxied, scripted(script).address, folder, mode)
        asking = BrokerClient(proxy)
        asking.ask(10)
        with frozen(disk):
            asking.ask(4)
            if mode == "block":
                eventually(lambda: "does not answer" in proxy.get("/readyz", but=(503,))[1], what="/readyz says why")
            with client(proxy.bootstrap()) as one:
                for number in range(500):
                    one.send(produce(number, 1))
                    assert one.frame() == produce_answer(number)
            assert asking.refused or asking.unanswered or mode != "block"
        writes_again(asking, folder)
        eventually(lambda: proxy.get("/readyz", but=(503,))[0] == 200, what="it is ready again")
        proxy.stop(patience=60)
        check(totals(folder), asking)
        if mode != "block":
            assert len(asking.well) == asking.asked
