"""kproxy schemas, and decode with schemas: from the traffic, a folder and a file; wrong usage."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from pyarrow import parquet

from kproxy.encryption.envelope import Envelope
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.schemas.settings import SchemaSources
from kproxy.spark.catalog import mark_of
from kproxy.spark.rows import FileRows, Options
from tests.bench.filters import PRODUCE, answered, asked
from tests.cli.conftest import Kproxy
from tests.support.built_captures import Conversation, pcap

SCHEMA = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "c", "type": "string"}]}
)
WRITTEN = b"\0\0\0\0\7" + b"\x04\x04DE"  # {"id": 2, "c": "DE"}: zigzag 2, then two bytes of text
STORED = {"subject": "orders-value", "version": 3, "id": 7, "schema": SCHEMA, "deleted": False}


def produced(topic: str, *values: bytes, **record: Any) -> bytes:
    records = write_batches([RecordBatch([Record(value=value, **record) for value in values])])
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    return asked(PRODUCE, acks=-1, timeout_ms=30_000, topic_data=topics)


def capture(path: Path, *requests: bytes) -> Path:
    conversation = Conversation().handshake()
    for request in requests:
        conversation.send(0, request).send(1, answered(PRODUCE))
    path.write_bytes(pcap(conversation.finish().packets))
    return path


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return capture(
        tmp_path / "orders.pcap", produced("orders", WRITTEN, b"\0\0\0\0\7\xff", b"\0\0\0\0\x09zz", b'{"a": 1}')
    )


def values(out: str) -> list[Any]:
    lines = map(json.loads, out.splitlines())
    return [record["value"] for line in lines for one in line["embedded"] for record in one["json"]["records"]]


def test_schemas_that_are_in_the_capture(kproxy: Kproxy, tmp_path: Path) -> None:
    both = capture(
        tmp_path / "both.pcap", produced("_schemas", json.dumps(STORED).encode()), produced("orders", WRITTEN)
    )
    status, out, _ = kproxy("schemas", "--format", "json", both)
    row = {"topic": "orders", "part": "value", "framing": "confluent", "id": 7, "subject": "orders-value", "version": 3}
    assert json.loads(out) == [{**row, "type": "AVRO", "records": 1, "problem": None}]
    assert status == 0


def test_an_anonymized_capture_is_read_by_the_same_schemas(kproxy: Kproxy, tmp_path: Path) -> None:
    secret = b"\0\0\0\0\7" + b"\x04\x18Ada Lovelace"  # 12 bytes of text
    (tmp_path / "7.avsc").write_text(SCHEMA)
    clear, hidden = capture(tmp_path / "clear.pcap", produced("orders", secret)), tmp_path / "hidden.pcapng"
    assert kproxy("decode", "--anonymize", "--schemas", tmp_path, "-o", hidden, clear)[0] == 0
    assert b"Ada" not in hidden.read_bytes()
    (read,) = values(kproxy("decode", "-q", "--records", "--format", "jsonl", "--schemas", tmp_path, hidden)[1])
    assert (read["schema"]["id"], "problem" in read["schema"]) == (7, False)
    assert 0 <= read["schema"]["value"]["id"] <= 9
    assert len(read["schema"]["value"]["c"]) == len("Ada Lovelace")


def test_a_saved_folder_reads_the_capture_elsewhere(kproxy: Kproxy, tmp_path: Path, orders: Path) -> None:
    both = capture(
        tmp_path / "both.pcap", produced("_schemas", json.dumps(STORED).encode()), produced("orders", WRITTEN)
    )
    kproxy("schemas", "--save", tmp_path / "saved", both)
    _, out, _ = kproxy("decode", "-q", "--records", "--format", "jsonl", "--schemas", tmp_path / "saved", orders)
    read, damaged, missing, other = values(out)
    known = {"framing": "confluent", "id": 7, "subject": "orders-value", "version": 3, "type": "AVRO"}
    assert read == {"schema": {**known, "value": {"id": 2, "c": "DE"}}, "size": 9}
    assert damaged["schema"] == {
        **known,
        "fits": False,
        "problem": "the payload does not fit the schema: it ends too early",
        "hex": "ff",
    }
    assert missing["schema"] == {
        "framing": "confluent",
        "id": 9,
        "problem": "no schema with this id is known",
        "hex": "7a7a",
    }
    assert other == {"json": {"a": 1}, "size": 8}


def test_the_schema_of_a_topic(kproxy: Kproxy, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(SCHEMA)
    plain = capture(tmp_path / "plain.pcap", produced("orders", WRITTEN[5:]))
    chosen = f"orders.value={tmp_path / 'order.avsc'}"
    _, out, _ = kproxy("decode", "-q", "--records", "--format", "jsonl", "--schema", chosen, plain)
    assert values(out)[0]["schema"]["value"] == {"id": 2, "c": "DE"}


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ('record.value.c == "DE"', 1),
        ('record.value.c == "DE" && record.value.id > 1', 1),
        ('record.value.c == "DE" && record.value.id > 2', 0),
        ('record.topic == "orders" && record.value == "7a7a"', 1),  # a schema that is missing: hex
        ("record.value.a == 1", 1),  # JSON without a schema
        ("record.key == null && apiName == 'Produce'", 1),
        ("apiName == 'Fetch' && record.value.a == 1", 0),
    ],
)
def test_a_condition_on_fields_of_records(
    kproxy: Kproxy, tmp_path: Path, orders: Path, condition: str, shown: int
) -> None:
    (tmp_path / "7.avsc").write_text(SCHEMA)
    words = ["decode", "-q", "--records", "--format", "jsonl", "--schemas", tmp_path, "--where", condition]
    _, out, _ = kproxy(*words, orders)
    assert out.count("\n") == shown


def test_a_condition_on_records_that_are_not_read(kproxy: Kproxy, orders: Path) -> None:
    _, out, err = kproxy("decode", "--where", "record.value.a == 1", orders)
    assert out == ""
    assert "records were not read: add --records" in err
    status, out, err = kproxy("decode", "--records", "--where", "record.value.a == 1", orders)
    assert (status, out.count("Produce")) == (0, 1)
    status, out, err = kproxy("decode", "--records", "--where", 'record.value.a > "1"', orders)
    assert (status, out) == (0, "") and "decimals are text: double(" in err


def test_ids_that_lead_out_of_the_folder_do_not(kproxy: Kproxy, tmp_path: Path) -> None:
    stored = [{**STORED, "id": "../../out"}, {**STORED, "id": ["x"]}, {**STORED, "id": 8, "schemaType": "XSD"}, STORED]
    records = produced("_schemas", *(json.dumps(one).encode() for one in stored))
    by_header = produced("orders", WRITTEN[5:], headers=[("content-type", b"avro/binary+../../out")])
    orders = capture(tmp_path / "all.pcap", records, by_header, produced("orders", WRITTEN, b"\0\0\0\0\x08x"))
    status, out, _ = kproxy("schemas", "--save", tmp_path / "a" / "b", orders)
    assert status == 4
    assert "schemas of type XSD cannot be read" in out
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [
        "7.avsc",
        "8.txt",
        "schema-1.avsc",
        "schemas.json",
    ]


def test_fields_named_like_a_secret_are_withheld(kproxy: Kproxy, tmp_path: Path) -> None:
    fields = [{"name": "user", "type": "string"}, {"name": "password", "type": "string"}]
    (tmp_path / "7.avsc").write_text(json.dumps({"type": "record", "name": "Login", "fields": fields}))
    login = capture(tmp_path / "login.pcap", produced("logins", b"\0\0\0\0\7" + b"\x06bob" + b"\x0chunter"))
    _, out, _ = kproxy("decode", "-q", "--records", "--format", "jsonl", "--schemas", tmp_path, login)
    assert values(out)[0]["schema"]["value"] == {"user": "bob", "password": "(withheld)"}


def test_what_is_missing_is_an_exit_status(kproxy: Kproxy, orders: Path) -> None:
    status, out, _ = kproxy("schemas", orders)
    assert status == 4
    assert out.splitlines()[1].split(maxsplit=5) == [
        "orders",
        "value",
        "confluent",
        "7",
        "2",
        "no schema with this id is known",
    ]


def test_a_file_that_is_not_there_is_wrong_usage(kproxy: Kproxy, orders: Path) -> None:
    status, out, err = kproxy("schemas", "gone.pcap", orders)
    assert (status, out, err) == (2, "", "kproxy: gone.pcap: no such file\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--schemas", "nowhere", "--records"], "nowhere is no folder of schemas"),
        (
            ["--schema", "orders=x.avsc", "--records"],
            "--schema orders=x.avsc: write TOPIC.value=FILE or TOPIC.key=FILE",
        ),
        (["--schema", "orders.value=x.avsc", "--records"], "x.avsc cannot be read"),
        (["--schema", "orders.value=x.xsd", "--records"], "x.xsd: a schema is a file .avsc, .proto, .json"),
        (["--registry", "localhost", "--records"], "'localhost' is no address of a registry"),
        (["--registry", "http://localhost"], "are for records: add --records"),
    ],
)
def test_wrong_usage(kproxy: Kproxy, orders: Path, words: list[str], said: str) -> None:
    status, _, err = kproxy("decode", "-v", *words, orders)
    assert status == 2
    assert said in err
    assert err.count("\n") == 1


def test_values_in_sql(kproxy: Kproxy, tmp_path: Path, orders: Path) -> None:
    (tmp_path / "7.avsc").write_text(SCHEMA)
    query = "SELECT value_json, value_schema_id, value_problem IS NOT NULL AS is_wrong, key_json FROM records"
    status, out, _ = kproxy("sql", "-q", "--format", "json", "--schemas", tmp_path, orders, query)
    assert status == 0
    assert [tuple(row.values()) for row in json.loads(out)] == [
        ('{"id": 2, "c": "DE"}', "7", False, None),
        (None, "7", True, None),
        (None, "9", True, None),
        ('{"a": 1}', None, False, None),
    ]
    options = Options(
        records=True, schemas=SchemaSources.of_options([], [tmp_path]).absolute()
    )  # as a task of Spark has them
    rows = [
        row
        for table, batch in FileRows(str(orders), "x", options).read()
        if table.name == "records"
        for row in batch.to_pylist()
    ]
    assert [row["value_json"] for row in rows] == [row["value_json"] for row in json.loads(out)]
    assert mark_of(options, None) != mark_of(Options(records=True), None)  # rows made without schemas are made again


def test_a_view_of_a_topic(kproxy: Kproxy, tmp_path: Path) -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = [{"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}}]
    fields += [{"name": "total", "type": ["null", money]}, {"name": "country", "type": "string"}]
    (tmp_path / "7.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    values = [
        b"\0\0\0\0\7" + b"\x00" + b"\x02\x04" + total.to_bytes(2, "big") + b"\x04" + country
        for total, country in ((9_999, b"DE"), (10_001, b"DE"), (20_000, b"FR"))
    ]
    path = capture(tmp_path / "orders.pcap", produced("orders", *values, b"\0\0\0\0\7zz", b"text"))
    options = ["sql", "-q", "--format", "json", "--schemas", tmp_path, "--view"]
    query = "SELECT client_id, total, country, timestamp_1 FROM orders WHERE country = 'DE' AND total > 100"
    status, out, _ = kproxy(*options, "orders", path, query)
    row = {"client_id": "app", "total": "100.01", "country": "DE", "timestamp_1": "1970-01-01T00:00:00Z"}
    assert (status, json.loads(out)) == (0, [row])
    odd = capture(tmp_path / "odd.pcap", produced("odd", b'{"a": 1, "A": 2, "b": {"x": 1, "X": 2}, "partition": null}'))
    [row] = json.loads(kproxy(*options, "odd", odd, "SELECT a, A_1, b, partition_1 FROM odd")[1])
    assert row == {"a": 1, "A_1": "2", "b": '{"x":1,"X":2}', "partition_1": None}
    for topic, why in (("records", "there is a table of this name"), ("payments", "there is no record of this topic")):
        status, _, err = kproxy(*options, topic, path, "SELECT 1")
        assert status == 2 and why in err


def test_a_poison_record_in_a_report(kproxy: Kproxy, tmp_path: Path, orders: Path) -> None:
    (tmp_path / "7.avsc").write_text(SCHEMA)
    status, out, _ = kproxy(
        *("report", "-q", "--format", "json", "--only", "poison_records", "--only", "schemas"),
        "--schemas",
        tmp_path,
        orders,
    )
    assert status == 0
    answers = {name: answer["rows"] for name, answer in json.loads(out)["analyses"].items()}
    [row] = answers["poison_records"]
    assert (row["topic"], row["writer"], row["schema_id"]) == ("orders", "app", "7")
    assert row["problem"] == "the payload does not fit the schema: it ends too early"
    assert [(one["schema_id"], one["produced"], one["unfit"]) for one in answers["schemas"]] == [
        ("7", 2, 1),
        ("9", 1, 0),
    ]
    status, _, err = kproxy("report", "-q", "--schemas", tmp_path, orders)
    assert (status, err) == (2, "kproxy: --registry, --schemas, --schema and --keys are for records: add --records\n")


CANARY = "Qx7canary"


@pytest.mark.slow
def test_no_output_has_contents_of_records_without_records(kproxy: Kproxy, tmp_path: Path) -> None:
    text = CANARY.encode()
    described = WRITTEN[:6] + bytes((2 * len(text),)) + text  # {"id": 2, "c": CANARY}
    values = described, b"\0\0\0\0\7\xff" + text, b"\0\0\0\0\x09" + text, b'{"%b": "%b"}' % (text, text), text
    stored = produced("_schemas", json.dumps(STORED).encode())
    path = capture(tmp_path / "a.pcap", stored, produced("orders", *values, key=text, headers=[("own", text)]))
    (tmp_path / "saved").mkdir()
    shown = ""
    for words in (
        ["decode", path],
        ["decode", "-v", path],
        ["decode", "--format", "jsonl", path],
        ["decode", "--format", "parquet", "-o", tmp_path / "tables", path],
        ["report", path],
        ["report", "--format", "json", path],
        ["report", "--format", "html", "-o", tmp_path / "report.html", path],
        ["sql", "--format", "json", path, "FROM exchanges"],
        ["sql", "--format", "json", path, "FROM record_batches"],
        ["schemas", path],
        ["schemas", "--format", "json", "--save", tmp_path / "saved", path],
    ):
        status, out, err = kproxy(*words)
        assert status in (0, 4), words
        shown += out + err
    tables = [row for file in (tmp_path / "tables").rglob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    shown += str(tables) + (tmp_path / "report.html").read_text()
    shown += "".join(file.read_text() for file in (tmp_path / "saved").iterdir())
    shown += str([batch.to_pylist() for _, batch in FileRows(str(path), "x", Options(bodies=True)).read()])
    assert len(tables) > 3
    assert "orders" in shown
    assert CANARY not in shown and text.hex() not in shown and base64.b64encode(text).decode()[:8] not in shown
    for words in (["decode", "-v", "--records", path], ["decode", "--records", "--format", "jsonl", path]):
        assert kproxy(*words)[1].count(CANARY) >= 4  # the search finds what is there


def test_files_of_protobuf_without_a_registry(kproxy: Kproxy, tmp_path: Path) -> None:
    """Raw payloads of a message that is not the first of its file, which imports another; protoc's own set of descriptors."""
    folder = tmp_path / "schemas"
    (folder / "shop").mkdir(parents=True)
    (folder / "shop" / "money.proto").write_text('syntax = "proto3"; package shop; message Money { int64 units = 1; }')
    bill = 'syntax = "proto3"; package shop; import "shop/money.proto"; message Other { } message Bill { Money total = 1; }'
    (folder / "12.proto").write_text(bill)
    words = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
    subprocess.run([*words, f"--descriptor_set_out={tmp_path / 'bill.desc'}", "12.proto"], check=True, cwd=folder)
    payload = b"\x0a\x02\x08\x07"  # total {units: 7}
    path = capture(tmp_path / "a.pcap", produced("raw", payload), produced("framed", b"\0\0\0\0\x0c\x02\x02" + payload))
    asked = ["decode", "-q", "--records", "--format", "jsonl", path, "--schemas", folder, "--schema"]
    for file in (tmp_path / "bill.desc#shop.Bill", tmp_path / "bill.desc#Bill", f"{folder / '12.proto'}#Bill"):
        status, out, err = kproxy(*asked, f"raw.value={file}")
        shown = [one["schema"].get("value", one) for one in values(out)]
        assert (status, shown) == (0, [{"total": {"units": 7}}, {"total": {"units": 7}}]), err
    status, out, _ = kproxy(*asked, f"raw.value={tmp_path / 'bill.desc'}#Nothing")
    assert "the schema has no message Nothing" in out
    saved = tmp_path / "saved"
    kproxy(
        "schemas", "--save", saved, "--schema", f"raw.value={tmp_path / 'bill.desc'}#Bill", "--schemas", folder, path
    )
    status, out, err = kproxy("decode", "-q", "--records", "--format", "jsonl", path, "--schemas", saved)
    assert [one["schema"]["value"] for one in values(out) if "schema" in one] == [{"total": {"units": 7}}], err


