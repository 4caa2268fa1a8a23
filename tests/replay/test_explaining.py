"""Reasons of differences, as they were met on real brokers; and what has none."""

import pytest

from kproxy.replay.comparing import Difference
from kproxy.replay.explaining import (
    ALLOWED,
    ANOTHER_REFUSAL,
    ASSIGNED,
    BEFORE,
    COMMITTED,
    FEWER,
    JOINED,
    LACKING,
    REBALANCED,
    REFUSED,
    REFUSED_NOW,
    SETTINGS,
    SPOKEN,
    TELEMETRY,
    THERE_ALREADY,
    THERE_BEFORE,
    UNREADY,
    explain,
)

ERROR = "topics.partitions.errorCode"
THERE, ABSENT = "present", "(absent)"
CASES = [
    ("ApiVersions", "apiKeys.maxVersion", "13", "11", SPOKEN),
    ("CreateTopics", "topics.configs.value", "604800000", "-1", SETTINGS),
    ("CreateTopics", "topics.replicationFactor", "3", "1", FEWER),
    ("CreateTopics", "topics.errorCode", "NONE", "TOPIC_ALREADY_EXISTS", THERE_ALREADY),
    ("DescribeConfigs", "results.configs.value", "5", "50", SETTINGS),
    ("Fetch", "responses.partitions.errorCode", "NONE", "OFFSET_OUT_OF_RANGE", BEFORE),
    ("Fetch", "responses.partitions.records", "3 records", "0 records, 3 missing or others, from offset 0 on", BEFORE),
    ("Heartbeat", "errorCode", "NONE", "UNKNOWN_MEMBER_ID", JOINED),
    ("Heartbeat", "errorCode", "REBALANCE_IN_PROGRESS", "NONE", REBALANCED),
    ("ConsumerGroupHeartbeat", "assignment", THERE, "null", ASSIGNED),
    ("ListGroups", "groups", THERE, ABSENT, THERE_BEFORE),
    ("ListGroups", "groups", ABSENT, THERE, THERE_ALREADY),
    ("ListOffsets", "topics.partitions.offset", "104", "0", BEFORE),
    ("OffsetFetch", "groups.topics.partitions.committedOffset", "104", "nothing committed", COMMITTED),
    ("Produce", "responses.partitionResponses.errorCode", "NONE", "TOPIC_AUTHORIZATION_FAILED", REFUSED),
    ("Produce", "responses.partitionResponses.errorCode", "GROUP_AUTHORIZATION_FAILED", "NONE", ALLOWED),
    ("Produce", "responses.partitionResponses.errorCode", "NONE", "UNKNOWN_TOPIC_OR_PARTITION", LACKING),
    ("Produce", "responses.partitionResponses.errorCode", "NONE", "NOT_COORDINATOR", UNREADY),
    ("OffsetCommit", ERROR, "NONE", "GROUP_ID_NOT_FOUND", JOINED),
    ("ListOffsets", ERROR, "INVALID_TIMESTAMP", "NONE", None),
    ("DescribeCluster", "clusterAuthorizedOperations", "1", "2", None),
]


@pytest.mark.parametrize(("api", "path", "recorded", "new", "why"), CASES, ids=lambda value: str(value)[:40])
def test_reasons(api: str, path: str, recorded: str, new: str, why: str | None) -> None:
    assert explain(api, Difference(path, path, recorded, new)) == why


def test_telemetry_is_told_by_its_place() -> None:
    where = "apiKeys[GetTelemetrySubscriptions]"
    assert explain("ApiVersions", Difference("apiKeys", where, THERE, ABSENT)) == TELEMETRY


def test_two_refusals_are_told_with_what_the_new_one_means() -> None:
    found = explain("AddRaftVoter", Difference("errorCode", "errorCode", "REQUEST_TIMED_OUT", "INVALID_CONFIG"))
    refused = explain("ListOffsets", Difference(ERROR, ERROR, "NONE", "CORRUPT_MESSAGE"))
    assert refused is not None and refused.startswith(f"{REFUSED_NOW}: ")
    assert found is not None and found.startswith(ANOTHER_REFUSAL) and len(found) > len(ANOTHER_REFUSAL) + 10
