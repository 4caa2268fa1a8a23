"""More healthy workloads: what differs most from those of healthy.py and everyday.py."""

import json
import random
import sys
import time

from tests.support.kafka.jars import NEWEST, java
from tests.truth.healthy import CALM, LIBRARIES, streams_job
from tests.truth.lab import Client, Lab, workload

MEMBERS = {
    "java": {"library": "java"},
    "kafka-python": {"library": "kafka-python"},
    "aiokafka": {"library": "aiokafka"},
}
POOL = """
import signal, sys, time
from confluent_kafka import Producer
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
def one(number):
    words = {"bootstrap.servers": sys.argv[1], "client.id": "sink", "transactional.id": f"sink-{number}"}
    producer = Producer(words)
    producer.init_transactions(60)
    return producer
used = one(0)
for number in range(1, 7):
    one(number)
number = 1
while not ended:
    following = one(number % 7)
    used.begin_transaction()
    for _ in range(30):
        used.produce("paid", b"paid" * 20)
        used.poll(0)
        time.sleep(0.2)
    used.flush(30)
    used.commit_transaction(60)
    used, number = following, number + 1
"""


def _calm(lab: Lab) -> None:
    lab.never("rebalances", cause=CALM)
    lab.never("rebalance_storm")
    lab.never("falling_behind")


