"""Proxy: `kproxy run` in processes of its own, with a configuration that changes as the test adds and removes faults."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Self

from kproxy.config.reading import Options
from kproxy.errors import KproxyError
from kproxy.filters.faults.options import check_fault
from kproxy.proxy.environment import environment
from kproxy.proxy.supervisor.processes import supervisor_command

HOST = "127.0.0.1"
NODES = 100  # node ids that have a port
START_S, CHANGE_S, END_S, CONNECT_S = 60.0, 30.0, 5.0, 10.0  # at most
KEPT_LINES = 1_000
DRAIN_S = 0.2
SERVING, TAKEN, REFUSED = "serving", "the configuration was taken", "the configuration before stays"


class InjectedFault:
    """A fault that a test has added."""

    def __init__(self, proxy: "Proxy", name: str, options: dict[str, Any]) -> None:
        self._proxy = proxy
        self.name = name
        self.options = options

    @property
    def fired(self) -> int:
        """How often it was applied."""
        return self._proxy.fired(self.name)

    @property
    def calls(self) -> int:
        """How many requests it has selected."""
        return self._proxy.calls(self.name)

    def remove(self) -> None:
        """End it; its counts stay."""
        self._proxy.remove(self)


class Proxy:
    """A kproxy in front of a cluster, while a ``with`` block runs.

    Args:
        bootstrap: "host:port" of one or more brokers.
        workers: processes that serve clients; faults count calls over all of them.
        cluster: settings of the virtual cluster, as in the configuration: broker_tls, through ...

    Raises KproxyError if no broker is there, or if it cannot start.
    """

    def __init__(self, bootstrap: str | list[str], *, workers: int = 1, **cluster: Any) -> None:
        self._workers = workers
        brokers = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
        self._cluster = {"bootstrap": [broker.strip() for broker in brokers], **cluster}
        self._faults: list[InjectedFault] = []
        self._added: dict[str, InjectedFault] = {}
        self._names = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._log = Log()
        self._port = 0

    def __enter__(self) -> Self:
        if "through" not in self._cluster:
            check_a_broker_listens(self._cluster["bootstrap"])
        self._folder = tempfile.TemporaryDirectory(prefix="kproxy-")
        self._port = free_ports(NODES + 2)
        self._write()
        words, fd = supervisor_command(Options(file=str(self._file), until_input_ends=True))
        try:
            self._process = subprocess.Popen(  # it ends with its input, also if this process is killed
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[fd],
                env=environment(),
                process_group=0,  # Ctrl-C is for the tests, which end it
            )
        finally:
            os.close(fd)
        assert self._process.stderr is not None
        self._log.follow(self._process.stderr)
        try:
            self._log.until(SERVING, since=0, seconds=START_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """The address to which clients connect."""
        return f"{HOST}:{self._port}"

    @property
    def faults(self) -> Mapping[str, InjectedFault]:
        """The faults by name, with those that have ended: ``proxy.faults["slow"].fired``."""
        return MappingProxyType(self._added)

    def fault(self, scenario: str | None = None, **options: Any) -> InjectedFault:
        """Add a fault; it is in use when this returns. Raises UsageError for options that are none."""
        if scenario is not None:
            options = {"scenario": scenario, **options}
        named = options.get("name")
        if named is None:
            self._names += 1
            named = f"{scenario or options.get('api', 'fault')} {self._names}"
        options = {**options, "name": named}
        check_fault(options, str(named))
        if any(fault.name == named for fault in self._faults):
            raise KproxyError(f"there is a fault {named!r} already")
        added = InjectedFault(self, str(named), options)
        self._use([*self._faults, added])
        self._added[added.name] = added
        return added

    def remove(self, fault: InjectedFault) -> None:
        """End a fault; its counts stay."""
        self._use([each for each in self._faults if each is not fault])

    def clear(self) -> None:
        """End all faults; their counts stay."""
        self._use([])

    def fired(self, name: str | None = None) -> int:
        """Return how often the fault of that name was applied; without a name, all faults together."""
        return self._count("fired", name)

    def calls(self, name: str | None = None) -> int:
        """Return how many requests the fault of that name has selected; without a name, all faults together."""
        return self._count("calls", name)

    def log(self) -> list[str]:
        """The last lines that the proxy has logged."""
        return self._log.lines()

    def wait_for(self, event: str, seconds: float) -> None:
        """Wait until the proxy has logged an event. Raises KproxyError if it ends, or after so many seconds."""
        self._log.until(event, since=0, seconds=seconds)

    def check_running(self) -> None:
        """Raise KproxyError if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise KproxyError(f"kproxy run has ended: {self._log.last_lines()}")

    def configuration(self) -> dict[str, Any]:
        """Return the configuration that it runs with now: of the cluster, and with the faults."""
        used = {"use": "faults", "with": {"faults": [fault.options for fault in self._faults]}}
        filters = [*self._cluster.get("filters", []), used]
        addresses = {"mode": "port", "first_port": self._port + 2}
        return {
            "clusters": [{"listen": self.bootstrap, "addresses": addresses, **self._cluster, "filters": filters}],
            "workers": self._workers,
            "admin": f"{HOST}:{self._port + 1}",
            "analysis": {"enabled": False},
            "timeouts": {"drain": DRAIN_S},
            "logs": "json",
        }

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdin is not None
            process.stdin.close()
            self._log.end()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    @property
    def _file(self) -> Path:
        assert self._folder is not None, "the proxy has ended, or was not started"
        return Path(self._folder.name) / "kproxy.yaml"

    def _use(self, faults: list[InjectedFault]) -> None:
        assert self._process is not None, "the proxy has ended, or was not started"
        before, self._faults = self._faults, faults
        self._write()
        since = self._log.count
        self._process.send_signal(signal.SIGHUP)
        try:
            since = self._log.until("reading the configuration again", since=since, seconds=CHANGE_S)
            self._log.until(TAKEN, since=since, seconds=CHANGE_S, unless=REFUSED)
        except KproxyError:
            self._faults = before
            raise

    def _write(self) -> None:
        """Write the configuration in one step; JSON is YAML."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self.configuration()), encoding="utf-8")
        fresh.replace(self._file)

    def _count(self, event: str, name: str | None) -> int:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(f"http://{HOST}:{self._port + 1}/filters", timeout=CHANGE_S) as answer:
            rows = json.load(answer)["counts"]
        matching = [row for row in rows if (row["filter"], row["event"]) == ("faults", event)]
        if name is None:
            return sum(row["count"] for row in matching)
        if all(row["name"] != name for row in matching):
            raise KproxyError(
                f"there is no fault {name!r}; there are {', '.join(row['name'] for row in matching) or 'none'}"
            )
        return sum(row["count"] for row in matching if row["name"] == name)


class Log:
    """The log lines of the proxy, read by a thread."""

    def __init__(self) -> None:
        self.count = 0  # lines so far
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._changed = threading.Condition()
        self._ended = False
        self._thread: threading.Thread | None = None

    def follow(self, stream: IO[str]) -> None:
        """Read a stream to its end, in a thread."""
        self._thread = threading.Thread(target=self._read, args=(stream,), name="kproxy-log", daemon=True)
        self._thread.start()

    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def last_lines(self) -> str:
        """The last five lines, as one text."""
        return "".join(list(self._lines)[-5:]).strip() or "it logged nothing"

    def until(self, event: str, since: int, seconds: float, unless: str = "") -> int:
        """Wait for an event behind the first *since* lines; return how many lines there are up to it.

        Raises KproxyError if the proxy ends, if *unless* is logged instead, or after so many seconds.
        """
        hits: list[int] = []
        with self._changed:
            self._changed.wait_for(lambda: self._has(event, unless, since, hits) or self._ended, seconds)
            if not hits or hits[0] < 0:
                raise KproxyError(f"kproxy did not say {event!r} within {seconds:g} s: {self.last_lines()}")
            return hits[0]

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join(END_S)

    def _has(self, event: str, unless: str, since: int, hits: list[int]) -> bool:
        first = self.count - len(self._lines)
        for number, line in enumerate(self._lines, first + 1):
            if number <= since:
                continue
            name = _event_of(line)
            if name in (event, unless):
                hits.append(number if name == event else -1)
                return True
        return False

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line)
                    self.count += 1
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def check_a_broker_listens(addresses: Sequence[str]) -> None:
    """Raise KproxyError, one sentence, if there is none at any of the addresses."""
    reasons = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S):
                return
        except (OSError, ValueError) as error:
            reasons.append(
                f"{address}: {error.strerror or error}" if isinstance(error, OSError) else f"{address}: no port"
            )
    raise KproxyError(f"no Kafka broker is at {'; '.join(reasons)}: start one before the test, or give its address")


def free_ports(count: int) -> int:
    """Find *count* consecutive ports that are free, and return the first. Raises KproxyError when there are none."""
    for _ in range(100):
        first = random.SystemRandom().randrange(20_000, 32_000 - count)  # below what the kernel gives to clients
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind((HOST, port))
            return first
    raise KproxyError(f"no {count} consecutive free ports were found")


def _event_of(line: str) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return ""
    return str(event.get("event")) if isinstance(event, dict) else ""
