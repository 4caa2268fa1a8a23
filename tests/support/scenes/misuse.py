"""Scenes of wrong use, and of settings that do not fit together."""

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Client, Rows, moment
from tests.support.scenes.scene import scene


def _joins(client: Client, at: float, group: str, member: str, assignment: list[str], **more: object) -> None:
    """A member joins, and is told its partitions, in generation 1 unless *more* says otherwise."""
    generation = more.pop("generation", 1)
    known = {"member_id": member, "response_generation": generation}
    client.group(at, "join", group, **known, protocol="range", subscribed_topics=["orders"], **more)  # type: ignore[arg-type]
    client.group(at + 0.1, "sync", group, api=ApiKey.SYNC_GROUP, assignment=assignment, generation=generation, **known)


def _beats(client: Client, begin: float, end: float, group: str, member: str, every: float = 3.0) -> None:
    at = begin
    while at <= end:
        client.ask(at, ApiKey.HEARTBEAT, group_id=group, member_id=member, generation_id=1)
        at += every


@scene(
    "stopped_reading",
    client_id="billing",
    group_id="bills",
    member_id="m-1",
    seconds=42,
    records=40,
    partitions=1,
    state="it fetches nothing",
)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one goes on to fetch; of both nothing is committed."""
    consumer = tables.client("billing")
    _joins(consumer, 0, "bills", "m-1", ["orders-0"])
    consumer.fetch(1, "orders", 0, end=1, count=1)
    _beats(consumer, 2, 45, "bills", "m-1")
    for second in range(40 if bad else 0):
        tables.client("shop", "10.0.0.6").produce(3 + second, "orders")
    for second in range(0 if bad else 40):
        consumer.fetch(3 + second, "orders", 1 + second, end=2 + second, count=1)


@scene("stopped_reading", client_id="breaker", partitions=1, records=35, state="it fetches from its other partitions")
def _(tables: Rows, bad: bool) -> None:
    """It pauses one of two partitions; the healthy one reads it, each time with the other one's records before."""
    consumer, shop = tables.client("breaker"), tables.client("shop", "10.0.0.6")
    _joins(consumer, 0, "bills", "m-1", ["orders-0", "orders-1"])
    _beats(consumer, 2, 45, "bills", "m-1")
    for second in range(1, 41):
        for partition in (0, 1):
            shop.produce(second, "orders", partition)
            if not (bad and partition and second > 5):
                consumer.fetch(second + 0.1 + partition / 10, "orders", second - 1, partition, end=second, count=1)


@scene("long_rebalance", client_id="billing-2", group_id="bills", generation=2, seconds=14, members=2)
def _(tables: Rows, bad: bool) -> None:
    """The healthy ones join again within three seconds."""
    last = 14 if bad else 3
    members = [tables.client(f"billing-{number}", f"10.0.0.{number}") for number in (1, 2)]
    for number, member in enumerate(members, 1):
        _joins(member, 0, "bills", f"m-{number}", [f"orders-{number}"])
    for number, (member, at) in enumerate(zip(members, (20, 20 + last), strict=True), 1):
        exchange = member.ask(
            at, ApiKey.JOIN_GROUP, seconds=20 + last - at + 0.01, group_id="bills", member_id=f"m-{number}"
        )
        tables.add(
            "group_events",
            **{
                "connection_id": member.id,
                "exchange": exchange,
                "request_at": moment(at),
                "seen_at": moment(20 + last + 0.01),
            },
            **{
                "group_type": "classic",
                "group_id": "bills",
                "event": "join",
                "client_id": member.client_id,
                "error_code": 0,
            },
            **{"member_id": f"m-{number}", "response_generation": 2, "protocol": "range"},
        )


@scene("long_rebalance", client_id="billing-1", waited_for="assign partitions", generation=1, seconds=45, members=2)
def _(tables: Rows, bad: bool) -> None:
    """The leader joins and stands still until its session is over; the healthy one assigns within a second."""
    members = [tables.client(f"billing-{number}", f"10.0.0.{number}") for number in (1, 2)]
    names = ["m-1", "m-2"]
    for name, member in zip(names, members, strict=True):
        of_leader = {"is_leader": name == "m-1", "members": names if name == "m-1" else None}
        member.group(0, "join", "bills", member_id=name, response_generation=1, protocol="range", **of_leader)
    words = {"api": ApiKey.SYNC_GROUP, "generation": 1}
    code = ErrorCode.REBALANCE_IN_PROGRESS if bad else 0
    members[1].group(1, "sync", "bills", member_id="m-2", is_leader=False, error_code=code, **words)
    tables.tables["group_events"][-1]["seen_at"] = moment(46 if bad else 2)
    if not bad:
        members[0].group(1.9, "sync", "bills", member_id="m-1", is_leader=True, **words)


