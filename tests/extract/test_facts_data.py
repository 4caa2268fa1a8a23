"""The two data files against what others say: Kafka's own bytes, its published guide, its published dates."""

import gzip
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.extract.__main__ import FACTS
from kproxy.protocol.facts import releases
from kproxy.protocol.versions import Versions

GOLDEN = Path(__file__).parents[1] / "golden"
LINES = FACTS.read_text(encoding="utf-8").splitlines()
RELEASES = [(key, version, release) for (key, version), release in releases().items()]


def options(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def pairs() -> Iterator[tuple[str, int, str, bool]]:
    """(message, version, release, whether it is an API's) of all blocks."""
    for line in LINES:
        if line.startswith("message "):
            found = options(line)
            for version in Versions.parse(found["versions"]):
                yield line.split()[1], version, found["release"], found["type"] in {"request", "response"}


PAIRS = sorted(pairs())


def golden(file: str) -> set[tuple[str, int]]:
    with gzip.open(GOLDEN / file, "rt", encoding="utf-8") as lines:
        return {(found["message"], found["version"]) for found in map(json.loads, lines)}


def test_requests_and_responses_are_exactly_those_that_kafka_wrote() -> None:
    expected = golden("messages.jsonl.gz")
    assert len(expected) == 722
    assert {(name, version) for name, version, _, is_api in PAIRS if is_api} == expected


def test_other_messages_are_exactly_those_that_kafka_wrote() -> None:
    expected = golden("structs.jsonl.gz")
    assert len({name for name, _ in expected}) == 96
    assert {(name, version) for name, version, _, is_api in PAIRS if not is_api} == expected


@pytest.mark.parametrize(
    ("message", "release"),
    [
        ("ConsumerGroupHeartbeatRequest", "3.6.2"),
        ("ConsumerGroupHeartbeatResponse", "3.6.2"),
        ("ConsumerGroupDescribeResponse", "3.7.2"),
        ("ReadShareGroupStateSummaryResponse", "3.9.2"),
        ("ShareGroupMetadataValue", "3.9.2"),
        ("EndQuorumEpochRequest", "2.7.2"),  # not in the corpus; kafka-clients 2.8 dropped its replica id
    ],
)
def test_what_was_changed_in_place_is_there_twice(message: str, release: str) -> None:
    assert {found for name, version, found, _ in PAIRS if (name, version) == (message, 0)} == {"4.3.1", release}


def test_nothing_else_is_there_twice() -> None:
    twice = {pair for pair, found in itertools.groupby(PAIRS, key=lambda each: each[:2]) if len(list(found)) > 1}
    with gzip.open(GOLDEN / "conflicts.jsonl.gz", "rt", encoding="utf-8") as file:
        changed = {(line["message"], line["version"]) for line in map(json.loads, file)}
    assert twice == changed | {("EndQuorumEpochRequest", 0)}  # KIP-595's preview in 2.7 had a replica id


def test_apis_are_numbered_without_a_gap_and_agree_with_their_requests() -> None:
    apis = [line.split() for line in LINES if line.startswith("api ")]
    assert [int(words[1]) for words in apis] == list(range(93))
    for _, _, name, *rest in apis:
        versions = {version for message, version, _, _ in PAIRS if message == f"{name}Request"}
        assert set(Versions.parse(options(" ".join(rest))["versions"])) == versions


# From the table of error codes in the protocol guide of Kafka 3.6; the last three are newer (KIP-932, KIP-1071).
@pytest.mark.parametrize(
    ("code", "name", "retriable"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False),
        (0, "NONE", False),
        (2, "CORRUPT_MESSAGE", True),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True),
        (22, "ILLEGAL_GENERATION", False),
        (51, "CONCURRENT_TRANSACTIONS", True),
        (100, "UNKNOWN_TOPIC_ID", True),
        (112, "UNSUPPORTED_ASSIGNOR", False),
        (121, "INVALID_RECORD_STATE", False),
        (122, "SHARE_SESSION_NOT_FOUND", True),
        (130, "STREAMS_INVALID_TOPOLOGY", False),
    ],
)
def test_error_codes_are_those_of_the_guide(code: int, name: str, retriable: bool) -> None:
    (line,) = [line for line in LINES if line.startswith(f"error {code} ")]
    assert line.split()[2:4] == [name, "retriable" if retriable else "-"]


def test_every_version_of_every_api_has_its_release_and_no_other_has() -> None:
    apis = {
        int(line.split()[1]): Versions.parse(options(line)["versions"]) for line in LINES if line.startswith("api ")
    }
    expected = [(key, version) for key, versions in apis.items() for version in versions]
    assert list(releases()) == expected
    assert len(expected) == 361


def test_versions_of_an_api_appeared_in_order() -> None:
    for key, rows in itertools.groupby(RELEASES, key=lambda row: row[0]):
        dates = [[int(number) for number in release.removeprefix("<=").split(".")] for _, _, release in rows]
        assert dates == sorted(dates), f"API {key}"


def test_releases_are_written_as_kafka_numbers_them() -> None:
    assert all(re.fullmatch(r"(<=)?(0\.(8|9|10|11)\.\d|[1-4]\.\d)", release) for _, _, release in RELEASES)


# From the KIPs' pages: the release each was adopted in.
@pytest.mark.parametrize(
    ("key", "version", "release"),
    [
        (0, 2, "0.10.0"),  # KIP-32, timestamps
        (0, 3, "0.11.0"),  # KIP-98, transactions
        (0, 7, "2.1"),  # KIP-110, zstandard
        (1, 7, "1.1"),  # KIP-227, fetch sessions
        (1, 11, "2.3"),  # KIP-392, fetch from a follower
        (1, 13, "3.1"),  # KIP-516, topic ids
        (2, 7, "3.0"),  # KIP-734, the offset with the greatest timestamp
        (18, 3, "2.4"),  # KIP-511, a client's name and version
        (36, 1, "2.2"),  # KIP-368, re-authentication
        (62, 0, "2.8"),  # KIP-631, the KRaft controller
        (71, 0, "3.7"),  # KIP-714, client metrics
    ],
)
def test_releases_agree_with_the_kips(key: int, version: int, release: str) -> None:
    assert releases()[key, version] == release
