"""Analyses for which there were few workloads: three incidents and three look-alikes of each, in one workload."""

import sys
from collections.abc import Mapping

from tests.truth.lab import SOURCES, Lab, workload

# A client that is told of an old broker uses what Kafka 4.0 dropped (KIP-896).
OLD = {"api_version_request": "false", "broker_version_fallback": "0.9.0.1"}


def _python(lab: Lab, host: str, text: str) -> None:
    lab.program(host, "script", "python", [sys.executable, "-c", text])


@workload("Consumers of four libraries that do not wait at the broker, and others that have nothing to read and do.")
def fetches_without_a_wait(lab: Lab) -> None:
    lab.topic("quiet", 1)
    lab.topic("busy", 1)
    lab.produce("shop", "quiet", rate=1)
    lab.produce("bursts", "busy", rate=200, linger_ms=20)
    for library, setting in (
        ("librdkafka", {"fetch_wait_max_ms": 1}),
        ("java", {"fetch_max_wait_ms": 1}),
        ("kafka-python", {"fetch_max_wait_ms": 1}),
        ("aiokafka", {"fetch_max_wait_ms": 1}),
    ):
        lab.consume(f"spins-{library}", "quiet", group=f"spins-{library}", library=library, **setting)
    lab.consume("waits", "quiet", group="waits", library="java")
    lab.consume("waits-200", "quiet", group="waits-200", library="kafka-python", fetch_max_wait_ms=200)
    lab.consume("is-busy", "busy", group="is-busy", library="aiokafka")
    lab.wait(25)
    for library in ("librdkafka", "java", "kafka-python", "aiokafka"):
        lab.expect("empty_fetch_loop", client_id=f"spins-{library}")
    for name in ("waits", "waits-200", "is-busy"):
        lab.never("empty_fetch_loop", client_id=name)
    lab.allow("tiny_batches")


