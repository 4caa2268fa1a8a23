"""Incidents of what nobody thought of: one address for all brokers, a setting that cannot be met, questions for each record."""

import sys
import time

from tests.truth.lab import Lab, workload
from tests.truth.replicas import ELECTION
from tests.truth.unreached import BALANCES

FOR_EVER = 600


def _balancer(lab: Lab) -> str:
    """A load balancer in front of the first broker; returns its address."""
    text = BALANCES.format(host=lab.network.address("broker-1"), seconds=FOR_EVER)
    lab.program("balancer", "balance", "none", [sys.executable, "-c", text])
    return lab.network.address("balancer")


@workload("All brokers are advertised at the address of a load balancer, which leads to one of them.", nodes=3)
def one_address_for_all(lab: Lab) -> None:
    lab.topic("orders", 3)
    where = _balancer(lab)
    for node in lab.cluster.brokers:
        lab.stop_broker(node)
    for broker in lab.cluster.brokers.values():
        right = ",".join(f"{name}://{broker.where(name)}" for name in ("OPEN", "INNER"))
        text = f"advertised.listeners={right},PLAIN://{where}:9092\n"
        broker.file.write_text(broker.file.read_text() + text, encoding="utf-8")
        broker.start()
    lab.cluster.wait()
    lab.tool(ELECTION, "--bootstrap-server", lab.cluster.open, "--election-type", "preferred", "--all-topic-partitions")
    of_producers = {"rate": 20, "bootstrap": f"{where}:9092"}
    clients = [lab.produce("shop", "orders", **of_producers)]
    clients.append(lab.produce("shop-java", "orders", library="java", **of_producers))
    lab.consume("billing", "orders", group="billing", bootstrap=f"{where}:9092")
    lab.wait(40)
    for client in clients:
        of_client = {"client_id": client.client_id, "shared_address": f"{where}:9092"}
        lab.expect("stale_leader", at=client.started + 6, within=8, topic="orders", **of_client)
    lab.allow("stale_leader", shared_address=f"{where}:9092")
    lab.allow("coordinator_errors", shared_address=f"{where}:9092")  # unless the coordinator is behind the balancer
    lab.never("broker_away")
    lab.never("lost_records")


@workload("Clients find their brokers by a load balancer that leads to one of them.", nodes=3, healthy=True)
def balancer_to_begin_with(lab: Lab) -> None:
    lab.topic("orders", 3)
    where = _balancer(lab)
    lab.produce("shop", "orders", rate=20, bootstrap=f"{where}:9092")
    lab.produce("shop-java", "orders", rate=20, library="java", bootstrap=f"{where}:9092")
    lab.consume("billing", "orders", group="billing", bootstrap=f"{where}:9092")
    lab.wait(20)


@workload(
    "A program asks where its partition ends before each record; another one does so now and then.",
    variants={"kafka-python": {"library": "kafka-python"}},
)
def asks_for_the_end(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", rate=60, linger_ms=50)
    lab.consume("eager", "orders", group="eager", library=library, ends=1)
    lab.consume("calm", "orders", group="calm", library=library, ends=200)
    lab.wait(40)
    lab.expect("metadata_storm", client_id="eager")
    lab.never("metadata_storm", client_id="calm")
    lab.allow("falling_behind", client_id="eager")  # for the questions, if each takes long


@workload(
    "A topic of two replicas wants three in sync; one of its producers waits for the leader only.",
    nodes=3,
    healthy=True,
)
def wants_more_than_it_has(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 2, {"min.insync.replicas": "3"})
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
    lab.produce("sensor", "orders", acks="1")
    lab.wait(20)  # a broker asks for no more than there are
    lab.allow("acks_below_all", client_id="sensor")


@workload("Two of three brokers are killed, which are the controllers, too: nobody elects leaders.", nodes=3)
def quorum_lost(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(12)
    killed = [lab.kill_broker(node) for node in (2, 3)]
    lab.wait(40)
    for node, at in zip((2, 3), killed, strict=True):
        lab.expect("broker_away", at=at, within=1.5, broker=f"~{lab.network.address(f'broker-{node}')}")
    for analysis in (
        "not_enough_replicas",
        "refused_requests",
        "no_leader",
        "coordinator_errors",
        "no_connection",
        "unanswered_requests",
        "slow_broker",
        "stale_leader",
        "unreachable_brokers",
        "reconnect_loop",
        "acks_below_all",
    ):
        lab.allow(analysis)
    lab.never("lost_records")


@workload("All three controllers stand still for two seconds, one after the other.", nodes=3, healthy=True)
def quorum_stutters(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(10)
    for node in (1, 2, 3):
        lab.freeze_broker(node, 2)
        lab.wait(5)
    lab.allow("slow_broker")


@workload(
    "A topic gets more partitions; one of its producers hears of them minutes later, another one begins with them."
)
def more_partitions_under_keys(lab: Lab) -> None:
    lab.topic("orders", 2)
    words = {"library": "librdkafka", "keys": 40, "rate": 30, "acks": "all", "linger_ms": 100}
    for name, seconds in (("shop", 2), ("late", 300)):
        lab.produce(name, "orders", **words, topic_metadata_refresh_interval_ms=seconds * 1000)
    lab.consume("billing", "orders", group="billing")
    lab.wait(4)
    add = ["--bootstrap-server", lab.cluster.open, "--alter", "--topic", "orders", "--partitions", "5"]
    lab.tool("org.apache.kafka.tools.TopicCommand", *add)
    lab.produce("new", "orders", **words)
    lab.wait(25)
    lab.records = True
    lab.expect("scattered_keys", client_id="late", other_client_id="new", topic="orders")
    lab.never("scattered_keys", client_id="shop")
    lab.never("scattered_keys", other_client_id="shop")


@workload("A broker takes two new connections a second; jobs come faster than that.", max_connection_creation_rate="2")
def connections_too_fast(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20, linger_ms=50)
    lab.consume("billing", "orders", group="billing")
    lab.wait(6)
    for number in range(40):
        lab.produce(f"job-{number}", "orders", count=3, rate=0, host=f"host-{number % 3}")
        time.sleep(0.25)
    lab.wait(25)
    lab.expect("unanswered_requests", client_id="~job-")  # those in the end give up before they are served
    lab.allow("unanswered_requests", client_id="~job-")
    for analysis in (
        "slow_broker",
        "noisy_neighbour",
        "unanswered_requests",
        "lost_records",
        "no_connection",
        "broker_away",
    ):
        lab.never(analysis, client_id="shop")


@workload("A tool sets one setting of a topic and takes away all others: it uses the old request, which replaces them.")
def settings_replaced(lab: Lab) -> None:
    lab.topic("orders", 1, retention_ms="86400000", min_insync_replicas="1", max_message_bytes="2000000")
    lab.produce("camera", "orders", size=1_500_000, rate=1, noise=1, message_max_bytes=2_000_000)
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    replaced = time.time()
    lab.admin("tool", "replace orders retention.ms=43200000")
    lab.wait(15)
    lab.expect("changes", at=replaced, within=2, client_id="tool", resource="orders", what="all settings replaced")
    lab.expect("message_too_large", at=replaced + 2, within=3, client_id="camera")
