"""More incidents: records deleted ahead of a consumer, storms and their first causes, slow links, values no schema describes."""

import sys

from tests.truth.lab import SOURCES, Lab, workload

SHORT_SESSION = {"session_timeout_ms": 6000}
JAVA = {"java": {"library": "java"}}
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "total", "type": "long"}]}'


@workload(
    "Records are deleted ahead of a consumer that is slow.",
    variants={
        "java": {"library": "java", "release": "3.9.2"},
        "kafka-python": {"library": "kafka-python", "release": "2.8.2"},
    },
)
def deleted_ahead(lab: Lab, library: str = "aiokafka") -> None:
    lab.topic("orders", 1)
    lab.produce("import", "orders", rate=0, count=900, size=400, linger_ms=5, batch_size=3000).finish()
    lab.produce("shop", "orders", rate=5)
    little = {"max_partition_fetch_bytes": 3000, "fetch_max_bytes": 3000}
    lab.consume("billing", "orders", group="billing", library=library, pause=0.1, **little)
    lab.wait(16)
    deleted = lab.note("records up to 800 are deleted")
    lab.admin("retention", "purge orders 800")
    lab.wait(14)
    lab.expect("offset_reset", at=deleted + 4, within=5, client_id="billing", topic="orders", direction="skipped")
    lab.allow("small_fetches", client_id="billing")
    lab.allow("tiny_batches", client_id="import")
    lab.allow("falling_behind", client_id="billing", cause="~consumer")


@workload(
    "A consumer comes back too late, and begins at the end: auto.offset.reset is latest.",
    variants={
        "kafka-python": {"library": "kafka-python", "release": "3.9.2"},
        "aiokafka": {"library": "aiokafka", "release": "2.8.2"},
    },
)
def back_at_the_end(lab: Lab, library: str = "java") -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20)
    reader = lab.consume("billing", "orders", group="billing", library=library, auto_offset_reset="latest")
    lab.wait(14)
    reader.stop()
    lab.wait(10)
    lab.admin("retention", "purge orders -1")
    reader.start()
    lab.wait(12)
    lab.expect(
        "offset_reset", at=reader.started + 3, within=4, client_id="billing", topic="orders", direction="skipped"
    )
    lab.allow("offset_out_of_range_loop", client_id="billing", severity="warning")


@workload(
    "One member of three crashes again and again; the group rebalances for its sake.",
    variants={"java": {"library": "java", "release": "3.9.2"}},
)
def storm_of_crashes(lab: Lab, **settings: str) -> None:
    lab.topic("orders", 6)
    lab.produce("shop", "orders", rate=10)
    members = [lab.consume(f"billing-{n}", "orders", group="billing", **SHORT_SESSION, **settings) for n in range(3)]
    lab.wait(14)
    for _ in range(6):
        members[2].kill()
        lab.wait(9)
        members[2].start()
        lab.wait(4 if not settings else 7)
    lab.expect(
        "rebalance_storm", group_id="billing", first_cause=["session timeout", "restart loop"], client_id="billing-2"
    )
    lab.expect("rebalances", client_id="billing-2", cause=["session timeout", "restart loop"])
    lab.never("rebalances", cause=["poll timeout", "deployment"])


@workload(
    "One member of three needs too long for a record; it leaves and comes back, again and again.",
    variants={"3-9": {"library": "java", "release": "3.9.2"}},
)
def storm_of_slowness(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 6)
    polls = {"group": "billing", "library": library, "max_poll_interval_ms": 6500, **SHORT_SESSION}
    if library == "java":
        polls["max_poll_records"] = 1
    for number in range(2):
        lab.consume(f"billing-{number}", "orders", **polls)
    lab.consume("billing-slow", "orders", pause=8, **polls)
    lab.wait(10)
    lab.produce("shop", "orders", rate=12)
    lab.wait(90)
    lab.expect("rebalance_storm", group_id="billing", first_cause="poll timeout", client_id="billing-slow")
    lab.expect("max_poll_exceeded", client_id="billing-slow")
    lab.never("max_poll_exceeded", client_id=["billing-0", "billing-1"])
    lab.never("rebalances", cause=["session timeout", "deployment"])
    lab.allow("refused_commits", client_id="billing-slow")
    lab.allow("falling_behind", client_id="billing-slow")
    lab.allow("group_without_commits", client_id="billing-slow")


