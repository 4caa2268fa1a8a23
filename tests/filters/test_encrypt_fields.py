"""Fields of values encrypted on their way to brokers: read by other implementations of Avro, Protobuf, JSON and of the format."""

import io
import json
import random
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import fastavro
import pytest
from msgspec import structs

from kproxy.config.files import check_filters
from kproxy.config.structs import Cluster, Config, FilterUse
from kproxy.encryption.batches import CannotDecrypt, ValueReader
from kproxy.encryption.reading import OutputKeys
from kproxy.encryption.services import loading
from kproxy.filters.contract import Send
from kproxy.filters.encrypted_fields import RecordFields, field_paths
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records import Codec, Record, editing
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.schemas.fields import FieldEditor
from kproxy.schemas.formats import SchemaError
from kproxy.schemas.settings import SchemaSources
from kproxy.schemas.store import Collection, Schema, Schemas
from tests.filters.test_encrypt import Encrypting, errors_in, records_in, stored, values_in
from tests.support.encryption import GivenKeys, decrypted_field, decrypted_key, encrypted_field, parts_of

PERSON = {"type": "record", "name": "Person", "fields": [{"name": "email", "type": "string"}]}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "total", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "card", "type": "bytes"},
        {"name": "people", "type": {"type": "array", "items": PERSON}},
        {"name": "by_role", "type": {"type": "map", "values": "Person"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
        {"name": "either", "type": ["string", "long"]},
    ],
}
DATUM: dict[str, Any] = {
    "total": 7,
    "note": "a canary",
    "card": b"a canary in bytes",
    "people": [{"email": "a canary é"}, {"email": ""}],
    "by_role": {"it's": {"email": "another canary"}},
    "day": 3,
    "uid": "c0ffee00-0000-4000-8000-000000000000",
    "kind": "A",
    "either": 4,
}
PROTO = """syntax = "proto3"; message Order { int64 total = 1; string note = 2; bytes card = 3; repeated Person people = 4;
    map<string, string> tags = 5; } message Person { string email = 1; }"""
MESSAGE = b'\x08\x07\x12\x08a canary\x1a\x02\0\x01"\x0a\x0a\x08a canary*\x0d\x0a\x01k\x12\x08a canary'
FIELDS = ["$.note", "$.card", "$.people[*].email", "$.by_role.*.email"]
LIMITED = {"type": "object", "properties": {"note": {"type": "string", "maxLength": 20}, "card": {"type": "string"}}}


def rule(*fields: str, **others: Any) -> dict[str, Any]:
    return {"topics": ["orders*"], "key": "kek-{topic}", "fields": list(fields), **others}


def framed(schema_id: int, payload: bytes, indexes: bytes = b"") -> bytes:
    """As Confluent's serializers do."""
    return b"\0" + schema_id.to_bytes(4, "big") + indexes + payload


def avro(datum: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), datum)
    return framed(1, out.getvalue())


def avro_of(value: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(AVRO), None)


def known() -> Schemas:
    source = Collection("a registry")
    for schema_id, (text, kind) in enumerate(
        [(json.dumps(AVRO), "AVRO"), (PROTO, "PROTOBUF"), (json.dumps(LIMITED), "JSON")], 1
    ):
        source.add(Schema(text, kind, id=schema_id))
    return Schemas([source])


KNOWN = known()


