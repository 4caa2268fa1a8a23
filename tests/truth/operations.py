"""Incidents of operations: old brokers, addresses that lead nowhere, requests refused for good, partitions without a leader."""

import shlex
import subprocess
import sys

from tests.support.kafka.jars import java
from tests.support.sockets import metadata
from tests.truth.lab import SOURCES, Lab, workload

SHORT_SESSION = {"session_timeout_ms": 6000}
ZOOKEEPER, OLD = "2.8.2", "0.11.0.3"
PYTHON = {"kafka-python": {"library": "kafka-python"}}


def _edit_and_restart(lab: Lab, **settings: str) -> None:
    """Give the only broker other settings, which depend on addresses or folders."""
    broker = lab.cluster.brokers[1]
    lab.stop_broker(1)
    lines = "".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items())
    broker.file.write_text(broker.file.read_text() + lines, encoding="utf-8")
    lab.start_broker(1)


def advertise(lab: Lab, where: str) -> None:
    """Have the only broker tell its clients another address."""
    right = ",".join(f"{name}://{lab.cluster.brokers[1].where(name)}" for name in ("OPEN", "INNER"))
    _edit_and_restart(lab, advertised_listeners=f"{right},PLAIN://{where}:9092")


@workload(
    "One of two members is killed; the broker is of 0.11.",
    release=OLD,
    variants={**PYTHON, "java": {"library": "java", "java": OLD}},
)
def killed_at_an_old_broker(lab: Lab, library: str = "librdkafka", java: str = "") -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", acks="all", library="kafka-python")
    words = {"library": library, **SHORT_SESSION, **({"release": java} if java else {})}
    _stays, goes = (lab.consume(f"billing-{n}", "orders", group="billing", **words) for n in (1, 2))
    lab.wait(13)
    killed = goes.kill()
    lab.wait(11)
    lab.expect(
        "rebalances", at=killed + 6, within=4, group_id="billing", cause="session timeout", client_id="billing-2"
    )


