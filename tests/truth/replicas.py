"""Replicas that are missing for long, leaders that nobody moves back, records that share groups get again and again."""

import json

from tests.truth.lab import Client, Lab, workload

ZOOKEEPER, LAST_OF_THREE = "2.8.2", "3.9.2"
OFTEN = {"topic_metadata_refresh_interval_ms": 20_000}
STAY = {"auto_leader_rebalance_enable": "false"}
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGNMENT = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
MISSING = (
    "broker_away",
    "stale_leader",
    "unanswered_requests",
    "slow_broker",
    "coordinator_errors",
    "tiny_batches",
    "duplicate_records",
)


def _work(lab: Lab, *topics: str) -> None:
    """Start clients of three libraries that ask for metadata as often as they do by default, or more often."""
    for topic in topics:
        lab.produce(f"shop-{topic}", topic, rate=2, acks="all", **OFTEN)
        lab.consume(f"billing-{topic}", topic, group=f"billing-{topic}", **OFTEN)
    lab.produce("shop-java", topics[0], library="java", rate=1)
    lab.consume("billing-java", topics[0], library="java", group="billing-java")
    lab.consume("billing-python", topics[0], library="kafka-python", group="billing-python", metadata_max_age_ms=60_000)
    for analysis in MISSING:
        lab.allow(analysis)


def _roll(lab: Lab, node: int) -> float:
    lab.stop_broker(node)
    lab.wait(3)
    return lab.start_broker(node)


@workload(
    "A broker is killed and stays away; another one was restarted, and nobody moves its leaders back.", nodes=3, **STAY
)
def broker_lost(lab: Lab) -> None:
    lab.topic("orders", 6, min_insync_replicas="1")
    _work(lab, "orders")
    lab.wait(15)
    killed = lab.kill_broker(3)
    lab.wait(20)
    back = _roll(lab, 2)
    lab.wait(660)
    lab.expect("under_replicated", at=killed + 10, within=45, broker_id=3, came_back=False)
    lab.expect("leader_imbalance", at=back + 20, within=45, broker_id=2, leads=0)
    lab.never("under_replicated", broker_id=[1, 2])
    lab.never("leader_imbalance", broker_id=[1, 3])


@workload("A broker ends and comes back four times, and is given its leaders back each time.", nodes=3, **STAY)
def leaders_move(lab: Lab) -> None:
    lab.topic("orders", 3)
    _work(lab, "orders")
    lab.wait(5)
    for _number in range(4):
        _roll(lab, 1)
        lab.wait(4)
        lab.tool(
            ELECTION, "--bootstrap-server", lab.cluster.open, "--election-type", "preferred", "--all-topic-partitions"
        )
        lab.wait(4)
    lab.expect("moving_leaders", topic="orders", leaders=["1, 2", "1, 3"])


