"""The log of the running proxy, on standard error: one event one line, JSON or, on a terminal, text.

The event is a few fixed words; the keys, all of them in KEYS, hold the values. Values may come from hostile peers, so they are
cut and escaped: a line stays a line. Only the supervisor writes; workers and the analyzer send it their events (LogEvent in
messages.py). Writing never waits and never fails: events that a full pipe or disk does not take are counted, and their number is
logged later.

It uses logging of the standard library rather than structlog: asyncio does too, and structlog with its imports costs
5.7 MB of a process that is to stay small.
"""

import json
import logging
import os
import select
import time
from typing import Any, Literal, TypeAlias

from kproxy.proxy.messages import MESSAGE_DROPPED, LogEvent, LogValue

KEYS = {
    "worker": "number of the worker, from 0",
    "process": "kind of child process: worker or analyzer",
    "pid": "process id",
    "exit_code": "how a process ended; negative: by that signal",
    "restart_in": "seconds until the process is started again",
    "stack": "where a process hangs: its innermost frames, as file:line function",
    "signal": "name of the signal received",
    "seconds": "a time span",
    "count": "how many",
    "cluster": "name of the virtual cluster",
    "listen": "address that is listened on",
    "bootstrap": "brokers' addresses in the configuration",
    "client": "address of a client",
    "broker": "address of a broker",
    "node_id": "a broker's id",
    "advertised": "address that clients are given instead",
    "connection": "number of the connection in its worker",
    "direction": "request or response",
    "api_name": "Kafka's name of the API",
    "api_version": "version of the API",
    "correlation_id": "correlation id of the frame",
    "client_id": "the client id in a request",
    "principal": "who a client is, or claims to be",
    "mechanism": "SASL mechanism",
    "filter": "name of the filter",
    "cause": "why a connection was closed: one of CloseCause",
    "reason": "why something happened or failed, in words",
    "file": "path of a file",
    "line": "line in the file, from 1",
    "column": "column in the line, from 1",
    "path": "path in the configuration",
    "admin": "address of the admin server",
    "workers": "how many workers",
    "analysis": "whether the analyzer runs",
    "bytes": "a size",
    "url": "address of the page, with the token: on a terminal only; elsewhere ``file`` is the file that has it",
    "by": "address of the browser of the person who did it",
    "action": "what a person did with a stopped message",
    "fields": "paths of fields that a person has changed",
    "logger": "the library whose event it is",
}
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
LONGEST_VALUE = 500  # characters
LONGEST_LINE = 4_000  # bytes; a pipe that is ready takes PIPE_BUF (4,096) without waiting
MOST_RELAYED = 100  # events a second from one process, on average
BURST = 500
EVENTS_LOST = "events lost: they could not be written in time"

Style = Literal["json", "text"]
LogKeys: TypeAlias = dict[str, LogValue]
logger = logging.getLogger("kproxy")


def log(level: str, event: str, **keys: Any) -> None:
    """Write an event; *level* is one of LEVELS, *keys* are some of KEYS."""
    logger.log(LEVELS[level], event, extra={"keys": keys})


def log_dropped_message(reason: str) -> None:
    """Log that a message to another process was too long."""
    log("error", MESSAGE_DROPPED, reason=reason)


class Relay:
    """Writes the events of another process, at most MOST_RELAYED a second, so that a flood costs neither disk nor time.

    Args:
        process, number: where the events come from.
    """

    def __init__(self, process: str, number: int | None = None) -> None:
        self._about: LogKeys = {"process": process} if number is None else {"worker": number}
        self._credit, self._at, self._suppressed = float(BURST), time.monotonic(), 0

    def write(self, event: LogEvent) -> None:
        """Write the event; keys that are not in KEYS are left out."""
        if not self._may():
            self._suppressed += 1
            return
        if self._suppressed:
            log("warning", "events left out", **self._about, count=self._suppressed)
            self._suppressed = 0
        keys = {name: value for name, value in event.keys.items() if name in KEYS}
        log(event.level if event.level in LEVELS else "info", event.event, **{**keys, **self._about})

    def _may(self) -> bool:
        now = time.monotonic()
        self._credit = min(BURST, self._credit + (now - self._at) * MOST_RELAYED)
        self._at = now
        if self._credit < 1:
            return False
        self._credit -= 1
        return True


