"""Kafka's JSON to objects, held against the bytes that Kafka wrote for it, and what is refused."""

import json
import re
from typing import Any

import pytest

from kproxy.errors import EncodeError
from kproxy.protocol import message
from tests.support.corpus import golden_lines

TOPIC = '{"topics":[{"name":"a"}]}'


def refusal(name: str, version: int, text: str | bytes) -> str:
    with pytest.raises(EncodeError) as caught:
        message(name).from_json(version, text)
    return str(caught.value)


def test_kafkas_json_becomes_kafkas_bytes() -> None:
    """Where there are records, their JSON holds only their size; tags of no release are not in the corpus' JSON."""
    count = 0
    for line in golden_lines("messages"):
        if "records" not in line and "unknownTags" not in line and line["kind"] in ("typical", "nulls", "extremes"):
            layout = message(line["message"])
            value = layout.from_json(line["version"], json.dumps(line["json"]))
            assert layout.encode(line["version"], value).hex() == line["hex"]
            count += 1
    assert count > 4000


def test_values_of_each_kind() -> None:
    value = message("MetadataRequest").from_json(0, TOPIC.encode())
    assert [topic.name for topic in value.topics] == ["a"]
    assert message("MetadataRequest").from_json(1, '{"topics":null}').topics is None
    assert message("SaslAuthenticateRequest").from_json(0, '{"authBytes":"AP8="}').auth_bytes == b"\0\xff"
    quotas = '{"throttleTimeMs":0,"errorCode":0,"errorMessage":null,"entries":[{"entity":[],"values":[{"key":"k","value":%s}]}]}'
    for text, expected in (("1.5", 1.5), ('"Infinity"', float("inf")), ('"-Infinity"', float("-inf"))):
        found = message("DescribeClientQuotasResponse").from_json(0, quotas % text)
        assert found.entries[0].values[0].value == expected


def test_records_are_base64_under_their_own_name() -> None:
    partition = '{"index":0,"records":"AAE="}'
    text = f'{{"acks":1,"timeoutMs":0,"topicData":[{{"name":"t","partitionData":[{partition}]}}]}}'
    value = message("ProduceRequest").from_json(0, text)
    assert value.topic_data[0].partition_data[0].records == b"\0\1"
    only_size = text.replace('"records":"AAE="', '"recordsSizeInBytes":2')
    assert (
        refusal("ProduceRequest", 0, only_size)
        == "ProduceRequest v0: topicData[0].partitionData[0].records: is missing"
    )


def test_tagged_fields_may_be_missing_and_unknown_tags_come_back() -> None:
    text = '{"errorCode":0,"apiKeys":[],"throttleTimeMs":0,"_unknownTaggedFields":[{"tag":99,"data":"aGk="}]}'
    value = message("ApiVersionsResponse").from_json(3, text)
    assert (value.finalized_features_epoch, value.unknown_tags) == (-1, ((99, b"hi"),))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "MetadataRequest v1: topics: is missing"),
        ('{"topics":[{}]}', "MetadataRequest v1: topics[0].name: is missing"),
        ('{"topics":5}', "MetadataRequest v1: topics: is a int, not a list"),
        ('{"topics":[5]}', "MetadataRequest v1: topics[0]: is a int, not an object"),
        ("[]", "MetadataRequest v1: is a list, not an object"),
        ('{"topics":[],"more":1}', "MetadataRequest v1: has no field 'more' in this version"),
        (
            '{"topics":[],"allowAutoTopicCreation":true}',
            "MetadataRequest v1: has no field 'allowAutoTopicCreation' in this version",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(text: str, says: str) -> None:
    assert refusal("MetadataRequest", 1, text) == says


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, '{"topics": 1e}', "9" * 5_000])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    assert refusal("MetadataRequest", 1, text).startswith("MetadataRequest v1: ")


@pytest.mark.parametrize("data", ['"A"', '"!!!!"', '"é"', "5", "[]"])
def test_what_is_not_base64_is_refused_without_showing_it(data: str) -> None:
    says = refusal("SaslAuthenticateRequest", 0, f'{{"authBytes":{data}}}')
    assert says.startswith("SaslAuthenticateRequest v0: authBytes: is ") and says.endswith("not base64")
    assert "canary" not in refusal("SaslAuthenticateRequest", 0, '{"authBytes":"canary!"}')


@pytest.mark.parametrize(
    "tags", ["5", "[5]", '[{"tag":1}]', '[{"tag":"x","data":""}]', '[{"tag":Infinity,"data":""}]', "{}x", "null"]
)
def test_unknown_tags_that_cannot_be_are_refused(tags: str) -> None:
    assert refusal("ApiVersionsRequest", 0, f'{{"_unknownTaggedFields":{tags}}}').startswith("ApiVersionsRequest v0: ")


def test_a_version_that_is_not_there_is_refused() -> None:
    assert refusal("MetadataRequest", 99, TOPIC) == "MetadataRequest has no version 99, only 0-13"


def test_a_decoded_log_may_have_null_only_where_the_bytes_could() -> None:
    """Null in place of a string or of bytes is read as in Message.decode: some brokers send it."""
    sync = message("SyncGroupResponse")
    assert sync.from_shown(3, '{"errorCode":27,"assignment":null}', lambda *_: None).assignment == b""
    metadata = message("MetadataResponse")
    shown: Any = metadata.from_shown(1, '{"brokers":[{"nodeId":1,"host":null,"rack":null}]}', lambda *_: None)
    assert (shown.brokers[0].host, shown.brokers[0].rack) == ("", None)
    for text, path in (
        ('{"brokers":null}', "brokers"),
        ('{"brokers":[{"nodeId":null}]}', "brokers[0].nodeId"),
        ('{"topics":[{"partitions":[{"replicaNodes":[null]}]}]}', "topics[0].partitions[0].replicaNodes[0]"),
    ):
        with pytest.raises(EncodeError, match=f"{re.escape(path)}: is "):
            metadata.from_shown(1, text, lambda *_: None)
    with pytest.raises(EncodeError, match="is a NoneType"):
        message("HeartbeatRequest").from_shown(0, "null", lambda *_: None)
