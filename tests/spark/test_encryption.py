"""Which topics are encrypted by which keys, who writes plain, what no longer opens: DuckDB and Spark say the same."""

from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.encryption.services.settings import KeySettings
from kproxy.output.tables import TABLES
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.schemas.settings import SchemaSources
from kproxy.spark.ingest import ingest
from kproxy.spark.report import SparkTables
from kproxy.spark.rows import Options
from kproxy.spark.source import register
from tests.support.built_captures import Conversation, pcap
from tests.support.encryption import encrypted, encrypted_field, encrypted_key
from tests.support.frames import array, request, response, string
from tests.support.tables import decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]
ENCRYPTION = library.load()["encryption"]
# topic, part, key and its version -> how many were written and how many open, by whom, whether plain ones came later, and why
# some do not open
Answer = dict[tuple[str, str, str | None, int | None], tuple[int, int, list[str], bool, str | None]]
CHANGED = "the encrypted value, written with the key 'kek', or its record key was changed"
DESTROYED = "the value takes the key 'gone': version 1 of the key gone has been destroyed"
ALL = ["mirror", "script", "shop"]
WITH_KEYS: Answer = {
    ("orders", "value", "kek", 1): (2, 1, ["shop"], False, CHANGED),
    ("orders", "value", "kek", 2): (1, 1, ["shop"], False, None),
    ("orders", "value", "gone", 1): (1, 0, ["mirror"], False, DESTROYED),
    ("orders", "value", None, None): (2, 0, ["script", "shop"], True, None),
    ("orders", "key", "kek", 1): (1, 1, ["shop"], False, None),
    ("orders", "key", None, None): (5, 0, ALL, True, None),
    ("orders", "header secret", "kek", 1): (6, 6, ALL, False, None),
    ("fields", "value", "kek", 1): (1, 1, ["shop"], False, None),
    ("fields", "header secret", "kek", 1): (1, 1, ["shop"], False, None),
}
NOUNS = {("orders", "value"): "the value", ("orders", "key"): "the record key", ("fields", "value"): "a field"}


def without_keys() -> Answer:
    """The same keys, writers and times; nothing opens."""
    answer: Answer = {}
    for (topic, part, key, version), (count, _, writers, is_late, _) in WITH_KEYS.items():
        noun = NOUNS.get((topic, part), "the value of a header")
        problem = key and f"{noun} takes the key '{key}': no key service was named (--keys FILE)"
        answer[topic, part, key, version] = count, 0, writers, is_late, problem
    return answer


def written(folder: Path) -> KeySettings:
    """Make a capture of producers, and a key set of which a key was rotated and another destroyed."""
    (folder / "seal").write_bytes(bytes(range(32)))
    settings = {"path": str(folder / "keys"), "key_file": str(folder / "seal")}
    keys = KeySet(KeySetOptions(**settings))
    keys.make("kek")
    keys.make("gone")
    first, gone = keys.new_data_key("kek"), keys.new_data_key("gone")
    keys.rotate("kek")
    keys.destroy("gone")
    about: dict[str, Any] = {"key": b"k", "topic": "orders", "nonce": bytes(12)}
    opens = encrypted(b'{"total":1}', first, name="kek", **about)
    values = [
        ("shop", b"before"),
        ("shop", opens),
        ("shop", opens[:-1] + b"\0\0"),
        ("shop", encrypted(b'{"total":2}', keys.new_data_key("kek"), name="kek", **about)),
        ("mirror", encrypted(b"lost", gone, name="gone", **about)),
        ("script", b"after"),
    ]
    header = encrypted(b"inside", first, name="kek", header=b"secret", **about)
    conversation = Conversation().handshake()
    field = encrypted_field(b"x", first, key=b"k", path="$['note']", name="kek", topic="fields").decode()
    placed = [*(("orders", *one) for one in values), ("fields", "shop", f'{{"note":"{field}"}}'.encode())]
    for number, (topic, client, value) in enumerate(placed):
        key = encrypted_key(b"k", first, name="kek", topic="orders") if value is opens else b"k"
        data = write_batches([RecordBatch([Record(key=key, value=value, headers=[("secret", header)])])])
        partition = pack(">ii", 0, len(data)) + data
        body = string(None) + pack(">hi", -1, 30_000) + array(string(topic) + array(partition))
        conversation.send(0, request(0, 7, number, body, client_id=client))
        answer = array(string(topic) + array(pack(">ihqqq", 0, 0, number, -1, 0))) + pack(">i", 0)
        conversation.send(1, response(number, answer))
    (folder / "shop.pcap").write_bytes(pcap(conversation.finish().packets))
    return KeySettings(use="file", with_=settings)


def shown(rows: list[dict[str, Any]]) -> Answer:
    return {
        (row["topic"], row["part"], row["key_name"], row["key_version"]): (
            row["produced"],
            row["opened"],
            row["writers"],
            row["is_late"],
            row["problem"],
        )
        for row in rows
    }


@pytest.mark.parametrize("with_keys", [False, True])
def test_spark_says_what_duckdb_says(spark: "SparkSession", tmp_path: Path, with_keys: bool) -> None:
    settings, capture = written(tmp_path), tmp_path / "shop.pcap"
    (tmp_path / "keys.yaml").write_text(str({"use": "file", "with": settings.with_}))
    words = ["--keys", tmp_path / "keys.yaml"] if with_keys else []
    options = Options(records=True, schemas=SchemaSources(keys=settings if with_keys else None))
    assert decode("--records", *words, "-o", tmp_path / "decoded", capture) == 0
    with Database([tmp_path / "decoded"], wanted=TABLES) as database:
        expected = database.run(ENCRYPTION).to_pylist()
    assert shown(expected) == (WITH_KEYS if with_keys else without_keys())
    ingest(spark.sparkContext, [str(capture)], str(tmp_path / "ingested"), options=options)
    for number, source in enumerate((capture, tmp_path / "decoded", tmp_path / "ingested")):
        scratch = tmp_path / f"scratch-{number}"
        scratch.mkdir()
        tables = SparkTables(spark.sparkContext, [str(source)], options=options, scratch=str(scratch))
        found = tables.run(ENCRYPTION).to_pylist()
        tables.close()
        assert found == expected, source
    register(spark)
    given = {"table": "records", "records": "true", **({"keys": str(tmp_path / "keys.yaml")} if with_keys else {})}
    read = spark.read.format("kproxy").options(**given).load(str(capture)).orderBy("exchange").collect()
    inside = {bytes(row["headers"][0]["value"]) for row in read}
    assert (inside == {b"inside"}) == with_keys == ({bytes(row["key"]) for row in read} == {b"k"})
    *documents, with_field = [row["value_json"] for row in read if row["value_json"]]
    assert documents == (['{"total": 1}', '{"total": 2}'] if with_keys else [])
    assert (with_field == '{"note": "x"}') == with_keys
