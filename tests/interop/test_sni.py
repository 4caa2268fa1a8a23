"""One port for all brokers, told apart by the name in the TLS handshake, behind a load balancer with a port of its own.

Clients connect to kafka.test:P, as to a load balancer's port 443; kproxy listens on another port. Every partition is on one
broker only, so a record gets there by the right name or not at all.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.support import namespaces
from tests.support.certificates import Authority
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT
from tests.support.kafka.gates import HOST, Gates
from tests.support.kafka.proxies import ROOT, Proxy, cluster
from tests.support.sockets import end_offsets

pytestmark = pytest.mark.skipif(DIRECT, reason="is about the names that the proxy gives to brokers")
NODES = (1, 2, 3)
COUNT = 300
SPREAD = {  # what makes a producer use all partitions for records without a key
    "java": {"partitioner_class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
    "librdkafka": {"sticky_partitioning_linger_ms": 0},
}


class Balanced:
    """kproxy by SNI behind a relay: ``port`` is the only one that clients know."""

    def __init__(self, brokers: Cluster, folder: Path) -> None:
        self.brokers = brokers
        authority = Authority("proxy", folder / "pki")
        self.ca = authority.ca
        certificate, key = authority.issue_for("kproxy", names=["kafka.test", "*.kafka.test"])
        virtual = cluster(brokers.bootstrap("PLAIN"), listener_tls={"certificate": str(certificate), "key": str(key)})
        self.balancer = Gates(folder, [virtual["listen"]])
        (self.port,) = self.balancer.ports
        virtual["addresses"] = {
            "mode": "sni",
            "broker_name": "broker-{node_id}.kafka.test",
            "advertise_port": self.port,
        }
        self.proxy = Proxy(folder, [virtual])
        names = ["kafka.test", *(f"broker-{node}.kafka.test" for node in NODES)]
        self.hosts = namespaces.write_hosts(folder / "hosts", dict.fromkeys(names, HOST))

    def run(self, client: str, topic: str) -> dict[str, object]:
        """Produce and consume in a process that knows the names."""
        module = [sys.executable, "-m", "tests.interop.client_process"]
        words = [client, self.brokers.release, f"kafka.test:{self.port}", self.ca]
        words += [topic, str(COUNT), json.dumps(SPREAD[client])]
        done = subprocess.run(
            [*namespaces.with_hosts(self.hosts), *module, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr}\n{self.proxy.said()}"
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found

    def close(self) -> None:
        self.proxy.close()
        self.balancer.close()


@pytest.fixture(scope="module")
def balanced(three: Cluster, require: Require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Balanced]:
    require("namespaces", namespaces.can_name_hosts(), "names for clients need root and unshare(1)")
    found = Balanced(three, tmp_path_factory.mktemp("sni"))
    try:
        found.proxy.start()
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("client", ["librdkafka", pytest.param("java", marks=pytest.mark.slow)])
def test_each_broker_is_reached_by_its_name(balanced: Balanced, three: Cluster, client: str, topic_name: str) -> None:
    three.topic(topic_name, len(NODES), replicas=1)  # partition i on broker i + 1 alone
    three.gates.visitors()
    found = balanced.run(client, topic_name)
    assert found["acknowledged"] == COUNT
    assert sorted(map(int, found["values"])) == list(range(COUNT))  # type: ignore[call-overload]
    offsets = end_offsets(three.open, topic_name)
    assert sum(offsets.values()) == COUNT
    assert all(offsets[partition] > 0 for partition in range(len(NODES)))
    visitors = three.gates.visitors()
    assert visitors
    assert [each for each in visitors if each.pid and each.mark != balanced.proxy.mark] == []
