"""Incidents of wrong use and of settings that do not fit together, as postmortems and issue threads tell of them."""

import sys
import time

from tests.truth.lab import SOURCES, Lab, workload

ZOOKEEPER, LAST_OF_THREE = "2.8.2", "3.9.2"
_HOME_MADE = f"""
import json, os, sys, time
sys.path.insert(0, {str(SOURCES.parent.parent)!r})
from confluent_kafka import Consumer, Producer, TopicPartition
def say(event, **more):
    print(json.dumps({{"at": time.time(), "event": event, **more}}), flush=True)
where = {{"bootstrap.servers": "BOOTSTRAP", "client.id": "CLIENT"}}
"""


def _program(lab: Lab, client_id: str, role: str, text: str) -> float:
    """Start a program of confluent-kafka that is no role of the other clients."""
    head = _HOME_MADE.replace("BOOTSTRAP", lab.cluster.bootstrap("PLAIN")).replace("CLIENT", client_id)
    return lab.program(client_id, role, "librdkafka", [sys.executable, "-c", head + text]).started


@workload(
    "A consumer stands still in its handler: its heartbeats go on, but it reads no more.",
    variants={
        "kafka-python": {"library": "kafka-python"},
        "aiokafka": {"library": "aiokafka", "release": ZOOKEEPER},
        "2-8": {"release": ZOOKEEPER},
    },
)
def stands_in_its_handler(lab: Lab, library: str = "java") -> None:
    lab.topic("orders", 2)
    lab.topic("quiet", 1)
    lab.consume("calm", "orders", group="calm", library=library, pause=0.02)
    lab.consume("idle", "quiet", group="idle", library=library)
    lab.consume("billing", "orders", group="billing", library=library, pause=90)
    lab.wait(5)
    began = lab.produce("shop", "orders", rate=10, library="kafka-python", acks="all").started
    lab.wait(45)
    lab.expect("stopped_reading", at=began + 4, within=5, client_id="billing", group_id="billing")
    lab.never("stopped_reading", client_id=["calm", "idle"])
    lab.allow("falling_behind", client_id="billing", cause="consumer")
    lab.allow("group_without_commits", client_id="billing")


@workload(
    "A group waits in a rebalance for one member that is busy with a record.",
    variants={"kafka-python": {"library": "kafka-python"}, "2-8": {"release": ZOOKEEPER}},
)
def waits_for_a_busy_member(lab: Lab, library: str = "java") -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=2, acks="all", library="kafka-python")
    lab.consume("billing-1", "orders", group="billing", library=library)
    lab.consume("calm-1", "orders", group="calm", library=library)
    lab.wait(6)
    lab.consume("billing-2", "orders", group="billing", library=library, pause=16, max_poll_records=1)
    lab.wait(16)
    joins = lab.consume("billing-3", "orders", group="billing", library=library).started
    lab.consume("calm-2", "orders", group="calm", library=library)
    lab.wait(26)
    lab.expect("long_rebalance", at=joins + 3, within=6, group_id="billing", client_id="billing-2")
    lab.allow("long_rebalance", group_id="billing")
    lab.never("long_rebalance", group_id="calm")
    lab.allow("falling_behind", client_id="billing-2")


@workload(
    "A group's assignor gives one member all of its topics, which have one partition each.",
    variants={"kafka-python": {"library": "kafka-python"}, "2-8": {"release": ZOOKEEPER}},
)
def one_has_all(lab: Lab, library: str = "librdkafka") -> None:
    topics = [lab.topic(f"events-{number}", 1) for number in range(6)]
    for topic in topics:
        lab.produce(f"shop-{topic}", topic, rate=3, acks="all")
    ranged = {"partition_assignment_strategy": "range"} if library == "librdkafka" else {}
    spread = {"partition_assignment_strategy": "roundrobin"}
    for number in (1, 2, 3):
        lab.consume(f"billing-{number}", ",".join(topics), group="billing", library=library, **ranged)
        if library == "librdkafka":
            lab.consume(f"audit-{number}", ",".join(topics), group="audit", **spread)
    lab.wait(20)
    lab.expect("uneven_assignment", group_id="billing")
    lab.never("uneven_assignment", group_id="audit")
    lab.never("idle_members")  # there are as many partitions as it takes


