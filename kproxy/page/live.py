"""Live: the Store of a running proxy. The analyzer feeds it; it is a process of its own: `python -m kproxy.page.live FD`.

The supervisor (kproxy.proxy.supervisor.live_page) starts it when a browser with the token comes to the admin port, passes the
browser's requests on to it, and ends it when none has come for a while. Two sockets are in a directory of the supervisor's:

    feed    the analyzer connects and sends exchanges, credentials withheld, as a capture (kproxy.proxy.analyzer.page_feed). One
            that was killed is followed by another
    http    the page

The process ends with its standard input, which the supervisor holds open.
"""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from kproxy.errors import KproxyError
from kproxy.page.recorded import MOST_KEPT, Recorded, RowOutput
from kproxy.page.server import page_app, serve
from kproxy.pipeline.decoded_log import open_stream
from kproxy.pipeline.run import Options, Run
from kproxy.proxy.process_title import set_process_title

SHOW_EVERY_S = 0.5  # what has come is shown at the latest after so long
LOOK_EVERY_S = 0.2
FEED, HTTP = "feed", "http"
NICE = 10
LONGEST = 65_536  # bytes of the arguments


class LiveArguments(msgspec.Struct, frozen=True):
    """The arguments of the process: JSON, the first line of its standard input."""

    folder: str  # with the sockets
    name: str  # of what is open
    token: str
    hosts: list[str]
    editable: bool = False  # whether breakpoints may be set
    most: int = MOST_KEPT  # bytes of exchanges that are kept


class Live(Recorded):
    """See the module.

    Args:
        name: of the proxy.
        feeds: a socket that listens for analyzers.
        most: bytes of exchanges that are kept.
    """

    live = True

    def __init__(self, name: str, feeds: socket.socket, most: int = MOST_KEPT) -> None:
        super().__init__([], Options(contain=(Exception,)), most)
        self.name = name
        self.loading = None
        self._feeds = feeds
        self._feeds.settimeout(LOOK_EVERY_S)

    def _load(self) -> None:
        output = RowOutput(self.blocks, self._writer, self._published)
        try:
            with Run(self._options, [output]) as run:
                while not self._stop.is_set():
                    self._follow(run, output)
        finally:
            self._ended.set()

    def _follow(self, run: Run, output: RowOutput) -> None:
        """Read the next feed to its end."""
        try:
            feed, _ = self._feeds.accept()
        except TimeoutError:
            return
        source = Feed(feed, self._stop, output.show)
        with (
            contextlib.suppress(KproxyError),
            open_stream(source, self.name) as opened,
        ):  # cut off: the next begins anew
            for _ in run.read(opened, wait_for_names=False):
                pass
        output.show()


class Feed:
    """What an analyzer sends, as a ByteSource.

    Args:
        connected: owned from here on.
        stop: when it is set, the feed ends.
        show: called when what has come so far is to be shown.
    """

    def __init__(self, connected: socket.socket, stop: threading.Event, show: Callable[[], None]) -> None:
        self._socket = connected
        self._socket.settimeout(LOOK_EVERY_S)
        self._stop = stop
        self._show = show
        self._shown_at = time.monotonic()
        self._has_news = False

    def readinto(self, buffer: memoryview) -> int:
        """See ByteSource."""
        while not self._stop.is_set():
            now = time.monotonic()
            if self._has_news and now >= self._shown_at + SHOW_EVERY_S:
                self._shown_at, self._has_news = now, False
                self._show()
            try:
                size = self._socket.recv_into(buffer)
            except TimeoutError:
                continue
            except OSError:
                return 0
            self._has_news = True
            return size
        return 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def listen(folder: Path, name: str) -> socket.socket:
    """A listening socket in a folder."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / name))
    listener.listen()
    return listener


def main() -> None:
    """Serve until the standard input ends."""
    arguments = msgspec.json.decode(sys.stdin.buffer.readline(LONGEST), type=LiveArguments)
    set_process_title("kproxy: page", "kproxy:page")
    os.nice(NICE)
    folder = Path(arguments.folder)
    store = Live(arguments.name, listen(folder, FEED), arguments.most)
    store.editable = arguments.editable
    store.start()
    threading.excepthook = lambda fault: os._exit(
        1
    )  # without its reader it would show old rows; the next request starts anew
    threading.Thread(target=_follow_input, args=(store,), daemon=True).start()
    serve(page_app(store, arguments.token, arguments.hosts), listen(folder, HTTP), _say_ready)


def _say_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _follow_input(store: Live) -> None:
    """Take what the supervisor says later on, one JSON value a line: whether breakpoints may be set now. End with it."""
    for line in sys.stdin.buffer:
        store.editable = msgspec.json.decode(line, type=bool)
    os._exit(0)


if __name__ == "__main__":
    main()
