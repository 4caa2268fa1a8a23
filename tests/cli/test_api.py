"""kproxy api: every API and message can be looked up, in 80 columns, as text and as JSON."""

import json

import pytest

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
        (("zzzzzz",), "kproxy api lists them all"),
        (("Fetch", "99"), "Fetch has versions 0-18, not 99"),
        (("Fetch", "--diff", "1", "99"), "Fetch has versions 0-18, not 99"),
        (("9999",), "there is no API or message '9999'"),
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
