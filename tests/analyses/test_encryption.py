"""The question "encryption": which keys, since when, who writes plain, what a rotation left, over rows whose truth is chosen."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from kproxy.analyses import library
from kproxy.analyses.report.templates import fill
from kproxy.encryption.envelope import BYTES_FIELD, FIELD, HEADER, KEY, Envelope, envelope_of
from kproxy.encryption.fields import envelope_in
from kproxy.encryption.reading import NO_SERVICE
from tests.support.scenes.rows import Rows


def value(key_name: str, topic: str, wrapped: bytes, plain: int = 5, codec: int = 0) -> bytes:
    return Envelope(key_name, topic, wrapped, codec).encoded() + bytes(12 + plain + 16)


def seen(key: bytes | None, data: bytes | None, headers: tuple[tuple[bytes, bytes | None], ...] = ()) -> dict[str, Any]:
    """Columns of a record whose parts are stored so, and were not decrypted."""
    shown = [
        {"key": name, "value": one, "envelope": None if one is None else envelope_of(one, HEADER), "problem": None}
        for name, one in headers
    ]
    envelopes = {
        "key_envelope": None if key is None else envelope_of(key, KEY),
        "value_envelope": None if data is None else envelope_in(data),
    }
    return {"key": key, "value": data, "headers": shown, **envelopes}


def local(version: int, number: int = 0) -> bytes:
    """Data key *number*, as a key set wraps it by a version."""
    return b"\1" + version.to_bytes(4, "big") + bytes([number]) * 60


def test_keys_writers_and_what_was_left(tmp_path: Path) -> None:
    tables = Rows()
    vault = [f"vault:v{version}:{'A' * 80}".encode() for version in (9, 10)]
    one, three = (value("kek", "orders", local(version)) for version in (1, 2))
    two = value("kek", "orders", local(1, 7), codec=4)
    written = {
        ("orders", "shop"): [(0, b"plain"), (10, one), (11, two), (20, three)],
        ("orders", "script"): [(15, b"plain"), (16, None)],
        ("bills", "shop"): [(1, value("kek-ä", "bills", vault[0])), (2, value("kek-ä", "bills", vault[1], 0))],
        ("moved", "mirror"): [(3, one), (4, one[:-40]), (5, b"\xc3KPE"), (6, b"\xc3KPE\x01\x00" + b"\xff" * 90)],
        ("early", "shop"): [(0, b"plain"), (1, value("aws", "early", b"\1" * 184))],
        ("plain", "shop"): [(0, b"C34B5045"), (1, b"\xc3\x28")],
    }
    for (topic, client), values in written.items():
        producer = tables.client(client)
        for at, data in values:
            exchange = producer.produce(at, topic)
            producer.record(exchange, topic, **seen(b"key", data))
    reader = tables.client("reader")
    reader.record(
        reader.fetch(30, "orders", 0, end=9, count=1),
        "orders",
        direction="fetch",
        value_problem=NO_SERVICE,
        **seen(None, one),
    )
    rows = tables.answer(tmp_path, "encryption")
    found = {(row["topic"], row["key_name"], row["key_version"]): row for row in rows}
    assert fill(library.load()["encryption"].header.verdict, rows) == (
        "4 topics with encrypted values, by 3 keys; plain ones written since in 1 topic, most by script, shop; 3 topics "
        f"with records that rest on an older version of a key; 4 do not open: {NO_SERVICE}; most values: moved"
    )
    shown = {
        key: (
            row["produced"],
            row["fetched"],
            row["data_keys"],
            row["writers"],
            row["readers"],
            row["is_older"],
            row["is_late"],
        )
        for key, row in found.items()
    }
    assert shown == {
        ("orders", "kek", 1): (2, 1, 2, ["shop"], ["reader"], True, False),
        ("orders", "kek", 2): (1, 0, 1, ["shop"], [], False, False),
        ("orders", None, None): (2, 0, 0, ["script", "shop"], [], False, True),
        ("bills", "kek-ä", 9): (1, 0, 1, ["shop"], [], True, False),
        ("bills", "kek-ä", 10): (1, 0, 1, ["shop"], [], False, False),
        ("moved", "kek", 1): (1, 0, 1, ["mirror"], [], True, False),
        ("moved", None, None): (3, 0, 0, ["mirror"], [], False, False),
        ("early", None, None): (1, 0, 0, ["shop"], [], False, False),
        ("early", "aws", None): (1, 0, 1, ["shop"], [], False, False),
    }
    assert {key: row["other_topic"] for key, row in found.items() if row["other_topic"]} == {
        ("moved", "kek", 1): "orders"
    }
    assert {key: row["problem"] for key, row in found.items() if row["problem"]} == {("orders", "kek", 1): NO_SERVICE}
    assert {key: row["damaged"] for key, row in found.items() if row["damaged"]} == {("moved", None, None): 3}


def test_record_keys_are_counted_like_values(tmp_path: Path) -> None:
    """Also keys of a topic whose values are plain, and plain keys after encrypted ones."""
    tables = Rows()

    def key(version: int, size: int = 20) -> bytes:
        return Envelope("kek-k", "orders", local(version), part=KEY).encoded() + bytes(size)

    producer = tables.client("shop")
    whole, plain = value("kek", "orders", local(1)), b"plain"
    written = [
        (b"before", whole),
        (key(1), whole),
        (key(2), None),
        (key(1, 15), plain),
        (None, whole),
        (b"after", plain),
    ]
    for at, (record_key, data) in enumerate(written):
        producer.record(producer.produce(at, "orders"), "orders", **seen(record_key, data))
    producer.record(producer.produce(9, "values"), "values", **seen(b"plain", value("kek", "values", local(1))))
    producer.record(producer.produce(9, "keys"), "keys", **seen(key(2, 16), plain))
    found = {
        (row["topic"], row["part"], row["key_version"]): (
            row["produced"],
            row["is_older"],
            row["is_late"],
            row["damaged"],
        )
        for row in tables.answer(tmp_path, "encryption")
    }
    assert found == {
        ("orders", "key", 1): (1, True, False, 0),
        ("orders", "key", 2): (1, False, False, 0),
        ("orders", "key", None): (3, False, True, 1),
        ("orders", "value", 1): (3, False, False, 0),
        ("orders", "value", None): (2, False, True, 0),
        ("values", "value", 1): (1, False, False, 0),
        ("keys", "key", 2): (1, False, False, 0),
    }


def test_headers_are_counted_by_their_name_where_one_of_the_name_is_encrypted(tmp_path: Path) -> None:
    """In a topic without other encrypted parts; a name that is no UTF-8; a damaged one; a name that no rule has."""
    tables = Rows()
    producer = tables.client("shop")

    def header(version: int) -> bytes:
        return Envelope("kek", "orders", local(version), part=HEADER).encoded() + bytes(12 + 4 + 16)

    written = [(b"secret", header(1)), (b"secret", header(2)), (b"secret", b"plain"), (b"secret", header(2)[:-30])]
    for at, (name, data) in enumerate([*written, (b"\xff", header(1))]):
        headers = (b"trace", b"00-1"), (name, data), (b"none", None)
        producer.record(producer.produce(at, "orders"), "orders", **seen(b"key", b"plain", headers))
    producer.record(producer.produce(9, "plain"), "plain", **seen(b"key", b"plain", headers[:1]))
    found = {
        (row["part"], row["key_version"]): (row["produced"], row["is_older"], row["is_late"], row["damaged"])
        for row in tables.answer(tmp_path, "encryption")
    }
    assert found == {
        ("header secret", 1): (1, True, False, 0),
        ("header secret", 2): (1, False, False, 0),
        ("header secret", None): (2, False, True, 1),
        ("header FF", 1): (1, True, False, 0),
    }


def test_a_value_with_an_encrypted_field_counts_as_encrypted(tmp_path: Path) -> None:
    """Texts and bytes of each size, in JSON and between other bytes; a cut one; a value without any, afterwards."""
    tables = Rows()
    producer = tables.client("shop")

    def field(version: int, plain: int, part: int = FIELD) -> bytes:
        sealed = Envelope("kek", "orders", local(version), part=part).encoded() + bytes(12 + plain + 16)
        return b64encode(sealed) if part == FIELD else sealed

    values = [b'{"a":1,"b":"%b","c":"%b"}' % (field(1, size), field(2, 9)) for size in range(4)]
    values += [b"\0\0\0\0\7\xff" + field(1, 0) + b"AAAA", b"\0\0\0\0\7\xff" + field(2, 0, BYTES_FIELD) + b"x"]
    values += [b'{"a":"%b"}' % field(1, 9)[:-60], b'{"a":"plain"}', b"w0tQRQED"]
    for at, data in enumerate(values):
        producer.record(producer.produce(at, "orders"), "orders", **seen(b"key", data))
    found = {
        row["key_version"]: (row["part"], row["produced"], row["is_late"], row["damaged"])
        for row in tables.answer(tmp_path, "encryption")
    }
    assert found == {1: ("value", 5, False, 0), 2: ("value", 1, False, 0), None: ("value", 3, True, 1)}


def test_with_keys_it_says_what_opens(tmp_path: Path) -> None:
    """And the same keys, writers and times as without: here a value with a problem of its schema, and a field."""
    tables = Rows()
    producer = tables.client("shop")
    whole, gone = value("kek", "orders", local(2)), value("kek", "orders", local(1))
    field = b'{"a":"%b"}' % b64encode(Envelope("kek", "orders", local(2), part=FIELD).encoded() + bytes(30))
    for at, (data, changed) in enumerate(
        [
            (gone, {"value_problem": "version 1 has been destroyed"}),
            (whole, {"value": b"opened", "value_problem": "no schema with this id is known"}),
            (field, {}),
            (b"plain", {}),
        ]
    ):
        columns = seen(b"key", data) | changed
        producer.record(producer.produce(at, "orders"), "orders", **columns)
    shut, opened, plain = sorted(
        tables.answer(tmp_path, "encryption"), key=lambda row: (row["key_name"] is None, row["key_version"])
    )
    assert (shut["produced"], shut["opened"], shut["unopened"]) == (1, 0, 1)
    assert shut["problem"] == "version 1 has been destroyed"
    assert (opened["produced"], opened["opened"], opened["unopened"], opened["problem"]) == (2, 2, 0, None)
    assert (plain["produced"], plain["opened"], plain["unopened"], plain["is_late"]) == (1, 0, 0, True)
