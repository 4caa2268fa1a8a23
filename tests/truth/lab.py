"""Lab: what a workload is written with.

    @workload("One member of a group is killed.", healthy=False)
    def member_killed(lab):
        lab.topic("orders", 4)
        lab.produce("shop", "orders", rate=20)
        stays, goes = (lab.consume(f"billing-{n}", "orders", group="billing", session_timeout_ms=6000) for n in (1, 2))
        lab.wait(5)
        killed = goes.kill()
        lab.wait(10)
        lab.expect("rebalances", at=killed + 6, within=3, group_id="billing", cause="session timeout")

Each client runs on a host of its own, named like its client id, unless ``host`` says otherwise.
"""

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support.kafka.brokers import PASSWORD, USER
from tests.support.kafka.jars import NEWEST, close_tools, folder_of, java
from tests.support.kafka.processes import eventually, spawn, stop
from tests.truth.brokers import ALL_PORTS, CLIENTS_PORTS, OTHER_PASSWORD, OTHER_USER, Broker, Cluster, cluster_id
from tests.truth.draws import Draws
from tests.truth.manifest import Action, ClientReport, Manifest, Truth
from tests.truth.network import Network

PATIENCE = 15  # seconds that a client has to close
SOURCES = Path(__file__).parent
GO_LIBRARIES = ("franz-go", "sarama")
OUR_JAVA = ("Client.java", "Modern.java")


@dataclass(frozen=True)
class Workload:
    """A function that uses a Lab, and what it needs."""

    name: str
    about: str
    run: Callable[..., None]
    healthy: bool
    release: str
    nodes: int
    secure: bool
    whole: bool  # traffic between brokers is captured, too
    way: str  # dst, src: the direction that is captured, seen from the clients; empty for both
    snap: int  # bytes of each packet that are captured; 0 for all
    settings: dict[str, str]


WORKLOADS: dict[str, Workload] = {}