def test_encrypted_values_are_said_to_be_encrypted(kproxy: Kproxy, tmp_path: Path) -> None:
    (tmp_path / "seal").write_bytes(bytes(range(32)))
    keys = KeySetOptions(path=str(tmp_path / "keys"), key_file=str(tmp_path / "seal"))
    KeySet(keys).make("another")
    (tmp_path / "keys.yaml").write_text(json.dumps({"use": "file", "with": to_builtins(keys)}))
    shut = Envelope("kek", "orders", b"\1\0\0\0\1" + bytes(60)).encoded() + bytes(40)
    path = capture(tmp_path / "a.pcap", produced("orders", shut, shut), produced("plain", b"text"))
    where = "record.topic == 'orders' && record.value.x == 1"
    for words, problem in (
        ([], "the value takes the key 'kek': no key service was named (--keys FILE)"),
        (
            ["--keys", tmp_path / "keys.yaml"],
            f"the value takes the key 'kek': there is no key kek in {tmp_path / 'keys'}",
        ),
    ):
        assert (
            f"record.value is encrypted: {problem}" in kproxy("decode", "--records", *words, "--where", where, path)[2]
        )
        _, out, err = kproxy("schemas", *words, path)
        assert out == "No record that could be read names a schema.\n"
        assert err == f"kproxy: 2 encrypted keys or values were not looked into: {problem}\n"
        for topic, why in (
            ("orders", f"2 of its 2 values are encrypted, and no other is an object: {problem}"),
            ("plain", "no value of this topic could be read as an object; see kproxy help schemas"),
            ("nothing", "there is no record of this topic"),
        ):
            assert (
                kproxy("sql", "-q", *words, "--view", topic, path, "SELECT 1")[2] == f"kproxy: --view {topic}: {why}\n"
            )