@workload(
    "Producers of one host fill the broker's request queue: it compresses their batches anew, with one thread for all.",
    release="2.8.2",
    variants={"3-9": {"release": "3.9.2"}},
    num_io_threads="1",
)
def filled_queue(lab: Lab) -> None:
    lab.topic("bulk", 4, compression_type="gzip")
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=20, library="kafka-python", acks="all")
    lab.consume("billing", "orders", group="billing", library="aiokafka")
    lab.wait(14)
    words = {"rate": 0, "size": 50_000, "noise": 1, "host": "bulk", "linger_ms": 20, "batch_size": 900_000, "acks": "1"}
    bulk = [lab.produce(f"bulk-{number}", "bulk", **words) for number in range(4)]
    lab.wait(16)
    for one in bulk:
        one.kill()
    lab.wait(10)
    lab.expect("noisy_neighbour", client_id="~bulk")
    lab.allow("slow_broker")
    lab.allow("acks_below_all", client_id="~bulk")
    lab.allow("unanswered_requests", client_id="~bulk")
    lab.allow("no_compression", client_id="~bulk")
    lab.allow("tiny_batches", client_id="shop")


_FLOODS = """
import sys, time
sys.path.insert(0, {folder!r})
from tests.support.sockets import Wire
from tests.support.frames import request
wires = [Wire({at!r}) for _ in range(150)]
flood = b"".join(request(3, 1, number, b"\\xff\\xff\\xff\\xff", client_id="dashboard") for number in range(4))
until = time.time() + {seconds}
while time.time() < until:
    for wire in wires:
        wire.send(flood)
    for wire in wires:
        for _ in range(4):
            wire.frame()
"""


@workload("A program asks for all topics all the time, on many connections: requests of few bytes.", num_io_threads="1")
def flood_of_questions(lab: Lab) -> None:
    for number in range(8):
        lab.topic(f"wide-{number}", 150)
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=20)
    lab.consume("billing", "orders", group="billing")
    lab.wait(12)
    text = _FLOODS.format(folder=str(SOURCES.parent.parent), at=lab.cluster.bootstrap("PLAIN"), seconds=14)
    lab.program("dashboard", "admin", "home-made", [sys.executable, "-c", text]).finish()
    lab.wait(9)
    lab.expect("noisy_neighbour", client_id="dashboard")
    lab.expect("metadata_storm", client_id="dashboard")
    lab.allow("slow_broker")


@workload(
    "The clock of the capturing host is set by little, or while not much goes on.",
    variants={
        "quiet": {"seconds": 25, "rate": 1, "library": "aiokafka"},
        "minutes": {"seconds": -420, "library": "kafka-python", "release": "2.8.2"},
    },
)
def capture_clock_moved(lab: Lab, seconds: float = -1.5, rate: float = 10, library: str = "librdkafka") -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", rate=rate, library=library, acks="all")
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", library=library, group="billing")
    lab.wait(12)
    at = lab.set_capture_clock(seconds)
    lab.wait(12)
    lab.expect("clock_jump", at=at, within=abs(seconds) + 2, direction="back" if seconds < 0 else "forward")
    if abs(seconds) < 60:  # else nothing is in its order
        lab.never("rebalances", cause=["session timeout", "poll timeout", "went silent"])


