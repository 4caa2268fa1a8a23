"""What was found, as JSON; what could not be read, in its place."""

import json
from collections.abc import Iterator
from struct import pack
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.protocol import facts, message
from kproxy.protocol.embedded.payload import (
    RECORDS_OF,
    REQUESTS,
    RESPONSES,
    Context,
    Embedded,
    holds_payloads,
    open_records_fields,
    open_request,
    open_response,
    to_json,
)
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.protocol.facts import Field
from kproxy.protocol.found import records_fields
from tests.support.corpus import golden_lines, payloads


def test_an_embedded_payload_is_an_object_of_path_in_kind_and_json() -> None:
    one = Embedded("protocols[0].metadata", "request", "consumer-subscription", {"value": msgspec.Raw(b'{"a":1}')})
    assert one.to_json() == (
        b'{"path":"protocols[0].metadata","in":"request","kind":"consumer-subscription","json":{"value":{"a":1}}}'
    )
    assert one.value() == {"value": {"a": 1}}


def test_inside_a_record_there_is_no_side() -> None:
    assert json.loads(Embedded("value", None, "x", 1).to_json()) == {"path": "value", "kind": "x", "json": 1}


def test_what_a_terminal_would_obey_is_escaped() -> None:
    """Hostile input 18: as the codec does in its JSON."""
    text = to_json({"user": "a\x1b[2J\x7f\x9b\u202e\u2028ö"})
    assert text == b'{"user":"a\\u001b[2J\\u007f\\u009b\\u202e\\u2028\xc3\xb6"}'
    assert json.loads(text) == {"user": "a\x1b[2J\x7f\x9b\u202e\u2028ö"}


def test_a_name_that_is_not_utf8_is_replaced() -> None:
    """Hostile input 18: decoded strings carry such bytes as lone surrogates."""
    name = b"t\xff".decode("utf-8", "surrogateescape")
    text = to_json({"topic": name, name: [name, msgspec.Raw(b"1")]})
    assert "\ufffd" in json.loads(text)["topic"]
    assert list(json.loads(text).values())[1][1] == 1


SUBSCRIPTION = bytes.fromhex(payloads("consumer-subscription")[0]["hex"])
ASSIGNMENT = bytes.fromhex(payloads("consumer-assignment")[0]["hex"])

SYNC = b"\0\1g" + pack(">i", 1) + b"\0\1m" + pack(">i", 0)  # SyncGroup v0: group, generation, member, no assignments


HOLDING_RECORDS = {f"{facts().apis[key].name}{where.title()}": where for key, where in RECORDS_OF.items()}


def read(name: str, version: int, data: bytes, context: Context) -> list[Embedded]:
    layout = message(name)
    if name in HOLDING_RECORDS:
        program = layout.program_of(version, layout.check(version, data))
        return open_records_fields(records_fields(program, data), HOLDING_RECORDS[name], context)
    body = layout.decode(version, data)
    return (open_request if name.endswith("Request") else open_response)(name, body, context)


def fields(found: tuple[Field, ...], path: str = "") -> Iterator[str]:
    for field in found:
        if field.type in ("bytes", "records"):
            yield path + field.json_name
        yield from fields(field.fields, f"{path}{field.json_name}.")


def test_every_field_that_could_hold_a_payload_is_opened_or_is_known_not_to() -> None:
    """19 bytes fields and 4 records fields in Kafka's requests and responses (protocol guide, 3.9)."""
    opened_or_not = {}
    for name in facts().messages():
        if name.endswith(("Request", "Response")):
            for layout in facts().layouts(name):
                for path in fields(layout.fields):
                    opened_or_not[f"{name}.{path}"] = holds_payloads(name) or name in HOLDING_RECORDS
    assert {path for path, is_opened in opened_or_not.items() if not is_opened} == {
        # secrets
        "CreateDelegationTokenResponse.hmac",
        "RenewDelegationTokenRequest.hmac",
        "ExpireDelegationTokenRequest.hmac",
        "DescribeDelegationTokenResponse.tokens.hmac",
        "AlterUserScramCredentialsRequest.upsertions.salt",
        "AlterUserScramCredentialsRequest.upsertions.saltedPassword",
        # a preview's client-side assignors, of which there never was one
        "ConsumerGroupHeartbeatRequest.clientAssignors.metadataBytes",
        "ConsumerGroupHeartbeatResponse.assignment.metadataBytes",
        "ConsumerGroupDescribeResponse.groups.members.assignment.metadataBytes",
        "ConsumerGroupDescribeResponse.groups.members.targetAssignment.metadataBytes",
    }