@scene(
    "long_rebalance",
    client_id="billing-1",
    group_id="bills",
    generation=1,
    seconds=30,
    members=2,
    waited_for="give up partitions",
)
def _(tables: Rows, bad: bool) -> None:
    """A member of KIP-848's protocol has to give up a partition for a new member; the healthy one does at once."""
    known = {"api": ApiKey.CONSUMER_GROUP_HEARTBEAT, "group_type": "consumer"}
    busy, waits = (tables.client(f"billing-{number}", f"10.0.0.{number}") for number in (1, 2))
    both, one, other = ["orders-0", "orders-1"], ["orders-0"], ["orders-1"]
    gives = 40.5 if bad else 11
    busy.group(0, "join", "bills", member_id="m-1", generation=0, response_generation=1, assignment=both, **known)
    busy.group(1, "heartbeat", "bills", member_id="m-1", generation=1, response_generation=1, owned=both, **known)
    waits.group(5, "join", "bills", member_id="m-2", generation=0, response_generation=2, **known)
    busy.group(10, "heartbeat", "bills", member_id="m-1", generation=1, response_generation=1, assignment=one, **known)
    busy.group(gives, "heartbeat", "bills", member_id="m-1", generation=1, response_generation=2, owned=one, **known)
    waits.group(
        gives + 1, "heartbeat", "bills", member_id="m-2", generation=2, response_generation=2, assignment=other, **known
    )


@scene(
    "uneven_assignment",
    client_id="billing-1",
    group_id="bills",
    members=3,
    partitions=6,
    most=6,
    fewest=0,
    topics=6,
    assignor="range",
)
def _(tables: Rows, bad: bool) -> None:
    """Of the healthy ones each has two."""
    topics = [f"events-{number}-0" for number in range(6)]
    for number in range(3):
        member = tables.client(f"billing-{number + 1}", f"10.0.0.{number + 1}")
        given = (topics if number == 0 else []) if bad else topics[2 * number : 2 * number + 2]
        _joins(member, number * 0.001, "bills", f"m-{number}", given)
        _beats(member, 1, 30, "bills", f"m-{number}")


@scene(
    "rare_heartbeats", client_id="billing", group_id="bills", session_timeout_ms=6000, interval_ms=5500, heartbeats=3
)
def _(tables: Rows, bad: bool) -> None:
    consumer = tables.client("billing")
    _joins(consumer, 0, "bills", "m-1", ["orders-0"], session_timeout_ms=6000)
    _beats(consumer, 1, 18, "bills", "m-1", 5.5 if bad else 2.0)