@workload(
    "The broker's link is slow: its consumers get less than is produced.",
    variants={"3-9": {"library": "aiokafka", "release": "3.9.2"}},
)
def slow_link(lab: Lab, library: str = "librdkafka") -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=60, size=2000, linger_ms=50)
    lab.consume("billing", "orders", group="billing", library=library)
    lab.consume("audit", "orders", group="audit", library=library)
    lab.wait(10)
    lab.network.limit_from("broker-1", 600)  # kbit a second, of the 2 x 960 that both need
    lab.wait(40)
    lab.allow(
        "falling_behind", topic="orders", cause="broker"
    )  # an answer of half a minute may bring all that is there
    lab.never("falling_behind", cause=["consumer", "consumer or its network"])
    lab.expect("slow_broker")
    lab.allow("no_compression")
    lab.allow("tiny_batches")


@workload(
    "A replica that missed records becomes the leader of idempotent producers; records are lost.",
    nodes=3,
    release="3.9.2",
    variants={"2-8": {"release": "2.8.2", "library": "java"}, "late": {"seconds": 20}},
    unclean_leader_election_enable="true",
)
def lost_by_election(lab: Lab, library: str = "librdkafka", seconds: float = 8) -> None:
    lab.cluster.topic("orders", 1, 2, {"unclean.leader.election.enable": "true"})  # on brokers 1 and 2
    lab.produce("shop", "orders", rate=30, enable_idempotence="true", acks="all", library=library)
    lab.consume("billing", "orders", group="billing", library="kafka-python")
    lab.wait(9)
    lab.stop_broker(2)
    lab.wait(seconds)
    lab.kill_broker(1)
    lab.start_broker(2)
    back = lab.note("a replica without the last records leads")
    lab.wait(18)
    lab.expect("lost_records", at=back, within=18, topic="orders")
    lab.allow("sequence_errors", client_id="shop")
    lab.allow("tiny_batches", client_id="shop")
    for analysis in (
        "offset_reset",
        "stale_leader",
        "unanswered_requests",
        "offset_out_of_range_loop",
        "broker_away",
        "reconnect_loop",
    ):
        lab.allow(analysis)


@workload(
    "A producer writes two values that are not what their schema says; a consumer stops there, one skips them.",
    variants={"2-8": {"library": "kafka-python", "release": "2.8.2"}, "java": {"reader": "java"}},
)
def broken_values(lab: Lab, library: str = "librdkafka", reader: str = "librdkafka") -> None:
    lab.records, lab.schemas = True, {"orders-value.avsc": ORDER, "7.avsc": ORDER}
    lab.topic("orders", 1)
    lab.topic("bills", 1)
    words = {"rate": 10, "schema_id": 7, "library": library, "acks": "all"}
    lab.produce("shop", "orders", bad=[60, 61], **words)
    lab.produce("fine", "bills", **words)
    lab.consume("billing", "orders", group="billing", poison=60, library=reader)
    lab.consume("skips", "orders", group="skips", library="aiokafka")
    lab.wait(26)
    lab.expect(
        "poison_records",
        topic="orders",
        partition_offset=60,
        writer="shop",
        consumer="billing",
        severity="critical",
        records=2,
    )
    lab.never("poison_records", topic="bills")
    lab.expect("stuck_fetch_loop", client_id="billing", partition_offset=60)
    lab.allow("falling_behind", client_id="billing")


@workload("Values that are not what their schema says, which all consumers skip; ids of schemas that are not known.")
def skipped_values(lab: Lab) -> None:
    lab.records, lab.schemas = True, {"orders-value.avsc": ORDER, "7.avsc": ORDER}
    lab.topic("orders", 1)
    lab.topic("unknown", 1)
    lab.produce("shop", "orders", rate=10, schema_id=7, bad=[40], acks="all", library="aiokafka")
    lab.produce("other", "unknown", rate=10, schema_id=8)
    for library in ("java", "kafka-python"):
        lab.consume(f"skips-{library}", "orders,unknown", group=f"skips-{library}", library=library)
    lab.wait(20)
    lab.expect("poison_records", topic="orders", partition_offset=40, severity="notice", consumers=0)
    lab.never("poison_records", topic="unknown")
    lab.never("poison_records", severity="critical")


