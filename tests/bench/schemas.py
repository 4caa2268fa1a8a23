"""Values by their schemas against the libraries that read them, and records without schemas with and without the seam.

    pip install -e '.[schemas,sql]' && python -m tests.bench.schemas

Every line is one pair measured in turn in this run: CPU time a call, medians, and the spread of the rounds' ratios: 0.9 is nine
tenths of the library's own speed. Where no record names a schema, the seam costs the look at the first byte of each key and
value: at 1.0 nothing.
"""

import io
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import fastavro
from google.protobuf import json_format, message_factory

from kproxy.output.tables.records import record_columns
from kproxy.output.tables.rows import RecordsField
from kproxy.protocol.embedded.records_field import open_records
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.schemas.avro import AvroSchema
from kproxy.schemas.protobuf import ProtobufSchema
from kproxy.schemas.viewer import make_viewers
from tests.bench.measuring import paired
from tests.schemas.test_confluent import MONEY, ORDER, PROTO, order

COUNT = 500
PLAIN = {
    "type": "record",
    "name": "Plain",
    "fields": [
        {"name": f"f{number}", "type": kind}
        for number, kind in enumerate(
            ["long", "string", "double", ["null", "string"], {"type": "array", "items": "long"}] * 4
        )
    ],
}


def avro(schema: dict[str, Any], values: list[dict[str, Any]]) -> tuple[Callable[[], object], Callable[[], object]]:
    """Read all values with kproxy, and with fastavro."""
    parsed, written = fastavro.parse_schema(json.loads(json.dumps(schema))), []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        written.append(stream.getvalue())
    ours = AvroSchema(json.dumps(schema), {})
    return (
        lambda: [ours.read(data) for data in written],
        lambda: [fastavro.schemaless_reader(io.BytesIO(data), parsed, None) for data in written],
    )


def protobuf() -> tuple[Callable[[], object], Callable[[], object]]:
    """Read all messages with kproxy, and with protobuf's own way to JSON."""
    ours = ProtobufSchema(PROTO, {"money.proto": MONEY})
    message = message_factory.GetMessageClass(ours.file.message_types_by_name["Order"])
    chance, written = random.Random(1), []
    for _ in range(COUNT):
        sent = message(
            id=chance.randrange(2**63), email="a@b", hash=b"\xff\x00", state=1, gift=False, weights={"k": 1.5}
        )
        for number in range(chance.randrange(4)):
            sent.lines.add(sku=f"sku{number}", count=number)
        sent.price.currency = "EUR"
        sent.at.FromJsonString("2026-11-27T01:02:03.5Z")
        written.append(sent.SerializeToString())
    dictionary = partial(
        json_format.MessageToDict, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return (
        lambda: [ours.read(data, (1,)) for data in written],
        lambda: [dictionary(message.FromString(data)) for data in written],
    )


def table(value: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    """Make the columns of 10,000 records that name no schema, with viewers and without."""
    data = write_batches([RecordBatch([Record(key=b"key", value=value) for _ in range(10_000)])])
    field = RecordsField("produce", "orders", None, 0, 0, None, data)
    make = partial(record_columns, "c", "b:9092", 1, field)
    viewers = make_viewers()
    return lambda: make(field.batches(), viewers), lambda: make(field.batches())


def json_lines(value: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    """Make the JSON of 1,000 records that name no schema, with the viewer of schemas and without."""
    headers: list[tuple[str, bytes | None]] = [("trace-id", b"t1")]
    data = write_batches([RecordBatch([Record(key=b"key", value=value, headers=headers) for _ in range(1_000)])])
    make = partial(open_records, data, "orders", 0)
    with_schemas, plain = make_viewers(), Viewers()
    return lambda: make(viewers=with_schemas), lambda: make(viewers=plain)


def cases() -> Iterator[tuple[str, tuple[Callable[[], object], Callable[[], object]]]]:
    """Yield a title, kproxy's work, and that of the other side."""
    chance = random.Random(1)
    orders = [order(chance) for _ in range(COUNT)]
    flat = [{name: value for name, value in one.items() if name != "parent"} for one in orders]
    plain = [{f"f{at}": [5, "abc", 1.5, "DE", [1, 2, 3]][at % 5] for at in range(20)} for _ in range(COUNT)]
    yield "Avro, 20 plain fields", avro(PLAIN, plain)
    yield "Avro, logical types", avro({**ORDER, "fields": ORDER["fields"][:-1]}, flat)
    yield "Avro, recursive", avro(ORDER, orders)
    yield "Protobuf, nested", protobuf()
    yield "Table, no schema", table(b"\x01" * 100)
    yield "JSON, no schema", json_lines(b"an order of no schema" * 5)


def main() -> None:
    """Print a line for each pair."""
    for title, (ours, other) in cases():
        print(paired(ours, other).line(title, "the other side"), flush=True)


if __name__ == "__main__":
    main()