@workload("A broker is away for six minutes; then its leaders are moved back to it.", nodes=3)
def broker_long_away(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.topic("parcels", 3, replicas=2, min_insync_replicas="1")
    _work(lab, "orders", "parcels")
    lab.wait(15)
    killed = lab.kill_broker(1)
    lab.wait(360)
    lab.start_broker(1)
    lab.wait(330)
    lab.expect("under_replicated", at=killed + 10, within=45, broker_id=1, came_back=True, severity="warning")
    lab.never("under_replicated", broker_id=[2, 3])
    lab.never("leader_imbalance")


@workload(
    "All brokers are restarted in turn, a partition is moved slowly, a topic is new; leaders stay.",
    nodes=3,
    **STAY,
)
def rolled_and_left(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.cluster.topic("images", 1, 2, {})
    lab.produce("camera", "images", rate=40, size=20_000, noise=1, count=300, acks="all")
    _work(lab, "orders", "images")
    lab.wait(15)
    for node in (1, 2, 3):
        back = _roll(lab, node)
        lab.wait(6)
    moves = [{"topic": "images", "partition": 0, "replicas": [1, 3]}]
    plan = lab.properties("plan.json", json.dumps({"version": 1, "partitions": moves}))
    words = ["--bootstrap-server", lab.cluster.open, "--reassignment-json-file", plan]
    lab.tool(REASSIGNMENT, *words, "--execute", "--throttle", "10000")
    lab.wait(30)
    lab.topic("parcels", 3)
    lab.consume("billing-parcels", "parcels", group="billing-parcels", **OFTEN)
    lab.wait(630)
    lab.expect("leader_imbalance", at=back + 15, within=45, broker_id=3, displaced=2)
    lab.never("leader_imbalance", broker_id=[1, 2])
    lab.allow("noisy_neighbour", client_id="camera")
    lab.never("under_replicated")


@workload("After restarts the preferred leaders are elected; a broker stands still for a while.", nodes=3, **STAY)
def rolled_and_elected(lab: Lab) -> None:
    lab.topic("orders", 6)
    _work(lab, "orders")
    lab.wait(15)
    for node in (1, 2, 3):
        _roll(lab, node)
        lab.wait(6)
    lab.wait(40)
    options = ["--election-type", "preferred", "--all-topic-partitions"]
    lab.tool(ELECTION, "--bootstrap-server", lab.cluster.open, *options)
    lab.wait(30)
    lab.freeze_broker(2, 60)
    lab.wait(40)
    lab.tool(ELECTION, "--bootstrap-server", lab.cluster.open, *options)
    lab.wait(400)
    lab.never("under_replicated")
    lab.never("leader_imbalance")


@workload("The network of a broker of 2.8 is cut for six minutes.", nodes=3, release=ZOOKEEPER)
def broker_cut_off(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="1")
    _work(lab, "orders")
    lab.wait(15)
    cut = lab.cut_off("broker-2", 360)
    lab.wait(40)
    lab.expect("under_replicated", at=cut + 35, within=45, broker_id=2)
    lab.never("under_replicated", broker_id=[1, 3])
    lab.never("leader_imbalance")


@workload("A broker of 3.9 was killed and started again: it leads nothing.", nodes=3, release=LAST_OF_THREE, **STAY)
def leads_nothing(lab: Lab) -> None:
    lab.topic("orders", 6)
    _work(lab, "orders")
    lab.wait(8)
    lab.kill_broker(2)
    lab.wait(15)
    back = lab.start_broker(2)
    lab.wait(660)
    lab.expect("leader_imbalance", at=back + 10, within=45, broker_id=2, leads=0)
    lab.never("leader_imbalance", broker_id=[1, 3])
    lab.never("under_replicated")


LOCKS = {"group_share_record_lock_duration_ms": "2000", "group_share_min_record_lock_duration_ms": "1000"}


def _workers(lab: Lab, group: str, *, members: int = 1, **job: float | str) -> list[Client]:
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "share.auto.offset.reset=earliest"]
    lab.tool("kafka.admin.ConfigCommand", *words, "--entity-type", "groups", "--entity-name", group)
    explicit = {"share_acknowledgement_mode": "explicit"} if "answer" in job else {}
    names = [f"{group}-{number}" for number in range(1, members + 1)] if members > 1 else [group]
    return [lab.client(name, "share", topic="orders", group=group, library="java", **job, **explicit) for name in names]


@workload(
    "Members of a share group need longer for a record than its lock lasts: records are delivered again.", **LOCKS
)
def share_locks_end(lab: Lab) -> None:
    lab.topic("orders", 1)
    _workers(lab, "billing", members=2, pause=1.5)
    _workers(lab, "calm")
    lab.wait(4)
    lab.produce("shop", "orders", rate=4, acks="all")
    lab.wait(40)
    lab.expect("share_redelivery", group_id="billing", topic="orders", cause="lock timed out")
    lab.never("share_redelivery", group_id="calm")


@workload("A member of a share group releases each tenth record whenever it comes, until the broker gives it up.")
def share_releases(lab: Lab) -> None:
    lab.topic("orders", 1)
    _workers(lab, "billing", answer="RELEASE")
    _workers(lab, "calm")
    lab.wait(4)
    began = lab.produce("shop", "orders", rate=10, acks="all").started
    lab.wait(30)
    lab.expect(
        "share_redelivery", at=began + 3, within=5, group_id="billing", topic="orders", cause="released", deliveries=5
    )
    lab.never("share_redelivery", group_id="calm")


@workload("A member of a share group rejects each tenth record; another group's members are killed and restarted.")
def share_rejects(lab: Lab) -> None:
    lab.topic("orders", 1)
    _workers(lab, "billing", answer="REJECT")
    workers = _workers(lab, "calm", members=2, pause=0.05)
    lab.wait(4)
    began = lab.produce("shop", "orders", rate=10, acks="all").started
    for worker in workers:
        lab.wait(8)
        worker.kill()
        worker.start()
    lab.wait(12)
    lab.expect("share_redelivery", at=began + 3, within=5, group_id="billing", topic="orders", cause="rejected")
    lab.never("share_redelivery", group_id="calm")