@workload("A broker of 0.11 is killed, and started again twelve seconds later.", release=OLD, nodes=3)
def old_broker_killed(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("librdkafka", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.produce("shop-java", "orders", library="java", release=OLD, acks="all")
    lab.wait(12)
    killed = lab.kill_broker(2)
    lab.wait(12)
    lab.start_broker(2)
    lab.wait(8)
    lab.expect("broker_away", at=killed, how="closed its connections")
    for analysis in ("stale_leader", "unanswered_requests"):
        lab.allow(analysis)
    lab.never("rebalances", cause=["poll timeout", "restart loop"])


@workload("Two producers of a broker of 0.11 have the same transactional.id.", release=OLD)
def fenced_at_an_old_broker(lab: Lab) -> None:
    lab.topic("paid")
    for number in (1, 2):
        started = lab.client(f"copier-{number}", "transact", topic="paid", batch=5, transactional_id="copier").started
        lab.wait(7)
    lab.wait(4)
    lab.expect("producer_fenced", at=started + 2, within=4, client_id="copier-1", cause="~another")


@workload("Records grow old while their consumer is stopped.", release=OLD, log_retention_check_interval_ms="1000")
def retention_passed(lab: Lab, library: str = "kafka-python") -> None:
    lab.topic("orders", 1, retention_ms="3000", segment_bytes="2000", file_delete_delay_ms="100")
    lab.produce("shop", "orders", rate=20, library="librdkafka")
    reader = lab.consume("billing", "orders", group="billing", library=library)
    lab.wait(12)
    reader.stop()
    lab.wait(14)
    again = reader.start()
    lab.wait(12)
    lab.expect("offset_reset", at=again + 4, within=5, client_id="billing", topic="orders", direction="skipped")
    lab.allow("offset_out_of_range_loop", client_id="billing")


@workload("One of three brokers of 0.8.2 is killed.", nodes=3, release="0.8.2.2")
def first_broker_killed(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.wait(3)
    brokers = lab.cluster.bootstrap("PLAIN")
    words = ["--broker-list", brokers, "--topic", "orders", "--request-required-acks", "1"]
    for number in (1, 2):
        writes = shlex.join(java("0.8.2.2", "kafka.tools.ConsoleProducer", *words, heap="96m"))
        lines = f"(while sleep 0.2; do echo order; done) | exec {writes}"
        lab.program(f"console-producer-{number}", "produce", "java", ["sh", "-c", lines])
    keeper = f"{lab.network.address('zookeeper')}:2181"
    words = ["--zookeeper", keeper, "--topic", "orders", "--from-beginning"]
    lab.program(
        "console-consumer", "consume", "java", java("0.8.2.2", "kafka.tools.ConsoleConsumer", *words, heap="96m")
    )
    lab.wait(15)
    killed = lab.kill_broker(2)
    lab.wait(15)
    lab.expect("broker_away", at=killed)
    lab.never("readiness", verdict="fine")  # nothing of that time is
    for analysis in ("stale_leader", "unanswered_requests", "acks_below_all"):
        lab.allow(analysis)
    lab.allow("anonymous_clients")
    lab.allow("readiness", client_id="console-producer")


@workload("A consumer of Java 0.11 reads a topic that is compressed by zstd.", release=ZOOKEEPER)
def codec_too_new(lab: Lab) -> None:
    lab.topic("orders", 1, compression_type="zstd")  # a topic that leaves the codec to producers is read as it is
    lab.produce("shop", "orders", compression_type="zstd", acks="all")
    lab.consume("audit", "orders", group="audit")
    lab.wait(3)
    began = lab.consume("billing", "orders", group="billing", library="java", release=OLD).started
    lab.wait(14)
    lab.expect(
        "refused_requests", at=began + 4, within=5, client_id="billing", error_name="UNSUPPORTED_COMPRESSION_TYPE"
    )
    lab.never("refused_requests", client_id=["audit", "shop"])
    lab.allow("group_without_commits", client_id="billing")


@workload("Records without keys go to a compacted topic.", variants={"2-8": {"release": ZOOKEEPER}})
def keys_are_missing(lab: Lab) -> None:
    lab.topic("prices", 1, cleanup_policy="compact")
    began = lab.produce("import", "prices").started
    lab.produce("import-java", "prices", library="java")
    lab.produce("import-python", "prices", library="kafka-python", acks="all")
    lab.produce("shop", "prices", keys=20, acks="all")
    lab.wait(12)
    for name in ("import", "import-java", "import-python"):
        lab.expect(
            "refused_requests", at=began + 8, within=8, client_id=name, resource="prices", error_name="INVALID_RECORD"
        )
    lab.never("refused_requests", client_id="shop")


@workload("A producer's clock is a day ahead; the topic takes an hour.")
def refused_for_its_time(lab: Lab) -> None:
    lab.topic("orders", 1, message_timestamp_after_max_ms="3600000")
    began = lab.produce("ahead", "orders", shift=86_400).started
    lab.produce("shop", "orders")
    lab.wait(10)
    lab.expect("refused_requests", at=began + 2, within=3, client_id="ahead", error_name="INVALID_TIMESTAMP")
    lab.allow("future_timestamps", client_id="ahead")
    lab.never("future_timestamps", client_id="shop")


@workload(
    "A group takes two members; two more want to join.", group_max_size="2", variants={"2-8": {"release": ZOOKEEPER}}
)
def group_is_full(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", acks="all")
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", group="billing")
    lab.wait(7)
    began = lab.note("two more join")
    lab.consume("billing-3", "orders", group="billing")
    lab.consume("billing-4", "orders", group="billing", library="kafka-python")
    lab.wait(14)
    lab.expect(
        "refused_requests",
        at=began + 2,
        within=4,
        client_id="billing-3",
        resource="billing",
        error_name="GROUP_MAX_SIZE_REACHED",
    )
    lab.allow("refused_requests", client_id="billing-4", error_name="GROUP_MAX_SIZE_REACHED")
    lab.never("refused_requests", client_id=["billing-1", "billing-2"])
    lab.allow("reconnect_loop", client_id=["billing-3", "billing-4"])


@workload(
    "Members ask for sessions of two seconds; the broker gives six at least.", variants={"0-11": {"release": OLD}}
)
def session_too_short(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", acks="all", library="kafka-python")
    began = lab.note("consumers start")
    for library in ("librdkafka", "kafka-python", "aiokafka"):
        short = {"session_timeout_ms": 2000, "heartbeat_interval_ms": 500}
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, **short)
    lab.wait(14)
    for library in ("librdkafka", "aiokafka"):
        lab.expect(
            "refused_requests",
            at=began + 3,
            within=4,
            client_id=f"billing-{library}",
            error_name="INVALID_SESSION_TIMEOUT",
        )
    lab.allow("refused_requests", error_name="INVALID_SESSION_TIMEOUT")
    lab.allow("reconnect_loop", client_id="~billing")


@workload(
    "Partitions of one replica, whose broker is killed for good.", nodes=3, variants={"2-8": {"release": ZOOKEEPER}}
)
def no_leader(lab: Lab) -> None:
    lab.topic("orders", 3, replicas=1)
    lab.topic("safe", 3)
    lab.produce("shop-safe", "safe")
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(10)
    leader = metadata(lab.cluster.open, ["orders"]).leaders["orders", 1]
    killed = lab.kill_broker(leader)
    lab.wait(30)
    lab.expect("broker_away", at=killed)
    # until the session of the broker ends, it is still named the leader; Java's producer goes to other partitions
    lab.expect("no_leader", at=killed + 15, within=16, client_id="shop-librdkafka", topic="orders", partition=1)
    lab.expect("no_leader", at=killed + 15, within=16, client_id="billing-java", topic="orders", partition=1)
    lab.allow("no_leader", at=killed + 20, within=20, topic="orders", partition=1)
    lab.never("no_leader", topic="safe")
    for analysis in ("stale_leader", "unanswered_requests", "metadata_storm"):
        lab.allow(analysis)


@workload("One of a broker's two disks is full.", release=ZOOKEEPER)
def disk_full(lab: Lab) -> None:
    disk = lab.folder / "disk-2"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)], check=True)
    try:
        _edit_and_restart(lab, log_dirs=f"{lab.folder}/disk-1,{disk}", log_index_size_max_bytes="20000")
        lab.topic("orders", 4)
        lab.topic("other", 4)
        lab.produce("shop", "orders", acks="all")
        lab.produce("shop-java", "other", library="java")
        lab.consume("billing", "orders", group="billing")
        lab.wait(9)
        full = lab.note("the disk is full")
        subprocess.run(["dd", "if=/dev/zero", f"of={disk}/filler", "bs=1k"], check=False, capture_output=True)
        lab.wait(20)
    finally:
        lab.cluster.brokers[1].stop()
        subprocess.run(["umount", "-l", str(disk)], check=True)
    lab.expect("no_leader", at=full + 2, within=5, client_id="shop", topic="orders")
    lab.allow("no_leader", at=full, within=20)
    lab.allow("refused_requests", error_name="KAFKA_STORAGE_ERROR")
    for analysis in ("stale_leader", "broker_away", "coordinator_errors", "metadata_storm", "unanswered_requests"):
        lab.allow(analysis)


@workload(
    "The broker advertises an address where nobody listens, or a name that nobody knows.",
    variants={
        "java": {"library": "java"},
        "name": {"address": "kafka-1.internal"},
        "name-java": {"library": "java", "address": "kafka-1.internal"},
        "name-aiokafka": {"library": "aiokafka", "address": "kafka-1.internal"},
        "kafka-python": {"library": "kafka-python", "release": ZOOKEEPER},
    },
)
def wrong_address(lab: Lab, library: str = "librdkafka", address: str = "") -> None:
    lab.topic("orders", 1)
    where = address or lab.network.address("nobody")
    advertise(lab, where)
    began = lab.produce("shop", "orders", library=library).started
    lab.consume("billing", "orders", group="billing", library=library)
    lab.wait(25)
    # aiokafka and kafka-python look the brokers up once and then try for ever to connect: of that the capture has nothing
    says = lab.allow if library in {"aiokafka", "kafka-python"} else lab.expect
    for name in ("shop", "billing"):
        if address:
            says("unreachable_brokers", at=began + 8, within=8, client_id=name)
        else:
            lab.expect("no_connection", at=began + 2, within=4, client_id=name, address=f"{where}:9092", how="refused")
    if not address:
        lab.never("unreachable_brokers")  # the other one says why
    lab.never("connection_churn")
    lab.never("metadata_storm")
    lab.allow("reconnect_loop", client_id=["shop", "billing"])
    lab.allow("coordinator_errors", client_id="billing")


@workload("A producer of Kafka 0.8.2 and one that believes so meet a broker of 4.3.")
def client_too_old(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    writes = ["--broker-list", lab.cluster.bootstrap("PLAIN"), "--topic", "orders", "--request-required-acks", "1"]
    console = shlex.join(java("0.8.2.2", "kafka.tools.ConsoleProducer", *writes, heap="96m"))
    lab.program("console", "produce", "java", ["sh", "-c", f"(while sleep 0.5; do echo order; done) | exec {console}"])
    lab.produce("old", "orders", api_version_request="false", broker_version_fallback="0.9.0.0")
    lab.wait(16)
    lab.expect("reconnect_loop", client_id="console-producer", cause="~version")
    lab.expect("reconnect_loop", client_id="old", cause="~version")
    lab.allow("unanswered_requests", client_id=["console-producer", "old"])
    for analysis in ("readiness", "tiny_batches"):
        lab.allow(analysis, client_id=["console-producer", "old"])
    lab.allow("anonymous_clients", client_id="console-producer")


@workload(
    "A look-alike: clients of Java 4.3 work with a broker of 0.11, although Kafka no longer says so.",
    healthy=True,
    release=OLD,
)
def broker_of_long_ago(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", library="kafka-python", acks="all")
    lab.produce("modern", "orders", library="java")
    lab.consume("billing", "orders", group="billing", library="java")
    lab.wait(14)
    lab.never("reconnect_loop")


@workload(
    "The listener offers SCRAM, the clients want PLAIN.",
    secure=True,
    listener_name_sasl_sasl_enabled_mechanisms="SCRAM-SHA-256",
)
def mechanism_not_offered(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    began = lab.note("clients start")
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(
            f"plain-{library}",
            "orders",
            library=library,
            listener="SASL",
            **({"max_block_ms": 5000, "count": 2} if library == "java" else {}),
        )
    lab.wait(10)
    for library in ("librdkafka", "java"):
        lab.expect(
            "authentication_failed",
            at=began + 2,
            within=4,
            client_id=f"plain-{library}",
            error_name="UNSUPPORTED_SASL_MECHANISM",
        )
    lab.allow("authentication_failed", error_name="UNSUPPORTED_SASL_MECHANISM")
    lab.never("plaintext_credentials")  # no password is sent after that


@workload(
    "A user may not use its transactional.id, nor create topics.", secure=True, allow_everyone_if_no_acl_found="false"
)
def not_for_this_user(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    began = lab.note("the other user's clients start")
    other = {"listener": "SASL", "user": "bob"}
    lab.client("copier", "transact", topic="orders", batch=5, transactional_id="copier", **other)
    lab.admin("creator", "create fresh 2", **other)
    lab.consume("reader", "orders", group="readers", library="kafka-python", **other)
    lab.wait(9)
    lab.expect("unauthorized_access", at=began + 2, within=3, client_id="copier")
    lab.expect("unauthorized_access", at=began + 3, within=5, client_id="creator")
    lab.expect("unauthorized_access", client_id="reader")
    lab.allow("plaintext_credentials")


_LEAKS = """
import sys, time
sys.path.insert(0, {folder!r})
from tests.support.sockets import Wire
wires = [Wire({at!r}) for _ in range(8)]
for wire in wires:
    wire.ask(3, 1, b"\\xff\\xff\\xff\\xff")
print('{{"at": 0, "event": "leaked"}}', flush=True)
time.sleep(180)
"""


@workload("A program leaves connections open until the broker takes no more from its host.", max_connections_per_ip="8")
def no_more_connections(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    text = _LEAKS.format(folder=str(SOURCES.parent.parent), at=lab.cluster.bootstrap("PLAIN"))
    lab.program("leaks", "admin", "home-made", [sys.executable, "-c", text], host="crowded")
    lab.wait(5)
    began = lab.produce("late-librdkafka", "orders", host="crowded").started  # aiokafka would try once
    lab.wait(18)
    lab.expect("reconnect_loop", at=began + 1, within=3, client_address=lab.network.address("crowded"))
    lab.never("reconnect_loop", client_address=lab.network.address("shop"))
    lab.allow("unanswered_requests", client_id="late-librdkafka")
    lab.allow("idle_connections", client_id="wire")
    lab.never("broker_away")


@workload("The broker has as many connections as it takes: no other one is served.", max_connections="8")
def no_connections_left(lab: Lab) -> None:
    lab.topic("orders", 1)
    text = _LEAKS.format(folder=str(SOURCES.parent.parent), at=lab.cluster.bootstrap("PLAIN"))
    lab.program("leaks", "admin", "home-made", [sys.executable, "-c", text])
    lab.wait(3)
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library)
    lab.wait(110)
    for library in ("librdkafka", "java"):
        lab.expect("unanswered_requests", client_id=f"shop-{library}")
    lab.allow("idle_connections", client_id="wire")
    lab.never("broker_away")


@workload("Requests are larger than the broker reads.", socket_request_max_bytes="100000")
def request_too_large(lab: Lab) -> None:
    lab.topic("images", 1)
    lab.produce("thumbs", "images", size=5_000, rate=2)
    camera = lab.produce("camera", "images", size=300_000, rate=1, noise=1, count=8)
    java = lab.produce("camera-java", "images", size=300_000, rate=1, library="java")
    lab.wait(14)
    cause = "request larger than the broker takes"
    for client in (camera, java):
        lab.expect("reconnect_loop", at=client.started + 3, within=4, client_id=client.client_id, cause=cause)
    lab.never("reconnect_loop", client_id="thumbs")
    lab.allow("metadata_storm", client_id="camera")
    lab.allow("no_compression")
    lab.never("broker_away")


@workload(
    "A transaction stays open for longer than it may; its coordinator aborts it.",
    variants={"java": {"library": "java"}, "2-8": {"release": ZOOKEEPER}},
    transaction_abort_timed_out_transaction_cleanup_interval_ms="1000",
)
def transaction_timed_out(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("paid", 1)
    words = {"transactional_id": "copier", "transaction_timeout_ms": 4000, "library": library}
    lab.client("calm", "transact", topic="paid", batch=5, transactional_id="calm")
    slow = lab.client("copier", "transact", topic="paid", batch=10, rate=10, hold=9, **words)
    lab.wait(20)
    lab.expect("producer_fenced", at=slow.started + 12, within=4, client_id="copier", cause="~timed out")
    lab.never("producer_fenced", client_id="calm")


@workload(
    "A member of KIP-848's protocol stands still for longer than its session.",
    variants={"java": {"library": "java"}},
    group_consumer_session_timeout_ms="6000",
    group_consumer_min_session_timeout_ms="6000",
)
def new_member_frozen(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    words = {"group": "billing", "group_protocol": "consumer", "library": library}
    members = [lab.consume(f"billing-{number}", "orders", **words) for number in (1, 2)]
    lab.wait(9)
    frozen = members[1].freeze(11)
    lab.wait(8)
    lab.expect("session_expired", at=frozen + 11, within=2, client_id="billing-2", group_id="billing")
    # its last heartbeat was up to 5 s before, its session ends 6 s after that, others learn of it up to 5 s later
    lab.expect("rebalances", at=frozen + 5, within=6, cause="session timeout", client_id="billing-2")
    lab.allow("refused_commits", at=frozen + 11, within=3, client_id="billing-2")


@workload("A member of KIP-848's protocol asks for an assignor that the broker has not.")
def no_such_assignor(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("calm", "orders", group="calm", group_protocol="consumer")
    began = lab.consume(
        "billing", "orders", group="billing", group_protocol="consumer", group_remote_assignor="magic"
    ).started
    lab.consume(
        "billing-java",
        "orders",
        group="billing-java",
        library="java",
        group_protocol="consumer",
        group_remote_assignor="magic",
    )
    lab.wait(12)
    lab.expect("assignor_mismatch", at=began + 2, within=3, client_id="billing", group_id="billing")
    lab.expect("assignor_mismatch", at=began + 4, within=4, client_id="billing-java", group_id="billing-java")
    lab.never("assignor_mismatch", client_id="calm")


@workload(
    "A broker of 2.8 is killed and started again eight seconds later; clients of Go and Python.",
    release=ZOOKEEPER,
    nodes=3,
    zookeeper_session_timeout_ms="6000",
)
def killed_and_back(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("franz-go", "sarama", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(12)
    killed = lab.kill_broker(3)
    lab.wait(8)  # it cannot come back before its session has ended
    lab.start_broker(3)
    lab.wait(14)
    lab.expect("broker_away", at=killed, how="closed its connections")
    lab.never("rebalances", cause=["poll timeout", "restart loop"])
    for analysis in ("stale_leader", "unanswered_requests", "acks_below_all", "coordinator_errors"):
        lab.allow(analysis)


@workload(
    "A member of sarama stands still for longer than its session of ten seconds.",
    variants={"2-8": {"release": ZOOKEEPER}},
)
def go_member_frozen(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    members = [lab.consume(f"billing-{number}", "orders", group="billing", library="sarama") for number in (1, 2)]
    lab.wait(9)
    frozen = members[1].freeze(16)
    lab.wait(9)
    lab.expect("session_expired", at=frozen + 16, within=2, client_id="billing-2", group_id="billing")
    lab.expect("rebalances", at=frozen + 10, within=4, cause="session timeout", client_id="billing-2")
    lab.allow("refused_commits", client_id="billing-2")


@workload("One client loses its way to one broker of three; all others reach it.", nodes=3, variants=PYTHON)
def one_way_is_cut(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 3)
    for number in (1, 2):
        lab.produce(f"shop-{number}", "orders", rate=20, library=library, acks="all")
    lab.consume("billing", "orders", group="billing")
    lab.wait(9)
    broker = lab.cluster.brokers[2].where("PLAIN").partition(":")[0]
    words = [*lab.network.inside("shop-2"), "ip", "route"]
    lab.note("shop-2 does not reach broker 2 for 25 s")
    subprocess.run([*words, "add", "blackhole", broker], check=True)
    lab.wait(25)
    subprocess.run([*words, "delete", "blackhole", broker], check=True)
    lab.wait(8)
    lab.allow("unanswered_requests", client_id="shop-2")  # what it sends again does not get as far as the capture
    lab.never("unanswered_requests", client_id="shop-1")
    lab.never("broker_away")
    lab.never("slow_broker", client_id="shop-1")
    lab.allow("tiny_batches")


@workload("A quota of requests slows a producer of Go down.", release="3.9.2", variants={"2-8": {"release": ZOOKEEPER}})
def quota_of_requests(lab: Lab) -> None:
    lab.topic("logs", 1)
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "request_percentage=0.05"]
    lab.tool("kafka.admin.ConfigCommand", *words, "--entity-type", "clients", "--entity-name", "chatty")
    lab.produce("chatty", "logs", rate=200, library="franz-go")
    lab.produce("quiet", "logs", rate=2, library="franz-go")
    lab.wait(16)
    lab.expect("throttled", client_id="chatty")
    lab.never("throttled", client_id="quiet")
    lab.allow("tiny_batches", client_id="chatty")


_COMMITS_MUCH = """
import sys, time, struct
sys.path.insert(0, {folder!r})
from tests.support.sockets import Wire
from tests.support.frames import request, string, array
commit = string("reports") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
commit += array(string("orders") + array(struct.pack(">iq", 0, 5) + string("x" * 6000)))
with Wire({at!r}) as wire:
    for number in range(12):
        wire.send(request(8, 2, number, commit, client_id="reports"))
        wire.frame()
        time.sleep(0.7)
"""


@workload("A program's commits bear more metadata than the broker takes.")
def commits_too_large(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing", commit=1)
    lab.wait(6)
    text = _COMMITS_MUCH.format(folder=str(SOURCES.parent.parent), at=lab.cluster.bootstrap("PLAIN"))
    began = lab.program("reports", "consume", "home-made", [sys.executable, "-c", text]).started
    lab.wait(12)
    lab.expect("refused_requests", at=began + 1, within=2, client_id="reports", error_name="OFFSET_METADATA_TOO_LARGE")
    lab.allow("commit_storm", client_id="billing")


@workload(
    "The offsets of a group expire while it is stopped; it goes on at the end.",
    release=ZOOKEEPER,
    offsets_retention_minutes="1",
    offsets_retention_check_interval_ms="2000",
)
def offsets_expired(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=3)
    words = {"library": "kafka-python", "auto_offset_reset": "latest"}
    reader = lab.consume("billing", "orders", group="billing", **words)
    lab.wait(14)
    reader.stop()
    lab.wait(75)
    again = reader.start()
    lab.wait(10)
    lab.expect("offset_reset", at=again + 4, within=5, client_id="billing", topic="orders", direction="skipped")


@workload("Clients name a topic that no topic may be called.")
def forbidden_name(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    began = lab.note("clients start")
    for library in ("librdkafka", "java", "aiokafka"):
        lab.produce(f"lost-{library}", "orders/new", library=library)
    lab.wait(14)
    # Java's and aiokafka give up at the first answer or look at the name themselves
    lab.expect(
        "refused_requests", at=began + 2, within=4, client_id="lost-librdkafka", error_name="INVALID_TOPIC_EXCEPTION"
    )
    lab.allow("refused_requests", error_name="INVALID_TOPIC_EXCEPTION")
    lab.allow("metadata_storm", client_id="~lost")


@workload("A broker stands still behind TLS and logins.", secure=True, release="3.9.2")
def frozen_behind_tls(lab: Lab) -> None:
    lab.topic("orders", 2)
    words = {"listener": "SASL_TLS", "mechanism": "SCRAM-SHA-512"}
    for library in ("librdkafka", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, **words)
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, **words)
    lab.wait(10)
    frozen = lab.freeze_broker(1, 7)
    lab.wait(7)
    lab.allow("broker_away", at=frozen, how="stopped answering")  # not where the keys of TLS are not at hand
    lab.allow("slow_broker")
    lab.never("rebalances", cause=["session timeout", "poll timeout", "went silent"])


@workload("Two of three brokers are killed: transactions have no coordinator.", nodes=3, release=ZOOKEEPER)
def no_coordinator(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 3, {"min.insync.replicas": "1"})
    lab.produce("shop", "orders", acks="1")
    lab.client(
        "copier", "transact", topic="orders", batch=5, transactional_id="copier", library="java", release=ZOOKEEPER
    )
    lab.wait(10)
    for node in (2, 3):
        lab.kill_broker(node)
    lab.wait(6)
    fresh = lab.client("fresh", "transact", topic="orders", batch=5, transactional_id="fresh")
    lab.wait(20)
    lab.expect("coordinator_errors", at=fresh.started + 10, within=10, resource="fresh")
    lab.allow("coordinator_errors", resource="copier")
    lab.allow("not_enough_replicas")
    for analysis in (
        "broker_away",
        "stale_leader",
        "unanswered_requests",
        "acks_below_all",
        "no_leader",
        "open_transaction",
        "producer_fenced",
        "refused_requests",
    ):
        lab.allow(analysis)


@workload("A broker is killed soon after the capture began.", nodes=3, release="3.9.2")
def killed_at_the_beginning(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in ("franz-go", "aiokafka"):
        lab.produce(f"shop-{library}", "orders", library=library)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(12)
    lab.begin_capture()
    lab.wait(4)
    killed = lab.kill_broker(2)
    lab.wait(16)
    lab.expect("broker_away", at=killed, how="closed its connections")
    for analysis in ("stale_leader", "unanswered_requests", "acks_below_all"):
        lab.allow(analysis)
    lab.never("rebalances", cause=["poll timeout", "restart loop"])


@workload(
    "A broker is killed; the capture shows one direction.",
    nodes=3,
    way="dst",
    variants={"src": {"way": "src"}},
)
def killed_seen_from_one_side(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in ("librdkafka", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(10)
    killed = lab.kill_broker(2)
    lab.wait(14)
    lab.allow("broker_away", at=killed)
    lab.allow("stale_leader")
    lab.allow("acks_below_all")
