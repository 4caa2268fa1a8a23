"""Real Kafka clusters in KRaft mode: brokers started from Kafka's jars, each listener behind a gate.

A cluster has these listeners, for which Metadata gives the gate's address:

    PLAIN    PLAINTEXT
    OPEN     PLAINTEXT without a gate: the tests' own way in
    SASL     SASL_PLAINTEXT: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER with unsecured tokens (only if ``secure``)
    TLS      SSL; MUTUAL: SSL that demands a certificate; SASL_TLS: SASL_SSL (only if ``secure``)
"""

import base64
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.kafka.gates import Gates
from tests.support.kafka.jars import java, run_tool
from tests.support.kafka.processes import Service, eventually, spawn, tail
from tests.support.ports import free_ports
from tests.support.sockets import Metadata, Wire, create_topic, end_offsets, metadata

USER, PASSWORD = "alice", "alice-secret"
_HOST = "127.0.0.1"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
_DIRECTORY_IDS = {node: base64.urlsafe_b64encode(f"kproxy broker {node}!".encode()).decode()[:22] for node in range(4)}
_INNER = ("INNER", "CONTROL")
_PLAIN = {"PLAIN": "PLAINTEXT", "OPEN": "PLAINTEXT"}
SECURE = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL", "SASL_TLS": "SASL_SSL"}
_LOGIN = "org.apache.kafka.common.security"
_JAAS = {
    "plain": f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "scram-sha-256": f"{_LOGIN}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_LOGIN}.scram.ScramLoginModule required;",
    "oauthbearer": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
}
SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "12000",  # a busy machine lets a broker stand still for seconds
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "4000",
    "log.retention.ms": "-1",  # records that the tests make by hand are of long ago: 30 s after its start a broker deletes them
    "log.cleaner.dedupe.buffer.size": str(4 << 20),  # 128 MiB else, of a heap of 192
    "log.cleaner.backoff.ms": "200",
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": f"User:ANONYMOUS;User:{USER}",
}
EARLY_ACCESS = {"group.coordinator.rebalance.protocols": "classic,consumer"}  # KIP-848 before 4.0