@workload("A job of a group comes each six seconds, reads what is there, commits and leaves.", healthy=True)
def cron_consumer(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", rate=3)
    libraries = "librdkafka", "kafka-python", "aiokafka"
    jobs = [lab.consume(f"nightly-{each}", "orders", group=f"nightly-{each}", library=each) for each in libraries]
    for _ in range(6):
        lab.wait(4)
        for job in jobs:
            job.stop()
        lab.wait(2)
        for job in jobs:
            job.start()
    lab.wait(5)
    _calm(lab)
    lab.never("reconnect_loop")
    lab.never("connection_churn")


@workload(
    "Members of Java 3.9 are replaced by members of 4.3, one after the other, under the same names.", healthy=True
)
def library_upgraded(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10)
    old = [
        lab.consume("billing", "orders", group="billing", library="java", release="3.9.2", host=f"pod-{n}")
        for n in range(3)
    ]
    lab.wait(14)
    for number, member in enumerate(old):
        member.stop()
        lab.consume("billing", "orders", group="billing", library="java", host=f"pod-{number}")
        lab.wait(6)
    lab.wait(5)
    lab.expect("rebalances", group_id="billing", cause="deployment")
    lab.never("readiness", verdict=["will break", "may break"])
    _calm(lab)


@workload(
    "A group goes over from the classic protocol to KIP-848's, one member after the other.",
    healthy=True,
    variants={"java": {"library": "java"}},
)
def to_the_new_protocol(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=3)
    old = [lab.consume(f"billing-{n}", "orders", group="billing", library=library) for n in range(3)]
    lab.wait(14)
    for member in old:
        member.stop()
        new = {"library": library, "group_protocol": "consumer", "host": member.client_id}
        lab.consume(f"{member.client_id}-new", "orders", group="billing", **new)
        lab.wait(6)
    lab.wait(5)
    lab.never("rebalances", cause="unknown")
    _calm(lab)


@workload(
    "Members of the classic protocol join a group of KIP-848's, and leave it; so does one of its own.", healthy=True
)
def members_of_both_protocols(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=3)
    words = {"topic": "orders", "group": "billing"}
    lab.consume("billing-new", library="java", group_protocol="consumer", **words)
    lab.wait(10)
    for library in ("librdkafka", "java"):
        old = lab.consume(f"billing-{library}", library=library, **words)
        lab.wait(10)
        other = lab.consume(f"billing-new-{library}", group_protocol="consumer", **words)
        lab.wait(10)
        other.stop()
        lab.wait(8)
        old.stop()
        lab.wait(8)
    lab.never("rebalances", cause=["poll timeout", "session timeout", "went silent", "unknown"])
    _calm(lab)


@workload(
    "People at work with the tools of Kafka: they write a few lines, read them, describe, set offsets.", healthy=True
)
def console_tools(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing")
    where = ["--bootstrap-server", lab.cluster.bootstrap("PLAIN")]
    reads = ["--topic", "orders", "--from-beginning", "--max-messages", "10", "--timeout-ms", "8000"]
    for number in range(3):
        command = java(NEWEST, "org.apache.kafka.tools.consumer.ConsoleConsumer", *where, *reads, heap="96m")
        lab.program(f"console-{number}", "consume", "java", command, host="laptop").finish()
        lines = java(NEWEST, "org.apache.kafka.tools.ConsoleProducer", *where, "--topic", "orders", heap="96m")
        shell = ["sh", "-c", 'printf "a\\nb\\nc\\n" | exec "$@"', "sh", *lines]
        lab.program(f"lines-{number}", "produce", "java", shell, host="laptop").finish()
    lab.tool("org.apache.kafka.tools.TopicCommand", *where, "--describe")
    lab.tool("org.apache.kafka.tools.GetOffsetShell", *where, "--topic", "orders")
    lab.tool("org.apache.kafka.tools.GroupsCommand", *where, "--list")
    lab.tool("org.apache.kafka.tools.LogDirsCommand", *where, "--describe")
    lab.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *where, "--describe", "--group", "billing")
    _calm(lab)
    lab.never("reconnect_loop")


@workload("Fetches that wait up to twenty-five seconds for data that hardly come.", healthy=True)
def minute_polls(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=0.15)
    lab.consume("billing", "orders", group="billing", fetch_min_bytes=50_000, fetch_wait_max_ms=25_000)
    java_words = {"library": "java", "fetch_min_bytes": 50_000, "fetch_max_wait_ms": 20_000}
    lab.consume("audit", "orders", group="audit", **java_words)
    python = {"fetch_min_bytes": 50_000, "fetch_max_wait_ms": 15_000}
    for library in ("kafka-python", "aiokafka"):
        lab.consume(f"copy-{library}", "orders", group=f"copy-{library}", library=library, **python)
    lab.wait(75)
    _calm(lab)
    lab.never("slow_broker")
    lab.never("unanswered_requests")


@workload("Clients with hardly anything to do: a record each twenty seconds.", healthy=True)
def hardly_anything(lab: Lab) -> None:
    lab.topic("alarms", 1)
    for library in LIBRARIES:
        lab.produce(f"alarm-{library}", "alarms", library=library, rate=0.05, acks="all")
        lab.consume(f"pager-{library}", "alarms", group=f"pager-{library}", library=library)
    lab.wait(80)
    _calm(lab)


@workload("Batches of 200 KB over links of two megabits a second, which carry them.", healthy=True)
def thin_lines(lab: Lab) -> None:
    lab.topic("images", 1)
    for library in ("librdkafka", "java", "kafka-python"):
        host = f"camera-{library}"
        lab.network.limit_from(host, 2000)
        size = {"max_request_size": 1_000_000} if library != "librdkafka" else {}
        lab.produce(host, "images", library=library, rate=0.5, size=200_000, acks="all", **size)
        lab.network.limit(f"viewer-{library}", 8000)
        lab.consume(f"viewer-{library}", "images", group=f"viewer-{library}", library=library)
    lab.wait(35)
    _calm(lab)
    lab.never("slow_broker")
    lab.never("broker_away")


@workload("A consumer subscribes to a pattern; its 120 topics come and go.", healthy=True)
def topics_come_and_go(lab: Lab) -> None:
    many = [f"create tenant-{number} 1" for number in range(120)]
    lab.topic("tenant-all", 1)
    lab.admin("setup", *many)
    asks = {"topic_metadata_refresh_interval_ms": 4000}
    for number in (1, 2):
        lab.consume(f"billing-{number}", "^tenant-.*", group="billing", **asks)
    lab.produce("shop", "tenant-7", rate=10)
    lab.wait(9)
    for number in range(3):
        lab.admin(f"portal-{number}", f"create tenant-new-{number} 2", f"delete tenant-{number}", host="portal")
        lab.produce(f"first-{number}", f"tenant-new-{number}", rate=0, count=5, host="portal").finish()
        lab.wait(7)
    lab.wait(6)
    lab.never("rebalances", cause=CALM)
    lab.never("offset_reset")


@workload("Fifteen groups of three libraries read one topic.", healthy=True)
def many_groups(lab: Lab) -> None:
    lab.topic("events", 3)
    lab.produce("shop", "events", rate=10)
    for number in range(15):
        library = ("librdkafka", "aiokafka", "kafka-python")[number % 3]
        lab.consume(f"team-{number}", "events", group=f"team-{number}", library=library, host=f"node-{number % 4}")
    lab.wait(25)
    _calm(lab)


@workload(
    "An autoscaler makes a deployment larger and smaller, over and over; all pods have one client id.",
    healthy=True,
    variants={"new": {"group_protocol": "consumer"}, "kafka-python": {"library": "kafka-python"}},
)
def autoscaler(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=20)
    pods: list[Client] = []
    for wanted in (2, 5, 3, 4, 1, 3):
        while len(pods) < wanted:
            host = f"pod-{len(lab.clients)}"
            pods.append(lab.consume("billing", "orders", group="billing", host=host, **settings))
        while len(pods) > wanted:
            pods.pop().stop()
        lab.wait(7)
    lab.allow("tiny_batches", client_id="shop")
    lab.never("rebalances", cause=CALM)
    lab.never("falling_behind")


@workload("Green takes over from blue under another group, which is deleted then.", healthy=True)
def blue_green(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=15)
    blue = [lab.consume(f"blue-{n}", "orders", group="billing-blue") for n in (1, 2)]
    lab.wait(9)
    for number in (1, 2):
        lab.consume(f"green-{number}", "orders", group="billing-green", library="aiokafka", auto_offset_reset="latest")
    lab.wait(8)
    for member in blue:
        member.stop()
    where = ["--bootstrap-server", lab.cluster.bootstrap("PLAIN")]
    lab.tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *where, "--delete", "--group", "billing-blue"
    )
    lab.wait(8)
    _calm(lab)
    lab.never("offset_reset")
    lab.never("coordinator_errors")


