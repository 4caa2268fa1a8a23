"""Supervisor: one run of `kproxy run`, from its options to its exit code.

SIGTERM, SIGINT     drain: what is in flight is answered, then all processes exit; exit code 0, or 1 if one had to be killed.
                    With outlive, the first SIGTERM waits until no client is connected. A second signal ends the run at once;
                    signals within 0.1 s are one, as timeout(1), npm and others pass on what the whole group received
SIGHUP              read the configuration and the TLS files again, as after a change of one of these files
"""

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kproxy.config.files import filter_files, watched_files
from kproxy.config.reading import Options
from kproxy.config.structs import Config
from kproxy.errors import ConfigError, UsageError
from kproxy.protocol.addresses import as_reached_here, parse_address
from kproxy.proxy.logs import log
from kproxy.proxy.messages import FeedPage, ReloadCertificates
from kproxy.proxy.network.listening import advice_on_binding, check_addresses_are_free, listen_for_pages
from kproxy.proxy.supervisor.browser_guard import BrowserGuard, new_token
from kproxy.proxy.supervisor.checking import read_again
from kproxy.proxy.supervisor.fleet import OURS, Fleet, Modules, kept_for_page
from kproxy.proxy.supervisor.overview import Overview
from kproxy.proxy.system_calls import forget_code

if TYPE_CHECKING:
    from kproxy.proxy.network.http_server import PageServer
    from kproxy.proxy.supervisor.admin import PageEntry
    from kproxy.proxy.supervisor.live_page import LivePage

DONE, FAILED = 0, 1
STDIN = 0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TOGETHER = 0.1  # seconds; signals within it count as one
LOOK_EVERY = 0.25  # seconds between two counts of clients, with outlive


