"""Audit through a running proxy, on a full disk and in a read-only directory: by the client's own counts nothing is missing."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.chaos.conftest import Start
from tests.chaos.peers import Peer, Script, ScriptedBroker, client
from tests.conftest import Require
from tests.support.frames import heartbeat, heartbeat_answer
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.small_disk import available, fill, small_disk

Scripted = Callable[[Script], ScriptedBroker]
STORAGE_ERROR = 56
MODES = ("block", "drop-and-count")


class Totals(NamedTuple):
    """What the files of worker 0 say."""

    seen: int
    written: int
    dropped: int
    numbers: list[int]  # of lines
    missing: int  # that lines say
    answered: set[int]  # correlation ids


def heartbeats(peer: Peer) -> None:
    while True:
        peer.send(heartbeat_answer(int.from_bytes(peer.frame()[8:12], "big")))


def audited(proxied: Start, address: str, folder: Path, mode: str) -> Proxy:
    file = {"path": str(folder / "audit.jsonl")}
    audit = {"use": "audit", "with": {"file": file, "mode": mode, "patience": "300ms", "apis": ["Heartbeat"]}}
    return proxied(address, virtual={"addresses": {"mode": "fixed"}, "filters": [audit]}, workers=1)


def said(folder: Path) -> list[dict[str, Any]]:
    parts = sorted(folder.glob("audit-0*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text("ascii").splitlines()]


def totals(folder: Path) -> Totals:
    words = (folder / "audit-0.jsonl.counts").read_bytes()
    seen, written, dropped = (int.from_bytes(words[at : at + 8], "little") for at in (8, 16, 24))
    lines = said(folder)
    return Totals(
        seen,
        written,
        dropped,
        [line["sequence"] for line in lines if "sequence" in line],
        sum(line["count"] for line in lines if line["event"] in ("dropped", "lost")),
        {line["correlationId"] for line in lines if line.get("outcome") == "done"},
    )


class Asking:
    """A client that counts: which requests were answered well, which were refused, which got no answer."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.asked = 0
        self.well: set[int] = set()
        self.refused: set[int] = set()
        self.unanswered: set[int] = set()

    def ask(self, count: int) -> None:
        """Send requests one by one, on a connection that is opened again when it is closed."""
        left = count
        while left:
            with client(self.proxy.bootstrap()) as one:
                while left:
                    left -= 1
                    self.asked += 1
                    one.send(heartbeat(self.asked))
                    try:
                        answer = one.frame()
                    except (EOFError, OSError, AssertionError):
                        self.unanswered.add(self.asked)
                        break
                    if answer == heartbeat_answer(self.asked):
                        self.well.add(self.asked)
                    else:
                        assert answer == heartbeat_answer(self.asked, STORAGE_ERROR)
                        self.refused.add(self.asked)


def check(found: Totals, asking: Asking) -> None:
    """The equation, by the files and by the client's counts: a request that was refused was not seen."""
    assert found.seen == found.written + found.dropped == asking.asked - len(asking.refused)
    assert len(found.numbers) == len(set(found.numbers)) == found.written
    assert found.missing == found.dropped


@pytest.mark.parametrize("mode", MODES)
def test_a_full_disk(scripted: Scripted, proxied: Start, require: Require, tmp_path: Path, mode: str) -> None:
    """block: what was answered well is in the file, all of it. drop-and-count: all is answered well."""
    require("mount", available(), "file systems cannot be mounted here")
    with small_disk(tmp_path / "small", 1 << 18) as disk:
        proxy = audited(proxied, scripted(heartbeats).address, disk, mode)
        asking = Asking(proxy)
        asking.ask(20)
        filler = fill(disk)
        asking.ask(25)
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


@pytest.mark.parametrize("mode", MODES)
def test_a_read_only_directory(scripted: Scripted, proxied: Start, require: Require, tmp_path: Path, mode: str) -> None:
    """kproxy does not begin there, so that nothing passes unseen; it says why, with the place."""
    require("mount", available(), "file systems cannot be mounted here")
    broker = scripted(heartbeats)
    with small_disk(tmp_path / "small", 1 << 18) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(RuntimeError, match=r"with\.file\.path: .* is not writable"):
            audited(proxied, broker.address, disk, mode)