def test_members_of_a_join_response_are_read_by_the_type_that_the_request_names() -> None:
    """JoinGroup responses name the protocol type from version 7 on (KIP-559)."""
    structs: Any = message("JoinGroupResponse")
    response = (
        pack(">hih", 0, 1, 5)
        + b"range"
        + b"\0\1a\0\1a"
        + pack(">i", 1)
        + b"\0\1a"
        + pack(">i", len(SUBSCRIPTION))
        + SUBSCRIPTION
    )
    decoded = structs.decode(0, response)
    request: Any = message("JoinGroupRequest").decode(
        0, b"\0\1g" + pack(">i", 9) + b"\0\0\0\x08consumer" + pack(">i", 0)
    )
    found = open_response("JoinGroupResponse", decoded, Context(request=request))
    assert [(one.path, one.kind, one.value()["assignor"]) for one in found] == [
        ("members[0].metadata", "consumer-subscription", "range")
    ]
    assert open_response("JoinGroupResponse", decoded, Context()) == []  # nobody knows what it is


def test_a_sync_response_is_read_by_what_the_group_is_known_to_be() -> None:
    connect = max((bytes.fromhex(line["hex"]) for line in payloads("connect-assignment")), key=len)
    data = pack(">hi", 0, len(connect)) + connect
    assert read("SyncGroupResponse", 0, data, Context()) == []
    found = read("SyncGroupResponse", 0, data, Context(protocol_type="connect", protocol_name="sessioned"))
    assert [one.kind for one in found] == ["connect-assignment"]
    empty = pack(">hi", 0, 0)
    assert read("SyncGroupResponse", 0, empty, Context(protocol_type="consumer")) == []


def test_described_members_are_read_by_their_group() -> None:
    member = (
        b"\0\1m\0\1c\0\2/h" + pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION + pack(">i", len(ASSIGNMENT)) + ASSIGNMENT
    )
    group = pack(">h", 0) + b"\0\1g\0\6Stable\0\x08consumer\0\5range" + pack(">i", 1) + member
    found = read("DescribeGroupsResponse", 0, pack(">i", 1) + group, Context())
    assert [(one.path, one.kind, one.error) for one in found] == [
        ("groups[0].members[0].memberMetadata", "consumer-subscription", None),
        ("groups[0].members[0].memberAssignment", "consumer-assignment", None),
    ]


def test_an_envelope_response_without_its_request_says_what_is_missing() -> None:
    line = next(line for line in payloads("carrier") if line["message"] == "EnvelopeResponse")
    (one,) = read("EnvelopeResponse", 0, bytes.fromhex(line["hex"]), Context())
    assert one.error is not None
    assert "its request was not seen" in one.error


