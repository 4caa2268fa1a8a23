"""Healthy workloads of clients, brokers and shapes that the other modules do not have."""

import sys

from tests.truth.healthy import CALM
from tests.truth.lab import Client, Lab, workload

TOOLS = "org.apache.kafka.tools"
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def _calm(lab: Lab) -> None:
    lab.never("rebalances", cause=CALM)
    for name in ("rebalance_storm", "falling_behind", "offset_reset", "lost_records"):
        lab.never(name)


def _python(lab: Lab, name: str, text: str, *words: str, host: str = "", library: str = "kafka-python") -> Client:
    return lab.program(name, "script", library, [sys.executable, "-c", text, *words], host=host)


@workload(
    "Each broker of three is restarted under clients of Java, librdkafka and Go at once.",
    healthy=True,
    release="3.9.2",
    nodes=3,
)
def rolled_under_three(lab: Lab) -> None:
    lab.topic("orders", 6, min_insync_replicas="2")
    lab.topic("paid", 3, min_insync_replicas="2")
    for library in ("java", "librdkafka", "franz-go"):
        acks = {} if library == "franz-go" else {"acks": "all"}
        lab.produce(f"shop-{library}", "orders", library=library, rate=10, **acks)
        for number in (1, 2):
            lab.consume(f"billing-{library}-{number}", "orders", group=f"billing-{library}", library=library)
    lab.client("payer", "transact", topic="paid", library="java", rate=10, transactional_id="payer")
    lab.consume("ledger", "paid", group="ledger", isolation_level="read_committed")
    lab.wait(15)
    for node in (2, 3, 1):
        lab.stop_broker(node)
        lab.wait(3)
        lab.start_broker(node)
        lab.wait(7)
    _calm(lab)


@workload(
    "Three programs read, change and write within transactions by the new protocol; they and a broker are restarted.",
    healthy=True,
    nodes=3,
)
def exactly_once_rolled(lab: Lab) -> None:
    for name in ("orders", "invoices"):
        lab.topic(name, 6, min_insync_replicas="2")
    lab.produce("shop", "orders", rate=10, acks="all")
    words = {"topic": "orders", "to": "invoices", "group": "billers", "library": "java", "group_protocol": "consumer"}
    billers = [lab.client(f"biller-{number}", "transfer", **words) for number in range(3)]
    lab.consume("ledger", "invoices", group="ledger", isolation_level="read_committed")
    lab.wait(16)
    for biller in billers:
        biller.restart()
        lab.wait(5)
    lab.stop_broker(3)
    lab.wait(2)
    lab.start_broker(3)
    lab.wait(8)
    lab.allow("small_transactions")  # each of what a poll brings
    _calm(lab)


@workload(
    "Groups of four protocols are idle overnight; the capture's clock is three days behind, as in a virtual machine that slept.",
    healthy=True,
)
def idle_with_a_wrong_clock(lab: Lab) -> None:
    lab.jump = lab.work_began - 60, -3 * 86400.0
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=0.2)
    for number in (1, 2):
        lab.consume(
            f"new-{number}",
            "orders",
            group="new",
            group_protocol="consumer",
            fetch_wait_max_ms=15_000,
            fetch_min_bytes=100_000,
        )
        lab.consume(
            f"java-{number}", "orders", group="java", library="java", fetch_max_wait_ms=20_000, fetch_min_bytes=100_000
        )
        lab.client(f"share-{number}", "share", topic="orders", group="share", library="java")
    lab.consume(
        "python", "orders", group="python", library="kafka-python", fetch_max_wait_ms=10_000, fetch_min_bytes=50_000
    )
    lab.consume("go", "orders", group="go", library="franz-go")
    lab.wait(60)
    _calm(lab)
    lab.never("stopped_reading")


