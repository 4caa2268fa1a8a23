"""Schemas, payloads and registries that mean harm: each is a mark on a record, bounded in time and memory."""

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kproxy.errors import UsageError
from kproxy.protocol.embedded import Content
from kproxy.schemas.formats import SchemaError, compile_schema
from kproxy.schemas.registry import FAULTS_ALLOWED, MOST_ANSWER, Registry
from kproxy.schemas.store import Collection, Schemas, schema_of
from kproxy.schemas.viewer import make_viewers

CHAIN = json.dumps({"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]})


def test_a_type_that_contains_itself_does_not_end_the_process() -> None:
    compiled = compile_schema("AVRO", CHAIN, {})
    assert compiled.read(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(SchemaError, match="does not fit"):
        compiled.read(b"\x02" * 1_000_000 + b"\x00")


@pytest.mark.parametrize(
    ("schema_type", "text", "said"),
    [
        ("AVRO", '{"type":"array","items":"null"}', "take no bytes"),
        ("AVRO", '{"type":"array","items":{"type":"record","name":"E","fields":[]}}', "take no bytes"),
        ("AVRO", "[" * 200 + '"int"' + "]" * 200, "Avro schema|levels deep"),
        ("AVRO", '{"type":"array","items":' * 100 + '"int"' + "}" * 100, "levels deep"),
        ("AVRO", "[" * 100_000, "not an Avro schema"),
        ("AVRO", "{}", "not an Avro schema"),
        ("PROTOBUF", 'syntax = "proto3"; import "/etc/passwd";', "not a schema of Protobuf"),
        ("PROTOBUF", "message {", "not a schema of Protobuf: schema.proto:1"),
        ("PROTOBUF", "AAAA", "neither"),
        ("JSON", "{", "not a JSON Schema"),
        ("XSD", "<a/>", "of type XSD"),
    ],
)
def test_a_schema_that_cannot_be_used(schema_type: str, text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        compile_schema(schema_type, text, {})


def test_references_that_leave_or_go_in_circles() -> None:
    with pytest.raises(SchemaError, match="leaves its folder"):
        compile_schema("PROTOBUF", 'syntax = "proto3";', {"../../x.proto": 'syntax = "proto3";'})
    collection = Collection("files")
    circle = {"schema": CHAIN, "references": [{"name": "R", "subject": "r", "version": 1}]}
    collection.add(schema_of(circle, id=1, subject="r", version=1))
    view = make_viewers(Schemas([collection])).view(b"\0\0\0\0\1\0", Content("orders"))
    assert view == {
        "schema": {
            "framing": "confluent",
            "id": 1,
            "subject": "r",
            "version": 1,
            "type": "AVRO",
            "problem": "a circle of references: r version 1 refers to itself",
            "hex": "00",
        },
        "size": 6,
    }


@contextmanager
def serving(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A registry that always answers the same; its address, and the paths that were asked."""
    asked: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_a_registry_that_sends_elsewhere_is_not_followed() -> None:
    with serving(200, b'{"schema": "\\"int\\""}') as (other, asked_there):
        with serving(302, b"", Location=f"{other}/schemas/ids/1") as (address, asked):
            registry = Registry(address)
            assert registry.by_id(1, None) is None
            assert len(asked) == 1
        assert asked_there == []


@pytest.mark.parametrize("body", [b"[" * 50_000, b"1", b"{}", b'{"schema": 1', bytes(MOST_ANSWER + 2)])
def test_an_answer_that_is_none(body: bytes) -> None:
    with serving(200, body) as (address, asked):
        registry = Registry(address)
        for schema_id in range(FAULTS_ALLOWED + 3):
            assert registry.by_id(schema_id, None) is None
        assert len(asked) == FAULTS_ALLOWED
        assert registry.fault is not None


def test_an_id_that_is_not_there_is_asked_once() -> None:
    with serving(404, b"{}") as (address, asked):
        registry = Registry(address)
        for _ in range(5):
            assert registry.by_id(1, None) is None
        assert asked == ["/schemas/ids/1"]
        assert registry.fault is None


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://user:secret@localhost", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Registry(url)
    assert "secret" not in str(refused.value)
