"""Encrypted values in what decode, sql, report and the page show: with the key, without it, and damaged."""

import json
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.encryption.reading import AWAY_S, OutputKeys
from kproxy.encryption.services import loading
from kproxy.encryption.services.contract import KeyDestroyed, KeyServiceAway
from kproxy.encryption.services.settings import KeySettings
from kproxy.output.tables.records import record_columns
from kproxy.protocol.embedded.records_field import open_records
from kproxy.protocol.embedded.viewers import records_and_problems
from kproxy.protocol.records import Record, read_batches
from kproxy.protocol.records.editing import RecordBatch, write_batches
from kproxy.schemas.settings import SchemaSources
from kproxy.schemas.viewer import make_viewers
from tests.support.encryption import GivenKeys, GivenService, encrypted, encrypted_field, encrypted_key, parts_of

NO_SERVICE = "the value takes the key 'kek': no key service was named (--keys FILE)"
OF_HEADER = NO_SERVICE.replace("value", "value of a header")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> GivenKeys:
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
    GivenService.keys = GivenKeys()
    return GivenService.keys


def field(service: GivenKeys) -> bytes:
    """Records of the topic orders: JSON that is encrypted, damaged, plain, and null."""
    made = service.new_data_key("kek")
    about = {"name": "kek", "topic": "orders", "nonce": bytes(12)}
    whole = encrypted(b'{"total":7}', made, key=b"k", **about)  # type: ignore[arg-type]
    values = [whole, whole[:-1] + b"\0\0", b'{"plain":1}', None]
    header = encrypted(b'{"id":8}', made, key=b"k", header=b"h", **about)  # type: ignore[arg-type]
    headers = [("t", b"plain"), ("h", header)]
    records = [
        Record(offset=at, timestamp=0, key=b"k", value=value, headers=headers[: at + 1])
        for at, value in enumerate(values)
    ]
    return write_batches([RecordBatch(records)])


def viewers(with_keys: bool) -> Any:
    return make_viewers(SchemaSources(keys=KeySettings(use="given") if with_keys else None).open())


def test_lines_have_the_plain_value_for_those_who_have_the_key(service: GivenKeys) -> None:
    data = field(service)
    shown = _shown(data, viewers(True))
    assert shown[0] == {"json": {"total": 7}, "size": 11, "encrypted": {"key": "kek"}}
    assert shown[1]["encrypted"]["problem"].startswith("the encrypted value, written with the key 'kek'")
    assert shown[2:] == [{"json": {"plain": 1}, "size": 11}, None]
    assert service.calls[1:] == [("unwrap", "kek")]
    assert _headers_shown(data, viewers(True)) == [
        ("t", {"text": "plain", "size": 5}),
        ("h", {"json": {"id": 8}, "size": 8, "encrypted": {"key": "kek"}}),
    ]
    without = _shown(data, viewers(False))
    assert _headers_shown(data, viewers(False))[1][1]["encrypted"] == {"key": "kek", "problem": OF_HEADER}
    assert without[0] == {"encrypted": {"key": "kek", "problem": NO_SERVICE}, "size": without[0]["size"]}
    assert without[2:] == shown[2:]
    service.error = KeyDestroyed("version 1 is gone")
    destroyed = _shown(data, viewers(True))
    assert destroyed[0]["encrypted"]["problem"] == "the value takes the key 'kek': version 1 is gone"


def test_tables_have_the_plain_value_for_those_who_have_the_key(service: GivenKeys) -> None:
    pytest.importorskip("pyarrow")
    data = field(service)
    stored = [record.value for record in read_objects(data)]
    rows = _rows(data, viewers(True))
    assert [row["value"] for row in rows] == [b'{"total":7}', stored[1], b'{"plain":1}', None]
    assert [row["value_json"] and json.loads(row["value_json"]) for row in rows] == [
        {"total": 7},
        None,
        {"plain": 1},
        None,
    ]
    sealed = read_objects(data)[1].headers[1][1]
    assert sealed is not None
    envelope = parts_of(sealed)["envelope"]
    assert [[*one.values()] for one in rows[0]["headers"]] == [[b"t", b"plain", None, None]]
    assert [[*row["headers"][1].values()] for row in rows[1:]] == [[b"h", b'{"id":8}', envelope, None]] * 3
    assert [row["value_envelope"] for row in rows] == [parts_of(stored[0])["envelope"]] * 2 + [None, None]
    without = _rows(data, viewers(False))
    shut = without[1]["headers"][1]
    assert (shut["value"], shut["envelope"], shut["problem"]) == (sealed, envelope, OF_HEADER)
    assert [row["value"] for row in without] == stored
    assert [row["value_problem"] for row in without] == [NO_SERVICE, NO_SERVICE, None, None]


