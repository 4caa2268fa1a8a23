"""Tables of real captures against their manifest; what is counted of connections."""

import ipaddress
from collections import Counter
from typing import Any

import pyarrow
import pytest

from kproxy.output.tables import Table, Tables
from kproxy.output.tables.tables import MOST_CLIENT_IDS, MOST_KEYS, ConnectionTotals
from kproxy.protocol import ApiKey, message
from kproxy.protocol.structs import struct_types
from kproxy.session import BadFrame, Connection, Cut, Direction, Exchange, Frame, Gap, NotKafka, SaslToken, Session
from tests.support.conversation import broker, client, events_of
from tests.support.corpus import golden_exchanges
from tests.support.frames import batch, frame, record
from tests.support.sampled import sampled
from tests.support.tables import MANIFEST, broker_log, query, tables_of

ENTRIES = pytest.mark.parametrize("entry", sampled(MANIFEST, MANIFEST[::3]), ids=lambda entry: entry["file"])


@ENTRIES
def test_requests_by_api_and_version(entry: dict[str, Any]) -> None:
    rows = query(
        tables_of(entry["file"]),
        "select api_key || ' v' || api_version, count(*) from exchanges where request_at is not null group by all",
    )
    assert dict(rows) == entry.get("requests_by_api_and_version", entry.get("broker_log_requests_by_api_and_version"))


@ENTRIES
def test_records_produced_by_topic(entry: dict[str, Any]) -> None:
    acknowledged = "direction = 'produce' and coalesce(error_code, 0) = 0"
    rows = query(
        tables_of(entry["file"]),
        f"select topic, sum(count)::bigint from record_batches where {acknowledged} and not coalesce(is_control, false) "
        "and topic not like '\\_\\_%' escape '\\' group by all",
    )
    assert dict(rows) == entry.get("expect", {"records_produced_acked": {}})["records_produced_acked"]


@ENTRIES
def test_records_are_as_many_as_their_batches_say(entry: dict[str, Any]) -> None:
    columns = "connection_id, exchange, topic, topic_id, partition"
    of_batches, of_records = (
        query(tables_of(entry["file"]), f"select {columns}, {what}::bigint from {table} group by all order by all")
        for what, table in (
            ("sum(count)", "(from record_batches where error is null and not coalesce(is_control, false))"),
            ("count(*)", "records"),
        )
    )
    assert of_batches == of_records


@ENTRIES
def test_client_ids_and_software(entry: dict[str, Any]) -> None:
    tables = tables_of(entry["file"])
    known = entry.get("client_ids")
    if known is not None:
        rows = query(tables, "select client_id, count(*) from exchanges where client_id is not null group by all")
        assert dict(rows) == known
        software = "client_software_name || ' ' || client_software_version"
        rows = query(
            tables, f"select {software}, count(*) from connections where client_software_name is not null group by all"
        )
        assert set(dict(rows)) == set(entry["client_software"])


@pytest.mark.parametrize("name", ["01-java-produce-consume-group.pcap", "05-admin.pcap", "07-tls13-dsb.pcapng"])
def test_error_codes_are_the_ones_in_the_brokers_log(name: str) -> None:
    rows = query(
        tables_of(name),
        "select api_key || ':' || code, count(*) from exchanges, unnest(error_codes) as c(code) group by all",
    )
    entry = next(entry for entry in MANIFEST if entry["file"] == name)
    assert set(dict(rows)) == set(entry["error_codes_in_responses"])


# column -> what the broker's log calls it in the request, and in the response
LOGGED = {
    "member_id": ("memberId", "memberId"),
    "generation_id": ("generationId", None),
    "response_generation_id": (None, "generationId"),
    "protocol_type": ("protocolType", "protocolType"),
    "protocol_name": ("protocolName", "protocolName"),
    "leader_id": (None, "leader"),
    "session_timeout_ms": ("sessionTimeoutMs", None),
    "reason": ("reason", None),
    "producer_id": ("producerId", "producerId"),
    "producer_epoch": ("producerEpoch", "producerEpoch"),
    "committed": ("committed", None),
    "acks": ("acks", None),
    "timeout_ms": ("timeoutMs", None),
    "isolation_level": ("isolationLevel", None),
    "max_wait_ms": ("maxWaitMs", None),
    "min_bytes": ("minBytes", None),
    "max_bytes": ("maxBytes", None),
    "fetch_session_epoch": ("sessionEpoch", None),
    "throttle_time_ms": (None, "throttleTimeMs"),
}


