"""Clusters whose brokers stand on hosts of a Network: KRaft from 3.0 on, ZooKeeper before.

Each broker has these listeners: PLAIN on port 9092, and if *secure* SASL on 9094, TLS on 9095 and SASL_TLS on 9096, which are
captured; OPEN on 9090, the lab's own way in, INNER on 9091 and CONTROL on 9089, which are captured only if a workload wants it.
"""

import base64
import hashlib
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.kafka.brokers import EARLY_ACCESS, PASSWORD, SECURE, SMALL, USER, security_properties
from tests.support.kafka.jars import fetch, folder_of, java, run_tool
from tests.support.kafka.processes import Service, eventually, spawn, stop, tail
from tests.support.sockets import Metadata, Wire, create_topic, metadata
from tests.truth.network import Network

PORTS = {"CONTROL": 9089, "OPEN": 9090, "INNER": 9091, "PLAIN": 9092, "SASL": 9094, "TLS": 9095, "SASL_TLS": 9096}
CLIENTS_PORTS, ALL_PORTS = "9092-9096", "9089-9096"
OTHER_USER, OTHER_PASSWORD = "bob", "bob-secret"  # who is no super user
SCALA_211 = ("0.8.2.2", "0.11.0.3")
_KAFKA, _LOGGING = "org.apache.kafka", ("org.slf4j", "slf4j-simple", "1.7.36")
_XML = ("javax.xml.bind", "jaxb-api", "2.3.1")  # was part of Java in the time of 0.11
_REFLECTING = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch")]
_AS_DELIVERED = ("group.", "log.retention.ms", "authorizer.class.name")  # of SMALL: what clients would notice
_PLAIN_LOGIN = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}" '
    f'user_{OTHER_USER}="{OTHER_PASSWORD}";'
)


def fetch_jars(release: str) -> None:
    """Have the jars of a release that the other tests do not use."""
    if release < "3" and not folder_of(release).is_dir():
        scala = "2.11" if release in SCALA_211 else "2.13"
        fetch(folder_of(release), [(_KAFKA, f"kafka_{scala}", release), _LOGGING, _XML])


