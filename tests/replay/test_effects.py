"""What requests would do: against the manifest's workloads, and every API of the facts."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.protocol import ApiKey, facts
from kproxy.protocol.judgements import apis_for_replay
from kproxy.replay.effects import EFFECTS, Effects, Verb
from kproxy.replay.plan import is_internal, reason_not_sent
from kproxy.replay.recording import Recording
from tests.support.kafka import jars
from tests.support.messages import make
from tests.support.replayed import recorded


def effects_of(recording: Recording) -> Effects:
    found = Effects(recording.names)
    for one in recording.requests:
        if reason_not_sent(one) is None:
            found.add(one, one.body())
    return found


def test_every_api_that_changes_something_says_what() -> None:
    assert EFFECTS.keys() == apis_for_replay("changes")


SETTINGS = "settings of topic t: those that are not named go back to their defaults"
GROUP = {"group_id": "g"}
WRITES: list[tuple[str, dict[str, Any], str, str]] = [  # API, fields of a request, and what Kafka says that it does
    ("CreateTopics", {"topics": [{"name": "t", "num_partitions": 3}]}, "create", "topic t"),
    ("DeleteTopics", {"topics": [{"name": "t"}]}, "delete", "topic t"),
    ("DeleteTopics", {"topic_names": ["t"]}, "delete", "topic t"),
    ("DeleteRecords", {"topics": [{"name": "t"}]}, "delete", "records of topic t"),
    ("DeleteGroups", {"groups_names": ["g"]}, "delete", "group g"),
    ("AlterConfigs", {"resources": [{"resource_type": 2, "resource_name": "t"}]}, "change", f"all {SETTINGS}"),
    (
        "IncrementalAlterConfigs",
        {"resources": [{"resource_type": 4, "resource_name": "1"}]},
        "change",
        "settings of broker 1",
    ),
    ("CreateAcls", {"creations": [{"principal": "User:a"}]}, "create", "ACLs of User:a"),
    ("DeleteAcls", {"filters": [{"principal_filter": None}]}, "delete", "ACLs of anyone"),
    ("CreatePartitions", {"topics": [{"name": "t", "count": 6}]}, "change", "topic t, to 6 partitions"),
    ("ElectLeaders", {"topic_partitions": None}, "change", "leaders of all partitions"),
    ("ElectLeaders", {"topic_partitions": [{"topic": "t", "partitions": [0]}]}, "change", "leaders of topic t"),
    ("AlterPartitionReassignments", {"topics": [{"name": "t"}]}, "change", "replicas of topic t"),
    ("AlterReplicaLogDirs", {"dirs": [{"topics": [{"name": "t"}]}]}, "change", "log directories of topic t"),
    ("Produce", {"topic_data": [{"name": "t", "partition_data": [{}]}]}, "write", "topic t"),
    ("OffsetCommit", {**GROUP, "topics": [{"name": "t"}]}, "write", "offsets of group g"),
    ("TxnOffsetCommit", {**GROUP, "topics": [{"name": "t"}]}, "write", "offsets of group g"),
    ("OffsetDelete", {**GROUP, "topics": [{"name": "t"}]}, "delete", "offsets of group g"),
    ("AlterShareGroupOffsets", GROUP, "change", "offsets of group g"),
    ("DeleteShareGroupOffsets", GROUP, "delete", "offsets of group g"),
    ("EndTxn", {"transactional_id": "x"}, "write", "transactions of x"),
    ("AddOffsetsToTxn", {"transactional_id": "x"}, "write", "transactions of x"),
    ("AddPartitionsToTxn", {"v3_and_below_transactional_id": "x"}, "write", "transactions of x"),
    ("InitProducerId", {"transactional_id": "x"}, "join", "transactional id x"),
    ("InitProducerId", {"transactional_id": None}, "create", "producer ids"),
    ("CreateDelegationToken", {}, "create", "delegation tokens"),
    ("RenewDelegationToken", {}, "change", "delegation tokens"),
    ("ExpireDelegationToken", {}, "delete", "delegation tokens"),
    ("UpdateFeatures", {}, "change", "finalized features of the cluster"),
    ("AlterUserScramCredentials", {"upsertions": [{"name": "a"}]}, "change", "SCRAM credentials of a"),
    ("AlterUserScramCredentials", {"deletions": [{"name": "a"}]}, "delete", "SCRAM credentials of a"),
    (
        "AlterClientQuotas",
        {"entries": [{"entity": [{"entity_type": "user", "entity_name": "alice"}]}]},
        "change",
        "quotas of user alice",
    ),
    ("UnregisterBroker", {}, "delete", "a broker's registration"),
    ("AddRaftVoter", {}, "change", "voters of the controllers' quorum"),
    ("RemoveRaftVoter", {}, "change", "voters of the controllers' quorum"),
    *((api, GROUP, "join", "group g") for api in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")),
    *((f"{kind}GroupHeartbeat", GROUP, "join", "group g") for kind in ("Consumer", "Share", "Streams")),
    *((f"Share{what}", GROUP, "join", "group g") for what in ("Fetch", "Acknowledge")),
]


def test_what_changes_something_is_told() -> None:
    keys = {api.name: api.key for api in facts().apis.values()}
    for name, fields, verb, subject in WRITES:
        found = Effects()
        body = make(f"{name}Request", **fields)
        found.add(SimpleNamespace(api_key=keys[name], api_name="?"), body)  # type: ignore[arg-type]
        assert [(one.value, what) for one, what in found.found] == [(verb, subject)], name
        assert not found.reads, name


@pytest.mark.long
def test_no_api_that_brokers_forward_or_keep_to_themselves_is_taken_for_another(kafka: None) -> None:
    """Of kafka-clients' own table: what is forwarded to the controller changes something, but for two that ask it."""
    program = Path(__file__).parents[1] / "support" / "kafka" / "ApiTable.java"
    words = jars.java(jars.NEWEST, str(program))
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    rows = [line.split() for line in done.stdout.splitlines()]
    forwarded = {int(key) for key, _, is_forwarded, _ in rows if is_forwarded == "true"}
    assert len(forwarded) > 15
    reading = {key for key in forwarded - EFFECTS.keys() if not is_internal(key, 0)}
    assert reading == {ApiKey.DESCRIBE_QUORUM, ApiKey.LIST_PARTITION_REASSIGNMENTS}
    of_cluster = {int(key) for key, _, _, is_of_cluster in rows if is_of_cluster == "true"}
    assert len(of_cluster) > 5
    of_clients = {ApiKey.DESCRIBE_QUORUM, ApiKey.UPDATE_FEATURES}  # Admin.describeMetadataQuorum, Admin.updateFeatures
    assert {key for key in of_cluster if not is_internal(key, 0)} == of_clients


