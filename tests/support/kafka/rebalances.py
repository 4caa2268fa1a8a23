"""Groups of real clients, disturbed on purpose and captured: `python -m tests.support.kafka.rebalances FOLDER [DISTURBANCE ...]`.

The captures in tests/analyses/rebalances are made so, without packets that only acknowledge (``tshark -Y 'tcp.len>0 or
tcp.flags.syn==1 or tcp.flags.fin==1 or tcp.flags.reset==1' -F pcap``), and packed with ``zstd -22``.
For each disturbance, one capture with a group of three members for each kind of client. The groups are named after the kind,
the topics after the groups; the members' client ids are the group's name and a number. What was done is done to the last member
(``rolling``: to one after the other; ``coordinator``: to the broker), at the time that ``record`` returns. With ``newer-`` before
its name, a disturbance is that of share and streams groups.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewPartitions

from kproxy.protocol import message
from kproxy.protocol.structs import struct_types
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import eventually, spawn, stop
from tests.support.kafka.wire import Wire, metadata

HERE = Path(__file__).parent
JAVA = {"fetch.max.wait.ms": "5000", "metadata.max.age.ms": "4000"}  # few requests beside those of the groups
LIBRDKAFKA = {"fetch.wait.max.ms": "5000", "topic.metadata.refresh.interval.ms": "4000"}
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
KINDS: dict[str, tuple[str, dict[str, str]]] = {  # group -> program, settings
    "java-classic": ("java", {"group.protocol": "classic", **JAVA}),
    "java-cooperative": (
        "java",
        {"group.protocol": "classic", "partition.assignment.strategy": COOPERATIVE, **JAVA},
    ),
    "java-consumer": ("java", {"group.protocol": "consumer", **JAVA}),
    "librdkafka-classic": ("librdkafka", {"group.protocol": "classic", **LIBRDKAFKA}),
    "librdkafka-consumer": ("librdkafka", {"group.protocol": "consumer", **LIBRDKAFKA}),
    "kafka-python-classic": ("kafka-python", JAVA),
}
NEWER_KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "java-share": ("share", JAVA),
    "java-streams": ("streams", {"group.protocol": "streams", "num.stream.threads": "1", **JAVA}),
}
NEWER, NEWER_DISTURBANCES = (
    "newer-",
    ("newer-kill", "newer-sigterm", "newer-pause", "newer-rolling", "newer-partitions"),
)
PROGRAMS = {"java": "Member.java", "share": "ShareMember.java", "streams": "StreamsMember.java"}
DISTURBANCES = ("kill", "sigterm", "pause", "rolling", "partitions", "static", "cut", "coordinator")
MEMBERS = 3
PARTITIONS = 6
SESSION_MS, MAX_POLL_MS = 6_000, 8_000
LONG_SESSION_MS = 30_000  # in which a static member comes back, however slowly its process starts
SHARED = {
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": "2000",
    "max.poll.interval.ms": str(MAX_POLL_MS),
}
HEARTBEAT = {"heartbeat.interval.ms": "1000"}
BROKER = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "leader.imbalance.check.interval.seconds": "3600",  # the coordinator moves when it is told to
}
NEWER_BROKER = {
    f"group.{kind}.{name}": value
    for kind in ("share", "streams")
    for name, value in {
        "min.session.timeout.ms": "1000",
        "session.timeout.ms": str(SESSION_MS),
        "min.heartbeat.interval.ms": "500",
        "heartbeat.interval.ms": "1000",
    }.items()
}
OFFSETS_PARTITIONS = 4  # of __consumer_offsets, as in tests.support.kafka.brokers
PATIENCE = 150


@dataclass
class Member:
    """One process. ``counts`` has the numbers of partitions that it has had."""

    process: subprocess.Popen[bytes]
    counts: list[int] = field(default_factory=list)

    def read(self) -> None:
        """Read what it prints, in a thread of its own."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.counts.append(int(line))

    def pause(self, ms: int) -> None:
        """Have it not poll for so long."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"pause {ms}\n".encode())
        self.process.stdin.flush()

    @property
    def has(self) -> int:
        return self.counts[-1] if self.counts else 0


class Group:
    """Three members of one kind."""

    def __init__(self, cluster: Cluster, name: str, *, static: bool, apart: bool) -> None:
        self.kind, self.cluster, self.static = (KINDS | NEWER_KINDS)[name.partition(".")[0]], cluster, static
        self.name = self.topic = name
        self.apart = apart  # the last member comes through the gate, which can be frozen
        self.partitions = PARTITIONS
        self.members: dict[int, Member] = {}

    def start(self, number: int) -> Member:
        """Start a member, again or for the first time."""
        listener = "PLAIN" if self.apart and number == MEMBERS - 1 else "OPEN"
        settings = {"bootstrap.servers": ",".join(self.cluster.bootstrap(listener)), "group.id": self.name}
        settings |= {"client.id": f"{self.name}-{number}"} | self.kind[1]
        settings |= {"max.poll.interval.ms": str(MAX_POLL_MS)} if self.is_newer else SHARED
        if self.kind[0] == "streams":
            settings["state.dir"] = str(self.cluster.folder / f"state-{number}")
        if not self.is_newer and self.kind[1].get("group.protocol") != "consumer":
            settings |= {"session.timeout.ms": str(LONG_SESSION_MS if self.static else SESSION_MS)} | HEARTBEAT
            settings["max.poll.interval.ms"] = str(max(MAX_POLL_MS, int(settings["session.timeout.ms"])))
        if self.static:
            settings["group.instance.id"] = f"instance-{number}"
        words = [self.topic, *(f"{key}={value}" for key, value in settings.items())]
        if self.kind[0] in PROGRAMS:
            program = str(HERE / PROGRAMS[self.kind[0]])
            command = java(NEWEST, program, *words, heap="96m", streams=self.kind[0] == "streams")
        else:
            command = [sys.executable, str(HERE / "member.py"), self.kind[0], *words]
        member = Member(spawn(command, self.cluster.folder / "members.log", piped=True))
        threading.Thread(target=member.read, daemon=True).start()
        self.members[number] = member
        return member

    @property
    def is_newer(self) -> bool:
        """Whether the broker has to be asked what its members have."""
        return self.kind[0] in ("share", "streams")

    def shares(self) -> bool:
        """Whether all partitions are assigned, and each member that runs has some."""
        if self.is_newer:
            self.describe()
        shares = [member.has for member in self.members.values() if member.process.poll() is None]
        return sum(shares) == self.partitions and all(shares)

    def others_have_all(self) -> bool:
        """Whether the members but the last have all partitions."""
        if self.is_newer:
            self.describe()
        return sum(member.has for member in list(self.members.values())[:-1]) == PARTITIONS

    def describe(self) -> None:
        """Ask the broker what members have, past the capture: ShareGroupDescribe, StreamsGroupDescribe."""
        api = "ShareGroupDescribe" if self.kind[0] == "share" else "StreamsGroupDescribe"
        asked, told = message(f"{api}Request"), message(f"{api}Response")
        version = asked.versions.highest
        broker = next(broker for broker in self.cluster.brokers.values() if broker.running)
        with Wire(f"127.0.0.1:{broker.ports['INNER']}") as wire:
            body = asked.encode(version, struct_types(asked.name)[asked.name](group_ids=[self.name]))
            answer = wire.ask(asked.api_key, version, body, tags=b"\0")
        (group,) = told.decode(version, answer[1:]).groups
        for number, member in self.members.items():
            found = [each.assignment for each in group.members if each.client_id.startswith(f"{self.name}-{number}")]
            lists = [
                partitions
                for each in found
                for part in (each.topic_partitions if self.kind[0] == "share" else each.active_tasks)
                for partitions in [part.partitions]
            ]
            member.counts.append(sum(map(len, lists)))

    def close(self) -> None:
        for member in self.members.values():
            stop(member.process)
            for pipe in (member.process.stdin, member.process.stdout):
                if pipe is not None:
                    pipe.close()


def _hash(text: str) -> int:
    """Java's String.hashCode, as Utils.abs of it."""
    value = 0
    for char in text:
        value = (31 * value + ord(char)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def names(kinds: list[str]) -> list[str]:
    """Names of groups that all have the same coordinator: that of partition 0 of __consumer_offsets."""
    found = []
    for kind in kinds:
        number = next(n for n in range(1000) if _hash(f"{kind}.{n}") % OFFSETS_PARTITIONS == 0)
        found.append(f"{kind}.{number}")
    return found


@contextmanager
def capturing(file: Path, ports: list[int]) -> Iterator[None]:
    """Capture loopback traffic of these ports."""
    condition = " or ".join(f"tcp port {port}" for port in ports)
    log = file.with_suffix(".log")
    process = spawn(["dumpcap", "-q", "-i", "lo", "-f", condition, "-w", str(file)], log)
    eventually(lambda: file.exists() and file.stat().st_size > 0, what="dumpcap captures")
    try:
        yield
    finally:
        time.sleep(0.5)  # dumpcap has no way to say that it has everything
        stop(process, patience=5)


def record(folder: Path, cluster: Cluster, disturbance: str, kinds: list[str]) -> float:
    """Write FOLDER/DISTURBANCE.pcapng; return when it was done (Unix time)."""
    ports = [broker.ports[name] for broker in cluster.brokers.values() for name in ("OPEN", "PLAIN")]
    static, apart = disturbance == "static", disturbance == "cut"
    groups = [Group(cluster, name, static=static, apart=apart) for name in names(kinds)]
    for group in groups:
        group.topic = cluster.topic(f"{group.name}.{disturbance}", PARTITIONS)
    with capturing(folder / f"{disturbance}.pcapng", ports):
        try:
            for number in range(MEMBERS):
                for group in groups:
                    group.start(number)
                eventually(
                    lambda: all(group.shares() for group in groups), what=f"{number + 1} share", patience=PATIENCE
                )
            time.sleep(4)  # a while of peace before
            at = time.time()
            ACTIONS[disturbance.removeprefix(NEWER)](cluster, groups)
            time.sleep(3)  # and after
            return at
        finally:
            for group in groups:
                group.close()


def settle(groups: list[Group], changed: Callable[[Group], bool] | None = None) -> None:
    """Wait until every group shares its partitions again."""
    eventually(
        lambda: all(group.shares() and (changed is None or changed(group)) for group in groups),
        what="groups share again",
        patience=PATIENCE,
    )


def _last(group: Group) -> Member:
    return group.members[MEMBERS - 1]


def _kill(_cluster: Cluster, groups: list[Group]) -> None:
    for group in groups:
        _last(group).process.kill()
        _last(group).process.wait()
    settle(groups)


def _sigterm(_cluster: Cluster, groups: list[Group]) -> None:
    for group in groups:
        _last(group).process.terminate()
    for group in groups:
        _last(group).process.wait(PATIENCE)
    settle(groups)


def _pause(_cluster: Cluster, groups: list[Group]) -> None:
    for group in groups:
        _last(group).pause(MAX_POLL_MS + 8_000)
    eventually(lambda: all(group.others_have_all() for group in groups), what="others have all", patience=PATIENCE)
    settle(groups)


def _rolling(_cluster: Cluster, groups: list[Group]) -> None:
    for number in range(MEMBERS):
        for group in groups:
            group.members[number].process.terminate()
        for group in groups:
            group.members[number].process.wait(PATIENCE)
            group.start(number)
        settle(groups)
        time.sleep(1)


def _partitions(cluster: Cluster, groups: list[Group]) -> None:
    for group in groups:
        group.partitions = PARTITIONS + 3
    admin = AdminClient({"bootstrap.servers": cluster.open})
    for future in admin.create_partitions([NewPartitions(g.topic, g.partitions) for g in groups]).values():
        future.result(PATIENCE)
    settle(groups)


def _static(_cluster: Cluster, groups: list[Group]) -> None:
    for group in groups:
        _last(group).process.terminate()
    for group in groups:
        _last(group).process.wait(PATIENCE)
        group.start(MEMBERS - 1)
    settle(groups)


def _cut(cluster: Cluster, groups: list[Group]) -> None:
    cluster.gates.freeze()
    eventually(lambda: all(group.others_have_all() for group in groups), what="others have all", patience=PATIENCE)
    time.sleep(3)
    cluster.gates.thaw()
    settle(groups)


def _coordinator(cluster: Cluster, groups: list[Group]) -> None:
    found = metadata(cluster.open, ["__consumer_offsets"])
    leader = found.leaders["__consumer_offsets", 0]
    cluster.brokers[leader].stop(patience=30)
    time.sleep(15)
    settle(groups)


ACTIONS: dict[str, Callable[[Cluster, list[Group]], None]] = {
    "kill": _kill,
    "sigterm": _sigterm,
    "pause": _pause,
    "rolling": _rolling,
    "partitions": _partitions,
    "static": _static,
    "cut": _cut,
    "coordinator": _coordinator,
}


def main(folder: Path, *disturbances: str) -> None:
    """Record them all."""
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, float] = {}
    for disturbance in disturbances or (*DISTURBANCES, *NEWER_DISTURBANCES):
        nodes = 3 if disturbance == "coordinator" else 1
        inside = folder / f"cluster-{disturbance}"
        inside.mkdir()
        session = LONG_SESSION_MS if disturbance == "static" else SESSION_MS
        extra = BROKER | {"group.consumer.session.timeout.ms": str(session)}
        kinds = KINDS
        if disturbance.startswith(NEWER):
            kinds, extra = NEWER_KINDS, extra | NEWER_BROKER
        cluster = Cluster(inside, NEWEST, nodes=nodes, extra=extra)
        try:
            cluster.start()
            done[disturbance] = record(folder, cluster, disturbance, list(kinds))
            (folder / "done.json").write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
        finally:
            cluster.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
