"""Incidents of groups, transactions, share groups, Streams and Connect that the other modules do not have, and look-alikes."""

import sys
import zlib

from tests.truth.healthy import CALM, connect_worker, streams_job
from tests.truth.lab import SOURCES, Client, Lab, workload

_HEAD = f"""
import json, os, sys, time
sys.path.insert(0, {str(SOURCES.parent.parent)!r})
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
def say(event, **more):
    print(json.dumps({{"at": time.time(), "event": event, **more}}), flush=True)
where = {{"bootstrap.servers": sys.argv[1], "client.id": sys.argv[2]}}
def reader(**more):
    settings = {{"group.id": sys.argv[3], "auto.offset.reset": "earliest"}}
    return Consumer({{**where, **settings, **{{key.replace("_", "."): value for key, value in more.items()}}}})
"""


def _script(lab: Lab, client_id: str, text: str, *words: str, group: str = "billing") -> Client:
    """Start a program of confluent-kafka that is no role of the other clients."""
    command = [sys.executable, "-c", _HEAD + text, lab.cluster.bootstrap("PLAIN"), client_id, group, *words]
    return lab.program(client_id, "script", "librdkafka", command)


_PAUSES_ONE = """
c = reader()
c.subscribe(["orders"])
until = time.time() + 12
while time.time() < until:
    c.poll(0.2)
c.pause([TopicPartition("orders", 0)])
say("paused")
while True:
    c.poll(0.2)
"""


