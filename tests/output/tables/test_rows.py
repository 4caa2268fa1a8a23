"""Rows: times, topics, what is found in bodies, rows of exchanges and record batches."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kproxy.output.bodies import find_errors
from kproxy.output.exchange_line import read_bodies
from kproxy.output.tables import body, layouts
from kproxy.output.tables.body import read_body
from kproxy.output.tables.contracts import EXCHANGES
from kproxy.output.tables.layouts import TOP_FIELDS, Form
from kproxy.output.tables.rows import EARLIEST_US, LATEST_US, instant, record_instant
from kproxy.protocol import message
from kproxy.protocol.facts import facts
from kproxy.session import Exchange, Frame
from tests.support import tables
from tests.support.corpus import START, golden_exchanges, golden_lines
from tests.support.tables import exchange_of, query, tables_of


def test_the_years_are_pythons() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    first, last = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert (first - epoch).days * 86_400_000_000 == EARLIEST_US
    assert (last - epoch) // timedelta(microseconds=1) == LATEST_US


def test_instants() -> None:
    for at, us in ((1_999, 1), (0, 0), (-1, -1), (2**63 - 1, 9_223_372_036_854_775), (-(2**63), None)):
        assert instant(at) == us
    first = -2_208_988_800_000  # 1900 in ms
    for at in (5, -2, first):
        assert record_instant(at) == at
    for at in (
        LATEST_US // 1000 + 1,
        1_800_000_000_000_000,
        2**63 - 1,
    ):  # the second: microseconds in place of milliseconds
        assert record_instant(at) == LATEST_US // 1000
    for at in (-1, -(2**63), first - 1, -62_135_596_800_000):
        assert record_instant(at) is None


ID, NO_ID = "pmO91lHxS7OjVeK-fFGfFA", "AAAAAAAAAAAAAAAAAAAAAA"  # the latter is Kafka's Uuid.ZERO_UUID as text


@pytest.mark.parametrize(
    ("name", "topic_id", "known", "found"),
    [
        ("orders", NO_ID, {}, ("orders", None)),
        ("", ID, {ID: "orders"}, ("orders", ID)),
        ("", ID, {}, (None, ID)),
        ("", NO_ID, {}, (None, None)),
        ("a\udcff", NO_ID, {}, ("a\ufffd", None)),
    ],
)
def test_topics(name: str, topic_id: str, known: dict[str, str], found: tuple[str | None, str | None]) -> None:
    said: dict[str, Any] = {"name": name} if name else {"topic_id": topic_id}
    api, version = ("ListOffsets", 8) if name else ("OffsetCommit", 10)
    exchange = exchange_of(api, version, {"topics": [{"partitions": [{}], **said}]}, None)
    exchange.topic_names = known
    (row,) = tables.rows_of(exchange, "offsets")
    assert (row["topic"], row["topic_id"]) == found


def row_of_json(name: str, version: int, json: str) -> dict[str, Any]:
    """The row of exchanges of a request or response with this body."""
    exchange = exchange_of(name.removesuffix("Request").removesuffix("Response"), version, {}, None)
    data = message(name).encode(version, message(name).from_json(version, json))
    frame = Frame(data, 0, 0, message=message(name), body_version=version)
    exchange.request, exchange.response = (frame, None) if name.endswith("Request") else (None, frame)
    (row,) = tables.rows_of(exchange, "exchanges")
    return row


def test_offset_fetch_of_many_groups() -> None:
    text = """{"groups": [{"groupId": "a", "memberId": null, "memberEpoch": -1, "topics":
        [{"name": "t", "partitionIndexes": [0, 1]}, {"name": "u", "partitionIndexes": [5]}]},
        {"groupId": "b", "memberId": null, "memberEpoch": -1, "topics": null}], "requireStable": false}"""
    row = row_of_json("OffsetFetchRequest", 9, text)
    assert (row["groups"], row["group_id"], row["topics"], row["partitions"]) == (["a", "b"], "a", ["t", "u"], 3)


def test_error_codes_at_every_depth() -> None:
    text = """{"throttleTimeMs": 0, "errorCode": 41, "resultsByTransaction": [{"transactionalId": "tx", "topicResults":
        [{"name": "t", "resultsByPartition": [{"partitionIndex": 0, "partitionErrorCode": 3},
        {"partitionIndex": 1, "partitionErrorCode": 0}, {"partitionIndex": 2, "partitionErrorCode": 3}]}]}]}"""
    row = row_of_json("AddPartitionsToTxnResponse", 4, text)
    assert (row["error_codes"], row["error_name"], row["topics"]) == ([41, 3], "NOT_CONTROLLER", ["t"])


def test_topic_ids_but_not_the_id_of_none() -> None:
    text = """{"topics": [{"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "name": "t"},
        {"topicId": "pmO91lHxS7OjVeK-fFGfFA", "name": null}],
        "allowAutoTopicCreation": true, "includeTopicAuthorizedOperations": false}"""
    assert row_of_json("MetadataRequest", 12, text)["topics"] == ["t", "pmO91lHxS7OjVeK-fFGfFA"]


def test_names_are_listed_once_however_many_there_are() -> None:
    names = [f"t{number % 700}" for number in range(1_400)]
    request = {"topics": [{"name": name} for name in names]}
    assert tables.rows_of(exchange_of("Metadata", 8, request, None), "exchanges")[0]["topics"] == names[:700]


def test_every_body_of_kafkas_is_read() -> None:
    assert read_body(None) == (None, None)
    assert read_body(Frame(b"abc", 0, 0)) == (None, "nothing is known about its layout")
    for request, response, exchange in golden_exchanges():
        for line, frame in ((request, exchange.request), (response, exchange.response)):
            found, why = read_body(frame)
            assert why is None
            assert found is not None
            assert (found.message.name.lower(), found.version) == (line["message"].lower(), line["version"])


def test_a_large_body_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "LARGEST", 8)
    found = [read_body(exchange.response) for _, _, exchange in golden_exchanges()]
    assert any(why is not None and "is not taken apart" in why for _, why in found)
    assert {one.message.name for one, _ in found if one is not None and one.message.name == "FetchResponse"}


NAMES = [column.name for column in EXCHANGES.columns]


def row_of(exchange: Exchange) -> dict[str, Any]:
    (row,) = tables.rows_of(exchange, "exchanges")
    return row


def test_columns_stand_in_the_order_of_the_contract() -> None:
    start = NAMES.index("member_id")
    assert NAMES[start : start + len(TOP_FIELDS)] == [column for column, _, _ in TOP_FIELDS]


def test_error_codes_are_those_in_the_json() -> None:
    with_errors = 0
    for _, _, exchange in golden_exchanges():
        expected = [error.code for error in find_errors(read_bodies(exchange).response)]
        row = row_of(exchange)
        assert set(row["error_codes"]) == set(expected), exchange
        with_errors += bool(expected)
    assert with_errors > 100


def test_fields_at_the_top_are_those_in_kafkas_json() -> None:
    """Where Kafka's JSON has the field, and says something, the column has it."""
    compared = 0
    pairs = (("generation_id", "generationId"), ("transactional_id", "transactionalId"), ("acks", "acks"),
             ("max_wait_ms", "maxWaitMs"), ("isolation_level", "isolationLevel"), ("group_id", "groupId"),
             ("session_timeout_ms", "sessionTimeoutMs"), ("replica_id", "replicaId"), ("timeout_ms", "timeoutMs"),
             ("timeout_ms", "transactionTimeoutMs"))  # fmt: skip
    for request, response, exchange in golden_exchanges():
        row = row_of(exchange)
        for column, name in pairs:
            if name in request["json"] and request["json"][name] not in ("", None):
                assert row[column] == request["json"][name], (request["api"], column)
                compared += 1
        if "throttleTimeMs" in response["json"]:
            assert row["throttle_time_ms"] == response["json"]["throttleTimeMs"]
    assert compared > 300


def test_times_sizes_and_names() -> None:
    request, response, exchange = next(golden_exchanges())
    row = row_of(exchange)
    assert row["request_at"] == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=START // 1000)
    assert row["latency_ms"] == 3.1
    assert [row[phase] for phase in ("request_in_proxy_ms", "broker_ms", "response_in_proxy_ms")] == [None] * 3
    assert exchange.request is not None and exchange.response is not None
    exchange.request.sent_at = exchange.request.started_at + 200_000
    exchange.response.sent_at = exchange.response.started_at + 1_500_000
    row = row_of(exchange)
    assert (row["request_in_proxy_ms"], row["response_in_proxy_ms"]) == (0.2, 1.5)
    assert row["broker_ms"] == (exchange.response.started_at - exchange.request.started_at - 200_000) / 1e6
    assert row["request_size"] == len(bytes.fromhex(request["frameHex"]))
    assert row["response_size"] == len(bytes.fromhex(response["frameHex"]))
    assert (row["api_key"], row["api_version"]) == (request["apiKey"], request["version"])


def topics_in(value: Any) -> set[str]:
    """Values of Kafka's names for topics, wherever they are in its JSON."""
    found: set[str] = set()
    if isinstance(value, dict):
        for name, inner in value.items():
            named = name == "topicId" and any(value.get(other) for other in ("name", "topic", "topicName"))
            if name in ("topic", "topicName", "topicId") and isinstance(inner, str) and not named:
                found.add(inner)
            found |= topics_in(inner)
    elif isinstance(value, list):
        for inner in value:
            found |= topics_in(inner)
    return found - {"", "A" * 22}


def test_topics_under_any_name() -> None:
    for _, _, exchange in golden_exchanges():
        if exchange.api_key == 3:
            continue
        bodies = read_bodies(exchange)
        for json in (bodies.request, bodies.response):
            named = topics_in(msgspec.json.decode(json or b"null"))
            known = {exchange.topic_names.get(name, name) for name in named}
            assert known <= set(row_of(exchange)["topics"]), (exchange.api_key, exchange.api_version)


def rows_of(data: bytes, appended: int = -1) -> list[dict[str, Any]]:
    """The rows of record_batches of a Produce request with these records."""
    sent, answered = {"index": 3, "records": data}, {"index": 3, "base_offset": appended}
    request = {"topic_data": [{"name": "orders", "partition_data": [sent]}]}
    response = {"responses": [{"name": "orders", "partition_responses": [answered]}]}
    return tables.rows_of(exchange_of("Produce", 8, request, response), "record_batches")


def test_offsets_that_the_broker_gave_are_the_ones_that_consumers_read() -> None:
    folder = tables_of("01-java-produce-consume-group.pcap")
    produced, fetched = (
        query(folder, f"select partition, {offset}, count from record_batches where direction = '{side}' order by all")
        for offset, side in (("appended_offset", "produce"), ("base_offset", "fetch"))
    )
    assert produced == fetched
    assert sum(row[2] for row in produced) == 200


def test_transactions_end_in_control_batches() -> None:
    rows = query(
        tables_of("04-transactions.pcap"),
        "select count(distinct (partition, base_offset)) from record_batches where is_control and direction = 'fetch'",
    )
    assert rows[0][0] >= 5  # 3 commits and 2 aborts


def test_headers_are_what_kafka_says_of_its_own_batches() -> None:
    compared = 0
    for line in golden_lines("records"):
        rows = rows_of(bytes.fromhex(line["hex"]))
        for row, batch in zip(rows, line.get("batches", ()), strict=False):
            for column, name in (("magic", "magic"), ("base_offset", "baseOffset"), ("producer_id", "producerId")):
                if name in batch and row["magic"] == 2:
                    assert row[column] == batch[name]
                    compared += 1
    assert compared > 10


def test_what_is_no_batch_has_a_row_with_its_error() -> None:
    (row,) = rows_of(b"\0" * 40)
    assert row["error"] is not None
    assert (row["size"], row["count"], row["topic"]) == (40, None, "orders")


def test_a_batch_that_is_cut_off_is_normal() -> None:
    whole = bytes.fromhex(next(line["hex"] for line in golden_lines("records") if rows_of(bytes.fromhex(line["hex"]))))
    assert len(rows_of(whole + whole[:30])) == len(rows_of(whole))


def test_offsets_go_no_further_than_int64() -> None:
    two = (
        bytes.fromhex(next(line["hex"] for line in golden_lines("records") if rows_of(bytes.fromhex(line["hex"])))) * 2
    )
    rows = rows_of(two, appended=2**63 - 1)
    assert rows[0]["appended_offset"] == 2**63 - 1
    assert rows[-1]["appended_offset"] is None


def test_a_top_field_is_the_first_path_that_the_version_has() -> None:
    columns = [column for column, _, _ in TOP_FIELDS]
    old, new = (
        {columns[field.column]: (field.attribute, field.inner, field.form) for field in fields}
        for fields in (
            layouts.top_fields("LeaveGroupRequest", 2, in_response=False),
            layouts.top_fields("LeaveGroupRequest", 5, in_response=False),
        )
    )
    assert old == {"member_id": ("member_id", "", Form.VALUE)}
    assert new == {
        "member_id": ("members", "member_id", Form.FIRST),
        "group_instance_id": ("members", "group_instance_id", Form.FIRST),
        "members": ("members", "", Form.COUNT),
        "reason": ("members", "reason", Form.FIRST),
    }


def test_every_message_at_every_version_has_its_fields() -> None:
    for key, api in facts().apis.items():
        assert key == api.key
        for name, in_response in ((f"{api.name}Request", False), (f"{api.name}Response", True)):
            for layout in facts().layouts(name):
                for version in layout.versions:
                    layouts.top_fields(name, version, in_response=in_response)
                    for program in message(name).programs(version):
                        body.Plan(program)
