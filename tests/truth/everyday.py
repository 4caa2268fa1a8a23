"""Look-alikes: what goes on every day and resembles an incident. Captures that show a part of what happened, too."""

from tests.support.kafka.processes import eventually
from tests.truth.healthy import CALM
from tests.truth.lab import Lab, workload

LIBRARIES = ("librdkafka", "java", "kafka-python", "aiokafka")


@workload(
    "Clients stand still for two seconds and a half, one after the other, as Java's do.", healthy=True, release="3.9.2"
)
def pauses(lab: Lab) -> None:
    lab.topic("orders", 4)
    producers = [lab.produce(f"shop-{library}", "orders", library=library, acks="all") for library in LIBRARIES[:3]]
    members = [
        lab.consume(
            f"billing-{library}-{n}", "orders", group=f"billing-{library}", library=library, session_timeout_ms=12_000
        )
        for library in ("java", "aiokafka")
        for n in (1, 2)
    ]
    lab.wait(10)
    for client in [*producers, *members]:
        client.freeze(2.5)
        lab.wait(1)
    lab.wait(4)
    lab.never("rebalances", cause=CALM)


@workload(
    "Clients far away: 100 ms from their broker, and as long back.",
    healthy=True,
    variants={"2-8": {"release": "2.8.2"}},
)
def distant(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in LIBRARIES:
        for host in (f"shop-{library}", f"billing-{library}"):
            lab.network.delay(host, 100)
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.consume("near", "orders", group="near")
    lab.wait(24)
    lab.never("rebalances", cause=CALM)


@workload("Brokers of three in three places, 30 ms apart; one is restarted.", healthy=True, nodes=3)
def three_places(lab: Lab) -> None:
    lab.topic("orders", 3, min_insync_replicas="2")
    for node in (1, 2, 3):
        lab.network.delay(f"broker-{node}", 15)
    lab.produce("shop", "orders", acks="all", rate=20)
    lab.produce("shop-java", "orders", library="java", rate=10)
    lab.consume("billing", "orders", group="billing")
    lab.consume("billing-java", "orders", group="billing-java", library="java")
    lab.wait(14)
    lab.stop_broker(3)
    lab.start_broker(3)
    lab.wait(8)
    lab.allow("tiny_batches")
    lab.never("rebalances", cause=CALM)


@workload(
    "A topic is deleted and made again at once; its clients go on with the new one.",
    healthy=True,
    variants={
        "java": {"library": "java"},
        "kafka-python": {"library": "kafka-python"},
        "2-8": {"library": "librdkafka", "release": "2.8.2"},
    },
)
def made_again(lab: Lab, library: str = "aiokafka") -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20, library=library, acks="all")
    lab.consume("billing", "orders", group="billing", library=library)
    lab.wait(12)
    lab.admin("janitor", "delete orders")
    eventually(lambda: bool(lab.topic("orders", 1)), what="the topic is made again", patience=20, pause=0.3)
    lab.note("orders is there again")
    lab.wait(15)
    lab.never("offset_reset")  # what it read before is not there to be read again, and nothing was skipped
    lab.never("lost_records")
    lab.never("rebalances", cause=CALM)


@workload("A consumer has a quota that it meets when it begins, and then no more.", healthy=True, release="2.8.2")
def quota_at_first(lab: Lab) -> None:
    lab.topic("logs", 1)
    words = ["--bootstrap-server", lab.cluster.open, "--alter", "--add-config", "consumer_byte_rate=40000"]
    lab.tool("kafka.admin.ConfigCommand", *words, "--entity-type", "clients", "--entity-name", "reader")
    lab.produce("import", "logs", rate=0, count=300, size=1000, linger_ms=20).finish()
    lab.produce("shop", "logs", rate=8, size=1000)
    lab.wait(2)
    lab.consume("reader", "logs", group="reader", library="kafka-python")
    lab.wait(30)
    lab.allow("throttled", client_id="reader")
    lab.never("falling_behind")
    lab.never("slow_broker")


@workload(
    "Java's transactions, each second one of which is aborted by choice.",
    healthy=True,
    release="3.9.2",
    variants={"2-8": {"release": "2.8.2", "java": "2.8.2"}},
)
def aborted_by_java(lab: Lab, java: str = "3.9.2") -> None:
    lab.topic("paid", 2)
    words = {"batch": 8, "rate": 20, "abort": 1, "transactional_id": "copier", "library": "java", "release": java}
    lab.client("copier", "transact", topic="paid", **words)
    for library in ("aiokafka", "java"):
        reads = {"group": f"reader-{library}", "library": library, "isolation_level": "read_committed"}
        lab.consume(f"reader-{library}", "paid", **reads)
    lab.wait(16)
    lab.never("open_transaction")