@workload("Producers of many records with one key each, and others whose keys are spread, few, or missing.")
def keys(lab: Lab) -> None:
    lab.records = True
    for name in ("hot-40", "hot-60", "hot-python", "spread", "few", "none"):
        lab.topic(name, 4)
    many = {"rate": 0, "linger_ms": 20, "acks": "all"}
    lab.produce("hot-40", "hot-40", count=1500, keys=50, hot=40, **many)
    lab.produce("hot-60", "hot-60", count=2500, keys=200, hot=60, **many)
    lab.produce("hot-python", "hot-python", count=1400, keys=100, hot=35, library="kafka-python", **many)
    lab.produce("spread", "spread", count=2000, keys=300, hot=10, **many)
    lab.produce("few", "few", count=2000, keys=4, **many)
    lab.produce("none", "none", count=2000, **many)
    lab.wait(12)
    for name in ("hot-40", "hot-60", "hot-python"):
        lab.expect("hot_keys", topic=name, client_id=name, key_hex=b"key-0".hex().upper())
    for name in ("spread", "few", "none"):
        lab.never("hot_keys", topic=name)
    lab.allow("skewed_partitions", topic="~hot|few|none")
    lab.allow("tiny_batches")


@workload("Producers of records that nearly fill a batch or come without compression, and others that do neither.")
def sizes(lab: Lab) -> None:
    lab.topic("images", 2)
    words = {"rate": 2, "count": 7, "acks": "all", "flush": 1}
    for library, limit in (
        ("librdkafka", "message_max_bytes"),
        ("kafka-python", "max_request_size"),
        ("java", "max_request_size"),
    ):
        lab.produce(
            f"near-{library}",
            "images",
            size=1_000_000,
            library=library,
            **{limit: 1_040_000, "batch_size": 1_040_000},
            **words,
        )
    lab.produce("half", "images", size=500_000, **words)
    squeezed = {"size": 1_000_000, "compression_type": "gzip", "library": "kafka-python"}
    lab.produce("squeezed", "images", **{**words, **squeezed})
    batches = {"rate": 300, "count": 3000, "size": 500, "linger_ms": 300, "batch_size": 1_000_000, "acks": "all"}
    lab.produce("full-batches", "images", library="java", **batches)
    lab.wait(20)
    for library in ("librdkafka", "kafka-python", "java"):
        lab.expect("near_max_message", client_id=f"near-{library}", topic="images")
        lab.expect("no_compression", client_id=f"near-{library}", topic="images")
    for name in ("half", "squeezed", "full-batches"):
        lab.never("near_max_message", client_id=name)
        lab.never("no_compression", client_id=name)


@workload("Producers whose records are late, and others that are a little late, early, or in a topic of their own.")
def times_of_records(lab: Lab) -> None:
    for name in ("orders", "clicks", "prices", "archive", "calm"):
        lab.topic(name, 1)
    lab.topic("stamped", 1, message_timestamp_type="LogAppendTime")
    for name in ("orders", "clicks", "prices"):
        lab.produce(f"shop-{name}", name, acks="all")
    lab.wait(2)
    lab.produce("hour", "orders", shift=-3600)
    lab.produce("minutes", "clicks", shift=-600, library="kafka-python", acks="all")
    lab.produce("days", "prices", shift=-200_000)
    lab.produce("archive", "archive", shift=-86_400)  # all of the topic is old
    lab.produce("shop-calm", "calm")
    lab.produce("minute", "calm", shift=-60)
    lab.produce("shop-stamped", "stamped")
    lab.produce("late-stamped", "stamped", shift=-3600)  # the broker stamps them
    lab.consume("reads-stamped", "stamped", group="reads-stamped")
    lab.wait(12)
    for name, topic in (("hour", "orders"), ("minutes", "clicks"), ("days", "prices")):
        lab.expect("late_records", client_id=name, topic=topic)
    for name in ("archive", "minute", "shop-orders", "shop-calm", "shop-stamped", "late-stamped"):
        lab.never("late_records", client_id=name)


