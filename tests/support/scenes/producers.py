"""Scenes of producers."""

import datetime

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Client, Rows, moment
from tests.support.scenes.scene import scene


@scene("acks_below_all", client_id="orders", topic="invoices", acks=1, batches=3, records=60, severity="info")
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("orders")
    for second in range(3):
        producer.produce(second, "invoices", count=20, acks=1 if bad else -1)


@scene("acks_below_all", rows=2, client_id="metrics", acks=0, records=5, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    tables.client("metrics").produce(0, "points", count=5, acks=0 if bad else -1)
    tables.client("orders").produce(1, "invoices", count=900, acks=1 if bad else -1)


@scene(
    "tiny_batches", client_id="sensor", topic="readings", batches=1200, records=1200, records_per_batch=1.0,
    bytes_per_batch=100, batches_in_busiest_minute=1200,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("sensor")  # the healthy one sends as much in a hundredth of the requests
    for number in range(1200 if bad else 12):
        producer.produce(number * 0.04, "readings", count=1 if bad else 100)


@scene("tiny_batches", records_per_batch=2.0)
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("sensor")  # as tiny, but so slow that waiting would bring nothing
    for number in range(1000):
        producer.produce(number * (0.05 if bad else 0.5), "readings", count=2)


@scene("no_compression", client_id="logs", topic="lines", batches=100, bytes=6_000_000, bytes_per_batch=60_000)
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("logs")
    for number in range(100):
        producer.produce(number, "lines", count=300, size=60_000, codec="none" if bad else "zstd")


@scene("auto_created_topic", client_id="app", topic="oders", ms_until_it_was_there=500.0)
def _(tables: Rows, bad: bool) -> None:
    if not bad:
        tables.client("admin").ask(9.9, ApiKey.CREATE_TOPICS, topics=["oders"])
    client = tables.client("app")
    client.error(10, ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "oders", topics=["oders"])
    client.ask(10.502, ApiKey.METADATA, topics=["oders"], described_topics=["oders"])
    tables.client("operator").ask(60, ApiKey.DELETE_TOPICS, topics=["oders"])


@scene("auto_created_topic", client_id="app", topic="orders", ms_until_it_was_there=500.0)
def _(tables: Rows, bad: bool) -> None:
    """It was deleted; the healthy one was not, but a broker did not know of it for a moment. Streams has a topic of its own."""
    client = tables.client("app")
    client.ask(1, ApiKey.METADATA, topics=["orders"], described_topics=["orders"])
    inner = "app-STORE-repartition"  # its coordinator makes it
    client.error(2, ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, inner, topics=[inner])
    client.ask(2.5, ApiKey.METADATA, topics=[inner], described_topics=[inner])
    tables.client("operator").ask(9, ApiKey.DELETE_TOPICS if bad else ApiKey.DESCRIBE_CONFIGS, topics=["orders"])
    client.error(10, ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders", topics=["orders"])
    client.ask(10.502, ApiKey.METADATA, topics=["orders"], described_topics=["orders"])


@scene(
    "unknown_topic_loop",
    client_id="app",
    topic="gone",
    errors=40,
    error_name="UNKNOWN_TOPIC_OR_PARTITION",
    seconds=19,
    deleted_by=None,
)
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("app")  # the healthy one asks as often, until the new topic is there
    for number in range(40):
        missing = bad or number < 9
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if missing:
            client.error(number * 0.5, ApiKey.METADATA, code, "gone", topics=["gone"])
        else:
            client.ask(number * 0.5, ApiKey.METADATA, topics=["gone"], described_topics=["gone"])


@scene("unknown_topic_loop", client_id="search", topic="gone", errors=20, seconds=9, deleted_by="tidy")
def _(tables: Rows, bad: bool) -> None:
    """A deleted topic: a member subscribes to it on and on; or to a pattern, which it no longer fits."""
    client = tables.client("search")
    tables.client("tidy", "10.0.0.6").ask(0, ApiKey.DELETE_TOPICS, topics=["gone"])
    for at, topics in ((0, ["gone", "kept"]), (4, ["gone", "kept"] if bad else ["kept"])):
        client.group(at, "join", "search", member_id="m-1", subscribed_topics=topics)
    for number in range(20):
        client.error(1 + number * 0.5, ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone", topics=["gone"])


@scene(
    "message_too_large",
    client_id="images",
    topic="scans",
    errors=1,
    lost=1,
    largest_bytes=1_200_000,
    severity="critical",
)
def _(tables: Rows, bad: bool) -> None:
    code = ErrorCode.MESSAGE_TOO_LARGE if bad else 0
    tables.client("images", closed="end of capture").produce(0, "scans", size=1_200_000, error_code=code)


@scene("message_too_large", errors=1, lost=0, severity="info")
def _(tables: Rows, bad: bool) -> None:
    """The producer splits the batch, and sends both parts."""
    producer = tables.client("images")
    code = ErrorCode.MESSAGE_TOO_LARGE if bad else 0
    whole, first, second = (moment(0), moment(4)), (moment(0), moment(2)), (moment(3), moment(4))
    for at, (begin, end), refused in ((5, whole, code), (5.1, first, 0), (5.2, second, 0)):
        producer.produce(at, "scans", count=20, error_code=refused, base_timestamp=begin, max_timestamp=end)


@scene("near_max_message", client_id="images", topic="scans", largest_bytes=1_000_000, percent_of_max=95, batches=1)
def _(tables: Rows, bad: bool) -> None:
    tables.client("images").produce(0, "scans", count=1 if bad else 1000, size=1_000_000)


@scene("near_max_message", client_id="images", topic="scans", largest_bytes=1_000_000)
def _(tables: Rows, bad: bool) -> None:
    """Another producer sends a larger one: the healthy topic takes it."""
    tables.client("images").produce(0, "scans", size=1_000_000)
    tables.client("films").produce(1, "scans", size=2_000_000, error_code=ErrorCode.MESSAGE_TOO_LARGE if bad else 0)


@scene(
    "throttled", client_id="batch", api_name="Produce", throttled=10, exchanges=20, throttled_ms=2500, longest_ms=250
)
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("batch")
    for number in range(20):
        producer.ask(number, ApiKey.PRODUCE, throttle_time_ms=250 if bad and number % 2 else 0)


@scene(
    "skewed_partitions", topic="clicks", partition=2, client_id="web", records=9000, topic_records=12_000, percent=75,
    times_others=9.0, other_partitions=3,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """One small batch for another partition is refused; of the healthy topics, one has most of them refused."""
    producer = tables.client("web")
    for number in range(100):
        count = (360 if number % 4 == 2 else 40) if bad else 120
        producer.produce(number, "clicks", number % 4, count=count)
        if not bad:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if number > 3 and number % 4 else 0
            producer.produce(number, "orders", number % 4, count=400, error_code=code)
    producer.produce(50, "clicks", 1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)


@scene("skewed_partitions", topic="orders", partition=4, clients=2, other_partitions=5, percent=100, times_others=None)
def _(tables: Rows, bad: bool) -> None:
    for name in ("web-1", "web-2"):  # the healthy ones write to a topic of one partition
        producer = tables.client(name)
        exchange = producer.ask(0, ApiKey.METADATA)
        for number in range(6 if bad else 1):
            seen = {"connection_id": producer.id, "exchange": exchange, "seen_at": moment(0.002), "api_key": 3}
            tables.add("partition_states", **seen, topic="orders", partition=number)
        for number in range(60):
            producer.produce(number + 1, "orders", 4 if bad else 0)


@scene("skewed_partitions", times_others=19.0, topic_records=25_000)
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("web")  # without keys, few large batches fall on partitions by chance
    for number in range(100 if bad else 5):
        producer.produce(number, "clicks", 2 if number % 20 else 0, count=250 if bad else 5000)


@scene(
    "hot_keys", topic="clicks", partition=1, key_hex="626F74", key_bytes=3, records=600, topic_records=1200, percent=50,
    keys=601, client_id="web",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("web")
    exchange = producer.produce(0, "clicks", 1, count=1200)
    for number in range(1200):
        hot = bad and number % 2
        producer.record(exchange, "clicks", b"bot" if hot else b"user-%d" % number, partition=1 if hot else number % 3)


@scene(
    "open_transaction", client_id="etl", transactional_id="etl-1", topics=["facts"], records=20, seconds=120,
    outcome="committed",
    severity="notice",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = _begun(tables)
    _write(tables, producer, 0)
    _write(tables, producer, 30)
    if not bad:
        producer.ask(31, ApiKey.END_TXN, producer_id=7, producer_epoch=0, committed=True, transactional_id="etl-1")
    producer.ask(120, ApiKey.END_TXN, producer_id=7, producer_epoch=0, committed=True, transactional_id="etl-1")


@scene("open_transaction", outcome="unfinished", severity="critical", seconds=300, records=10)
def _(tables: Rows, bad: bool) -> None:
    producer = _begun(tables)
    _write(tables, producer, 0)
    if not bad:
        producer.ask(5, ApiKey.END_TXN, producer_id=7, producer_epoch=0, committed=False, transactional_id="etl-1")
    tables.client("other").ask(300, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="committed", severity="notice", seconds=90, records=10)
def _(tables: Rows, bad: bool) -> None:
    """Its transactions take 90 s, those of the healthy one 50 s. The capture ends in one, which is not listed."""
    producer, length = _begun(tables, closed="end of capture"), 90 if bad else 50
    _write(tables, producer, 0)
    producer.ask(length, ApiKey.END_TXN, producer_id=7, producer_epoch=0, committed=True, transactional_id="etl-1")
    _write(tables, producer, 100)
    tables.client("other").ask(99 + length, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="unfinished", severity="critical", seconds=90, rows=2)
def _(tables: Rows, bad: bool) -> None:
    """Its transactions take five seconds, but for one, hours ago; those of the healthy one 50."""
    producer = _begun(tables, closed="end of capture")
    for begin, seconds in ((-5000, 1000 if bad else 50), *((at, 5 if bad else 50) for at in (-3000, -2000, -1000))):
        _write(tables, producer, begin)
        ids = {"producer_id": 7, "producer_epoch": 0, "transactional_id": "etl-1"}
        producer.ask(begin + seconds, ApiKey.END_TXN, committed=True, **ids)
    _write(tables, producer, 0)
    tables.client("other").ask(90, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="unfinished", severity="critical", seconds=40, records=10)
def _(tables: Rows, bad: bool) -> None:
    """The producer is gone; the healthy one is still there, and may end it in time."""
    gone = {"closed_at": moment(2), "closed_by": "client"} if bad else {"closed": "end of capture"}
    _write(tables, _begun(tables, **gone), 0)
    tables.client("other").ask(40, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="ended by the broker", severity="warning", seconds=70)
def _(tables: Rows, bad: bool) -> None:
    """The producer died: readers get past its first record when transaction.timeout.ms is over."""
    _begun(tables).produce(0, "facts", appended_offset=50, is_transactional=True, producer_id=7, producer_epoch=0)
    reader = tables.client("reader")
    for at in range(10, 310, 10):
        reader.fetch(at, "facts", 50, end=80, stable=50 if at < (70 if bad else 40) else 80)


@scene("open_transaction", outcome="ended by the broker", severity="warning", seconds=70)
def _(tables: Rows, bad: bool) -> None:
    """It wants to commit when transaction.timeout.ms is over, and is refused; the healthy one commits in time."""
    producer = _begun(tables)
    producer.produce(0, "facts", is_transactional=True, producer_id=7, producer_epoch=0)
    ids = {"transactional_id": "etl-1", "producer_id": 7, "producer_epoch": 0, "committed": True}
    producer.ask(70 if bad else 50, ApiKey.END_TXN, error_codes=[ErrorCode.PRODUCER_FENCED] if bad else [], **ids)
    producer.ask(300, ApiKey.METADATA)


@scene("open_transaction", outcome="unfinished", seconds=300)
def _(tables: Rows, bad: bool) -> None:
    """Where the coordinator is another broker, which was not captured, all that was written may have been committed."""
    if bad:
        _begun(tables)
    _write(tables, tables.client("etl", broker_port=9093), 0)
    tables.client("other").ask(300, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="unfinished", seconds=300)
def _(tables: Rows, bad: bool) -> None:
    """The capture of the coordinator ends at once; another broker's, or the same one's of the next day, goes on."""
    _write(tables, _begun(tables), 0)
    later: dict[str, str | int] = {} if bad else {"capture": "of another broker", "broker_port": 9093}
    tables.client("other", **later).ask(300, ApiKey.METADATA, seconds=0)
    if not bad:
        tables.client("other", capture="of the next day").ask(86_400, ApiKey.METADATA)


@scene("open_transaction", outcome="unfinished", seconds=300)
def _(tables: Rows, bad: bool) -> None:
    """The capture ends at once; a file of the same name, of another folder, is of a week later."""
    _write(tables, _begun(tables), 0)
    tables.client("other").ask(300 if bad else 7 * 86_400, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="committed", seconds=100, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """A capture in files of a minute: the transaction ends in the next one."""
    producer = _begun(tables)
    _write(tables, producer, 0)
    producer.ask(59, ApiKey.HEARTBEAT)
    rotated = tables.client("etl", capture="made by hand-2")
    rotated.ask(60, ApiKey.HEARTBEAT)
    rotated.ask(100 if bad else 59.5, ApiKey.END_TXN, producer_id=7, committed=True)


@scene("open_transaction", outcome="unfinished", seconds=300, severity="critical")
def _(tables: Rows, bad: bool) -> None:
    """A capture in two files, with half a minute without a frame between them, or with an hour that was not captured."""
    _write(tables, _begun(tables), 0)
    later = tables.client("other", capture="made by hand-2")
    later.ask(30 if bad else 3600, ApiKey.METADATA)
    later.ask(300 if bad else 3900, ApiKey.METADATA, seconds=0)


@scene("open_transaction", outcome="committed", records=1, seconds=70, rows=2)
def _(tables: Rows, bad: bool) -> None:
    """One after the other, of which each ends at its own end."""
    producer = _begun(tables)
    for begin, end in ((0, 70), (71, 141), (142, 143)):
        producer.produce(begin, "facts", producer_id=7, producer_epoch=0, is_transactional=True)
        producer.ask(end if bad else begin + 1, ApiKey.END_TXN, producer_id=7, producer_epoch=0, committed=True)
    producer.ask(300, ApiKey.METADATA)


def _begun(tables: Rows, **connection: object) -> Client:
    """A producer that its coordinator let begin."""
    producer = tables.client("etl", **connection)
    producer.ask(-1, ApiKey.INIT_PRODUCER_ID, producer_id=7, producer_epoch=0, transactional_id="etl-1")
    return producer


def _write(tables: Rows, producer: Client, at: float) -> None:
    producer.produce(at, "facts", count=10, is_transactional=True, producer_id=7, producer_epoch=0)
    tables.tables["exchanges"][-1]["transactional_id"] = "etl-1"


@scene("open_transaction", outcome="unfinished", records=1, severity="critical")
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("etl")
    producer.produce(0, "facts", producer_id=5, producer_epoch=0, is_transactional=True)
    failed = [ErrorCode.CONCURRENT_TRANSACTIONS] if bad else []
    producer.ask(5, ApiKey.END_TXN, producer_id=5, committed=True, error_codes=failed)
    producer.ask(200, ApiKey.METADATA)


@scene("producer_fenced", client_id="etl", transactional_id="etl-1", errors=1, error_name="PRODUCER_FENCED")
def _(tables: Rows, bad: bool) -> None:
    code = ErrorCode.PRODUCER_FENCED if bad else ErrorCode.CONCURRENT_TRANSACTIONS
    tables.client("etl").error(0, ApiKey.END_TXN, code, kind="none", transactional_id="etl-1")


@scene("producer_fenced", error_name="INVALID_PRODUCER_EPOCH")
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("etl")  # from version 4 on a broker asks, for a producer that is told so itself
    version = 3 if bad else 4
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    producer.error(0, ApiKey.ADD_PARTITIONS_TO_TXN, code, "facts", 0, transactional_id="etl-1", api_version=version)


@scene("producer_fenced", client_id="etl", cause="another producer", error_name="PRODUCER_FENCED")
def _(tables: Rows, bad: bool) -> None:
    first, second = tables.client("etl"), tables.client("etl", "10.0.0.6")
    first.ask(0, ApiKey.INIT_PRODUCER_ID, transactional_id="etl-1", timeout_ms=60_000)
    second.ask(5, ApiKey.INIT_PRODUCER_ID, transactional_id="etl-1" if bad else "etl-2", timeout_ms=60_000)
    code = ErrorCode.PRODUCER_FENCED if bad else ErrorCode.CONCURRENT_TRANSACTIONS
    first.error(6, ApiKey.END_TXN, code, kind="none", transactional_id="etl-1")


@scene("producer_fenced", client_id="etl", cause="a transaction that timed out", error_name="INVALID_TXN_STATE")
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("etl")
    producer.ask(-1, ApiKey.FIND_COORDINATOR, transactional_id="etl-1")
    producer.ask(0, ApiKey.INIT_PRODUCER_ID, transactional_id="etl-1", timeout_ms=4000)
    producer.produce(1, "facts")
    tables.tables["exchanges"][-1]["transactional_id"] = "etl-1"
    code = ErrorCode.INVALID_TXN_STATE if bad else ErrorCode.CONCURRENT_TRANSACTIONS
    producer.error(6, ApiKey.END_TXN, code, kind="none", transactional_id="etl-1")


OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@scene(
    "sequence_errors", client_id="orders", topic="invoices", partition=3, producer_id=42, errors=1, base_sequence=17, lost=4,
    error_name="OUT_OF_ORDER_SEQUENCE_NUMBER", severity="critical",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("orders", closed="end of capture")
    code = OUT_OF_ORDER if bad else ErrorCode.NOT_LEADER_OR_FOLLOWER
    sequence = {"producer_id": 42, "producer_epoch": 0}
    for at, refused in ((0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, code)):
        producer.produce(at, "invoices", 3, error_code=refused, count=4, **sequence, base_sequence=17)
    producer.produce(4, "invoices", 3, count=2, producer_id=42, producer_epoch=1, base_sequence=0)  # later records
    tables.client("orders", gaps=1).produce(
        -9000, "invoices", 3, **sequence, base_sequence=1
    )  # which lacks nothing of that


@scene("sequence_errors", errors=1, lost=0, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """The capture has gaps: it may have been sent again in one of them."""
    producer = tables.client("orders", gaps=1)
    sequence = {"producer_id": 42, "producer_epoch": 0, "count": 4}
    producer.produce(0, "invoices", error_code=OUT_OF_ORDER if bad else 0, **sequence, base_sequence=17)
    producer.produce(9, "invoices", **sequence, base_sequence=21)


@scene("sequence_errors", errors=2, lost=0, severity="info")
def _(tables: Rows, bad: bool) -> None:
    """A leader moved: what it refused was sent again, and acknowledged."""
    producer = tables.client("orders")
    code = OUT_OF_ORDER if bad else ErrorCode.NOT_LEADER_OR_FOLLOWER
    sequence = {"producer_id": 42, "producer_epoch": 0, "count": 4}
    for at in (0, 0.1):
        producer.produce(at, "invoices", error_code=code, **sequence, base_sequence=17)
    for number in range(4):
        producer.produce(0.2 + number, "invoices", **sequence, base_sequence=13 + 4 * number)


@scene("sequence_errors", errors=2, lost=0, severity="info", error_name="UNKNOWN_PRODUCER_ID")
def _(tables: Rows, bad: bool) -> None:
    """The producer begins a new epoch, and puts what was refused into other batches; the times of its records stay."""
    producer = tables.client("orders")
    code = ErrorCode.UNKNOWN_PRODUCER_ID if bad else ErrorCode.NOT_LEADER_OR_FOLLOWER
    for at, epoch, begin, end in ((5.0, 0, 0, 2), (5.1, 0, 2, 4), (6.0, 1, 0, 3), (6.1, 1, 3, 5)):
        producer.produce(
            at, "invoices", count=30, error_code=0 if epoch else code, producer_id=42, producer_epoch=epoch,
            base_sequence=10 * begin, base_timestamp=moment(begin), max_timestamp=moment(end),
        )  # fmt: skip


@scene("sequence_errors", errors=1, lost=0, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """The capture ends at once: whether it was sent again is not known."""
    code = OUT_OF_ORDER if bad else ErrorCode.NOT_LEADER_OR_FOLLOWER
    tables.client("orders", closed="end of capture").produce(0, "invoices", error_code=code, count=4, producer_id=42)


@scene("lost_records", evidence="sequence refused", from_offset=30, end_offset=50, records=20, acks=-1)
def _(tables: Rows, bad: bool) -> None:
    """A new leader refuses what follows the last acknowledged batch; in the healthy scene that batch was refused before."""
    batch = {"acks": -1, "count": 10, "producer_id": 42, "producer_epoch": 0}
    producer = tables.client("orders")
    for at in range(5):
        code = 0 if bad or at < 4 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        offset = -1 if code else 10 * at
        producer.produce(at, "invoices", appended_offset=offset, base_sequence=10 * at, error_code=code, **batch)
    again = tables.client("orders", broker_address="10.0.0.91")
    again.produce(9, "invoices", base_sequence=50, error_code=OUT_OF_ORDER, **batch)
    reader = tables.client("reader", broker_address="10.0.0.91")
    reader.ask(9, ApiKey.METADATA)
    reader.fetch(10, "invoices", 30, end=30 if bad else 40)


@scene("lost_records", client_id="ledger", evidence="a reader sent back", from_offset=20, end_offset=50, records=30)
def _(tables: Rows, bad: bool) -> None:
    """Its new leader ends earlier (KIP-320); the application of the healthy one seeks back."""
    first, second = tables.client("ledger"), tables.client("ledger", broker_address="10.0.0.8")
    first.fetch(0, "invoices", 50, end=50)
    second.ask(5, ApiKey.OFFSET_FOR_LEADER_EPOCH, topics=["invoices"])
    second.fetch(6, "invoices", 20, end=20 if bad else 50)


@scene(
    "lost_records", client_id="orders", topic="invoices", partition=0, from_offset=20, end_offset=50, records=30, acks=1
)
def _(tables: Rows, bad: bool) -> None:
    """The new leader had 20 of 50 records. The healthy producer sends its third batch again, and is answered as before.

    Then the topic is deleted and created anew, and another producer begins at 0.
    """
    for at, begin in () if bad else ((20, 0), (21, 10), (22, 20)):
        tables.client("later").produce(
            at, "invoices", acks=1, count=10, appended_offset=begin, producer_id=43, base_sequence=begin
        )
    producer = tables.client("orders")
    for at, begin, sequence in ((0, 0, 0), (1, 10, 10), (2, 20, 20), (3, 40, 40), (9, 20, 50 if bad else 20)):
        producer.produce(
            at,
            "invoices",
            acks=1,
            count=10,
            appended_offset=begin,
            producer_id=42,
            producer_epoch=0,
            base_sequence=sequence,
        )


@scene("lost_records", client_id="orders", from_offset=20, end_offset=50, records=30)
def _(tables: Rows, bad: bool) -> None:
    """The topic of the healthy one was deleted meanwhile, and made anew: who wrote its first records was not captured."""
    producer = tables.client("orders")
    for at in (20, 40):
        producer.produce(at / 100, "invoices", count=10, appended_offset=at)
    if not bad:
        tables.client("admin", "10.0.0.6").ask(5, ApiKey.DELETE_TOPICS, topics=["invoices"])
    for at in (20, 30):
        producer.produce(at, "invoices", count=10, appended_offset=at)


@scene("lost_records", client_id="orders", from_offset=20, end_offset=40, records=20)
def _(tables: Rows, bad: bool) -> None:
    """The topic was deleted and made anew, and then lost records; the healthy one goes on."""
    producer = tables.client("orders")
    producer.produce(0, "invoices", count=10, appended_offset=990)
    tables.client("admin", "10.0.0.6").ask(5, ApiKey.DELETE_TOPICS, topics=["invoices"])
    for at, begin in ((5.1, 1000), (20, 10), (30, 30), (40, 20 if bad else 40)):  # the first, before it was deleted
        producer.produce(at, "invoices", count=10, appended_offset=begin)


@scene("lost_records", client_id="orders", from_offset=20, end_offset=30, records=10)
def _(tables: Rows, bad: bool) -> None:
    """A batch is refused as out of order; sent again, it gets the offset of another one, which a new leader does not have.

    The healthy producer's first attempt timed out: the broker may have appended it before the other one.
    """
    producer = tables.client("orders")
    words = {"count": 10, "producer_id": 42, "producer_epoch": 0}
    producer.produce(0, "invoices", appended_offset=10, base_sequence=0, **words)
    first = {"error_code": 45} if bad else {"error_code": 7}
    producer.produce(1, "invoices", appended_offset=-1, base_sequence=10, **first, **words)
    tables.client("other").produce(2, "invoices", count=10, appended_offset=20, producer_id=43, base_sequence=0)
    producer.produce(3, "invoices", appended_offset=20, base_sequence=10, **words)


@scene(
    "late_records", client_id="replay", topic="events", batches=6, records=60, most_seconds_late=3605, severity="notice"
)
def _(tables: Rows, bad: bool) -> None:
    tables.client("live").produce(0, "events", max_timestamp=moment(0))
    producer = tables.client("replay")
    for second in range(6):  # each an hour behind, and one second more than the one before
        late = moment(-3600 - second) if bad else moment(second - 10)
        producer.produce(second + 1, "events", count=10, max_timestamp=late)


@scene("late_records", client_id="cron", topic="events", batches=5, records=5, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    for second in range(5):  # seconds, where milliseconds belong, are of January 1970
        at = moment(second)
        wrong = datetime.datetime.fromtimestamp(at.timestamp() / 1000, datetime.UTC)
        tables.client("cron").produce(second, "events", max_timestamp=wrong.replace(tzinfo=at.tzinfo) if bad else at)


@scene("future_timestamps", client_id="edge", topic="events", batches=2, records=2, most_seconds_ahead=7200)
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("edge")
    for second in range(2):
        ahead = datetime.timedelta(hours=2) if bad else datetime.timedelta(seconds=1)
        producer.produce(second, "events", max_timestamp=moment(second) + ahead)


@scene(
    "not_enough_replicas", client_id="orders", topic="invoices", partition=0, errors=4, seconds=3, lost=1,
    error_name="NOT_ENOUGH_REPLICAS", severity="critical",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    _refuse(tables.client("orders"), ErrorCode.NOT_ENOUGH_REPLICAS if bad else ErrorCode.NOT_LEADER_OR_FOLLOWER)


@scene("not_enough_replicas", errors=4, seconds=3, lost=0, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """A broker restarts: what was refused is sent until it is acknowledged."""
    producer = tables.client("orders")
    _refuse(producer, ErrorCode.NOT_ENOUGH_REPLICAS if bad else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    producer.produce(4, "invoices", max_timestamp=moment(0))


@scene("not_enough_replicas", errors=5, seconds=4, lost=1)
def _(tables: Rows, bad: bool) -> None:
    """A timeout beside the errors is of the same incident; alone it is not."""
    producer = tables.client("orders")
    if bad:
        _refuse(producer, ErrorCode.NOT_ENOUGH_REPLICAS)
    producer.produce(4, "invoices", error_code=ErrorCode.REQUEST_TIMED_OUT, max_timestamp=moment(0))


def _refuse(producer: Client, code: int) -> None:
    """The same batch, four times in three seconds."""
    for second in range(4):
        producer.produce(second, "invoices", error_code=code, max_timestamp=moment(0))


@scene(
    "corrupt_batches", client_id="orders", topic="invoices", partition=0, batches=1, direction="produced", refused=1,
    severity="critical", reason="the checksum is wrong",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("orders")  # what the broker took was damaged by the capture
    producer.produce(0, "invoices", crc_valid=False, error_code=2 if bad else 0)
    producer.produce(1, "invoices")


@scene("corrupt_batches", batches=1, refused=1, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("orders")
    for at in (0, 1):
        producer.produce(at, "invoices", error_code=0 if at or not bad else 2, max_timestamp=moment(0))


@scene("corrupt_batches", direction="fetched", batches=1, refused=0, severity="critical")
def _(tables: Rows, bad: bool) -> None:
    reader = tables.client("reader")
    reader.fetch(0, "invoices", 0, end=5, count=5)
    tables.tables["record_batches"][0]["crc_valid"] = not bad
    reader.fetch(1, "invoices", 0, end=5)


@scene("corrupt_batches", direction="produced", batches=1, refused=0, severity="critical")
def _(tables: Rows, bad: bool) -> None:
    """With acks=0 the broker ends the connection at it; healthy ones go on, or end it themselves, as the capture was damaged."""
    producer = tables.client("metrics", closed_by="broker" if bad else "client")
    producer.produce(0, "invoices", acks=0, crc_valid=False)
    (tables.client("metrics") if bad else producer).produce(3, "invoices", acks=0)
    if not bad:
        tables.client("cron", closed_by="client").produce(0, "invoices", acks=0, crc_valid=False)


@scene("corrupt_batches", direction="fetched", batches=1, refused=0, severity="critical")
def _(tables: Rows, bad: bool) -> None:
    """The reader goes on, as it does not look at checksums, or seeks past the batch."""
    reader = tables.client("reader")
    reader.fetch(0, "invoices", 0, end=5, count=5)
    tables.tables["record_batches"][0]["crc_valid"] = not bad
    reader.fetch(1, "invoices", 5, end=5)


@scene(
    "scattered_keys", topic="clicks", client_id="shop", other_client_id="web", keys=6, scattered=5, percent=83,
    key_hex="757365722D30", partition=0, other_partition=1, records=12,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """The partitioners of the healthy ones agree."""
    for name, shift in (("shop", 0), ("web", 1 if bad else 0)):
        producer = tables.client(name, f"10.0.1.{len(name)}")
        exchange = producer.produce(0, "clicks", 1, count=6)
        for number in range(6):
            producer.record(
                exchange, "clicks", b"user-%d" % number, partition=(number + (shift if number < 5 else 0)) % 3
            )
