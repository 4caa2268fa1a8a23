"""A crowd of clients of which each does nearly what a finding looks for, all at once: no finding may name one of them.

Each is past every threshold, but one condition of the rule does not hold: the request is another API's, the batch is fetched and
not produced, the fetch is a follower's, the error is of another kind.
"""

from collections.abc import Callable
from typing import Any

from kproxy.protocol import ApiKey
from tests.support.scenes.rows import Rows, moment

Member = Callable[[Rows], None]


def crowd() -> Rows:
    """The rows of all of them."""
    rows = Rows()
    for member in MEMBERS:
        member(rows)
    return rows


def _last(rows: Rows, table: str, **columns: Any) -> None:
    rows.tables[table][-1].update(columns)


def follower(rows: Rows) -> None:
    """A broker that replicates: empty fetches without waiting, the same offset, many partitions, offsets out of range."""
    broker = rows.client("broker-7-fetcher-0")
    for n in range(700):
        broker.fetch(n / 12, "replicated", 5, end=100, stable=5, replica_id=7, max_wait_ms=0, partitions=2_000)
        _last(rows, "offsets", replica_id=7)
    for at, offset, code in ((70, 0, 1), (71, 60, 0)):
        broker.fetch(at, "replicated", offset, error_code=code, replica_id=7)
        _last(rows, "offsets", replica_id=7)
    for n in range(60):
        broker.fetch(80 + n, "replicated", 100 * n, end=10**6, count=1, replica_id=7)
        _last(rows, "offsets", replica_id=7)


def brokers_of_old(rows: Rows) -> None:
    """What brokers ask each other in versions that are gone goes with them."""
    rows.client("1001").ask(0, ApiKey.LEADER_AND_ISR, api_version=0)
    rows.client("broker-8-fetcher-0").ask(0, ApiKey.FETCH, api_version=0, replica_id=8)
    rows.client("1002").ask(0, ApiKey.CONTROLLED_SHUTDOWN, api_version=0)


def failing_consumer(rows: Rows) -> None:
    """Fetches that fail, or are not answered, are no empty fetches."""
    consumer = rows.client("failing")
    for n in range(700):
        consumer.ask(n / 12, ApiKey.FETCH, replica_id=-1, max_wait_ms=0, error_codes=[74])
    for n in range(700):
        consumer.ask(60 + n / 12, ApiKey.FETCH, replica_id=-1, max_wait_ms=0, unanswered="the connection ended")
    for n in range(700):
        consumer.ask(120 + n / 12, ApiKey.LIST_GROUPS, max_wait_ms=0)


def reader_of_bad_batches(rows: Rows) -> None:
    """What is fetched is not this client's doing."""
    reader = rows.client("reader")
    for n in range(1_200):
        reader.fetch(n / 24, "bad", n, end=n + 1, count=1, size=6_000)
        stamp = moment(n + (7_200 if n % 2 else -7_200))
        _last(rows, "record_batches", magic=n % 2, max_timestamp=stamp)
        if n % 100 < 2:
            _last(rows, "record_batches", size=1_048_000, error_code=2 * (n % 100))
    for n in range(200):  # one partition has nearly all
        reader.fetch(60 + n, "skewed", n, 0 if n else 1, end=n, count=500)


def producer_with_other_clocks(rows: Rows) -> None:
    """Time stamps that the broker sets, or that are none; refused batches."""
    producer = rows.client("clocks")
    for n in range(10):
        producer.produce(n, "stamped-by-broker", timestamp_type="LogAppendTime", max_timestamp=moment(n + 7_200))
        producer.produce(n + 0.1, "stamped-by-broker", timestamp_type="LogAppendTime", max_timestamp=moment(n - 7_200))
        producer.produce(n + 0.2, "stamped-by-nobody", timestamp_type="CreateTime", max_timestamp=None)
    producer.produce(20, "replayed", max_timestamp=moment(20))
    for n in range(6):
        producer.produce(21 + n, "replayed", max_timestamp=moment(n - 7_200), error_code=7)
    producer.produce(30, "large", size=1_048_000, error_code=7)
    producer.produce(31, "large", size=1_048_000, count=1_000)
    for n in range(30):
        producer.produce(40 + n, "refused", codec="lz4", error_code=7)