_COMMITS_LATE = """
import sys, time, struct
sys.path.insert(0, {folder!r})
from tests.support.sockets import Wire
from tests.support.frames import request, string, array
commit = string("billing") + struct.pack(">i", {generation}) + string({member!r}) + struct.pack(">q", -1)
commit += array(string("orders") + array(struct.pack(">iq", 0, 5) + string("")))
with Wire({at!r}) as wire:
    for number in range({count}):
        wire.send(request(8, 2, number, commit, client_id={name!r}))
        wire.frame()
        time.sleep(0.5)
"""


@workload(
    "Programs whose commits their group refuses, and others that are thrown out but commit nothing, or commit by hand."
)
def commits_refused(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", rate=4)
    lab.consume("billing", "orders", group="billing", commit=10)
    lab.consume("by-hand", "orders", group="by-hand", assign=[0], commit=5, library="kafka-python")
    frozen = lab.consume("reads-only", "orders", group="reads-only", commit=-1, **SHORT_SESSION)
    late = lab.consume("late", "orders", group="late", commit=1, library="kafka-python", **SHORT_SESSION)
    lab.consume("late-too", "orders", group="late", commit=1, library="kafka-python", **SHORT_SESSION)
    lab.wait(14)
    at, folder = lab.cluster.bootstrap("PLAIN"), str(SOURCES.parent.parent)
    for name, member, generation in (("stranger", "no-such-member", 1), ("old-script", "of-last-year", 7)):
        text = _COMMITS_LATE.format(folder=folder, at=at, name=name, member=member, generation=generation, count=6)
        lab.program(name, "consume", "home-made", [sys.executable, "-c", text])
    late.freeze(10)
    frozen.freeze(10)
    lab.wait(10)
    for name in ("stranger", "old-script"):
        lab.expect("refused_commits", client_id=name)
    lab.expect("session_expired", client_id="late", group_id="late")  # which says what becomes of its commits, too
    for name in ("billing", "by-hand", "reads-only", "late"):
        lab.never("refused_commits", client_id=name)
    lab.never("session_expired", client_id=["stranger", "old-script"])
    for analysis in ("session_expired", "rebalances", "commit_storm", "group_without_commits"):
        lab.allow(analysis)


@workload(
    "Three programs have the same group.instance.id; next to static members whose ids are their own.",
    variants={
        "2-8": {"library": "aiokafka", "release": "2.8.2"},
        "new": {"library": "java", "group_protocol": "consumer"},
    },
)
def one_instance_of_three(lab: Lab, library: str = "librdkafka", **settings: str) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", acks="all")
    for number in (1, 2):
        lab.consume(
            f"calm-{number}", "orders", group="calm", group_instance_id=f"calm-{number}", library=library, **settings
        )
    for number in (1, 2, 3):
        lab.consume(
            f"billing-{number}", "orders", group="billing", group_instance_id="pod", library=library, **settings
        )
        lab.wait(6)
    lab.wait(5)
    lab.expect("static_member_flapping", group_id="billing", group_instance_id="pod")
    lab.never("static_member_flapping", group_id="calm")
    lab.allow("reconnect_loop", client_id="~billing")
    lab.allow("refused_commits", client_id="~billing")  # of those that were displaced
    lab.never("session_expired")


@workload("Producers with acks=0 and acks=1 of three libraries, and others with acks=all.", release="2.8.2")
def acks_of_all_kinds(lab: Lab) -> None:
    lab.topic("orders", 2)
    for library in ("librdkafka", "kafka-python", "aiokafka", "java"):
        java = {"release": "2.8.2"} if library == "java" else {}
        lab.produce(f"none-{library}", "orders", library=library, acks=0, **java)
        lab.produce(f"one-{library}", "orders", library=library, acks=1, **java)
        lab.produce(f"all-{library}", "orders", library=library, acks="all", **java)
    lab.wait(12)
    for library in ("librdkafka", "kafka-python", "aiokafka", "java"):
        lab.expect("acks_below_all", client_id=f"none-{library}", acks=0, severity="notice")
        lab.expect("acks_below_all", client_id=f"one-{library}", acks=1, severity="info")
        lab.never("acks_below_all", client_id=f"all-{library}")
