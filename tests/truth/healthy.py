"""Workloads about which nothing critical, and at most one warning, may be said."""

from tests.truth.lab import Lab, workload

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
