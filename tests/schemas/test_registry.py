"""Real registries, Apicurio's: what we read with their schemas is what Confluent's deserializer reads."""

import json
import os
import random
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kproxy.protocol.embedded.viewers import Content
from kproxy.schemas.framings import find_framing
from kproxy.schemas.settings import SchemaSources
from kproxy.schemas.viewer import make_viewers
from tests.conftest import Require
from tests.schemas.test_confluent import ORDER, as_json, order
from tests.support.kafka.jars import fetch, folder_of
from tests.support.kafka.processes import eventually, spawn, stop
from tests.support.ports import free_ports

pytestmark = pytest.mark.slow
RELEASES = ("2.6.13.Final", "3.0.9")  # the last one that Java 17 runs
WRITERS = (
    ("io.apicurio", "apicurio-registry-serdes-avro-serde", RELEASES[0]),
    ("software.amazon.glue", "schema-registry-serde", "1.1.25"),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)


def registry_folder(release: str) -> Path:
    """Where Apicurio's registry is, fetched by Maven once."""
    kept = folder_of(f"apicurio-{release}")
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as name:
            artifact = f"io.apicurio:apicurio-registry-app:{release}:tar.gz:all"
            words = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={name}"]
            subprocess.run(words, check=True, timeout=300, stdin=subprocess.DEVNULL)
            with tarfile.open(next(Path(name).glob("*.tar.gz"))) as archive:
                archive.extractall(Path(name) / "registry", filter="data")
            (Path(name) / "registry").rename(kept)
    return kept


@contextmanager
def running(release: str, log: Path, *options: str) -> Iterator[str]:
    """Apicurio's registry; the address of its API that is Confluent's."""
    port, folder = free_ports(), registry_folder(release)
    runner = next(folder.glob("*-runner.jar"))
    words = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    process = spawn(["java", *words, *options, "-jar", os.fspath(runner)], log, folder=folder)
    try:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        eventually(
            lambda: urllib.request.urlopen(f"{url}/subjects", timeout=5).status == 200,
            what="the registry answers",
            patience=180,
        )
        yield url
    finally:
        stop(process)


@pytest.fixture(scope="module", params=RELEASES)
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, require: Require
) -> Iterator[str]:
    require("java", shutil.which("java") and shutil.which("mvn"), "a registry needs java and mvn")
    with running(request.param, tmp_path_factory.mktemp("registry") / "log") as url:
        yield url


@pytest.fixture
def registry(address: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": address}) as client:
        yield client


def test_by_id(address: str, registry: SchemaRegistryClient) -> None:
    write, read = AvroSerializer(registry, json.dumps(ORDER)), AvroDeserializer(registry)
    context, chance = SerializationContext("orders", MessageField.VALUE), random.Random(5)
    viewers = make_viewers(SchemaSources.of_options((address,), (), ()).open())
    for _ in range(50):
        data = write(order(chance), context)
        view = viewers.view(data, Content("orders"))
        assert view is not None
        assert view["schema"]["value"] == as_json(read(data, context))
        assert (view["schema"]["subject"], view["schema"]["version"]) == ("orders-value", 1)


def test_with_references(address: str, registry: SchemaRegistryClient) -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "units", "type": "long"}]}
    bill = {"type": "record", "name": "Bill", "namespace": "shop", "fields": [{"name": "total", "type": "shop.Money"}]}
    registry.register_schema("money", Schema(json.dumps(money), "AVRO"))
    references = [SchemaReference("shop.Money", "money", 1)]
    write = AvroSerializer(registry, Schema(json.dumps(bill), "AVRO", references))
    data = write({"total": {"units": 7}}, SerializationContext("bills", MessageField.VALUE))
    view = make_viewers(SchemaSources.of_options((address,), (), ()).open()).view(data, Content("bills"))
    assert view is not None
    assert view["schema"]["value"] == {"total": {"units": 7}}


def test_what_serializers_of_java_wrote(address: str) -> None:
    """Apicurio's with global and content ids, in headers and framed as Confluent does; the framing of AWS Glue's.

    Both topics have the same schema: one content id, but two global ids.
    """
    kept = folder_of(f"serializers-{RELEASES[0]}")
    if not kept.is_dir():
        fetch(kept, WRITERS)
    fields = [("id", "long"), ("country", ["null", "string"]), ("total", "double")]
    schema = {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    source, own = Path(__file__).with_name("Writers.java"), address.replace("/apis/ccompat/v7", "/apis/registry/v2")
    words = ["java", "-cp", f"{kept}/*", os.fspath(source), own, "50", json.dumps(schema)]
    run = subprocess.run(words, capture_output=True, check=True, timeout=120, encoding="utf-8")
    viewers = make_viewers(SchemaSources.of_options((address,), (), ()).open())
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    for form, topic, data, named, expected in rows:
        if form == "glue":
            framed = find_framing(bytes.fromhex(data))
            assert framed is not None
            assert (framed.framing, framed.id, framed.payload.hex()) == ("glue", named, expected)
            continue
        headers = [(name, bytes.fromhex(value)) for name, _, value in (one.partition("=") for one in named.split(";"))]
        view = viewers.view(bytes.fromhex(data), Content(topic, "value", headers if named else ()))
        assert view is not None
        assert view["schema"].get("value") == json.loads(expected), (form, view)
        assert view["schema"]["framing"] == ("confluent" if form == "confluent" else "apicurio")
        if form in ("globalId", "headers"):  # which say whose schema it is
            assert view["schema"]["subject"] == f"{topic}-value"
    assert len(rows) == 500
