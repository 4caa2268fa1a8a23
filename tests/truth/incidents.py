"""Workloads in which something goes wrong, and look-alikes in which it does not."""

from tests.truth.brokers import OTHER_USER
from tests.truth.lab import Lab, workload


@workload("One of two members of a group is killed; the other one takes over when its session has ended.")
def member_killed(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    _stays, goes = (lab.consume(f"billing-{n}", "orders", group="billing", session_timeout_ms=6000) for n in (1, 2))
    lab.wait(8)
    killed = goes.kill()
    lab.wait(11)
    # Its last heartbeat was up to 3 s before; its session ends 6 s after that; the other one learns of it at its next heartbeat.
    lab.expect(
        "rebalances", at=killed + 6, within=4, group_id="billing", cause="session timeout", client_id="billing-2"
    )


@workload("A Java member is killed.", release="3.9.2")
def java_member_killed(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    java = {"library": "java", "release": "3.9.2", "group": "billing", "session_timeout_ms": 6000}
    _stays, goes = (lab.consume(f"billing-{n}", "orders", **java) for n in (1, 2))
    lab.wait(9)
    killed = goes.kill()
    lab.wait(11)
    told = {"group_id": "billing", "cause": "session timeout", "client_id": "billing-2"}
    lab.expect("rebalances", at=killed + 5, within=3, **told)


@workload("A member stands still for longer than its session, then comes back.")
def member_frozen(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    _stays, pauses = (lab.consume(f"billing-{n}", "orders", group="billing", session_timeout_ms=6000) for n in (1, 2))
    lab.wait(8)
    frozen = pauses.freeze(9)
    lab.wait(7)
    lab.expect("session_expired", at=frozen + 9, within=2, client_id="billing-2", group_id="billing")
    lab.expect("rebalances", at=frozen + 5, within=3, cause="session timeout", client_id="billing-2")
    lab.allow("refused_commits", client_id="billing-2")


@workload("A look-alike: a member stands still for less than its session.", healthy=True)
def member_frozen_briefly(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    members = [lab.consume(f"billing-{n}", "orders", group="billing", session_timeout_ms=10_000) for n in (1, 2)]
    lab.wait(8)
    members[1].freeze(4)
    lab.wait(5)
    lab.never("rebalances", cause=["session timeout", "poll timeout", "went silent"])


@workload("A member takes longer for a record than max.poll.interval.ms.")
def poll_timeout(lab: Lab) -> None:
    lab.topic("orders", 2)
    polls = {"group": "billing", "max_poll_interval_ms": 7000, "session_timeout_ms": 6000}
    lab.consume("billing-1", "orders", **polls)
    slow = lab.consume("billing-2", "orders", pause=14, **polls)
    lab.wait(6)
    lab.produce("shop", "orders", rate=4)
    lab.wait(19)
    slow.stop()
    lab.expect("max_poll_exceeded", client_id="billing-2", group_id="billing")
    lab.expect("rebalances", cause="poll timeout", client_id="billing-2")


@workload("A member crashes soon after it has joined and is started again, over and over.")
def flapping_member(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders")
    lab.consume("billing-1", "orders", group="billing")
    lab.wait(4)
    flaps = lab.consume("billing-2", "orders", group="billing")
    for _ in range(7):
        lab.wait(2.5)
        flaps.restart()
    lab.wait(3)
    lab.expect("rebalances", cause="restart loop", client_id="billing-2")
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


@workload("Records are larger than the topic takes.")
def too_large(lab: Lab) -> None:
    lab.topic("images", 1, max_message_bytes="20000")
    for library in ("librdkafka", "kafka-python", "java"):
        lab.produce(f"camera-{library}", "images", library=library, rate=1, count=6, size=50_000)
    lab.produce("thumbs", "images", size=5_000)
    lab.wait(9)
    for library in ("librdkafka", "kafka-python", "java"):
        lab.expect("message_too_large", client_id=f"camera-{library}", topic="images")


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
    lab.allow("reconnect_loop", client_id="stale-c")


@workload("A client speaks clear text to a TLS listener.", secure=True)
def clear_text_to_tls(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="TLS")
    lab.produce("clear", "orders", listener="TLS", speaks="PLAINTEXT")
    lab.wait(12)
    lab.expect("reconnect_loop", client_id="clear")


@workload("A client speaks TLS to a listener of clear text.", secure=True)
def tls_to_clear_text(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders")
    lab.produce("tls", "orders", speaks="SSL")
    lab.wait(12)
    lab.allow("reconnect_loop")
    lab.allow("not_kafka")


@workload("A client does not log in at a listener that wants it.", secure=True)
def no_login(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    lab.produce("open", "orders", listener="SASL", speaks="PLAINTEXT")
    lab.wait(12)
    lab.expect("reconnect_loop", client_id="open")


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


@workload("Two producers have the same transactional.id.")
def fenced(lab: Lab) -> None:
    lab.topic("paid")
    for number in (1, 2):
        lab.client(f"copier-{number}", "transact", topic="paid", batch=5, transactional_id="copier")
        lab.wait(5)
    lab.wait(5)
    lab.expect("producer_fenced", client_id="copier-1", transactional_id="copier")


@workload("One of two replicas goes away; min.insync.replicas is 2.", nodes=3)
def too_few_replicas(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 2, {"min.insync.replicas": "2"})  # on brokers 1 and 2
    lab.produce("shop", "orders", acks="all")
    lab.produce("shop-java", "orders", library="java", acks="all")
    lab.wait(6)
    killed = lab.stop_broker(2)
    lab.wait(12)
    lab.expect("not_enough_replicas", at=killed + 3, within=4, client_id="shop", topic="orders")
    lab.expect("not_enough_replicas", at=killed + 3, within=4, client_id="shop-java", topic="orders")


@workload("One broker of three is killed, for good.", nodes=3)
def broker_killed(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for library in ("librdkafka", "java"):
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(9)
    lab.kill_broker(1)
    lab.wait(18)
    lab.allow("stale_leader")  # for the session of the broker nobody else may lead
    lab.allow("unanswered_requests")


@workload("A quota slows a producer down; another one has none.")
def throttled(lab: Lab) -> None:
    lab.topic("logs")
    main = "kafka.admin.ConfigCommand"
    entity = ["--entity-type", "clients", "--entity-name", "chatty"]
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "producer_byte_rate=4000"]
    lab.tool(main, *words, *entity)
    lab.produce("chatty", "logs", rate=20, size=1000)
    lab.produce("quiet", "logs", rate=2)
    lab.wait(14)
    lab.expect("throttled", client_id="chatty")


@workload("One key has half of the records.")
def hot_key(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("many", "orders", rate=0, count=1500, keys=100, linger_ms=50)
    lab.produce("one", "orders", rate=0, count=1500, keys=1, linger_ms=50)
    lab.wait(5)


@workload("A consumer commits after each record, another one by itself.")
def commits(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    lab.consume("careful", "orders", group="careful", commit=1)
    lab.consume("relaxed", "orders", group="relaxed")
    lab.wait(18)
    lab.expect("commit_per_record", client_id="careful", group_id="careful")


@workload("The only broker stands still for six seconds.")
def broker_frozen(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    lab.freeze_broker(1, 6)
    lab.wait(6)
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


@workload("Two programs have the same group.instance.id.")
def same_instance(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", group="billing", group_instance_id="host-1")
        lab.wait(6)
    lab.wait(4)
    lab.expect("static_member_flapping", group_id="billing")


@workload("Producers that do not wait for replicas, next to one that does.")
def few_acks(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop-0", "orders", acks="0")
    lab.produce("shop-1", "orders", acks=1, library="aiokafka")
    lab.produce("shop-all", "orders", acks="all")
    lab.wait(6)
    lab.expect("acks_below_all", client_id="shop-0")
    lab.expect("acks_below_all", client_id="shop-1")


@workload("A client logs in with PLAIN in the clear.", secure=True)
def password_in_the_clear(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", listener="SASL")
    lab.produce("safe", "orders", listener="SASL_TLS")
    lab.produce("scram", "orders", listener="SASL", mechanism="SCRAM-SHA-256")
    lab.wait(6)
    lab.expect("plaintext_credentials", user_name="alice")