@pytest.mark.parametrize(
    "name",
    ["01-java-produce-consume-group.pcap", "03-classic-rebalance-range.pcap", "04-transactions.pcap", "05-admin.pcap"],
)
def test_fields_are_what_the_broker_logged(name: str) -> None:
    columns = ", ".join(LOGGED)
    rows = query(tables_of(name), f"select client_id, correlation_id, api_key, group_id, {columns} from exchanges")
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[:3], []).append(row[3:])
    compared = 0
    for logged in broker_log(name):
        header = logged["requestHeader"]
        candidates = found[header["clientId"], header["correlationId"], header["requestApiKey"]]
        if len(candidates) != 1:
            continue  # clients with the same id began to count anew
        group_id, *values = candidates[0]
        request, response = logged["request"], logged["response"]
        if "groupId" in request:
            assert group_id == request["groupId"]
        for (column, (in_request, in_response)), value in zip(LOGGED.items(), values, strict=True):
            said = [body[name] for body, name in ((request, in_request), (response, in_response)) if name in body]
            if said:
                assert value in said, (header, column)
                compared += 1
    assert compared > 50


def test_generations_of_a_group() -> None:
    tables = tables_of("03-classic-rebalance-range.pcap")
    rows = query(
        tables,
        "select distinct response_generation_id from exchanges where api_name = 'JoinGroup' and error_codes = [] "
        "and group_id = 'g-range' order by 1",
    )
    expected = next(e for e in MANIFEST if e["file"].startswith("03"))["expect"]["groups"]["g-range"][
        "generations_seen"
    ]
    assert [generation for (generation,) in rows] == expected


# captures/README.md says what the workloads did
KNOWN: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    (
        "01-java-produce-consume-group.pcap",
        "select api_name, client_id from exchanges where list_contains(topics, 'orders') "
        "and api_name in ('Fetch', 'Produce') group by all order by all",
        [("Fetch", "orders-consumer"), ("Produce", "orders-producer")],
    ),
    (
        "01-java-produce-consume-group.pcap",
        "select distinct closed_by, closed from connections",
        [("client", "finished")],
    ),
    (
        "02-librdkafka-codecs-kip848.pcap",
        "select codec, sum(count)::bigint from record_batches where direction = 'produce' group by all order by all",
        [("gzip", 50), ("none", 50), ("snappy", 50), ("zstd", 50)],
    ),
    (
        "07-tls13-dsb.pcapng",
        "select distinct tls_version, tls_decrypted, not_kafka from connections",
        [("TLS 1.3", True, None)],
    ),
    ("08-old-broker-0.9-format0.pcap", 'select distinct "timestamp" is null from records', [(True,)]),
    (
        "08-old-broker-0.9-format0.pcap",
        "select distinct kind, topic from offsets where kind in ('commit', 'list') order by all",
        [("commit", "t09c"), ("list", "t09c")],
    ),
]


def test_what_the_workloads_did_is_in_the_tables() -> None:
    for capture, sql, rows in KNOWN:
        assert query(tables_of(capture), sql) == rows, sql


def test_every_api_and_version_fits_its_columns() -> None:
    """Kafka's own bytes of every message: Arrow refuses what does not fit the contract's types."""
    batches: list[tuple[Table, pyarrow.RecordBatch]] = []
    tables = Tables(lambda table, batch: batches.append((table, batch)), bodies=True, records=True)
    exchanges = 0
    for _, _, exchange in golden_exchanges():
        tables.add(exchange, "golden")
        exchanges += 1
    tables.flush()
    for _, written in batches:
        written.validate(full=True)
    rows = Counter[str]()
    for table, written in batches:
        rows[table.name] += written.num_rows
    assert rows["exchanges"] == exchanges
    assert rows["connections"] == 1