class FieldBench(Encrypting):
    """The filter with rules that name fields, and a registry of three schemas."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *rules: dict[str, Any]) -> None:
        super().__init__(monkeypatch, rules=list(rules))
        self.runtime.given_schemas = KNOWN
        self.encrypt: Any = next(one for one in self.chain.filters if one.name == "encrypt")
        self.encrypt.on_start()

    def put(self, *values: bytes | None) -> list[bytes | None]:
        """What a broker gets."""
        outcome = self.produce("orders", records=stored(list(values)))
        assert isinstance(outcome, Send)
        return values_in(records_in(outcome.frame))

    def refusal(self, value: bytes) -> str:
        outcome = self.produce("orders", records=stored([value]))
        ((error, why),) = errors_in(outcome).values()
        assert error in (ErrorCode.POLICY_VIOLATION, ErrorCode.NOT_ENOUGH_REPLICAS)
        return why or ""

    def got(self, *values: bytes | None) -> list[bytes | None]:
        return values_in(self.fetch(stored(list(values))).records)

    @property
    def data_key(self) -> bytes:
        return next(iter(self.service.plain.values()))


def test_the_broker_gets_avro_with_envelopes_in_its_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FieldBench(monkeypatch, rule(*FIELDS))
    bare = {**DATUM, "note": None, "people": [], "by_role": {}}
    values = [avro(DATUM), None, avro(bare)]
    written = bench.put(*values)
    assert b"canary" not in b"".join(value or b"" for value in written)
    assert written[1] is None
    datum, second = avro_of(written[0] or b""), avro_of(written[2] or b"")
    assert {name: datum[name] for name in ("total", "day", "uid", "kind", "either")} == {
        name: avro_of(values[0] or b"")[name] for name in ("total", "day", "uid", "kind", "either")
    }
    texts = {
        "$['note']": datum["note"],
        "$['people'][0]['email']": datum["people"][0]["email"],
        "$['people'][1]['email']": datum["people"][1]["email"],
        "$['by_role']['it\\'s']['email']": datum["by_role"]["it's"]["email"],
    }
    opened = [decrypted_field(text.encode(), bench.data_key, b"k", path).decode() for path, text in texts.items()]
    assert opened == ["a canary", "a canary é", "", "another canary"]
    assert decrypted_field(datum["card"], bench.data_key, b"k", "$['card']", is_text=False) == DATUM["card"]
    assert (second["note"], second["people"]) == (None, [])
    nonces = [parts_of(b64decode(text))["nonce"] for text in texts.values()]
    assert len(set(nonces)) == len(nonces)
    assert bench.got(*written) == values
    assert bench.service.calls == [("new", "kek-orders")]
    assert bench.counted() == {}


def test_the_broker_gets_protobuf_and_json_with_envelopes_in_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FieldBench(monkeypatch, rule("$.note", "$.card", "$.people[0].email", "$.tags.*"))
    values = [
        framed(2, MESSAGE, b"\0"),
        b'\xef\xbb\xbf {"total": 7.0e0, "note":"a canary \\u00e9", "note": null, "tags": {"k":"a canary"}}',
    ]
    first, second = (value or b"" for value in bench.put(*values))
    assert b"canary" not in first + second
    envelope_size = len(second[second.index(b"w0tQ") :].split(b'"')[0])
    assert first[6:10] == b"\x08\x07\x12" + bytes([envelope_size - 4 & 0x7F | 0x80])  # of a text of 8 bytes, not of 9
    document = json.loads(second)
    assert second.startswith(b'\xef\xbb\xbf {"total": 7.0e0, "note":"w0tQRQED')
    assert second.count(b'"note": null') == 1
    tag = decrypted_field(document["tags"]["k"].encode(), bench.data_key, b"k", "$['tags']['k']")
    assert tag == b"a canary"
    again = bench.got(first, second)
    assert again == [values[0], values[1].replace(b"\\u00e9", "é".encode())]


def test_what_cannot_be_encrypted_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of other types, paths that lead nowhere, values that nothing describes: no plain text slips through."""
    limits = "limits the field $.note"
    types = {"total": "long", "day": "date", "uid": "uuid", "kind": "enum", "people": "array", "by_role": "map"}
    cases = [(f"$.{name}", avro(DATUM), f"the field $.{name} is of the type {kind}:") for name, kind in types.items()]
    cases += [
        ("$.either", avro(DATUM), "the field $.either is of the type long:"),
        ("$.nothing", avro(DATUM), "the schema has no field $.nothing"),
        ("$.total", framed(2, MESSAGE, b"\0"), "the field $.total is of the type int64:"),
        ("$.people", framed(2, MESSAGE, b"\0"), "the field $.people is of the type repeated:"),
        ("$.none", framed(2, MESSAGE, b"\0"), "the schema has no field $.none"),
        ("$.note", b'{"note":["a canary"]}', "the field $.note is of the type array:"),
        ("$.*", b'{"note":1}', "the field $.* is of the type number:"),
        ("$.note", b'{"note":"a canary"', "the value is no JSON, and names no schema"),
        ("$.note", b'"a canary"', "the value is no JSON, and names no schema"),
        ("$.note", framed(9, b"a canary"), "no source has the schema of the value"),
        ("$.note", framed(1, b"a canary"), "the value does not fit its schema"),
        ("$.note", framed(2, b"\x12\xff", b"\0"), "the value does not fit its schema"),
        ("$.note", framed(3, b'{"note":"a canary"}'), limits),
    ]
    for path, value, sentence in cases:
        said = FieldBench(monkeypatch, rule(path)).refusal(value)
        assert sentence in said and "canary" not in said, path
    passing = FieldBench(monkeypatch, rule("$.note", other_values="pass"))
    assert passing.put(b"no JSON", framed(9, b"x")) == [b"no JSON", framed(9, b"x")]
    assert passing.counted() == {("passed", "no field"): 2}
    assert limits in passing.refusal(framed(3, b'{"note":"a canary"}'))
    assert passing.put(framed(3, b'{"card":"x"}')) == [framed(3, b'{"card":"x"}')]