@workload(
    "A tenant's program looks at all topics, and may read its own only.",
    healthy=True,
    secure=True,
    allow_everyone_if_no_acl_found="false",
)
def tenants(lab: Lab) -> None:
    for name in ("bob-orders", "alice-orders"):
        lab.topic(name, 2)
    words = ["--bootstrap-server", lab.cluster.open, "--add", "--allow-principal", "User:bob", "--operation", "All"]
    for kind in ("topic", "group"):
        named = [f"--{kind}", "bob-", "--resource-pattern-type", "prefixed"]
        lab.tool("org.apache.kafka.tools.AclCommand", *words, *named)
    bob = {"listener": "SASL", "mechanism": "PLAIN", "user": "bob"}
    lab.produce("bob-shop", "bob-orders", **bob)
    lab.consume("bob-billing", "bob-orders", group="bob-billing", **bob)
    lab.consume("bob-search", "^.*-orders", group="bob-search", **bob)
    lab.consume("bob-java", "bob-orders", group="bob-java", library="java", **bob)
    lab.wait(15)
    lab.allow("plaintext_credentials")
    lab.never("unauthorized_access")
    _calm(lab)


@workload("Preferred leaders are elected under clients of Go and Python.", healthy=True, nodes=3)
def elections_of_others(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.stop_broker(1)
    lab.start_broker(1)
    for library in ("franz-go", "sarama", "kafka-python", "aiokafka"):
        acks = {} if library in {"franz-go", "sarama"} else {"acks": "all"}
        lab.produce(f"shop-{library}", "orders", library=library, **acks)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(10)
    options = ["--election-type", "preferred", "--all-topic-partitions"]
    lab.tool("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", lab.cluster.open, *options)
    lab.wait(12)
    lab.allow("acks_below_all", client_id="shop-sarama")
    _calm(lab)
    lab.never("broker_away")
    lab.never("lost_records")


@workload("Partitions are moved to another broker with a throttle, under load.", healthy=True, nodes=3)
def moved_with_throttle(lab: Lab) -> None:
    lab.cluster.topic("orders", 2, 2, {})
    lab.produce("shop", "orders", acks="all", rate=50, size=1000)
    lab.produce("shop-java", "orders", library="java", rate=20)
    lab.produce("shop-python", "orders", library="kafka-python", acks="all", rate=10)
    for library in LIBRARIES:
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(9)
    moves = [{"topic": "orders", "partition": n, "replicas": [3, 1 + n]} for n in range(2)]
    plan = lab.properties("plan.json", json.dumps({"version": 1, "partitions": moves}))
    words = ["--bootstrap-server", lab.cluster.open, "--reassignment-json-file", plan]
    main = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    lab.tool(main, *words, "--execute", "--throttle", "300000")
    lab.wait(14)
    lab.tool(main, *words, "--verify")
    lab.wait(6)
    lab.allow("tiny_batches")
    _calm(lab)
    lab.never("broker_away")
    lab.never("lost_records")
    lab.never("throttled")


@workload("Groups with a broker of 0.11 are scaled and restarted.", healthy=True, release="0.11.0.3")
def groups_of_0_11(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", acks="all", rate=2)
    java_words = {"library": "java", "release": "0.11.0.3"}
    members = [lab.consume(f"old-{n}", "orders", group="old", **java_words) for n in range(2)]
    members += [lab.consume(f"python-{n}", "orders", group="python", library="kafka-python") for n in range(3)]
    lab.wait(14)
    for member in (members[0], members[2], members[3]):
        member.restart()
        lab.wait(6)
    for software in ("apache-kafka-java", "kafka-python"):
        other = "python" if software == "apache-kafka-java" else "old"
        lab.never("inventory", client_id=f"~^{other}-", software=software)
    _calm(lab)


@workload("Two instances of Kafka Streams with exactly-once; one is restarted.", healthy=True)
def streams_exactly_once(lab: Lab) -> None:
    lab.topic("lines", 2)
    lab.topic("counts", 2)
    lab.produce("shop", "lines", rate=10, keys=10)
    for number in (1, 2):
        streams_job(lab, f"counter-{number}", guarantee="exactly_once_v2")
        lab.wait(12)
    lab.consume("reader", "counts", group="reader", isolation_level="read_committed")
    lab.wait(8)
    lab.clients[2].restart()
    lab.wait(15)
    _calm(lab)


@workload("Caches read a compacted topic from its beginning whenever they start; they have no group.", healthy=True)
def caches(lab: Lab) -> None:
    lab.topic("settings", 2, cleanup_policy="compact")
    lab.produce("import", "settings", rate=0, count=400, keys=50, linger_ms=20).finish()
    lab.produce("editor", "settings", rate=1, keys=50)
    loads = [
        lab.consume("cache", "settings", library="kafka-python", assign=[0, 1], commit=-1, host=f"pod-{n}")
        for n in range(4)
    ]
    lab.wait(8)
    for load in loads:
        load.restart()
        lab.wait(3)
    _calm(lab)
    lab.never("group_without_commits")
    lab.never("offset_reset")


@workload(
    "A sink with a pool of transactional ids takes the next one at each checkpoint, as Flink's does.", healthy=True
)
def pool_of_transactional_ids(lab: Lab) -> None:
    lab.topic("paid", 1)
    where = lab.cluster.bootstrap("PLAIN")
    lab.program("sink", "transact", "librdkafka", [sys.executable, "-c", POOL, where])
    reads = {"group": "ledger", "isolation_level": "read_committed"}
    lab.consume("ledger", "paid", library="java", **reads)
    lab.wait(30)
    _calm(lab)
    lab.never("producer_fenced")


@workload("Eighteen programs behind one address, some of one name.", healthy=True)
def behind_one_address(lab: Lab) -> None:
    lab.topic("orders", 6)
    for number in range(6):
        lab.produce("app", "orders", host="nat", rate=2, library=("librdkafka", "aiokafka")[number % 2], acks="all")
    for group in ("billing", "audit", "search"):
        for _ in range(4):
            lab.consume(
                "app", "orders", group=group, host="nat", library="kafka-python" if group == "audit" else "librdkafka"
            )
    lab.wait(20)
    _calm(lab)


@workload("A group with two members in standby: there is one partition.", healthy=True)
def standby(lab: Lab) -> None:
    lab.topic("ledger", 1)
    lab.produce("shop", "ledger")
    for number in range(3):
        lab.consume(f"keeper-{number}", "ledger", group="keeper", library="aiokafka")
    lab.wait(12)
    lab.clients[1].stop()
    lab.wait(8)
    lab.allow("idle_members")
    _calm(lab)


@workload("A capture that ends within a burst, which the consumer will have read soon.", healthy=True)
def ends_in_a_burst(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=5)
    lab.consume("billing", "orders", group="billing", library="java", pause=0.005)
    lab.consume("audit", "orders", group="audit", library="aiokafka")
    lab.wait(20)
    lab.produce("import", "orders", rate=400, count=4000, linger_ms=50)
    lab.wait(7)
    lab.cut_short = True
    lab.never("falling_behind", severity=["critical"])
    lab.never("rebalances", cause=CALM)


@workload("Each broker of three is restarted under groups of Go and Python.", healthy=True, nodes=3)
def rolled_under_others(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("franz-go", "sarama", "kafka-python", "aiokafka"):
        acks = {} if library in {"franz-go", "sarama"} else {"acks": "all"}
        lab.produce(f"shop-{library}", "orders", library=library, **acks)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(12)
    for node in (1, 2, 3):
        lab.stop_broker(node)
        lab.wait(2)
        lab.start_broker(node)
        lab.wait(5)
    lab.allow("acks_below_all", client_id="shop-sarama")
    lab.never("rebalances", cause=CALM)
    lab.never("lost_records")
    lab.never("falling_behind")


@workload("The broker dates the records; a producer's clock is ten minutes off.", healthy=True)
def dated_by_the_broker(lab: Lab) -> None:
    lab.topic("orders", 2, message_timestamp_type="LogAppendTime")
    lab.produce("shop", "orders", shift=600)
    lab.produce("shop-behind", "orders", shift=-600, library="kafka-python", acks="all")
    lab.consume("billing", "orders", group="billing")
    lab.wait(14)
    _calm(lab)
    lab.never("late_records")


@workload(
    "Pods of a deployment are replaced one by one; each new pod has a name and an address of its own.",
    healthy=True,
    variants={**MEMBERS, "new": {"group_protocol": "consumer"}},
)
def pods_replaced(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10)
    pods = [lab.consume(f"billing-7d9f-{n}", "orders", group="billing", **settings) for n in range(3)]
    lab.wait(12)
    for number, pod in enumerate(pods):
        lab.consume(f"billing-5c4b-{number}", "orders", group="billing", **settings)
        lab.wait(4)
        pod.stop()
        lab.wait(3)
    lab.wait(6)
    _calm(lab)


@workload(
    "Functions of a cloud write a record and are frozen, then killed; they share a name and five addresses.",
    healthy=True,
)
def functions(lab: Lab) -> None:
    lab.topic("clicks", 3)
    lab.consume("collector", "clicks", group="collector")
    for number in range(18):
        library = ("librdkafka", "kafka-python")[number % 2]
        lab.produce("function", "clicks", rate=0.4, host=f"worker-{number % 5}", library=library, acks="all")
        lab.wait(0.8)
        if number > 5:
            lab.clients[number - 5].kill()
    lab.wait(2)
    _calm(lab)
    lab.never("reconnect_loop")
    lab.never("producer_fenced")


@workload("Members of a share group take their time for each record; one after the other is restarted.", healthy=True)
def slow_share_group(lab: Lab) -> None:
    lab.topic("tasks", 2)
    lab.produce("shop", "tasks", rate=4)
    workers = [
        lab.client(f"worker-{n}", "share", topic="tasks", group="workers", library="java", pause=0.4) for n in range(2)
    ]
    lab.wait(14)
    for worker in workers:
        worker.restart()
        lab.wait(8)
    _calm(lab)


@workload(
    "An administrator's evening: settings, permissions, offsets, elections; records and a group are deleted.",
    healthy=True,
    secure=True,
    nodes=3,
)
def evening_of_changes(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", acks="all")
    lab.consume("billing", "orders", group="billing")
    old = lab.consume("old", "orders", group="old")
    lab.wait(8)
    old.stop()
    where = ["--bootstrap-server", lab.cluster.bootstrap("PLAIN")]
    tools = "org.apache.kafka.tools"
    topic = ["--entity-type", "topics", "--entity-name", "orders"]
    lab.tool("kafka.admin.ConfigCommand", *where, "--alter", *topic, "--add-config", "retention.ms=90000000")
    lab.tool("kafka.admin.ConfigCommand", *where, "--describe", *topic)
    lab.tool(
        f"{tools}.AclCommand",
        *where,
        "--add",
        "--allow-principal",
        "User:bob",
        "--operation",
        "Read",
        "--topic",
        "orders",
    )
    lab.tool(f"{tools}.AclCommand", *where, "--list")
    lab.tool(f"{tools}.consumer.group.ConsumerGroupCommand", *where, "--delete", "--group", "old")
    gone = lab.properties(
        "gone.json", '{"partitions": [{"topic": "orders", "partition": 0, "offset": 5}], "version": 1}'
    )
    lab.tool(f"{tools}.DeleteRecordsCommand", *where, "--offset-json-file", gone)
    lab.tool(f"{tools}.LeaderElectionCommand", *where, "--election-type", "preferred", "--all-topic-partitions")
    lab.tool(f"{tools}.MetadataQuorumCommand", *where, "describe", "--status")
    lab.tool(f"{tools}.BrokerApiVersionsCommand", *where)
    lab.tool(f"{tools}.TransactionsCommand", *where, "list")
    lab.wait(5)
    _calm(lab)
    lab.never("offset_reset")


@workload(
    "Clients of four libraries, all of whose settings that traffic shows are chosen at random.",
    healthy=True,
    variants={f"seed-{seed}": {"seed": seed} for seed in (2, 3, 4)},
)
def explained_at_random(lab: Lab, seed: int = 1) -> None:
    chance = random.Random(f"d{seed}")
    lab.topic("orders", 4)
    for library in LIBRARIES:
        of_c = library == "librdkafka"
        produces: dict[str, object] = {
            "acks": "all",
            "linger_ms": chance.choice([0, 5, 20, 100, 400, 900]),
            "batch_size": chance.choice([4_000, 16_000, 100_000]),
            "request_timeout_ms": chance.randint(9_000, 60_000),
        }
        if library in {"librdkafka", "java"}:
            produces |= {"delivery_timeout_ms": chance.randint(70_000, 200_000)}
        if library == "aiokafka":
            produces["max_batch_size"] = produces.pop("batch_size")
        rate = chance.choice([1, 15, 60, 150])
        lab.produce(f"shop-{library}", "orders", library=library, rate=rate, size=chance.choice([50, 400]), **produces)
        beats = chance.randint(700, 2500)
        consumes: dict[str, object] = {
            "heartbeat_interval_ms": beats,
            "session_timeout_ms": beats * 3 + chance.randint(4000, 9000),
            "max_poll_interval_ms": chance.randint(25_000, 120_000),
            "auto_commit_interval_ms": chance.randint(700, 7000),
            "fetch_wait_max_ms" if of_c else "fetch_max_wait_ms": chance.randint(60, 2500),
            "fetch_min_bytes": chance.choice([1, 200, 4000]),
            "fetch_max_bytes": chance.randint(2_000_000, 40_000_000),
            "max_partition_fetch_bytes": chance.randint(100_000, 900_000),
            "isolation_level": chance.choice(["read_committed", "read_uncommitted"]),
            "auto_offset_reset": "earliest",
        }
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, **consumes)
    lab.wait(35)
    lab.allow("tiny_batches")
    _calm(lab)


@workload("Consumers commit each record by hand, and there is one a second.", healthy=True)
def commits_each(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=1)
    for library in ("librdkafka", "java", "kafka-python"):
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, commit=1)
    lab.wait(25)
    lab.allow("commit_storm")
    _calm(lab)


@workload("A producer's records have one of two keys, as a flag is one.", healthy=True)
def flag_as_key(lab: Lab) -> None:
    lab.topic("switches", 4)
    lab.produce("switch", "switches", rate=20, keys=2, linger_ms=100)
    lab.consume("light", "switches", group="light")
    lab.wait(14)
    lab.allow("hot_keys")
    lab.allow("skewed_partitions")
    _calm(lab)


@workload("A program polls rarely but within its time, and its group rebalances meanwhile.", healthy=True)
def polls_rarely(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=1.5)
    words = {"library": "java", "max_poll_records": 10, "max_poll_interval_ms": 30_000, "pause": 0.5}
    lab.consume("billing-1", "orders", group="billing", **words)
    lab.wait(12)
    lab.consume("billing-2", "orders", group="billing", **words)
    lab.wait(20)
    lab.never("max_poll_exceeded")
    lab.never("rebalances", cause=CALM)


@workload("A group's members are on hosts whose ways to the broker differ: 2 ms, 80 ms and a thin line.", healthy=True)
def ways_differ(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=20, size=400)
    lab.network.delay("billing-2", 80)
    lab.network.limit("billing-3", 1500)
    for number, library in ((1, "librdkafka"), (2, "java"), (3, "kafka-python")):
        lab.consume(
            f"billing-{number}",
            "orders",
            group="billing",
            library=library,
            **({"partition_assignment_strategy": "range"} if library == "librdkafka" else {}),
        )
    lab.wait(22)
    began = time.time()
    lab.clients[1].restart()
    lab.wait(max(1.0, 12 - (time.time() - began)))
    lab.allow("tiny_batches", client_id="shop")
    _calm(lab)
