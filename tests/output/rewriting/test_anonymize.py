"""--anonymize over every message of Kafka's at every version: what stays is on a list, sizes and numbers are the same."""

import gzip
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.output.rewriting.anonymize import (
    CONNECT,
    KAFKA_NAMES,
    KAFKA_WORDS,
    USER_DATA,
    Anonymizer,
    Pseudonyms,
    ValuePseudonyms,
    rewrite_texts,
)
from kproxy.output.rewriting.rewriter import Context, has_records
from kproxy.protocol import Direction, message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.session import Exchange
from kproxy.session.session import Session
from tests.support.conversation import broker, client, events_of
from tests.support.corpus import payloads
from tests.support.frames import FRANZ_GO_API_VERSIONS, KAFKA_4_3_REFUSAL, request, response, string

GOLDEN = Path(__file__).parents[2] / "golden" / "messages.jsonl.gz"
NAMES = Pseudonyms(b"a key of the tests")
ANONYMIZER = Anonymizer(NAMES)

# JSON names of fields in which whatever stands there stays
STAYS = {
    *("groupState", "transactionState", "statesFilter", "stateFilters", "unknownStateFilters", "typesFilter"),
    *("groupType", "entityType", "principalType", "ownerPrincipalType", "tokenRequesterPrincipalType"),
    *("mechanism", "mechanisms", "feature", "requestedMetrics", "configurationKeys", "documentation"),
    *("clientSoftwareName", "clientSoftwareVersion"),
}
NAMES_OF_SETTINGS = {
    *("AlterConfigsRequest", "IncrementalAlterConfigsRequest", "DescribeConfigsResponse", "ApiVersionsResponse"),
    *("CreateTopicsRequest", "CreateTopicsResponse", "AlterClientQuotasRequest", "DescribeClientQuotasResponse"),
}


def uuids(name: str) -> set[str]:
    def walk(fields: tuple[Field, ...]) -> Iterator[str]:
        for field in fields:
            yield from walk(field.fields)
            if field.type == "uuid":
                yield field.json_name

    return {found for layout in facts().layouts(name) for found in walk(layout.fields)}


def texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, key)
    elif isinstance(value, str):
        yield key, value


def numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [numbers(inner) for inner in value]
    return None if isinstance(value, str) else value


def test_no_string_of_any_message_stays_that_is_not_known_to_be_harmless_and_all_numbers_stay() -> None:
    count = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            data, of = bytes.fromhex(row["hex"]), message(row["message"])
            if has_records(of.name):
                continue
            written = ANONYMIZER.body(of, row["version"], data, 0, Context())
            assert len(written) == len(data)
            ids = uuids(of.name)
            before, after = (json.loads(of.to_json(row["version"], body)) for body in (data, written))
            assert numbers(after) == numbers(before)
            for (key, old), (_, new) in zip(texts(before), texts(after), strict=True):
                if old == new and len(old) > 4 and key not in STAYS | ids and old not in KAFKA_NAMES | KAFKA_WORDS:
                    assert key in ("name", "key") and of.name in NAMES_OF_SETTINGS, (of.name, key, old)
                count += old != new
    assert count > 10_000


def test_one_topic_has_one_name_wherever_it_stands() -> None:
    # ConsumerProtocolSubscription v1: version, topics, user data (a sticky assignor's), owned partitions
    sticky = b"\0\0\0\1" + string("orders") + b"\0\0\0\1" + bytes(4)
    metadata = b"\0\1\0\0\0\1" + string("orders") + len(sticky).to_bytes(4, "big") + sticky
    metadata += b"\0\0\0\1" + string("orders") + b"\0\0\0\1" + bytes(4)
    body = string("g") + bytes(4) + string("") + string("consumer") + b"\0\0\0\1" + string("sticky")
    body += len(metadata).to_bytes(4, "big") + metadata
    written = ANONYMIZER.body(message("JoinGroupRequest"), 0, body, 0, Context())
    name = NAMES.text("orders").encode()
    assert written == body.replace(b"orders", name).replace(string("g"), string(NAMES.text("g")))
    assert written.count(name) == 3


def test_member_metadata_that_is_not_understood_is_zeros() -> None:
    body = string("") + bytes(4) + string("") + string("connect") + b"\0\0\0\1" + string("mine") + b"\0\0\0\4host"
    written = ANONYMIZER.body(message("JoinGroupRequest"), 0, body, 0, Context())
    assert written == body.replace(b"host", bytes(4)).replace(b"mine", NAMES.text("mine").encode())


