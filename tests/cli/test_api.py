"""kproxy api: every API and message can be looked up, in 80 columns, as text and as JSON."""

import json

import pytest

from kproxy.cli.api import Difference, FieldTree, all_versions, differences, layout_at
from kproxy.output.text.styles import PLAIN
from kproxy.protocol import facts, request_header_version
from tests.cli.conftest import Kproxy


class Api:
    """Runs ``kproxy api``."""

    def __init__(self, kproxy: Kproxy) -> None:
        self._kproxy = kproxy

    def __call__(self, *words: object) -> tuple[int, str, str]:
        return self._kproxy("api", *words)


@pytest.fixture
def api(kproxy: Kproxy) -> Api:
    return Api(kproxy)


def test_the_list_has_every_api(api: Api) -> None:
    code, out, _ = api()
    lines = out.splitlines()[1:]
    assert code == 0
    assert [int(line[:3]) for line in lines] == list(range(93))
    fetch = lines[1].split()
    assert fetch[:4] == ["1", "Fetch", "0-18", "12+"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", ["Fetch", "fetch", "FETCH", "1"])
def test_an_api_is_found_by_name_in_any_case_and_by_key(api: Api, name: str) -> None:
    _, out, _ = api(name)
    assert out.startswith("Fetch  key 1  versions 0-18  flexible 12+")
    assert "version 13" in out
    assert "request   + topics.topicId: uuid" in out


def test_a_version_has_both_messages_with_header_versions(api: Api) -> None:
    _, out, _ = api("ApiVersions", 3)
    assert "ApiVersionsRequest  version 3, flexible, request header 2" in out
    assert "ApiVersionsResponse  version 3, flexible, response header 0" in out  # KIP-511
    assert "├─ clientSoftwareName: string" in out


def test_messages_that_are_no_api_can_be_looked_up(api: Api) -> None:
    _, out, _ = api("offsetcommitvalue", 4)
    assert out.startswith("OffsetCommitValue  version 4, flexible")
    _, out, _ = api("OffsetCommitValue")
    assert "kafka-group-coordinator" in out


def test_a_difference(api: Api) -> None:
    _, out, _ = api("Fetch", "--diff", 11, 12)
    assert "  + topics.partitions.lastFetchedEpoch: int32, default -1" in out.splitlines()


def test_error_codes(api: Api) -> None:
    _, out, _ = api("--errors")
    lines = out.splitlines()
    assert "  6  NOT_LEADER_OR_FOLLOWER  retriable" in lines
    assert "     Client: refresh metadata and send to the leader." in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("words", [("--errors", 16), ("--errors", "not_coordinator"), ("NOT_COORDINATOR",)])
def test_one_error_code(api: Api, words: tuple[object, ...]) -> None:
    code, out, _ = api(*words)
    assert code == 0
    assert out.startswith(" 16  NOT_COORDINATOR  retriable\n")
    assert out.count("Client: ") == 1


@pytest.mark.parametrize(
    ("former", "key"),
    [("ListOffset", 2), ("Offsets", 2), ("GroupCoordinator", 10), ("AlterIsr", 56), ("ListClientMetricsResources", 74)],
)
def test_former_names_are_known(api: Api, former: str, key: int) -> None:
    """Keys as in org.apache.kafka.common.protocol.ApiKeys, which keeps them when names change."""
    assert f"  key {key}  " in api(former)[1].splitlines()[0]


def test_every_api_fits_into_80_columns(api: Api) -> None:
    for key in facts().apis:
        code, out, _ = api(key)
        assert code == 0
        assert not [line for line in out.splitlines() if len(line) > 80], key


def test_json_says_the_same(api: Api) -> None:
    listed = json.loads(api("--format", "json")[1])
    assert [row["apiKey"] for row in listed] == list(range(93))
    fields = json.loads(api("Fetch", 13, "--format", "json")[1])
    assert fields["FetchRequest"]["headerVersion"] == request_header_version(1, 13)
    topics = next(field for field in fields["FetchRequest"]["fields"] if field["name"] == "topics")
    assert [field["name"] for field in topics["fields"]] == ["topicId", "partitions"]
    changes = json.loads(api("Fetch", "--diff", 10, 11, "--format", "json")[1])
    assert changes["FetchRequest"] == [{"sign": "+", "path": "rackId", "what": "string"}]
    assert len(json.loads(api("--errors", "--format", "json")[1])) == 135
    assert json.loads(api("Fetch", "--format", "json")[1])["FetchRequest"]["changes"]["13"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("Fecth",), "did you mean Fetch"),
        (("zzzzzz",), "kproxy api and kproxy api --errors list them all"),
        (("NOT_COORDINATR",), "did you mean NOT_COORDINATOR"),
        (("Fetch", "99"), "Fetch has versions 0-18, not 99"),
        (("Fetch", "--diff", "1", "99"), "Fetch has versions 0-18, not 99"),
        (("9999",), "there is no API, message or error '9999'"),
        (("--errors", "zzz"), "there is no error code 'zzz'"),
        (("--errors", "16", "3"), "--errors takes one code or name"),
        (("--diff", "1", "2"), "kproxy api Fetch 13"),
        (("Fetch", "x"), "'x' is not a whole number; see kproxy api --help"),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(api: Api, words: tuple[str, ...], said: str) -> None:
    code, out, err = api(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def tree(message: str, version: int, width: int = 80) -> list[str]:
    layout = layout_at(message, version)
    assert layout is not None
    return list(FieldTree(layout, version, PLAIN, width).render())


def test_fields_have_type_nullability_tag_and_default() -> None:
    lines = tree("FetchRequest", 12)
    assert lines[0] == "├─ clusterId: string  nullable, tag 0, default null"  # KIP-595
    assert "├─ isolationLevel: int8" in lines
    assert "│     0 READ_UNCOMMITTED; 1 READ_COMMITTED" in lines
    assert lines[-1] == "└─ rackId: string"  # KIP-392


def test_only_fields_of_the_version_are_there() -> None:
    assert not [line for line in tree("FetchRequest", 12) if "topicId" in line]
    assert [line for line in tree("FetchRequest", 13) if "topicId: uuid" in line]  # KIP-516


@pytest.mark.parametrize(
    ("message", "old", "new", "expected"),
    [
        ("MetadataRequest", 3, 4, [Difference("+", "allowAutoTopicCreation", "bool, default True")]),  # KIP-204
        ("OffsetCommitRequest", 4, 5, [Difference("-", "retentionTimeMs", "int64")]),  # KIP-211
        ("HeartbeatRequest", 2, 3, [Difference("+", "groupInstanceId", "string, nullable, default null")]),  # KIP-345
        ("MetadataRequest", 5, 6, []),
    ],
)
def test_differences_are_those_of_the_kips(message: str, old: int, new: int, expected: list[Difference]) -> None:
    assert differences(message, old, new) == expected


def test_an_added_struct_is_one_difference() -> None:
    paths = [d.path for d in differences("ProduceResponse", 7, 8)]  # KIP-467
    assert paths == ["responses.partitionResponses.recordErrors", "responses.partitionResponses.errorMessage"]


def test_becoming_flexible_is_a_difference() -> None:
    first = differences("FetchRequest", 11, 12)[0]
    assert first == Difference("~", "", "flexible: compact encodings, tagged fields")  # KIP-482


def test_every_message_at_every_version_fits_into_80_columns() -> None:
    wide = [
        (message, version, line)
        for message in facts().messages()
        for version in all_versions(message)
        for line in tree(message, version)
        if len(line) > 80
    ]
    assert not wide