@workload("A circuit breaker pauses one of a consumer's four partitions and never resumes it; it reads the others.")
def one_partition_paused(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.produce("shop", "orders", rate=40, linger_ms=0, keys=200)
    stuck = _script(lab, "stuck", _PAUSES_ONE)
    lab.consume("calm", "orders", group="calm")
    lab.wait(60)
    lab.expect("stopped_reading", at=stuck.event("paused"), within=3, client_id="stuck", group_id="billing")
    lab.allow("falling_behind", client_id="stuck")
    lab.allow("tiny_batches", client_id="shop")
    lab.never("stopped_reading", client_id="calm")


_NEVER_COMMITS = """
p = Producer({**where, "transactional.id": "copier", "transaction.timeout.ms": 900000})
p.init_transactions(30)
p.begin_transaction()
say("began transaction")
while True:
    p.produce("paid", b"one")
    p.poll(0.2)
"""


@workload("A program forgets to commit its transaction, and writes on in it; readers of two libraries wait.")
def forgets_to_commit(lab: Lab) -> None:
    lab.topic("paid", 1)
    lab.consume("reader", "paid", group="readers")
    lab.consume("reader-java", "paid", group="readers-java", library="java", isolation_level="read_committed")
    lab.consume("hasty", "paid", group="hasty", isolation_level="read_uncommitted")
    lab.wait(6)
    copier = _script(lab, "copier", _NEVER_COMMITS)
    lab.wait(78)
    lab.expect("open_transaction", at=copier.event("began transaction"), within=3, transactional_id="copier")
    for name in ("reader", "reader-java"):
        lab.expect("read_committed_blocked", client_id=name)
    lab.never("read_committed_blocked", client_id="hasty")
    lab.allow("tiny_batches", client_id="copier")


@workload("Transactions may last an hour, as connectors of Flink want; the broker allows a quarter of that.")
def transactions_of_an_hour(lab: Lab) -> None:
    lab.topic("paid", 1)
    words = {"topic": "paid", "transaction_timeout_ms": 3_600_000}
    lab.client("calm", "transact", topic="paid", transactional_id="calm")
    began = lab.note("two producers start")
    sinks = [
        lab.client(f"sink-{name}", "transact", library=name, transactional_id=name, **words)
        for name in ("java", "librdkafka")
    ]
    for _ in range(3):
        for sink in sinks:
            if not sink.running:
                sink.start()
        lab.wait(5)
    for name in ("java", "librdkafka"):
        lab.expect(
            "refused_requests",
            at=began + 2,
            within=10,
            client_id=f"sink-{name}",
            error_name="INVALID_TRANSACTION_TIMEOUT",
        )
    lab.never("refused_requests", client_id="calm")


@workload("A consumer's group has the name of the group of Connect's workers; it is refused.")
def named_as_connect(lab: Lab) -> None:
    lab.topic("lines", 2)
    lab.produce("shop", "lines")
    connect_worker(
        lab,
        "connect-1",
        {"name": "writes", "connector.class": "FileStreamSink", "file": "/dev/null", "topics": "lines"},
    )
    lab.wait(5)
    began = lab.note("consumers start")
    lab.consume("reader", "lines", group="connect")
    lab.consume("reader-java", "lines", group="connect", library="java")
    lab.wait(20)
    for name in ("reader", "reader-java"):
        lab.expect("assignor_mismatch", at=began + 3, within=12, client_id=name, group_id="connect")
    lab.never("rebalances", cause=CALM)


@workload("A member of a share group names a consumer group, and the other way round; both are refused.")
def groups_of_other_kinds(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("billing", "orders", group="billing", library="java")
    lab.consume("audit", "orders", group="audit", group_protocol="consumer")
    lab.client("worker", "share", topic="orders", group="workers", library="java")
    lab.wait(16)
    began = lab.note("those of other kinds start")
    lab.client("worker-2", "share", topic="orders", group="billing", library="java")
    lab.client("worker-3", "share", topic="orders", group="audit", library="java")
    lab.consume("billing-2", "orders", group="workers", library="java")
    lab.consume("billing-3", "orders", group="workers", group_protocol="consumer")
    lab.wait(20)
    groups = {"worker-2": "billing", "worker-3": "audit", "billing-3": "workers"}
    for name, group in groups.items():
        lab.expect("refused_requests", at=began + 3, within=12, client_id=name, resource=group)
    lab.expect("assignor_mismatch", at=began + 3, within=12, client_id="billing-2", group_id="workers")
    lab.allow("refused_requests", client_id="billing-2")
    lab.never("refused_requests", client_id=["billing", "audit", "worker"])


@workload("Clients a continent away wait half a second for answers that take eight tenths.")
def too_impatient(lab: Lab) -> None:
    lab.topic("orders", 1)
    for name in ("far", "far-reader", "calm"):
        lab.network.delay(name, 400)
    lab.produce("near", "orders")
    lab.produce("calm", "orders", library="java", acks="all")
    lab.produce("far", "orders", library="java", acks="all", request_timeout_ms=500, delivery_timeout_ms=5000)
    lab.consume("far-reader", "orders", group="readers", library="java", request_timeout_ms=500, fetch_max_wait_ms=100)
    lab.wait(35)
    for name in ("far", "far-reader"):
        lab.expect("reconnect_loop", client_id=name, cause="waits less than the way takes")
        lab.allow("unanswered_requests", client_id=name)
        lab.allow("connection_churn", client_id=name)
    for analysis in ("unanswered_requests", "reconnect_loop", "connection_churn", "broker_away"):
        lab.never(analysis, client_id=["near", "calm"])
    lab.never("broker_away")


_SETS_OFFSETS = """
time.sleep(1)
admin = AdminClient(where)
offsets = [ConsumerGroupTopicPartitions(group, [TopicPartition("orders", 0, 50000)]) for group in sys.argv[4:]]
for one in offsets:
    while True:  # until the coordinator is there
        done = [future.result(20) for future in admin.alter_consumer_group_offsets([one]).values()]
        if not any(place.error for group in done for place in group.topic_partitions):
            break
        time.sleep(0.5)
say("altered")
"""


@workload("Offsets are copied from another cluster, where the topic is longer; consumers find theirs beyond the end.")
def offsets_of_another_cluster(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20)
    lab.wait(8)
    _script(lab, "operator", _SETS_OFFSETS, "first", "last").finish()
    began = lab.note("consumers start")
    lab.consume("first", "orders", group="first", library="java")
    lab.consume("last", "orders", group="last", auto_offset_reset="latest")
    lab.consume("new", "orders", group="new")
    lab.wait(24)
    lab.expect("offset_reset", at=began + 4, within=12, client_id="first", topic="orders")
    lab.expect("offset_reset", at=began + 4, within=12, client_id="last", topic="orders")
    lab.never("offset_reset", client_id="new")


_ROLLS_BACK = """
c = reader(enable_auto_commit=False)
c.subscribe(["orders"])
while True:
    m = c.poll(0.2)
    if m is None or m.error():
        continue
    if m.offset() == 40:
        c.commit(m, asynchronous=False)
    if m.offset() == 70:
        say("failed")
        time.sleep(0.5)
        c.seek(TopicPartition("orders", 0, 41))
"""


@workload("A batch fails at its thirtieth record, and is begun again from what was committed, for ever.")
def rolls_back(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    reader = _script(lab, "billing", _ROLLS_BACK)
    lab.consume("audit", "orders", group="audit")
    lab.wait(36)
    lab.expect("stuck_fetch_loop", at=reader.event("failed"), within=6, client_id="billing", topic="orders")
    lab.allow("falling_behind", client_id="billing")


_FLIPS = """
c = reader(session_timeout_ms=6000)
topics = [["orders"], ["orders", "refunds"]]
for number in range(1000):
    c.subscribe(topics[number % 2])
    until = time.time() + 4
    while time.time() < until:
        c.poll(0.2)
"""


@workload("A member of three subscribes anew every four seconds, in turn with and without a second topic.")
def subscription_flips(lab: Lab) -> None:
    lab.topic("orders", 4)
    lab.topic("refunds", 2)
    lab.produce("shop", "orders", rate=10)
    for number in (1, 2):
        lab.consume(f"billing-{number}", "orders", group="billing")
    lab.wait(8)
    _script(lab, "flips", _FLIPS)
    lab.wait(55)
    lab.expect("rebalance_storm", group_id="billing", client_id="flips")
    lab.expect("rebalances", group_id="billing", cause="~subscription|topics", client_id="flips")
    lab.never("rebalances", cause=CALM)
    lab.allow("mixed_subscriptions", group_id="billing")


@workload("One key has most records; the member that has its partition falls behind, the others are idle.")
def hot_partition_lags(lab: Lab) -> None:
    lab.topic("orders", 3)
    lab.produce("shop", "orders", rate=50, keys=60, hot=85, linger_ms=20)
    members = [lab.consume(f"billing-{number}", "orders", group="billing", pause=0.05) for number in range(3)]
    lab.wait(70)
    hot = f"orders-{zlib.crc32(b'key-0') % 3}"
    last = {member.client_id: member.events("assigned")[-1]["partitions"] for member in members}
    (behind,) = (name for name, partitions in last.items() if hot in partitions)
    lab.expect("falling_behind", client_id=behind, topic="orders", cause="consumer")
    lab.never("falling_behind", client_id=[name for name in last if name != behind])
    lab.allow("skewed_partitions", topic="orders")
    lab.allow("hot_keys", topic="orders")
    lab.allow("tiny_batches", client_id="shop")


_DELETES_GROUP = """
admin = AdminClient(where)
for future in admin.delete_consumer_groups([sys.argv[3]]).values():
    future.result(20)
say("deleted")
"""


@workload("A clean-up deletes a stopped group; its consumer comes back and goes on at the end.")
def cleaned_up_group(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    reader = lab.consume("billing", "orders", group="billing", auto_offset_reset="latest")
    calm = lab.consume("audit", "orders", group="audit", auto_offset_reset="latest")
    lab.wait(12)
    reader.stop()
    calm.stop()
    lab.wait(2)
    _script(lab, "janitor", _DELETES_GROUP).finish()
    lab.wait(6)
    again = reader.start()
    calm.start()
    lab.wait(12)
    lab.expect("offset_reset", at=again + 4, within=5, client_id="billing", topic="orders", direction="skipped")
    lab.never("offset_reset", client_id="audit")
    lab.allow("changes")


@workload("Two jobs of Streams that have nothing in common have the same application.id.")
def streams_of_one_name(lab: Lab) -> None:
    for name in ("lines", "orders", "counts", "totals"):
        lab.topic(name, 2)
    lab.produce("shop", "lines", keys=10)
    lab.produce("shop-orders", "orders", keys=10)
    streams_job(lab, "counter")
    lab.wait(14)
    streams_job(lab, "totals", "orders", "totals")
    lab.wait(50)
    lab.expect("mixed_subscriptions", group_id="counter")
    lab.allow("rebalance_storm", group_id="counter")


@workload("A job of Streams fails at a record; the thread is replaced, and its successor fails there again, for ever.")
def streams_poison(lab: Lab) -> None:
    for name in ("lines", "counts"):
        lab.topic(name, 1)
    lab.produce("shop", "lines", rate=10, keys=10)
    streams_job(lab, "counter", poison="90 ", session_timeout_ms="8000")
    lab.wait(55)
    lab.expect("rebalances", group_id="counter", cause="restart loop")
    lab.expect("stuck_fetch_loop", topic="lines")
    lab.allow("rebalance_storm", group_id="counter")
    lab.allow("falling_behind")


@workload("A worker of Connect crashes and is started again, over and over.")
def worker_flaps(lab: Lab) -> None:
    lab.topic("lines", 2)
    lab.produce("shop", "lines")
    sink = {"connector.class": "FileStreamSink", "file": "/dev/null", "topics": "lines", "tasks.max": "2"}
    connect_worker(
        lab, "connect-1", {"name": "writes", **sink}, session_timeout_ms="6000", heartbeat_interval_ms="2000"
    )
    flaps = connect_worker(lab, "connect-2", session_timeout_ms="6000", heartbeat_interval_ms="2000")
    lab.wait(14)
    for _ in range(4):
        killed = flaps.kill()
        lab.wait(9)
        lab.expect("rebalances", at=killed + 6, within=3, group_id="connect", cause=["session timeout", "restart loop"])
        flaps.start()
        lab.wait(13)
    lab.allow("rebalance_storm", group_id="connect")
    lab.never("rebalances", cause=["poll timeout", "deployment"])


@workload(
    "A transactional producer writes so rarely that its broker forgets its transactional.id meanwhile.",
    transactional_id_expiration_ms="8000",
    transaction_remove_expired_transaction_cleanup_interval_ms="2000",
)
def forgotten_transactional_id(lab: Lab) -> None:
    lab.topic("paid", 1)
    lab.client("calm", "transact", topic="paid", rate=2, batch=2, transactional_id="calm")
    words = {"topic": "paid", "rate": 0.045, "batch": 1}
    lab.client("rare", "transact", transactional_id="rare", **words)
    lab.client("rare-java", "transact", transactional_id="rare-java", library="java", **words)
    lab.wait(38)
    for name in ("rare", "rare-java"):
        lab.expect("refused_requests", client_id=name, error_name="INVALID_PRODUCER_ID_MAPPING")
    lab.never("refused_requests", client_id="calm")
    lab.never("producer_fenced", client_id="calm")


@workload("A share group takes two members; a third one is refused.", group_share_max_size="2")
def share_group_is_full(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    for number in (1, 2):
        lab.client(f"worker-{number}", "share", topic="orders", group="workers", library="java")
    lab.wait(15)
    began = lab.client("worker-3", "share", topic="orders", group="workers", library="java").started
    lab.wait(18)
    lab.expect(
        "refused_requests",
        at=began + 3,
        within=12,
        client_id="worker-3",
        resource="workers",
        error_name="GROUP_MAX_SIZE_REACHED",
    )
    lab.never("refused_requests", client_id=["worker-1", "worker-2"])


@workload(
    "One of two instances of Streams, of the protocol of KIP-1071, is killed.",
    group_streams_session_timeout_ms="6000",
    group_streams_min_session_timeout_ms="6000",
    group_streams_heartbeat_interval_ms="2000",
    group_streams_min_heartbeat_interval_ms="2000",
)
def streams_instance_killed(lab: Lab) -> None:
    for name in ("lines", "counts"):
        lab.topic(name, 4)
    lab.produce("shop", "lines", rate=10, keys=10)
    goes, _ = (streams_job(lab, f"counter-{number}", group_protocol="streams") for number in (1, 2))
    lab.wait(35)
    killed = goes.kill()
    lab.wait(16)
    lab.expect("rebalances", at=killed + 6, within=4, group_id="counter", cause="session timeout")
    lab.never("rebalances", cause=["poll timeout", "deployment", "restart loop"])


@workload("A job of Streams, of the protocol of KIP-1071, has a source that is not there, and keeps waiting for it.")
def streams_without_source(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.topic("counts", 2)
    lab.produce("shop", "orders", keys=10)
    streams_job(lab, "counter", "odrers", "counts", group_protocol="streams")
    lab.wait(36)
    lab.expect("unknown_topic_loop", topic="odrers")
    lab.allow("auto_created_topic", topic="odrers")


@workload("Programs assign a partition to themselves that their topic does not have.")
def partition_that_is_none(lab: Lab) -> None:
    lab.topic("orders", 2)
    lab.produce("shop", "orders")
    lab.consume("calm", "orders", group="calm", library="java", assign=[0, 1])
    for library in ("java", "kafka-python", "librdkafka"):
        lab.consume(f"stuck-{library}", "orders", group=f"stuck-{library}", library=library, assign=[7])
    lab.wait(35)
    lab.expect("metadata_storm", client_id="stuck-kafka-python")
    lab.allow("metadata_storm", client_id="~stuck")
    lab.allow("unknown_topic_loop", client_id="~stuck")
    lab.never("metadata_storm", client_id="calm")


_OUT_OF_ORDER = """
c = reader(enable_auto_commit=False)
c.subscribe(["orders"])
late, count = None, 0
while True:
    m = c.poll(0.2)
    if m is None or m.error():
        continue
    count += 1
    if count % 20 == 0:  # the first worker is done
        c.commit(m, asynchronous=False)
        if late:  # the second one is done with what it got before
            c.commit(late, asynchronous=False)
            say("committed late")
        late = m
"""


@workload(
    "A program handles records in two threads, and each commits the last that it handled: offsets go back and forth."
)
def threads_commit(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=40, linger_ms=50)
    reader = _script(lab, "billing", _OUT_OF_ORDER)
    lab.wait(30)
    lab.expect("commits_backward", at=reader.event("committed late"), within=9, group_id="billing", topic="orders")


@workload("A program that reads and writes within transactions stands still for longer than its session, then goes on.")
def exactly_once_zombie(lab: Lab) -> None:
    for name in ("orders", "invoices"):
        lab.topic(name, 4)
    lab.produce("shop", "orders", rate=40, keys=50, linger_ms=20)
    words = {"topic": "orders", "to": "invoices", "group": "billers", "library": "java", "session_timeout_ms": 6000}
    first, _ = (lab.client(f"biller-{number}", "transfer", **words) for number in (1, 2))
    lab.wait(25)
    frozen = first.freeze(13)
    lab.wait(10)
    lab.expect("session_expired", at=frozen + 13, within=2, client_id="biller-1", group_id="billers")
    lab.expect("rebalances", at=frozen + 6, within=4, group_id="billers", cause="session timeout", client_id="biller-1")
    lab.allow("refused_commits", client_id="biller-1")
    lab.allow("tiny_batches", client_id="shop")
    lab.never("producer_fenced")


@workload("Two programs have one transactional.id; each ends when it is fenced, and its supervisor starts it again.")
def fence_each_other(lab: Lab) -> None:
    lab.topic("paid", 1)
    lab.client("calm", "transact", topic="paid", transactional_id="calm")
    words = {"topic": "paid", "rate": 5, "batch": 5, "transactional_id": "copier", "library": "java"}
    programs = [lab.client(f"copier-{number}", "transact", **words) for number in (1, 2)]
    for _ in range(40):
        lab.wait(1)
        for program in programs:
            if not program.running:
                program.start()
    for number in (1, 2):
        lab.expect("producer_fenced", client_id=f"copier-{number}", transactional_id="copier")
    lab.never("producer_fenced", client_id="calm")
    lab.allow("connection_churn", client_id="~copier")


@workload("A consumer far away takes ten kilobytes at a time, and falls behind: 300 ms for each.")
def small_bites_far_away(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.network.delay("far", 150)
    lab.network.delay("calm", 150)
    lab.produce("shop", "orders", rate=150, size=500, linger_ms=10, batch_size=6000)
    lab.consume("calm", "orders", group="calm", library="java")
    lab.consume("far", "orders", group="far", library="java", max_partition_fetch_bytes=10_000)
    lab.wait(60)
    lab.expect("small_fetches", client_id="far")
    lab.allow("falling_behind", client_id="far")
    lab.allow("no_compression")
    lab.allow("tiny_batches", client_id="shop")
    for analysis in ("small_fetches", "falling_behind"):
        lab.never(analysis, client_id="calm")


@workload("A member of KIP-848's protocol is busy with a record and gives up nothing; the one that joins waits for it.")
def does_not_let_go(lab: Lab) -> None:
    lab.topic("orders", 4)
    words = {"group": "billing", "library": "java", "group_protocol": "consumer"}
    lab.consume("billing-1", "orders", max_poll_records=1, pause=30, **words)
    lab.consume("calm-1", "orders", **{**words, "group": "calm"})
    lab.wait(15)
    lab.produce("shop", "orders", rate=4)
    lab.wait(5)
    joins = lab.consume("billing-2", "orders", **words).started
    lab.consume("calm-2", "orders", **{**words, "group": "calm"})
    lab.wait(45)
    lab.expect("long_rebalance", at=joins + 4, within=12, group_id="billing", client_id="billing-1")
    lab.never("long_rebalance", group_id="calm")
    lab.allow("falling_behind", client_id="billing-1")
    lab.allow("group_without_commits", client_id="billing-1")
    lab.allow("stopped_reading", client_id="billing-1")


# -- healthy ones


@workload(
    "Two instances of Streams, of the protocol of KIP-1071, are restarted; a third one joins.",
    healthy=True,
)
def streams_of_the_new_protocol(lab: Lab) -> None:
    for name in ("lines", "counts"):
        lab.topic(name, 4)
    lab.produce("shop", "lines", rate=10, keys=10)
    jobs = [streams_job(lab, f"counter-{number}", group_protocol="streams") for number in (1, 2)]
    lab.wait(20)
    for job in jobs:
        job.restart()
        lab.wait(10)
    streams_job(lab, "counter-3", group_protocol="streams")
    lab.wait(14)
    lab.never("rebalances", cause=CALM)
    lab.never("refused_requests")


_RETRIES_LATER = """
c = reader()
c.subscribe(["retries"])
while True:
    m = c.poll(0.2)
    if m is None or m.error():
        continue
    due = m.timestamp()[1] / 1000 + 20
    if time.time() < due:  # not yet: pause until then
        place = TopicPartition(m.topic(), m.partition(), m.offset())
        c.pause([place])
        while time.time() < due:
            c.poll(0.2)
        c.seek(place)
        c.resume([place])
        while (again := c.poll(0.2)) is None or again.error():
            pass
"""


@workload("A topic of retries: a consumer pauses its partition until twenty seconds after each record.", healthy=True)
def retried_later(lab: Lab) -> None:
    lab.topic("retries", 1)
    lab.produce("shop", "retries", rate=1.5)
    _script(lab, "retrier", _RETRIES_LATER)
    lab.consume("audit", "retries", group="audit")
    lab.wait(75)
    for analysis in ("stopped_reading", "falling_behind", "stuck_fetch_loop", "commits_backward"):
        lab.never(analysis)


_LAST_SECONDS = """
c = reader(enable_auto_commit=False)
while True:
    ask = [TopicPartition("prices", number, int((time.time() - 15) * 1000)) for number in (0, 1)]
    c.assign(c.offsets_for_times(ask, 10))
    until = time.time() + 3
    while time.time() < until:
        c.poll(0.1)
"""


@workload("A dashboard reads the last fifteen seconds of a topic anew each three seconds.", healthy=True)
def dashboard_of_last_seconds(lab: Lab) -> None:
    lab.topic("prices", 2)
    lab.produce("shop", "prices", rate=30, keys=40, linger_ms=20)
    _script(lab, "dashboard", _LAST_SECONDS, group="dashboard")
    lab.consume("audit", "prices", group="audit")
    lab.wait(50)
    for analysis in ("stuck_fetch_loop", "offset_reset", "falling_behind", "commits_backward", "stopped_reading"):
        lab.never(analysis)
    lab.allow("group_without_commits", client_id="dashboard")
    lab.allow("tiny_batches", client_id="shop")


_IN_A_DATABASE = """
file = sys.argv[4]
c = reader(enable_auto_commit=False)
place = int(open(file).read()) if os.path.exists(file) else 0
c.assign([TopicPartition("orders", 0, place)])
while True:
    m = c.poll(0.2)
    if m is not None and not m.error():
        open(file, "w").write(str(m.offset() + 1))
"""


@workload(
    "A program keeps its offsets in its database, with what it made of the records; it is restarted.", healthy=True
)
def offsets_in_a_database(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=10)
    program = _script(lab, "billing", _IN_A_DATABASE, str(lab.folder / "offset.txt"))
    for _ in range(3):
        lab.wait(10)
        program.kill()
        lab.wait(2)
        program.start()
    lab.wait(10)
    for analysis in ("offset_reset", "stuck_fetch_loop", "falling_behind"):
        lab.never(analysis)
    lab.allow("group_without_commits", client_id="billing")


_LOWEST = """
import random
c = reader(enable_auto_commit=False)
c.subscribe(["orders"])
open_ones, last = set(), 0
while True:
    m = c.poll(0.05)
    if m is not None and not m.error():
        open_ones.add(m.offset())
        last = m.offset() + 1
    for each in random.sample(sorted(open_ones), len(open_ones) // 3):
        open_ones.discard(each)
    if last and last % 10 == 0:
        c.commit(offsets=[TopicPartition("orders", 0, min(open_ones, default=last))], asynchronous=False)
        time.sleep(0.1)
"""


@workload(
    "A program handles records in any order and commits the first that is not done: often the same offset.",
    healthy=True,
)
def commits_the_lowest(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=15)
    program = _script(lab, "billing", _LOWEST)
    lab.wait(20)
    program.kill()
    program.start()
    lab.wait(20)
    for analysis in ("commits_backward", "stuck_fetch_loop", "falling_behind", "offset_reset"):
        lab.never(analysis)
    lab.allow("commit_storm", client_id="billing")


_REPLAYS = """
c = reader(auto_commit_interval_ms=1000)
c.subscribe(["orders"])
began, replayed = time.time(), False
while True:
    c.poll(0.2)
    if not replayed and time.time() > began + 15:
        c.seek(TopicPartition("orders", 0, 20))
        replayed = True
        say("replays")
"""


@workload("A running consumer is told to handle the last minutes again; it goes back once.", healthy=True)
def told_to_replay(lab: Lab) -> None:
    lab.topic("orders", 1)
    lab.produce("shop", "orders", rate=20, linger_ms=20)
    _script(lab, "billing", _REPLAYS)
    lab.wait(40)
    for analysis in ("commits_backward", "stuck_fetch_loop", "falling_behind"):
        lab.never(analysis)
    lab.allow("offset_reset", severity="~notice|info")


@workload("Consumers of KIP-848's protocol subscribe to a pattern; topics are made and deleted.", healthy=True)
def pattern_of_the_new_protocol(lab: Lab) -> None:
    lab.topic("orders-0", 2)
    lab.produce("shop", "orders-0")
    words = {"group": "billing", "group_protocol": "consumer", "topic_metadata_refresh_interval_ms": 3000}
    for number in (1, 2):
        lab.consume(f"billing-{number}", "^orders-.*", **words)
    lab.wait(9)
    for number in range(1, 5):
        lab.admin("operator", f"create orders-{number} 2")
        lab.produce(f"shop-{number}", f"orders-{number}", count=20)
        lab.wait(6)
    lab.admin("operator", "delete orders-1")
    lab.wait(8)
    lab.never("rebalances", cause=CALM)
    for analysis in ("rebalance_storm", "unknown_topic_loop", "mixed_subscriptions"):
        lab.never(analysis)