@workload("A batch of a day in one transaction of 25 s, which may last 60 s.", healthy=True, release="3.9.2")
def transaction_of_a_batch(lab: Lab) -> None:
    lab.topic("paid", 2)
    words = {"batch": 20, "rate": 20, "hold": 25, "count": 20, "transactional_id": "batch"}
    lab.client("batch", "transact", topic="paid", **words)
    lab.produce("shop", "paid")
    for library in ("kafka-python", "java"):
        reads = {"group": f"reader-{library}", "library": library, "isolation_level": "read_committed"}
        lab.consume(f"reader-{library}", "paid", **reads)
    lab.wait(34)
    lab.allow("open_transaction", severity="notice")


@workload("An administrator sets a stopped group's offsets to the end: what is there is not wanted.", healthy=True)
def offsets_set_forward(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=20)
    readers = [
        lab.consume(f"billing-{each}", "orders", group=f"billing-{each}", library=each) for each in ("java", "aiokafka")
    ]
    lab.wait(10)
    for reader in readers:
        reader.stop()
    lab.wait(6)
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    for library in ("java", "aiokafka"):
        words = [
            "--bootstrap-server",
            lab.cluster.bootstrap("PLAIN"),
            "--group",
            f"billing-{library}",
            "--topic",
            "orders",
        ]
        lab.tool(main, *words, "--reset-offsets", "--to-latest", "--execute")
    for reader in readers:
        reader.start()
    lab.wait(9)
    lab.never("offset_reset")
    lab.never("rebalances", cause=CALM)