def test_what_is_not_shown_counts_for_its_connection_only() -> None:
    batches: list[tuple[str, pyarrow.RecordBatch]] = []
    tables = Tables(lambda table, batch: batches.append((table.name, batch)))
    exchange = next(golden_exchanges())[2]
    tables.add(exchange, "golden", shown=False)
    tables.ended(3, "broker")
    tables.ended(3, "client")
    tables.closed(3, "finished")
    tables.flush()
    ((name, batch),) = batches
    assert name == "connections"
    (row,) = batch.to_pylist()
    assert (row["requests"], row["responses"], row["closed_by"], row["closed"]) == (1, 1, "broker", "finished")


def test_equal_bodies_have_rows_of_their_own() -> None:
    topic_id = "pmO91lHxS7OjVeK-fFGfFA"
    text = f'{{"topics": [{{"topicId": "{topic_id}", "name": null}}], "allowAutoTopicCreation": true, '
    asked = message("MetadataRequest")
    data = asked.encode(12, asked.from_json(12, text + '"includeTopicAuthorizedOperations": false}'))
    written: list[dict[str, Any]] = []
    tables = Tables(lambda table, batch: written.extend(batch.to_pylist()) if table.name == "exchanges" else None)
    for at, client_id, names in ((1_000, "a", {}), (2_000, "b", {topic_id: "orders"}), (3_000, "c", {})):
        request = Frame(data, at, at, message=asked, body_version=12)
        connection = Connection(1, "10.0.0.1:1000", "10.0.0.2:9092")
        tables.add(Exchange(connection, at, 3, 12, at, client_id, request, topic_names=names), "trace.pcap")
    tables.flush()
    assert [(row["client_id"], row["correlation_id"], *row["topics"]) for row in written] == [
        ("a", 1_000, topic_id),
        ("b", 2_000, "orders"),
        ("c", 3_000, topic_id),
    ]


def test_what_is_not_here_of_an_exchange_and_what_comes_after_it() -> None:
    """Metadata v13 of librdkafka 2.16 with three bytes more, its mock cluster's answer with one; a response cut by a snaplen."""
    batches: list[pyarrow.RecordBatch] = []
    tables = Tables(lambda table, batch: batches.append(batch) if table.name == "exchanges" else None, bodies=True)
    asked = frame(bytes.fromhex("0003 000d 00000002 0007 72646b61666b61 00 00000000 010000"))
    told = frame(bytes.fromhex("00000002 00 00000000 01 00 ffffffff 01 0000 00 00"))
    for event in events_of(
        client >> asked, broker >> told, client >> asked, broker >> told[:14], broker.loses(len(told) - 14, Cut.SNAPLEN)
    ):
        tables.add(event, "odd")
    tables.flush()
    names = (
        "request_trailing_bytes",
        "response_trailing_bytes",
        "bodies",
        "undecoded",
        "request_size",
        "response_size",
    )
    assert [tuple(row[name] for name in names) for row in batches[0].to_pylist()] == [
        (3, 1, None, None, len(asked), len(told)),
        (3, None, "cut by the capture's snaplen", None, len(asked), len(told)),
    ]
    assert batches[0].to_pylist()[1]["response_json"] == '{"throttleTimeMs":0,"brokers":[]}'


def test_text_that_is_not_utf8_is_written() -> None:
    batches: list[pyarrow.RecordBatch] = []
    tables = Tables(lambda table, batch: batches.append(batch) if table.name == "exchanges" else None)
    session = Session(number=1, client="10.0.0.5:51234", broker="10.0.0.9:9092")
    frame = bytes.fromhex("0000000000030000000000070002fffe00000000")  # Metadata v0 of client "\xff\xfe"
    data = (len(frame) - 4).to_bytes(4, "big") + frame[4:]
    for event in session.receive(Direction.REQUEST, data, 5_000) + session.close(6_000):
        tables.add(event, "odd")
    tables.flush()
    (row,) = batches[0].to_pylist()
    assert (row["client_id"], row["api_name"], row["unanswered"]) == (
        "\ufffd\ufffd",
        "Metadata",
        "the capture ended before the response",
    )


SASL = "06-sasl-scram.pcap"


