"""Scenes of clients of any kind: how they connect, who they say they are, which versions they speak."""

from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.scenes.rows import Rows, moment
from tests.support.scenes.scene import scene


@scene(
    "metadata_storm", client_id="loop", requests=150, requests_in_busiest_minute=150, connections=1, without_topics=150,
    response_bytes=15_000,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("loop")
    for number in range(150):
        client.ask(number * (0.3 if bad else 300), ApiKey.METADATA)


@scene(
    "metadata_storm",
    client_id="job",
    asks_for="ends of partitions",
    requests=280,
    requests_in_busiest_minute=240,
    partitions=2,
)
def _(tables: Rows, bad: bool) -> None:
    """It asks before each record; the healthy one has so many partitions, and asks for each of them rarely."""
    client = tables.client("job")
    for number in range(240):
        client.list_offset(number * 0.2, "orders", number % (2 if bad else 40), number)
    for number in range(40):  # later, for others
        client.list_offset(1000 + number, "orders", number, 0)


@scene("metadata_storm", client_id="loop", requests=200)
def _(tables: Rows, bad: bool) -> None:
    """A burst of a second, as of aiokafka after a topic was made again, is none."""
    client = tables.client("loop")
    for number in range(200):
        client.ask(number * (0.05 if bad else 0.005), ApiKey.METADATA)


@scene("metadata_storm", client_id="shop-1", requests=150)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one asks who leads, as its broker went away."""
    for number in (1, 2):
        ended = {"closed_by": "client" if bad else "broker", "closed_at": moment(10)}
        tables.client(f"shop-{number}", f"10.0.9.{number}", broker_address="10.0.9.90", **ended).produce(9.5, "orders")
    client = tables.client("shop-1", "10.0.9.1", broker_address="10.0.9.91")
    for number in range(150):
        client.ask(10.1 + number * 0.1, ApiKey.METADATA)


@scene(
    "connection_churn", client_id="job", connections=40, connections_in_busiest_minute=40, requests_per_connection=2.0,
    broker="10.0.0.9:9092",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    one = tables.client("job")
    for number in range(40):
        client = tables.client("job") if bad else one
        client.ask(number, ApiKey.API_VERSIONS)
        client.produce(number + 0.1, "jobs")


@scene("connection_churn", client_id="gallery", connections=39, requests_per_connection=1.0)
def _(tables: Rows, bad: bool) -> None:
    """It looks at one record with each connection; the healthy one resets it at an answer that is too large, and asks again."""
    for number in range(40):
        ended = {"closed": "reset", "closed_by": "client"} if number < 39 else {"closed": "end of capture"}
        client = tables.client("gallery", **ended)
        client.fetch(number, "images", 41, end=100, count=1, max_bytes=1 if bad else 100_000, response_size=400_000)


@scene(
    "reconnect_loop", client_id="app", connections=12, errors=12, closed_by_broker=12, user_name="bob", sasl_mechanism="PLAIN",
    error_name="UNKNOWN_SERVER_ERROR", connections_in_busiest_five_minutes=12,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    for number in range(12):
        client = tables.client("app", sasl_mechanism="PLAIN", user_name="bob", closed_by="broker")
        client.ask(number * 10, ApiKey.API_VERSIONS)
        if bad:
            client.error(number * 10 + 0.1, ApiKey.SASL_AUTHENTICATE, ErrorCode.UNKNOWN_SERVER_ERROR, kind="none")
        else:
            client.produce(number * 10 + 0.1, "jobs")


@scene("reconnect_loop", client_id="app", connections=10, errors=0, closed_by_broker=0, severity="notice")
def _(tables: Rows, bad: bool) -> None:
    for number in range(10):  # asks for versions and goes; the healthy one does so once an hour
        client = tables.client("app", closed_by="client")
        client.ask(number * (10 if bad else 3600), ApiKey.API_VERSIONS)


@scene("reconnect_loop", client_id="app", connections=20, errors=0, closed_by_broker=0)
def _(tables: Rows, bad: bool) -> None:
    for number in range(20):  # the healthy one leaves its connections open for a minute
        client = tables.client("app", closed_by="client", closed_at=moment(number + (1 if bad else 60)))
        client.ask(number, ApiKey.API_VERSIONS)


@scene("reconnect_loop", client_id="app", connections=59, errors=0, closed_by_broker=0)
def _(tables: Rows, bad: bool) -> None:
    for number in range(59):  # looks up Metadata and goes; the healthy one then works elsewhere, as jobs do
        client = tables.client("app", closed_by="client")
        client.ask(number / 6, ApiKey.METADATA)
        if not bad and number % 10 == 0:
            tables.client("app").produce(number / 6 + 0.1, "jobs")


@scene("reconnect_loop", client_id="app", connections=12, errors=0, closed_by_broker=12)
def _(tables: Rows, bad: bool) -> None:
    for number in range(12):  # not answered but hung up on; of the other, no packet of the broker was captured
        client = tables.client("app", closed_by="broker" if bad else "client")
        client.ask(number, ApiKey.PRODUCE, unanswered="closed")


@scene("reconnect_loop", client_id="once", connections=1, cause="clear text to a TLS listener", severity="notice")
def _(tables: Rows, bad: bool) -> None:
    of_tls = {"not_kafka": "tls", "tls_version": None if bad else "TLS 1.3"}
    client = tables.client("once", closed="end of capture", closed_by="broker", **of_tls)  # the client hangs
    client.ask(1, ApiKey.API_VERSIONS, unanswered="closed")


@scene("reconnect_loop", client_id="app", connections=3, cause="clear text to a TLS listener", severity="warning")
def _(tables: Rows, bad: bool) -> None:
    for number in range(
        3
    ):  # the other was refused by a broker that speaks TLS with it, so that what was said is unknown
        tls = None if bad else "TLS 1.3"
        client = tables.client("app", not_kafka="tls", tls_version=tls, closed_by="broker")
        client.ask(number, ApiKey.API_VERSIONS, unanswered="closed")


@scene("reconnect_loop", connections=2, cause="TLS to a listener of clear text", severity="notice")
def _(tables: Rows, bad: bool) -> None:
    """A client that tries again every 20 s; the other is a scan, once."""
    tables.client("app").ask(0, ApiKey.METADATA)
    for at in (10, 30) if bad else (10,):
        tables.client(None, "10.0.0.7", not_kafka="tls", first_seen_at=moment(at), last_seen_at=moment(at))


@scene("reconnect_loop", client_address="10.0.0.7", connections=3, cause="TLS to a listener of clear text")
def _(tables: Rows, bad: bool) -> None:
    tables.client("app", tls_version=None if bad else "TLS 1.3").ask(0, ApiKey.METADATA)
    for number in range(3):
        at = moment(number)
        tables.client(None, "10.0.0.7", not_kafka="tls", first_seen_at=at, last_seen_at=at)


@scene(
    "reconnect_loop", client_address="10.0.0.7", cause="TLS that the broker ends without an answer", severity="warning"
)
def _(tables: Rows, bad: bool) -> None:
    hello = {"not_kafka": "tls", "tls_alerts": [], "broker_port": 19092}
    for number in range(3):  # where nobody works; the other has a broker that speaks TLS, or did once
        at = moment(number)
        version = None if bad or number else "TLS 1.3"
        ended = {"closed_by": "broker", "closed_at": at, "first_seen_at": at, "last_seen_at": at}
        tables.client(None, "10.0.0.7", tls_version=version, **hello, **ended)


@scene("reconnect_loop", client_id="open", connections=3, cause="no login at a listener of SASL", closed_by_broker=3)
def _(tables: Rows, bad: bool) -> None:
    tables.client("app", sasl_mechanism="PLAIN" if bad else None).produce(0, "jobs")
    for number in range(3):  # the other: a broker that goes down
        client = tables.client("open", closed_by="broker")
        client.ask(number, ApiKey.API_VERSIONS)
        client.ask(number + 0.1, ApiKey.METADATA, unanswered="closed")


@scene("reconnect_loop", client_id="open", connections=3, cause="no login at a listener of SASL", closed_by_broker=3)
def _(tables: Rows, bad: bool) -> None:
    for number in range(3):  # nobody works there; the healthy one looked Metadata up
        client = tables.client("open", closed_by="broker")
        if not number:
            client.ask(0, ApiKey.API_VERSIONS if bad else ApiKey.METADATA)
        client.ask(number * 5 + 0.1, ApiKey.METADATA, unanswered="closed")


@scene("reconnect_loop", client_id="old", connections=3, cause="version that the broker refuses", api="Produce v1")
def _(tables: Rows, bad: bool) -> None:
    offered = ["0:0-13" if bad else "0:0-11"]  # brokers since 4.0, and before
    tables.client("app").ask(0, ApiKey.API_VERSIONS, offered_versions=offered)
    for number in range(3):
        old = tables.client("old", closed_by="broker")
        old.ask(number, ApiKey.PRODUCE, api_version=1, unanswered="closed")


@scene(
    "reconnect_loop", client_id="camera", connections=3, cause="request larger than the broker takes", api="Produce v9"
)
def _(tables: Rows, bad: bool) -> None:
    tables.client("thumbs").produce(0, "images")
    for number in range(3):  # the healthy one sends what others send, too
        camera = tables.client("camera", closed_by="broker")
        camera.ask(number, ApiKey.API_VERSIONS)
        camera.ask(number + 0.1, ApiKey.PRODUCE, request_size=300_000 if bad else 100, unanswered="closed")


@scene("reconnect_loop", client_id="late", connections=12, cause="ended before any answer", closed_by_broker=12)
def _(tables: Rows, bad: bool) -> None:
    tables.client("app").produce(0, "jobs")
    for number in range(12 if bad else 6):
        late = tables.client("late", closed_by="broker")
        late.ask(number, ApiKey.API_VERSIONS, unanswered="closed")


@scene("reconnect_loop", client_id="lost", connections=1, cause="listener of controllers", severity="notice")
def _(tables: Rows, bad: bool) -> None:
    offered = ["1:4-18", "18:0-4", "62:0-4", *([] if bad else ["3:0-13"])]
    tables.client("lost", closed="end of capture").ask(0, ApiKey.API_VERSIONS, offered_versions=offered)


@scene("reconnect_loop", client_id="far", connections=3, cause="waits less than the way takes", severity="notice")
def _(tables: Rows, bad: bool) -> None:
    for number in range(3):  # 1.2 s there and back, a second of patience; the other waits longer
        at = number * 10
        way = {"syn_at": moment(at), "closed_at": moment(at + (2.2 if bad else 2.7))}
        client = tables.client("far", closed_by="client", **way)
        client.ask(at + 1.2, ApiKey.API_VERSIONS)
        if number:
            client.ask(at + 1.3, ApiKey.METADATA)
    tables.client("far", closed="end of capture").ask(31.2, ApiKey.METADATA)


@scene("reconnect_loop", client_id="camera", connections=3, cause="nothing more arrives", severity="warning")
def _(tables: Rows, bad: bool) -> None:
    for number in range(4):  # the last one may still go on; the other has connections to spare
        tables.client("camera", closed="end of capture").ask(number * 6, ApiKey.API_VERSIONS)
    if not bad:
        tables.client("camera").produce(2, "images")


@scene("reconnect_loop", client_id="open", connections=10, cause="no login at a listener of SASL", closed_by_broker=10)
def _(tables: Rows, bad: bool) -> None:
    tables.client("app", closed_by="broker").produce(0, "jobs")
    for number in range(10):  # the broker was started anew since somebody worked there; the other still answers
        client = tables.client("open", closed_by="broker")
        client.ask(10 + number, ApiKey.API_VERSIONS)
        client.ask(10.1 + number, ApiKey.METADATA, **({"unanswered": "closed"} if bad else {}))


@scene("unreachable_brokers", client_id="app", lookups=10, lookups_in_busiest_half_minute=10, coordinators=5, seconds=9)
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("app")
    for second in range(10):
        if second % 2:
            client.ask(second, ApiKey.FIND_COORDINATOR, group_id="jobs")
        else:
            client.ask(second, ApiKey.METADATA, topics=["jobs"], described_topics=["jobs"])
    if not bad:  # at a broker whose answers were not captured
        tables.client("app", broker_address="10.0.0.8").ask(9, ApiKey.PRODUCE, unanswered="the capture ended")


@scene("unreachable_brokers", client_id="app", lookups=8, coordinators=0, topic="jobs")
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("app")
    for second in range(8):  # of a monitor, which asks for all topics, and every two minutes for some
        client.ask(second * (2 if bad else 120), ApiKey.METADATA, topics=["jobs"], described_topics=["jobs"])
        client.ask(second, ApiKey.METADATA, described_topics=["jobs"])


@scene(
    "broker_away", rows=2, client_id="shop-2", how="closed its connections", went_at=moment(10), needed_ms=8002,
    severity="warning", stopped="none", back_at=None, brokers_in_turn=1,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    for number in (1, 2):  # the other answers somebody one second after
        ended = {"closed_by": "broker", "closed_at": moment(10)}
        client = tables.client(f"shop-{number}", f"10.0.7.{number}", broker_address="10.0.7.90", **ended)
        client.produce(9.5, "orders", number)
        elsewhere = tables.client(
            f"shop-{number}", f"10.0.7.{number}", broker_address="10.0.7.91", closed="end of capture"
        )
        elsewhere.produce(9.5, "jobs", number)
        elsewhere.produce(10 + number * 4.001, "orders", number)
    if not bad:
        tables.client("shop-3", "10.0.7.3", broker_address="10.0.7.90").produce(11, "orders", 3)


@scene("broker_away", rows=2, client_id="shop-2", how="closed its connections", went_at=moment(10))
def _(tables: Rows, bad: bool) -> None:
    for number in (
        1,
        2,
    ):  # it had become slow before, and clients wait for answers; the others have written nothing since
        place = {"address": f"10.0.7.{number}"}
        ended = {"closed_by": "broker", "closed_at": moment(10), "broker_address": "10.0.7.90"}
        client = tables.client(f"shop-{number}", **place, **ended)
        client.produce(3, "orders", number)
        if bad:
            client.produce(6, "orders", number, error_code=None)
        elsewhere = tables.client(f"shop-{number}", **place, broker_address="10.0.7.91", closed="end of capture")
        elsewhere.produce(10 + number * 4, "orders", number)


@scene("broker_away", rows=2, client_id="shop-2", needed_ms=None, stopped="produce", severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """One works elsewhere after four seconds, the other never again; those of the healthy scene end it themselves."""
    for number in (1, 2):
        place = {"address": f"10.0.6.{number}"}
        ended = {"closed_by": "broker" if bad else "client", "closed_at": moment(10), "broker_address": "10.0.6.90"}
        tables.client(f"shop-{number}", **place, **ended).produce(9.5, "orders", number)
        elsewhere = tables.client(f"shop-{number}", **place, broker_address="10.0.6.91", closed="end of capture")
        elsewhere.produce(14, "orders", 1)
        elsewhere.produce(25, "jobs")


@scene("broker_away", rows=2, client_id="reader", how="stopped answering", went_at=moment(10), needed_ms=6001)
def _(tables: Rows, bad: bool) -> None:
    producer = tables.client("shop", "10.0.8.1", broker_address="10.0.8.90")
    reader = tables.client("reader", "10.0.8.2", broker_address="10.0.8.90")
    producer.produce(9, "orders")
    reader.fetch(9.998, "orders", 0, end=5)
    producer.produce(10.5, "orders") if not bad else producer.ask(10.5, ApiKey.PRODUCE, seconds=5.5, acks=-1)
    reader.ask(10.6, ApiKey.HEARTBEAT, seconds=5.4)
    producer.produce(15.9, "orders")
    reader.fetch(15.999, "orders", 0, end=5)


@scene("broker_away", client_id="alone", went_at=moment(10), stopped="produce", named_seconds=50, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """The only client is refused after its connection was closed; others name the broker. The other is refused elsewhere."""
    ended = {"closed_by": "broker", "closed_at": moment(10), "broker_address": "10.0.9.90"}
    tables.client("alone", "10.0.9.1", **ended).produce(9.5, "orders")
    elsewhere = tables.client("alone", "10.0.9.1", broker_address="10.0.9.91", closed="end of capture")
    for at in (1, 60):
        elsewhere.ask(at, ApiKey.METADATA, advertised=["1 10.0.9.90:9092", "1 10.0.9.90:9094", "2 10.0.9.91:9092"])
    for at in range(11, 60, 2):
        refused = {"closed_by": "broker", "closed_at": moment(at), "broker_address": "10.0.9.90"}
        refused["broker_port"] = 9092 if bad else 9094
        _attempts(tables, "refused", at, address="10.0.9.1", **refused)


@scene("anonymous_clients", client_id="rdkafka", requests=3, addresses=2, connections=2, shown_client_id="rdkafka")
def _(tables: Rows, bad: bool) -> None:
    name = "rdkafka" if bad else "rdkafka-of-orders"
    tables.client(name, "10.0.0.5").ask(0, ApiKey.METADATA)
    other = tables.client(name, "10.0.0.6")
    other.ask(1, ApiKey.METADATA)
    other.ask(2, ApiKey.METADATA)


@scene("anonymous_clients", rows=9, client_id=None, shown_client_id="empty")
def _(tables: Rows, bad: bool) -> None:
    defaults = (
        "sarama",
        "kafka-python-2.0.2",
        "kafka-python-producer-1",
        "consumer-1",
        "producer-12",
        "aiokafka-0.14.0",
        "",
    )
    for name in (None, *defaults, "kgo"):
        client = tables.client(name if bad else f"orders-{name or 'x'}-service")
        client.ask(0, ApiKey.METADATA)
        if name is None:
            client.ask(1, ApiKey.METADATA)


@scene(
    "no_connection", client_id="app", client_address="10.0.0.5", address="10.0.0.8:9092", how="no answer", node_id="2",
    advertised="10.0.0.8:9092", broker="10.0.0.9:9092", attempts=6, seconds=17, reached_by_others=0, severity="warning",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("app")
    # the other: the broker is down, so that the cluster no longer advertises it
    client.ask(0, ApiKey.METADATA, advertised=["1 10.0.0.9:9092", "2 10.0.0.8:9092"])
    client.ask(9, ApiKey.METADATA, advertised=["1 10.0.0.9:9092", *(["2 10.0.0.8:9092"] if bad else [])])
    _attempts(tables, "no answer", 1, 11, seconds=7, syns=4)


@scene("no_connection", client_id="app", how="no answer", node_id="2", attempts=6, seconds=22, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """A client that asks for Metadata once; the other asks again, and the broker is no longer there."""
    client = tables.client("app")
    client.ask(0, ApiKey.METADATA, advertised=["1 10.0.0.9:9092", "2 10.0.0.8:9092"])
    if not bad:
        client.ask(9, ApiKey.METADATA, advertised=["1 10.0.0.9:9092"])
    _attempts(tables, "no answer", 1, 16, seconds=7, syns=4)


@scene(
    "no_connection", client_id="app", how="refused", advertised="kafka-2.internal:9093", attempts=6, seconds=10,
    severity="notice",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    client = tables.client("app")
    client.produce(0, "jobs")
    client.ask(9, ApiKey.METADATA, advertised=["2 kafka-2.internal:9093"])
    # the other: of a host that talks to no broker, as ::1, which is tried before 127.0.0.1
    _attempts(tables, "refused", *range(0, 12, 2), address="10.0.0.5" if bad else "10.0.0.7", broker_port=9093)


@scene("no_connection", client_id="app", how="refused", advertised="none", reached_by_others=1, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    tables.client("app").ask(0, ApiKey.METADATA)
    # the other: a broker that restarts; others are served again after the last attempt
    times = {"first_seen_at": moment(0), "last_seen_at": moment(60)} if bad else {"first_seen_at": moment(40)}
    tables.client("shop", "10.0.0.6", **{"broker_address": "10.0.0.8", "last_seen_at": moment(60), **times}).produce(
        50, "jobs"
    )
    _attempts(tables, "refused", *range(10, 20, 2))


@scene("no_connection", client_id="app", how="no answer", attempts=6, reached_by_others=1, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """A firewall begins to drop a client's packets; the other: the whole network of the broker is away."""
    tables.client("app", broker_address="10.0.0.8").produce(0, "jobs")
    other = tables.client("shop", "10.0.0.6", broker_address="10.0.0.8")
    other.produce(1, "jobs")
    other.produce(20 if bad else 60, "jobs")
    _attempts(tables, "no answer", 10, 14, seconds=7, syns=4)


@scene("no_connection", client_id="app", how="dropped", attempts=3, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    tables.client("app").ask(9, ApiKey.METADATA, advertised=["2 10.0.0.8:9092"])
    for at in (1, 4, 8):  # the other: connections that nobody used for ten minutes
        closed = {"syn_ack_at": moment(at), "closed_at": moment(at + (0.01 if bad else 600)), "closed_by": "broker"}
        _attempts(tables, "dropped", at, **closed)


def _attempts(
    tables: Rows, how: str, *times: float, address: str = "10.0.0.5", syns: int = 1, seconds: float = 0, **columns: Any
) -> None:
    for at in times:
        began = {"first_seen_at": moment(at), "last_seen_at": moment(at + seconds), "syn_at": moment(at), "syns": syns}
        tables.client(None, address, **{"broker_address": "10.0.0.8", "not_kafka": how, **began, **columns})


@scene("not_kafka", client_address="10.0.0.7", not_kafka="http", connections=3, broker="10.0.0.9:9092")
def _(tables: Rows, bad: bool) -> None:
    tables.client("app").ask(0, ApiKey.METADATA)
    for _number in range(3):  # the healthy one is none of Kafka's business: nobody speaks Kafka to that port
        tables.client(None, "10.0.0.7", not_kafka="http", broker_port=9092 if bad else 443)


@scene("not_kafka", client_address="10.0.0.7", not_kafka="nothing", connections=3)
def _(tables: Rows, bad: bool) -> None:
    """It connects, waits for a minute, and the broker ends it; the healthy one waits for ten seconds."""
    tables.client("app", broker_address="10.0.0.8").ask(0, ApiKey.METADATA)
    for at in (0, 100, 200):
        _attempts(
            tables, "dropped", at, address="10.0.0.7", closed_by="broker", closed_at=moment(at + (60 if bad else 10))
        )


@scene("not_kafka", client_id="shop", not_kafka="http", spoken_by="broker", connections=1, severity="warning")
def _(tables: Rows, bad: bool) -> None:
    """A web server answers a client of Kafka; the healthy one's answer was not recognised, as where packets are missing."""
    client = tables.client("shop", not_kafka="http" if bad else "unknown")
    client.ask(0, ApiKey.API_VERSIONS, unanswered="the broker side answers in HTTP")


@scene(
    "noisy_neighbour", client_id="import", slowed=1, slowed_client_id="shop", api_name="Produce", calm_ms=2.0, loaded_ms=600.0,
    times=300, load_percent=99, seconds=10,
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    shop, bulk = tables.client("shop", "10.0.9.1"), tables.client("import", "10.0.9.2")
    for second in range(30):
        loaded = 10 <= second < 20
        slow = loaded if bad else second < 10  # the other broker is slow when nobody loads it
        late = slow and second % 10 > 0  # who waits for answers asks less often
        for part in range(1 if late else 15):
            shop.ask(second + part / 20, ApiKey.PRODUCE, seconds=0.6 if late else 0.002, request_size=200, acks=-1)
        if loaded:  # its answers are large, its requests are not
            bulk.ask(second + 0.1, ApiKey.METADATA, seconds=0.5, response_size=1_200_000)


@scene(
    "clock_jump",
    client_id="shop",
    direction="back",
    bound="at least",
    set_by_ms=5_900,
    went_at=moment(10),
    connections=1,
)
def _(tables: Rows, bad: bool) -> None:
    shop = tables.client("shop")
    for second in (9, 10, 4.1 if bad else 11):
        shop.ask(second, ApiKey.METADATA)


@scene(
    "clock_jump",
    client_id="shop",
    direction="forward",
    bound="at most",
    set_by_ms=60_500,
    went_at=moment(13),
    connections=1,
)
def _(tables: Rows, bad: bool) -> None:
    shop, reader = tables.client("shop", "10.0.8.3"), tables.client("reader", "10.0.8.4")
    for number in range(8):
        shop.ask(9.5 + number / 2, ApiKey.METADATA)
    reader.ask(12.9, ApiKey.FETCH, seconds=60.5, max_wait_ms=500)
    if not bad:  # a broker that stands still: one is asked, and does not answer
        shop.ask(13.4, ApiKey.HEARTBEAT, seconds=60)
    shop.ask(73.5, ApiKey.METADATA)


@scene(
    "half_open_connections", severity="warning", client_id="shop", broker="10.0.0.9:9092", how="no answer", connections=1,
    idle_seconds=140, waited_ms=30_000, api_name="Produce",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """The healthy one is told by the broker that it closes the connection, before it is used again."""
    closes = (
        {"closed_by": "client", "closed_at": moment(170)} if bad else {"closed_by": "broker", "closed_at": moment(120)}
    )
    client = tables.client("shop", **closes)
    client.ask(0, ApiKey.PRODUCE, seconds=0)
    client.ask(140, ApiKey.PRODUCE, unanswered="the client closed the connection before the response")
    tables.client("calm", "10.0.0.6").ask(150, ApiKey.PRODUCE)


@scene("half_open_connections", severity="notice", how="reset", idle_seconds=140, waited_ms=1)
def _(tables: Rows, bad: bool) -> None:
    """The healthy one was idle for seven seconds."""
    begins = 0 if bad else 133
    client = tables.client("shop", closed="reset", closed_by="broker", closed_at=moment(140.001))
    client.ask(begins, ApiKey.PRODUCE, seconds=0)
    client.ask(140, ApiKey.PRODUCE, unanswered="the broker reset the connection before the response")


@scene(
    "two_clusters", client_id="restarted", api_name="Produce", topic="orders", changes=3, requests=50,
    clusters="by turns A (10.0.0.9:9092) and by turns B (10.0.0.10:9092)",
)  # fmt: skip
def _(tables: Rows, bad: bool) -> None:
    """It is in one cluster, then in the other. Healthy ones move and come back, or are connected to both (a mirror), or rest at
    each change, as jobs of cron do, or may be two programs, as they have no client id of their own."""
    for number in range(4 if bad else 3):
        _works_in(tables, "restarted", number % 2, 30 * number)
    if bad:
        _works_in(tables, "restarted", 0, 1000)  # after a rest
    else:
        for number in range(4):
            _works_in(tables, "mirror", number % 2, 30 * number, every=4)
            _works_in(tables, "pykafka", number % 2, 30 * number)
            _works_in(tables, "nightly", number % 2, 100 * number)
        for number in range(4):  # a check of both clusters sends little
            _works_in(tables, "check", number % 2, 30 * number, requests=2)


def _works_in(tables: Rows, name: str, cluster: int, at: float, *, every: float = 1, requests: int = 10) -> None:
    client = tables.client(name, broker_address=f"10.0.0.{9 + cluster}")
    client.ask(at, ApiKey.METADATA, cluster_id="by turns " + "AB"[cluster])
    for number in range(requests):
        client.produce(at + 1 + number * every, "orders")
