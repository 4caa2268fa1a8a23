"""Workloads about which nothing critical, and at most one warning, may be said."""

import shlex

from tests.support.kafka.jars import java
from tests.truth.lab import SOURCES, Client, Lab, workload

LIBRARIES = ("librdkafka", "kafka-python", "aiokafka", "java")


@workload("Four consumers of a group are restarted one after the other, each as it should be.", healthy=True)
def rolling_restart(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    members = [lab.consume(f"billing-{number}", "orders", group="billing") for number in range(4)]
    lab.wait(8)
    for member in members:
        member.restart()
        lab.wait(4)
    lab.expect("rebalances", group_id="billing", cause="deployment")
    lab.never("rebalances", cause=["session timeout", "poll timeout", "restart loop", "went silent"])


@workload("Consumers of four libraries have nothing to do: nobody produces.", healthy=True)
def idle_at_night(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=0, count=20).finish()
    for library in LIBRARIES:
        lab.consume(f"night-{library}", "orders", group=f"night-{library}", library=library)
    lab.wait(20)


@workload(
    "Brokers of three are stopped and started again one after the other; all is replicated.", healthy=True, nodes=3
)
def rolling_brokers(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    lab.produce("shop", "orders", acks="all", enable_idempotence=True)
    lab.consume("billing", "orders", group="billing")
    lab.produce("shop-java", "orders", library="java")
    lab.wait(8)
    for node in (1, 2):
        lab.stop_broker(node)
        lab.wait(3)
        lab.start_broker(node)
        lab.wait(4)


@workload("Transactional producers, and consumers that read what is committed.", healthy=True)
def transactions(lab: Lab) -> None:
    lab.topic("paid", 2)
    for library in ("librdkafka", "java"):
        copier = f"copier-{library}"
        lab.client(copier, "transact", topic="paid", library=library, batch=5, transactional_id=copier)
        reads = {"group": f"readers-{library}", "library": library, "isolation_level": "read_committed"}
        lab.consume(f"reader-{library}", "paid", **reads)
    lab.wait(15)


@workload("Keyed writes to a compacted topic, by all libraries of Python.", healthy=True)
def compacted(lab: Lab) -> None:
    lab.topic("profiles", 3, cleanup_policy="compact")
    for library in LIBRARIES[:3]:
        lab.produce(f"profiles-{library}", "profiles", library=library, keys=20)
        lab.consume(f"cache-{library}", "profiles", library=library, group=f"cache-{library}")
    lab.wait(12)
    lab.allow("acks_below_all", client_id="profiles-aiokafka")  # its default is acks=1


@workload("Members with the cooperative assignor join and leave.", healthy=True)
def cooperative_joins(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders")
    for number in range(3):
        settings = {"partition_assignment_strategy": "cooperative-sticky"}
        lab.consume(f"billing-{number}", "orders", group="billing", **settings)
        lab.wait(6)
    lab.clients[-1].stop()
    lab.wait(5)
    lab.never("rebalances", cause=["session timeout", "poll timeout", "restart loop", "went silent"])


@workload("Members of KIP-848's protocol join and leave, of Java and librdkafka.", healthy=True)
def consumer_protocol(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders")
    for library in ("librdkafka", "java", "librdkafka"):
        number = len(lab.clients)
        lab.consume(f"billing-{number}", "orders", group="billing", library=library, group_protocol="consumer")
        lab.wait(5)
    lab.clients[-1].stop()
    lab.wait(6)
    lab.never("rebalances", cause=["session timeout", "poll timeout", "restart loop", "went silent"])


@workload("Static members are restarted within their session.", healthy=True)
def static_members(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", group="billing", group_instance_id=f"host-{number}")
    lab.wait(7)
    for member in lab.clients[1:]:
        member.restart()
        lab.wait(4)


@workload("Programs that copy a topic to another one, as MirrorMaker does: one reads, the other writes.", healthy=True)
def mirror(lab: Lab) -> None:
    for name in ("orders", "eu.orders"):
        lab.topic(name, 3)
    lab.produce("shop", "orders", rate=10)
    lab.consume("mirror-source", "orders", group="mirror", library="java", host="mirror")
    mirrored = {"library": "java", "rate": 10, "host": "mirror", "compression_type": "gzip", "linger_ms": 100}
    lab.produce("mirror-target", "eu.orders", **mirrored)
    lab.consume("eu", "eu.orders", group="eu")
    lab.wait(14)


@workload("A scheduler starts a short job each second, which writes and ends.", healthy=True)
def short_jobs(lab: Lab) -> None:
    lab.topic("results", 2)
    for number in range(12):
        lab.produce(f"job-{number}", "results", rate=0, count=5, host="scheduler").finish()
    lab.consume("collector", "results", group="collector")
    lab.wait(6)


@workload("Clients of all libraries over TLS.", healthy=True, secure=True)
def tls(lab: Lab) -> None:
    lab.topic("orders", 2)
    for library in LIBRARIES:
        lab.produce(f"shop-{library}", "orders", library=library, listener="TLS", acks="all")
    lab.consume("billing", "orders", group="billing", listener="TLS")
    lab.wait(10)


@workload("Clients that log in with SCRAM in the clear, and with PLAIN over TLS.", healthy=True, secure=True)
def logins(lab: Lab) -> None:
    lab.topic("orders", 2)
    scram = {"listener": "SASL", "mechanism": "SCRAM-SHA-512"}
    lab.produce("shop", "orders", **scram)
    lab.consume("billing", "orders", group="billing", library="kafka-python", **scram)
    lab.produce("shop-tls", "orders", listener="SASL_TLS", library="java")
    lab.consume("billing-tls", "orders", group="billing-tls", listener="SASL_TLS", mechanism="SCRAM-SHA-256")
    lab.wait(10)


@workload("A night of administration: topics made, described and deleted, groups looked at.", healthy=True)
def admin_scripts(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing")
    lab.wait(6)
    for number in range(4):
        lab.admin(
            f"script-{number}", "list", f"create temporary-{number} 3", "configs orders", "groups", "offsets billing"
        )
        lab.admin(f"script-{number}", f"delete temporary-{number}", "list")
    lab.wait(3)


@workload("Java's clients of 3.9 with a broker of 3.9.", healthy=True, release="3.9.2")
def kafka_3_9(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", library="java", release="3.9.2")
    lab.consume("billing", "orders", group="billing", library="java", release="3.9.2")
    lab.produce("shop-c", "orders")
    lab.wait(12)


@workload("Clients of today, and Java's of 2.8, with a broker of 2.8.", healthy=True, release="2.8.2")
def kafka_2_8(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", library="java", release="2.8.2")
    lab.consume("billing", "orders", group="billing", library="java", release="2.8.2")
    lab.produce("shop-c", "orders")
    lab.consume("billing-c", "orders", group="billing-c", library="kafka-python")
    lab.wait(12)
    lab.allow("acks_below_all", client_id="shop")  # the default of its time


@workload("Consumers that wait long for little: large fetch.min.bytes and fetch.max.wait.ms.", healthy=True)
def long_polls(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=1)
    lab.consume("billing", "orders", group="billing", fetch_min_bytes=100_000, fetch_wait_max_ms=5_000)
    java = {"library": "java", "fetch_min_bytes": 100_000, "fetch_max_wait_ms": 4_000}
    lab.consume("audit", "orders", group="audit", **java)
    lab.wait(20)


@workload("Records of 300 KB, well within what the broker takes.", healthy=True)
def large_records(lab: Lab) -> None:
    lab.topic("images", 1)
    lab.produce("camera", "images", rate=1, count=8, size=300_000, compression_type="gzip")
    lab.consume("viewer", "images", group="viewer")
    lab.wait(12)


@workload("One producer of each codec.", healthy=True)
def codecs(lab: Lab) -> None:
    lab.topic("logs", 2)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        lab.produce(f"logs-{codec}", "logs", rate=20, size=500, compression_type=codec, linger_ms=200)
    lab.consume("search", "logs", group="search", library="java")
    lab.wait(12)


@workload("Leaders go back to the preferred replicas, which an administrator asks for.", healthy=True, nodes=3)
def preferred_leaders(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.stop_broker(1)
    lab.start_broker(1)
    lab.produce("shop", "orders", acks="all")
    lab.produce("shop-java", "orders", library="java")
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    main = "org.apache.kafka.tools.LeaderElectionCommand"
    options = ["--election-type", "preferred", "--all-topic-partitions"]
    lab.tool(main, "--bootstrap-server", lab.cluster.open, *options)
    lab.wait(8)


@workload("A producer and a consumer that were there before begin to be captured, and stay.", healthy=True)
def midstream(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.consume("billing", "orders", group="billing", library="aiokafka")
    lab.produce("shop", "orders", library="aiokafka", acks="all")
    lab.wait(10)


CALM = ["session timeout", "poll timeout", "restart loop", "went silent"]  # causes of rebalances that nothing here has


@workload("Two programs read, change and write within transactions; one of them is restarted.", healthy=True)
def exactly_once(lab: Lab) -> None:
    for name in ("orders", "invoices"):
        lab.topic(name, 4)
    lab.produce("shop", "orders", rate=10)
    copiers = [
        lab.client(f"biller-{number}", "transfer", topic="orders", to="invoices", group="billers", library="java")
        for number in (1, 2)
    ]
    lab.consume("ledger", "invoices", group="ledger", isolation_level="read_committed")
    lab.wait(15)
    copiers[1].restart()
    lab.wait(10)
    lab.allow("small_transactions")  # each of what a poll brings
    lab.never("rebalances", cause=CALM)


@workload("Members of a share group come and go.", healthy=True)
def share_group(lab: Lab) -> None:
    lab.topic("tasks", 2)
    lab.produce("shop", "tasks", rate=10)
    for number in range(3):
        lab.client(f"worker-{number}", "share", topic="tasks", group="workers", library="java")
        lab.wait(4)
    lab.clients[-1].stop()
    lab.wait(6)
    lab.never("rebalances", cause=CALM)


@workload(
    "Clients of their time with an old broker.",
    healthy=True,
    release="0.11.0.3",
)
def kafka_0_11(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", library="java", release="0.11.0.3", acks="all")
    lab.consume("billing", "orders", group="billing", library="java", release="0.11.0.3")
    lab.produce("shop-python", "orders", library="kafka-python", acks="all")
    lab.consume("billing-python", "orders", group="billing-python", library="kafka-python")
    lab.produce("shop-c", "orders")
    lab.wait(14)


@workload("Programs of 0.8.2 with a broker of 0.8.2.", healthy=True, release="0.8.2.2")
def kafka_0_8(lab: Lab) -> None:
    lab.topic("orders", 2)
    broker = lab.cluster.bootstrap("PLAIN")
    writes = java("0.8.2.2", "kafka.tools.ConsoleProducer", "--broker-list", broker, "--topic", "orders", heap="96m")
    lines = f"(while sleep 0.2; do echo order; done) | exec {shlex.join(writes)}"
    lab.program("console-producer", "produce", "java", ["sh", "-c", lines])
    keeper = f"{lab.network.address('zookeeper')}:2181"
    words = ["--zookeeper", keeper, "--topic", "orders", "--from-beginning"]
    reads = java("0.8.2.2", "kafka.tools.ConsoleConsumer", *words, heap="96m")
    lab.program("console-consumer", "consume", "java", reads)
    lab.wait(18)
    lab.expect("readiness", client_id="~console-consumer", verdict="will break")
    lab.allow("readiness", client_id="console-producer", verdict=["may break", "will break"])
    lab.allow("acks_below_all", client_id="console-producer")


@workload("An idle night, then a morning with load.", healthy=True)
def night_and_morning(lab: Lab) -> None:
    lab.topic("orders", 4)
    idle = lab.produce("shop", "orders", rate=0.2, library="java")
    for library in ("java", "librdkafka", "aiokafka"):
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(25)
    lab.produce("shop-front", "orders", rate=400, size=300, linger_ms=20)
    lab.wait(10)
    assert idle.running


@workload("Producers with acks=0 and 1, and one that fills large batches.", healthy=True)
def kinds_of_producers(lab: Lab) -> None:
    lab.topic("metrics", 2)
    lab.produce("metrics-0", "metrics", acks="0")
    lab.produce("metrics-1", "metrics", acks="1", library="java", enable_idempotence="false")
    batches = {"linger_ms": 500, "batch_size": 1_000_000, "compression_type": "lz4"}
    lab.produce("metrics-batched", "metrics", rate=200, library="java", **batches)
    lab.consume("dashboard", "metrics", group="dashboard")
    lab.wait(14)
    lab.allow("acks_below_all", client_id=["metrics-0", "metrics-1"])


@workload("A scheduler's jobs share one client id.", healthy=True, variants={"java": {"library": "java"}})
def jobs_of_one_name(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("results", 2)
    lab.consume("collector", "results", group="collector")
    for number in range(8 if library == "java" else 16):
        lab.produce("job", "results", rate=0, count=20, library=library, host=f"worker-{number % 3}").finish()
    lab.wait(3)


@workload("A program begins from the beginning each day (here: 6 s).", healthy=True)
def begins_again_daily(lab: Lab) -> None:
    lab.topic("prices", 2)
    lab.produce("shop", "prices", rate=10)
    lab.consume("report", "prices", group="report", daily=6)
    lab.wait(22)


@workload("Keyed records and tombstones, in a topic that is compacted all the time.", healthy=True)
def tombstones(lab: Lab) -> None:
    often = {"segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "2000"}
    lab.topic("profiles", 1, cleanup_policy="compact", delete_retention_ms="100", **often)
    lab.produce("profiles", "profiles", rate=50, keys=5)
    lab.produce("eraser", "profiles", rate=10, keys=5, size=0)
    lab.wait(8)
    lab.consume("cache", "profiles", group="cache")
    lab.consume("cache-java", "profiles", group="cache-java", library="java")
    lab.wait(12)


@workload("Readers of committed records behind transactions of five seconds.", healthy=True)
def long_transactions(lab: Lab) -> None:
    lab.topic("paid", 1)
    lab.client("copier", "transact", topic="paid", batch=10, rate=10, hold=5, transactional_id="copier")
    for library in ("java", "librdkafka"):
        reads = {"group": f"reader-{library}", "library": library, "isolation_level": "read_committed"}
        lab.consume(f"reader-{library}", "paid", **reads)
    lab.wait(24)


@workload("Transactions that are aborted by choice.", healthy=True)
def aborted_transactions(lab: Lab) -> None:
    lab.topic("paid", 2)
    lab.client("copier", "transact", topic="paid", batch=5, rate=20, abort=1, transactional_id="copier")
    lab.consume("reader", "paid", group="reader", isolation_level="read_committed")
    lab.wait(14)


@workload(
    "A client starts before its topic is there.",
    healthy=True,
    variants={
        "aiokafka": {"library": "aiokafka"},
        "kafka-python": {"library": "kafka-python"},
        "2-8": {"release": "2.8.2"},
    },
)
def before_its_topic(lab: Lab, library: str = "librdkafka") -> None:
    lab.consume("billing", "orders", group="billing", library=library)
    lab.wait(4)
    lab.topic("orders", 3)
    lab.produce("shop", "orders")
    lab.wait(12)


@workload("Clients of Go.", healthy=True, variants={"2-8": {"release": "2.8.2"}, "3-9": {"release": "3.9.2"}})
def go(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in ("franz-go", "sarama"):
        lab.produce(f"shop-{library}", "orders", library=library)
        for number in (1, 2):
            lab.consume(f"billing-{library}-{number}", "orders", group=f"billing-{library}", library=library)
    lab.wait(10)
    lab.clients[2].restart()
    lab.wait(6)
    lab.allow("acks_below_all", client_id="shop-sarama")  # its default
    lab.never("rebalances", cause=CALM)


def streams_job(
    lab: Lab,
    name: str,
    source: str = "lines",
    sink: str = "counts",
    application: str = "counter",
    guarantee: str = "at_least_once",
    **settings: str,
) -> Client:
    words = [lab.cluster.bootstrap("PLAIN"), application, source, sink, str(lab.folder / f"state-{name}")]
    more = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
    command = java("streams", str(SOURCES / "Streams.java"), *words, guarantee, *more)
    return lab.program(name, "streams", "java", command)


def connect_worker(lab: Lab, name: str, *connectors: dict[str, str], **more: str) -> Client:
    """Start a worker of Connect whose group is ``connect``, and give it connectors."""
    settings = {
        "bootstrap.servers": lab.cluster.bootstrap("PLAIN"),
        "group.id": "connect",
        "client.id": name,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **{f"{kind}.storage.topic": f"connect-{kind}s" for kind in ("config", "offset")},
        "status.storage.topic": "connect-status",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "3",
        "scheduled.rebalance.max.delay.ms": "4000",
        "listeners": f"http://{lab.network.address(name)}:8083",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    file = lab.properties(f"{name}.properties", "".join(f"{key}={value}\n" for key, value in settings.items()))
    command = java("connect", "org.apache.kafka.connect.cli.ConnectDistributed", file)
    worker = lab.program(name, "connect", "java", command)
    for connector in connectors:
        lab.post(f"http://{lab.network.address(name)}:8083/connectors", connector)
    return worker


@workload(
    "Workers of Kafka Connect with connectors for files; all but the first are restarted.",
    healthy=True,
    variants={"three": {"count": 3}},
)
def connect(lab: Lab, count: int = 2) -> None:
    lab.topic("lines", 2)
    source = lab.folder / "source.txt"
    source.write_text("".join(f"line {number}\n" for number in range(500)))
    sink = lab.folder / "sink.txt"
    connectors = [
        {"name": "reads", "connector.class": "FileStreamSource", "file": str(source), "topic": "lines"},
        {"name": "writes", "connector.class": "FileStreamSink", "file": str(sink), "topics": "lines", "tasks.max": "2"},
    ]
    connect_worker(lab, "connect-1", *connectors)
    workers = [connect_worker(lab, f"connect-{number}") for number in range(2, count + 1)]
    lab.wait(20)
    for worker in workers:
        worker.restart()
        lab.wait(20)
    assert sink.read_text()
    lab.never("rebalances", cause=CALM)


@workload("A job of Kafka Streams counts words in two threads.", healthy=True)
def streams(lab: Lab) -> None:
    lab.topic("lines", 2)
    lab.topic("counts", 2)
    lab.produce("shop", "lines", rate=10, keys=10)
    for number in (1, 2):
        streams_job(lab, f"counter-{number}")
        lab.wait(10)
    lab.consume("reader", "counts", group="reader")
    lab.wait(15)
    lab.clients[1].stop()
    lab.wait(5)
    lab.never("rebalances", cause=CALM)


@workload("MirrorMaker 2 copies topics to the same cluster under another name; it is restarted.", healthy=True)
def mirror_maker(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=5)
    lab.consume("billing", "orders", group="billing")
    where = lab.cluster.bootstrap("PLAIN")
    settings = {
        "clusters": "west,east",
        "west.bootstrap.servers": where,
        "east.bootstrap.servers": where,
        "west->east.enabled": "true",
        "west->east.topics": "orders",
        "west->east.groups": "billing",
        "replication.factor": "1",
        **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "status", "config")},
        **{f"{kind}.topic.replication.factor": "1" for kind in ("checkpoints", "heartbeats", "offset-syncs")},
    }
    file = lab.properties("mirror.properties", "".join(f"{key}={value}\n" for key, value in settings.items()))
    command = java("mirror", "org.apache.kafka.connect.mirror.MirrorMaker", file)
    program = lab.program("mirror", "mirror", "java", command)
    lab.wait(40)
    program.restart()
    lab.wait(40)
    lab.never("rebalances", cause=CALM)


@workload("A consumer is stopped for a while and catches up.", healthy=True, variants={"java": {"library": "java"}})
def catches_up(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    reader = lab.consume("billing", "orders", group="billing", library=library)
    lab.produce("shop", "orders", rate=200, linger_ms=50)
    lab.wait(8)
    reader.stop()
    lab.wait(8)
    reader.start()
    lab.wait(8)
    lab.never("rebalances", cause=CALM)


@workload(
    "A group is scaled up to six and down to one.",
    healthy=True,
    variants={
        "java": {"library": "java", "count": 3},
        "java-new": {"library": "java", "count": 3, "group_protocol": "consumer"},
        "new": {"group_protocol": "consumer"},
        "aiokafka": {"library": "aiokafka"},
        "kafka-python": {"library": "kafka-python", "release": "3.9.2"},
    },
)
def scaled(lab: Lab, count: int = 6, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=20)
    members = [lab.consume(f"billing-{number}", "orders", group="billing", **settings) for number in range(count)]
    lab.wait(8)
    for member in members[1:]:
        member.stop()
        lab.wait(2)
    lab.wait(4)
    lab.never("rebalances", cause=CALM)


@workload(
    "Static members of Java are restarted within their session.",
    healthy=True,
    variants={
        "aiokafka": {"library": "aiokafka"},
        "new": {"library": "java", "group_protocol": "consumer"},
    },
)
def static_restart(lab: Lab, library: str = "java", **settings: str) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    members = [
        lab.consume(
            f"billing-{n}", "orders", group="billing", library=library, group_instance_id=f"host-{n}", **settings
        )
        for n in (1, 2)
    ]
    lab.wait(10)
    for member in members:
        member.restart()
        lab.wait(5)
    lab.never("rebalances", cause=CALM)


@workload("A deployment replaces all eight members of a group at once.", healthy=True)
def all_at_once(lab: Lab) -> None:
    lab.topic("orders", 8)
    lab.produce("shop", "orders", rate=20)
    members = [lab.consume(f"billing-{number}", "orders", group="billing") for number in range(8)]
    lab.wait(9)
    for member in members:
        member.stop()
    for member in members:
        member.start()
    lab.wait(12)
    lab.never("rebalances", cause=CALM)


@workload("A record fails a few times, then it is handled.", healthy=True)
def retried_record(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    lab.consume("billing", "orders", group="billing", poison=30, retries=15)
    lab.wait(20)


@workload("Members get another assignor by a rolling restart: the old one stays in their lists.", healthy=True)
def assignor_replaced(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    old, new = "range,roundrobin", "roundrobin,range"
    members = [
        lab.consume(f"billing-{n}", "orders", group="billing", partition_assignment_strategy=old) for n in (1, 2)
    ]
    lab.wait(8)
    for member in members:
        member.stop()
        words = {"group": "billing", "partition_assignment_strategy": new, "host": member.client_id}
        lab.consume(f"{member.client_id}-new", "orders", **words)
        lab.wait(4)
    lab.never("rebalances", cause=CALM)


@workload("Records as large as their topic takes them.", healthy=True)
def as_large_as_may_be(lab: Lab) -> None:
    lab.topic("images", 1, max_message_bytes="60000")
    lab.produce("camera", "images", rate=2, size=58_000, flush=1)
    lab.consume("viewer", "images", group="viewer")
    lab.wait(10)
    lab.allow("near_max_message", client_id="camera")


@workload(
    "Consumers begin with a topic whose first records are gone.",
    healthy=True,
    variants={
        "java": {"library": "java"},
        "aiokafka": {"library": "aiokafka"},
    },
)
def first_records_gone(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20)
    lab.wait(5)
    lab.admin("retention", "purge orders 60")
    lab.consume("billing", "orders", group="billing", **settings)
    lab.wait(9)


@workload("A consumer works off what was produced before it came, a little at a time.", healthy=True)
def works_off(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("import", "orders", rate=0, count=900).finish()
    lab.produce("shop", "orders", rate=4)
    for library in ("librdkafka", "java", "aiokafka"):
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, pause=0.03)
    lab.wait(32)
    lab.never("falling_behind")


@workload("A deployment of eight members, one after the other: more generations than in many a storm.", healthy=True)
def long_rolling_restart(lab: Lab) -> None:
    lab.topic("orders", 8)
    lab.produce("shop", "orders")
    members = [lab.consume(f"billing-{number}", "orders", group="billing") for number in range(8)]
    lab.wait(9)
    for member in members:
        member.restart()
        lab.wait(6)
    lab.expect("rebalances", group_id="billing", cause="deployment")
    lab.never("rebalance_storm")


@workload("A producer writes much, and the broker has time for the others.", healthy=True)
def bulk_load(lab: Lab) -> None:
    lab.topic("bulk", 2)
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=20)
    lab.consume("billing", "orders", group="billing", commit=1)
    lab.wait(10)
    bulk = lab.produce("bulk", "bulk", rate=100, size=20_000)
    lab.wait(12)
    bulk.stop()
    lab.wait(6)
    lab.never("noisy_neighbour")
    lab.expect("commit_storm", client_id="billing")


@workload(
    "Each broker of three is restarted; one program has a coordinator there, transactions go on.", healthy=True, nodes=3
)
def rolled_with_transactions(lab: Lab) -> None:
    lab.topic("paid", 3, min_insync_replicas="2")
    for library in ("librdkafka", "java"):
        name = f"copier-{library}"
        lab.client(name, "transact", topic="paid", library=library, batch=5, transactional_id=name)
    lab.consume("reader", "paid", group="reader", isolation_level="read_committed")
    lab.wait(9)
    for node in (1, 2, 3):
        lab.stop_broker(node)
        lab.start_broker(node)
        lab.wait(3)