def idempotent_producer(rows: Rows) -> None:
    """An idempotent producer without transactions, and transactions that ended, failed, or are the broker's."""
    producer = rows.client("idempotent")
    producer.produce(0, "facts", producer_id=5, producer_epoch=0)
    producer.produce(1, "facts", producer_id=6, producer_epoch=0, is_transactional=True, error_code=7)
    producer.produce(2, "facts", producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    producer.produce(3, "facts", producer_id=8, producer_epoch=0, is_transactional=True)
    producer.ask(4, ApiKey.END_TXN, producer_id=8, committed=True)
    producer.fetch(5, "facts", 0, end=1, count=1)
    _last(rows, "record_batches", producer_id=9, is_transactional=True)
    producer.ask(300, ApiKey.METADATA)


OTHER_ERRORS = (  # API, error code, kind of resource: past the thresholds, but not what the rules are about
    (ApiKey.FETCH, 10, "topic"),
    (ApiKey.FETCH, 18, "topic"),
    (ApiKey.FETCH, 19, "topic"),
    (ApiKey.FETCH, 20, "topic"),
    (ApiKey.FETCH, 45, "topic"),
    (ApiKey.DELETE_RECORDS, 1, "topic"),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 6, "topic"),
    (ApiKey.PRODUCE, 7, "topic"),
    (ApiKey.PRODUCE, 1, "topic"),
    (ApiKey.PRODUCE, 33, "none"),
    (ApiKey.SASL_AUTHENTICATE, 87, "none"),
    (ApiKey.METADATA, 3, "none"),
    (ApiKey.METADATA, 9, "topic"),
    (ApiKey.HEARTBEAT, 27, "group"),
    (ApiKey.END_TXN, 51, "transactional_id"),
)


def erring(rows: Rows) -> None:
    """Errors that other rules are about, or none."""
    for number, (api, code, kind) in enumerate(OTHER_ERRORS):
        client = rows.client(f"erring-{number}")
        for n in range(20):
            client.error(n * 3, api, code, f"resource-{number}", 0, kind=kind)


def slow_by_design(rows: Rows) -> None:
    """Requests that wait because they are meant to, or because a quota says so."""
    client = rows.client("slow")
    for n in range(120):
        client.ask(n * 6, ApiKey.FETCH, seconds=2, records=1)
        client.ask(n * 6 + 2.1, ApiKey.JOIN_GROUP, seconds=2)
        client.ask(n * 6 + 4.2, ApiKey.PRODUCE, seconds=1.5, throttle_time_ms=1)


def members(rows: Rows) -> None:
    """Groups in which much happens that is in order."""
    one, two = rows.client("member-1", "10.0.1.1"), rows.client("member-2", "10.0.1.2")
    shared: dict[str, Any] = {"protocol": "range", "protocols": ["range"], "subscribed_topics": ["a"]}
    for n, client in enumerate((one, two)):
        client.group(n, "join", "g", member_id=f"g-{n}", response_generation=2, group_instance_id=f"i-{n}", **shared)
        client.event(n + 0.5, 1, "assign", "g", member_id=f"g-{n}", generation=2, assignment=[f"a-{n}"], error_code=0)
        client.event(
            n + 0.6, 1, "assign", "g", member_id=f"g-{n}", generation=1, assignment=[f"a-{n}"] * (1 - n), error_code=0
        )
    for n in range(30):
        one.group(10 + n, "heartbeat", "g", api=ApiKey.HEARTBEAT, member_id="g-0", generation=2, error_code=27)
        two.group(10 + n, "commit", "g", api=ApiKey.OFFSET_COMMIT, member_id="g-1", generation=2, error_code=27)
    for n in range(30):
        one.group(50 + n, "sync", "g", api=ApiKey.SYNC_GROUP, member_id="g-0", generation=2, error_code=23)
    two.group(100, "leave", "g", api=ApiKey.LEAVE_GROUP, member_id="g-1", reason="the consumer is being closed")
    two.group(110, "join", "g", member_id="g-2", response_generation=3, group_instance_id="i-1", **shared)

    two.group(120, "leave", "h", api=ApiKey.LEAVE_GROUP, member_id="h-1", error_code=25)
    two.group(125, "join", "h", member_id="h-2", response_generation=1, **shared)
    for n, client in enumerate((one, two)):  # a group with nothing to assign
        client.event(130, 1, "assign", "empty", member_id=f"e-{n}", generation=1, assignment=[], error_code=0)
    one.event(131, 1, "sync", "g", member_id="g-0", generation=2, assignment=[], error_code=0)
    one.event(132, 1, "assign", "g", member_id="g-9", generation=2, assignment=[], error_code=27)
    for n, (topics, code) in enumerate(((["b"], 26), (["a", "c"], 0))):
        other = rows.client(f"member-{3 + n}")
        other.group(3, "join", "g", member_id=f"o-{n}", error_code=code, **{**shared, "subscribed_topics": topics})
        other.ask(200, ApiKey.METADATA)