@ENTRIES
def test_there_is_a_row_a_connection_that_says_something(entry: dict[str, dict[str, int]]) -> None:
    tables = tables_of(str(entry["file"]))
    ((rows, ids),) = query(tables, "select count(*), count(distinct connection_id) from connections")
    assert rows == ids <= entry["transport"]["connections"]
    assert query(tables, "select 1 from exchanges anti join connections using (connection_id)") == []
    assert query(tables, "select sum(requests)::bigint from connections") == query(
        tables, "select count(*) from exchanges where request_at is not null"
    )
    assert query(tables, "select sum(request_bytes)::bigint, sum(response_bytes)::bigint from connections") == query(
        tables, "select sum(request_size)::bigint, sum(response_size)::bigint from exchanges"
    )


def test_the_user_is_the_principal_in_the_brokers_log() -> None:
    principals = {str(row["principal"]).removeprefix("User:") for row in broker_log(SASL)}
    rows = query(tables_of(SASL), "select distinct sasl_mechanism, user_name from connections")
    assert rows == [("SCRAM-SHA-256", principal) for principal in principals]


def test_addresses_are_addresses() -> None:
    connection = Connection(7, "[2001:db8::5]:51234", "10.0.0.9:9092")
    row = ConnectionTotals(Gap(connection, 5), "a.pcap").row(None)
    assert row[1:7] == (7, "a.pcap", "2001:db8::5", 51234, "10.0.0.9", 9092)
    ipaddress.ip_address(row[3])


def test_events_are_counted() -> None:
    connection = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    seen = ConnectionTotals(Gap(connection, 5), "a.pcap")
    seen.count(Gap(connection, 5, Direction.REQUEST, None, 10, 1))
    seen.count(Gap(connection, 6, Direction.REQUEST, 300, 1, 1))
    seen.count(BadFrame(connection, 7, Direction.REQUEST, "odd"))
    seen.count(SaslToken(connection, 8, Direction.REQUEST, 100))
    seen.count(NotKafka(connection, 9, "http"))
    assert (seen.gaps, seen.missing_bytes, seen.skipped_bytes, seen.bad_frames) == (2, 300, 11, 1)
    assert (seen.first_seen_at, seen.not_kafka) == (8, "http")


def test_client_ids_are_bounded() -> None:
    connection = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    seen = ConnectionTotals(Gap(connection, 5), "a.pcap")
    for number in range(100):
        seen.count_exchange(Exchange(connection, number, client_id=f"c{number}"))
    assert list(seen.client_ids) == [f"c{number}" for number in range(MOST_CLIENT_IDS)]


def test_the_id_is_that_of_the_bytes_and_not_of_the_run() -> None:
    first = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    again = Connection(99, "10.0.0.5:51234", "10.0.0.9:9092")
    later = Connection(1, "10.0.0.5:51234", "10.0.0.9:9092")
    one, two, three = (
        ConnectionTotals(Gap(c, at), "x").connection_id for c, at in ((first, 5), (again, 5), (later, 6))
    )
    assert one == two != three
    assert len(one) == 32


def test_what_brokers_offer_and_describe_is_what_they_logged() -> None:
    """Ranges of ApiVersions, topics of Metadata: those in the broker's own log of its responses."""
    offered, described = set(), set()
    for logged in broker_log("01-java-produce-consume-group.pcap"):
        response = logged["response"]
        if logged["requestHeader"]["requestApiKeyName"] == "API_VERSIONS":
            offered.add(frozenset(f"{k['apiKey']}:{k['minVersion']}-{k['maxVersion']}" for k in response["apiKeys"]))
        if logged["requestHeader"]["requestApiKeyName"] == "METADATA":
            described.add(frozenset(topic["name"] for topic in response["topics"] if not topic["errorCode"]))
    tables = tables_of("01-java-produce-consume-group.pcap")
    rows = query(tables, "select offered_versions from exchanges where api_name = 'ApiVersions'")
    assert {frozenset(ranges) for (ranges,) in rows} == offered
    rows = query(tables, "select described_topics from exchanges where api_name = 'Metadata'")
    assert {frozenset(topics) for (topics,) in rows} == described
    assert query(tables, "select count(*) from exchanges where offered_versions is not null and api_key != 18") == [
        (0,)
    ]


