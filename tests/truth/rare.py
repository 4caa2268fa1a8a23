"""More incidents and look-alikes: one client's network, a starved broker, clients without a group, a home-made client."""

import random
import sys

from tests.support.sockets import metadata
from tests.truth.healthy import CALM
from tests.truth.lab import Lab, workload

SHORT_SESSION = {"session_timeout_ms": 6000}
OF_PYTHON: dict[str, dict[str, str]] = {name: {"library": name} for name in ("kafka-python", "aiokafka")}
JAVA = {"java": {"library": "java"}}


@workload("Producers of five libraries, which have no group, are restarted one after the other.", healthy=True)
def producers_restarted(lab: Lab) -> None:
    lab.topic("orders", 4)
    libraries = ("librdkafka", "java", "kafka-python", "aiokafka", "franz-go")
    producers = [lab.produce(f"shop-{library}", "orders", library=library) for library in libraries]
    lab.consume("billing", "orders", group="billing")
    lab.wait(7)
    for producer in producers:
        producer.restart()
        lab.wait(3)
    lab.wait(3)
    lab.allow("acks_below_all", client_id="shop-aiokafka")
    lab.never("broker_away")
    lab.never("reconnect_loop")


@workload(
    "Four replicas of a producer under one name, on hosts of their own, are replaced one after the other.",
    healthy=True,
    variants={"java": {"library": "java"}, "sarama": {"library": "sarama", "release": "2.8.2"}},
)
def replicas_replaced(lab: Lab, library: str = "aiokafka") -> None:
    lab.topic("orders", 4)
    replicas = [lab.produce("shop", "orders", library=library, host=f"pod-{number}") for number in range(4)]
    lab.wait(6)
    for number, replica in enumerate(replicas):
        lab.produce("shop", "orders", library=library, host=f"pod-{number + 4}")
        lab.wait(2)
        replica.stop()
        lab.wait(1)
    lab.wait(3)
    lab.allow("acks_below_all", client_id="shop")
    lab.never("broker_away")
    lab.never("reconnect_loop")


@workload("Readers without a group are restarted; they begin from the beginning.", healthy=True, release="3.9.2")
def readers_restarted(lab: Lab) -> None:
    lab.topic("prices", 3)
    lab.produce("shop", "prices", rate=20)
    libraries = ("kafka-python", "aiokafka", "franz-go")
    readers = [lab.consume(f"cache-{library}", "prices", library=library) for library in libraries]
    lab.wait(8)
    for reader in readers:
        reader.restart()
        lab.wait(4)
    lab.never("broker_away")
    lab.never("offset_reset")
    lab.never("group_without_commits")


@workload("The clock of the capturing host is set forward by more than a minute.", release="2.8.2")
def capture_clock_set_old(lab: Lab, seconds: float = 90) -> None:
    lab.topic("orders", 3)
    for library in ("kafka-python", "librdkafka"):
        lab.produce(f"shop-{library}", "orders", library=library, rate=10)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(8)
    at = lab.set_capture_clock(seconds)
    lab.wait(8)
    lab.expect("clock_jump", at=at, within=seconds + 2)
    for analysis in ("broker_away", "slow_broker", "unanswered_requests", "idle_connections", "noisy_neighbour"):
        lab.never(analysis)


@workload("A look-alike of a clock set forward: nobody has anything to do, then the day begins.", healthy=True)
def silence_of_all(lab: Lab) -> None:
    lab.topic("orders", 2)
    shop = {"library": "java", "count": 20, "rate": 10, "connections_max_idle_ms": 3_600_000}
    lab.produce("shop", "orders", **shop)
    lab.wait(25)
    lab.produce("shop-late", "orders", **shop)
    lab.wait(6)
    lab.never("clock_jump")
    lab.never("broker_away")


@workload(
    "An idempotent producer's leader lost records that it had acknowledged: a replica that missed them leads.",
    nodes=3,
    variants=JAVA,
    unclean_leader_election_enable="true",
)
def unclean_leader_idempotent(lab: Lab, **settings: str) -> None:
    lab.cluster.topic("orders", 1, 2, {"unclean.leader.election.enable": "true"})  # on brokers 1 and 2
    lab.produce("shop", "orders", rate=20, enable_idempotence="true", acks="all", **settings)
    lab.consume("billing", "orders", group="billing")
    lab.wait(8)
    lab.stop_broker(2)
    lab.wait(8)
    lab.kill_broker(1)
    back = lab.start_broker(2)
    lab.wait(15)
    lab.expect("lost_records", at=back, within=15, topic="orders")
    lab.allow("sequence_errors", client_id="shop")  # Java's begins a new epoch
    for analysis in ("offset_reset", "stale_leader", "unanswered_requests", "offset_out_of_range_loop", "broker_away"):
        lab.allow(analysis)