@workload(
    "Heartbeats come so rarely that one late one ends the session.",
    variants={"kafka-python": {"library": "kafka-python"}, "2-8": {"release": ZOOKEEPER}},
)
def heartbeats_too_rare(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", acks="all")
    lab.consume(
        "billing", "orders", group="billing", library=library, session_timeout_ms=6000, heartbeat_interval_ms=5500
    )
    lab.consume("calm", "orders", group="calm", library=library, session_timeout_ms=6000, heartbeat_interval_ms=2000)
    lab.wait(26)
    lab.expect("rare_heartbeats", client_id="billing", group_id="billing")
    lab.never("rare_heartbeats", client_id="calm")


@workload(
    "A consumer's fetch waits longer than the client waits for answers.", variants={"2-8": {"release": ZOOKEEPER}}
)
def gives_up_its_fetches(lab: Lab) -> None:
    lab.topic("rare", 1)
    lab.produce("shop", "rare", rate=0.05, acks="all")
    impatient = lab.consume(
        "billing", "rare", group="billing", library="java", fetch_max_wait_ms=20000, request_timeout_ms=4000
    )
    lab.consume("calm", "rare", group="calm", library="java", fetch_max_wait_ms=3000, request_timeout_ms=30000)
    lab.wait(32)
    lab.expect("abandoned_fetches", at=impatient.started + 6, within=6, client_id="billing")
    lab.never("abandoned_fetches", client_id="calm")
    lab.allow("unanswered_requests", client_id="billing")
    lab.allow("connection_churn", client_id="billing")
    lab.allow("reconnect_loop", client_id="billing")


@workload("Consumers read records of transactions that were aborted.", variants={"2-8": {"release": ZOOKEEPER}})
def reads_what_was_aborted(lab: Lab) -> None:
    lab.topic("paid", 1)
    lab.client("copier", "transact", topic="paid", batch=10, rate=20, abort=1, transactional_id="copier")
    lab.consume("hasty", "paid", group="hasty", isolation_level="read_uncommitted")
    lab.consume("hasty-java", "paid", group="hasty-java", library="java")
    lab.consume("careful", "paid", group="careful")
    lab.consume("careful-java", "paid", group="careful-java", library="java", isolation_level="read_committed")
    lab.wait(18)
    for name in ("hasty", "hasty-java"):
        lab.expect("aborted_records_read", client_id=name, topic="paid")
    lab.never("aborted_records_read", client_id=["careful", "careful-java"])


@workload("A program begins a transaction for each record.", variants={"java": {"library": "java"}})
def a_transaction_for_each(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("paid", 3)
    words = {"topic": "paid", "library": library}
    lab.client("copier", "transact", batch=1, rate=40, transactional_id="copier", **words)
    lab.client("calm", "transact", batch=20, rate=40, transactional_id="calm", **words)
    lab.wait(20)
    lab.expect("small_transactions", client_id="copier")
    lab.never("small_transactions", client_id="calm")
    lab.allow("tiny_batches", client_id="copier")


@workload(
    "A broker answers late; producers without idempotence send their batches again, and all are written twice.",
    variants={"2-8": {"release": ZOOKEEPER}},
)
def written_twice(lab: Lab) -> None:
    lab.topic("orders", 1)
    hasty = {"request_timeout_ms": 1500, "socket_timeout_ms": 2500}
    lab.produce("shop", "orders", rate=20, enable_idempotence="false", **hasty)
    lab.produce("safe", "orders", rate=20, enable_idempotence="true", acks="all", **hasty)
    lab.wait(8)
    frozen = lab.freeze_broker(1, 6)
    lab.wait(12)
    lab.expect("duplicate_records", at=frozen + 3, within=6, client_id="shop", topic="orders")
    lab.never("duplicate_records", client_id="safe")
    lab.allow("broker_away", at=frozen, within=2)
    lab.allow("unanswered_requests")
    lab.allow("slow_broker")
    lab.allow("tiny_batches")
    lab.allow("reconnect_loop")


@workload("Two libraries put the same keys into different partitions.")
def keys_in_two_places(lab: Lab) -> None:
    lab.records = True
    lab.topic("orders", 6)
    lab.topic("right", 6)
    words = {"rate": 60, "keys": 40, "acks": "all"}
    lab.produce("shop", "orders", library="java", **words)
    lab.produce("web", "orders", **words)
    lab.produce("shop-right", "right", library="java", **words)
    lab.produce("web-right", "right", partitioner="murmur2_random", **words)
    lab.wait(22)
    lab.expect("scattered_keys", topic="orders")
    lab.never("scattered_keys", topic="right")
    lab.allow("tiny_batches")


@workload("A program makes itself a new group each time that it starts.", variants={"2-8": {"release": ZOOKEEPER}})
def a_group_for_each_start(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10, acks="all")
    for number in range(6):
        fresh = lab.consume("billing", "orders", group=f"billing-{time.time_ns()}", host="billing")
        calm = lab.consume("calm", "orders", group="calm", host="calm")
        lab.wait(5)
        fresh.stop()
        calm.stop()
        if number < 2:
            tool = lab.consume("console-consumer", "orders", group=f"console-consumer-{70_000 + number}", host="desk")
            lab.wait(2)
            tool.stop()
    lab.expect("group_for_each_start", client_id="billing")
    lab.never("group_for_each_start", client_id=["calm", "console-consumer"])
    lab.allow("anonymous_clients", client_id="console-consumer")
    lab.allow("group_without_commits", client_id="console-consumer")


@workload(
    "Two programs of one group assign the same partition to themselves; their commits go back and forth.",
    variants={"kafka-python": {"library": "kafka-python"}, "2-8": {"release": ZOOKEEPER}},
)
def both_have_it(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=30, acks="all")
    lab.wait(4)
    quick = lab.consume("billing-1", "orders", group="billing", library=library, assign=[0, 1], commit=10).started
    lab.consume("billing-2", "orders", group="billing", library=library, assign=[0, 1], commit=5, pause=0.1)
    for number in (0, 1):
        lab.consume(f"calm-{number}", "orders", group="calm", library=library, assign=[number], commit=10)
    lab.wait(20)
    lab.expect("commits_backward", at=quick + 8, within=9, group_id="billing", topic="orders")
    lab.never("commits_backward", group_id="calm")
    lab.allow("commit_storm")
    lab.allow("falling_behind", client_id="billing-2")


_SETS_RETENTION = """
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
admin = AdminClient(where)
entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
for future in admin.incremental_alter_configs([resource]).values():
    future.result(20)
say("altered")
time.sleep(1)
"""


@workload(
    "An operator shortens a topic's retention; a consumer that is behind loses records.",
    log_retention_check_interval_ms="1000",
)
def retention_shortened(lab: Lab) -> None:
    lab.topic("orders", 1, segment_bytes="1048576", segment_ms="1000", file_delete_delay_ms="100")
    lab.produce("shop", "orders", rate=40, library="kafka-python")
    lab.consume(
        "billing", "orders", group="billing", library="java", pause=0.2, max_poll_records=20, fetch_max_bytes=2000
    )
    lab.wait(15)
    changed = _program(lab, "operator", "admin", _SETS_RETENTION)
    lab.wait(20)
    lab.expect("changes", at=changed + 1, within=2, client_id="operator", resource="orders")
    lab.expect("offset_reset", at=changed + 8, within=10, client_id="billing", topic="orders")
    lab.allow("falling_behind", client_id="billing")
    lab.allow("offset_out_of_range_loop", client_id="billing")


_CREATES = """
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient(where)
for number in range(5):
    wrong = NewTopic("odd", 1, replication_factor=1, config={"retention.ms": "soon"})
    for topic in (NewTopic("fresh", 2, replication_factor=3), wrong):
        for future in admin.create_topics([topic]).values():
            try:
                future.result(20)
            except Exception as error:
                say("error", name=error.args[0].name())
    time.sleep(1)
"""


@workload("A program tries to create topics with more replicas than there are brokers, and a setting that is none.")
def cannot_be_created(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    began = _program(lab, "deploys", "admin", _CREATES)
    lab.admin("calm", "create fine 2")
    lab.wait(12)
    for name in ("INVALID_REPLICATION_FACTOR", "INVALID_CONFIG"):
        lab.expect("refused_requests", at=began + 1, within=3, client_id="deploys", error_name=name)
    lab.never("refused_requests", client_id="calm")
    lab.allow("changes", client_id="calm")


@workload(
    "The topic of the groups' offsets cannot be made: it wants three replicas, and there is one broker.",
    offsets_topic_replication_factor="3",
    variants={"2-8": {"release": ZOOKEEPER}},
)
def no_topic_for_offsets(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    libraries = "librdkafka", "java", "kafka-python"
    clients = [lab.consume(f"billing-{each}", "orders", group=f"billing-{each}", library=each) for each in libraries]
    lab.wait(24)
    for client in clients[:2]:
        lab.expect("coordinator_errors", at=client.started + 2, within=4, client_id=client.client_id)
    lab.allow("coordinator_errors")
    lab.allow("metadata_storm", client_id="~billing")


@workload(
    "Batches are larger than a segment of their topic.", release=LAST_OF_THREE, variants={"2-8": {"release": ZOOKEEPER}}
)
def larger_than_a_segment(lab: Lab) -> None:
    lab.topic("images", 1, segment_bytes="50000", max_message_bytes="2000000")
    lab.produce("thumbs", "images", size=5000, rate=2, acks="all")
    began = lab.produce("camera", "images", size=300_000, rate=1, noise=1, count=6).started
    lab.wait(14)
    lab.expect("message_too_large", at=began + 2, within=4, client_id="camera", topic="images")
    lab.allow("refused_requests", client_id="camera", error_name="RECORD_LIST_TOO_LARGE")
    lab.never("message_too_large", client_id="thumbs")
    lab.allow("no_compression")
    lab.allow("near_max_message")


@workload(
    "The broker ends logins after four seconds; two libraries do not log in again on a connection.",
    secure=True,
    connections_max_reauth_ms="4000",
    variants={"2-8": {"release": ZOOKEEPER}},
)
def login_ends(lab: Lab) -> None:
    lab.topic("orders", 1)
    for library in ("librdkafka", "java", "aiokafka"):
        lab.produce(f"shop-{library}", "orders", rate=4, library=library, listener="SASL", acks="all")
    lab.wait(24)
    lab.expect("login_expired", client_id="shop-aiokafka")
    lab.never("login_expired", client_id=["shop-java", "shop-librdkafka"])
    lab.allow("plaintext_credentials")
    lab.allow("connection_churn", client_id="shop-aiokafka")
    lab.allow("unanswered_requests", client_id="shop-aiokafka")


@workload(
    "Producers that want no answer send what their topic does not take; nobody tells them.",
    variants={"2-8": {"release": ZOOKEEPER}},
)
def refused_without_a_word(lab: Lab) -> None:
    lab.topic("images", 1, max_message_bytes="20000")
    lab.produce("thumbs", "images", size=2000, rate=3, acks="all")
    began = lab.produce("camera", "images", size=100_000, noise=1, rate=1, acks=0).started
    lab.wait(18)
    lab.expect("silent_refusals", at=began + 2, within=4, client_id="camera", topic="images")
    lab.allow("acks_below_all", client_id="camera")
    lab.allow("reconnect_loop", client_id="camera")
    lab.never("reconnect_loop", client_id="thumbs")
    lab.allow("no_compression")


@workload(
    "A topic is deleted, and a producer that still writes has the broker make it anew.",
    auto_create_topics_enable="true",
)
def comes_back_smaller(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10, allow_auto_create_topics="true")
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    deleted = lab.admin("operator", "delete orders").started
    lab.wait(24)
    lab.expect("changes", at=deleted + 2, within=3, client_id="operator", resource="orders")
    lab.expect("auto_created_topic", at=deleted + 8, within=10, client_id="shop", topic="orders")
    for analysis in (
        "unknown_topic_loop",
        "stale_leader",
        "refused_commits",
        "offset_reset",
        "refused_requests",
    ):
        lab.allow(analysis)


@workload(
    "A group may not go over to the new protocol: its broker does not convert groups.",
    group_consumer_migration_policy="disabled",
)
def not_converted(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", acks="all")
    lab.consume("billing-1", "orders", group="billing", library="java")
    lab.consume("calm", "orders", group="calm", library="java", group_protocol="consumer")
    lab.wait(9)
    began = lab.consume("billing-2", "orders", group="billing", library="java", group_protocol="consumer").started
    lab.consume("billing-3", "orders", group="billing", group_protocol="consumer")
    lab.wait(14)
    lab.expect("refused_requests", at=began + 2, within=4, client_id="billing-2", resource="billing")
    lab.allow("refused_requests", client_id="billing-3", resource="billing")
    lab.never("refused_requests", client_id=["billing-1", "calm"])


_MAKES_MANY = """
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient(where)
for number in range(24):
    for future in admin.create_topics([NewTopic(f"fresh-{number}", 6, replication_factor=1)], request_timeout=15).values():
        try:
            future.result(30)
        except Exception as error:
            say("error", name=error.args[0].name())
"""


@workload("A quota of changes slows a program down that makes topics.", release=LAST_OF_THREE, quota_window_num="3")
def quota_of_changes(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "controller_mutation_rate=2"]
    lab.tool("kafka.admin.ConfigCommand", *words, "--entity-type", "clients", "--entity-name", "deploys")
    began = _program(lab, "deploys", "admin", _MAKES_MANY)
    lab.admin("calm", "create fine 2")
    lab.wait(24)
    lab.expect("throttled", at=began + 4, within=8, client_id="deploys")
    lab.never("throttled", client_id=["calm", "shop"])
    lab.allow("changes", client_id=["deploys", "calm"])
    lab.allow("refused_requests", client_id="deploys", error_name="THROTTLING_QUOTA_EXCEEDED")


_DELETES_GROUPS = """
from confluent_kafka.admin import AdminClient
admin = AdminClient(where)
for future in admin.delete_consumer_groups(["billing"]).values():
    try:
        future.result(20)
    except Exception as error:
        say("error", name=error.args[0].name())
time.sleep(1)
"""


@workload("An operator wants to delete a group that is at work.", variants={"2-8": {"release": ZOOKEEPER}})
def still_at_work(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", acks="all")
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    began = _program(lab, "operator", "admin", _DELETES_GROUPS)
    lab.wait(8)
    lab.expect(
        "refused_requests",
        at=began + 1,
        within=2,
        client_id="operator",
        resource="billing",
        error_name="NON_EMPTY_GROUP",
    )
    lab.never("refused_requests", client_id="billing")


_PAUSES = """
reader = Consumer({**where, "group.id": "CLIENT", "auto.offset.reset": "earliest", "group.protocol": "PROTOCOL"})
reader.subscribe(["orders"])
until = time.time() + 12
while time.time() < until:
    reader.poll(0.2)
reader.pause(reader.assignment())
while True:
    reader.poll(0.2)
"""


@workload("A circuit breaker pauses a consumer's partitions and never resumes them; it polls and heartbeats on.")
def paused_for_good(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=20)
    lab.consume("calm", "orders", group="calm")
    for protocol in ("consumer", "classic"):
        began = _program(
            lab,
            f"stuck-{protocol}",
            "consume",
            _PAUSES.replace("PROTOCOL", protocol).replace("CLIENT", f"stuck-{protocol}"),
        )
        lab.expect("stopped_reading", at=began + 12.5, within=2, client_id=f"stuck-{protocol}")
    lab.wait(56)
    lab.never("stopped_reading", client_id="calm")
    lab.allow("tiny_batches", client_id="shop")


@workload("Records take longer than max.poll.interval.ms; the member is static, and does not leave.")
def static_and_too_slow(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=3, library="java")
    words = {"group": "billing", "library": "java", "session_timeout_ms": 10_000}
    lab.consume("billing-1", "orders", group_instance_id="i-1", **words)
    slow = {"max_poll_interval_ms": 7000, "max_poll_records": 5, "pause": 4}
    lab.consume("billing-2", "orders", group_instance_id="i-2", **words, **slow)
    lab.wait(45)
    lab.expect("max_poll_exceeded", client_id="billing-2", group_id="billing", group_instance_id="i-2")
    lab.expect("rebalances", client_id="billing-2", cause="poll timeout")
    lab.never("rebalances", cause="session timeout")
    for name in ("falling_behind", "refused_commits", "stopped_reading", "group_without_commits"):
        lab.allow(name, client_id="billing-2")


@workload("A client of Go does not log in, and it is the only one at that listener.", secure=True)
def alone_without_login(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("open", "orders", library="franz-go", bootstrap=lab.cluster.bootstrap("SASL"))
    lab.wait(30)
    lab.expect("reconnect_loop", client_id="open", cause="no login at a listener of SASL", severity="warning")


@workload("A record is larger than the answers that a consumer of C takes; Java's takes it.")
def answer_too_large(lab: Lab) -> None:
    lab.topic("images", 1)
    lab.produce("thumbs", "images", size=2000)
    sizes = {"message_max_bytes": 60_000, "fetch_max_bytes": 60_000, "receive_message_max_bytes": 61_000}
    lab.consume("gallery", "images", group="gallery", **sizes)
    lab.consume("archive", "images", group="archive", library="java", max_partition_fetch_bytes=60_000)
    lab.wait(8)
    came = lab.produce("camera", "images", size=300_000, count=1).finish()
    lab.wait(28)
    lab.expect("stuck_fetch_loop", at=came, within=8, client_id="gallery", topic="images")
    lab.never("stuck_fetch_loop", client_id="archive")
    lab.never("connection_churn", client_id="gallery")
    for analysis in ("falling_behind", "no_compression"):
        lab.allow(analysis)
