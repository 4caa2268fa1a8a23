"""The facts, held against Kafka's own bytes (tests/golden) and against lines written by hand."""

import base64
import re

import pytest
from click.testing import CliRunner
from pytest import MonkeyPatch

from kproxy.extract import __main__ as extraction
from kproxy.protocol import ApiKey, constants
from kproxy.protocol.facts import ZERO_UUID, Facts, Field, facts, read_data_file, releases, snake_case
from kproxy.protocol.judgements import apis_for_replay, judgements
from kproxy.protocol.versions import Versions
from tests.support.corpus import golden_lines

TEXT = """\
releases 3.9.2 4.3.1
error 35 UNSUPPORTED_VERSION -
error 7 REQUEST_TIMED_OUT retriable
api 3 Sample listeners=broker,controller versions=0-2 unstable=2
message SampleRequest type=request api=3 module=kafka-clients release=4.3.1 versions=0-2 flexible=2+
  Topics []SampleTopic 0+ nullable=1+
    Name string 0+ key entity=topicName
    TopicId uuid 2+ ignorable
  Timeout int32 0-1 default=60000
  Note string 2+ tag=3 tagged=2+ nullable=2+ default=null
message SampleRequest type=request api=3 module=kafka-clients release=3.9.2 versions=0 flexible=none
  Timeout int64 0+
message SampleKey type=coordinator-key id=7 module=group-coordinator release=4.3.1 versions=0 flexible=none
"""


def test_a_block_becomes_a_layout() -> None:
    newest, older = Facts(TEXT).layouts("SampleRequest")
    topics, timeout, note = newest.fields
    assert (newest.api_key, newest.record_id, newest.release) == (3, None, "4.3.1")
    assert older.fields == (Field("Timeout", "timeout", "timeout", "int64", False, Versions.parse("0+"), default=0),)
    assert (topics.is_array, topics.is_struct, topics.type_text) == (True, True, "[]SampleTopic")
    assert [f.attribute for f in topics.fields] == ["name", "topic_id"]
    assert (topics.fields[0].entity, topics.fields[0].is_key) == ("topicName", True)
    assert (topics.fields[1].default, topics.fields[1].ignorable) == (ZERO_UUID, True)
    assert (timeout.default, timeout.json_name) == (60000, "timeout")
    assert (note.tag, note.default, 2 in note.tagged, 2 in note.nullable) == (3, None, True, True)


def test_the_lines_beside_the_messages() -> None:
    found = Facts(TEXT)
    assert found.messages() == ["SampleRequest", "SampleKey"]
    assert found.kafka_releases == ("3.9.2", "4.3.1")
    assert [(e.code, e.name, e.retriable) for e in found.errors] == [
        (35, "UNSUPPORTED_VERSION", False),
        (7, "REQUEST_TIMED_OUT", True),
    ]
    api = found.apis[3]
    assert (api.name, api.listeners, str(api.versions), str(api.unstable)) == (
        "Sample",
        ("broker", "controller"),
        "0-2",
        "2",
    )
    assert found.layouts("SampleKey")[0].record_id == 7
    assert str(found.flexible("SampleRequest")) == "2+"
    assert str(found.versions("SampleRequest")) == "0-2"


def test_an_unknown_message_is_a_key_error() -> None:
    for ask in (facts().layouts, facts().flexible):
        with pytest.raises(KeyError):
            ask("NoSuchRequest")


def test_every_version_kafka_wrote_is_known_and_flexible_where_kafka_says() -> None:
    seen = set()
    for line in golden_lines("messages"):
        seen.add((line["message"], line["version"]))
        assert (line["version"] in facts().flexible(line["message"])) == line["flexible"]
    assert len(seen) == 722  # tests/golden/README.md
    apis = {line["apiKey"] for line in golden_lines("messages")}
    assert apis == set(facts().apis)
    known = {
        (f"{api.name}{side}", version)
        for api in facts().apis.values()
        for side in ("Request", "Response")
        for version in Versions.union(la.versions for la in facts().layouts(f"{api.name}{side}"))
    }
    assert known == seen


def test_releases_give_known_versions() -> None:
    assert releases()[18, 0] == "0.10.0"  # KIP-35 came with 0.10.0
    assert {key for key, _ in releases()} <= set(facts().apis)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("TransactionalId", "transactional_id"),
        ("timeoutMs", "timeout_ms"),
        ("KRaftVersion", "kraft_version"),
        ("isKRaftController", "is_kraft_controller"),
        ("SupportedFeatures", "supported_features"),
        ("PIDFoo", "pid_foo"),
    ],
)
def test_names_in_python(name: str, attribute: str) -> None:
    assert snake_case(name) == attribute


def test_every_api_of_the_facts_is_a_member_and_no_other() -> None:
    assert {key.value: key.name for key in ApiKey} == {
        number: snake_case(api.name).upper() for number, api in facts().apis.items()
    }
    assert len(ApiKey) == 93


def test_every_api_has_a_judgement_and_there_are_no_others() -> None:
    assert judgements().keys() == {api.name for api in facts().apis.values()}


def test_what_no_broker_serves_to_clients_is_internal() -> None:
    controllers = {key for key, api in facts().apis.items() if "broker" not in api.listeners}
    assert controllers and controllers <= apis_for_replay("internal")


def test_extraction_refuses_an_api_without_a_judgement(monkeypatch: MonkeyPatch) -> None:
    new = re.sub(r"^(api \d+ )Heartbeat ", r"\1NewApi ", read_data_file("facts.txt"), flags=re.MULTILINE)
    monkeypatch.setattr(extraction, "facts_of", lambda jars: new)
    run = CliRunner().invoke(extraction.main, ["--check"])
    assert run.exit_code == 2
    assert run.stderr == "error: kproxy/protocol/api_judgements.txt lacks NewApi\n"


def test_no_api_has_a_number_that_begins_as_a_gssapi_token() -> None:
    assert max(facts().apis) >> 8 < constants.GSSAPI_FIRST_BYTE


def text_of(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def test_the_text_of_an_id_is_that_of_its_bytes() -> None:
    assert text_of(bytes(16)) == constants.ZERO_UUID
    assert text_of(constants.METADATA_TOPIC_ID_BYTES) == constants.METADATA_TOPIC_ID
