"""Workloads at the pace of production: timeouts are the defaults of clients and brokers, and minutes pass between events."""

from tests.truth.lab import Client, Lab, workload

SILENT = ["session timeout", "poll timeout", "restart loop", "went silent"]
LIBRARIES = {name: {"library": name} for name in ("java", "kafka-python", "aiokafka")}


def _session(member: Client) -> int:
    """Seconds of the session that its library asks for."""
    return {"aiokafka": 10}.get(member.library, 45)


@workload("A member with the default session is killed.", variants=LIBRARIES)
def default_session_killed(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=2)
    members = [lab.consume(f"billing-{n}", "orders", group="billing", library=library) for n in (1, 2, 3)]
    lab.wait(60)
    killed = members[1].kill()
    lab.wait(80)
    lab.expect("rebalances", at=killed + _session(members[1]), within=6, cause="session timeout", client_id="billing-2")
    lab.never("rebalances", cause=["poll timeout", "restart loop", "deployment"])


@workload(
    "A member stands still for a minute, as in a long garbage collection.", variants={"java": {"library": "java"}}
)
def default_session_frozen(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=2)
    members = [lab.consume(f"billing-{n}", "orders", group="billing", **settings) for n in (1, 2, 3)]
    lab.wait(45)
    frozen = members[2].freeze(70)
    lab.wait(40)
    lab.expect("session_expired", at=frozen + 70, within=3, client_id="billing-3", group_id="billing")
    lab.expect("rebalances", at=frozen + _session(members[2]), within=6, cause="session timeout", client_id="billing-3")
    lab.allow("refused_commits", client_id="billing-3")


@workload(
    "Members are replaced one after the other, with half a minute between them.", healthy=True, variants=LIBRARIES
)
def slow_deployment(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=2)
    members = [lab.consume(f"billing-{n}", "orders", group="billing", library=library) for n in range(4)]
    lab.wait(30)
    for member in members:
        member.stop()
        lab.wait(5)
        member.start()
        lab.wait(30)
    lab.never("rebalances", cause=SILENT)
    lab.never("rebalance_storm")


@workload("A member crashes after it has worked for a while, and is started again with longer and longer pauses.")
def crash_loop_back_off(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=2)
    lab.consume("billing-0", "orders", group="billing", library="java")
    crashes = lab.consume("billing-1", "orders", group="billing", library="java")
    for pause in (10, 20, 40, 60):
        lab.wait(15)
        crashes.stop()
        lab.wait(pause)
        crashes.start()
    lab.wait(20)
    lab.expect("rebalances", cause="restart loop", client_id="billing-1")
    lab.allow("rebalance_storm", group_id="billing")
    lab.never("rebalances", cause=["session timeout", "poll timeout", "deployment"])


@workload("A deployment is scaled from two members to five and back within minutes.", healthy=True)
def scaled_out_and_in(lab: Lab) -> None:
    lab.topic("orders", 12)
    lab.produce("shop", "orders", rate=10)
    cooperative = {
        "library": "java",
        "partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    }
    for number in range(5):
        lab.consume(f"billing-{number}", "orders", group="billing", **cooperative)
        lab.wait(25)
    for member in lab.clients[:2:-1]:
        member.stop()
        lab.wait(25)
    lab.never("rebalances", cause=SILENT)
    lab.never("rebalance_storm")


@workload("A broker of three is away for a minute and a half; clients use their defaults.", nodes=3)
def broker_away_for_a_minute(lab: Lab) -> None:
    lab.topic("orders", 6, min_insync_replicas="2")
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all", rate=5)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(40)
    killed = lab.kill_broker(2)
    lab.wait(90)
    lab.start_broker(2)
    lab.wait(45)
    lab.expect("broker_away", at=killed, within=2, how="closed its connections")
    lab.allow("stale_leader")
    lab.allow("unanswered_requests")
    lab.never("rebalances", cause=["poll timeout", "restart loop", "deployment"])


@workload("Jobs of cron: each some seconds long, every quarter of a minute, for four minutes.", healthy=True)
def jobs_of_cron(lab: Lab) -> None:
    lab.topic("orders", 3)
    for number in range(16):
        library = ("librdkafka", "kafka-python", "java")[number % 3]
        lab.produce("nightly", "orders", library=library, count=20, rate=0).finish()
        reader = lab.consume("report", "orders", group="report", library=library, host="report")
        lab.wait(9)
        reader.stop()
        lab.wait(3)
    lab.never("rebalance_storm")


@workload("A record takes two minutes, and max.poll.interval.ms is one.", variants={"java": {"library": "java"}})
def slow_record_of_minutes(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    polls = {"group": "billing", "library": library, "max_poll_interval_ms": 60_000}
    lab.consume("billing-1", "orders", **polls)
    lab.consume("billing-2", "orders", pause=110, **polls)
    lab.wait(20)
    began = lab.produce("shop", "orders", rate=1).started
    lab.wait(150)
    lab.expect("max_poll_exceeded", at=began + 62, within=6, client_id="billing-2", group_id="billing")
    lab.expect("rebalances", cause="poll timeout", client_id="billing-2")
    lab.never("rebalances", cause="poll timeout", client_id="billing-1")
    lab.allow("refused_commits", client_id="billing-2")
    lab.allow("rebalances", group_id="billing")
    lab.allow("stopped_reading", client_id="billing-2")
    lab.allow("falling_behind", client_id="billing-2")


@workload(
    "Groups with long polls and nothing to read for five minutes, at the defaults of four libraries.", healthy=True
)
def idle_for_minutes(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", count=30, rate=0).finish()
    for library in ("librdkafka", *LIBRARIES):
        lab.consume(f"night-{library}", "orders", group=f"night-{library}", library=library)
    lab.consume(
        "slow-poll", "orders", group="slow-poll", library="java", fetch_max_wait_ms=20_000, fetch_min_bytes=100_000
    )
    lab.wait(280)
    lab.never("rebalances", cause=SILENT)


@workload(
    "A consumer that can do a third of what comes, for minutes; the other one keeps up.",
    variants={"java": {"library": "java"}},
)
def behind_for_minutes(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 2)
    lab.consume("billing", "orders", group="billing", pause=0.2, **settings)
    lab.consume("audit", "orders", group="audit", **settings)
    lab.wait(20)
    lab.produce("shop", "orders", rate=15)
    lab.wait(200)
    lab.expect("falling_behind", client_id="billing", topic="orders", cause="~consumer")
    lab.never("falling_behind", client_id="audit")
    lab.allow("tiny_batches", client_id="shop")


@workload("A burst each minute that a consumer works off within twenty seconds.", healthy=True)
def burst_each_minute(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.consume("billing", "orders", group="billing", library="java", pause=0.02)
    lab.wait(15)
    for _ in range(4):
        lab.produce("batch-job", "orders", count=800, rate=0).finish()
        lab.wait(50)
    lab.never("falling_behind")
    lab.never("rebalances", cause=SILENT)


@workload("A transactional producer dies in a transaction; the broker ends it after the default minute.")
def transaction_of_a_minute(lab: Lab) -> None:
    lab.topic("paid")
    copier = lab.client("copier", "transact", topic="paid", batch=10, rate=10, hold=50, transactional_id="copier")
    lab.consume("reader", "paid", group="readers", library="java", isolation_level="read_committed")
    lab.wait(12)
    began = copier.event("began")
    copier.kill()
    lab.produce("other", "paid", rate=2)
    lab.wait(100)
    lab.expect("open_transaction", at=began, within=5, transactional_id="copier")
    lab.expect("read_committed_blocked", client_id="reader")