@workload("Leaders are moved by a reassignment under idempotent producers; nothing is lost.", healthy=True, nodes=3)
def reassigned(lab: Lab) -> None:
    lab.cluster.topic("orders", 3, 2, {"min.insync.replicas": "1"})
    for library in ("librdkafka", "java", "franz-go"):
        lab.produce(f"shop-{library}", "orders", library=library, rate=20)
    lab.consume("billing", "orders", group="billing", library="aiokafka")
    lab.wait(8)
    for shift in (1, 2):
        moves = ",".join(
            f'{{"topic":"orders","partition":{p},"replicas":[{(p + shift) % 3 + 1},{(p + shift + 1) % 3 + 1}]}}'
            for p in range(3)
        )
        plan = lab.properties("plan.json", f'{{"version":1,"partitions":[{moves}]}}')
        words = ["--bootstrap-server", lab.cluster.open, "--reassignment-json-file", plan, "--execute"]
        lab.tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *words)
        lab.wait(7)
    lab.never("rebalances", cause=CALM)
    lab.allow("tiny_batches")  # 20 a second, each by itself


@workload("The network of one client's host is cut for 25 s; the others work on.", variants=JAVA)
def host_cut_off(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=10)
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", group="billing", **SHORT_SESSION, **settings)
    lab.wait(12)
    cut = lab.cut_off("billing-2", 25)
    lab.wait(12)
    lab.expect("rebalances", at=cut + 6, within=4, cause="session timeout", client_id="billing-2")
    lab.allow("session_expired", client_id="billing-2")
    lab.allow("refused_commits", client_id="billing-2")
    lab.allow("unanswered_requests", client_id="billing-2")
    lab.allow("rebalances", group_id="billing")
    lab.never("broker_away")
    lab.never("clock_jump")


@workload(
    "The only broker gets a fifth of its processor.",
    variants={"3-9": {"release": "3.9.2"}, "2-8": {"release": "2.8.2", "library": "kafka-python"}},
)
def starved_broker(lab: Lab, library: str = "java") -> None:
    lab.topic("orders", 3)
    for name in ("librdkafka", library):
        lab.produce(f"shop-{name}", "orders", library=name, rate=10)
        lab.consume(f"billing-{name}", "orders", library=name, group=f"billing-{name}", commit=1)
    lab.wait(8)
    lab.starve_broker(1, 25)
    lab.wait(4)
    lab.expect("slow_broker")
    lab.allow("commit_storm")
    lab.allow("falling_behind", cause="~broker")
    lab.allow("unanswered_requests")
    lab.never("rebalances", cause=["poll timeout", "restart loop"])


@workload("One broker of three gets a fifth of its processor.", nodes=3)
def one_starved(lab: Lab) -> None:
    lab.topic("orders", 3, replicas=1)
    lab.produce("shop", "orders", rate=30)
    lab.produce("shop-java", "orders", rate=30, library="java", acks="1")
    lab.wait(8)
    lab.starve_broker(2, 25)
    lab.wait(4)
    broker = lab.cluster.brokers[2].where("PLAIN")
    lab.expect("slow_broker", broker=broker)
    lab.allow("tiny_batches")
    lab.allow("acks_below_all", client_id="shop-java")


@workload("A consumer that lags takes 3 KB at a time.", variants={**OF_PYTHON, **JAVA})
def small_bites(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 1)
    batches = {"linger_ms": 5, "batch_num_messages": 5}
    lab.produce("import", "orders", rate=0, count=9000, size=400, **batches).finish()
    limit = {"fetch_max_bytes": 3000, "max_partition_fetch_bytes": 3000}
    if library == "librdkafka":
        limit = {"fetch_max_bytes": 3000, "fetch_message_max_bytes": 3000, "message_max_bytes": 3000}
    lab.consume("billing", "orders", group="billing", library=library, **limit)
    lab.wait(15)
    lab.expect("small_fetches", client_id="billing")
    lab.allow("tiny_batches", client_id="import")


