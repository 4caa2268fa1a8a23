"""Credentials are out of frames that are written anew, and nothing else is."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.output.rewriting.rewriter import Context, Rewriter, blank_token, has_records, has_secrets
from kproxy.protocol import Direction, message
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.session import Connection, Exchange
from kproxy.session.session import Session
from tests.support.frames import array, compact, frame, request, response, string

GOLDEN = Path(__file__).parents[2] / "golden" / "messages.jsonl.gz"
METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def conversation(sent: bytes, answered: bytes) -> Exchange:
    session = Session(number=1, client="10.0.0.1:50000", broker="10.0.0.2:9092")
    session.receive(Direction.REQUEST, sent, 1)
    (event,) = session.receive(Direction.RESPONSE, answered, 2)
    assert isinstance(event, Exchange)
    return event


def test_sasl_tokens_lose_their_secrets() -> None:
    token = b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"
    exchange = conversation(
        request(36, 1, 7, len(token).to_bytes(4, "big") + token),
        response(7, b"\0\0" + string(None) + b"\0\0\0\5proof" + bytes(8)),
    )
    done = Rewriter().exchange(exchange).exchange
    assert done.request is not None and exchange.request is not None
    assert done.request.data == exchange.request.data.replace(b"fyko+d2lbbFgONRv9qkxdawL", b"x" * 24)
    assert done.response is not None and exchange.response is not None
    assert done.response.data == exchange.response.data.replace(b"proof", bytes(5))


def test_a_frame_without_credentials_is_the_same_object() -> None:
    exchange = conversation(request(12, 0, 3, string("g") + bytes(4) + string("m")), response(3, b"\0\0"))
    done = Rewriter().exchange(exchange)
    assert done.exchange.request is exchange.request
    assert done.exchange.response is exchange.response
    assert (done.request_note, done.response_note) == ("", "")


def test_values_of_settings_are_judged_by_their_names() -> None:
    entries = array(string("ssl.keystore.password") + string("hunter2"), string("retention.ms") + string("86400"))
    body = array(b"\2" + string("orders") + entries) + b"\0"
    alter = message("AlterConfigsRequest")
    written = Rewriter().body(alter, 0, body, 0, Context())
    assert written == body.replace(b"hunter2", b"xxxxxxx")


def test_a_body_that_is_not_kafkas_encoding_is_blanked_with_a_note() -> None:
    # SaslAuthenticate v2 (flexible): auth_bytes, with the size 6 as a varint of two bytes where one is enough
    sent = frame(b"\0\x24\0\2\0\0\0\1" + string("app") + b"\0" + b"\x86\0" + b"token" + b"\0")
    exchange = conversation(sent, response(1, b"\0\0\0" + b"\1" + bytes(8) + b"\0", tags=b"\0"))
    done = Rewriter().exchange(exchange)
    assert done.exchange.request is not None and exchange.request is not None
    start = exchange.request.body_start
    assert done.exchange.request.data == exchange.request.data[:start] + bytes(8)
    assert "blanked: its encoding is not Kafka's own" in done.request_note


def test_what_nobody_can_read_stays_only_where_no_credentials_can_be() -> None:
    unknown = Exchange(Connection(1, "10.0.0.1:1", "10.0.0.2:2"), 1, api_key=12)
    rewriter = Rewriter()
    assert rewriter.keeps_unread(12)
    assert not rewriter.keeps_unread(36)
    assert not rewriter.keeps_unread(1)  # Fetch: records of the metadata topic
    assert not rewriter.keeps_unread(None)
    assert rewriter.exchange(unknown).exchange.api_key == 12


def test_scram_keys_in_the_metadata_topic_are_zeros() -> None:
    # UserScramCredentialRecord v0: name, mechanism, salt, stored key, server key, iterations, tags
    secret = b"\x05salt\x07stored\x07server"
    value = b"\1\x0b\0" + compact("alice") + b"\1" + secret + b"\0\0\x10\0" + b"\0"
    records = write_batches([RecordBatch([Record(value=value)])])
    fetch = message("FetchResponse")
    body: Any = fetch.from_json(13, '{"throttleTimeMs":0,"errorCode":0,"sessionId":0,"responses":[]}')
    topic = type(body).struct_types["FetchableTopicResponse"](topic_id=METADATA_ID)
    topic.partitions.append(type(body).struct_types["PartitionData"](records=records))
    body.responses.append(topic)
    context = Context({METADATA_ID: "__cluster_metadata"})
    written: Any = fetch.decode(13, Rewriter().body(fetch, 13, fetch.encode(13, body), 0, context))
    (batch,) = read_records(written.responses[0].partitions[0].records)
    assert batch.records[0].value == value.replace(secret, b"\x05" + bytes(4) + b"\x07" + bytes(6) + b"\x07" + bytes(6))


def test_the_request_inside_an_envelope_is_written_anew() -> None:
    inner = request(12, 0, 3, string("g") + bytes(4) + string("m"), client_id="inner")[4:]
    secret = request(36, 1, 3, b"\0\0\0\5token", client_id="inner")[4:]
    for nested, expected in ((inner, inner), (secret, secret.replace(b"token", bytes(5)))):
        body = bytes([len(nested) + 1]) + nested + b"\0" + b"\5\x7f\0\0\1" + b"\0"
        sent = frame(b"\0\x3a\0\0\0\0\0\1" + string("broker") + b"\0" + body)
        done = Rewriter().exchange(conversation(sent, response(1, b"\0\0\0\0", tags=b"\0")))
        assert done.exchange.request is not None
        assert done.exchange.request.data == sent[4:].replace(nested, expected)


def test_every_message_of_kafkas_keeps_its_bytes_but_for_credentials() -> None:
    rewriter, count = Rewriter(), 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            data, of = bytes.fromhex(row["hex"]), message(row["message"])
            if has_records(of.name):
                continue
            count += 1
            written = rewriter.body(of, row["version"], data, 0, Context())
            assert len(written) == len(data)
            assert written == data or has_secrets(of.name), of
            shown = of.to_json(row["version"], written, withhold=True)
            assert of.name.startswith("Envelope") or shown == of.to_json(row["version"], data, withhold=True)
    assert count > 5_000


def test_bytes_after_a_message_stay_and_those_after_credentials_are_zeros() -> None:
    """AlterUserScramCredentials v0 of librdkafka 2.16 has a byte after it."""
    scram = compact("alice") + b"\2" + (4096).to_bytes(4, "big") + b"\5salt" + b"\7secret" + b"\0"
    altering = request(51, 0, 7, b"\1\2" + scram + b"\0" + b"more", tags=b"\0")
    exchange = conversation(altering, response(7, b"\0\0\0\0\1\0\0", tags=b"\0"))
    assert exchange.request is not None and exchange.response is not None
    assert (exchange.request.trailing, exchange.response.trailing) == (4, 1)
    done = Rewriter().exchange(exchange).exchange
    assert done.request is not None and done.response is not None
    assert done.response.data == exchange.response.data
    assert len(done.request.data) == len(exchange.request.data)
    assert done.request.data[-5:] == bytes(5) and b"secret" not in done.request.data and b"alice" in done.request.data
    body = done.request_body()
    assert [one.name for one in body.upsertions] == ["alice"]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", b"n,,n=USER,r=xxxxxxxxxxxxxxxxxxxxxxxx"),
        (b"r=fyko+d2,s=QSXCR+Q6sek8bf92,i=4096", b"r=xxxxxxx,s=xxxxxxxxxxxxxxxx,i=4096"),
        (b"c=biws,r=fyko+d2lb,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", b"c=biws,r=xxxxxxxxx,p=xxxxxxxxxxxxxxxxxxxxxxxxxxx="),
        (b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", b"v=xxxxxxxxxxxxxxxxxxxxxxxxxxx="),
        (b"e=invalid-proof", b"e=invalid-proof"),
        (b"\0tim\0tanstaaftanstaaf", b"\0TIM\0xxxxxxxxxxxxxxxx"),
        (b"Ursel\0Kurt\0xipj3plmq", b"URSEL\0KURT\0xxxxxxxxx"),
        (b"n,,\1auth=Bearer token\1\1", bytes(23)),
        (b"\x60\x82opaque", bytes(8)),
        (b"", b""),
    ],
)
def test_a_token_keeps_its_size_and_loses_its_secrets(token: bytes, expected: bytes) -> None:
    assert blank_token(token, bytes.upper) == expected