@workload(
    "Programs of one group that choose their partitions themselves and commit; one is restarted.",
    healthy=True,
    variants={"2-8": {"release": "2.8.2"}},
)
def assigned_by_hand(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.topic("bills", 3)
    for name in ("orders", "bills"):
        lab.produce(f"shop-{name}", name, rate=10)
    programs = [
        lab.consume(f"batch-{library}", topic, group="batch", library=library, assign=[place], commit=20)
        for place, (library, topic) in enumerate(
            (("librdkafka", "orders"), ("kafka-python", "bills"), ("java", "orders"))
        )
    ]
    lab.wait(16)
    programs[0].restart()
    lab.wait(18)
    lab.never("mixed_subscriptions")
    lab.never("group_without_commits")
    lab.never("rebalances", cause=CALM)


@workload(
    "Monitors that only ask: topics, groups, offsets, configurations.",
    healthy=True,
    variants={"2-8": {"release": "2.8.2"}},
)
def monitors(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing")
    lab.wait(6)
    asks = ["list", "groups", "offsets billing", "configs orders", "wait 1"]
    lab.client("exporter", "admin", do=[words.split() for words in asks * 40])
    lab.client("exporter-slow", "admin", do=[words.split() for words in ["list", "groups", "wait 8"] * 40])
    main = (
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        if lab.cluster.kraft
        else "kafka.admin.ConsumerGroupCommand"
    )
    for _ in range(3):
        lab.tool(main, "--bootstrap-server", lab.cluster.bootstrap("PLAIN"), "--describe", "--all-groups")
    lab.wait(8)


@workload(
    "A capture begins while a group of three is at work; then one of its members is restarted.",
    healthy=True,
    variants={
        "java": {"library": "java"},
        "new": {"group_protocol": "consumer"},
        "2-8": {"library": "kafka-python", "release": "2.8.2"},
    },
)
def begun_late(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10)
    members = [lab.consume(f"billing-{n}", "orders", group="billing", **settings) for n in range(3)]
    lab.wait(14)
    lab.begin_capture()
    lab.wait(12)
    left = members[1].stop()
    lab.wait(8)
    members[1].start()
    lab.wait(9)
    lab.expect("rebalances", at=left, within=6, group_id="billing", cause=["left", "deployment"], client_id="billing-1",
               members_before=3)  # fmt: skip
    lab.never("rebalances", cause=CALM)


@workload(
    "A capture of what clients say to the broker, not of what it answers; one member is restarted.",
    healthy=True,
    way="dst",
    variants={"src": {"way": "src"}, "2-8": {"release": "2.8.2"}, "src-2-8": {"way": "src", "release": "2.8.2"}},
)
def one_way(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in LIBRARIES:
        lab.produce(f"shop-{library}", "orders", library=library, acks="all")
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(12)
    for client in lab.clients[1:4:2]:
        client.restart()
    lab.wait(10)
    lab.never("rebalances", cause=CALM)


@workload(
    "A capture of the first bytes of each packet.",
    healthy=True,
    snap=128,
    variants={"300": {"snap": 300, "release": "2.8.2"}},
)
def short_packets(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in LIBRARIES:
        lab.produce(f"shop-{library}", "orders", library=library, acks="all", size=500)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(10)
    lab.clients[1].restart()
    lab.wait(8)
    lab.never("rebalances", cause=CALM)


@workload(
    "A capture from which six seconds are missing, as a rotated file that was lost.",
    healthy=True,
    variants={"2-8": {"release": "2.8.2"}},
)
def with_a_hole(lab: Lab) -> None:
    lab.topic("orders", 3)
    for library in LIBRARIES:
        lab.produce(f"shop-{library}", "orders", library=library, acks="all", rate=10)
        lab.consume(f"billing-{library}", "orders", library=library, group=f"billing-{library}")
    lab.wait(12)
    at = lab.note("packets are lost from here on")
    lab.wait(6)
    lab.hole = at, lab.note("packets are captured again")
    lab.wait(8)
    lab.never("broker_away")
    lab.never("rebalances", cause=CALM)


@workload(
    "Consumers handle what comes in bursts; between these they catch up.",
    healthy=True,
    variants={"java": {"library": "java"}},
)
def bursts(lab: Lab, library: str = "aiokafka") -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=5)
    lab.consume("billing", "orders", group="billing", library=library, pause=0.004)
    lab.consume("audit", "orders", group="audit", library=library)
    lab.wait(9)
    for number in range(4):
        lab.produce(f"import-{number}", "orders", rate=250, count=1000, linger_ms=50, host="import")
        lab.wait(12)
    lab.never("falling_behind")
    lab.allow("tiny_batches", client_id="shop")


@workload("A consumer pauses its partitions while it works, and polls on.", healthy=True, release="3.9.2")
def flow_control(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=7)
    lab.consume("billing", "orders", group="billing", rest=6)
    lab.consume("audit", "orders", group="audit", library="aiokafka")
    lab.wait(40)
    lab.never("stuck_fetch_loop")
    lab.never("falling_behind", client_id="audit")
    lab.never("rebalances", cause=CALM)


@workload("One of the bootstrap addresses is that of a broker that is no more.", healthy=True)
def old_address(lab: Lab) -> None:
    lab.topic("orders", 2)
    gone = f"{lab.network.address('gone')}:9092"
    for library in LIBRARIES:
        where = f"{gone},{lab.cluster.bootstrap('PLAIN')}"
        lab.produce(f"shop-{library}", "orders", library=library, acks="all", bootstrap=where)
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", library=library, bootstrap=where)
    lab.wait(16)
    lab.never("broker_away")


@workload("Groups of Go's clients are scaled up and down.", healthy=True, release="3.9.2")
def scaled_in_go(lab: Lab) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=20)
    for library in ("franz-go", "sarama"):
        members = [lab.consume(f"{library}-{n}", "orders", group=library, library=library) for n in range(4)]
        lab.wait(9)
        for member in members[1:]:
            member.stop()
            lab.wait(3)
    lab.never("rebalances", cause=CALM)


@workload(
    "A new release beside the old one: three new members join, then three old ones leave.",
    healthy=True,
    variants={"java": {"library": "java"}, "aiokafka": {"library": "aiokafka", "release": "2.8.2"}},
)
def new_beside_old(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10)
    old = [lab.consume("billing", "orders", group="billing", host=f"old-{n}", **settings) for n in range(3)]
    lab.wait(12)
    for number in range(3):
        lab.consume("billing", "orders", group="billing", host=f"new-{number}", **settings)
        lab.wait(2)
        old[number].stop()
        lab.wait(2)
    lab.wait(8)
    lab.never("rebalances", cause=CALM)
    lab.never("rebalance_storm")


@workload("A group is scaled from two members to fourteen and back, one at a time.", healthy=True)
def scaled_far(lab: Lab) -> None:
    lab.topic("orders", 14)
    lab.produce("shop", "orders", rate=20)
    members = []
    for number in range(14):
        members.append(lab.consume(f"billing-{number}", "orders", group="billing"))
        lab.wait(1 if number < 2 else 3.5)
    lab.wait(4)
    for member in members[2:]:
        member.stop()
        lab.wait(1.5)
    lab.wait(4)
    lab.never("rebalances", cause=CALM)
    lab.never("rebalance_storm")
    lab.allow("tiny_batches", client_id="shop")  # twenty records a second, each by itself


@workload("A group handles forty records at a time and needs eight seconds for them.", healthy=True, release="2.8.2")
def slow_batches(lab: Lab) -> None:
    lab.topic("orders", 2)
    for library in ("aiokafka", "kafka-python"):
        polls = {
            "library": library,
            "max_poll_records": 40,
            "max_poll_interval_ms": 60_000,
            "session_timeout_ms": 10_000,
        }
        lab.consume(f"billing-{library}", "orders", group=f"billing-{library}", pause=0.2, **polls)
    lab.wait(8)
    lab.produce("shop", "orders", rate=3)
    lab.wait(40)
    lab.never("max_poll_exceeded")
    lab.never("falling_behind")
    lab.never("rebalances", cause=CALM)


@workload(
    "Records live for four seconds; consumers keep up, and one comes back within that time.",
    healthy=True,
    release="2.8.2",
    log_retention_check_interval_ms="1000",
)
def short_retention(lab: Lab) -> None:
    lab.topic("prices", 1, retention_ms="4000", segment_ms="1500")
    lab.produce("shop", "prices", rate=20)
    readers = [lab.consume(f"screen-{each}", "prices", group=f"screen-{each}", library=each) for each in LIBRARIES]
    lab.wait(16)
    readers[0].restart()
    lab.wait(12)
    lab.never("offset_reset")
    lab.never("offset_out_of_range_loop")
    lab.never("lost_records")