def test_records_are_counted() -> None:
    counts = effects_of(recorded(1)).found[Verb.WRITE, "topic orders"]
    assert counts["records"] == 200  # captures/README.md
    assert counts["bytes"] == 36_778  # 10491 + 13..., recordsSizeInBytes of captures/decoded/01


def test_transactions() -> None:
    found = effects_of(recorded(4)).found
    assert found[Verb.WRITE, "topic tx"]["records in transactions"] == 51  # 5 of 10, and the one of the fenced producer
    assert found[Verb.WRITE, "transactions of tx-1"] == {"commits": 3, "aborts": 3}
    assert (Verb.TAKE_PART, "transactional id tx-1") in found


def test_admin() -> None:
    """Of the operations that the workload reports (MANIFEST.jsonl): those that change something, the failing ones too."""
    found = {(verb.value, subject) for verb, subject in effects_of(recorded(5)).found}
    apis = {one.api_key for one in recorded(5).requests}
    assert {key for key in apis if key in EFFECTS}
    assert ("create", "ACLs of User:alice") in found or any(subject.startswith("ACLs of") for _, subject in found)
    assert any(verb == "delete" and subject.startswith("topic ") for verb, subject in found)
    assert any(verb == "change" and subject.startswith("settings of topic") for verb, subject in found)


def test_what_is_only_validated_has_no_effect() -> None:
    one = next(one for one in recorded(5).requests if one.api_key == ApiKey.CREATE_TOPICS)
    body = one.body()
    body.validate_only = True
    found = Effects()
    found.add(one, body)
    assert found.found == {}


def test_subjects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.replay.effects.MOST_SUBJECTS", 2)
    found = Effects()
    for number in range(10):
        found.note(Verb.CREATE, f"topic {number}", topics=1)
    assert len(found.found) == 3
    assert sum(counts["topics"] for counts in found.found.values()) == 10