@workload("Members that commit many times a second, by four ways, and others that commit as one does.")
def commits_at_all_paces(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.topic("slow", 1)
    lab.produce("shop", "orders", rate=60)
    lab.produce("slow", "slow", rate=1)
    lab.consume("each-c", "orders", group="each-c", commit=1)
    lab.consume("each-java", "orders", group="each-java", library="java", commit=1)
    lab.consume("each-python", "orders", group="each-python", library="kafka-python", commit=1)
    lab.consume("often", "orders", group="often", auto_commit_interval_ms=40)
    lab.consume("by-hundreds", "orders", group="by-hundreds", commit=100)
    lab.consume("by-itself", "orders", group="by-itself", library="java")
    lab.consume("each-second", "orders", group="each-second", library="aiokafka", auto_commit_interval_ms=1000)
    lab.consume("each-of-few", "slow", group="each-of-few", commit=1)
    lab.wait(28)
    for name in ("each-c", "each-java", "each-python", "often"):
        lab.expect("commit_storm", client_id=name, group_id=name)
    for name in ("by-hundreds", "by-itself", "each-second", "each-of-few"):
        lab.never("commit_storm", client_id=name)
    lab.allow("tiny_batches", client_id="shop")


@workload("Groups with more members than partitions, and others that have as many, or have no longer.")
def members_to_spare(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    settings: Mapping[str, Mapping[str, str]] = {
        "classic": {"library": "librdkafka"},
        "newer": {"library": "java", "group_protocol": "consumer"},
        "python": {"library": "kafka-python"},
    }
    for name, how in settings.items():
        for number in range(3):
            lab.consume(f"{name}-{number}", "orders", group=name, **how)
    for number in range(2):
        lab.consume(f"fits-{number}", "orders", group="fits", library="aiokafka")
    shrinks = [lab.consume(f"shrinks-{number}", "orders", group="shrinks") for number in range(3)]
    lab.consume("by-hand", "orders", group="by-hand", assign=[0])
    lab.wait(25)
    shrinks[0].stop()
    lab.wait(12)
    for name in settings:
        lab.expect("idle_members", group_id=name, members=3, idle=1, partitions=2)
    for name in ("fits", "shrinks", "by-hand"):
        lab.never("idle_members", group_id=name)
    lab.allow("rebalances", group_id=["shrinks", *settings])


@workload("Topics whose records nearly all go to one partition, for three reasons, and others that only look so.")
def one_partition_has_most(lab: Lab) -> None:
    for name in ("by-key", "by-number", "by-python", "even", "warm", "few"):
        lab.topic(name, 6)
    lab.topic("single", 1)
    fast = {"rate": 0, "linger_ms": 5, "batch_size": 6_000}
    lab.produce("by-key", "by-key", count=14_000, keys=600, hot=95, **fast)
    lab.produce("by-number", "by-number", count=12_000, partition=3, **fast)
    lab.produce("by-number-2", "by-number", count=2_500, keys=500, **fast)
    lab.produce(
        "by-python", "by-python", library="kafka-python", rate=0, count=14_000, keys=1, acks="all", batch_size=6_000
    )
    lab.produce("by-python-2", "by-python", count=2_500, keys=500, **fast)
    lab.produce("even", "even", count=14_000, keys=600, **fast)
    lab.produce("warm", "warm", count=14_000, keys=600, hot=15, **fast)
    lab.produce("few", "few", count=3_000, keys=1, **fast)
    lab.produce("few-2", "few", count=300, keys=100, **fast)
    lab.produce("single", "single", count=14_000, keys=600, **fast)
    lab.wait(22)
    for name in ("by-key", "by-number", "by-python"):
        lab.expect("skewed_partitions", topic=name)
    lab.expect("skewed_partitions", topic="by-number", partition=3)
    for name in ("even", "warm", "few", "single"):
        lab.never("skewed_partitions", topic=name)
    lab.allow("hot_keys")
    lab.allow("acks_below_all")


@workload(
    "Clients that are told of a broker before 0.11, with one of 3.9; and clients that Kafka 4 still answers.",
    release="3.9.2",
)
def clients_of_long_ago(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders", acks="all")
    of_0_10 = {"library": "kafka-python", "api_version": (0, 10)}
    lab.produce("told-0-10", "orders", acks="all", **of_0_10)
    lab.consume("reads-0-10", "orders", group="reads-0-10", **of_0_10)
    lab.produce("told-0-9", "orders", acks="all", **OLD)
    lab.consume("reads-0-9", "orders", group="reads-0-9", **OLD)
    lab.produce("java-0-11", "orders", library="java", release="0.11.0.3", acks="all")
    lab.consume("reads-0-11", "orders", group="reads-0-11", library="java", release="0.11.0.3")
    lab.produce("java-2-8", "orders", library="java", release="2.8.2", acks="all")
    lab.consume("reads-aio", "orders", group="reads-aio", library="aiokafka")
    lab.wait(20)
    for name in ("told-0-10", "reads-0-10", "told-0-9", "reads-0-9"):
        lab.expect("readiness", client_id=name, verdict="will break")
    for name in ("shop", "java-0-11", "reads-0-11", "java-2-8", "reads-aio"):
        lab.never("readiness", client_id=name, verdict="~break")


# Programs that make a client for each piece of work; how often, a second.
_EACH_TIME = {
    "each-time-c": (
        "import confluent_kafka as k, time\nwhile True:\n"
        "    p = k.Producer({{'bootstrap.servers': {at!r}, 'client.id': {name!r}}})\n"
        "    p.produce('orders', b'x')\n    p.flush(20)\n    del p\n    time.sleep(0.4)"
    ),
    "each-time-python": (
        "import kafka as k, time\nwhile True:\n    p = k.KafkaProducer(bootstrap_servers={at!r}, client_id={name!r})\n"
        "    p.send('orders', b'x').get(20)\n    p.close()\n    time.sleep(0.4)"
    ),
    "each-time-aio": (
        "import aiokafka as k, asyncio\nasync def run():\n    while True:\n"
        "        p = k.AIOKafkaProducer(bootstrap_servers={at!r}, client_id={name!r})\n        await p.start()\n"
        "        await p.send_and_wait('orders', b'x')\n        await p.stop()\n        await asyncio.sleep(0.4)\n"
        "asyncio.run(run())"
    ),
    "now-and-then": (
        "import kafka as k, time\nwhile True:\n    p = k.KafkaProducer(bootstrap_servers={at!r}, client_id={name!r})\n"
        "    p.send('orders', b'x').get(20)\n    p.close()\n    time.sleep(8)"
    ),
    "pool": (
        "import kafka as k, time\npool = [k.KafkaProducer(bootstrap_servers={at!r}, client_id={name!r}) for _ in range(12)]\n"
        "while True:\n    for p in pool:\n        p.send('orders', b'x').get(20)\n        time.sleep(0.2)"
    ),
    "one": (
        "import kafka as k, time\np = k.KafkaProducer(bootstrap_servers={at!r}, client_id={name!r})\n"
        "while True:\n    p.send('orders', b'x').get(20)\n    time.sleep(0.1)"
    ),
}


@workload("Programs that make a client for each record, and others that keep one, keep a pool, or come now and then.")
def clients_for_each_record(lab: Lab) -> None:
    lab.topic("orders", 2)
    at = lab.cluster.bootstrap("PLAIN")
    for name, text in _EACH_TIME.items():
        _python(lab, name, text.format(at=at, name=name))
    lab.wait(35)
    for name in _EACH_TIME:
        if name.startswith("each-time"):
            lab.expect("connection_churn", client_id=name)
        else:
            lab.never("connection_churn", client_id=name)
            lab.never("metadata_storm", client_id=name)
    lab.allow("metadata_storm")
    lab.allow("acks_below_all")
    lab.allow("tiny_batches")


_ASKS = """
import time
from confluent_kafka.admin import AdminClient
admin = AdminClient({{"bootstrap.servers": {at!r}, "client.id": {name!r}}})
for _ in range({times}):
    admin.list_topics(timeout=20)
    time.sleep({every})
time.sleep(900)
"""


@workload("Programs that list all topics several times a second, and others that do in a burst, or each few seconds.")
def lists_of_topics(lab: Lab) -> None:
    for number in range(20):
        lab.topic(f"orders-{number}", 2)
    at = lab.cluster.bootstrap("PLAIN")
    for name, (times, every) in {
        "lists-5": (1000, 0.2),
        "lists-10": (1000, 0.1),
        "lists-4": (1000, 0.25),
        "burst": (150, 0.005),
        "each-3-seconds": (1000, 3),
        "once": (1, 0),
    }.items():
        _python(lab, name, _ASKS.format(at=at, name=name, times=times, every=every))
    lab.produce("shop", "orders-1", topic_metadata_refresh_interval_ms=2000)
    lab.wait(40)
    for name in ("lists-5", "lists-10", "lists-4"):
        lab.expect("metadata_storm", client_id=name)
    for name in ("burst", "each-3-seconds", "once", "shop"):
        lab.never("metadata_storm", client_id=name)
    lab.allow("unreachable_brokers", client_id="~list|each")


_SEQUENCES = """
import sys, time
from struct import pack, unpack_from
sys.path.insert(0, {folder!r})
from tests.support.frames import array, batch, frame, record, request, string
from tests.support.sockets import Wire
wire, number = Wire({at!r}), 0
def ask(api, version, body):
    global number
    number += 1
    wire.send(request(api, version, number, body, client_id={name!r}))
    return wire.frame()
refused = 1
while refused:  # its coordinator may not be there yet
    time.sleep(0.3)
    refused, producer, epoch = unpack_from(">hqh", ask(22, 0, string(None) + pack(">i", 60000)), 8 + 4)  # InitProducerId
def produce(sequence):
    data = batch(record(None, b"by hand"), 1, producer=(producer, epoch, sequence))
    body = string(None) + pack(">hi", -1, 5000) + array(string({topic!r}) + array(pack(">i", 0) + frame(data)))
    (error,) = unpack_from(">h", ask(0, 3, body), 8 + 4 + 2 + len({topic!r}) + 4 + 4)
    print(sequence, error, flush=True)
    time.sleep(0.2)
for sequence in {order}:
    produce(sequence)
"""


@workload("Idempotent producers that leave a batch out of their sequence, or send some late, or again, or in order.")
def sequences(lab: Lab) -> None:
    at, folder = lab.cluster.bootstrap("PLAIN"), str(SOURCES.parent.parent)
    began = lab.note("the producers begin")
    for name, order in {
        "loses-1": (0, 1, 3),
        "loses-2": (0, 2, 3),
        "loses-again": (0, 1, 5, 5, 5),
        "is-late": (0, 2, 1, 2, 3),
        "is-twice": (0, 1, 1, 2),
        "in-order": (0, 1, 2, 3),
    }.items():
        lab.topic(name, 1)
        text = _SEQUENCES.format(folder=folder, at=at, name=name, topic=name, order=order)
        _python(lab, name, text)
    lab.produce("shop", "in-order", enable_idempotence="true")
    lab.wait(12)
    for name, lost in (("loses-1", 1), ("loses-2", 2), ("loses-again", 1)):
        lab.expect("sequence_errors", at=began, within=9, client_id=name, topic=name, severity="critical", lost=lost)
    lab.expect("sequence_errors", client_id="is-late", topic="is-late", severity="info", lost=0)
    for name in ("is-twice", "in-order", "shop"):
        lab.never("sequence_errors", client_id=name)
    for name in ("is-late", "is-twice", "in-order", "shop"):
        lab.never("lost_records", client_id=name)
    lab.allow("lost_records", topic=["loses-1", "loses-2", "loses-again"])
    lab.allow("late_records")


@workload(
    "A supervisor starts a consumer again whose offset is gone, each time it ends; others move on.", release="3.9.2"
)
def offsets_that_are_gone(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", count=300, rate=0, acks="all").finish()
    names = {
        "ends-java": "java",
        "ends-python": "kafka-python",
        "asks-on": "aiokafka",
        "moves": "java",
        "moves-c": "librdkafka",
    }
    readers = {
        name: lab.consume(name, "orders", group=name, library=library, count=0, auto_commit_interval_ms=500)
        for name, library in names.items()
    }
    lab.wait(15)
    for reader in readers.values():
        reader.stop()
    # the groups stand in the middle of what is deleted
    words = [
        "--bootstrap-server",
        lab.cluster.open,
        "--reset-offsets",
        "--to-offset",
        "50",
        "--topic",
        "orders",
        "--execute",
    ]
    for name in names:
        lab.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *words, "--group", name)
    lab.admin("janitor", "purge orders 200")
    gone = lab.note("records up to offset 200 are gone")
    loops = {
        name: lab.consume(
            name, "orders", group=name, library=library, auto_offset_reset="none", session_timeout_ms=6000, host=name
        )
        for name, library in names.items()
        if not name.startswith("moves")
    }
    for name in ("moves", "moves-c"):
        lab.consume(name, "orders", group=name, library=names[name], auto_offset_reset="earliest", host=name)
    lab.consume("new", "orders", group="new", library="kafka-python")
    for _ in range(6):
        for name in ("ends-java", "ends-python"):
            loops[name].finish()  # it leaves its group, or is missed there after its session
            loops[name].start()
    lab.wait(4)
    for name in loops:
        lab.expect("offset_out_of_range_loop", at=gone, within=12, client_id=name, topic="orders")
    for name in ("moves", "moves-c", "new"):
        lab.never("offset_out_of_range_loop", client_id=name)
    for analysis in (
        "rebalances",
        "reconnect_loop",
        "rebalance_storm",
        "offset_reset",
        "connection_churn",
        "falling_behind",
    ):
        lab.allow(analysis)


@workload(
    "A broker stands still under clients of three libraries that give up on it, and others that have nothing open.",
    nodes=3,
)
def answers_that_never_came(lab: Lab) -> None:
    lab.topic("orders", 6, min_insync_replicas="2")
    short = {"request_timeout_ms": 6000, "enable_idempotence": "false", "max_in_flight_requests_per_connection": 20}
    lab.produce(
        "asks-java", "orders", library="java", rate=60, linger_ms=0, acks="all", delivery_timeout_ms=60_000, **short
    )
    lab.produce(
        "asks-java-2", "orders", library="java", rate=80, linger_ms=0, acks="all", delivery_timeout_ms=60_000, **short
    )
    lab.produce(
        "asks-python", "orders", library="kafka-python", rate=60, acks="all", **{**short, "enable_idempotence": False}
    )
    lab.consume("polls", "orders", group="polls")
    lab.consume("polls-java", "orders", group="polls-java", library="java")
    ends = lab.produce("ends", "orders", rate=50, acks="all")
    lab.produce("asks-for-nothing", "orders", rate=20, acks=0)
    lab.produce("all-answered", "orders", count=100, rate=20, acks="all")
    lab.wait(15)
    ends.kill()
    lab.wait(3)
    frozen = lab.freeze_broker(2, 40)
    lab.wait(15)
    for name in ("asks-java", "asks-java-2", "asks-python"):
        lab.expect("unanswered_requests", at=frozen, within=8, client_id=name)
    for name in ("all-answered", "asks-for-nothing", "ends"):
        lab.never("unanswered_requests", client_id=name)
    lab.allow("unanswered_requests", client_id="~polls")  # heartbeats and commits
    lab.allow("acks_below_all", client_id="asks-for-nothing")
    for analysis in (
        "broker_away",
        "stale_leader",
        "coordinator_errors",
        "not_enough_replicas",
        "slow_broker",
        "rebalances",
        "session_expired",
        "tiny_batches",
        "metadata_storm",
        "sequence_errors",
        "falling_behind",
        "no_leader",
        "refused_commits",
        "throttled",
        "reconnect_loop",
    ):
        lab.allow(analysis)