@workload(
    "A member commits after it was thrown out for its slowness.",
    variants={**JAVA, "kafka-python": {"library": "kafka-python"}},
)
def late_commits(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    polls = {"group": "billing", "library": library, "max_poll_interval_ms": 7000, "commit": 1, **SHORT_SESSION}
    lab.consume("billing-1", "orders", **polls)
    lab.consume("billing-2", "orders", pause=11, **polls)
    lab.wait(8)
    lab.produce("shop", "orders", rate=4)
    lab.wait(26)
    # no library sends a commit after it has left by itself; with the error that kafka-python raises, this program ends
    says = lab.allow if library == "kafka-python" else lab.expect
    says("max_poll_exceeded", client_id="billing-2", group_id="billing")
    lab.allow("refused_commits", client_id="billing-2", group_id="billing")
    lab.never("refused_commits", client_id="billing-1")
    lab.allow("rebalances", group_id="billing")
    lab.allow("commit_storm")
    lab.allow("rebalance_storm", group_id="billing")


@workload(
    "Each member of a group needs longer for a record than it may: it is thrown out, comes back, and so on.",
    variants=JAVA,
)
def all_too_slow(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 4)
    polls = {"group": "billing", "library": library, "max_poll_interval_ms": 6000, **SHORT_SESSION}
    lab.produce("shop", "orders", rate=8)
    for number in range(4):
        lab.consume(f"billing-{number}", "orders", pause=8, **polls)
        lab.wait(1)
    lab.wait(56)
    for client in lab.clients[1:]:
        client.kill()
    lab.allow("rebalance_storm", group_id="billing")
    lab.expect("max_poll_exceeded", group_id="billing")
    lab.allow("rebalances", group_id="billing")
    lab.allow("refused_commits", group_id="billing")
    lab.allow("falling_behind", topic="orders")
    lab.allow("group_without_commits", group_id="billing")


@workload(
    "The broker of the offsets of groups of Python goes away; they have one replica.",
    nodes=3,
    variants={"2-8": {"release": "2.8.2"}},
    offsets_topic_replication_factor="1",
    offsets_topic_num_partitions="1",
)
def coordinator_of_python_gone(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", acks="all")
    for library in ("kafka-python", "aiokafka"):
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(12)
    known = metadata(lab.cluster.open, ["__consumer_offsets"])
    killed = lab.stop_broker(known.leaders["__consumer_offsets", 0])
    lab.wait(25)
    for library in ("kafka-python", "aiokafka"):
        lab.expect("coordinator_errors", at=killed + 3, within=6, resource=f"billing-{library}")
    lab.allow("not_enough_replicas")
    lab.allow("broker_away")
    lab.allow("metadata_storm")


@workload("A look-alike: the coordinator's broker is restarted; its groups go to another one.", healthy=True, nodes=3)
def coordinator_restarted(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", acks="all")
    for library in ("kafka-python", "aiokafka", "java"):
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library)
    lab.wait(10)
    known = metadata(lab.cluster.open, ["__consumer_offsets"])
    node = known.leaders["__consumer_offsets", 0]
    lab.stop_broker(node)
    lab.start_broker(node)
    lab.wait(12)
    lab.never("coordinator_errors")
    lab.never("rebalances", cause=["poll timeout", "restart loop"])


@workload("A transactional producer of Java stands still within a transaction, for longer than it may last.")
def transaction_frozen(lab: Lab) -> None:
    lab.topic("paid", 1)
    words = {"transactional_id": "copier", "transaction_timeout_ms": 100_000, "library": "java"}
    copier = lab.client("copier", "transact", topic="paid", batch=10_000, rate=10, **words)
    lab.consume("reader", "paid", group="readers", isolation_level="read_committed")
    lab.wait(8)
    lab.produce("other", "paid")
    copier.freeze(66)
    lab.wait(1)
    copier.kill()
    lab.wait(4)
    lab.expect("open_transaction", transactional_id="copier")
    lab.expect("read_committed_blocked", client_id="reader")


@workload(
    "Members of kafka-python and Java have no assignor in common.",
    variants={"2-8": {"release": "2.8.2", "java": "2.8.2"}},
)
def assignors_of_two_libraries(lab: Lab, java: str = "") -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", acks="all")
    lab.consume("billing-python", "orders", group="billing", library="kafka-python")
    lab.wait(8)
    cooperative = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    words = {"library": "java", "partition_assignment_strategy": cooperative, **({"release": java} if java else {})}
    started = lab.consume("billing-java", "orders", group="billing", **words).started
    lab.wait(9)
    lab.expect("assignor_mismatch", at=started + 4, within=4, client_id="billing-java", group_id="billing")


@workload("A program writes microseconds where milliseconds belong; an old broker takes it.", release="2.8.2")
def microseconds(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("ahead", "orders", library="kafka-python", shift=1.8e12, acks="all")
    lab.produce("shop", "orders", library="kafka-python", acks="all")
    lab.wait(9)
    lab.expect("future_timestamps", client_id="ahead", topic="orders")
    lab.never("future_timestamps", client_id="shop")
    lab.allow("late_records", client_id="shop")  # next to those of the other one they are


@workload("A look-alike: a producer's clock is twenty seconds ahead.", healthy=True)
def clock_a_little_ahead(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", shift=20)
    lab.produce("shop-python", "orders", library="kafka-python", shift=5)
    lab.wait(8)
    lab.never("future_timestamps")


@workload(
    "Users without permission: clients of Python; a group that its user may not read.",
    secure=True,
    variants={"2-8": {"release": "2.8.2"}},
    allow_everyone_if_no_acl_found="false",
)
def unauthorized_of_python(lab: Lab) -> None:
    lab.topic("orders")
    lab.produce("shop", "orders", listener="SASL", library="kafka-python", acks="all")
    lab.produce("intruder", "orders", listener="SASL", user="bob", library="kafka-python", acks="all")
    lab.consume("snoop", "orders", group="snoops", listener="SASL", user="bob", library="aiokafka")
    lab.wait(10)
    lab.expect("unauthorized_access", client_id="intruder")
    lab.expect("unauthorized_access", client_id="snoop")
    lab.never("unauthorized_access", client_id="shop")
    lab.allow("plaintext_credentials")
    lab.allow("unknown_topic_loop")
    lab.allow("metadata_storm")


@workload(
    "A home-made client sends batches whose checksum is wrong, next to others that are right.",
    variants={"2-8": {"release": "2.8.2"}, "3-9": {"release": "3.9.2"}},
)
def wrong_checksums(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    began = lab.client("home-made", "produce", topic="orders", library="home-made", rate=2, corrupt=1).started
    lab.wait(9)
    lab.expect("corrupt_batches", at=began + 2, within=4, topic="orders", client_id="home-made")
    lab.never("corrupt_batches", client_id="shop")
    lab.allow("late_records", client_id="home-made")


@workload(
    "A home-made client asks the first leader that it knew, for ever.",
    nodes=3,
    variants={"3-9": {"release": "3.9.2"}, "4-1": {"release": "4.1.2"}},
)
def clings_to_its_leader(lab: Lab) -> None:
    lab.cluster.topic("orders", 1, 3, {})
    lab.produce("shop", "orders", rate=10)
    lab.client("home-made", "produce", topic="orders", library="home-made", rate=4)
    lab.wait(8)
    moves = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,3,1]}]}'
    plan = lab.properties("plan.json", moves)
    words = ["--bootstrap-server", lab.cluster.open]
    main = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    lab.tool(main, *words, "--reassignment-json-file", plan, "--execute")
    lab.tool(
        "org.apache.kafka.tools.LeaderElectionCommand", *words, "--election-type", "preferred", "--all-topic-partitions"
    )
    moved = lab.note("the leader has moved")
    lab.wait(20)
    lab.expect("stale_leader", at=moved, within=4, client_id="home-made", topic="orders")
    lab.never("stale_leader", client_id="shop")
    lab.allow("late_records", client_id="home-made")


@workload(
    "Producers name a topic that is made for them.",
    variants={"2-8": {"release": "2.8.2"}},
    auto_create_topics_enable="true",
)
def made_for_them(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    lab.produce("typo-java", "oders", library="java", acks="all")
    lab.produce("typo-python", "odrers", library="kafka-python", acks="all")
    lab.wait(8)
    lab.expect("auto_created_topic", topic="oders")
    lab.expect("auto_created_topic", topic="odrers")
    lab.never("auto_created_topic", topic="orders")


@workload("One key has nearly all records.", variants=JAVA)
def one_key(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=0, count=12_000, keys=1, linger_ms=5, batch_size=6_000, **settings)
    lab.produce("spread", "orders", rate=0, count=3_000, keys=500, linger_ms=5, batch_size=6_000).finish()
    lab.wait(3)
    lab.allow("hot_keys", client_id="shop", topic="orders")
    lab.expect("skewed_partitions", topic="orders")
    lab.never("hot_keys", client_id="spread")


@workload("A monitor asks the broker's port by HTTP, and another one only opens a connection.")
def probes(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders")
    host, port = lab.cluster.bootstrap("PLAIN").split(":")
    asks = f"""
import socket, sys, time
while True:
    with socket.create_connection(("{host}", {port}), 5) as link:
        if sys.argv[1] == "http":
            link.sendall(b"GET /health HTTP/1.1\\r\\nHost: broker\\r\\n\\r\\n")
            link.settimeout(2)
            try:
                link.recv(100)
            except OSError:
                pass
    time.sleep(1.5)
"""
    for kind in ("http", "open"):
        lab.program(f"probe-{kind}", "probe", "socket", [sys.executable, "-c", asks, kind])
    lab.wait(12)
    for client in lab.clients[1:]:
        client.kill()
    lab.expect("not_kafka")
    lab.never("broker_away")
    lab.allow("reconnect_loop", cause="~HTTP|http|no Kafka|not Kafka")


@workload("A topic gets more partitions while all work.", healthy=True, variants={"2-8": {"release": "2.8.2"}})
def more_partitions(lab: Lab) -> None:
    lab.topic("orders", 2)
    soon = {"topic_metadata_refresh_interval_ms": 3000}
    lab.produce("shop", "orders", rate=10, **soon)
    lab.consume("billing", "orders", group="billing", **soon)
    lab.consume("billing-java", "orders", group="billing-java", library="java", metadata_max_age_ms=3000)
    lab.wait(9)
    main = "org.apache.kafka.tools.TopicCommand" if lab.cluster.kraft else "kafka.admin.TopicCommand"
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--topic", "orders", "--partitions", "5"]
    lab.tool(main, *words)
    lab.wait(12)
    lab.never("rebalances", cause=CALM)


@workload("A quota slows consumers down.", variants={"3-9": {"release": "3.9.2", "library": "aiokafka"}})
def readers_throttled(lab: Lab, library: str = "java") -> None:
    lab.topic("logs", 1)
    entity = ["--entity-type", "clients", "--entity-name", "greedy"]
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "consumer_byte_rate=6000"]
    lab.tool("kafka.admin.ConfigCommand", *words, *entity)
    lab.produce("shop", "logs", rate=30, size=1000, linger_ms=100)
    lab.consume("greedy", "logs", group="greedy", library=library)
    lab.consume("free", "logs", group="free")
    lab.wait(20)
    lab.expect("throttled", client_id="greedy")
    lab.never("throttled", client_id="free")
    lab.expect("falling_behind", client_id="greedy", cause="quota")


@workload(
    "Idle producers, whose connections the broker closes after five seconds.",
    healthy=True,
    connections_max_idle_ms="5000",
)
def closed_when_idle(lab: Lab) -> None:
    lab.topic("orders", 1)
    for library in ("librdkafka", "java", "kafka-python"):
        lab.produce(f"shop-{library}", "orders", library=library, rate=0.12)
    lab.wait(40)
    lab.never("broker_away")
    lab.never("reconnect_loop")


@workload("An administrator sets a stopped group's offsets back to the beginning.", healthy=True)
def offsets_set_back(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=10)
    reader = lab.consume("billing", "orders", group="billing")
    lab.wait(10)
    reader.stop()
    lab.wait(1)
    words = ["--bootstrap-server", lab.cluster.open, "--group", "billing", "--topic", "orders"]
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    lab.tool(main, *words, "--reset-offsets", "--to-earliest", "--execute")
    reader.start()
    lab.wait(9)
    lab.allow("offset_reset", severity="~notice|info")
    lab.never("rebalances", cause=CALM)


@workload("New groups begin at the end of what is there.", healthy=True, release="3.9.2")
def begins_at_the_end(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=20)
    lab.wait(6)
    for library in ("librdkafka", "java", "kafka-python", "aiokafka"):
        words = {"group": f"live-{library}", "library": library, "auto_offset_reset": "latest"}
        lab.consume(f"live-{library}", "orders", **words)
    lab.wait(14)
    lab.never("offset_reset")
    lab.never("falling_behind")


@workload(
    "Consumers read from the replica in their own rack.",
    healthy=True,
    nodes=3,
    variants=JAVA,
    replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
def nearest_replica(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", rate=20)
    lab.consume("billing", "orders", group="billing", client_rack="rack-2", **settings)
    lab.wait(16)
    lab.never("stale_leader")


@workload("Records larger than the topic takes, of aiokafka and franz-go.", release="3.9.2")
def too_large_of_others(lab: Lab) -> None:
    lab.topic("images", 1, max_message_bytes="20000")
    lab.produce("camera", "images", library="aiokafka", rate=1, size=40_000, acks="all")
    lab.produce("thumbs", "images", size=5_000)
    lab.wait(9)
    lab.expect("message_too_large", client_id="camera", topic="images")
    lab.never("message_too_large", client_id="thumbs")


@workload("A producer sends each record by itself, hundreds a second.", variants=OF_PYTHON)
def one_by_one(lab: Lab, library: str = "java") -> None:
    lab.topic("clicks", 2)
    lab.produce("clicks", "clicks", library=library, rate=150, linger_ms=0, acks="all")
    lab.produce("batched", "clicks", rate=150, linger_ms=300)
    lab.wait(14)
    lab.expect("tiny_batches", client_id="clicks", topic="clicks")
    lab.never("tiny_batches", client_id="batched")


@workload("A producer is killed and started again by its supervisor, over and over.", variants=OF_PYTHON)
def crashing_producer(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 2)
    lab.produce("shop-steady", "orders")
    crashes = lab.produce("shop", "orders", acks="all", **settings)
    for _ in range(8):
        lab.wait(3)
        crashes.kill()
        crashes.start()
    lab.wait(4)
    lab.never("broker_away")
    lab.allow("reconnect_loop", client_id="shop")
    lab.allow("connection_churn", client_id="shop")


@workload(
    "Clients of four libraries whose settings are chosen at random.",
    healthy=True,
    variants={f"seed-{seed}": {"seed": seed} for seed in (2, 3)},
    nodes=3,
)
def settings_at_random(lab: Lab, seed: int = 1) -> None:
    chance = random.Random(seed)
    lab.topic("orders", 6)
    for library in ("librdkafka", "java", "kafka-python", "aiokafka"):
        of_c = library == "librdkafka"
        beats = chance.randint(400, 3000)
        age = "topic_metadata_refresh_interval_ms" if of_c else "metadata_max_age_ms"
        produces = {
            "acks": "all",
            "compression_type": chance.choice(
                ["gzip", *(["lz4", "zstd"] if library in {"java", "librdkafka"} else [])]
            ),
            age: chance.randint(2000, 9000),
            "linger_ms": chance.randint(0, 300),
        }
        lab.produce(f"shop-{library}", "orders", library=library, rate=chance.choice([2, 10, 40]), **produces)
        consumes = {
            "heartbeat_interval_ms": beats,
            "session_timeout_ms": beats * 3 + chance.randint(6000, 9000),
            "max_poll_interval_ms": chance.randint(20_000, 90_000),
            "fetch_wait_max_ms" if of_c else "fetch_max_wait_ms": chance.randint(50, 900),
            "fetch_min_bytes": chance.randint(1, 300),
        }
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, **consumes)
    lab.wait(45)
    lab.allow("tiny_batches")
    lab.allow("metadata_storm")


@workload(
    "All members of a group end every few seconds, and are started again by their supervisor.",
    variants={"java": {"library": "java", "every": 9}, "aiokafka": {"library": "aiokafka"}},
)
def crash_loops(lab: Lab, every: float = 3, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10)
    members = [
        lab.consume(f"billing-{number}", "orders", group="billing", **SHORT_SESSION, **settings) for number in range(3)
    ]
    lab.wait(6)
    for _ in range(6 if settings.get("library") == "java" else 9):
        for member in members:
            member.stop()
            member.start()
            lab.wait(every / 3)
    lab.wait(3)
    lab.expect("rebalance_storm", group_id="billing")
    lab.expect("rebalances", cause="restart loop", group_id="billing")
    lab.never("rebalances", cause="poll timeout")
