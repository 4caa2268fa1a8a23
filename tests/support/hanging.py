"""`kproxy run` whose processes hang in C when they see certain bytes: `python -m tests.support.hanging OPTIONS`.

The analyzer is kproxy's own, but for a client id that it hangs on. For workers there is a filter. The watchdog is less patient.
"""

import itertools
import sys
from typing import Any

import msgspec

from kproxy.config.reading import Options
from kproxy.filters.contract import Filter, Forward, Request, Verdict
from kproxy.pipeline import connections
from kproxy.proxy.analyzer.process import main as analyze
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.supervisor import child
from kproxy.proxy.supervisor.fleet import Modules
from kproxy.proxy.supervisor.processes import WORKER
from kproxy.proxy.supervisor.start import main as supervise
from kproxy.session import Session

HANG_S = 3.0
FATAL = "hang-in-c"  # client id
HEARTBEAT = 12


def hang_in_c() -> None:
    """One call into C that does not return, holds the interpreter, and lets no Python code of a signal run."""
    sum(itertools.repeat(0))


class Hanging(Filter):
    """Hangs on the Heartbeats of one client."""

    requests = (HEARTBEAT,)

    def on_request(self, request: Request) -> Verdict:
        """Hang, or not."""
        if request.client_id == FATAL:
            hang_in_c()
        return Forward()


class HangingSession(Session):
    """Hangs on bytes that name the client."""

    def receive(self, direction: Any, data: bytes, at: int, sent_at: int = 0) -> Any:
        """Hang, or not."""
        if FATAL.encode() in data:
            hang_in_c()
        return super().receive(direction, data, at)


def main(arguments: ChildArguments) -> None:
    """As analyzer."""
    connections.Session = HangingSession  # type: ignore[misc]
    analyze(arguments)


if __name__ == "__main__":
    child.HANG_S = HANG_S
    sys.exit(supervise(msgspec.json.decode(sys.argv[1], type=Options), Modules(WORKER, "tests.support.hanging")))
