"""Schemas, payloads and registries that mean harm: each is a mark on a record, bounded in time and memory."""

import gzip
import io
import json
import random
import re
import socket
import socketserver
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kproxy.errors import UsageError
from kproxy.protocol.embedded.viewers import Content
from kproxy.schemas.avro import AvroSchema
from kproxy.schemas.formats import PayloadError, SchemaError, compile_schema
from kproxy.schemas.framings import GlobalId
from kproxy.schemas.registry import FAULTS_ALLOWED, MOST_ANSWER, Registry
from kproxy.schemas.settings import RegistryOptions, SchemaSources
from kproxy.schemas.store import Collection, Schemas, schema_of
from kproxy.schemas.viewer import SchemaViewer, make_viewers
from tests.fuzz.avro_target import check_avro, damaged_payload
from tests.support import http_servers
from tests.support.certificates import certificates
from tests.support.http_servers import Quiet
from tests.support.kafka.processes import eventually

SEARCH = "/apis/registry/v2/search/artifacts"  # asked for the type of a global id's schema
CHAIN = json.dumps({"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]})


SHAPES = {
    "type": "record",
    "name": "Shapes",
    "fields": [
        {"name": "items", "type": {"type": "array", "items": "long"}},
        {"name": "texts", "type": {"type": "map", "values": "string"}},
        {"name": "sum", "type": ["null", "double", {"type": "fixed", "name": "F", "size": 3}]},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "inner", "type": ["null", "Shapes"]},
        {"name": "raw", "type": "bytes"},
        {"name": "small", "type": "float"},
    ],
}


def shapes(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    return {
        "items": [chance.randrange(-(2**63), 2**63) for _ in range(chance.randrange(4))],
        "texts": {chance.choice("aé𝄞"): "ü" * chance.randrange(20) for _ in range(chance.randrange(3))},
        "sum": chance.choice([None, 1.5, b"abc"]),
        "kind": chance.choice("AB"),
        "inner": shapes(chance, depth + 1) if depth < 3 and chance.random() < 0.5 else None,
        "raw": chance.randbytes(chance.randrange(200)),
        "small": 0.5,
    }


def test_a_type_that_contains_itself_does_not_end_the_process() -> None:
    compiled = compile_schema("AVRO", CHAIN, {})
    assert compiled.read(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(SchemaError, match="does not fit"):
        compiled.read(b"\x02" * 1_000_000 + b"\x00")
    with pytest.raises(SchemaError, match="does not fit"):  # no value of it is finite, and no level takes a byte
        compile_schema("AVRO", CHAIN.replace('["null", "R"]', '"R"'), {}).read(b"\x02")


def test_large_decimals_and_times_beyond_the_calendar() -> None:
    decimal = compile_schema("AVRO", '{"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}', {})
    assert decimal.read(b"\x04\xff\x85") == "-1.23"  # -123, two digits of it behind the point
    with pytest.raises(PayloadError, match="a decimal of 8,192 bytes"):  # a megabyte took minutes
        decimal.read(b"\x80\x80\x01" + b"\x7f" * 8_192)
    digits = '{"type": "bytes", "logicalType": "decimal", "precision": 1000000000, "scale": 1000000000}'
    assert compile_schema("AVRO", digits, {}).read(b"\x02\x05") == "BQ=="  # not a number of a gigabyte
    moment = compile_schema("AVRO", '{"type": "long", "logicalType": "timestamp-millis"}', {})
    assert moment.read(b"\xfe" + b"\xff" * 8 + b"\x01") == 2**63 - 1  # Long.MAX_VALUE, as Java writes "never"
    assert moment.read(b"\x02") == "1970-01-01T00:00:00.001000Z"


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


def test_avro_without_objects_accepts_nothing_that_fastavro_refuses() -> None:
    chance, schema = random.Random(11), fastavro.parse_schema(json.loads(json.dumps(SHAPES)))
    compiled = compile_schema("AVRO", json.dumps(SHAPES), {})
    accepted = 0
    for _ in range(1_500):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, shapes(chance))
        payload = stream.getvalue()
        assert compiled.walk.fits(payload)  # type: ignore[attr-defined]
        assert not compiled.walk.fits(payload + b"\0")  # type: ignore[attr-defined]
        broken = bytearray(payload)
        broken[chance.randrange(len(broken))] = chance.randrange(256)
        del broken[len(broken) - chance.randrange(2) :]
        if compiled.walk.fits(bytes(broken)):  # type: ignore[attr-defined]
            compiled.read(bytes(broken))
            accepted += 1
    assert accepted > 100


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
def serving(
    status: int, body: bytes, tls: ssl.SSLContext | None = None, wait: threading.Event | None = None, **headers: str
) -> Iterator[tuple[str, list[Message]]]:
    """A registry that always answers the same, half of it before *wait*; its address, and the requests as they came."""
    asked: list[Message] = []

    class Answer(Quiet):
        def do_GET(self) -> None:
            self.headers["path"] = self.path
            asked.append(self.headers)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            half = len(body) // 2
            self.wfile.write(body[:half])
            if wait is not None:
                wait.wait()
            self.wfile.write(body[half:])

    with http_servers.serving(Answer, tls) as url:
        yield url, asked


def test_traffic_does_not_wait_for_a_registry_that_is_slow() -> None:
    go_on = threading.Event()
    with serving(200, b'{"schema": "\\"int\\"", "subject": "s"}', wait=go_on) as (address, asked):
        schemas = SchemaSources(registries=[RegistryOptions(url=address)]).open(wait_s=0.0)
        viewers = make_viewers(schemas)
        for _ in range(3):
            view = viewers.view(b"\0\0\0\0\1\x0e", Content("orders"))
            assert view is not None
            assert view["schema"]["problem"] == f"no schema with this id is known: {address} has not answered yet"
        go_on.set()
        eventually(lambda: not schemas.is_asked("orders"), what="the registry answers")
        view = viewers.view(b"\0\0\0\0\1\x0e", Content("orders"))
        assert view is not None
        assert (view["schema"]["subject"], view["schema"]["value"]) == ("s", 7)
        assert [one["path"] for one in asked] == ["/schemas/ids/1", "/schemas/ids/1/versions"]


def test_the_login_and_the_certificate_are_those_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = certificates()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
    tls.load_cert_chain(files.server.certificate, files.server.key)
    tls.verify_mode = ssl.CERT_REQUIRED
    (tmp_path / "login").write_text("user:secret\n")
    (tmp_path / "token").write_text("abc")
    pair = f"ca={files.ca} certificate={files.client.certificate} key={files.client.key}"
    with serving(200, b'{"schema": "\\"int\\"", "subject": "s"}', tls) as (address, asked):
        for words in ("", f"login={tmp_path / 'login'}", f"token={tmp_path / 'token'} topics=orders-*"):
            monkeypatch.setenv("SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", "" if words else "me:other")
            found = SchemaSources.of_options((f"{address} {pair} {words}",), (), ()).open().find(1, "orders-de")
            assert found is not None, words
        logins = "Basic bWU6b3RoZXI=", "Basic dXNlcjpzZWNyZXQ=", "Bearer abc"
        assert [one["authorization"] for one in asked] == [login for login in logins for _ in range(2)]
        other = SchemaSources.of_options((f"{address} {pair} topics=orders-*",), (), ()).open()
        assert other.find(1, "bills") is None
        untrusted = SchemaSources.of_options((address,), (), ()).open()
        assert untrusted.find(1, "orders-de") is None
        assert untrusted.faults
        assert len(asked) == 6


def test_references_that_double_at_every_level_are_followed_once() -> None:
    collection = Collection("files")
    for level in range(100):
        twice = [{"name": name, "subject": str(level + 1), "version": 1} for name in ("a", "b")]
        collection.add(
            schema_of({"schema": '"int"', "references": twice if level < 99 else []}, subject=str(level), version=1)
        )
    schemas = Schemas([collection])
    first = schemas.subject("0")
    assert first is not None
    assert len(schemas.needed(first)) == 2 * 99
    assert schemas.compiled(first).read(b"\x0e") == 7


def answered(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join((*lines, "", "")).encode() + body


@contextmanager
def answering(chunks: Callable[[str], Iterable[bytes]]) -> Iterator[str]:
    """A registry that answers with these bytes for a request; its address."""

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            path = self.rfile.readline().split()[1].decode()
            while self.rfile.readline().strip():
                pass
            with suppress(OSError):
                for chunk in chunks(path):
                    self.wfile.write(chunk)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def found(schema: object, **fields: object) -> bytes:
    return answered(json.dumps({"schema": json.dumps(schema), "subject": "s", **fields}).encode())


def dripping(ended: threading.Event) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    while not ended.wait(0.02):
        yield b" "


BOMB = gzip.compress(bytes(256 << 20), 9)  # 260 KB
DEEP = '{"type":"array","items":' * 100 + '"int"' + "}" * 100
DID_NOT = "no schema with this id is known: .* did not answer: "
HARMFUL: dict[str, tuple[Any, str]] = {  # what a registry answers, and what a record then says
    "huge": (answered(b" " * (MOST_ANSWER + 2)), DID_NOT + "ValueError"),
    "no JSON": (answered(b"<html>"), DID_NOT),
    "deep JSON": (answered(b"[" * 50_000), DID_NOT),
    "another type": (answered(b'{"schema": ["int"], "references": 7}'), DID_NOT + "TypeError"),
    "an error": (answered(b"", "500 Internal Server Error"), DID_NOT + "ValueError"),
    "no HTTP": (b"\0" * 100, DID_NOT),
    "cut off": (answered(b'{"schema": "\\"int\\""}')[:-5], DID_NOT),
    "a bomb": (answered(BOMB, **{"Content-Encoding": "gzip"}), DID_NOT),
    "headers without end": (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000, DID_NOT),
    "elsewhere": ("redirect", DID_NOT + "ValueError"),
    "slow": (dripping, "no schema with this id is known: .* has not answered yet"),
    "a deep schema": (found(json.loads(DEEP)), "levels deep"),
    "a recursive schema": (
        found({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}),
        "does not fit",
    ),
    "a circle": (found("int", references=[{"name": "s", "subject": "s", "version": 1}]), "a circle of references"),
    "no reference": (found("int", references=[{"name": "s", "subject": "s", "version": 1}] * 300), "circle|more than"),
    "no schema": (found({"type": "nothing"}), "not an Avro schema"),
    "an unknown format": (found("int", schemaType="XSD"), "of type XSD"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_registry_that_means_harm_costs_a_mark_and_a_count(name: str) -> None:
    answer, problem = HARMFUL[name]
    ended, asked = threading.Event(), list[str]()
    elsewhere = socket.create_server(("127.0.0.1", 0))
    elsewhere.setblocking(False)
    if answer == "redirect":
        answer = answered(b"", "302 Found", Location=f"http://127.0.0.1:{elsewhere.getsockname()[1]}/")

    def chunks(path: str) -> Iterable[bytes]:
        asked.append(path)
        return answer(ended) if callable(answer) else [answer]

    with answering(chunks) as address, elsewhere:
        options = RegistryOptions(url=address)
        viewers = make_viewers(SchemaSources(registries=[options]).open(wait_s=0.2 if name == "slow" else 5.0))
        tracemalloc.start()
        began = time.monotonic()
        for _ in range(20):
            view = viewers.view(b"\0\0\0\0\7\x0e", Content("orders"))
            assert view is not None and re.search(problem, view["schema"]["problem"]), view
        assert time.monotonic() - began < 10.0  # the records of one topic, whichever answer that takes
        assert tracemalloc.get_traced_memory()[1] < 8 * MOST_ANSWER
        tracemalloc.stop()
        ended.set()
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert [row["records"] for row in SchemaViewer.of(viewers).rows()] == [20]
    assert len(asked) <= FAULTS_ALLOWED + 1
    assert viewers.faults == {}


def test_an_id_that_changes_is_the_schema_that_it_was_first() -> None:
    answers = iter([found("int", id=99), answered(b"[]"), found("string")])
    with answering(lambda path: [next(answers)]) as address:
        registry = Registry(RegistryOptions(url=address))
        first = registry.by_id(7, None)
        assert first is not None and (first.id, first.text) == (7, '"int"')
        assert registry.by_id(7, None) is first


@pytest.mark.parametrize("kind", [int, GlobalId])
def test_a_registry_that_fails_is_not_asked_for_a_while(kind: type[int]) -> None:
    with serving(302, b"", Location="http://127.0.0.1:9/") as (address, asked):
        registry = Registry(RegistryOptions(url=f"{address}/apis/ccompat/v7"))
        for schema_id in range(FAULTS_ALLOWED + 3):
            assert registry.by_id(kind(schema_id), None) is None
        assert len({one["path"].partition("?")[0] for one in asked} - {SEARCH}) == FAULTS_ALLOWED
        assert registry.fault is not None


def test_an_id_that_is_not_there_is_asked_once() -> None:
    with serving(404, b"{}") as (address, asked):
        registry = Registry(RegistryOptions(url=address))
        for _ in range(5):
            assert registry.by_id(1, None) is None
        assert [one["path"] for one in asked] == ["/schemas/ids/1"]
        assert registry.fault is None


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://user:secret@localhost", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        Registry(RegistryOptions(url=url))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("size", [-5, 2**31, 2**70, "7", 1.5, True])
def test_a_fixed_type_of_no_size_is_no_schema(size: object) -> None:
    """fastavro takes any; a walk with a negative one would go back, before the payload."""
    fixed = {"type": "fixed", "name": "f", "size": size}
    with pytest.raises(SchemaError, match="size of a fixed type"):
        AvroSchema(json.dumps({"type": "array", "items": fixed}), {})


def test_what_the_walk_of_avro_accepts_is_what_fastavro_reads() -> None:
    chance = random.Random(1)
    accepted = sum(check_avro(damaged_payload(chance)) for _ in range(2_000))
    assert 200 < accepted < 1_800
