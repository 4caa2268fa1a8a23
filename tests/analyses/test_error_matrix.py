"""Each error that brokers answer, once, for long, or as the last thing: one finding as severe as its harm, or none.

What is expected comes from Kafka: whether an error's exception is a RetriableException (as Errors.values() has it, see
tests/extract), and what kafka-clients 4.3.1 does at it where it is none (MENDED_BY_CLIENTS, by AbstractCoordinator,
ConsumerCoordinator, CommitRequestManager, FetchCollector, TransactionManager and Metadata).
"""

from collections import defaultdict
from pathlib import Path

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.output.tables import TABLES
from kproxy.protocol.error_codes import ErrorCode, error_codes
from tests.support.error_talks import ERRORS, Course, ErrorTalks, clients_of

RANK = {"info": 0, "notice": 1, "warning": 2, "critical": 3}
NOT_ABOUT_ERRORS = {"changes", "plaintext_credentials", "offset_reset"}
SO_ALREADY = {
    "TOPIC_ALREADY_EXISTS", "NO_REASSIGNMENT_IN_PROGRESS", "ELECTION_NOT_NEEDED", "OPERATION_NOT_ATTEMPTED",
    "DUPLICATE_SEQUENCE_NUMBER",
}  # fmt: skip
NOT_THERE = {
    "GROUP_ID_NOT_FOUND",
    "TRANSACTIONAL_ID_NOT_FOUND",
    "RESOURCE_NOT_FOUND",
    "SECURITY_DISABLED",
}  # what was to be described
OPTIONAL = {"ApiVersions", "GetTelemetrySubscriptions", "PushTelemetry"}  # clients do without, or try another version
REFUSED_LOGINS = {"SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"}
LOST_PLACES = {
    "FENCED_INSTANCE_ID",
    "UNRELEASED_INSTANCE_ID",
    "FENCED_MEMBER_EPOCH",
}  # of members: others have what they had
BROKEN_DISKS = {"KAFKA_STORAGE_ERROR", "CORRUPT_MESSAGE"}  # retriable, as another replica may be well
KEPT_OUT = {"INCONSISTENT_GROUP_PROTOCOL", "UNSUPPORTED_ASSIGNOR"}  # of their group
EXPIRED = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"}
MOVED = {
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_TOPIC_ID",
}
FENCED = {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"}  # a restart makes some
CHANGES = {
    "CreateTopics", "DeleteTopics", "DeleteRecords", "CreateAcls", "DeleteAcls", "AlterConfigs", "IncrementalAlterConfigs",
    "AlterReplicaLogDirs", "CreatePartitions", "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken",
    "DeleteGroups", "ElectLeaders", "AlterPartitionReassignments", "OffsetDelete", "AlterClientQuotas",
    "AlterUserScramCredentials", "UpdateFeatures", "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter",
    "AlterShareGroupOffsets", "DeleteShareGroupOffsets", "InitProducerId",
}  # fmt: skip
"""What an administrator wants, or a producer needs: it is not done when the program gives up."""
MENDED_BY_CLIENTS = {
    "JoinGroup": {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"},
    "SyncGroup": {"ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"},
    "Heartbeat": {"ILLEGAL_GENERATION"},
    "LeaveGroup": {"UNKNOWN_MEMBER_ID"},
    "ConsumerGroupHeartbeat": {"REBALANCE_IN_PROGRESS"},
    "OffsetCommit": {"REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH"},
    "OffsetFetch": {"UNKNOWN_MEMBER_ID", "STALE_MEMBER_EPOCH"},
    "TxnOffsetCommit": {"REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH"},
    "Produce": {"OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"},
    "DescribeQuorum": {"BROKER_NOT_AVAILABLE"},
    "DescribeCluster": {"REBOOTSTRAP_REQUIRED"},
    "ShareFetch": {"INVALID_RECORD_STATE"},  # the lock is over: the record is delivered again
    "ShareAcknowledge": {"INVALID_RECORD_STATE"},
    "Fetch": {"OFFSET_OUT_OF_RANGE", "OFFSET_MOVED_TO_TIERED_STORAGE", "BROKER_NOT_AVAILABLE"},
    "Metadata": {"REBOOTSTRAP_REQUIRED", "BROKER_NOT_AVAILABLE", "UNKNOWN_SERVER_ERROR", "INVALID_TOPIC_EXCEPTION"},
}
OF_BROKERS = {
    "WriteTxnMarkers", "ControlledShutdown", "LeaderAndIsr", "StopReplica", "UpdateMetadata", "Vote", "BeginQuorumEpoch",
    "AlterPartition", "FetchSnapshot", "BrokerHeartbeat", "AllocateProducerIds", "AssignReplicasToDirs", "Envelope",
    "WriteShareGroupState", "ReadShareGroupState",
}  # fmt: skip
"""APIs between brokers, which try again at any error."""


def wrong(api: str, error: str, course: Course, found: dict[str, str]) -> str:
    """What is wrong about the findings of a client, with their severities; empty if nothing is."""
    ranks = [RANK[severity] for name, severity in found.items() if name not in NOT_ABOUT_ERRORS and severity != "info"]
    least, lowest, highest = expected(api, error, course)
    if len(ranks) > 1:
        return "several findings"
    if least and not ranks:
        return "silent"
    return "too low" if ranks and ranks[0] < lowest else "too high" if ranks and ranks[0] > highest else ""


def expected(api: str, error: str, course: Course) -> tuple[bool, int, int]:  # noqa: PLR0911
    """Whether there must be a finding, and its lowest and highest severity."""
    notice, warning, critical = RANK["notice"], RANK["warning"], RANK["critical"]
    describes = (api.startswith(("Describe", "List")) and api != "ListOffsets") or api.endswith("Describe")
    if (
        error in SO_ALREADY
        or api in OPTIONAL
        or (describes and error in NOT_THERE)
        or (api, error) == ("Heartbeat", "REBALANCE_IN_PROGRESS")
    ):
        return False, 0, 0
    passes = error_codes()[ErrorCode[error]].retriable or api in OF_BROKERS or error in MENDED_BY_CLIENTS.get(api, ())
    if (
        "AUTHORIZATION_FAILED" in error
        or (error in REFUSED_LOGINS and api.startswith("Sasl"))
        or error in LOST_PLACES
        or (error in EXPIRED and not passes)
    ):
        return True, warning, critical
    if course is Course.LASTS:
        return True, notice if describes else warning, critical
    if error in FENCED:
        return True, notice, notice
    if course is Course.GIVES_UP and api == "Produce" and error not in MOVED:
        return True, critical, critical
    if passes and error not in BROKEN_DISKS:
        return False, notice, warning if course is Course.GIVES_UP and api in CHANGES else notice
    if course is Course.ONCE:
        lost = api == "Produce" and not passes
        return not passes, critical if lost else notice, critical if lost else warning if error in KEPT_OUT else notice
    return (
        not passes,
        notice if describes or error == "ILLEGAL_SASL_STATE" else warning,
        critical if error in KEPT_OUT else warning,
    )


def check(folder: Path, pairs: list[tuple[str, str]]) -> None:
    """Play each pair in each course, run all findings, and compare them with what is expected."""
    talks = ErrorTalks()
    for api, error in pairs:
        for course in Course:
            talks.add(api, error, course)
    found: dict[int, dict[str, str]] = defaultdict(dict)
    with Database([talks.write(folder / "talks.pcap")], wanted=TABLES) as database:
        for name, finding in library.load().items():
            for row in database.run(finding).to_pylist() if finding.is_finding else []:
                for number in clients_of(row):
                    found[number][name] = row.get("severity") or finding.severity
    judged = {made: wrong(*made, found[number]) for number, made in enumerate(talks.made, 1)}
    assert {made: (words, found[number]) for number, (made, words) in enumerate(judged.items(), 1) if words} == {}


def test_some_errors_have_the_finding_that_their_harm_deserves(tmp_path: Path) -> None:
    check(tmp_path, ERRORS[::9])


@pytest.mark.slow
def test_all_errors_have_the_finding_that_their_harm_deserves(tmp_path: Path) -> None:
    check(tmp_path, ERRORS)


def test_what_is_expected_can_be_missed() -> None:
    for pair, course, found in (
        (("Fetch", "UNKNOWN_SERVER_ERROR"), Course.LASTS, {}),
        (("Fetch", "REPLICA_NOT_AVAILABLE"), Course.ONCE, {"refused_requests": "warning"}),
        (("Produce", "INVALID_RECORD"), Course.GIVES_UP, {"refused_requests": "warning"}),
        (
            ("OffsetCommit", "UNKNOWN_MEMBER_ID"),
            Course.ONCE,
            {"session_expired": "warning", "refused_commits": "warning"},
        ),
    ):
        assert wrong(*pair, course, found), pair
