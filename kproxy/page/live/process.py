"""The process of the live page: ``python -m kproxy.page.live``. It serves until its standard input ends.

The supervisor (kproxy.proxy.supervisor.live_page) starts it when a browser with the token comes to the admin port, passes the
browser's requests on to it, and ends it when none has come for a while.
"""

import gc
import os
import resource
import shutil
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec

from kproxy.page.left_out import Analyzed
from kproxy.page.live.store import Live
from kproxy.page.recorded import MOST_KEPT
from kproxy.page.server import keep_large_blocks_apart, page_app, serve
from kproxy.proxy.child_process import set_process_title
from kproxy.schemas.settings import SchemaSources

FEED, HTTP = "feed", "http"
LONGEST = 1 << 20  # bytes of the arguments
WAIT_FOR_SCHEMAS = 1.0  # seconds for a registry's answer, while a person waits
SAYS = "kproxy page: "  # before a line of standard error that is for the log (kproxy.proxy.supervisor.live_page)


class Settings(msgspec.Struct, frozen=True):
    """What a reload of the configuration may change: JSON, one line of standard input for each reload."""

    editable: bool = False  # whether breakpoints may be set
    analyzed: Analyzed = Analyzed()
    clients: list[str] = []  # addresses to which clients connect


class LiveArguments(msgspec.Struct, frozen=True):
    """The arguments of the process: JSON, the first line of its standard input."""

    folder: str  # with the sockets
    name: str  # of what is open
    token: str
    hosts: list[str]
    settings: Settings = Settings()
    most: int = MOST_KEPT  # bytes of exchanges that are kept in memory
    spill: str = ""  # the directory for older ones
    most_spilled: int = 0  # bytes there
    records: bool = False  # whether the contents of records may be shown
    schemas: SchemaSources = SchemaSources()


def listen(folder: Path, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / name))
    listener.listen()
    return listener


def main() -> None:
    """Serve until the standard input ends."""
    arguments = msgspec.json.decode(sys.stdin.buffer.readline(LONGEST), type=LiveArguments)
    set_process_title("kproxy: page", "kproxy:page")
    sys.excepthook = lambda kind, fault, trace: _end(fault)
    keep_large_blocks_apart()
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = Path(arguments.folder)
    spill = Path(arguments.spill) if arguments.spill else None
    feeds = listen(folder, FEED)
    schemas = arguments.schemas.open(WAIT_FOR_SCHEMAS) if arguments.records else None
    store = Live(arguments.name, feeds, arguments.most, spill, arguments.most_spilled, schemas)
    _use(store, arguments.settings)
    gc.collect()
    gc.freeze()  # the collector skips the objects made so far, which live to the end
    gc.set_threshold(20_000, 20, 20)
    store.start()
    # Without one of its threads the page would show old rows; the next request starts another process
    threading.excepthook = lambda fault: _end(fault.exc_value)
    threading.Thread(target=_follow_input, args=(store, folder), daemon=True).start()
    app = page_app(store, arguments.token, arguments.hosts)
    serve(app, listen(folder, HTTP), lambda: print("ready", flush=True))


def _end(fault: BaseException | None) -> None:
    """End the process; write type and place of the fault for the supervisor's log, but not its text, which may quote traffic."""
    frames = traceback.extract_tb(None if fault is None else fault.__traceback__)
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
    os.write(2, f"\n{SAYS}{type(fault).__name__}{place}\n".encode())
    os._exit(1)


def _follow_input(store: Live, folder: Path) -> None:
    """Use settings that the supervisor sends later. When it is gone, remove the folder in its place, and exit."""
    for line in sys.stdin.buffer:
        _use(store, msgspec.json.decode(line, type=Settings))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _use(store: Live, settings: Settings) -> None:
    store.editable = settings.editable
    store.client_addresses = settings.clients
    store.narrowed.use(settings.analyzed)