class Broker(Service):
    """One process, broker and controller at once."""

    def __init__(self, cluster: "Cluster", node: int, first_port: int) -> None:
        self.node = node
        self.folder = cluster.folder / f"broker-{node}"
        self.folder.mkdir()
        self.ports = {name: first_port + i for i, name in enumerate((*_INNER, *cluster.protocols))}
        self.log = cluster.folder / f"broker-{node}.log"
        self._cluster = cluster

    @property
    def file(self) -> Path:
        return self.folder / "server.properties"

    def configure(self, advertised: Mapping[str, str]) -> None:
        """Write its properties; *advertised* has an address for each listener that clients use."""
        protocols = {"INNER": "PLAINTEXT", "CONTROL": "PLAINTEXT", **self._cluster.protocols}
        told = {"INNER": f"{_HOST}:{self.ports['INNER']}", **advertised}
        replicas = min(3, len(self._cluster.brokers))
        properties = {
            **SMALL,
            "process.roles": "broker,controller",
            "node.id": str(self.node),
            "controller.quorum.bootstrap.servers": self._cluster.controllers(),
            "listeners": ",".join(f"{name}://{_HOST}:{port}" for name, port in self.ports.items()),
            "advertised.listeners": ",".join(f"{name}://{where}" for name, where in told.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "controller.listener.names": "CONTROL",
            "inter.broker.listener.name": "INNER",
            "log.dirs": str(self.folder / "data"),
            **dict.fromkeys(_REPLICATED, str(replicas)),
            **dict.fromkeys(_IN_SYNC, str(max(1, replicas - 1))),
            **({} if self._cluster.release >= "4" else EARLY_ACCESS),
            **self._cluster.security,
            **self._cluster.extra,
        }
        self.file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")

    def format(self) -> None:
        """Make its storage ready."""
        words = ["format", "-t", CLUSTER_ID, "-c", str(self.file), *self._cluster.format_options()]
        run_tool(self._cluster.release, "kafka.tools.StorageTool", *words)

    def start(self) -> None:
        """Start it (again); ready when ``Cluster.wait`` says so."""
        self._process = spawn(java(self._cluster.release, self._cluster.main, str(self.file), heap="320m"), self.log)


_REPLICATED = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_IN_SYNC = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")


class Cluster:
    """A cluster of *nodes* brokers of a Kafka release, node ids from *first*."""

    def __init__(
        self,
        folder: Path,
        release: str,
        *,
        nodes: int = 1,
        first: int = 1,
        secure: bool = False,
        extra: Mapping[str, str] | None = None,
        main: str = "kafka.Kafka",
    ) -> None:
        self.main = main  # the class, or the source file, that is run
        self.folder = folder
        self.release = release
        self.protocols = {**_PLAIN, **(SECURE if secure else {})}
        self.extra = dict(extra or {})
        self.authority = Authority("brokers", folder / "pki") if secure else None
        self.security = security_properties(self.authority) if self.authority else {}
        room = len(_INNER) + len(self.protocols)
        ports = free_ports(room * nodes)
        self.brokers = {first + i: Broker(self, first + i, ports + i * room) for i in range(nodes)}
        gated = [(node, name) for node in self.brokers for name in self.protocols if name != "OPEN"]
        targets = [f"{_HOST}:{self.brokers[node].ports[name]}" for node, name in gated]
        self.gates = Gates(folder, targets)
        self.told = dict(zip(gated, (f"127.0.0.2:{port}" for port in self.gates.ports), strict=True))
        self.told |= {(node, "OPEN"): f"{_HOST}:{broker.ports['OPEN']}" for node, broker in self.brokers.items()}

    def controllers(self) -> str:
        """controller.quorum.bootstrap.servers"""
        return ",".join(f"{_HOST}:{broker.ports['CONTROL']}" for broker in self.brokers.values())

    def format_options(self) -> list[str]:
        """How the storage of each is formatted: with all controllers as voters (KIP-853) and the SCRAM user."""
        voters = [
            f"{node}@{_HOST}:{broker.ports['CONTROL']}:{_DIRECTORY_IDS[node]}" for node, broker in self.brokers.items()
        ]
        quorum = ["--standalone"] if len(voters) == 1 else ["--initial-controllers", ",".join(voters)]
        mechanisms = ("SCRAM-SHA-256", "SCRAM-SHA-512") if self.authority else ()
        scram = [("--add-scram", f"{kind}=[name={USER},password={PASSWORD}]") for kind in mechanisms]
        return [*quorum, *(word for pair in scram for word in pair)]

    def start(self) -> None:
        """Format, start and wait for all of it. Raises RuntimeError with the end of a log."""
        for node, broker in self.brokers.items():
            broker.configure({name: self.told[node, name] for name in self.protocols})
        for broker in self.brokers.values():
            broker.format()
            broker.start()
        self.wait()

    def wait(self, *, nodes: int | None = None) -> None:
        """Until the running brokers each know of *nodes* brokers, by default all."""
        wanted = len(self.brokers) if nodes is None else nodes

        def ready(broker: Broker) -> bool:
            if not broker.running:
                raise RuntimeError(f"broker {broker.node} ended: {tail(broker.log)}")
            return len(metadata(f"{_HOST}:{broker.ports['OPEN']}").brokers) == wanted

        for broker in self.brokers.values():
            if broker.running:
                eventually(lambda one=broker: ready(one), what=f"broker {broker.node} is ready")

    @property
    def open(self) -> str:
        """The tests' own bootstrap address, past every gate: of a broker that runs."""
        return next(f"{_HOST}:{broker.ports['OPEN']}" for broker in self.brokers.values() if broker.running)

    def bootstrap(self, listener: str = "PLAIN") -> list[str]:
        """The addresses that clients and the proxy are given of a listener."""
        return [self.told[node, listener] for node in self.brokers]

    def topic(self, name: str, partitions: int = 1, *, replicas: int | None = None, **configs: str) -> str:
        """Create a topic, leaders in turn from the first broker, by default a replica on every broker.

        Returns its name when the leaders lead.

        Configs are written with underscores: ``cleanup_policy="compact"``.
        """
        nodes = sorted(self.brokers)
        room = range(len(nodes) if replicas is None else replicas)
        placed = [[nodes[(i + j) % len(nodes)] for j in room] for i in range(partitions)]
        create_topic(self.open, name, placed, {key.replace("_", "."): value for key, value in configs.items()})

        def led() -> bool:
            for broker in self.brokers.values():
                if broker.running:
                    with Wire(f"{_HOST}:{broker.ports['OPEN']}") as wire:
                        if not Metadata(wire, [name]).complete(name, partitions):
                            return False
            return len(end_offsets(self.open, name)) == partitions  # a leader may not know yet that it is one

        eventually(led, what=f"{name} has leaders")
        return name

    def close(self) -> None:
        """Kill everything."""
        for broker in self.brokers.values():
            with suppress(OSError):
                broker.stop()
        self.gates.close()


def security_properties(authority: Authority) -> dict[str, str]:
    certificate, key = authority.issue_for("broker")
    keystore = authority.folder / "broker.keystore.pem"  # both in one file, as Kafka wants it
    keystore.write_bytes(key.read_bytes() + certificate.read_bytes())
    jaas = {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
        for listener in ("sasl", "sasl_tls")
        for mechanism, login in _JAAS.items()
    }
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        **jaas,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.ca,
        "listener.name.mutual.ssl.client.auth": "required",
    }