@scene("abandoned_fetches", client_id="billing", fetches=3, max_wait_ms=20_000, waited_ms=4000)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one asks the broker to wait for three seconds, and its connection ends after a minute."""
    for number in range(4):
        closed = {"closed_by": "client", "closed_at": moment(number * 5 + 4)} if number < 3 else {}
        consumer = tables.client("billing", **closed)
        unanswered = {"unanswered": "the client closed the connection"} if number < 3 else {}
        consumer.ask(number * 5, ApiKey.FETCH, replica_id=-1, max_wait_ms=20_000 if bad else 3000, **unanswered)


@scene("abandoned_fetches", client_id="audit", fetches=3, max_wait_ms=20_000, waited_ms=4000)
def _(tables: Rows, bad: bool) -> None:
    """The healthy ones give their fetches up for rebalances, as franz-go does."""
    for name in ("audit",) if bad else ("audit", "audit-848"):
        coordinator = tables.client(name)
        for number in range(4):
            closed = {"closed_by": "client", "closed_at": moment(number * 5 + 4)} if number < 3 else {}
            unanswered = {"unanswered": "the client closed the connection"} if number < 3 else {}
            consumer = tables.client(name, **closed)
            consumer.ask(number * 5, ApiKey.FETCH, replica_id=-1, max_wait_ms=20_000, **unanswered)
            if name == "audit":
                coordinator.ask(number * 5 + (4.9 if bad else 3.9), ApiKey.JOIN_GROUP, group_id="audit")
            else:
                known = {"api": ApiKey.CONSUMER_GROUP_HEARTBEAT, "group_type": "consumer", "member_id": "m-1"}
                coordinator.group(number * 5 + 3.9, "heartbeat", name, assignment=[f"orders-{number}"], **known)


@scene("duplicate_records", client_id="shop", topic="orders", batches=2, records=2, twice=0, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """The batches come again in one batch; the healthy producer is idempotent."""
    producer = 7 if not bad else -1
    first, second = tables.client("shop"), tables.client("shop")
    for at in (0, 0.1):
        stamps = {
            "base_timestamp": moment(at),
            "max_timestamp": moment(at),
            "producer_id": producer,
            "error_code": None,
        }
        first.produce(at, "orders", **stamps)
    again = {"base_timestamp": moment(0), "max_timestamp": moment(0.1), "producer_id": producer, "appended_offset": 9}
    second.produce(3, "orders", count=2, **again)


@scene("duplicate_records", records=5, twice=5, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """The broker says that it may have them (REQUEST_TIMED_OUT); the healthy producer gives up at that."""
    producer = tables.client("shop")
    stamps = {"base_timestamp": moment(0), "max_timestamp": moment(0.1)}
    producer.produce(0, "orders", count=5, error_code=ErrorCode.REQUEST_TIMED_OUT, **stamps)
    if bad:
        producer.produce(2, "orders", count=5, **stamps)


@scene("aborted_records_read", client_id="hasty", topic="paid", records=10, batches=1, transactional_id="copier")
def _(tables: Rows, bad: bool) -> None:
    """The healthy one reads committed records."""
    writer = tables.client("copier", "10.0.0.6")
    of_batch = {"count": 10, "producer_id": 5, "is_transactional": True, "max_timestamp": moment(1)}
    exchange = writer.produce(1, "paid", **of_batch)
    next(
        row for row in tables.tables["exchanges"] if row["connection_id"] == writer.id and row["exchange"] == exchange
    )["transactional_id"] = "copier"
    reader = tables.client("hasty")
    fetch = reader.ask(1.1, ApiKey.FETCH, replica_id=-1, isolation_level=0 if bad else 1, topics=["paid"])
    tables.add(
        "record_batches",
        **{
            "connection_id": reader.id,
            "exchange": fetch,
            "seen_at": moment(1.102),
            "direction": "fetch",
            "topic": "paid",
        },
        **{"partition": 0, "base_offset": 0, "size": 100, "is_control": False, "magic": 2, "error_code": 0, **of_batch},
    )
    writer.ask(2, ApiKey.END_TXN, producer_id=5, committed=False, transactional_id="copier")


@scene(
    "small_transactions", client_id="copier", transactional_id="copier", transactions=200, records=200, per_minute=200
)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one has five records in each."""
    writer = tables.client("copier")
    for number in range(200):
        at = number * 0.2
        more = {"producer_id": 5, "is_transactional": True, "count": 1 if bad else 5}
        writer.produce(at, "paid", **more)
        tables.tables["exchanges"][-1]["transactional_id"] = "copier"
        writer.ask(at + 0.1, ApiKey.END_TXN, producer_id=5, committed=True, transactional_id="copier")


@scene("group_for_each_start", client_id="report", groups=5, first_group="report-0", last_group="report-4")
def _(tables: Rows, bad: bool) -> None:
    """The healthy one is five programs with one name, at one address, at the same time."""
    for number in range(5):
        consumer = tables.client("report")
        begin = number * 10.0 if bad else number * 1.0
        for at in (begin, begin + 8):
            consumer.group(at, "join", f"report-{number}", member_id=f"m-{number}", response_generation=1)


@scene(
    "commits_backward",
    client_id="billing-2",
    group_id="bills",
    topic="orders",
    partitions=1,
    setbacks=3,
    records=70,
    clients=2,
)
def _(tables: Rows, bad: bool) -> None:
    """The healthy ones have a partition each; one sets back three partitions, once."""
    if not bad:
        once = tables.client("audit")
        for offset in (100, 40):
            once.commit(10 - offset / 20, "audits", "orders", offset, partitions=3)
    quick, slow = tables.client("billing-1"), tables.client("billing-2", "10.0.0.6")
    quick.commit(0, "bills", "orders", 20)
    for number in range(3):
        slow.commit(1 + 2 * number, "bills", "orders", 10 + 10 * number, partition=0 if bad else 1)
        quick.commit(2 + 2 * number, "bills", "orders", 50 + 50 * number)
    quick.commit(9, "bills", "orders", 200)