def workload(
    about: str,
    *,
    healthy: bool = False,
    release: str = NEWEST,
    nodes: int = 1,
    secure: bool = False,
    whole: bool = False,
    way: str = "",
    snap: int = 0,
    variants: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    **settings: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a workload; *settings* are the brokers', with underscores.

    *variants* are more workloads of the same function: the end of the name, and what it is called with. ``release`` of a variant
    is that of its brokers, too; ``way`` and ``snap`` of a variant are its capture's.
    """

    def add(run: Callable[..., None]) -> Callable[..., None]:
        base = run.__name__.replace("_", "-")
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        for suffix, words in {"": {}, **variants}.items():
            options = dict(words)
            of_brokers = options.pop("release", release)
            captured = options.pop("way", way), options.pop("snap", snap)
            name = f"{base}-{suffix}" if suffix else base
            WORKLOADS[name] = Workload(
                name, about, partial(run, **options), healthy, of_brokers, nodes, secure, whole, *captured, dotted
            )
        return run

    return add


@dataclass
class Client:
    """A client's process. Methods that do something return when (Unix seconds)."""

    lab: "Lab"
    client_id: str
    library: str
    role: str
    command: list[str]
    settings: dict[str, Any]
    log: Path
    started: float = 0.0  # when it was started last; Java's: when the JVM was there and its program began
    _process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> float:
        """Start it, again if it has ended."""
        self.started = self.lab.note(f"{self.client_id} ({self.library}) starts to {self.role}")
        begun = len(self.events("began")) if self.log.exists() else 0
        self._process = spawn(self.command, self.log, environment={"SSLKEYLOGFILE": str(self.lab.secrets)})
        if any(word.endswith(OUR_JAVA) for word in self.command):
            eventually(lambda: len(self.events("began")) > begun or not self.running, what=f"{self.client_id} begins")
            self.started = time.time()
        return self.started

    def stop(self) -> float:
        """End it as one should: it flushes, leaves its group and closes."""
        at = self.lab.note(f"{self.client_id} is asked to end")
        stop(self._process, patience=PATIENCE)
        return at

    def kill(self) -> float:
        """End it at once."""
        at = self.lab.note(f"{self.client_id} is killed")
        stop(self._process)
        return at

    def restart(self) -> float:
        self.stop()
        return self.start()

    def freeze(self, seconds: float) -> float:
        """Have it stand still for so long."""
        at = self.lab.note(f"{self.client_id} stands still for {seconds:g} s")
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)
        return at

    def finish(self) -> float:
        """Wait until it has done what it had to do; returns when."""
        self._process.wait(60)
        return time.time()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """What it wrote so far: all, or the events of one name."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith('{"at"')]
        return [event for event in map(json.loads, lines) if name in {"", event["event"]}]

    def event(self, name: str) -> float:
        """When it first wrote of an event."""
        return float(self.events(name)[0]["at"])

    def report(self) -> ClientReport:
        reported: dict[str, Any] = {}
        for event in self.events("ended"):
            counts = {key: value for key, value in event.items() if key not in {"at", "event"}}
            reported |= {key: reported.get(key, 0) + value for key, value in counts.items()}
        errors = sorted({event["name"] for event in self.events("error")})
        return ClientReport(
            self.client_id, self.library, self.role, self.settings, reported | ({"errors": errors} if errors else {})
        )


class Lab:
    """A running workload."""

    def __init__(self, draws: Draws, folder: Path, network: Network, cluster: Cluster) -> None:
        self.draws, self.folder, self.network, self.cluster = draws, folder, network, cluster
        self.work = draws.work
        self.secrets = folder / "secrets.txt"
        self.clients: list[Client] = []
        self.actions: list[Action] = []
        self.truths: list[Truth] = []
        self.jump: tuple[float, float] | None = None
        self.hole: tuple[float, float] | None = None
        self.schemas: dict[str, str] = {}  # files of schemas by name; with them, contents of records are asked for
        self.records = False  # contents of records are asked for
        self.work_began = time.time()
        self.cut_short = False  # whether the capture ends while clients still work

    # -- what happens

    def topic(self, name: str, partitions: int = 1, *, replicas: int | None = None, **configs: str) -> str:
        """Create a topic past the capture; *configs* with underscores."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        partitions = self.draws.partitions(name, partitions)
        self.cluster.topic(name, partitions, replicas or len(self.cluster.brokers), dotted)
        return name

    def produce(self, client_id: str, topic: str, **options: Any) -> Client:
        """Start a producer; options are those of client.py and of ``client``, all others settings of the library."""
        return self.client(client_id, "produce", topic=topic, **options)

    def consume(self, client_id: str, topic: str, **options: Any) -> Client:
        return self.client(client_id, "consume", topic=topic, **options)

    def admin(self, client_id: str, *do: str, **options: Any) -> Client:
        """Start an admin client that does these ("create orders 3"), and wait until it has."""
        client = self.client(client_id, "admin", do=[words.split() for words in do], **options)
        client.finish()
        return client

    def client(self, client_id: str, role: str, **options: Any) -> Client:
        """Start a client; what *options* leave open may be drawn."""
        time.sleep(self.draws.pause())
        drawn = self.draws.client(client_id, role, options)
        if role != "consume" and "acks" not in options and drawn.get("library") != options.get("library"):
            self.allow("acks_below_all", client_id=client_id)  # the default of several libraries
        if drawn.get("rate") != options.get("rate"):
            self.allow("tiny_batches", client_id=client_id)  # it holds from a rate on
        return self._client(client_id, role, **drawn)

    def _client(
        self,
        client_id: str,
        role: str,
        *,
        library: str = "librdkafka",
        release: str = NEWEST,
        listener: str = "PLAIN",
        speaks: str = "",
        mechanism: str = "PLAIN",
        user: str = USER,
        password: str = "",
        host: str = "",
        bootstrap: str = "",
        **options: Any,
    ) -> Client:
        """Start a client. *release*: of Java's; *speaks*: the protocol that it believes the listener has."""
        job = {key: options.pop(key) for key in list(options) if key in _OPTIONS}
        job |= {"library": library, "role": role, "client_id": client_id, "settings": options}
        job["bootstrap"] = bootstrap or self.cluster.bootstrap(listener)
        login = user, password or {USER: PASSWORD, OTHER_USER: OTHER_PASSWORD}[user]
        protocol = speaks or _PROTOCOLS[listener]
        job["settings"] = {**_SECURITY[library](protocol, mechanism, *login, self._ca()), **options}
        return self.program(client_id, role, library, _command(library, release, job), host=host, **options)

    def program(
        self, client_id: str, role: str, library: str, command: Sequence[str], *, host: str = "", **settings: Any
    ) -> Client:
        """Start any program as a client; *settings* are what the manifest says of it."""
        words = [*self.network.inside(host or client_id), *command]
        log = self.folder / f"{len(self.clients)}-{client_id}.log"  # programs may share a client id
        client = Client(self, client_id, library, role, words, settings, log)
        self.clients.append(client)
        return client

    def properties(self, name: str, text: str) -> str:
        """Write a file of properties for a program; returns its path."""
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return str(file)

    def _ca(self) -> str:
        return self.cluster.authority.ca if self.cluster.authority else ""

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        time.sleep(self.draws.wait(seconds))

    def kill_broker(self, node: int) -> float:
        at = self.note(f"broker {node} is killed")
        self.cluster.brokers[node].stop()
        return at

    def stop_broker(self, node: int) -> float:
        """Have it move its leaders and end."""
        at = self.note(f"broker {node} is asked to end")
        self.cluster.brokers[node].stop(patience=30)
        return at

    def start_broker(self, node: int) -> float:
        """Start it and wait until it is there."""
        self.cluster.brokers[node].start()
        self.cluster.wait()
        return self.note(f"broker {node} is back")

    def freeze_broker(self, node: int, seconds: float) -> float:
        """Have a broker stand still for so long."""
        broker: Broker = self.cluster.brokers[node]
        at = self.note(f"broker {node} stands still for {seconds:g} s")
        broker.freeze()
        time.sleep(seconds)
        broker.thaw()
        return at

    def starve_broker(self, node: int, seconds: float) -> float:
        """Give a broker a fifth of its processor for so long."""
        broker: Broker = self.cluster.brokers[node]
        at = self.note(f"broker {node} gets a fifth of its processor for {seconds:g} s")
        while time.time() < at + seconds:
            broker.freeze()
            time.sleep(1.6)
            broker.thaw()
            time.sleep(0.4)
        return at

    def cut_off(self, host: str, seconds: float) -> float:
        """Cut a host off the network for so long."""
        at = self.note(f"the network of {host} is cut for {seconds:g} s")
        with self.network.cut(host):
            time.sleep(seconds)
        return at

    def set_capture_clock(self, seconds: float) -> float:
        """Have the clock of the capturing host go forward so much, or back."""
        at = self.note(f"the capture's clock is set by {seconds:+g} s")
        self.jump = at, seconds
        return at

    def begin_capture(self) -> float:
        """Have the capture begin only now."""
        at = self.note("the capture begins")
        self.hole = self.work_began - 60, at
        return at

    def tool(self, main: str, *words: str) -> str:
        """Run a program of Kafka's on the host ``admin``."""
        self.note(f"{main} {' '.join(words)}")
        return self.cluster.tool(main, *words)

    def post(self, where: str, connector: Mapping[str, str]) -> None:
        """Create a connector by the REST interface of a worker, when the worker has it."""
        body = json.dumps({"name": connector["name"], "config": dict(connector)}).encode()
        asked = urllib.request.Request(where, body, {"Content-Type": "application/json"})
        eventually(lambda: urllib.request.urlopen(asked, timeout=20).status == 201, what=where, patience=90, pause=1)
        self.note(f"connector {connector['name']} is created")

    def note(self, what: str) -> float:
        """Write down that something is done now."""
        at = time.time()
        self.actions.append(Action(at, what))
        return at

    # -- what is true

    def expect(
        self, analysis: str, *, at: float | None = None, within: float = 1.0, times: int = 1, **row: Any
    ) -> None:
        """The analysis has to have such a row."""
        self.truths.append(Truth(analysis, row, at, within, times=times))

    def allow(self, analysis: str, *, at: float | None = None, within: float = 1.0, **row: Any) -> None:
        """The analysis may have such rows: what they say is true, but not what the workload is about."""
        self.truths.append(Truth(analysis, row, at, within, must=False))

    def never(self, analysis: str, **row: Any) -> None:
        """The analysis may not have such a row, although it has others."""
        self.truths.append(Truth(analysis, row, must=False, never=True))