def compact(data: bytes) -> bytes:
    """COMPACT_BYTES, of any size below 16 KiB."""
    size = len(data) + 1
    return (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data


def envelope(nested: bytes) -> bytes:
    """EnvelopeRequest v0: request_data, request_principal (null), client_host_address."""
    return compact(nested) + b"\0" + compact(bytes([127, 0, 0, 1])) + b"\0"


def test_payloads_inside_the_request_inside_an_envelope_are_opened() -> None:
    join = b"\0\1g" + pack(">i", 9) + b"\0\0\0\x08consumer" + pack(">i", 1) + b"\0\5range"
    join += pack(">i", len(SUBSCRIPTION)) + SUBSCRIPTION
    found = read("EnvelopeRequest", 0, envelope(pack(">hhih", 11, 0, 7, -1) + join), Context())
    assert [(one.path, one.where, one.kind) for one in found] == [
        ("requestData", "request", "request"),
        ("clientHostAddress", "request", "address"),
        ("requestData.protocols[0].metadata", "request", "consumer-subscription"),
    ]


def test_payloads_inside_the_response_inside_an_envelope_are_opened() -> None:
    asked = message("EnvelopeRequest").decode(0, envelope(pack(">hhih", 14, 0, 7, -1) + SYNC))
    answer = pack(">ihi", 7, 0, len(ASSIGNMENT)) + ASSIGNMENT  # correlation id, error_code, assignment
    data = compact(answer) + pack(">h", 0) + b"\0"
    found = read("EnvelopeResponse", 0, data, Context(protocol_type="consumer", request=asked))
    assert [(one.path, one.kind) for one in found] == [
        ("responseData", "response"),
        ("responseData.assignment", "consumer-assignment"),
    ]


def test_an_envelope_inside_an_envelope_is_opened_no_further() -> None:
    inner = pack(">hhih", 58, 0, 7, -1) + b"\0" + envelope(pack(">hhih", 14, 0, 7, -1) + SYNC)
    found = read("EnvelopeRequest", 0, envelope(inner), Context())
    assert [one.path for one in found] == ["requestData", "clientHostAddress"]


def test_a_broken_payload_spoils_nothing_around_it() -> None:
    lines = [
        line for line in payloads("carrier") if line["message"] == "JoinGroupRequest" and len(line["embedded"]) > 2
    ]
    line = lines[0]
    decoded: Any = message("JoinGroupRequest").decode(line["version"], bytes.fromhex(line["hex"]))
    decoded.protocols[1].metadata = decoded.protocols[1].metadata[:7]
    found = open_request("JoinGroupRequest", decoded, Context())
    assert [one.error is None for one in found] == [True, False] + [True] * (len(found) - 2)
    assert json.loads(found[1].to_json()).keys() == {"path", "in", "kind", "error"}


BATCH = {topic["topic"]: bytes.fromhex(topic["hex"]) for topic in payloads("internal-topic-batch")}


def test_records_of_internal_topics_are_opened_in_produce_requests() -> None:
    for line in payloads("internal-topic-batch"):
        topic, data = line["topic"].encode(), bytes.fromhex(line["hex"])
        head = pack(">hhi", -1, -1, 1000) + pack(">i", 1)
        produce = head + pack(">h", len(topic)) + topic + pack(">iii", 1, 3, len(data)) + data
        (one,) = read("ProduceRequest", 3, produce, Context())
        value = one.value()
        assert (one.path, one.kind) == ("topicData[0].partitionData[0].records", "records")
        assert (value["topic"], value["partition"], value["count"]) == (line["topic"], 3, len(line["json"]))
        assert [{k: r[k] for k in r if k in ("key", "value", "embedded")} for r in value["records"]] == line["json"]


def test_topics_are_named_by_the_ids_that_are_known() -> None:
    topic_id = "nucO2zIL9769uIt3bNMLfA"
    data = next(iter(BATCH.values()))
    fetched: Any = message("FetchResponse").from_json(
        13,
        json.dumps({
            "throttleTimeMs": 0, "errorCode": 0, "sessionId": 0,
            "responses": [{"topicId": topic_id, "partitions": [{
                "partitionIndex": 7, "errorCode": 0, "highWatermark": 0, "lastStableOffset": 0, "logStartOffset": 0,
                "abortedTransactions": None, "preferredReadReplica": -1, "records": None,
            }]}],
        }),
    )  # fmt: skip
    fetched.responses[0].partitions[0].records = data
    data = message("FetchResponse").encode(13, fetched)
    (named,) = read("FetchResponse", 13, data, Context(topic_names={topic_id: "orders"}))
    assert (named.value()["topic"], named.value()["topicId"], named.value()["partition"]) == ("orders", topic_id, 7)
    (unnamed,) = read("FetchResponse", 13, data, Context())
    assert (unnamed.value()["topic"], unnamed.value()["topicId"]) == (None, topic_id)
    (shown,) = read("FetchResponse", 13, data, Context(topic_names={topic_id: "orders"}, viewers=Viewers()))
    assert "records" not in named.value()
    assert len(shown.value()["records"]) == named.value()["count"]


def test_the_metadata_topic_is_known_by_its_id() -> None:
    """Uuid.METADATA_TOPIC_ID is (0, 1), and no Metadata response tells its name."""
    line = next(line for line in payloads("internal-topic-batch") if line["topic"] == "__cluster_metadata")
    data = bytes.fromhex(line["hex"])
    sample = next(
        x
        for x in golden_lines("messages")
        if x["message"] == "FetchResponse" and x["version"] == 13 and x.get("records")
    )
    fetched: Any = message("FetchResponse").decode(13, bytes.fromhex(sample["hex"]))
    del fetched.responses[1:], fetched.responses[0].partitions[1:]
    fetched.responses[0].topic_id = "A" * 21 + "Q"
    fetched.responses[0].partitions[0].records = data
    (one,) = read("FetchResponse", 13, message("FetchResponse").encode(13, fetched), Context())
    assert one.value()["topic"] == "__cluster_metadata"
    assert [record["value"] for record in one.value()["records"]] == [record["value"] for record in line["json"]]


def test_a_refused_authentication_was_no_success() -> None:
    """SaslAuthenticate v0: error code, error message, token. 58 is SASL_AUTHENTICATION_FAILED."""
    for code, success in ((0, True), (58, False)):
        (one,) = read("SaslAuthenticateResponse", 0, pack(">hhi", code, -1, 0), Context(sasl_mechanism="PLAIN"))
        assert one.json == {"success": success}


@pytest.mark.parametrize("group", ["messages", "conflicts"])
def test_any_body_of_kafkas_is_opened_without_an_exception(group: str) -> None:
    """Bodies whose bytes fields hold noise, and record batches that are whole."""
    opened = 0
    for line in golden_lines(group):
        if holds_payloads(line["message"]) or line["message"] in HOLDING_RECORDS:
            for one in read(line["message"], line["version"], bytes.fromhex(line["hex"]), Context(viewers=Viewers())):
                json.loads(one.to_json())
                opened += 1
    assert opened > (300 if group == "messages" else 0) - 1


@given(
    data=st.binary(max_size=120),
    name=st.sampled_from(sorted({*REQUESTS, *RESPONSES, *HOLDING_RECORDS})),
    kind=st.sampled_from(["consumer", "connect", None]),
)
def test_any_bytes_in_any_field_give_a_list(data: bytes, name: str, kind: str | None) -> None:
    samples = [line for line in golden_lines("messages") if line["message"] == name and line["kind"] == "many"]
    for line in samples[:2]:
        decoded: Any = message(name).decode(line["version"], bytes.fromhex(line["hex"]))
        fill(decoded, data, kind)
        context = Context(protocol_type=kind, request=decoded, viewers=Viewers())
        for one in read(name, line["version"], message(name).encode(line["version"], decoded), context):
            json.loads(one.to_json())


def fill(struct: Any, data: bytes, kind: str | None) -> None:
    """Put *data* into every bytes and records field of a decoded message."""
    for field in struct.fields:
        value = getattr(struct, field.attribute)
        if field.type in ("bytes", "records"):
            setattr(struct, field.attribute, data)
        elif field.attribute == "protocol_type":
            struct.protocol_type = kind or ""
        elif field.is_struct:
            for inner in (
                value if field.is_array and value else [value] if value is not None and not field.is_array else []
            ):
                fill(inner, data, kind)