MINUTE = 60 * 10**9
WORKLOADS = [entry for entry in MANIFEST if entry.get("expect") and entry["file"][:2] not in ("04", "05", "10")]


@pytest.mark.parametrize("entry", WORKLOADS, ids=lambda entry: entry["file"])
def test_records_are_those_that_producers_and_consumers_counted(entry: dict[str, Any]) -> None:
    rows = query(
        tables_of(entry["file"]),
        "select direction, topic, sum(records - refused_records)::bigint from topic_activity "
        "where topic not like '\\_\\_%' escape '\\' group by all",
    )
    found = {(direction, topic): records for direction, topic, records in rows}
    expected = {("produce", topic): count for topic, count in entry["expect"]["records_produced_acked"].items()}
    for name, count in entry["expect"]["records_consumed_by_group_and_topic"].items():
        expected["fetch", name.split("/")[1]] = count
    assert found == expected


@ENTRIES
def test_sums_are_those_of_the_batches(entry: dict[str, Any]) -> None:
    tables = tables_of(entry["file"])
    columns = "connection_id, direction, topic, topic_id, partition, date_trunc('minute', b.seen_at)"
    of_batches = query(
        tables,
        f"select {columns}, count(distinct exchange), count(*), sum(greatest(coalesce(count, 0), 0))::bigint, "
        "sum(size)::bigint from record_batches b where error is null group by all order by all",
    )
    of_activity = query(
        tables,
        "select connection_id, direction, topic, topic_id, partition, minute, sum(exchanges)::bigint, "
        "sum(batches)::bigint, sum(records)::bigint, sum(bytes)::bigint from topic_activity group by all order by all",
    )
    assert of_activity == of_batches


VERSION = 9
CONNECTION = Connection(1, "10.0.0.1:1000", "10.0.0.2:9092")


def produce(at: int, partitions: int = 1) -> Exchange:
    """A Produce with acks=0 of two records for each partition."""
    layout, types = message("ProduceRequest"), struct_types("ProduceRequest")
    data = batch(record(None, b"v") + record(None, b"v", 1), 2)
    sent = [types["PartitionProduceData"](index=index, records=data) for index in range(partitions)]
    topic = types["TopicProduceData"](name="orders", partition_data=sent)
    body = layout.encode(VERSION, types["ProduceRequest"](topic_data=[topic]))
    frame = Frame(body, at, at, None, 0, layout, VERSION)
    return Exchange(CONNECTION, at, ApiKey.PRODUCE, VERSION, 1, "app", frame, None, expects_response=False)


def activity_of(*exchanges: Exchange) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    tables = Tables(lambda table, rows: found.extend(rows.to_pylist()) if table.name == "topic_activity" else None)
    for exchange in exchanges:
        tables.add(exchange, "made.pcap")
    tables.flush()
    return found


def test_a_minute_has_one_row_for_a_partition_and_begins_at_its_first_second() -> None:
    rows = activity_of(produce(61 * 10**9), produce(119 * 10**9), produce(120 * 10**9))
    counted = [(row["minute"].minute, row["minute"].second, row["exchanges"], row["records"]) for row in rows]
    assert counted == [(1, 0, 2, 4), (2, 0, 1, 2)]
    assert {(row["client_id"], row["topic"], row["direction"]) for row in rows} == {("app", "orders", "produce")}


def test_what_comes_late_for_a_minute_has_a_row_of_its_own() -> None:
    rows = activity_of(produce(0), produce(MINUTE), produce(1))
    assert sorted((row["minute"].minute, row["records"]) for row in rows) == [(0, 2), (0, 2), (1, 2)]


def test_memory_is_bounded_and_nothing_is_lost_where_it_is_full() -> None:
    rows = activity_of(produce(0, MOST_KEYS + 1), produce(1, MOST_KEYS))
    assert len(rows) == 2 * MOST_KEYS + 1  # the first is full and written, and what follows begins anew
    assert sum(row["records"] for row in rows) == 2 * (2 * MOST_KEYS + 1)
    assert {row["minute"].minute for row in rows} == {0}
