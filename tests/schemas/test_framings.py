"""Framings, as the documents of their makers write them."""

import json
import zlib
from base64 import b64decode, b64encode
from uuid import UUID

import pytest

from kproxy.protocol.embedded.viewers import Content
from kproxy.schemas.framings import Framed, Framing, GlobalId, find_framing, message_indexes
from kproxy.schemas.store import Collection, Schemas, schema_of
from kproxy.schemas.viewer import UNKNOWN, make_viewers

GUID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")


@pytest.mark.parametrize(
    ("data", "framed"),
    [
        (b"\0\0\0\0\x0cabc", Framed(Framing.CONFLUENT, 12, b"abc", has_indexes=True)),
        (b"\0" + (2**40).to_bytes(8, "big") + b"abc", Framed(Framing.CONFLUENT, 256, b"\0\0\0\0abc", has_indexes=True)),
        (b"\0" + (7).to_bytes(8, "big") + b"abc", Framed(Framing.APICURIO, GlobalId(7), b"abc")),
        (b"\3\0" + GUID.bytes + b"abc", Framed(Framing.GLUE, str(GUID), b"abc")),
        (b"\3\5" + GUID.bytes + zlib.compress(b"abc"), Framed(Framing.GLUE, str(GUID), b"abc")),
        (b"\xc3\x01" + bytes(range(8)) + b"abc", Framed(Framing.AVRO, "0001020304050607", b"abc")),
        (b"\3\5" + GUID.bytes + b"not zlib", None),
        (b"\0\xff\xff\xff\xffabc", None),  # a negative id
        (bytes(9), None),  # the number zero, not an id
        (b"\0\0\0", None),
        (b"", None),
        (b'{"a": 1}', None),
    ],
)
def test_in_the_payload(data: bytes, framed: Framed | None) -> None:
    assert find_framing(data) == framed


@pytest.mark.parametrize(
    ("name", "value", "framed"),
    [
        ("__value_schema_id", b"\1" + GUID.bytes, Framed(Framing.CONFLUENT, str(GUID), b"abc")),
        (
            "__value_schema_id",
            b"\1" + GUID.bytes + b"\0",
            Framed(Framing.CONFLUENT, str(GUID), b"\0abc", has_indexes=True),
        ),
        ("__value_schema_id", b"\0\0\0\0\5", Framed(Framing.CONFLUENT, 5, b"abc")),
        ("apicurio.value.globalId", (9).to_bytes(8, "big"), Framed(Framing.APICURIO, GlobalId(9), b"abc")),
        ("apicurio.value.contentId", (9).to_bytes(8, "big"), Framed(Framing.APICURIO, 9, b"abc")),
        ("content-type", b"avro/binary+0123abcd", Framed(Framing.AZURE, "0123abcd", b"abc")),
        ("__key_schema_id", b"\0\0\0\0\5", None),  # of the key, not of the value
        ("__value_schema_id", b"\2", None),
        ("__value_schema_id", None, None),
    ],
)
def test_in_a_header(name: str, value: bytes | None, framed: Framed | None) -> None:
    assert find_framing(b"abc", "value", [("trace", b"1"), (name, value)]) == framed


def test_an_event_in_structured_mode() -> None:
    attributes = {"specversion": "1.0", "id": "A1", "type": "order", "dataschema": "http://host/schemas/ids/12"}
    collection = Collection("files")
    collection.add(schema_of({"schema": '"int"'}, id=12, subject="answers"))
    schemas = Schemas([collection])
    for inner, framing in ((b"\x54", "cloudevents"), (b"\0\0\0\0\x0c\x54", "confluent")):
        data = json.dumps({**attributes, "data_base64": b64encode(inner).decode()}).encode()
        view = make_viewers(schemas).view(data, Content("t"))
        assert view is not None and view["schema"]["framing"] == framing
        assert (view["schema"]["value"], view["schema"]["event"]) == (42, attributes)
        located = schemas.locate(data, "t")
        assert located is not None
        written = json.loads(schemas.write(located, 43))
        assert b64decode(written.pop("data_base64")) == inner[:-1] + b"\x56" and written == attributes
    for other in (
        b'{"specversion": "1.0", "data_base64": 1}',
        b'{"specversion": "1.0", "data_base64": "!"}',
        b'{"data": 1}',
    ):
        assert find_framing(other) is None


def test_message_indexes() -> None:
    assert message_indexes(b"\0abc") == ((0,), 1)
    assert message_indexes(b"\x04\x02\x00abc") == ((1, 0), 3)
    for damaged in (b"", b"\x80", b"\x01", b"\xff\xff\xff\xff\xff\xff", b"\x7e" + b"\0" * 10):
        with pytest.raises(ValueError):
            message_indexes(damaged)


def test_a_schema_by_its_fingerprint() -> None:
    # The specification's test data (share/test/data/schema-tests.txt) has 8247732601305521295 for "int"
    data = b"\xc3\x01" + (8247732601305521295).to_bytes(8, "little") + b"\x54"
    collection = Collection("files")
    collection.add(schema_of({"schema": '{"type": "string"}'}, subject="others"))
    collection.add(schema_of({"schema": '{"type": "int", "doc": "not in the canonical form"}'}, subject="answers"))
    viewers = make_viewers(Schemas([collection]))
    view = viewers.view(data, Content("t"))
    assert view is not None and (view["schema"]["subject"], view["schema"]["value"]) == ("answers", 42)
    missing = viewers.view(data[:2] + b"12345678" + data[10:], Content("t"))
    assert missing is not None and missing["schema"]["problem"] == UNKNOWN


def test_an_event_in_binary_mode() -> None:
    headers = [("ce_specversion", b"1.0"), ("ce_dataschema", b"http://registry:8081/schemas/ids/12")]
    assert find_framing(b"abc", "value", headers) == Framed(Framing.CLOUDEVENTS, 12, b"abc")
    assert find_framing(b"\0\0\0\0\x07abc", "value", headers) == Framed(Framing.CONFLUENT, 7, b"abc", has_indexes=True)
    assert find_framing(b"abc", "value", [("ce_dataschema", b"http://host/order.json")]) is None
    assert find_framing(b"abc", "key", headers) is None
