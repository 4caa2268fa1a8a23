"""A process that evaluates CEL: it is killed when that takes too long, as a thread could not be.

``python -m kproxy.page.filtering.worker FD`` answers the questions (msgpack) that come over a Connection. A question is a
condition, and columns of values for its names or lines of the decoded log; the answer is a byte for each row: FALSE, TRUE, ERROR,
or OTHER for a value that is no truth.
"""

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import msgspec
from msgspec import Struct

from kproxy.errors import UsageError
from kproxy.output.bodies import OPENABLE
from kproxy.output.times import render_instant
from kproxy.page.work import Work
from kproxy.protocol.addresses import address_of
from kproxy.protocol.embedded.viewers import records_in
from kproxy.protocol.error_codes import error_name

FALSE, TRUE, ERROR, OTHER = range(4)
MADE_OF = {"errorNames": "errors", "address": "client", "record": "embedded"}  # fields that lines lack: made from these


class Question(Struct, frozen=True):
    """What to evaluate: ``count`` rows, with a column of values for each name, and then lines.

    ``kinds`` says how the values of each name are made from those of SQL (see ``_value``).
    """

    condition: str
    names: list[str]
    kinds: list[str] = []
    columns: list[list[Any]] = []
    count: int = 0
    lines: list[bytes] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Question).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Worker:
    """The process, started when it is first needed and again after it was killed."""

    def __init__(self) -> None:
        self._running: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, so that the first question need not wait for it. If a question holds the lock, it runs already."""
        if self._lock.acquire(blocking=False):
            try:
                self._started()
            finally:
                self._lock.release()

    def ask(self, question: Question, work: Work) -> bytes:
        """Return a byte for each row. Raises Cancelled, or UsageError if the process died (of too much memory)."""
        while not self._lock.acquire(timeout=0.05):
            work.check()
        try:
            process, pipe = self._started()
            with work.ended_by(process.kill):
                try:
                    pipe.send_bytes(_encode(question))
                    return pipe.recv_bytes()
                except (OSError, EOFError):
                    self._stop()
                    work.check()
                    raise UsageError("the filter could not be evaluated: it needs too much memory") from None
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _started(self) -> "tuple[subprocess.Popen[bytes], Connection]":
        if self._running is None or self._running[0].poll() is not None:
            self._stop()
            ours, theirs = Pipe()
            with theirs:
                command = [sys.executable, "-m", "kproxy.page.filtering.worker", str(theirs.fileno())]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
            self._running = process, ours
        return self._running

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            process, pipe = running
            process.kill()
            process.wait()
            pipe.close()


class Workers:
    """Some of these processes, for questions with many rows."""

    def __init__(self, count: int = 2) -> None:
        self._workers = [Worker() for _ in range(count)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def start(self) -> None:
        """Start the processes, so that the first question need not wait for them."""
        for worker in self._workers:
            worker.start()

    def ask(self, question: Question, work: Work) -> bytes:
        worker = self._idle.get()
        try:
            return worker.ask(question, work)
        finally:
            self._idle.put(worker)

    def ask_all(self, questions: Iterable[Question], work: Work) -> Iterator[bytes]:
        """Yield the answers to these questions in order; only a few questions are taken in advance. Raises as Worker.ask."""
        with ThreadPoolExecutor(len(self._workers)) as pool:
            running: deque[Future[bytes]] = deque()
            for question in questions:
                running.append(pool.submit(self.ask, question, work))
                if len(running) > len(self._workers):
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


# In the process


def main() -> None:
    """Answer questions until the other end of the pipe is closed."""
    import resource  # noqa: PLC0415 - only here

    import cel  # noqa: PLC0415 - a tenth of a second, and only here

    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), Connection(int(sys.argv[1])) as pipe:
        while True:
            question = _decode(pipe.recv_bytes())
            pipe.send_bytes(_verdicts(cel.compile(question.condition), question))


def _verdicts(program: Any, question: Question) -> bytearray:
    import cel  # noqa: PLC0415 - as above

    context = cel.Context()  # one for all rows: a dict for each takes half as long again
    columns = [
        column if not kind else [_value(kind, value) for value in column]
        for kind, column in zip(question.kinds, question.columns, strict=True)
    ]
    verdicts, bind = bytearray(), context.add_variable
    for row in zip(*columns, strict=True) if columns else [()] * question.count:
        for name, value in zip(question.names, row, strict=False):
            bind(name, value)  # one by one: Context.update with a dict takes half as long again
        verdicts.append(_verdict(program, context))
    for line in question.lines:
        values = _values_of(line, question.names)
        verdicts.append(ERROR if values is None else _verdict_of_line(program, values))
    return verdicts


def _verdict_of_line(program: Any, values: dict[str, Any]) -> int:
    """Return the verdict on a line; a condition on ``record`` is true if it is for one of them."""
    if "record" not in values:
        return _verdict(program, values)
    found = {FALSE}
    for record in records_in(values["record"]):
        found.add(_verdict(program, values | {"record": record}))
        if TRUE in found:
            return TRUE
    return OTHER if OTHER in found else FALSE


def _verdict(program: Any, values: Any) -> int:
    try:
        result = program.execute(values)
    except (LookupError, TypeError, ArithmeticError, RuntimeError, ValueError):
        return ERROR
    return TRUE if result is True else FALSE if result is False else OTHER


def _values_of(line: bytes, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of names in a line; None if one is missing or too large."""
    fields = _split(line)
    sources = {name: MADE_OF.get(name, name) for name in names}
    if any(source not in fields or len(memoryview(fields[source])) > OPENABLE for source in sources.values()):
        return None
    values = {name: msgspec.json.decode(fields[source]) for name, source in sources.items()}
    if "errorNames" in values:
        values["errorNames"] = list(dict.fromkeys(error["name"] for error in values["errorNames"]))
    if "address" in values:
        values["address"] = address_of(values["address"])
    return values


def _value(kind: str, value: Any) -> Any:
    """Return a value of a row as the decoded log has it."""
    if kind == "time":
        return None if value is None else render_instant(value)
    if kind == "errors":
        return [{"path": "", "code": code, "name": error_name(code)} for code in value or ()]
    if kind == "errorNames":
        return [error_name(code) for code in value or ()]
    if kind == "address":
        return address_of(value)
    if kind == "trailing":
        sides = {side: size for side, size in zip(("request", "response"), value or (), strict=False) if size}
        return sides or None
    return value


if __name__ == "__main__":
    main()
