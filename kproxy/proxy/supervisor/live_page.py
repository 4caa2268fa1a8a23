"""LivePage: the live page of a running proxy, at / and below /page of the admin port.

It is a process of its own (kproxy.page.live), which holds rows in DuckDB. Importing and taking exchanges get what CPU is left;
answers have a low priority, so that they come where traffic fills the cores. It is started for the first request with the token,
fed by the analyzer, and ended when no browser has asked for IDLE_S. Before and after that the analyzer keeps the last exchanges
in memory, of page.past bytes, with which the page begins; nothing else is done for it.
When the analyzer or the page is killed, the next request finds another one.
"""

import asyncio
import os
import re
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs

import h11
import msgspec

from kproxy.config.structs import Config
from kproxy.protocol.addresses import as_reached_here
from kproxy.proxy.environment import environment
from kproxy.proxy.logs import log
from kproxy.proxy.messages import FeedPage
from kproxy.proxy.network.http_server import MOST_REQUESTS, Answer, Receive, Scope, Send, plain, to_json
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.proxy.supervisor.fleet import Fleet, is_page_installed, kept_for_page
from kproxy.proxy.supervisor.processes import Process, signal_name

MODULE = "kproxy.page.live"
MOST_ASKING = MOST_REQUESTS * 3 // 4  # requests at a time; the rest is for probes, scrapers and breakpoints
IDLE_S = 60.0  # without a request, after which the process is ended
START_S = 60.0  # that the process may take to start
END_S = 1.0  # that the end of a process may take to be seen
LOOK_EVERY_S = 0.1
# Priority of the process: traffic comes first. A worker that wakes up has the core at once, as its slices are shorter
# (scheduling.py); on a core that workers fill, the page still gets a tenth, so that it answers
NICE = 10
LONGEST_FOLDER = 70  # characters: the path of a socket has 107 at most (unix(7))
FEED, HTTP = "feed", "http"  # of kproxy.page.live, which is not imported here


class NoPage(Exception):
    """Says in a sentence why there is no page."""


class LivePage:
    """An ASGI application.

    Args:
        fleet: the fleet whose analyzer feeds the page.
        guard: decides which requests are allowed.
        hosts: names under which the page may be requested, in addition to loopback names and IP addresses.
        idle_s: seconds without a request after which the process ends.
    """

    def __init__(self, fleet: Fleet, guard: BrowserGuard, hosts: list[str], idle_s: float = IDLE_S) -> None:
        self._fleet = fleet
        self._guard = guard
        self._hosts = hosts
        self._idle_s = idle_s
        self._process: PageProcess | None = None
        self._starting = asyncio.Lock()
        self._asking = 0  # requests now
        self._asked_at = 0.0
        self._watching: asyncio.Task[None] | None = None

    def is_allowed(self, scope: Scope) -> bool:
        """Return whether a request has the token: in the address, the cookie, or the header."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] == "/" and len(given) == 1 and self._guard.is_token(given[0]):
            return self._guard.host_refusal(scope["headers"]) is None
        if scope["path"] == "/":  # a link of another site may lead here
            return self._guard.may_read(scope["headers"])
        return self._guard.refusal("GET", scope["headers"]) is None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for which ``is_allowed`` is true, as an ASGI application."""
        loop = asyncio.get_running_loop()
        self._asking += 1
        try:
            if self._asking > MOST_ASKING:
                raise NoPage("too many browsers have the page open; close one of them")
            process = await self._running()
            await forward(process.http, scope, receive, send)
        except NoPage as error:
            await _refusal(scope, str(error))(scope, receive, send)
        except (OSError, h11.ProtocolError) as error:
            log("warning", "the page has not answered", reason=str(error))
            with suppress(RuntimeError):  # it had begun to answer
                await _refusal(scope, "the page has ended; ask again")(scope, receive, send)
        finally:
            self._asking -= 1
            self._asked_at = loop.time()

    @property
    def _past(self) -> int:
        return kept_for_page(self._fleet.config)

    def configure(self) -> None:
        """Pass the present configuration on to the process, if there is one."""
        if self._process is not None and not self._process.has_ended:
            self._process.use(_settings_of(self._fleet.config))

    async def stop(self) -> None:
        if self._watching is not None and (self._process is None or not self._process.has_ended):
            self._watching.cancel()  # else it is about to log why
        process, self._process = self._process, None
        if process is not None:
            await self._fleet.feed(FeedPage("", self._past))
            await process.stop()

    async def _running(self) -> "PageProcess":
        """Return the process once it answers, starting it if need be. Raises NoPage."""
        async with self._starting:
            if self._process is not None and not self._process.has_ended:
                self.configure()  # another configuration may have been taken while it started
                return self._process
            if not is_page_installed():
                raise NoPage("the page needs packages that are missing: pip install 'kproxy-kafka[page]'")
            if not self._fleet.config.analysis.enabled:
                raise NoPage("the page shows what is analyzed: set analysis.enabled, and start kproxy again")
            await self.stop()
            self._process = await PageProcess.start(self._fleet, self._guard.token, self._hosts)
            await self._fleet.feed(FeedPage(self._process.feed, self._past))
            log("info", "the page was started", pid=self._process.pid)
            self._watching = asyncio.ensure_future(self._watch(self._process))
            return self._process

    async def _watch(self, process: "PageProcess") -> None:
        """End the process once no browser has asked for *idle_s* seconds."""
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        while not process.has_ended:
            if await process.ends_within(max(self._asked_at + self._idle_s - loop.time(), LOOK_EVERY_S)):
                break
            async with self._starting:  # a request that waits for this lock is counted already
                if self._asking or loop.time() < self._asked_at + self._idle_s or self._process is not process:
                    continue
                self._process = self._watching = None
                await self._fleet.feed(FeedPage("", self._past))
                await process.stop()
                log("info", "the page was ended", pid=process.pid)
                return
        await process.stop()