def refused_committer(rows: Rows) -> None:
    """Commits of single records that the broker refuses move nothing on."""
    client = rows.client("refused")
    for n in range(150):
        client.commit(n / 4, "refused", "t", n)
        _last(rows, "offsets", error_code=27)


def creator(rows: Rows) -> None:
    """Topics that are there when another API, or no topic, was said to be missing, or that were there before."""
    client = rows.client("creator")
    client.ask(0, ApiKey.METADATA, described_topics=["deleted"])
    client.error(1, ApiKey.PRODUCE, 3, "made-1")
    client.error(1, ApiKey.METADATA, 3, "made-2", kind="none")
    client.error(1, ApiKey.METADATA, 3, "made-3", 0)
    client.error(1, ApiKey.METADATA, 17, "made-4")
    client.error(2, ApiKey.METADATA, 3, "deleted")
    client.ask(5, ApiKey.METADATA, described_topics=["made-1", "made-2", "made-3", "made-4"])


def nameless(rows: Rows) -> None:
    """Requests without a client id that have none to give: of a broker of 0.8, and responses whose request was not seen."""
    client = rows.client(None)
    client.ask(0, ApiKey.CONTROLLED_SHUTDOWN, api_version=0)
    client.ask(1, ApiKey.METADATA, api_key=None, api_name=None, api_version=None)


def worker_of_connect(rows: Rows) -> None:
    """A group that is no consumer's has nothing to commit, and one that reads little has no need yet."""
    worker = rows.client("worker")
    worker.group(0, "join", "connect", member_id="w", response_generation=1, protocol_type="connect")
    for n in range(120):
        worker.fetch(n, "config", n, end=n + 1, count=20)


def restarted(rows: Rows) -> None:
    """Short connections that only ask for metadata, and more of them than that got nowhere."""
    for n in range(118):
        rows.client("prober", closed="finished").ask(n / 2, ApiKey.METADATA)
    for n in range(40):
        rows.client("prober", closed="reset", closed_by="broker").ask(n / 4, ApiKey.API_VERSIONS)
    for n in range(60):
        pooled = rows.client("pool", closed="finished")
        pooled.ask(n / 2, ApiKey.LIST_OFFSETS)
        pooled.ask(n / 2 + 11, ApiKey.LIST_OFFSETS)
        rows.client("open", closed="end of capture").ask(715 + n / 60, ApiKey.LIST_OFFSETS)


def asking(rows: Rows) -> None:
    """Much of what costs little."""
    client = rows.client("asking")
    for n in range(200):
        client.ask(n / 4, ApiKey.DESCRIBE_CLUSTER)
        client.ask(n / 4, ApiKey.OFFSET_FETCH, group_id="g")


def careful(rows: Rows) -> None:
    """TLS 1.2, PLAIN inside TLS, SCRAM in the clear, and a port that nobody speaks Kafka to."""
    rows.client("tls", tls_version="TLS 1.2").ask(0, ApiKey.METADATA)
    rows.client("plain", tls_version="TLS 1.3", sasl_mechanism="PLAIN", user_name="u").ask(0, ApiKey.SASL_AUTHENTICATE)
    rows.client("scram", sasl_mechanism="SCRAM-SHA-256", user_name="u").ask(0, ApiKey.SASL_AUTHENTICATE)
    for _ in range(5):
        rows.client(None, not_kafka="http", broker_port=8080)


def unanswered(rows: Rows) -> None:
    """Requests that may go unanswered: that wait, that expect nothing, of a client that ended."""
    waiting = rows.client("waiting", closed="finished", closed_by="broker")
    for n in range(10):
        waiting.ask(n, ApiKey.FETCH, unanswered="the connection ended")
        waiting.ask(n, ApiKey.JOIN_GROUP, unanswered="the connection ended")
    ended = rows.client("ended", closed="finished", closed_by="client")
    cut = rows.client("cut", closed="end of capture")
    for n in range(10):
        ended.ask(n, ApiKey.METADATA, unanswered="the connection ended")
        cut.ask(n, ApiKey.METADATA, unanswered="the capture ended")


MEMBERS: tuple[Member, ...] = (
    follower,
    brokers_of_old,
    failing_consumer,
    reader_of_bad_batches,
    producer_with_other_clocks,
    idempotent_producer,
    erring,
    slow_by_design,
    members,
    refused_committer,
    creator,
    nameless,
    worker_of_connect,
    restarted,
    asking,
    careful,
    unanswered,
)