class Broker(Service):
    """One process."""

    def __init__(self, cluster: "Cluster", node: int) -> None:
        self.node, self.host = node, f"broker-{node}"
        self.folder = cluster.folder / self.host
        self.folder.mkdir()
        self.log = cluster.folder / f"{self.host}.log"
        self._cluster = cluster

    @property
    def file(self) -> Path:
        return self.folder / "server.properties"

    def where(self, listener: str) -> str:
        return f"{self._cluster.network.address(self.host)}:{PORTS[listener]}"

    def start(self) -> None:
        withdrawn = (
            self.folder.parent / "withdrawn.security"
        )  # versions of TLS that Java of today leaves out by default
        withdrawn.write_text("jdk.tls.disabledAlgorithms=\n", encoding="utf-8")
        options = [*_REFLECTING, *([f"-Djava.security.properties={withdrawn}"] if self._cluster.old_tls else [])]
        command = java(self._cluster.release, "kafka.Kafka", str(self.file), heap="400m", options=options)
        self._process = spawn([*self._cluster.network.inside(self.host), *command], self.log)

    def freeze(self) -> None:
        """Have it stand still."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)


class Cluster:
    """*nodes* brokers of a release; *extra* are settings of all of them."""

    def __init__(
        self,
        folder: Path,
        name: str,
        network: Network,
        release: str,
        nodes: int,
        *,
        secure: bool,
        extra: Mapping[str, str],
    ) -> None:
        fetch_jars(release)
        self.folder, self.name, self.network, self.release = folder, name, network, release
        self.kraft = release >= "3"
        self.old_tls = "TLSv1," in extra.get("ssl.enabled.protocols", "")
        self.first = release == SCALA_211[0]  # one listener, and no groups
        self.listeners = [*(("CONTROL",) if self.kraft else ()), "INNER", "OPEN", "PLAIN", *(SECURE if secure else ())]
        if secure:
            self.listeners.remove("MUTUAL")
        self.authority = Authority("brokers", folder / "pki") if secure else None
        self.brokers = {node: Broker(self, node) for node in range(1, nodes + 1)}
        self._keeper: subprocess.Popen[bytes] | None = None
        for broker in self.brokers.values():
            settings = {**self._settings(broker), **extra}
            broker.file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")

    def _settings(self, broker: Broker) -> dict[str, str]:
        if self.first:
            host, _, port = broker.where("PLAIN").rpartition(":")
            plain = {"broker.id": str(broker.node), "host.name": host, "port": port}
            return {**plain, "log.dirs": str(broker.folder / "data"), "zookeeper.connect": self._zookeeper()}
        replicas = str(min(3, len(self.brokers)))
        protocols = {name: SECURE.get(name, "PLAINTEXT") for name in self.listeners}
        settings = {
            **{key: value for key, value in SMALL.items() if not key.startswith(_AS_DELIVERED)},
            "listeners": ",".join(f"{name}://{broker.where(name)}" for name in self.listeners),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "inter.broker.listener.name": "INNER",
            "log.dirs": str(broker.folder / "data"),
            "broker.rack": f"rack-{broker.node}",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            "transaction.state.log.min.isr": str(max(1, int(replicas) - 1)),
            "share.coordinator.state.topic.min.isr": str(max(1, int(replicas) - 1)),
        }
        if self.authority:
            settings |= security_properties(self.authority)
            settings |= {f"listener.name.{name}.plain.sasl.jaas.config": _PLAIN_LOGIN for name in ("sasl", "sasl_tls")}
        if not self.kraft:
            return {**settings, "broker.id": str(broker.node), "zookeeper.connect": self._zookeeper()}
        return {
            **settings,
            "authorizer.class.name": SMALL["authorizer.class.name"],
            "process.roles": "broker,controller",
            "node.id": str(broker.node),
            "controller.listener.names": "CONTROL",
            "controller.quorum.voters": ",".join(f"{n}@{each.where('CONTROL')}" for n, each in self.brokers.items()),
            **({} if self.release >= "4" else EARLY_ACCESS),
        }

    def _zookeeper(self) -> str:
        return f"{self.network.address('zookeeper')}:2181"

    def start(self) -> None:
        """Start all of it and wait until clients can work."""
        if self.kraft:
            for broker in self.brokers.values():
                words = ["format", "-t", cluster_id(self.name), "-c", str(broker.file)]
                for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512") if self.authority else ():
                    words += ["--add-scram", f"{kind}=[name={USER},password={PASSWORD}]"]
                run_tool(self.release, "kafka.tools.StorageTool", *words)
        else:
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            command = java(self.release, main, "2181", str(self.folder / "zookeeper"), heap="96m")
            self._keeper = spawn([*self.network.inside("zookeeper"), *command], self.folder / "zookeeper.log")
        for broker in self.brokers.values():
            broker.start()
        self.wait()

    def wait(self) -> None:
        """Until each running broker knows of all running ones."""
        running = [broker for broker in self.brokers.values() if broker.running]

        def ready(broker: Broker) -> bool:
            if not broker.running:
                raise RuntimeError(f"{broker.host} ended: {tail(broker.log)}")
            if self.first:
                Wire(broker.where("PLAIN"), patience=1).close()
                return True
            return len(metadata(broker.where("OPEN")).brokers) == len(running)

        for broker in running:
            eventually(lambda one=broker: ready(one), what=f"{broker.host} is ready", patience=240)

    @property
    def open(self) -> str:
        """The lab's own way in, to a broker that runs."""
        return next(broker.where("OPEN") for broker in self.brokers.values() if broker.running)

    def _controller(self) -> str:
        """The lab's way in to the broker that creates topics where there is no KRaft."""
        return self.brokers[metadata(self.open).controller].where("OPEN")

    def topic(self, name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        """Create a topic, leaders in turn from the first broker, and wait for its leaders."""
        if self.release < "2":
            settings = [word for key, value in configs.items() for word in ("--config", f"{key}={value}")]
            shape = ["--partitions", str(partitions), "--replication-factor", str(replicas)]
            words = ["--create", "--topic", name, *shape, *settings]
            self.tool("kafka.admin.TopicCommand", "--zookeeper", self._zookeeper(), *words)
            return
        nodes = sorted(self.brokers)
        placed = [[nodes[(i + j) % len(nodes)] for j in range(replicas)] for i in range(partitions)]
        create_topic(self.open if self.kraft else self._controller(), name, placed, configs)

        def led() -> bool:
            for broker in self.brokers.values():
                if broker.running:
                    with Wire(broker.where("OPEN")) as wire:
                        if not Metadata(wire, [name]).complete(name, partitions):
                            return False
            return True

        eventually(led, what=f"{name} has leaders")

    def tool(self, main: str, *words: str) -> str:
        """Run one of the release's own programs on the host ``admin``; what it printed."""
        command = [*self.network.inside("admin"), *java(self.release, main, *words, options=_REFLECTING)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise RuntimeError(f"{main} {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def bootstrap(self, listener: str) -> str:
        return ",".join(broker.where(listener) for broker in self.brokers.values())

    def close(self) -> None:
        for broker in self.brokers.values():
            if broker.running:
                broker.thaw()
            broker.stop()
        if self._keeper is not None:
            stop(self._keeper)


def cluster_id(name: str) -> str:
    """The id of the cluster of a workload, which brokers in KRaft mode are given. It never looks like an option."""
    known = base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16])
    return known.decode().rstrip("=").replace("-", "_")