@scene("changes", rows=2, client_id="operator", what="topic deleted", resource="orders", changes=1)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one only looks, and what it deletes is not there."""
    admin = tables.client("operator")
    admin.ask(0, ApiKey.DESCRIBE_CONFIGS)
    if bad:
        admin.ask(1, ApiKey.DELETE_TOPICS, topics=["orders"])
        admin.ask(2, ApiKey.INCREMENTAL_ALTER_CONFIGS, changed=["topic orders: retention.ms"])
    else:
        admin.ask(1, ApiKey.CREATE_TOPICS, topics=["orders"], changed=[])
        admin.error(1, ApiKey.DELETE_TOPICS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders", topics=["orders"])


@scene(
    "login_expired",
    client_id="shop",
    connections=3,
    seconds=4,
    longest_seconds=5,
    sasl_mechanism="PLAIN",
    user_name="alice",
)
def _(tables: Rows, bad: bool) -> None:
    """The broker closes the healthy one's connections at very different ages, as when it is restarted."""
    begin = 0.0
    for lasted in (4, 5, 4) if bad else (4, 60, 20):
        closed = {"closed_by": "broker", "closed_at": moment(begin + lasted), "unanswered": 1}
        client = tables.client("shop", sasl_mechanism="PLAIN", user_name="alice", **closed)
        for number in range(5):
            client.ask(begin + number * 0.5, ApiKey.PRODUCE)
        client.ask(begin + lasted, ApiKey.PRODUCE, unanswered="the broker closed the connection")
        begin += lasted + 0.1


@scene("silent_refusals", client_id="camera", topic="images", connections=3, records=3, largest_bytes=1_200_000)
def _(tables: Rows, bad: bool) -> None:
    """The healthy producer ends its connections itself."""
    for second in range(3):
        closed = {"closed_by": "broker" if bad else "client", "closed_at": moment(second + 0.1)}
        tables.client("camera", **closed).produce(second, "images", size=1_200_000, acks=0)


@scene(
    "duplicate_records",
    client_id="deaf",
    topic="orders",
    cause="answers that do not arrive",
    batches=5,
    records=250,
    twice=250,
    severity="warning",
)
def _(tables: Rows, bad: bool) -> None:
    """Each is acknowledged. Healthy ones send new records, many of one instant, to the full minute, or old ones."""
    healthy = ("new", 0.123), ("polls", 0.123), ("measures", 0), ("imports", -9000.5)
    for name, begin in (("deaf", 0.123),) if bad else healthy:
        producer = tables.client(name)
        for number in range(6):
            began = begin + (2 * number if name == "new" else 0)
            stamps = {
                "base_timestamp": moment(began),
                "max_timestamp": moment(began + (0.1 if begin else 0)),
                "size": 811,
            }
            at = 1 + (0.001 if name == "polls" else 2) * number
            producer.produce(at, "orders", count=50, appended_offset=50 * number, **stamps)


@scene(
    "duplicate_records",
    client_id="deaf",
    cause="answers that do not arrive",
    batches=4,
    records=20,
    twice=0,
    severity="warning",
)
def _(tables: Rows, bad: bool) -> None:
    """An idempotent producer sends the same sequence; the healthy one sends it twice, and its next start has another epoch."""
    producer = tables.client("deaf")
    for number in range(5):
        stamps = {"base_timestamp": moment(0), "max_timestamp": moment(0), "appended_offset": 77}
        epoch = 0 if bad else number // 2
        producer.produce(2 * number, "orders", count=5, producer_id=9, producer_epoch=epoch, base_sequence=50, **stamps)


@scene("only_aborts", client_id="fails", transactional_id="pays", aborts=6, records=120, seconds=25, ended=False)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one aborts each third transaction, as at a rebalance; another aborts a few at once when it is stopped; a third
    has nothing to send in each."""
    producer = tables.client("fails")
    of_producer = {"producer_id": 9, "producer_epoch": 0}
    for number in range(6):
        producer.produce(5 * number, "orders", count=20, **of_producer, is_transactional=True)
        ended = {"transactional_id": "pays", "committed": not bad and number % 3 != 0, **of_producer}
        producer.ask(5 * number + 1, ApiKey.END_TXN, **ended)
    if not bad:
        stopped, empty = tables.client("stopped", "10.0.0.6"), tables.client("empty", "10.0.0.7")
        for number in range(6):
            aborts = {"producer_id": 10, "producer_epoch": 0, "committed": False}
            stopped.produce(number, "orders", producer_id=10, producer_epoch=0, is_transactional=True)
            stopped.ask(number, ApiKey.END_TXN, transactional_id="stopped", **aborts)
            empty.ask(5 * number, ApiKey.END_TXN, transactional_id="empty", **aborts)
