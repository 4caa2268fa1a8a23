"""Workloads in which something goes wrong, and look-alikes in which it does not."""

from tests.support.sockets import metadata
from tests.truth.brokers import OTHER_USER
from tests.truth.lab import Lab, workload

SHORT_SESSION = {"session_timeout_ms": 6000}
MEMBERS: dict[str, dict[str, str]] = {
    "java": {"library": "java"},
    "aiokafka": {"library": "aiokafka"},
    "kafka-python": {"library": "kafka-python"},
    "2-8": {"release": "2.8.2"},
}


@workload(
    "One of two members of a group is killed; the other one takes over when its session has ended.", variants=MEMBERS
)
def member_killed(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    _stays, goes = (lab.consume(f"billing-{n}", "orders", group="billing", **SHORT_SESSION, **settings) for n in (1, 2))
    lab.wait(13)
    killed = goes.kill()
    lab.wait(11)
    # Its last heartbeat was up to 3 s before; its session ends 6 s after that; the other one learns of it at its next heartbeat.
    lab.expect(
        "rebalances", at=killed + 6, within=4, group_id="billing", cause="session timeout", client_id="billing-2"
    )


NEW_SESSION = {"group_consumer_session_timeout_ms": "6000", "group_consumer_min_session_timeout_ms": "6000"}


@workload("A member of KIP-848's protocol is killed.", variants={"java": {"library": "java"}}, **NEW_SESSION)
def new_member_killed(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    members = [
        lab.consume(f"billing-{n}", "orders", group="billing", group_protocol="consumer", **settings) for n in (1, 2)
    ]
    lab.wait(9)
    killed = members[1].kill()
    lab.wait(12)
    lab.expect("rebalances", at=killed + 6, within=3, cause="session timeout", client_id="billing-2")


@workload("A member stands still for longer than its session, then comes back.", variants=MEMBERS)
def member_frozen(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    _stays, pauses = (
        lab.consume(f"billing-{n}", "orders", group="billing", **SHORT_SESSION, **settings) for n in (1, 2)
    )
    lab.wait(8)
    frozen = pauses.freeze(11)
    lab.wait(7)
    lab.expect("session_expired", at=frozen + 11, within=2, client_id="billing-2", group_id="billing")
    lab.expect("rebalances", at=frozen + 6, within=4, cause="session timeout", client_id="billing-2")
    lab.allow("refused_commits", at=frozen + 11, within=3, client_id="billing-2")


@workload("A look-alike: a member stands still for less than its session.", healthy=True)
def member_frozen_briefly(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    members = [lab.consume(f"billing-{n}", "orders", group="billing", session_timeout_ms=10_000) for n in (1, 2)]
    lab.wait(8)
    members[1].freeze(4)
    lab.wait(5)
    lab.never("rebalances", cause=["session timeout", "poll timeout", "went silent"])


@workload("A member takes longer for a record than max.poll.interval.ms.", variants=MEMBERS)
def poll_timeout(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    polls = {"group": "billing", "library": library, "max_poll_interval_ms": 7000, **SHORT_SESSION}
    lab.consume("billing-1", "orders", **polls)
    slow = lab.consume("billing-2", "orders", pause=14, **polls)
    lab.wait(7)
    produced = lab.produce("shop", "orders", rate=4)
    lab.wait(26)  # a slow machine forms the group late
    slow.stop()
    lab.expect("max_poll_exceeded", client_id="billing-2", group_id="billing")
    lab.expect("rebalances", cause="poll timeout", client_id="billing-2")
    lab.never("rebalances", cause="poll timeout", client_id="billing-1")
    lab.allow("refused_commits", client_id="billing-2")
    lab.allow("rebalances", group_id="billing")
    assert produced.running


@workload(
    "A look-alike: a member needs long for a record, but less than max.poll.interval.ms.",
    healthy=True,
    variants={"java": {"library": "java"}, "kafka-python": {"library": "kafka-python"}},
)
def slow_records(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    polls = {"group": "billing", "library": library, "max_poll_interval_ms": 20_000, **SHORT_SESSION}
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", pause=4, commit=1, **polls)
    lab.wait(7)
    lab.produce("shop", "orders", rate=0.5)
    lab.wait(20)
    lab.never("rebalances", cause=["session timeout", "poll timeout", "went silent", "restart loop"])


@workload(
    "A member ends soon after it has joined and is started again, over and over.",
    variants={"java": {"library": "java"}, "aiokafka": {"library": "aiokafka"}},
)
def flapping_member(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    lab.consume("billing-1", "orders", group="billing", **settings)
    lab.wait(4)
    flaps = lab.consume("billing-2", "orders", group="billing", **settings)
    for _ in range(7):
        lab.wait(8 if settings else 2.5)
        flaps.restart()
    lab.wait(3)
    lab.expect("rebalances", cause="restart loop", client_id="billing-2")
    lab.never("rebalances", cause=["poll timeout", "session timeout"])
    lab.allow("rebalance_storm", group_id="billing")


@workload("A member crashes soon after it has joined and is started again, over and over.")
def crashing_member(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    lab.consume("billing-1", "orders", group="billing", **SHORT_SESSION)
    lab.wait(4)
    crashes = lab.consume("billing-2", "orders", group="billing", **SHORT_SESSION)
    for _ in range(6):
        lab.wait(4)
        crashes.kill()
        crashes.start()
    lab.wait(8)
    lab.expect("rebalances", client_id="billing-2", cause=["session timeout", "restart loop"])
    lab.never("rebalances", cause="poll timeout")
    lab.allow("rebalance_storm", group_id="billing")


@workload("A producer and a consumer name topics that are not there.")
def unknown_topics(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders")
    lab.produce("lost-java", "no-such-topic", library="java", max_block_ms=60_000)
    lab.produce("lost-python", "not-there", library="kafka-python", max_block_ms=60_000)
    lab.wait(14)
    lab.expect("unknown_topic_loop", client_id="lost-java", topic="no-such-topic")
    lab.allow("unknown_topic_loop", client_id="lost-python", topic="not-there")
    lab.allow("metadata_storm", client_id=["lost-java", "lost-python"])


@workload("A look-alike: a topic is not there for a second, then it is created.", healthy=True)
def topic_created_late(lab: Lab) -> None:
    lab.produce("shop", "orders", library="java")
    lab.wait(1.5)
    lab.topic("orders", 3)
    lab.consume("billing", "orders", group="billing")
    lab.wait(9)


@workload(
    "Records are larger than the topic takes.", variants={"2-8": {"release": "2.8.2"}, "3-9": {"release": "3.9.2"}}
)
def too_large(lab: Lab) -> None:
    lab.topic("images", 1, max_message_bytes="20000")
    began = lab.note("producers start")
    for library in ("librdkafka", "kafka-python", "java"):
        lab.produce(f"camera-{library}", "images", library=library, rate=1, count=6, size=50_000)
    lab.produce("thumbs", "images", size=5_000)
    lab.wait(9)
    for library in ("librdkafka", "kafka-python", "java"):
        lab.expect("message_too_large", at=began + 5, within=5, client_id=f"camera-{library}", topic="images")


@workload("A user without permission, next to one who has it.", secure=True, allow_everyone_if_no_acl_found="false")
def unauthorized(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    lab.produce("intruder", "orders", listener="SASL", user=OTHER_USER)
    lab.consume("snoop", "orders", group="snoops", listener="SASL", user=OTHER_USER, library="java")
    lab.wait(8)
    lab.expect("unauthorized_access", client_id="intruder")
    lab.expect("unauthorized_access", client_id="snoop")
    lab.allow("plaintext_credentials")


@workload("A wrong password.", secure=True)
def wrong_password(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    lab.produce("stale-c", "orders", listener="SASL", mechanism="SCRAM-SHA-256", password="of-last-year")
    java = {"library": "java", "mechanism": "SCRAM-SHA-512", "max_block_ms": 5000}
    lab.produce("stale-java", "orders", listener="SASL", password="of-last-year", count=2, **java)
    lab.wait(9)
    lab.expect("authentication_failed", client_id="stale-c")
    lab.expect("authentication_failed", client_id="stale-java")


LIBRARIES: dict[str, dict[str, str]] = {name: {"library": name} for name in ("java", "kafka-python", "aiokafka")}


@workload("A client speaks clear text to a TLS listener.", secure=True, variants=LIBRARIES)
def clear_text_to_tls(lab: Lab, **settings: str) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="TLS")
    lab.produce("clear", "orders", listener="TLS", speaks="PLAINTEXT", **settings)
    lab.wait(12)
    lab.expect("reconnect_loop", client_id="clear", cause="clear text to a TLS listener")


@workload("A client speaks TLS to a listener of clear text.", secure=True, variants=LIBRARIES)
def tls_to_clear_text(lab: Lab, **settings: str) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders")
    lab.produce("tls", "orders", speaks="SSL", **settings)
    lab.wait(12)
    lab.expect("reconnect_loop", cause="TLS to a listener of clear text")


@workload("A client does not log in at a listener that wants it.", secure=True, variants=LIBRARIES)
def no_login(lab: Lab, **settings: str) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    lab.produce("open", "orders", listener="SASL", speaks="PLAINTEXT", **settings)
    lab.wait(12)
    lab.expect("reconnect_loop", client_id="open", cause="no login at a listener of SASL")


@workload("Clients log in at a listener that takes no login.")
def login_not_wanted(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders")
    began = lab.note("clients that want to log in")
    for library in ("librdkafka", "java", "kafka-python", "aiokafka"):
        lab.produce(f"logs-in-{library}", "orders", library=library, speaks="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256")
    lab.wait(8)
    for library in ("librdkafka", "java", "aiokafka"):
        where = lab.network.address(f"logs-in-{library}")
        cause = "login at a listener without SASL"
        lab.expect("reconnect_loop", at=began + 4, within=6, client_address=where, cause=cause)
    lab.allow("reconnect_loop", client_address=lab.network.address("logs-in-kafka-python"), cause="~without SASL")


@workload("A transactional producer is killed within a transaction; readers of committed records wait.")
def transaction_left_open(lab: Lab) -> None:
    lab.topic("paid")
    settings = {"transactional_id": "copier", "transaction_timeout_ms": 90_000}
    copier = lab.client("copier", "transact", topic="paid", batch=10, rate=10, hold=60, **settings)
    lab.consume("reader", "paid", group="readers", library="java", isolation_level="read_committed")
    lab.wait(5)
    began = copier.event("began") if copier.running else 0
    copier.kill()
    lab.produce("other", "paid")
    lab.wait(78)
    lab.expect("open_transaction", at=began, within=5, transactional_id="copier")
    lab.expect("read_committed_blocked", client_id="reader")


@workload(
    "Two producers have the same transactional.id.",
    variants={"java": {"library": "java"}, "3-9": {"release": "3.9.2"}, "2-8": {"release": "2.8.2"}},
)
def fenced(lab: Lab, **settings: str) -> None:
    lab.topic("paid")
    started = 0.0
    for number in (1, 2):
        words = {"topic": "paid", "batch": 5, "transactional_id": "copier", **settings}
        started = lab.client(f"copier-{number}", "transact", **words).started
        lab.wait(6)
    lab.wait(5)
    lab.expect("producer_fenced", at=started + 2, within=4, client_id="copier-1", transactional_id="copier")


@workload(
    "A look-alike: a transactional producer is restarted with its transactional.id.",
    healthy=True,
    variants={
        "java": {"library": "java"},
        "killed": {"kill": True},
    },
)
def same_id_after_restart(lab: Lab, *, kill: bool = False, **settings: str) -> None:
    lab.topic("paid")
    copier = lab.client("copier", "transact", topic="paid", batch=5, transactional_id="copier", **settings)
    lab.wait(6)
    if kill:
        copier.kill()
        copier.start()
    else:
        copier.restart()
    lab.wait(8)


@workload("One of two replicas goes away; min.insync.replicas is 2.", nodes=3, variants={"2-8": {"release": "2.8.2"}})
def too_few_replicas(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 2, {"min.insync.replicas": "2"})  # on brokers 1 and 2
    lab.produce("shop", "orders", acks="all")
    lab.produce("shop-java", "orders", library="java", acks="all")
    lab.wait(6)
    killed = lab.stop_broker(2)
    lab.wait(12)
    lab.allow("broker_away")
    lab.expect("not_enough_replicas", at=killed + 3, within=4, client_id="shop", topic="orders")
    lab.expect("not_enough_replicas", at=killed + 3, within=4, client_id="shop-java", topic="orders")


@workload("One broker of three is killed, for good.", nodes=3)
def broker_killed(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(9)
    killed = lab.kill_broker(1)
    lab.wait(18)
    lab.expect("broker_away", at=killed, how="closed its connections")
    lab.allow("stale_leader")  # for the session of the broker nobody else may lead
    lab.allow("unanswered_requests")


@workload("A quota slows a producer down; another one has none.", variants={"java": {"library": "java"}})
def throttled(lab: Lab, **settings: str) -> None:
    lab.topic("logs")
    main = "kafka.admin.ConfigCommand"
    entity = ["--entity-type", "clients", "--entity-name", "chatty"]
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "producer_byte_rate=4000"]
    lab.tool(main, *words, *entity)
    lab.produce("chatty", "logs", rate=20, size=1000, **settings)
    lab.produce("quiet", "logs", rate=2)
    lab.wait(14)
    lab.expect("throttled", client_id="chatty")


@workload("One key has half of the records.")
def hot_key(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("many", "orders", rate=0, count=1500, keys=100, linger_ms=50)
    lab.produce("one", "orders", rate=0, count=1500, keys=1, linger_ms=50)
    lab.wait(5)


@workload(
    "A consumer commits after each record, another one by itself.",
    variants={name: {"library": name} for name in ("java", "kafka-python")},
)
def commits(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=12)
    lab.consume("careful", "orders", group="careful", library=library, commit=1)
    lab.consume("relaxed", "orders", group="relaxed", library=library)
    lab.wait(20)
    lab.expect("commit_storm", client_id="careful", group_id="careful")
    lab.never("commit_storm", client_id="relaxed")


@workload("The only broker stands still for six seconds.")
def broker_frozen(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    frozen = lab.freeze_broker(1, 6)
    lab.wait(6)
    lab.expect("broker_away", at=frozen, how="stopped answering")
    lab.allow("slow_broker")
    lab.never("rebalances", cause=["session timeout", "poll timeout", "went silent"])


@workload("A group has more members than there are partitions.")
def idle_member(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    members = [lab.consume(f"billing-{number}", "orders", group="billing") for number in range(3)]
    lab.wait(12)
    for member in members:
        member.kill()  # all at once: one that left would make room for the others
    lab.expect("idle_members", group_id="billing")


@workload("Two members of a group have no assignor in common.")
def assignors(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("billing-1", "orders", group="billing", partition_assignment_strategy="roundrobin")
    lab.wait(6)
    lab.consume("billing-2", "orders", group="billing", partition_assignment_strategy="range")
    lab.wait(6)
    lab.expect("assignor_mismatch", client_id="billing-2", group_id="billing")


@workload("Two programs have the same group.instance.id.", variants={"java": {"library": "java"}})
def same_instance(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    for number in (1, 2):
        last = lab.consume(f"billing-{number}", "orders", group="billing", group_instance_id="host-1", **settings)
        lab.wait(6)
    lab.wait(4)
    lab.expect("static_member_flapping", at=last.started + 3, within=4, group_id="billing")


@workload("Producers that do not wait for replicas, next to one that does.")
def few_acks(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop-0", "orders", acks="0")
    lab.produce("shop-1", "orders", acks=1, library="aiokafka")
    lab.produce("shop-all", "orders", acks="all")
    lab.wait(6)
    lab.expect("acks_below_all", client_id="shop-0")
    lab.expect("acks_below_all", client_id="shop-1")


@workload("A client logs in with PLAIN in the clear.", secure=True, variants=LIBRARIES)
def password_in_the_clear(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", listener="SASL", library=library)
    lab.produce("safe", "orders", listener="SASL_TLS", library=library)
    lab.produce("scram", "orders", listener="SASL", mechanism="SCRAM-SHA-256", library=library)
    lab.wait(8)
    lab.expect("plaintext_credentials", client_id="shop", user_name="alice")
    lab.never("plaintext_credentials", client_id=["safe", "scram"])


@workload("Wrong passwords in clients of Python, which try again.", secure=True)
def wrong_passwords_of_python(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    for library in ("kafka-python", "aiokafka"):
        scram = {"listener": "SASL", "mechanism": "SCRAM-SHA-256", "password": "of-last-year", "library": library}
        lab.produce(f"stale-{library}", "orders", **scram)
    lab.wait(9)
    for library in ("kafka-python", "aiokafka"):
        lab.expect("authentication_failed", client_id=f"stale-{library}")


@workload(
    "A consumer handles fewer records than are produced; another one keeps up.",
    variants={**LIBRARIES, "3-9": {"release": "3.9.2"}},
)
def slow_consumer(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    lab.consume("billing", "orders", group="billing", pause=0.1, library=library)
    lab.consume("audit", "orders", group="audit", library=library)
    lab.wait(8)
    lab.produce("shop", "orders", rate=40)
    lab.wait(40)
    lab.allow("tiny_batches", client_id="shop")
    lab.expect("falling_behind", client_id="billing", topic="orders", cause="~consumer")
    lab.never("falling_behind", client_id="audit")


@workload(
    "A look-alike of a slow consumer: the network to one consumer is slow.", variants={"java": {"library": "java"}}
)
def slow_network(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=40, size=2000)
    lab.network.limit("far", 200)  # kbit a second, of the 640 that are produced
    lab.consume("far", "orders", group="far", max_partition_fetch_bytes=20_000, **settings)
    lab.consume("near", "orders", group="near", **settings)
    lab.wait(40)
    lab.expect("falling_behind", client_id="far", topic="orders", cause=["broker", "consumer or its network"])
    lab.never("falling_behind", cause="consumer")
    lab.allow("tiny_batches", client_id="shop")
    lab.allow("small_fetches", client_id="far")


@workload(
    "One producer fills the broker's request queue: its batches are compressed anew, and there is one thread for all.",
    num_io_threads="1",
)
def noisy_neighbour(lab: Lab) -> None:
    lab.topic("bulk", 4, compression_type="gzip", compression_gzip_level="9")
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=20)
    lab.consume("billing", "orders", group="billing")
    lab.wait(12)
    bulk = [
        lab.produce(
            f"bulk-{number}", "bulk", rate=0, size=50_000, noise=1, host="bulk", linger_ms=20, batch_size=900_000
        )
        for number in (1, 2, 3)
    ]
    lab.wait(15)
    for one in bulk:
        one.kill()
    lab.wait(9)
    lab.expect("noisy_neighbour", client_id="~bulk")
    lab.allow("slow_broker")
    lab.allow("unanswered_requests", client_id="~bulk")  # they were killed with requests in flight


@workload("Two programs with different topics share a group id.", variants=MEMBERS)
def shared_group(lab: Lab, **settings: str) -> None:
    for name in ("orders", "payments"):
        lab.topic(name, 2)
        lab.produce(f"shop-{name}", name)
    for name in ("orders", "payments"):
        lab.consume(f"reads-{name}", name, group="main", **settings)
    lab.wait(42)
    lab.expect("mixed_subscriptions", group_id="main")


@workload(
    "A look-alike: members of a group change their topics one after the other, as a release goes out.", healthy=True
)
def new_subscription(lab: Lab) -> None:
    for name in ("orders", "refunds"):
        lab.topic(name, 2)
        lab.produce(f"shop-{name}", name)
    members = [lab.consume(f"billing-{number}", "orders", group="billing") for number in (1, 2)]
    lab.wait(7)
    for member in members:
        member.stop()
        lab.consume(f"{member.client_id}-new", "orders,refunds", group="billing", host=member.client_id)
        lab.wait(5)
    lab.wait(10)
    lab.never("rebalances", cause=["session timeout", "poll timeout", "restart loop"])


@workload(
    "Records were deleted before a stopped consumer came back.",
    variants={name: {"library": name} for name in ("java", "aiokafka", "kafka-python", "sarama")},
)
def records_gone(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20)
    reads = {"group": "billing", "library": library}
    reader = lab.consume("billing", "orders", **reads)
    lab.wait(12)
    reader.stop()
    lab.wait(10)
    lab.admin("retention", "purge orders 300")
    again = reader.start()
    lab.wait(15)
    lab.expect("offset_reset", at=again + 4, within=5, client_id="billing", topic="orders", direction="skipped")
    lab.allow("offset_out_of_range_loop", client_id="billing")


@workload("A look-alike: old records are deleted that all have read.", healthy=True)
def read_records_gone(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20)
    reader = lab.consume("billing", "orders", group="billing")
    lab.wait(10)
    lab.admin("retention", "purge orders 50")
    lab.wait(3)
    reader.restart()
    lab.wait(6)


@workload("A topic is deleted while a consumer and a producer use it.", variants=LIBRARIES)
def topic_deleted(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 1)
    lab.topic("other", 1)
    lab.produce("keeps", "other")
    lab.produce("shop", "orders", **settings)
    lab.consume("billing", "orders", group="billing", **settings)
    lab.wait(9)
    deleted = lab.note("orders is deleted")
    lab.admin("janitor", "delete orders")
    lab.wait(16)
    lab.expect("unknown_topic_loop", at=deleted + 1, within=4, topic="orders")
    lab.allow("unknown_topic_loop", topic="orders")
    lab.allow("metadata_storm", client_id=["shop", "billing"])
    lab.allow("rebalances", group_id="billing")


@workload(
    "A record that a consumer cannot handle: it goes back to it, for ever.",
    variants={
        "java": {"library": "java"},
        "one-at-a-time": {"max_poll_records": 1, "library": "java"},
    },
)
def poison_record(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    lab.consume("billing", "orders", group="billing", poison=20, **settings)
    lab.consume("audit", "orders", group="audit")
    lab.wait(25)
    lab.expect("stuck_fetch_loop", client_id="billing", topic="orders", partition_offset=20)
    lab.allow("falling_behind", client_id="billing")


@workload("A consumer crashes at a record before it commits, and is started again by its supervisor.")
def poison_crash(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    reader = lab.consume("billing", "orders", group="billing", **SHORT_SESSION)
    lab.wait(4)
    for _ in range(5):
        reader.kill()
        reader.start()
        lab.wait(9)
    lab.never("rebalances", cause="poll timeout")
    lab.allow("group_without_commits")


@workload(
    "A consumer reads and never commits.", variants={name: {"library": name} for name in ("java", "kafka-python")}
)
def never_commits(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=60, linger_ms=100)
    lab.consume("billing", "orders", group="billing", commit=-1, **settings)
    lab.consume("audit", "orders", group="audit")
    lab.wait(75)
    lab.expect("group_without_commits", client_id="billing", group_id="billing")


@workload("A producer makes a client for each record.")
def client_per_record(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=4, renew=1)
    lab.produce("calm", "orders", rate=4)
    lab.wait(20)
    lab.expect("connection_churn", client_id="shop")
    lab.allow("metadata_storm", client_id="shop")


@workload("A consumer polls without waiting.")
def no_wait(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=1)
    lab.consume("billing", "orders", group="billing", library="java", fetch_max_wait_ms=1)
    lab.consume("audit", "orders", group="audit", library="java")
    lab.wait(15)
    lab.expect("empty_fetch_loop", client_id="billing")


@workload("A member commits dozens of times a second.")
def commits_without_end(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=60)
    lab.consume("billing", "orders", group="billing", commit=1)
    lab.wait(18)
    lab.expect("commit_storm", client_id="billing", group_id="billing")
    lab.allow("tiny_batches", client_id="shop")


@workload(
    "Records bear times of a clock that is a day ahead.",
    variants={"kafka-python": {"library": "kafka-python", "acks": "all", "release": "2.8.2"}},
)
def clock_ahead(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 1)
    lab.produce("ahead", "orders", shift=86_400, **settings)
    lab.produce("shop", "orders")
    lab.wait(10)
    lab.expect("future_timestamps", client_id="ahead", topic="orders")


@workload("A look-alike: records bear times of yesterday, as they are imported.", healthy=True)
def imported(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("import", "orders", shift=-86_400)
    lab.wait(10)


@workload(
    "The broker of the offsets of a group goes away; they have one replica.",
    nodes=3,
    offsets_topic_replication_factor="1",
    offsets_topic_num_partitions="1",
)
def coordinator_gone(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing")
    lab.consume("billing-java", "orders", group="billing-java", library="java")
    lab.wait(10)
    known = metadata(lab.cluster.open, ["__consumer_offsets"])
    killed = lab.stop_broker(known.leaders["__consumer_offsets", 0])
    lab.wait(20)
    for group in ("billing", "billing-java"):
        lab.expect("coordinator_errors", at=killed + 3, within=5, resource=group)
    lab.allow("not_enough_replicas")
    lab.allow("broker_away")


@workload("A broker of three stands still for fifteen seconds.", nodes=3, variants={"short": {"seconds": 5}})
def one_broker_frozen(lab: Lab, seconds: float = 15) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(9)
    frozen = lab.freeze_broker(2, seconds)
    lab.wait(12)
    lab.expect("broker_away", at=frozen)
    lab.never("unanswered_requests")  # one statement of one silent broker
    lab.allow("slow_broker")
    lab.never("rebalances", cause="poll timeout")


@workload(
    "A replica that missed records becomes the leader; records are lost.",
    nodes=3,
    unclean_leader_election_enable="true",
)
def unclean_leader(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 2, {"unclean.leader.election.enable": "true"})  # on brokers 1 and 2
    lab.produce("shop", "orders", rate=20, acks=1)
    for library in ("librdkafka", "kafka-python"):
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(8)
    lab.stop_broker(2)
    lab.wait(8)
    lab.kill_broker(1)
    back = lab.start_broker(2)
    lab.wait(15)
    lab.allow("acks_below_all", client_id="shop")
    lab.expect("lost_records", at=back, within=12, topic="orders", client_id="shop")
    lab.allow("coordinator_errors")  # one of three brokers is no majority
    lab.allow("duplicate_records", client_id="shop")  # libraries send again what the killed broker did not answer
    lab.allow("offset_reset", at=back, within=12, topic="orders")
    lab.allow("stale_leader")
    lab.allow("unanswered_requests")
    lab.allow("offset_out_of_range_loop")
    lab.allow("broker_away")


@workload("The only member of a group is killed; nobody takes over.", variants={"java": {"library": "java"}})
def last_member_killed(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    reader = lab.consume("billing", "orders", group="billing", **SHORT_SESSION, **settings)
    lab.wait(10)
    killed = reader.kill()
    lab.wait(14)
    lab.expect("rebalances", at=killed, within=3, group_id="billing", cause="went silent", client_id="billing")


@workload("A client asks for metadata all the time.")
def metadata_all_the_time(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", topic_metadata_refresh_interval_ms=200)
    lab.produce("calm", "orders")
    lab.wait(45)
    lab.expect("metadata_storm", client_id="shop")


@workload("Records are gone, and the consumer has no rule where to go on.")
def no_reset(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20)
    reads = {"group": "billing", "library": "aiokafka"}
    reader = lab.consume("billing-first", "orders", **reads)
    lab.wait(12)
    reader.stop()
    lab.wait(6)
    lab.admin("retention", "purge orders 250")
    again = lab.consume("billing", "orders", auto_offset_reset="none", **reads).started
    lab.wait(15)
    lab.expect("offset_out_of_range_loop", at=again + 3, within=4, client_id="billing", topic="orders")


@workload("One broker of three is killed; clients of Python and Go.", nodes=3)
def broker_killed_others(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("kafka-python", "aiokafka", "franz-go"):
        settings = {} if library == "franz-go" else {"acks": "all"}
        lab.produce(f"shop-{library}", "orders", library=library, **settings)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(9)
    lab.kill_broker(1)
    lab.wait(18)
    lab.allow("stale_leader")  # for the session of the broker nobody else may lead
    lab.allow("unanswered_requests")
    lab.never("rebalances", cause=["poll timeout", "restart loop"])
    lab.allow("broker_away")


@workload(
    "The clock of the capturing host is set back while all works.",
    variants={"hour": {"seconds": -3600}, "forward": {"seconds": 40}},
)
def capture_clock_set(lab: Lab, seconds: float = -5) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", rate=20)
    for library in ("librdkafka", "java"):
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(9)
    at = lab.set_capture_clock(seconds)
    lab.wait(9)
    lab.expect("clock_jump", at=at + seconds, within=4, direction="back" if seconds < 0 else "forward")