def test_record_keys_are_shown_to_those_who_have_the_key(service: GivenKeys) -> None:
    made = service.new_data_key("kek")
    about: Any = {"name": "kek", "topic": "orders"}
    value = encrypted(b'{"total":7}', made, key=b'{"id":1}', nonce=bytes(12), **about)
    key = encrypted_key(b'{"id":1}', made, **about)
    keys = [key, key[:-1], b"plain", None]
    data = write_batches([RecordBatch([Record(offset=at, timestamp=0, key=keys[at], value=value) for at in range(4)])])
    shown = _opened(data, viewers(True))
    assert shown[0]["key"] == {"json": {"id": 1}, "size": 8, "encrypted": {"key": "kek"}}
    assert shown[0]["value"]["json"] == {"total": 7}
    damaged = "the encrypted record key, written with the key 'kek', was changed"
    assert [shown[1][part]["encrypted"]["problem"] for part in ("key", "value")] == [damaged, damaged]
    assert [one["key"] for one in shown[2:]] == [{"text": "plain", "size": 5}, None]
    no_service = NO_SERVICE.replace("value", "record key")
    assert _opened(data, viewers(False))[0]["key"]["encrypted"]["problem"] == no_service
    named = [{"kind": "records", "json": {"topic": "orders", "partition": 0, "records": [shown[0], shown[1]]}}]
    first, second = records_and_problems(named)
    assert (first[0]["key"], first[1]) == ({"id": 1}, None)
    assert second[1] == f"record.value is encrypted: {damaged}"
    pytest.importorskip("pyarrow")
    rows = _rows(data, viewers(True))
    assert [row["key"] for row in rows] == [b'{"id":1}', key[:-1], b"plain", None]
    assert (rows[0]["value"], json.loads(rows[0]["key_json"]), rows[1]["key_problem"]) == (
        b'{"total":7}',
        {"id": 1},
        damaged,
    )
    assert [row["key"] for row in _rows(data, viewers(False))] == keys
    unnamed = encrypted_key(b"k", made, name="kek", topic="")
    assert OutputKeys(service).decrypt_key(unnamed) == (b"k", "kek", None)  # anybody may have written it


def test_fields_are_shown_to_those_who_have_the_key(service: GivenKeys) -> None:
    made = service.new_data_key("kek")
    about: Any = {"key": b"k", "name": "kek", "topic": "orders"}
    email = encrypted_field(b"e@x", made, path="$['people'][0]['e\\'mail']", **about).decode()
    card = b64encode(encrypted_field(b"\xff", made, path="$['card']", is_text=False, **about)).decode()
    value = json.dumps({"people": [{"e'mail": email}, {"e'mail": email}], "card": card, "total": 7}).encode()
    data = write_batches([RecordBatch([Record(timestamp=0, key=b"k", value=value)])])
    damaged = "an encrypted field, written with the key 'kek', or its record key was changed"
    (shown,) = _shown(data, viewers(True))
    plain = {"people": [{"e'mail": "e@x"}, {"e'mail": email}], "card": "/w==", "total": 7}
    assert shown["json"] == plain
    fields = [{"key": "kek", "fields": 2}, {"key": "kek", "fields": 1, "problem": damaged}]
    assert shown["encryptedFields"] == fields
    (without,) = _shown(data, viewers(False))
    assert without["json"] == json.loads(value)
    no_service = NO_SERVICE.replace("the value", "a field")
    assert without["encryptedFields"] == [{"key": "kek", "fields": 3, "problem": no_service}]
    pytest.importorskip("pyarrow")
    for with_keys, document, problem in ((True, plain, damaged), (False, json.loads(value), no_service)):
        (row,) = _rows(data, viewers(with_keys))
        assert (row["value"], json.loads(row["value_json"]), row["value_problem"]) == (value, document, problem)


def test_the_option_keys_names_a_file_of_settings(service: GivenKeys, tmp_path: Path) -> None:
    from kproxy.cli.options import pop_schemas  # noqa: PLC0415 - the rest needs no click

    (tmp_path / "keys.yaml").write_text("use: given\n")
    options = {
        "registries": (),
        "schema_folders": (),
        "chosen_schemas": (),
        "key_settings": str(tmp_path / "keys.yaml"),
    }
    assert _shown(field(service), make_viewers(pop_schemas(options).open()))[0]["json"] == {"total": 7}


def read_objects(data: bytes) -> list[Record]:
    from kproxy.protocol.records.editing import read_records  # noqa: PLC0415

    return [record for batch in read_records(data) for record in batch.records]


def _shown(data: bytes, viewers: Any) -> list[Any]:
    return [record["value"] for record in _opened(data, viewers)]


def _headers_shown(data: bytes, viewers: Any) -> list[tuple[str, Any]]:
    """The headers of the second record."""
    return [(header["key"], header["value"]) for header in _opened(data, viewers)[1]["headers"]]


def _opened(data: bytes, viewers: Any) -> list[Any]:
    import msgspec  # noqa: PLC0415

    shown: Any = msgspec.json.decode(msgspec.json.encode(open_records(data, "orders", 0, viewers=viewers)))
    return list(shown["records"])


def _rows(data: bytes, viewers: Any) -> list[dict[str, Any]]:
    place: Any = SimpleNamespace(direction="fetch", topic="orders", topic_id=None, partition=0)
    rows, _ = record_columns("c", None, 1, place, read_batches(data), viewers)
    listed: list[dict[str, Any]] = rows.to_pylist()
    return listed


def test_a_key_service_that_is_away_is_asked_again_later(service: GivenKeys) -> None:
    clock = [0.0]
    keys = OutputKeys(service, lambda: clock[0])
    value = read_objects(field(service))[0].value or b""
    service.error, calls = KeyServiceAway("it is slow"), len(service.calls)
    for _ in range(3):
        said = keys.decrypt(b"k", value)
        assert said is not None and said.problem == "the value takes the key 'kek': it is slow"
    assert len(service.calls) == calls + 1
    service.error, clock[0] = None, AWAY_S + 1
    assert keys.decrypt(b"k", value) == (b'{"total":7}', "kek", None)
    lost = keys.decrypt(b"k", b"\0" + value[1:])
    assert lost is not None and lost.value is None and "marker" in (lost.problem or "")