class Supervisor:
    """One run, from its options to its exit code."""

    def __init__(self, options: Options, config: Config, modules: Modules = OURS) -> None:
        self._options = options
        self._config = config
        self._fleet = Fleet(config, modules)
        self._overview = Overview(self._fleet)
        self._admin = Admin(self._overview, self._fleet)
        self._watch = FileWatch()
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        self._reload = asyncio.Event()
        self._asked_to_reload = False  # by a signal: reload even if no file seems to have changed
        self._filter_files: set[str] = set()  # watched, with --reload-filters
        self._filters_changed = False
        self._watch_files()

    async def run(self) -> int:
        """Serve until asked to stop. Return the exit code; a start that fails prints one sentence on standard error."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        if self._options.until_input_ends:
            loop.add_reader(STDIN, self._stop_at_end_of_input)
        try:
            return await self._run()
        finally:
            await self._fleet.kill()
            await self._admin.stop()

    async def _run(self) -> int:
        try:
            check_addresses_are_free(self._config)
        except OSError as error:
            return _print_failure(f"{error.filename}: {error.strerror}: {advice_on_binding(error, 'listen')}")
        try:
            await self._admin.move(self._config)
        except OSError as error:
            advice = advice_on_binding(error, "admin, or off")
            return _print_failure(f"{self._config.admin}: {error.strerror}: {advice}")
        first = await _first_of(self._next_stop(), self._fleet.start())
        if isinstance(first, signal.Signals):  # some workers may serve clients already
            return await self._stop(first)
        if first:
            return _print_failure(first)
        config = self._config
        log(
            "info",
            "serving",
            listen=[cluster.listen for cluster in config.clusters],
            bootstrap=[address for cluster in config.clusters for address in cluster.bootstrap],
            workers=config.workers,
            analysis=config.analysis.enabled,
            admin=config.admin,
        )
        self._admin.log_page(config)
        forget_code()
        background = [
            asyncio.ensure_future(self._watch.follow(self._changed)),
            asyncio.ensure_future(self._keep_reloading()),
        ]
        try:
            why = await _first_of(self._next_stop(), self._fleet.failure)
            return _print_failure(why) if isinstance(why, str) else await self._stop(why)
        finally:
            for task in background:
                task.cancel()

    def _stop_at_end_of_input(self) -> None:
        """Read standard input; at its end stop as by SIGTERM."""
        if not os.read(STDIN, 1_024):
            asyncio.get_running_loop().remove_reader(STDIN)
            self._signals.put_nowait(signal.SIGTERM)

    async def _stop(self, why: signal.Signals) -> int:
        """Drain; with outlive, once no client is connected. Return the exit code."""
        await asyncio.sleep(TOGETHER)
        while not self._signals.empty():
            self._signals.get_nowait()
        if self._config.outlive and why == signal.SIGTERM:
            log("info", "asked to stop, going on until no client is connected", signal=why.name)
            await _first_of(self._no_clients(), self._next_stop())
        seconds = self._config.timeouts.drain
        log("info", "draining", signal=why.name, seconds=seconds, count=self._overview.clients())
        first = await _first_of(self._fleet.drain(seconds), self._next_stop())
        if isinstance(first, signal.Signals):
            log("warning", "stopped at once", signal=first.name)
            return 128 + first
        if not first:
            log("warning", "stopped before all was answered", seconds=seconds)
        else:
            log("info", "stopped")
        return DONE if first else FAILED

    async def _next_stop(self) -> signal.Signals:
        """Wait for a signal to stop; start a reload for each SIGHUP."""
        while True:
            number = await self._signals.get()
            if number != signal.SIGHUP:
                return number
            self._asked_to_reload = True
            self._reload.set()

    async def _no_clients(self) -> None:
        """Wait until two looks in a row find no client: one that moves to another broker is between two connections."""
        looks = 0
        while looks < 2:
            looks = 0 if self._overview.clients() else looks + 1
            await asyncio.sleep(LOOK_EVERY)

    def _watch_files(self) -> None:
        own = [self._options.file] if self._options.file else []
        if self._options.reload_filters:
            self._filter_files = filter_files(self._config)
        self._watch.watch([*own, *watched_files(self._config), *sorted(self._filter_files)])

    def _changed(self, files: Sequence[str]) -> None:
        for file in files:
            log("info", "a file has changed", file=file)
        self._filters_changed |= not self._filter_files.isdisjoint(files)
        self._reload.set()

    async def _keep_reloading(self) -> None:
        """Reload whenever a file or a signal asks for it; log why a configuration is not used."""
        while True:
            await self._reload.wait()
            self._reload.clear()
            by_signal, self._asked_to_reload = self._asked_to_reload, False
            changed, self._filters_changed = self._filters_changed, False
            if by_signal:  # said only now: who sent it may take the next answer for the answer to it
                log("info", "reading the configuration again", signal=signal.SIGHUP.name)
            try:
                await self._read_again(by_signal, changed)
            except UsageError as error:
                _log_mistakes(error)
            except OSError as error:  # no file descriptors or memory for more workers
                log("error", "only a part of the configuration is in use", reason=str(error))

    async def _read_again(self, by_signal: bool, filters_changed: bool) -> None:
        """Read and use the configuration. Raises UsageError (such as ConfigError), also if a worker cannot use it."""
        config = await read_again(self._options, None if by_signal or filters_changed else self._config)
        if config == self._config and not by_signal and not filters_changed:
            await self._fleet.send_all(ReloadCertificates())
            log("info", "TLS files are read again")
            return
        why = await self._fleet.change(config, filters_changed or (by_signal and self._options.reload_filters))
        if why:
            raise UsageError(why)
        try:
            await self._admin.move(config)
        except OSError as error:
            log("error", "the admin server stays where it is", admin=config.admin, reason=error.strerror)
        self._admin.log_page(config)
        self._admin.tell_page()
        self._config = config
        self._watch_files()
        log("info", "the configuration was taken", workers=config.workers)


class Admin:
    """The admin server at its present address. It is loaded for the first connection, as it takes 10 MB."""

    def __init__(self, overview: Overview, fleet: Fleet) -> None:
        self._overview = overview
        self._fleet = fleet
        self._entry: PageEntry | None = None
        self._page: LivePage | None = None
        self._token = ""  # of the page; the same wherever the admin server moves
        self._page_address = PageAddress()
        self._address: str | None = None
        self._listener: socket.socket | None = None
        self._serving: asyncio.Task[PageServer] | None = None

    async def move(self, config: Config) -> None:
        """Listen at the address in *config*, or stop if there is none. Raises OSError, and then nothing has changed."""
        address = config.admin
        if address == self._address:
            return
        if address is None:
            await self.stop()
            return
        listener = listen_for_pages(*parse_address(address, any_host=True))
        listener.setblocking(False)
        self._token = self._token or new_token()
        await self.stop()
        self._address, self._listener = address, listener
        asyncio.get_running_loop().add_reader(listener, self._begin, listener, config.admin_hosts)
        past = kept_for_page(config)
        if past:
            await self._fleet.feed(FeedPage("", past))

    def _begin(self, listener: socket.socket, hosts: list[str]) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        self._serving = loop.create_task(self._serve(listener, hosts), name="admin")
        self._serving.add_done_callback(_log_fault)

    async def _serve(self, listener: socket.socket, hosts: list[str]) -> "PageServer":
        from kproxy.proxy.network.http_server import PageServer  # noqa: PLC0415
        from kproxy.proxy.supervisor.admin import PageEntry, admin_app  # noqa: PLC0415
        from kproxy.proxy.supervisor.live_page import LivePage  # noqa: PLC0415

        guard = BrowserGuard(hosts, self._token)
        self._page = LivePage(self._fleet, guard, hosts)
        self._entry = self._entry or PageEntry(self._fleet)
        app = admin_app(self._overview, hosts, guard=guard, edits=self._entry, page=self._page)
        server = PageServer(app, listener)
        await server.start()
        forget_code()
        return server

    def log_page(self, config: Config) -> None:
        """Make the address of the page known, and whether breakpoints may be set in it."""
        event = "the page, where breakpoints may be set" if config.page.edits else "the page"
        url = f"http://{as_reached_here(self._address)}/?token={self._token}" if self._address else ""
        self._page_address.tell(event, url)

    def tell_page(self) -> None:
        """Pass a new configuration on to the page, which shows since when it is used."""
        if self._page is not None:
            self._page.configure()

    async def stop(self) -> None:
        """Stop listening and serving."""
        self._page_address.remove()
        serving, listener, page = self._serving, self._listener, self._page
        self._address = self._serving = self._listener = self._page = None
        if page is not None:
            await page.stop()
        if serving is not None:
            with suppress(Exception):  # which was logged
                await (await serving).stop()
        elif listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
        if listener is not None:
            listener.close()


def _log_fault(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log("error", "a fault", reason=repr(error))


async def _first_of(*awaitables: Awaitable[Any]) -> Any:
    """Return the result of the first that is done; cancel the others.

    If several are done at once, the one named first wins and the results of the others are lost, so name signals first.
    """
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()


def _log_mistakes(error: UsageError) -> None:
    if not isinstance(error, ConfigError):
        log("error", "the configuration before stays", reason=str(error))
        return
    for mistake in error.mistakes:
        keys = {name: value for name, value in mistake._asdict().items() if value and name != "message"}
        log("error", "a mistake in the configuration", file=error.source, **keys, reason=mistake.message)
    log("error", "the configuration before stays", count=len(error.mistakes))


def _print_failure(sentence: str) -> int:
    print(f"kproxy: {sentence}", file=sys.stderr)
    return FAILED


FILES_EVERY = 0.25  # seconds; a change counts if the next look finds the same, as files are rarely written at once
Stamp = tuple[int, int, int, int] | None  # None: not there


def stamp(file: str) -> Stamp:
    """Return device, inode, size and time of change of a file, by which its states differ."""
    try:
        status = Path(file).stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class FileWatch:
    """Polls the files that ``watch()`` sets."""

    def __init__(self) -> None:
        self._returned: dict[str, Stamp] = {}
        self._before: dict[str, Stamp] = {}

    def watch(self, files: Iterable[str]) -> None:
        """Watch these files from now on. A file that was watched before keeps its state, so no change is missed."""
        self._returned = {file: self._returned[file] if file in self._returned else stamp(file) for file in files}
        self._before = dict(self._returned)

    def look(self) -> list[str]:
        """Return the files that have changed since they were last returned and are the same as at the previous look."""
        now = {file: stamp(file) for file in self._returned}
        changed = [file for file in now if now[file] != self._returned[file] and now[file] == self._before[file]]
        self._returned.update((file, now[file]) for file in changed)
        self._before = now
        return changed

    async def follow(self, changed: Callable[[list[str]], None]) -> None:
        """Call *changed* with the changed files until cancelled."""
        while True:
            await asyncio.sleep(FILES_EVERY)
            files = self.look()
            if files:
                changed(files)


STANDARD_ERROR = 2


class PageAddress:
    """The address of the page, as it was last shown.

    On a terminal the log has it. Elsewhere logs are collected and read by many, so a file that only this user may read has it
    (mode 0600, in $XDG_RUNTIME_DIR, else in the folder for temporary files), and the log names the file.
    """

    def __init__(self) -> None:
        self._shown = ("", "")
        self._file: Path | None = None

    def tell(self, event: str, url: str) -> None:
        """Log where the page is, unless that was logged before; an empty *url*: there is no page."""
        if self._shown == (event, url):
            return
        self._shown = event, url
        self.remove()
        if not url:
            return
        if os.isatty(STANDARD_ERROR):
            log("info", event, url=url)
            return
        try:
            self._file = _write_url_file(url)
        except OSError as error:
            reason = f"its address could not be written to a file: {error.strerror}; let kproxy write to /tmp"
            log("warning", event, reason=reason)
        else:
            log("info", event, file=str(self._file))

    def remove(self) -> None:
        """Remove the file, if there is one."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.unlink()


def _write_url_file(url: str) -> Path:
    """Write the address of the page to a file that only its owner may read; return its path."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    where = folder if folder and os.access(folder, os.W_OK) else os.environ.get("TMPDIR", "/tmp")
    path = Path(
        where, f"kproxy-page-{secrets.token_hex(8)}.url"
    )  # as mkstemp makes it, without the imports of tempfile
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"{url}\n")
    return path