@workload(
    "Groups of the cooperative assignor and of KIP-848's protocol are scaled up and down, in threes, static members among them.",
    healthy=True,
)
def scaled_in_threes(lab: Lab) -> None:
    lab.topic("orders", 12)
    lab.produce("shop", "orders", rate=20, linger_ms=50)
    kinds = {
        "cooperative": {"library": "java", "partition_assignment_strategy": COOPERATIVE},
        "next": {"group_protocol": "consumer"},
    }
    members = []
    for wave in range(2):
        for number in range(3):
            for kind, words in kinds.items():
                static = {"group_instance_id": f"{kind}-{wave}-{number}"} if kind == "next" and wave else {}
                members.append(lab.consume(f"{kind}-{wave}-{number}", "orders", group=kind, **words, **static))
        lab.wait(10)
    for member in members[6:]:
        member.stop()
    lab.wait(10)
    for member in members[2:4]:
        member.stop()
    lab.wait(8)
    _calm(lab)


_TESTS = """
import sys, time, uuid
import confluent_kafka as k
from confluent_kafka.admin import AdminClient, NewTopic
at = {"bootstrap.servers": sys.argv[1], "client.id": sys.argv[2]}
admin = AdminClient(at)
for number in range(9):
    name = f"test-{sys.argv[2]}-{uuid.uuid4().hex[:8]}"
    for done in admin.create_topics([NewTopic(name, 2)]).values():
        done.result(20)
    p = k.Producer(at)
    for n in range(10):
        p.produce(name, b"given")
    p.flush(20)
    c = k.Consumer({**at, "group.id": name, "auto.offset.reset": "earliest"})
    c.subscribe([name])
    read, until = 0, time.time() + 20
    while read < 10 and time.time() < until:
        m = c.poll(1)
        read += m is not None and not m.error()
    c.close()
    for done in admin.delete_topics([name]).values():
        done.result(20)
    for done in admin.delete_consumer_groups([name]).values():
        done.result(20)
print("done", flush=True)
"""