def produce(records: list[Record], **facts: Any) -> bytes:
    data = write_batches([RecordBatch(records, **facts)])
    head = string(None) + b"\xff\xff" + bytes(4) + b"\0\0\0\1"
    body = head + string("orders") + b"\0\0\0\1" + bytes(4) + len(data).to_bytes(4, "big") + data
    written: Any = message("ProduceRequest")
    written = written.decode(3, ANONYMIZER.body(message("ProduceRequest"), 3, body, 0, Context()))
    assert written.topic_data[0].name == NAMES.text("orders")
    return bytes(written.topic_data[0].partition_data[0].records)


def test_records_keep_what_is_not_said_by_people() -> None:
    record = Record(
        offset=4, timestamp=77, key=b"customer-1", value=b"4111 1111", headers=[("trace", b"abc"), ("n", None)]
    )
    tombstone = Record(offset=5, timestamp=78, key=b"customer-1")
    (batch,) = read_records(produce([record, tombstone]))
    first, second = batch.records
    assert (first.offset, first.timestamp, second.offset, second.value) == (4, 77, 5, None)
    assert first.key == second.key == NAMES.data(b"customer-1")
    assert first.value == NAMES.data(b"4111 1111")
    assert first.headers == [(NAMES.text("trace"), NAMES.data(b"abc")), (NAMES.text("n"), None)]


def test_records_whose_schema_is_known_are_read_by_it() -> None:
    """Uncompressed, so that the field changes its size; the schema is named in a header, which stays."""
    fields = [
        {"name": "customer", "type": "string"},
        {"name": "total", "type": "long"},
        {"name": "paid", "type": "boolean"},
    ]
    parsed = fastavro.parse_schema({"type": "record", "name": "Order", "fields": fields})
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, {"customer": "Ada Lovelace", "total": 4_111, "paid": True})
    header = ("__value_schema_id", b"\0\0\0\0\7")
    registered = json.dumps({"subject": "s", "version": 1, "id": 7, "schema": json.dumps(parsed)}).encode()
    anonymizer = Anonymizer(NAMES)
    for topic, record in [
        ("_schemas", Record(value=registered)),
        (
            "orders",
            Record(key=b"\0\0\0\0\7" + stream.getvalue(), value=stream.getvalue(), headers=[header, ("h", b"x")]),
        ),
    ]:
        anonymizer.record(record, RecordBatch([record]), topic)
    assert record.headers == [header, (NAMES.text("h"), NAMES.data(b"x"))]
    assert record.key == header[1] + (record.value or b"")
    read: Any = fastavro.schemaless_reader(io.BytesIO(record.value or b""), parsed, None)
    assert (read["customer"], read["paid"]) == (NAMES.text("Ada Lovelace"), True)
    assert 1_000 <= read["total"] <= 9_999
    assert read["total"] != 4_111
    registry = Record(value=registered)
    anonymizer.record(registry, RecordBatch([registry]), "_schemas")
    assert registry.value == NAMES.data(registered)


@pytest.mark.parametrize(
    ("number", "least", "most"),
    [(0, 0, 9), (7, 0, 9), (42, 10, 99), (-4_111, -9_999, -1_000), (2**31 - 1, 10**9, 2**31 - 1)],
)
def test_whole_numbers_keep_their_digits(number: int, least: int, most: int) -> None:
    substitute = ValuePseudonyms(NAMES).whole(number, -(2**31), 2**31 - 1)
    assert least <= substitute <= most
    assert substitute == ValuePseudonyms(NAMES).whole(number, -(2**31), 2**31 - 1)


@pytest.mark.parametrize("number", [12.5, -0.001, 1e300, 0.1])
def test_other_numbers_keep_their_point(number: float) -> None:
    substitute = ValuePseudonyms(NAMES).real(number)
    assert Decimal(repr(substitute)).adjusted() <= Decimal(repr(number)).adjusted()
    assert (substitute < 0) == (number < 0)


def test_control_records_stay() -> None:
    commit = Record(key=b"\0\0\0\1", value=bytes(6))  # ControlRecordType.COMMIT, EndTxnMarker
    (batch,) = read_records(produce([commit], attributes=0x30))
    assert (batch.records[0].key, batch.records[0].value) == (b"\0\0\0\1", bytes(6))


