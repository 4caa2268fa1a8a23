"""Workloads about which nothing critical, and at most one warning, may be said."""

from tests.truth.lab import Lab, workload


@workload(
    "Four consumers of a group are restarted one after the other, each as its documentation tells to.", healthy=True
)
def rolling_restart(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=20)
    members = [lab.consume(f"billing-{number}", "orders", group="billing") for number in range(4)]
    lab.wait(8)
    for member in members:
        member.restart()
        lab.wait(4)
    lab.wait(2)


@workload("Two consumers do nothing all night: nobody produces.", healthy=True)
def idle_at_night(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=0, count=20).finish()
    for number, library in enumerate(("librdkafka", "kafka-python", "aiokafka", "java")):
        lab.consume(f"night-{number}", "orders", group=f"night-{library}", library=library)
    lab.wait(20)


@workload(
    "Brokers of three are stopped and started again one after the other; topics are replicated.", healthy=True, nodes=3
)
def rolling_brokers(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    lab.produce("shop", "orders", rate=10, acks="all", enable_idempotence=True)
    lab.consume("billing", "orders", group="billing")
    lab.produce("shop-java", "orders", rate=5, library="java")
    lab.wait(8)
    for node in (1, 2):
        lab.stop_broker(node)
        lab.wait(3)
        lab.start_broker(node)
        lab.wait(4)


@workload("A consumer and a transactional producer copy a topic: exactly once.", healthy=True)
def transactions(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.topic("paid", 2)
    for library in ("librdkafka", "java"):
        copier = f"copier-{library}"
        lab.client(copier, "transact", topic="paid", library=library, rate=10, batch=5, transactional_id=copier)
        reads = {"group": f"readers-{library}", "library": library, "isolation_level": "read_committed"}
        lab.consume(f"reader-{library}", "paid", **reads)
    lab.wait(15)


@workload("Keyed writes to a compacted topic, all clients of Python.", healthy=True)
def compacted(lab: Lab) -> None:
    lab.topic("profiles", 3, cleanup_policy="compact")
    for library in ("librdkafka", "kafka-python", "aiokafka"):
        lab.produce(f"profiles-{library}", "profiles", library=library, rate=10, keys=20)
        lab.consume(f"cache-{library}", "profiles", library=library, group=f"cache-{library}")
    lab.wait(12)
    lab.allow("acks_below_all", client_id="profiles-aiokafka")  # its default is acks=1