def test_a_schema_that_a_registry_has_to_be_asked_for_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FieldBench(monkeypatch, rule("$.note"))
    (written,) = bench.put(avro(DATUM))
    registry = Collection("a registry", is_asked=True)
    bench.encrypt._schemas = Schemas([registry])
    bench.encrypt.fields.clear()
    bench.encrypt.options = structs.replace(bench.encrypt.options, wait=0.1)
    assert bench.refusal(avro(DATUM)) == "the schema registry has not answered in time"
    assert bench.fetch(stored([written])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bench.got(b'{"plain":1}') == [b'{"plain":1}']
    registry.is_asked, registry.fault = False, "it is away"
    assert "it is away" in bench.refusal(avro(DATUM))
    assert bench.fetch(stored([written])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    registry.fault = None
    assert bench.refusal(avro(DATUM)) == "no source has the schema of the value"
    assert bench.fetch(stored([written])).error_code == ErrorCode.CORRUPT_MESSAGE
    registry.add(Schema(json.dumps(AVRO), id=1))
    assert bench.got(written) == [avro(DATUM)]


def test_each_changed_bit_of_a_field_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FieldBench(monkeypatch, rule("$.note", "$.card"))
    (text,) = bench.put(b'{"note":"a canary"}')
    (data,) = bench.put(avro({**DATUM, "note": None}))
    assert text is not None and data is not None
    fields = RecordFields(KNOWN, "orders", ("$.note", "$.card"), passes=False)
    reader = ValueReader(OutputKeys(bench.service), {"orders"})
    reader.begin()
    read = fields.decrypting(reader, lambda: None)
    start = data.index(b"\xc3KPE")
    end = start + len(parts_of(data[start:])["envelope"]) + 28 + len(DATUM["card"])
    assert (read(b"k", text, []), read(b"k", data, [])) == (b'{"note":"a canary"}', avro({**DATUM, "note": None}))
    for value, first, last in ((text, 9, len(text) - 2), (data, start, end)):
        for at in range(first, last):
            for bit in range(8):
                changed = value[:at] + bytes([value[at] ^ 1 << bit]) + value[at + 1 :]
                reader.begin()  # each is a batch of its own: more than MOST_DATA_KEYS in one would be read later
                with pytest.raises(CannotDecrypt):
                    read(b"k", changed, [])


# The paths of a rule, values that they do not fit, and values that have nothing to hide at them
SHAPES: list[tuple[list[str], list[str], list[str]]] = [
    (
        ["$.a.b"],
        ['{"a":"X"}', '{"a":["X"]}', '{"a":[{"b":"X"}]}', '{"a":7}', '{"a":true}', '{"a":""}', '{"a":{"b":{"c":"X"}}}'],
        ['{"a":{}}', '{"a":{"c":1}}', '{"a":null}', '{"a":[ ]}', '{"c":1}', '{"a":{"b":null}}', "{}", "[]"],
    ),
    (["$.a.b"], ['[{"a":{"b":"X"}}]', '{"a":{},"a":"X"}', '{"a":{"b":"X"},"\\u0061":"X"}', '{"a":{"b":7}}'], []),
    (["$.a[0]"], ['{"a":{"0":"X"}}', '{"a":"X"}', '{"a":[["X"]]}', '{"a":[{"b":"X"}]}'], ['{"a":[]}', '{"a":[null]}']),
    (["$.a[*].b"], ['{"a":["X"]}', '{"a":{"b":"X"}}', '{"a":[[{"b":"X"}]]}', '{"a":[{},7]}'], ['{"a":[{},null]}']),
    (["$.*.b", "$.c[1].d"], ['{"c":"X"}', '{"a":NaN}', '{"c":[{"d":1},"X"]}'], ['{"c":[7]}', '{"c":null}']),
]


@pytest.mark.parametrize("passes", [False, True])
def test_a_field_in_another_shape_is_never_written_plain(monkeypatch: pytest.MonkeyPatch, passes: bool) -> None:
    """Not even where other values pass. What was written plain is read as it is."""
    for paths, others, nothing in SHAPES:
        bench = FieldBench(monkeypatch, rule(*paths, other_values="pass" if passes else "fail"))
        for text in others:
            value = text.replace("X", "a canary").encode()
            said = bench.refusal(value)
            assert "is of the type" in said and "canary" not in said, (paths, text)
            assert bench.got(value) == [value]
        values = [text.encode() for text in nothing]
        assert bench.put(*values) == values
    fits = ['{"a":{"b":"X"}}', '{"a":[{"b":"X"}, {"b":"X"}]}', '{"\\u0061":{"x":"y"},"a":{"b":"X"}}']
    for paths, text in zip((["$.a.b"], ["$.a[*].b", "$.a.b"], ["$.a.b"]), fits, strict=True):
        (written,) = FieldBench(monkeypatch, rule(*paths)).put(text.replace("X", "a canary").encode())
        assert b"canary" not in (written or b"") and b"w0tQRQED" in (written or b"")


@pytest.mark.parametrize("passes", [False, True])
def test_a_schema_in_which_a_path_cannot_go_on_is_refused(monkeypatch: pytest.MonkeyPatch, passes: bool) -> None:
    person = {"type": "record", "name": "P", "fields": [{"name": "email", "type": "string"}]}
    union = {"type": "record", "name": "O", "fields": [{"name": "people", "type": ["null", person, "string"]}]}
    for path, schema, message, kind in [
        ("$.people.email", union, "a canary", "string"),
        ("$.people.email", AVRO, DATUM, "array"),
        ("$.by_role[0].email", AVRO, DATUM, "map"),
        ("$.note.text", AVRO, DATUM, "string"),
        ("$.people.email", PROTO, MESSAGE, "repeated"),
        ("$.tags[0]", PROTO, MESSAGE, "map"),
        ("$.note.text", PROTO, MESSAGE, "string"),
        ("$.people[*].email.text", PROTO, MESSAGE, "string"),
    ]:
        bench = FieldBench(monkeypatch, rule(path, other_values="pass" if passes else "fail"))
        if schema is union:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(union), {"people": message})
            source = Collection("a registry")
            source.add(Schema(json.dumps(union), id=1))
            bench.encrypt._schemas = Schemas([source])
            value = framed(1, out.getvalue())
        else:
            value = avro(DATUM) if schema is AVRO else framed(2, MESSAGE, b"\0")
        assert b"canary" in value
        said = bench.refusal(value)
        assert f"which is of the type {kind} and has no such field" in said, (path, said)
        assert bench.got(value) == [value]


@pytest.mark.slow
def test_a_value_of_fields_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its bytes would take hundreds in memory."""
    bench = FieldBench(monkeypatch, rule("$.people[*].email", other_values="pass"))
    many = {"people": [{"email": ""}] * 200_000}
    for value in (avro({**DATUM, **many}), json.dumps(many).encode()):
        assert bench.refusal(value) == "the value has more fields than can be encrypted"
        assert bench.got(value) == [value]


def test_fields_keys_and_headers_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields are bound to the plain key, and a header says which schema a value has."""
    keys = GivenKeys()
    made = keys.new_data_key("kek-k")
    record_keys = {"key": "kek-k", "wrapped": b64encode(made.wrapped).decode()}
    bench = FieldBench(monkeypatch, rule(*FIELDS, record_keys=record_keys, headers=["secret"], plain="fail"))
    bench.service.plain.update(keys.plain)
    named = ("__value_schema_id", b"\0\0\0\0\1")
    headers = [named, ("secret", b"a canary"), ("none", None)]
    records = [Record(offset=at, timestamp=at, key=b"canary", value=avro(DATUM)[5:], headers=headers) for at in (0, 1)]
    plain = write_batches([RecordBatch(records, codec=Codec.GZIP)])
    made_of: list[int] = []
    compress = editing.compress
    monkeypatch.setattr(editing, "compress", lambda *given, **more: made_of.append(1) or compress(*given, **more))
    outcome = bench.produce("orders", records=plain)
    assert isinstance(outcome, Send) and len(made_of) == 1
    written = records_in(outcome.frame)
    (batch,) = read_records(written)
    for record in batch.records:
        assert decrypted_key(record.key or b"", made.plain) == b"canary"
        assert record.headers[0] == named and record.headers[1][1] != b"a canary"
        note = avro_of(bytes(5) + (record.value or b""))["note"]
        data_key = bench.service.plain["kek-orders", parts_of(b64decode(note))["wrapped"]]
        assert decrypted_field(note.encode(), data_key, b"canary", "$['note']") == b"a canary"
    assert read_records(bench.fetch(written).records)[0].records == records
    assert len(made_of) == 2 and bench.counted() == {}


def test_a_field_opens_in_its_place_only(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FieldBench(monkeypatch, rule("$.a", "$.b", "$.list[*]", plain="fail"))
    (value,) = bench.put(b'{"a":"x","b":"y","list":["1","2"]}')
    document = json.loads(value or b"")
    assert bench.got(json.dumps(document).encode()) == [b'{"a": "x", "b": "y", "list": ["1", "2"]}']
    moved = [{**document, "a": document["b"]}, {**document, "list": document["list"][::-1]}, {**document, "a": "plain"}]
    for other in moved:
        assert bench.fetch(stored([json.dumps(other).encode()])).error_code == ErrorCode.CORRUPT_MESSAGE
    other_key = write_batches([RecordBatch([Record(key=b"other", value=value)])])
    assert bench.fetch(other_key).error_code == ErrorCode.CORRUPT_MESSAGE
    skipping = FieldBench(monkeypatch, rule("$.a", "$.b", "$.list[*]", unreadable="skip"))
    skipping.service.plain.update(bench.service.plain)
    good = b'{"a":"plain"}'
    assert skipping.got(json.dumps(moved[0]).encode(), good) == [good]
    assert skipping.counted() == {("skipped", "damaged"): 1}
    passing = FieldBench(monkeypatch, rule("$.a", "$.b", "$.list[*]", unreadable="pass"))
    passing.service.plain.update(bench.service.plain)
    assert passing.got(json.dumps(moved[0]).encode(), good) == [json.dumps(moved[0]).encode(), good]
    assert passing.counted() == {("passed", "damaged"): 1}


def test_a_field_that_another_implementation_encrypted_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = FieldBench(monkeypatch, rule("$.note", "$.card", headers=["h"]))
    made = bench.service.new_data_key("kek-orders")
    about: Any = {"key": b"k", "name": "kek-orders", "topic": "orders"}
    note = encrypted_field("é".encode(), made, path="$['note']", **about).decode()
    card = encrypted_field(b"\xff", made, path="$['card']", is_text=False, **about)
    assert bench.got(avro({**DATUM, "note": note, "card": card})) == [avro({**DATUM, "note": "é", "card": b"\xff"})]
    swapped = encrypted_field(b"x", made, path="$['note']", is_text=False, **about)
    assert bench.fetch(stored([avro({**DATUM, "note": None, "card": swapped})])).error_code != 0
    value = json.dumps({"note": b64encode(swapped).decode()}).encode()
    assert bench.fetch(stored([value])).error_code == ErrorCode.CORRUPT_MESSAGE
    outcome = bench.produce(
        "orders", records=write_batches([RecordBatch([Record(value=b'{"note":"x"}', headers=[("h", b"a canary")])])])
    )
    assert isinstance(outcome, Send)
    written = records_in(outcome.frame)
    assert b"canary" not in written and b"w0tQRQED" in written
    ((batch),) = read_records(bench.fetch(written).records)
    assert (batch.records[0].value, batch.records[0].headers) == (b'{"note":"x"}', [("h", b"a canary")])


def test_check_refuses_fields_that_schemas_at_hand_forbid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "orders-value.avsc").write_text(json.dumps(AVRO))
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")

    def said(**options: Any) -> list[str]:
        use = FilterUse(
            use="encrypt", with_={"keys": {"use": "given"}, "rules": [{"topics": ["*"], "key": "kek", **options}]}
        )
        sources = SchemaSources(folders=[str(tmp_path)])
        config = Config(clusters=[Cluster(listen=":1", bootstrap=["b:1"], filters=[use])], schemas=sources)
        return [message for _, message in check_filters(config)]

    assert said(fields=["$.note", "$.people[*].email"]) == []
    (problem,) = said(fields=["$.total"])
    assert "the field $.total is of the type long" in problem and "orders" in problem
    assert said(fields=["$.nothing"], other_values="pass") == []
    assert (
        len(said(fields=["$.nothing"])) == len(said(fields=["note"])) == len(said(fields=["$.a"], compress="zstd")) == 1
    )


def test_changed_values_are_refused_or_stay_values() -> None:
    """Bytes of an attacker: no other error comes, and what is written by a schema can be read by it."""
    chance = random.Random(7)
    paths = field_paths(("$.note", "$.card", "$.people[*].email"))
    editor = FieldEditor(KNOWN, "orders", paths)
    values = [avro(DATUM), framed(2, MESSAGE, b"\0"), b'{"note":"a\\u00e9b","people":[{"email":"x","n":[1,{}]},null]}']
    plain = fastavro.parse_schema(json.loads(json.dumps(AVRO).replace("logicalType", "none")))
    outcomes = {"edited": 0, "refused": 0}
    for number in range(3_000):
        changed = bytearray(values[number % 3])
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(5, len(changed))
            changed[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        try:
            edited = editor.edited(bytes(changed), (), lambda place, field, is_text: b"<" + field + b">" * 300)
        except SchemaError:
            outcomes["refused"] += 1
        else:
            outcomes["edited"] += 1
            if number % 3 == 0:
                fastavro.schemaless_reader(io.BytesIO(edited[5:]), plain, None)
    assert min(outcomes.values()) > 100