def start_logging(logs: str, fd: int = 2) -> None:
    """Send events to *fd*, as JSON or text; ``auto``: as text if it is a terminal."""
    style: Style = "text" if logs == "text" or (logs == "auto" and os.isatty(fd)) else "json"
    root = logging.getLogger()
    root.handlers[:] = [LineHandler(fd, style)]
    root.setLevel(logging.INFO)
    logging.raiseExceptions = False
    for library in ("asyncio", "botocore"):
        logging.getLogger(library).setLevel(logging.WARNING)


class LineHandler(logging.Handler):
    """Writes each event as a line to a file descriptor, without waiting."""

    def __init__(self, fd: int, style: Style) -> None:
        super().__init__()
        self.lost = 0
        self._fd = fd
        self._render = render_json if style == "json" else render_text
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it as lost."""
        try:
            if self.lost:
                self._write(logging.makeLogRecord({**LOST, "keys": {"count": self.lost}}))
                self.lost = 0
            self._write(record)
        except (OSError, ValueError):  # EPIPE, ENOSPC, EIO; a value that cannot be written
            self.lost += 1

    def _write(self, record: logging.LogRecord) -> None:
        line = self._render(record).encode("ascii", "backslashreplace") + b"\n"
        if not self._poll.poll(0):
            raise BlockingIOError
        os.write(self._fd, line)


LOST = {"name": "kproxy", "levelname": "WARNING", "levelno": logging.WARNING, "msg": EVENTS_LOST}


def render_json(record: logging.LogRecord) -> str:
    """Return ``{"at": "2026-01-31T12:00:00.000000Z", "level": "info", "event": "serving", ...}``, ASCII."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    fraction = int(record.created % 1 * 1_000_000)
    head = {"at": f"{at}.{fraction:06d}Z", "level": record.levelname.lower(), "event": _cut(record.getMessage())}
    keys = {name: _plain(value) for name, value in _keys(record).items()}
    line = json.dumps({**head, **keys})
    return line if len(line) <= LONGEST_LINE else json.dumps({**head, "reason": "its keys were too long"})


def render_text(record: logging.LogRecord) -> str:
    """Return ``12:00:00 info    serving  workers=1 listen=127.0.0.1:9092``."""
    at = time.strftime("%H:%M:%S", time.localtime(record.created))
    keys = " ".join(f"{name}={_text(value)}" for name, value in _keys(record).items())
    return f"{at} {record.levelname.lower():7} {_text(record.getMessage(), quote=False)}  {keys}".rstrip()[
        :LONGEST_LINE
    ]


def event_of(record: logging.LogRecord) -> LogEvent:
    """Return the record as a message to the supervisor; long values are cut."""
    keys = {name: _plain(value) for name, value in _keys(record).items()}
    return LogEvent(record.levelname.lower(), _cut(record.getMessage()), keys)


def _keys(record: logging.LogRecord) -> dict[str, Any]:
    keys: dict[str, Any] = getattr(record, "keys", None) or {}
    if record.name != logger.name:
        keys = {**keys, "logger": record.name}
    if record.exc_info and record.exc_info[1] is not None:
        keys = {**keys, "reason": repr(record.exc_info[1])}
    return keys


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    return [_plain(item) for item in value[:20]] if isinstance(value, list | tuple) else _cut(str(value))


def _text(value: Any, *, quote: bool = True) -> str:
    text = ",".join(str(item) for item in value[:20]) if isinstance(value, list | tuple) else str(value)
    shown = json.dumps(_cut(text))  # ASCII, control characters and what turns text around escaped
    return shown if quote and (" " in text or len(shown) > len(text) + 2) else shown[1:-1]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