def test_the_header_and_what_the_exchange_knows_are_replaced() -> None:
    session = Session(number=1, client="10.0.0.1:50000", broker="[::1]:9092")
    # Heartbeat v4: request header 2 with an unknown tag 9, "who"; group, generation, member, instance, no tags
    sent = request(12, 4, 3, b"\2g" + bytes(4) + b"\2m" + b"\0\0", client_id="billing", tags=b"\1\x09\3who")
    session.receive(Direction.REQUEST, sent, 1)
    (event,) = session.receive(Direction.RESPONSE, response(3, bytes(4) + b"\0\0" + b"\0", tags=b"\0"), 2)
    assert isinstance(event, Exchange)
    done = ANONYMIZER.exchange(event).exchange
    assert done.request is not None
    expected = sent[4:].replace(b"billing", NAMES.text("billing").encode()).replace(b"who", bytes(3))
    assert done.request.data[: done.request.body_start] == expected[: done.request.body_start]
    assert len(done.request.data) == len(expected)
    assert done.client_id == NAMES.text("billing")
    assert done.connection.client == NAMES.endpoint("10.0.0.1:50000")
    assert done.connection.broker == NAMES.endpoint("[::1]:9092")
    assert event.connection.client == "10.0.0.1:50000"


def test_nothing_unread_stays() -> None:
    session = Session(number=1, client="10.0.0.1:50000", broker="10.0.0.2:9092")
    session.receive(Direction.REQUEST, request(12, 0, 3, b"\x7f\xffsomething"), 1)
    (event,) = session.receive(Direction.RESPONSE, response(3, b"\0\0"), 2)
    assert isinstance(event, Exchange)
    done = ANONYMIZER.exchange(event)
    assert done.exchange.request is not None and event.request is not None
    assert done.exchange.request.data.endswith(bytes(11))
    assert len(done.exchange.request.data) == len(event.request.data)
    assert "11 bytes blanked" in done.request_note


def test_what_a_client_newer_than_the_facts_calls_itself_stays_and_the_rest_is_zeros() -> None:
    said = FRANZ_GO_API_VERSIONS.replace(bytes.fromhex("00ffffffff00"), b"\4abc\0\0")  # a cluster id
    (exchange,) = events_of(client >> said, broker >> KAFKA_4_3_REFUSAL)
    assert isinstance(exchange, Exchange)
    request = ANONYMIZER.exchange(exchange).exchange.request
    assert request is not None and request.unread
    assert request.data.endswith(b"\4kgo\x08v1.22.2" + bytes(6))
    assert b"franz" not in request.data and len(request.data) == len(said) - 4


def test_bytes_after_a_message_stay_where_they_are_too_few_for_a_name() -> None:
    """As librdkafka 2.16 ends Metadata for topics = null, and what could as well be a name."""
    for after, kept in ((b"\1\0\0", b"\1\0\0"), (b"payments", bytes(8))):
        asked = request(3, 9, 7, b"\2" + b"\7orders" + b"\0" + b"\0\0\0" + b"\0" + after, tags=b"\0")
        (exchange,) = events_of(client >> asked, broker >> response(7, bytes(4) + b"\1\0" + bytes(4) + b"\1\0\0\0\0\0"))
        assert isinstance(exchange, Exchange)
        assert exchange.request is not None and exchange.request.trailing == len(after)
        done = Anonymizer(Pseudonyms(b"key")).exchange(exchange).exchange
        assert done.request is not None
        assert done.request.data[-len(after) :] == kept
        assert b"orders" not in done.request.data and len(done.request.data) == len(exchange.request.data)
        assert len(done.request_body().topics) == 1


# StickyAssignorUserData v1: one topic "orders" with partitions 0 and 2; generation 5
VERSION_1 = bytes.fromhex("0000000100066f726465727300000002000000000000000200000005")


def test_topics_in_the_user_data_of_sticky_assignors_get_other_names_and_the_rest_stays() -> None:
    open_sticky = USER_DATA["ConsumerProtocolSubscription"][0]
    generation = b"\0\0\0\7"  # of the cooperative assignor
    for data in (VERSION_1, VERSION_1[:-4], generation):
        assert rewrite_texts(open_sticky, data, str.upper) == data.replace(b"orders", b"ORDERS")
    for data in (VERSION_1 + b"x", VERSION_1[:-5], b"\xff" * 30, b"\0\0\0\1\x7f\xff", b"abc"):
        assert rewrite_texts(open_sticky, data, str.upper) is None