_OPTIONS = re.findall(
    r"\w+",
    "topic rate count size keys partition batch hold abort flush group pause commit do poison retries shift renew daily to "
    "corrupt assign rest hot schema_id bad noise answer ends",
)
_PROTOCOLS = {"PLAIN": "PLAINTEXT", "SASL": "SASL_PLAINTEXT", "TLS": "SSL", "SASL_TLS": "SASL_SSL"}


def _rdkafka_security(protocol: str, mechanism: str, user: str, password: str, ca: str) -> dict[str, Any]:
    words = {} if protocol == "PLAINTEXT" else {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        words |= {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}
    if protocol.endswith("SSL"):
        words |= {"ssl_ca_location": ca, "ssl_endpoint_identification_algorithm": "none"}
    return words


def _python_security(protocol: str, mechanism: str, user: str, password: str, ca: str) -> dict[str, Any]:
    words: dict[str, Any] = {} if protocol == "PLAINTEXT" else {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        words |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    if protocol.endswith("SSL"):
        words |= {"ssl_cafile": ca}
    return words


def _kafka_python_security(protocol: str, mechanism: str, user: str, password: str, ca: str) -> dict[str, Any]:
    words = _python_security(protocol, mechanism, user, password, ca)
    return {**words, "ssl_check_hostname": False} if ca else words


def _java_security(protocol: str, mechanism: str, user: str, password: str, ca: str) -> dict[str, Any]:
    words = {} if protocol == "PLAINTEXT" else {"security_protocol": protocol}
    if protocol.startswith("SASL"):
        module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        login = f'org.apache.kafka.common.security.{module} required username="{user}" password="{password}";'
        words |= {"sasl_mechanism": mechanism, "sasl_jaas_config": login}
    if protocol.endswith("SSL"):
        words |= {
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": ca,
            "ssl_endpoint_identification_algorithm": "",
        }
    return words


def _no_security(*_: str) -> dict[str, Any]:
    return {}


_SECURITY: dict[str, Callable[[str, str, str, str, str], dict[str, Any]]] = {
    "librdkafka": _rdkafka_security,
    "kafka-python": _kafka_python_security,
    "aiokafka": _python_security,
    "java": _java_security,
    "franz-go": _no_security,
    "sarama": _no_security,
    "home-made": _no_security,
}


def _command(library: str, release: str, job: dict[str, Any]) -> list[str]:
    if library not in {"java", *GO_LIBRARIES}:
        return [sys.executable, "-m", "tests.truth.client", json.dumps(job)]
    words = [f"{key}={value}" for key, value in job.items() if key not in {"settings", "library"}]
    settings = [f".{key.replace('_', '.')}={value}" for key, value in job["settings"].items()]
    if library in GO_LIBRARIES:
        return [str(go_client()), f"library={library}", *words, *settings]
    source = "Modern.java" if job["role"] in {"share", "transfer"} else "Client.java"
    return java(release, str(SOURCES / source), *words, *settings, heap="128m")


@cache
def go_client() -> Path:
    """The program of go/, built once."""
    program = folder_of("go") / "client"
    words = ["go", "build", "-o", str(program), "."]
    subprocess.run(words, cwd=SOURCES / "go", check=True, timeout=600, stdin=subprocess.DEVNULL)
    return program


@contextmanager
def _lab(draws: Draws, folder: Path) -> Iterator[Lab]:
    work = draws.work
    with (
        closing(Network(list(WORKLOADS).index(work.name))) as network,
        closing(
            Cluster(folder, work.name, network, work.release, work.nodes, secure=work.secure, extra=work.settings)
        ) as cluster,
    ):
        cluster.start()
        yield Lab(draws, folder, network, cluster)


def make(work: Workload, output: Path, seed: int | None = None) -> Manifest:
    """Run a workload, with *seed* a drawn one; write its capture and manifest to a folder."""
    draws = Draws(seed, work)
    work = draws.work
    with tempfile.TemporaryDirectory(prefix="kproxy-truth-") as name, _lab(draws, Path(name)) as lab:
        ports = ALL_PORTS if work.whole else CLIENTS_PORTS
        capture = lab.network.capture(output / f"{work.name}.pcapng.gz", ports, way=work.way, snap=work.snap)
        began = time.time()
        try:
            work.run(lab)
            if lab.cut_short:
                capture.end()
            for client in lab.clients:
                if client.running:
                    client.stop()
        finally:
            for client in lab.clients:
                if client.running:
                    client.kill()
            capture.close(lab.secrets if lab.secrets.exists() else None, lab.jump, lab.hole)
        clients = [client.report() for client in lab.clients]
        known = cluster_id(work.name) if lab.cluster.kraft else ""
        about = work.name, work.about, known, work.release, work.nodes, work.healthy
        ended = time.time() + max(0, lab.jump[1] if lab.jump else 0)
        began += min(0, lab.jump[1] if lab.jump else 0)
        manifest = Manifest(*about, began, ended, clients, lab.actions, lab.truths, lab.records, lab.schemas)
        manifest.seed, manifest.draws = seed, draws.made
        manifest.write(output / f"{work.name}.json")
    close_tools()
    return manifest