@workload(
    "Two suites of tests create a topic, write, read and delete it, test after test.", healthy=True, release="3.9.2"
)
def suite_of_tests(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing", library="kafka-python")
    lab.wait(5)
    suites = [
        _python(lab, name, _TESTS, lab.cluster.bootstrap("PLAIN"), name, library="librdkafka")
        for name in ("suite-1", "suite-2")
    ]
    for suite in suites:
        suite.finish()
    lab.wait(3)
    _calm(lab)
    lab.never("unknown_topic_loop")
    lab.never("group_for_each_start", client_id="billing")


@workload(
    "Permissions, quotas and users are administered while clients work that none of it concerns.",
    healthy=True,
    secure=True,
    release="3.9.2",
)
def permissions_and_quotas(lab: Lab) -> None:
    lab.topic("orders", 2)
    login = {"listener": "SASL", "mechanism": "SCRAM-SHA-256"}
    lab.produce("shop", "orders", **login)
    lab.consume("billing", "orders", group="billing", library="kafka-python", **login)
    lab.consume("audit", "orders", group="audit", library="java", **login)
    lab.wait(6)
    where = ["--bootstrap-server", lab.cluster.bootstrap("PLAIN")]
    configs = "kafka.admin.ConfigCommand"
    for user in ("carol", "dave"):
        scram = f"SCRAM-SHA-256=[password={user}-secret]"
        lab.tool(configs, *where, "--alter", "--add-config", scram, "--entity-type", "users", "--entity-name", user)
        acl = ["--allow-principal", f"User:{user}", "--operation", "All", "--topic", "orders"]
        lab.tool("kafka.admin.AclCommand", *where, "--add", *acl)
        lab.tool("kafka.admin.AclCommand", *where, "--remove", "--force", *acl)
    quota = ["--entity-type", "users", "--entity-name", "carol", "--entity-type", "clients", "--entity-name", "loader"]
    lab.tool(
        configs, *where, "--alter", "--add-config", "producer_byte_rate=1000000,consumer_byte_rate=2000000", *quota
    )
    lab.tool(configs, *where, "--describe", *quota)
    lab.tool(configs, *where, "--alter", "--delete-config", "producer_byte_rate", *quota)
    lab.tool(
        configs,
        *where,
        "--alter",
        "--delete-config",
        "SCRAM-SHA-256",
        "--entity-type",
        "users",
        "--entity-name",
        "dave",
    )
    lab.tool(
        configs,
        *where,
        "--alter",
        "--add-config",
        "log.cleaner.threads=1",
        "--entity-type",
        "brokers",
        "--entity-default",
    )
    lab.wait(4)
    _calm(lab)
    lab.never("throttled")
    lab.never("unauthorized_access")
    lab.never("authentication_failed")


_CONNECTS = """
import socket, sys, time
while True:
    socket.create_connection(sys.argv[1].split(":"), 5).close()
    time.sleep(1)
"""


@workload(
    "What resembles a dozen incidents and is none, three times each; a broker is restarted meanwhile.",
    healthy=True,
    secure=True,
    nodes=3,
)
def resembles_a_dozen(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    lab.topic("all-replicas", 3, min_insync_replicas="3")
    lab.topic("small-batches", 1, max_message_bytes="4000")
    lab.topic("paid", 1)
    for name in ("quiet", "short-lived"):
        lab.topic(name, 2)
    login = {"listener": "SASL", "mechanism": "SCRAM-SHA-512"}
    # as many replicas as are wanted, or nobody asks for them
    lab.produce("wants-two", "orders", acks="all", **login)
    lab.produce("wants-one", "all-replicas", acks="1")
    lab.produce("wants-none", "all-replicas", acks="0")
    # the broker refuses the batch, and takes its records in smaller ones
    lab.produce("splits", "small-batches", library="java", rate=30, size=700, linger_ms=300)
    lab.produce("nearly", "orders", rate=0.5, size=900_000, compression_type="none", message_max_bytes=1_000_000)
    lab.consume(
        "takes-large-ones", "orders", group="takes-large-ones", library="java", max_partition_fetch_bytes=50_000
    )
    # transactions of seconds, one that writes nothing, and readers of each kind
    lab.client("payer", "transact", topic="paid", batch=10, rate=10, hold=12, transactional_id="payer")
    lab.client("idler", "transact", topic="paid", batch=10, rate=0.02, transactional_id="idler", library="java")
    for name, level in (("reads-all", "read_uncommitted"), ("reads-paid", "read_committed")):
        lab.consume(name, "paid", group=name, isolation_level=level)
    lab.consume("reads-nothing", "quiet", group="reads-nothing", isolation_level="read_committed")
    # one group, whose members say the same in other words
    lab.consume("words-1", "orders,paid", group="words", partition_assignment_strategy="range,roundrobin")
    lab.consume("words-2", "paid,orders", group="words", partition_assignment_strategy="range")
    lab.consume("words-3", "orders,paid", group="words", library="kafka-python")
    # those that ask often
    lab.client("exporter", "admin", do=[["list"], ["wait", "1"]] * 60, **login)
    lab.produce("refreshes", "orders", topic_metadata_refresh_interval_ms=1000)
    _python(lab, "probe", _CONNECTS, lab.cluster.brokers[1].where("SASL"))
    lab.consume("bites", "small-batches", group="bites", fetch_max_bytes=5000, fetch_message_max_bytes=5000)
    lab.produce("bulk", "orders", rate=0, count=3000, size=500, linger_ms=50).finish()
    before = lab.produce("before-it", "later", count=20)
    lab.wait(1.5)
    lab.topic("later", 1)
    lab.wait(12)
    lab.admin("janitor", "delete short-lived", "list")
    lab.stop_broker(3)
    lab.wait(2)
    lab.start_broker(3)
    lab.wait(6)
    before.finish()
    lab.allow("acks_below_all", client_id=["wants-one", "wants-none"])
    lab.allow("near_max_message", client_id="nearly")
    lab.allow("no_compression")
    lab.allow("tiny_batches")
    lab.allow("auto_created_topic")  # nobody saw who made it
    lab.allow("slow_broker")  # where the machine has other work to do
    lab.never("message_too_large", severity="critical")
    _calm(lab)
    for name in (
        "assignor_mismatch",
        "authentication_failed",
        "coordinator_errors",
        "mixed_subscriptions",
        "no_leader",
        "noisy_neighbour",
        "not_enough_replicas",
        "open_transaction",
        "read_committed_blocked",
        "small_fetches",
        "stuck_fetch_loop",
        "unknown_topic_loop",
        "unreachable_brokers",
    ):
        lab.never(name)
