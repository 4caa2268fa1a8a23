"""Replay from the page: what a selection of captures would do to a cluster, and then, if a person says so, the replay itself.

``kproxy replay`` does both in a process of its own, so the plan, its questions and the comparison are those of the command.
A plan is shown first; only a plan that was shown can be sent, once, and by its id.
"""

import hashlib
import subprocess
import sys
from collections import OrderedDict
from typing import Any

from msgspec import Struct

from kproxy.errors import UsageError
from kproxy.page.exporting import Selection
from kproxy.page.store import Store
from kproxy.page.work import Work

MOST_SECONDS = 3600.0
MOST_PLANS = 20
DONE, DAMAGED, DIFFERS, INTERRUPTED = 0, 3, 4, 130  # exit statuses of kproxy replay
LATER = "show the plan first: this one is not known, or was sent already"


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """What the page asks a plan for."""

    to: str  # HOST:PORT of a broker
    filter: str = ""
    fromNs: int | None = None
    toNs: int | None = None
    speed: str = "1"  # a factor, or max
    createTopics: bool = False


class Chosen(Struct, frozen=True, forbid_unknown_fields=True):
    """What the page sends to have a plan carried out."""

    plan: str


class Replaying:
    """The plans that were shown and not sent yet.

    Args:
        store: the exchanges that are open.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: OrderedDict[str, list[str]] = OrderedDict()  # by id: the words of the command

    def plan(self, work: Work, wanted: Wanted) -> dict[str, Any]:
        """Ask the cluster what it is, send nothing else, and return the plan as text with its id.

        Raises UsageError where the sources cannot be replayed or the cluster cannot be reached; FilterError, Cancelled.
        """
        words = self._words(wanted)
        text, _ = _run(work, words)
        plan = hashlib.sha256(repr((words, text)).encode()).hexdigest()[:32]
        self._plans[plan] = words
        while len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        return {"plan": plan, "text": text}

    def send(self, work: Work, chosen: Chosen) -> dict[str, Any]:
        """Send what a plan says, and return the comparison as text. Raises UsageError, Cancelled."""
        words = self._plans.pop(chosen.plan, None)
        if words is None:
            raise UsageError(LATER)
        text, status = _run(work, [*words, "--yes"])
        return {"text": text, "differs": status == DIFFERS, "interrupted": status == INTERRUPTED}

    def _words(self, wanted: Wanted) -> list[str]:
        if self._store.live:
            raise UsageError("export the exchanges as pcapng, and replay that file: kproxy replay --to HOST:PORT FILE")
        options = Selection(self._store, wanted.filter, wanted.fromNs, wanted.toNs).replay_options()
        if options is None:
            raise UsageError("only captures have the bytes that a replay sends")
        if not wanted.to or wanted.to.startswith("-") or wanted.speed.startswith("-"):
            raise UsageError("name a broker of the cluster as HOST:PORT")
        created = ["--create-topics"] if wanted.createTopics else []
        return ["--to", wanted.to, "--speed", wanted.speed, *created, *options]


def _run(work: Work, words: list[str]) -> tuple[str, int]:
    """Run ``kproxy replay``; return its output and exit status. On SIGTERM it still prints what it has sent and left open."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kproxy", "replay", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    ends = iter([process.terminate])  # a second signal would end it before it has printed what is left open

    def end() -> None:
        for terminate in ends:
            terminate()

    with process, work.ended_by(end):
        text, complaints = process.communicate()
    if process.returncode not in (DONE, DAMAGED, DIFFERS, INTERRUPTED):
        lines = complaints.strip().splitlines()
        raise UsageError(lines[-1].removeprefix("kproxy: ")[:500] if lines else "the replay has failed")
    return text, process.returncode