class PageProcess:
    """A running process of the live page."""

    def __init__(
        self,
        folder: Path,
        process: Process,
        settings: dict[str, Any],
        control: asyncio.StreamWriter,
        errors: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._folder = folder
        self._process = process
        self._settings = settings
        self._control = control  # its standard input
        self._errors = errors[1]  # its standard error
        self.pid = process.pid
        self._ending = Ending(errors[0])
        self._is_stopped = False

    @classmethod
    async def start(cls, fleet: Fleet, token: str, hosts: list[str]) -> "PageProcess":
        """Start the process, and wait until it answers. Raises NoPage."""
        import tempfile  # noqa: PLC0415 - with what it imports 0.3 MB, which most proxies do without

        try:
            near = tempfile.gettempdir()
            where = near if len(near) < LONGEST_FOLDER else "/tmp"
            folder = Path(tempfile.mkdtemp(prefix="kproxy-page-", dir=where))
        except OSError as error:  # a read-only file system, as in the image
            reason = (
                "the page needs a folder for temporary files: let kproxy write to /tmp, in Kubernetes by an emptyDir"
            )
            raise NoPage(reason) from error
        (ours, theirs), (errors_here, errors_there) = socket.socketpair(), socket.socketpair()
        try:
            with theirs, errors_there:
                streams = enumerate((theirs.fileno(), theirs.fileno(), errors_there.fileno()))
                pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-P", "-m", MODULE],
                    environment() | ({"TMPDIR": str(folder)} if where == near else {}),  # removed with it
                    file_actions=[(os.POSIX_SPAWN_DUP2, fd, standard) for standard, fd in streams],
                    setpgroup=0,
                )
            process = Process(pid)
        except OSError as error:
            ours.close()
            errors_here.close()
            _remove(folder)
            raise NoPage(f"the page could not be started: {os.strerror(error.errno or 0)}") from error
        page = fleet.config.page
        settings = _settings_of(fleet.config)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
        ready, control = await asyncio.open_unix_connection(sock=ours)
        errors = await asyncio.open_unix_connection(sock=errors_here)
        made = cls(folder, process, settings, control, errors)
        name = ", ".join(cluster.name for cluster in fleet.config.clusters)
        arguments = {
            "folder": str(folder),
            "name": name,
            "token": token,
            "hosts": hosts,
            "settings": settings,
            "most": page.memory,
            "records": page.records,
            "schemas": fleet.config.schemas,
        }
        if page.spill is not None:
            arguments |= {"spill": page.spill.directory, "most_spilled": page.spill.most_size}
        try:
            control.write(msgspec.json.encode(arguments) + b"\n")
            async with asyncio.timeout(START_S):
                await control.drain()
                is_ready = await ready.readline() == b"ready\n"
        except (OSError, TimeoutError):
            is_ready = False
        if not is_ready:
            if not await made.ends_within(END_S):
                log("error", "the page was not started in time", pid=made.pid, seconds=START_S)
            await made.stop()
            raise NoPage("the page could not be started; the log of kproxy says why")
        return made

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.ended.done()

    @property
    def http(self) -> str:
        """The socket of the page."""
        return str(self._folder / HTTP)

    @property
    def feed(self) -> str:
        """The socket to which the analyzer connects."""
        return str(self._folder / FEED)

    def use(self, settings: dict[str, Any]) -> None:
        """Send the page these settings, if they have changed."""
        if settings != self._settings:
            self._settings = settings
            self._control.write(msgspec.json.encode(settings) + b"\n")

    async def ends_within(self, seconds: float) -> bool:
        """Return whether the process ends by itself within *seconds*."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.ended), seconds)
        return self.has_ended

    async def stop(self) -> None:
        """End the process; if it has ended by itself, log why."""
        if self._is_stopped:
            return
        self._is_stopped = True
        by_itself = self.has_ended
        self._process.kill()
        code = await self._process.ended
        if by_itself:
            reason = await self._ending.reason(code)
            level: Literal["info", "error"] = "info" if code in REQUESTED else "error"
            log(level, "the page has ended by itself", pid=self.pid, exit_code=code, reason=reason)
        self._ending.close()
        self._control.close()
        self._errors.close()
        await asyncio.to_thread(_remove, self._folder)  # large files take a while


def _remove(folder: Path) -> None:
    import shutil  # noqa: PLC0415 - as tempfile

    shutil.rmtree(folder, ignore_errors=True)


def _settings_of(config: Config) -> dict[str, Any]:
    """Return what the page uses of a configuration: Settings of kproxy.page.live.process."""
    analysis = config.analysis
    analyzed = {"apis": sorted(set(analysis.apis)), "sample": analysis.sample, "snaplen": analysis.snaplen}
    clients = [as_reached_here(cluster.listen) for cluster in config.clusters]
    return {"editable": config.page.edits, "analyzed": analyzed, "clients": clients}


def _refusal(scope: Scope, sentence: str) -> Answer:
    """Return an answer that says why there is no page."""
    if scope["path"].startswith("/page/"):
        return to_json({"error": sentence, "column": None, "length": None}, 503)
    return plain(f"{sentence}\n", 503)


READ = 65_536
OF_ONE_HOP = {b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"proxy-connection", b"trailer"}
EVENTS = b"text/event-stream"
OF_BODIES = {b"content-length", b"expect"}


async def forward(path: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Forward one GET or HEAD. Raises OSError or h11.ProtocolError if the process ends or breaks before it has answered."""
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        exchange = _Exchange(reader, writer, send)
        await exchange.ask(scope)
        answering = asyncio.ensure_future(exchange.answer())
        leaving = asyncio.ensure_future(_until_left(receive))
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _until_left(receive: Receive) -> None:
    """Wait until the browser has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Exchange:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, send: Send) -> None:
        self._connection = h11.Connection(h11.CLIENT)
        self._reader, self._writer, self._send = reader, writer, send
        self._is_of_events = False

    async def ask(self, scope: Scope) -> None:
        """Send the request, without a body."""
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        headers = [(name, value) for name, value in scope["headers"] if name not in OF_ONE_HOP | OF_BODIES]
        await self._write(h11.Request(method=scope["method"], target=target, headers=headers))
        await self._write(h11.EndOfMessage())

    async def answer(self) -> None:
        """Pass the answer on. A stream of events simply ends with the process, as another process may follow."""
        try:
            await self._pass_on()
        except (OSError, h11.RemoteProtocolError):
            if not self._is_of_events:
                raise
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self) -> None:
        while True:
            event = self._connection.next_event()
            match event:
                case h11.NEED_DATA:
                    self._connection.receive_data(await self._reader.read(READ))
                case h11.Response():
                    headers = [(name, value) for name, value in event.headers if name not in OF_ONE_HOP]
                    await self._send({"type": "http.response.start", "status": event.status_code, "headers": headers})
                    self._is_of_events = dict(headers).get(b"content-type", b"").startswith(EVENTS)
                case h11.Data():
                    body = bytes(event.data)
                    await self._send({"type": "http.response.body", "body": body, "more_body": True})
                case h11.EndOfMessage() | h11.ConnectionClosed():
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                    return

    async def _write(self, event: "h11.Request | h11.EndOfMessage") -> None:
        data = self._connection.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()


# Why the process ended

TAIL_SIZE = 4096  # bytes kept of the end of its standard error
READ_S = 1.0  # wait for the rest of its standard error: a process that it started may hold the pipe open
# The last line of a traceback: only its type is shown, as the text may quote traffic
EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))(?::|$)")
# Begins the process's own sentences (kproxy.page.live.process, which is not imported here)
OWN_PREFIX = "kproxy page: "
# Exit codes of an end that was requested, for example by systemd, which signals all processes of a service
REQUESTED = (0, -signal.SIGTERM, -signal.SIGINT)


class Ending:
    """Reads what the process of the page writes to standard error, and keeps the end of it.

    Args:
        stream: its standard error.
    """

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._tail = b""
        self._reading = asyncio.ensure_future(self._read())

    async def reason(self, code: int) -> str:
        """Return in words why the process ended; *code*: its exit code, as subprocess.Popen.returncode."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._reading, READ_S)
        explanation = self._explanation()
        if code >= 0:
            return explanation or f"it ended with exit code {code}"
        name = signal_name(-code) or f"signal {-code}"
        hint = ", as the kernel does where memory is short" if -code == signal.SIGKILL else ""
        return f"{explanation}; {name}" if explanation else f"it was ended by {name}{hint}"

    def close(self) -> None:
        self._reading.cancel()

    def _explanation(self) -> str:
        """Return what the process wrote about its end: its own sentence, or the type of an exception; "" if neither."""
        for line in reversed(self._tail.decode("utf-8", "replace").splitlines()):
            if line.startswith(OWN_PREFIX):
                return line.removeprefix(OWN_PREFIX)
            exception = EXCEPTION.match(line)
            if exception is not None:
                return exception[1]
        return ""

    async def _read(self) -> None:
        while data := await self._stream.read(TAIL_SIZE):
            self._tail = (self._tail + data)[-TAIL_SIZE:]