NAME = Pseudonyms(b"a key of the tests").text
KINDS = {
    "streams-subscription-info": USER_DATA["ConsumerProtocolSubscription"][1],
    "streams-assignment-info": USER_DATA["ConsumerProtocolAssignment"][0],
    "connect-metadata": CONNECT["ConsumerProtocolSubscription"],
    "connect-assignment": CONNECT["ConsumerProtocolAssignment"],
}
NOT_TEXT = {"processId"}  # a UUID


def expected(value: Any, key: str = "") -> Any:
    """What Kafka's JSON of a payload becomes: names as --anonymize writes them elsewhere, ports and all numbers as they are."""
    if isinstance(value, dict):
        named = key in ("partitions", "assignment") and all(isinstance(inner, list) for inner in value.values())
        return {(NAME(name) if named else name): expected(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [expected(inner, key) for inner in value]
    if not isinstance(value, str) or key in NOT_TEXT:
        return value
    if key in ("userEndPoint", "key", "value"):  # of client tags; bytes, which are shown as hex
        return renamed(bytes.fromhex(value).decode()).encode().hex()
    return renamed(value)


def renamed(text: str) -> str:
    scheme, separator, rest = text.rpartition("://")
    host, colon, port = rest.partition(":")
    return f"{scheme}{separator}{NAME(host)}{colon}{port}" if colon else NAME(text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_payload_of_kafkas_has_other_names_and_the_same_numbers(kind: str) -> None:
    open_payload = KINDS[kind]
    changed = 0
    for line in payloads(kind):
        data = bytes.fromhex(line["hex"])
        written = rewrite_texts(open_payload, data, NAME)
        assert written is not None
        assert len(written) == len(data)
        assert open_payload(written) == expected(open_payload(data))
        changed += written != data
    assert changed


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_or_goes_on_is_refused(kind: str) -> None:
    for line in payloads(kind)[:20]:
        data = bytes.fromhex(line["hex"])
        for other in (data[:-1], data + b"\0"):
            assert rewrite_texts(KINDS[kind], other, NAME) is None


@given(st.text(min_size=1, max_size=300))
def test_a_pseudonym_has_as_many_bytes_and_is_the_same_each_time(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    names = Pseudonyms(b"a key of the tests")
    made = names.text(text)
    assert len(made.encode()) == len(text.encode())
    assert names.text(text) == made == Pseudonyms(b"a key of the tests").text(text)


def test_bytes_that_are_no_text_keep_their_size() -> None:
    assert len(NAMES.text("a\udcff\udc80").encode()) == 3


def test_another_key_gives_other_pseudonyms() -> None:
    assert NAMES.text("orders-consumer") != Pseudonyms(b"another").text("orders-consumer")
    assert NAMES.data(b"orders-consumer") != Pseudonyms(b"another").data(b"orders-consumer")


def test_short_names_stay_apart() -> None:
    names = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pseudonyms = Pseudonyms(b"a key of the tests")
    made = [pseudonyms.text(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(a != b for a, b in zip(names, made, strict=True))


@pytest.mark.parametrize("text", ["", "*", "User:*"])
def test_what_names_nobody_stays(text: str) -> None:
    assert NAMES.text(text) == text


def test_a_user_has_one_name_as_principal_and_by_itself() -> None:
    assert NAMES.text("User:alice") == f"User:{NAMES.text('alice')}"
    assert NAMES.text("alice") != "alice"


@pytest.mark.parametrize("address", ["10.0.0.5", "127.0.0.1", "192.168.100.255", "0.0.0.0"])
def test_an_ipv4_address_keeps_its_digits_in_packets_and_in_text(address: str) -> None:
    made = NAMES.text(address)
    assert made != address
    assert [len(part) for part in made.split(".")] == [len(part) for part in address.split(".")]
    assert str(NAMES.address(ip_address(address))) == made
    assert NAMES.endpoint(f"{address}:9092") == f"{made}:9092"
    assert NAMES.text(f"/{address}") == f"/{made}"
    assert not ip_address(made).is_multicast


def test_what_only_looks_like_an_address_is_a_name() -> None:
    assert len(NAMES.text("999.999.999.999")) == 15
    assert len(NAMES.text("1.2.3")) == 5


def test_an_ipv6_address_becomes_a_local_one() -> None:
    made = NAMES.endpoint("[2001:db8::1]:9093")
    host = IPv6Address(made.removesuffix(":9093").strip("[]"))
    assert host in ip_network("fd00::/8")


@given(st.binary(max_size=5_000))
def test_bytes_keep_their_size(data: bytes) -> None:
    assert len(NAMES.data(data)) == len(data)
