"""Scenes of consumers: commits and fetches."""

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Client, Rows, moment
from tests.support.scenes.scene import scene


@scene(
    "commit_storm", client_id="poller", group_id="polls", commits=400, commits_in_busiest_minute=400,
    records_per_commit=None, repeated_percent=99,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("poller")
    for number in range(400):
        consumer.commit(number * (0.1 if bad else 5), "polls", "votes", 77)


@scene(
    "commit_storm", client_id="mailer", group_id="mail", commits=200, commits_in_busiest_minute=200, records_per_commit=1.0,
    repeated_percent=0,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("mailer")
    for number in range(200):  # the healthy one commits as often, but a batch at a time
        consumer.commit(number * 0.2, "mail", "letters", number * (1 if bad else 500))


@scene("commit_storm", records_per_commit=1.0)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("mailer")  # the other moves 40 partitions on by one record each, every five seconds
    for number in range(200 if bad else 30):
        consumer.commit(number * (0.2 if bad else 5), "mail", "letters", number, partitions=1 if bad else 40)


@scene(
    "stuck_fetch_loop", client_id="worker", topic="jobs", partition=0, partition_offset=41, readable_end=100, fetches=30,
    with_records=30, seconds=29,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("worker")
    for number in range(30):
        consumer.fetch(number, "jobs", 41 if bad else 41 + number, end=100, count=1)


@scene("stuck_fetch_loop", partition_offset=41, fetches=25, with_records=0, seconds=24)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("worker")  # in a fetch session an offset that stays is left out (KIP-227)
    for number in range(25):  # the healthy one stands at the end and waits
        consumer.fetch(number, "jobs", None if number else 41, end=100 if bad else 41)


@scene("stuck_fetch_loop", client_id="gallery", partition_offset=41, fetches=20, all_fetches=20, with_records=20)
def _(tables: Rows, bad: bool) -> None:
    """It ends its connection at each answer, which has a record that is larger than what it takes. Healthy ones read on, or look
    at one record for each page that they show."""
    for number in range(20):
        ended, sizes = {"closed": "reset", "closed_by": "client"}, {"max_bytes": 100_000, "response_size": 300_000}
        tables.client("gallery", **ended).fetch(number, "images", 41 if bad else 41 + number, end=100, count=1, **sizes)
        if not bad:
            tables.client("page").fetch(number, "images", 41, end=100, count=1, **sizes)
            tables.client("icon", **ended).fetch(number, "images", 41, end=100, count=1, max_bytes=1, response_size=400)


@scene("stuck_fetch_loop", client_id="looks", partition_offset=98, fetches=20, with_records=20)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one looks at the last records, asks for what follows as libraries do, and ends before the answer."""
    for number in range(20):
        client = tables.client("looks", closed="reset", closed_by="client")
        client.fetch(number, "images", 98, end=100, count=1 if bad else 2, max_bytes=100_000, response_size=300_000)
        if not bad:
            client.fetch(number + 0.1, "images", 100, unanswered="closed")


@scene("stuck_fetch_loop", client_id="behind", partition=1, partition_offset=41, fetches=25, with_records=0)
def _(tables: Rows, bad: bool) -> None:
    """The answers of the healthy one have room for records of one partition only, and those of others are there first."""
    consumer = tables.client("behind")
    for number in range(25):
        consumer.fetch(number, "jobs", 41, 1, end=100, max_bytes=50 << 20, response_size=(30 if bad else 50) << 20)


@scene("stuck_fetch_loop", client_id="last", partition_offset=98, fetches=25, with_records=25)
def _(tables: Rows, bad: bool) -> None:
    """It is a member that fails at the last record; the healthy one shows the last record each second, and has no group."""
    consumer = tables.client("last")
    if bad:
        tables.client("last", broker_address="10.0.0.8").ask(0, ApiKey.HEARTBEAT, group_id="deadly")
    for number in range(25):
        consumer.fetch(1 + number, "jobs", 98, end=99, count=1)


@scene("stuck_fetch_loop", partition_offset=0, fetches=25, all_fetches=49, with_records=25)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client(
        "worker"
    )  # goes back after each record; the healthy one reads the whole topic again and again
    for number in range(25):
        for at, offset in enumerate((0, 1) if bad else range(5)):
            consumer.fetch(number + at / 10, "jobs", offset, end=100, count=1)


@scene("stuck_fetch_loop", client_id="rolls back", partition_offset=41, fetches=13, all_fetches=97, with_records=13)
def _(tables: Rows, bad: bool) -> None:
    """It reads on behind a record that fails, and goes back to what it committed; the healthy one committed the rest."""
    consumer = tables.client("rolls back")
    consumer.commit(0, "bills", "jobs", 41 if bad else 49)
    for number in range(13):
        for at, offset in enumerate(range(41, 49)):
            consumer.fetch(1 + number + at / 10, "jobs", offset, end=100, count=1)


@scene(
    "stuck_fetch_loop", client_id="dies", topic="deadly", partition_offset=41, fetches=7, with_records=7, seconds=120
)
def _(tables: Rows, bad: bool) -> None:
    """It dies of a record without leaving, and is started again; the healthy one has committed what it read before it died."""
    calm = tables.client("calm", "10.0.0.6")
    for number in range(7):
        at = 20 * number
        member = tables.client("dies", closed_at=moment(at + 2), closed_by="client")
        for client, name in ((calm, "calm"), (member, f"dies-{number}")):
            words = {"member_id": name, "session_timeout_ms": 6000}
            client.group(at, "join", "deadly", response_generation=2 * number + 1, **words)
        member.fetch(at + 1, "deadly", 41 if bad else 41 + number, end=100, count=1)
        if not bad:
            member.commit(at + 1.5, "deadly", "deadly", 42 + number)
        for beat in range(3, 18, 3):
            calm.ask(at + beat, ApiKey.HEARTBEAT, group_id="deadly", member_id="calm", generation_id=2 * number + 1)
        calm.group(
            at + 18, "join", "deadly", member_id="calm", session_timeout_ms=6000, response_generation=2 * number + 2
        )


@scene("stuck_fetch_loop", client_id="alone", partition_offset=41, fetches=6, with_records=6, seconds=100)
def _(tables: Rows, bad: bool) -> None:
    """It worked until a record came of which it dies, and is started again where its group stands; the healthy one gets on."""
    for number in range(7):
        member = tables.client("alone", closed_at=moment(20 * number + 2), closed_by="client")
        begin = (41 if number else 12) if bad else 12 + number
        member.committed(20 * number, "deadly", "deadly", begin)
        member.fetch(20 * number + 1, "deadly", begin, end=100, count=1)


@scene("stuck_fetch_loop", client_id=None, partition_offset=41, fetches=7, with_records=7, seconds=120)
def _(tables: Rows, bad: bool) -> None:
    """It has no client id, and dies of a record again and again; the healthy one gets on."""
    for number in range(7):
        member = tables.client(None, closed_at=moment(20 * number + 2), closed_by="client")
        words = {"member_id": f"m-{number}", "session_timeout_ms": 6000, "response_generation": number + 1}
        member.group(20 * number, "join", "nameless", **words)
        member.fetch(20 * number + 1, "jobs", 41 if bad else 41 + number, end=100, count=1)


@scene("stuck_fetch_loop", client_id="peeks", partition_offset=41, fetches=6, with_records=6, seconds=321)
def _(tables: Rows, bad: bool) -> None:
    """It dies, and is restarted a minute later. The healthy one is started by cron each minute, looks, and commits nothing."""
    for number in range(6):
        at = (64 if bad else 60) * number + number % 2
        member = tables.client("peeks", closed_at=moment(at + 2), closed_by="client")
        member.committed(at, "look", "jobs", 41)
        member.fetch(at + 1, "jobs", 41, end=100, count=1)


@scene("stuck_fetch_loop", partition_offset=41, fetches=20)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("worker")  # read_committed: what is behind an open transaction is not there yet
    for number in range(20):
        consumer.fetch(number, "jobs", 41, end=100, stable=60 if bad else 41)


@scene(
    "empty_fetch_loop", client_id="spinner", fetches=700, empty=700, empty_in_busiest_minute=700, max_wait_ms=0,
    min_bytes=1,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("spinner")  # the healthy one waits half a second for each empty answer
    for number in range(700):
        consumer.fetch(number * (0.05 if bad else 0.5), "jobs", 5, end=5, max_wait_ms=0 if bad else 500, min_bytes=1)


@scene("offset_out_of_range_loop", client_id="slow", topic="logs", partition=2, errors=8, seconds=7)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client(
        "slow"
    )  # healthy ones are six programs of one name, each of which is told once, and resets
    for second in range(8 if bad else 0):
        consumer.error(second, ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE, "logs", 2)
    for number in range(0 if bad else 6):
        tables.client("slow").error(number / 10, ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE, "logs", 2)


@scene("offset_out_of_range_loop", client_id="quick", errors=40, seconds=3, severity="critical")
def _(tables: Rows, bad: bool) -> None:
    """It asks at once, until it dies; healthy ones are as many programs of one name."""
    consumer = tables.client("quick")
    for number in range(40):
        asking = consumer if bad else tables.client("quick")
        asking.error(number / 10, ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE, "logs", 2)


@scene("offset_out_of_range_loop", client_id="slow", topic="logs", errors=8, reads=7, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("slow")  # reads in between
    for second in range(8 if bad else 2):
        consumer.error(second, ApiKey.FETCH, ErrorCode.OFFSET_OUT_OF_RANGE, "logs", 2)
        consumer.fetch(second + 0.5, "logs", 1000 * second, 2, end=9000, count=10)


@scene(
    "offset_reset", severity="critical", cause="new partition", partition=1, from_offset=0, to_offset=300, records=300
)
def _(tables: Rows, bad: bool) -> None:
    """A partition is added; its member begins at the end. The healthy one reads on, and asks what is committed."""
    producer, consumer = tables.client("shop", "10.0.0.6"), tables.client("late")
    consumer.commit(0, "bills", "orders", 40)
    producer.produce(10, "orders", 1, count=300, appended_offset=0)
    if not bad:
        consumer.fetch(20, "orders", 0, 1, end=300)
    consumer.committed(60, "bills", "orders", -1, 1)
    consumer.fetch(61, "orders", 300, 1, end=300)


@scene(
    "offset_reset", client_id="slow", topic="logs", partition=0, from_offset=100, to_offset=5000, records=4900,
    direction="skipped", severity="critical",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("slow")
    consumer.fetch(0, "logs", 100, error_code=1 if bad else 0, end=-1 if bad else 9000, count=0 if bad else 4900)
    consumer.fetch(1, "logs", 5000, end=9000, count=10)


@scene(
    "offset_reset", from_offset=5000, to_offset=0, records=5000, direction="reread", severity="warning", cause="partition cut off"
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """The log was cut off. In the healthy scene the topic was away, as it was deleted and made again."""
    consumer = tables.client("slow")
    consumer.fetch(-2, "logs", 4990, end=5000, count=10)
    if not bad:
        consumer.error(-1, ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, resource="logs")
    consumer.fetch(0, "logs", 5000, error_code=1)
    consumer.fetch(1, "logs", 0, end=10, count=10)


@scene("offset_reset", from_offset=50, to_offset=0, direction="reread", severity="warning", cause="partition cut off")
def _(tables: Rows, bad: bool) -> None:
    """It goes on at a new leader, and an hour later where it was; the follower of the healthy one is behind (KIP-392)."""
    follower, leader = tables.client("slow", broker_address="10.0.0.10"), tables.client("slow")
    follower.fetch(0, "logs", 40, end=50, count=10)
    follower.fetch(5, "logs", 50, end=40, error_code=1)
    leader.fetch(5.1, "logs", 0 if bad else 50, end=1000, count=10)
    follower.fetch(3600 if bad else 6, "logs", 900 if bad else 60, end=1000, count=10)


@scene("offset_reset", client_id=None, from_offset=100, to_offset=5000, severity="critical", cause="records deleted")
def _(tables: Rows, bad: bool) -> None:
    """It looks at the bounds itself, and has no client id; what the healthy one committed is there."""
    consumer = tables.client(None)
    consumer.committed(0, "go", "logs", 100)
    consumer.fetch(1, "logs", 5000, end=9000, count=10)
    tables.tables["offsets"][-1]["log_start_offset"] = 5000 if bad else 50


@scene(
    "offset_reset",
    from_offset=5000,
    to_offset=0,
    direction="not there",
    severity="warning",
    cause="offset beyond the end",
)
def _(tables: Rows, bad: bool) -> None:
    """It has no group, and asks for an offset that never was."""
    consumer = tables.client("slow")
    consumer.fetch(0, "logs", 5000 if bad else 0, error_code=1 if bad else 0, end=-1 if bad else 10)
    consumer.fetch(1, "logs", 0, end=10, count=10)


@scene(
    "offset_reset", from_offset=42, to_offset=282, records=240, direction="skipped", cause="committed offset expired"
)
def _(tables: Rows, bad: bool) -> None:
    """The healthy group had no offset before either."""
    consumer = tables.client("slow")
    if bad:
        consumer.commit(0, "nightly", "logs", 42)
    exchange = consumer.ask(90, ApiKey.OFFSET_FETCH, group_id="nightly")
    tables.add(
        "offsets", connection_id=consumer.id, exchange=exchange, seen_at=moment(90.002), client_id="slow", kind="committed",
        topic="logs", partition=0, partition_offset=-1, error_code=0, group_id="nightly",
    )  # fmt: skip
    consumer.fetch(91, "logs", 282, end=300, count=18)


@scene(
    "read_committed_blocked", client_id="reader", topic="facts", partition=0, last_stable_offset=50, high_watermark=80,
    waiting=30, seconds=90, fetches=10,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("reader")
    for number in range(10):
        consumer.fetch(number * 10, "facts", 50, end=80, stable=50, isolation_level=1 if bad else 0)


@scene("too_many_partitions", client_id="giant", requests=1, partitions=2000)
def _(tables: Rows, bad: bool) -> None:
    tables.client("giant").fetch(0, "all", 0, end=1, partitions=2000 if bad else 200)


@scene("too_many_partitions", partitions=2000)
def _(tables: Rows, bad: bool) -> None:
    tables.client("follower").fetch(0, "all", 0, end=1, partitions=2000, replica_id=-1 if bad else 3)


@scene("group_without_commits", client_id="reader", group_id="readers", records=6500, seconds=64)
def _(tables: Rows, bad: bool) -> None:
    coordinator, leader = tables.client("reader"), tables.client("reader")
    coordinator.group(0, "join", "readers", member_id="reader-1", protocol_type="consumer")
    for second in range(65):
        leader.fetch(second + 1, "jobs", second * 100, end=100_000, count=100)
    if not bad:
        coordinator.commit(60, "readers", "jobs", 5000)


@scene("group_without_commits", client_id="forgets", records=2500, seconds=24)
def _(tables: Rows, bad: bool) -> None:
    for second in range(25):  # started five times, or once
        if second % 5 == 0 and (bad or not second):
            coordinator, leader = tables.client("forgets"), tables.client("forgets")
            coordinator.group(second, "join", "readers", member_id=f"m-{second}", protocol_type="consumer")
        leader.fetch(second + 0.1, "jobs", second % 5 * 100, end=100_000, count=100)


@scene("small_fetches", client_id="lagging", fetches=60, bytes_per_fetch=1000, lag=1_000_000, max_bytes=1024)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("lagging")
    for number in range(60):
        size, end = (1000, 1_000_000) if bad else (1000, number * 10 + 10)  # the healthy one is up to date
        consumer.fetch(number, "jobs", number * 10, end=end, count=10, size=size, max_bytes=1024)


@scene("small_fetches", bytes_per_fetch=12_000, lag=100_000)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("reader")  # the healthy one gets all there is each time: 1,000 records of 12 bytes
    for number in range(60):
        begin = number * 1000
        consumer.fetch(number, "jobs", begin, end=begin + (100_000 if bad else 1000), count=1000, size=12_000)


@scene("small_fetches", bytes_per_fetch=16_000)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("lagging")  # as far behind, but a megabyte at a time
    for number in range(60):
        size = 16_000 if bad else 1_000_000
        consumer.fetch(number, "jobs", number * 10, end=1_000_000, count=10, size=size)


@scene(
    "stale_leader", client_id="stuck", topic="jobs", partition=1, errors=12, seconds=11, broker="10.0.0.9:9092",
    error_name="NOT_LEADER_OR_FOLLOWER", api_name="Fetch",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("stuck")  # the healthy one tries elsewhere each time, as leaders move
    for second in range(12):
        where = consumer if bad else tables.client("stuck", broker_address=f"10.0.1.{second}")
        where.error(second, ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, "jobs", 1)


@scene("stale_leader", client_id="late", topic="jobs", errors=12, succeeded=1, severity="warning", shared_address=None)
def _(tables: Rows, bad: bool) -> None:
    laptop = tables.client("laptop", "10.0.0.6")  # with ports that are forwarded
    laptop.ask(0, ApiKey.METADATA, advertised=["1 localhost:9092", "2 localhost:9092"])
    consumer = tables.client("late")  # reads from the new leader in the end; the healthy one does so soon
    for second in range(12 if bad else 4):
        consumer.error(second, ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, "jobs", 1)
    tables.client("late", broker_address="10.0.1.1").fetch(13, "jobs", 0, 1, end=5, count=5)


@scene("stale_leader", client_id="sent on", topic="jobs", partition=0, errors=12, succeeded=1, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """It asks a broker that lost the partition; the healthy one was sent there by the leader, each time (KIP-392)."""
    leader, replica = tables.client("sent on", broker_address="10.0.1.1"), tables.client("sent on")
    for second in range(12):
        if not bad or second == 11:
            leader.fetch(second + 0.5, "jobs", 41, end=100)
        replica.error(second, ApiKey.FETCH, ErrorCode.NOT_LEADER_OR_FOLLOWER, "jobs", 0)


@scene(
    "refused_commits", client_id="worker", group_id="jobs", member_id="worker-1", commits=2,
    error_name="UNKNOWN_MEMBER_ID",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("worker")  # STALE_MEMBER_EPOCH is tried again by itself (KIP-848)
    code = ErrorCode.UNKNOWN_MEMBER_ID if bad else ErrorCode.STALE_MEMBER_EPOCH
    for second in range(2):
        consumer.group(second, "commit", "jobs", api=ApiKey.OFFSET_COMMIT, member_id="worker-1", error_code=code)


@scene("idle_connections", client_id="web", connections=50, longest_idle_seconds=600)
def _(tables: Rows, bad: bool) -> None:
    for number in range(50):
        closed = "end of capture" if bad else "finished"
        tables.client("web", closed=closed).ask(number, ApiKey.METADATA, seconds=0)
    tables.client("other", closed="end of capture").ask(600, ApiKey.METADATA, seconds=0)


@scene("idle_connections", client_id="web", connections=50, longest_idle_seconds=600)
def _(tables: Rows, bad: bool) -> None:
    for number in range(50):
        tables.client("web", closed="end of capture").ask(number, ApiKey.METADATA, seconds=0)
    later = {} if bad else {"capture": "of another day"}  # while they were captured, they were not idle
    tables.client("other", closed="end of capture", **later).ask(600, ApiKey.METADATA, seconds=0)


@scene("idle_connections", client_id="web", connections=50, longest_idle_seconds=600)
def _(tables: Rows, bad: bool) -> None:
    for number in range(50):
        tables.client("web", closed="end of capture").ask(number, ApiKey.METADATA, seconds=0)
    week = 0 if bad else 7 * 86_400  # a file of the same name in another folder is another capture
    tables.client("other", closed="end of capture").ask(600 + week, ApiKey.METADATA, seconds=0)


@scene(
    "slow_broker", broker="10.0.0.9:9092", api_name="Produce", requests=100, slow=10, percent=10, longest_ms=3000,
    clients=1,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("orders")
    for number in range(100):
        slow = number % 10 == 0
        throttled = 2900 if slow and not bad else 0  # by quota: not the broker's fault
        producer.ask(number * 5, ApiKey.PRODUCE, seconds=3 if slow else 0.005, throttle_time_ms=throttled)


@scene("slow_broker", client_id="far", requests=100, slow=100, longest_ms=1110)
def _(tables: Rows, bad: bool) -> None:
    """The way of the other takes longer than its answers; what a clock that was set back shows is no way."""
    producer = tables.client("far", syn_at=moment(-0.04 if bad else -1.2))
    tables.client("far", syn_at=moment(30)).ask(0, ApiKey.METADATA)
    for number in range(100):
        producer.ask(number * 5, ApiKey.PRODUCE, seconds=1.15)


@scene("slow_broker", api_name="Metadata", requests=100, slow=100, percent=100, longest_ms=2900, clients=1)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("reader")
    fetcher = (
        tables.client("reader") if bad else consumer
    )  # behind a held Fetch of its own connection, it is answered at once
    for number in range(100):
        fetcher.ask(number * 5, ApiKey.FETCH, seconds=3)
        consumer.ask(number * 5 + 0.1, ApiKey.METADATA, seconds=2.9)


@scene(
    "unanswered_requests", client_id="orders", requests=5, connections=5, closed_by_broker=0,
    apis=["OffsetCommit", "Produce"],
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    words = "the client closed the connection before the response"
    for number in range(5):  # the healthy one ends with all that it has
        other = tables.client("orders")
        other.ask(number * 30 - 1, ApiKey.METADATA)
        client = tables.client("orders", closed_by="client")
        api = ApiKey.PRODUCE if number else ApiKey.OFFSET_COMMIT
        client.ask(number * 30, api, unanswered=words)
        client.ask(number * 30 + 0.1, ApiKey.FETCH, unanswered=words)  # in flight whenever a consumer closes
        other.ask(number * 30 + (15 if bad else 0.1), ApiKey.HEARTBEAT)


@scene("unanswered_requests", requests=5, connections=1, closed_by_broker=1)
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("orders", closed="reset", closed_by="broker" if bad else "client")
    client.ask(-1, ApiKey.PRODUCE)
    for number in range(5):
        client.ask(number, ApiKey.PRODUCE, unanswered="the broker reset the connection before the response")


@scene("unanswered_requests", client_id="deploy", requests=3, connections=3, closed_by_broker=0, apis=["CreateTopics"])
def _(tables: Rows, bad: bool) -> None:
    """Its controller is away: a broker answers all but that, for 20 s. The healthy client does not wait."""
    shop = tables.client("shop")
    for at in (0, 30, 60):
        client = tables.client("deploy", closed_by="client", closed_at=moment(at + (20 if bad else 1)))
        client.ask(at - 1, ApiKey.METADATA)
        client.ask(at, ApiKey.CREATE_TOPICS, unanswered="the client closed the connection before the response")
        shop.ask(at + 0.5, ApiKey.PRODUCE)


@scene("unanswered_requests", client_id="late", requests=3, connections=3, apis=["ApiVersions"])
def _(tables: Rows, bad: bool) -> None:
    """The broker has as many connections as it takes, and answers when it has closed some: the client no longer waits."""
    for at in (0, 30, 60):
        seen = {"syn_ack_at": moment(at), "closed_at": moment(at + 29)}
        tables.client("late", closed_by="client", **seen).ask(at, ApiKey.API_VERSIONS, seconds=29.5 if bad else 4)


@scene("unanswered_requests", client_id="shop", requests=1, connections=1, apis=["Fetch"])
def _(tables: Rows, bad: bool) -> None:
    """One Fetch has no answer for minutes, while others get theirs; beside the healthy one, a file of the capture is missing."""
    client = tables.client("shop", closed="end of capture")
    client.fetch(0, "orders", 7, max_wait_ms=500)
    client.ask(1, ApiKey.FETCH, max_wait_ms=500, unanswered="the capture ended before the response")
    for at in (*range(2, 99 if bad else 3), 99):
        tables.client("other", "10.0.0.6").ask(at, ApiKey.PRODUCE)


@scene("unanswered_requests", client_id="shop", requests=3, connections=3, apis=["ApiVersions"])
def _(tables: Rows, bad: bool) -> None:
    """A broker takes connections and answers nothing; of the other one nothing was captured."""
    for at in (0, 30, 60):
        words = {"closed_at": moment(at + 20), "closed_by": "client", "syn_ack_at": moment(at) if bad else None}
        tables.client("shop", **words).ask(
            at, ApiKey.API_VERSIONS, unanswered="the client closed the connection before the response"
        )


@scene("cut_connections", client_id="shop", connections=10, seconds=0, unanswered=0, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """Each is ended right after its first answers; the healthy one ends its connections itself."""
    other = tables.client("other")
    for at in range(0, 100, 10):
        client = tables.client("shop", closed_at=moment(at + 0.02), closed_by="broker" if bad else "client")
        client.ask(at, ApiKey.API_VERSIONS)
        client.ask(at + 0.01, ApiKey.PRODUCE)
        other.ask(at - 1, ApiKey.HEARTBEAT)
        other.ask(at + 1, ApiKey.HEARTBEAT)


@scene("cut_connections", client_id="shop", connections=4, seconds=4, unanswered=4, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """A balancer ends each connection after four seconds; the healthy one's end at very different ages."""
    other = tables.client("other")
    for number, lasted in enumerate((4, 4, 4, 4) if bad else (2, 12, 5, 8)):
        begin, closed = 15 * number, {"closed_by": "broker", "unanswered": 1}
        client = tables.client("shop", closed_at=moment(begin + lasted), **closed)
        for share in range(5):
            client.ask(begin + share * lasted / 5, ApiKey.PRODUCE)
        client.ask(begin + lasted - 0.1, ApiKey.PRODUCE, unanswered="the broker closed the connection")
        for second in range(15):
            other.ask(begin + second, ApiKey.HEARTBEAT)


@scene("unanswered_requests", requests=5, connections=1, closed_by_broker=1)
def _(tables: Rows, bad: bool) -> None:
    """The broker closes a connection before its answers; or they are missing between others, as where a capture lost packets."""
    client = tables.client("orders", closed_by="broker")
    why = "the broker closed the connection before the response"
    for number in range(5):
        client.ask(2 * number, ApiKey.PRODUCE)
        lost = "its response is missing: the one to a later request came first"
        client.ask(2 * number + 1, ApiKey.PRODUCE, unanswered=why if bad else lost)


@scene(
    "falling_behind",
    client_id="slow",
    cause="consumer",
    topic="logs",
    lag=240,
    behind_seconds=23,
    fetched=240,
    partitions=1,
)
def _(tables: Rows, bad: bool) -> None:
    """Ten records a second are fetched as they come; two a second are committed, or all."""
    consumer = tables.client("slow")
    for second in range(30):
        consumer.fetch(second, "logs", 10 * second, end=10 * second + 10, count=10)
        if second % 5 == 4:
            consumer.commit(second + 0.5, "jobs", "logs", (2 if bad else 10) * (second + 1))


@scene("falling_behind", client_id="later", cause="consumer", first_at=moment(20.002), watched_seconds=59)
def _(tables: Rows, bad: bool) -> None:
    """Nothing comes for 20 s, then ten records a second, of which two are committed, or all."""
    consumer = tables.client("later")
    for second in range(60):
        new = 10 * max(0, second - 20)
        consumer.fetch(
            second, "late", 100 + new, end=100 + new + (10 if second >= 20 else 0), count=10 if second >= 20 else 0
        )
        if second % 5 == 4:
            consumer.commit(second + 0.5, "late", "late", 100 + max(0, second - 19) * (2 if bad else 10))


@scene("falling_behind", client_id="console-consumer", cause="consumer", lag=240)
def _(tables: Rows, bad: bool) -> None:
    """It commits two of ten records a second; or a tool reads some every five seconds, each time as a group of its own."""
    consumer = tables.client("console-consumer")
    for second in range(30):
        consumer.fetch(second, "logs", 10 * second, end=10 * second + 10, count=10)
        if second % 5 == 4:
            consumer.commit(second + 0.5, "console" if bad else f"console-{second}", "logs", 2 * (second + 1))


@scene("falling_behind", client_id="greedy", cause="quota")
def _(tables: Rows, bad: bool) -> None:
    """Two of ten records a second: an empty answer throttles it for 0.8 s. The other one has no quota and gets all."""
    consumer = tables.client("greedy")
    for second in range(30):
        got = 2 if bad else 10
        consumer.fetch(second, "logs", got * second, end=10 * second + 10, count=got)
        if bad:
            consumer.ask(second + 0.1, ApiKey.FETCH, replica_id=-1, throttle_time_ms=800)


@scene("falling_behind", client_id="held", cause="broker")
def _(tables: Rows, bad: bool) -> None:
    """Records are acknowledged (acks=1), and no follower copies them: the high watermark stands still."""
    producer, consumer = tables.client("shop", "10.0.0.6"), tables.client("held")
    for second in range(30):
        producer.produce(second, "logs", acks=1, count=10, appended_offset=10 * second)
        end = 20 if bad and second > 1 else 10 * second + 10
        consumer.fetch(
            second + 0.1, "logs", min(10 * second, end), end=end, count=10 if end > 10 * second else 0, seconds=0.8
        )


@scene("falling_behind", client_id="far", cause="broker", waiting_percent=93, fetched=2)
def _(tables: Rows, bad: bool) -> None:
    """Two of ten records a second, as each answer takes 0.9 s; the other one gets all of them as slowly."""
    consumer = tables.client("far")
    for second in range(30):
        got = 2 if bad else 10
        consumer.fetch(second, "logs", got * second, end=10 * second + 10, count=got, seconds=0.9)


@scene("falling_behind", client_id="cut", cause="broker", behind_seconds=54)
def _(tables: Rows, bad: bool) -> None:
    """Its last Fetch is answered after 55 s; the other one goes on over another connection meanwhile."""
    first, second = tables.client("cut"), tables.client("cut")
    for at in range(5):
        first.fetch(at, "logs", 10 * at, end=10 * at + 10, count=10)
    for at in range(5, 60):
        (tables.client("else") if bad else second).fetch(at, "logs", 10 * at, end=10 * at + 10, count=10)
    first.fetch(5, "logs", 50, end=600, count=10, seconds=55)


@scene("stuck_fetch_loop", client_id="near", partition_offset=41, fetches=20, with_records=0)
def _(tables: Rows, bad: bool) -> None:
    """The leader sends it to a replica that refuses it; the replica of the healthy one has the records."""
    leader, replica = tables.client("near"), tables.client("near", broker_address="10.0.0.10")
    for number in range(20):
        leader.fetch(number, "jobs", 41 if bad else 41 + number, end=100)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if bad:
            of_fetch = {"topics": ["jobs"], "partitions": 1, "replica_id": -1}
            replica.error(number + 0.5, ApiKey.FETCH, code, "jobs", 0, **of_fetch)
        else:
            replica.fetch(number + 0.5, "jobs", 41 + number, end=100, count=1)


@scene(
    "forgotten_sessions", severity="warning", client_id="evicted", broker="10.0.0.9:9092", errors=6, percent=50,
    connections=1, seconds=10,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """Of the healthy ones one pauses each half hour, and the others came back after a restart of the broker: once each."""
    for number in range(1 if bad else 8):
        consumer = tables.client("evicted")
        for at in range(6):
            if bad or at == 0:
                consumer.error(2 * at, ApiKey.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, kind="none")
            consumer.fetch(2 * at + 1, "orders", at + number, end=100, count=1)
    if not bad:
        pauses = tables.client("pauses")
        for at in range(0, 10_800, 1800):
            pauses.error(at, ApiKey.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, kind="none")
            pauses.fetch(at + 1, "orders", at, end=20_000, count=1)


@scene(
    "commits_unread", client_id="ahead", group_id="bills", topic="orders", partitions=1, commits=4, records=88,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """It commits the end; healthy ones commit what they were sent, skip to the end and go on there, or seek back."""
    member = tables.client("ahead")
    for number in range(4):
        member.fetch(10 * number, "orders", 2 * number, end=100, count=2)
        tables.tables["record_batches"][-1]["last_offset"] = 2 * number + 1
        _commits(member, tables, 10 * number + 1, 90 + 2 * number if bad else 2 * number + 2)
    member.fetch(50, "orders", 8, end=100)
    if not bad:
        skipping = tables.client("skips", "10.0.0.6")
        for number in range(4):
            skipping.fetch(10 * number, "orders", 100 * number, end=100 * number + 50)
            _commits(skipping, tables, 10 * number + 1, 100 * number + 100)
        skipping.fetch(50, "orders", 400, end=450)
        back = tables.client("back", "10.0.0.8")  # commits where it is, then seeks back
        for number in range(4):
            back.fetch(10 * number, "orders", 100, end=450)
            _commits(back, tables, 10 * number + 1, 100)
            back.fetch(10 * number + 2, "orders", 50, end=450)
        tool = tables.client("reset", "10.0.0.7")  # no member: an administrator sets offsets
        for number in range(4):
            tool.fetch(10 * number, "orders", 1, end=450)
            tool.commit(10 * number + 1, "bills", "orders", 400)
        tool.fetch(50, "orders", 1, end=450)


def _commits(member: Client, tables: Rows, at: float, offset: int) -> None:
    member.commit(at, "bills", "orders", offset)
    tables.tables["exchanges"][-1]["generation_id"] = 1
