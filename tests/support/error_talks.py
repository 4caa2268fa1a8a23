"""Captures of clients that are answered an error: one client for each API, error code, and what comes of it.

    ONCE     the answer has the error once; the same request works afterwards, and the client goes on
    LASTS    it has the error each time, for half a minute, up to the end of the capture
    GIVES_UP it has the error once, and the client closes its connections

Client n has the client id client-n, an address with n in it, and its own topics, groups and transactional ids. What it sends
before and afterwards is what such a client does (STREAMS). Bodies are of kproxy's own writing, filled from the schemas.
"""

import base64
import hashlib
import struct
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from kproxy.protocol import ApiKey, message, response_header_version
from kproxy.protocol.error_codes import ErrorCode, error_codes
from kproxy.protocol.structs import struct_types
from tests.support.error_sources import PAIRS
from tests.support.frames import crc32c, frame, record, string

KEYS = {"".join(part.title() for part in key.name.split("_")): key for key in ApiKey}
VERSIONS = {  # where the newest names topics by id, has several groups, or is not what clients send
    "Produce": 9, "Fetch": 12, "OffsetCommit": 9, "OffsetFetch": 7, "TxnOffsetCommit": 4, "FindCoordinator": 3, "EndTxn": 4,
    "AddPartitionsToTxn": 3, "ConsumerGroupHeartbeat": 1, "ApiVersions": 4, "Metadata": 12, "InitProducerId": 4,
    "AddOffsetsToTxn": 3,
}  # fmt: skip
GROUP = "FindCoordinator JoinGroup SyncGroup OffsetFetch ListOffsets Fetch Heartbeat OffsetCommit LeaveGroup".split()  # noqa: SIM905
TRANSACTION = ["InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
STREAMS = [
    ["Produce"], GROUP, TRANSACTION, ["ConsumerGroupHeartbeat", "Fetch"], ["ShareGroupHeartbeat", "ShareFetch",
    "ShareAcknowledge"],
    ["StreamsGroupHeartbeat", "Fetch"], ["ListOffsets", "OffsetForLeaderEpoch", "Fetch"],
]  # fmt: skip
ANSWERS = """
=TRANSACTION: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_PRODUCER_EPOCH
  INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE PRODUCER_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED TRANSACTION_ABORTABLE
  CONCURRENT_TRANSACTIONS UNKNOWN_SERVER_ERROR
=GROUP: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED INVALID_GROUP_ID
  UNKNOWN_SERVER_ERROR
=CONTROLLER: NOT_CONTROLLER REQUEST_TIMED_OUT UNKNOWN_SERVER_ERROR INVALID_REQUEST CLUSTER_AUTHORIZATION_FAILED
Produce: UNKNOWN_SERVER_ERROR REQUEST_TIMED_OUT INVALID_TIMESTAMP UNSUPPORTED_COMPRESSION_TYPE POLICY_VIOLATION
  THROTTLING_QUOTA_EXCEEDED LEADER_NOT_AVAILABLE NETWORK_EXCEPTION
Fetch: LEADER_NOT_AVAILABLE OFFSET_MOVED_TO_TIERED_STORAGE BROKER_NOT_AVAILABLE
ListOffsets: FENCED_LEADER_EPOCH KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER OFFSET_NOT_AVAILABLE
  REPLICA_NOT_AVAILABLE TOPIC_AUTHORIZATION_FAILED UNKNOWN_LEADER_EPOCH UNKNOWN_SERVER_ERROR UNKNOWN_TOPIC_OR_PARTITION
  UNSUPPORTED_FOR_MESSAGE_FORMAT INVALID_REQUEST REQUEST_TIMED_OUT
OffsetForLeaderEpoch: FENCED_LEADER_EPOCH KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER
  TOPIC_AUTHORIZATION_FAILED UNKNOWN_LEADER_EPOCH UNKNOWN_SERVER_ERROR UNKNOWN_TOPIC_OR_PARTITION
Metadata: UNKNOWN_SERVER_ERROR BROKER_NOT_AVAILABLE
FindCoordinator: UNKNOWN_SERVER_ERROR INVALID_GROUP_ID
JoinGroup: UNKNOWN_SERVER_ERROR ILLEGAL_GENERATION
SyncGroup: =GROUP ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID INCONSISTENT_GROUP_PROTOCOL
Heartbeat: =GROUP ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID
LeaveGroup: =GROUP UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID
OffsetCommit: UNKNOWN_SERVER_ERROR INVALID_GROUP_ID
OffsetFetch: =GROUP GROUP_ID_NOT_FOUND STALE_MEMBER_EPOCH TOPIC_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID UNKNOWN_TOPIC_ID
  UNKNOWN_TOPIC_OR_PARTITION UNSTABLE_OFFSET_COMMIT
DescribeGroups: =GROUP GROUP_ID_NOT_FOUND
ListGroups: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR GROUP_AUTHORIZATION_FAILED
  UNKNOWN_SERVER_ERROR CLUSTER_AUTHORIZATION_FAILED
SaslHandshake: UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE
SaslAuthenticate: SASL_AUTHENTICATION_FAILED ILLEGAL_SASL_STATE UNKNOWN_SERVER_ERROR
ApiVersions: REBOOTSTRAP_REQUIRED
CreateTopics: =CONTROLLER INVALID_CONFIG INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT
  INVALID_TOPIC_EXCEPTION POLICY_VIOLATION THROTTLING_QUOTA_EXCEEDED TOPIC_ALREADY_EXISTS TOPIC_AUTHORIZATION_FAILED
DeleteTopics: =CONTROLLER INVALID_TOPIC_EXCEPTION THROTTLING_QUOTA_EXCEEDED TOPIC_AUTHORIZATION_FAILED TOPIC_DELETION_DISABLED
  UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PARTITION UNSUPPORTED_VERSION
DeleteRecords: NOT_LEADER_OR_FOLLOWER OFFSET_OUT_OF_RANGE REQUEST_TIMED_OUT UNKNOWN_TOPIC_OR_PARTITION
  TOPIC_AUTHORIZATION_FAILED POLICY_VIOLATION UNKNOWN_SERVER_ERROR KAFKA_STORAGE_ERROR INVALID_TOPIC_EXCEPTION
InitProducerId: UNKNOWN_SERVER_ERROR INVALID_REQUEST REQUEST_TIMED_OUT
AddPartitionsToTxn: =TRANSACTION TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED INVALID_REQUEST
AddOffsetsToTxn: =TRANSACTION GROUP_AUTHORIZATION_FAILED INVALID_REQUEST
EndTxn: =TRANSACTION INVALID_REQUEST
TxnOffsetCommit: =TRANSACTION FENCED_INSTANCE_ID GROUP_AUTHORIZATION_FAILED ILLEGAL_GENERATION INVALID_COMMIT_OFFSET_SIZE
  OFFSET_METADATA_TOO_LARGE REQUEST_TIMED_OUT UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH TOPIC_AUTHORIZATION_FAILED
  UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID REBALANCE_IN_PROGRESS
DescribeAcls: =CONTROLLER SECURITY_DISABLED
CreateAcls: =CONTROLLER SECURITY_DISABLED THROTTLING_QUOTA_EXCEEDED
DeleteAcls: =CONTROLLER SECURITY_DISABLED
DescribeConfigs: UNKNOWN_SERVER_ERROR INVALID_REQUEST CLUSTER_AUTHORIZATION_FAILED TOPIC_AUTHORIZATION_FAILED
  UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION GROUP_AUTHORIZATION_FAILED INVALID_CONFIG
AlterConfigs: =CONTROLLER TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PARTITION POLICY_VIOLATION
  INVALID_CONFIG
IncrementalAlterConfigs: =CONTROLLER TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PARTITION
  POLICY_VIOLATION INVALID_CONFIG BROKER_ID_NOT_REGISTERED
AlterReplicaLogDirs: KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND REPLICA_NOT_AVAILABLE UNKNOWN_SERVER_ERROR
  CLUSTER_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC_EXCEPTION
DescribeLogDirs: KAFKA_STORAGE_ERROR CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR
CreatePartitions: =CONTROLLER TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION UNKNOWN_TOPIC_OR_PARTITION INVALID_PARTITIONS
  INVALID_REPLICA_ASSIGNMENT REASSIGNMENT_IN_PROGRESS POLICY_VIOLATION THROTTLING_QUOTA_EXCEEDED
CreateDelegationToken: DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED INVALID_PRINCIPAL_TYPE
  DELEGATION_TOKEN_AUTHORIZATION_FAILED NOT_CONTROLLER REQUEST_TIMED_OUT UNKNOWN_SERVER_ERROR
RenewDelegationToken: DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_NOT_FOUND
  DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_EXPIRED
ExpireDelegationToken: DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_NOT_FOUND
  DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_EXPIRED
DescribeDelegationToken: DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
  DELEGATION_TOKEN_AUTHORIZATION_FAILED
DeleteGroups: =GROUP GROUP_ID_NOT_FOUND NON_EMPTY_GROUP
ElectLeaders: =CONTROLLER PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED
  UNKNOWN_TOPIC_OR_PARTITION
AlterPartitionReassignments: =CONTROLLER NO_REASSIGNMENT_IN_PROGRESS INVALID_REPLICA_ASSIGNMENT UNKNOWN_TOPIC_OR_PARTITION
  INVALID_REPLICATION_FACTOR
ListPartitionReassignments: =CONTROLLER
OffsetDelete: =GROUP GROUP_ID_NOT_FOUND GROUP_SUBSCRIBED_TO_TOPIC NON_EMPTY_GROUP TOPIC_AUTHORIZATION_FAILED
  UNKNOWN_TOPIC_OR_PARTITION
DescribeClientQuotas: CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR INVALID_REQUEST
AlterClientQuotas: =CONTROLLER INVALID_CONFIG
DescribeUserScramCredentials: CLUSTER_AUTHORIZATION_FAILED RESOURCE_NOT_FOUND DUPLICATE_RESOURCE NOT_CONTROLLER
AlterUserScramCredentials: =CONTROLLER RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL
  UNSUPPORTED_SASL_MECHANISM
DescribeQuorum: CLUSTER_AUTHORIZATION_FAILED NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION BROKER_NOT_AVAILABLE
  UNKNOWN_SERVER_ERROR
UpdateFeatures: =CONTROLLER FEATURE_UPDATE_FAILED INVALID_UPDATE_VERSION
DescribeCluster: MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE CLUSTER_AUTHORIZATION_FAILED REBOOTSTRAP_REQUIRED
DescribeProducers: NOT_LEADER_OR_FOLLOWER UNKNOWN_TOPIC_OR_PARTITION TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION
UnregisterBroker: =CONTROLLER BROKER_ID_NOT_REGISTERED UNSUPPORTED_VERSION
DescribeTransactions: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR TRANSACTIONAL_ID_NOT_FOUND
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED
ListTransactions: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_REGULAR_EXPRESSION
ConsumerGroupHeartbeat: =GROUP FENCED_MEMBER_EPOCH GROUP_MAX_SIZE_REACHED INVALID_REGULAR_EXPRESSION INVALID_REQUEST
  TOPIC_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR FENCED_INSTANCE_ID
  GROUP_ID_NOT_FOUND UNSUPPORTED_VERSION REBALANCE_IN_PROGRESS
ConsumerGroupDescribe: =GROUP GROUP_ID_NOT_FOUND INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED
GetTelemetrySubscriptions: INVALID_REQUEST UNKNOWN_SERVER_ERROR UNSUPPORTED_VERSION
PushTelemetry: INVALID_REQUEST UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE THROTTLING_QUOTA_EXCEEDED
  UNSUPPORTED_COMPRESSION_TYPE INVALID_RECORD UNKNOWN_SERVER_ERROR
ListConfigResources: CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_VERSION UNKNOWN_SERVER_ERROR
DescribeTopicPartitions: UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE INVALID_TOPIC_EXCEPTION TOPIC_AUTHORIZATION_FAILED
ShareGroupHeartbeat: =GROUP GROUP_MAX_SIZE_REACHED INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED UNKNOWN_MEMBER_ID
  FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND UNSUPPORTED_VERSION
ShareGroupDescribe: =GROUP GROUP_ID_NOT_FOUND INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED
ShareFetch: CORRUPT_MESSAGE GROUP_AUTHORIZATION_FAILED INVALID_RECORD_STATE INVALID_REQUEST INVALID_SHARE_SESSION_EPOCH
  KAFKA_STORAGE_ERROR NOT_LEADER_OR_FOLLOWER SHARE_SESSION_NOT_FOUND TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR
  UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PARTITION SHARE_SESSION_LIMIT_REACHED FENCED_STATE_EPOCH UNSUPPORTED_VERSION
  COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR
ShareAcknowledge: GROUP_AUTHORIZATION_FAILED INVALID_RECORD_STATE INVALID_REQUEST INVALID_SHARE_SESSION_EPOCH
  KAFKA_STORAGE_ERROR NOT_LEADER_OR_FOLLOWER SHARE_SESSION_NOT_FOUND TOPIC_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR
  UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PARTITION FENCED_STATE_EPOCH
StreamsGroupHeartbeat: =GROUP CLUSTER_AUTHORIZATION_FAILED FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED
  INVALID_REQUEST STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED TOPIC_AUTHORIZATION_FAILED
  UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID
StreamsGroupDescribe: =GROUP GROUP_ID_NOT_FOUND INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED
DescribeShareGroupOffsets: =GROUP GROUP_ID_NOT_FOUND INVALID_REQUEST TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION
AlterShareGroupOffsets: =GROUP GROUP_ID_NOT_FOUND INVALID_REQUEST KAFKA_STORAGE_ERROR NON_EMPTY_GROUP
  TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION
DeleteShareGroupOffsets: =GROUP GROUP_ID_NOT_FOUND INVALID_REQUEST KAFKA_STORAGE_ERROR NON_EMPTY_GROUP
  TOPIC_AUTHORIZATION_FAILED UNKNOWN_TOPIC_OR_PARTITION
AddRaftVoter: =CONTROLLER DUPLICATE_VOTER UNSUPPORTED_VERSION INCONSISTENT_CLUSTER_ID NOT_LEADER_OR_FOLLOWER
RemoveRaftVoter: =CONTROLLER VOTER_NOT_FOUND UNSUPPORTED_VERSION INCONSISTENT_CLUSTER_ID NOT_LEADER_OR_FOLLOWER
WriteTxnMarkers: CLUSTER_AUTHORIZATION_FAILED CORRUPT_MESSAGE INVALID_PRODUCER_EPOCH NOT_ENOUGH_REPLICAS
  NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT TRANSACTION_COORDINATOR_FENCED
  UNKNOWN_TOPIC_OR_PARTITION KAFKA_STORAGE_ERROR
ControlledShutdown: STALE_CONTROLLER_EPOCH STALE_BROKER_EPOCH UNKNOWN_SERVER_ERROR NOT_CONTROLLER
LeaderAndIsr: STALE_CONTROLLER_EPOCH STALE_BROKER_EPOCH KAFKA_STORAGE_ERROR
StopReplica: STALE_CONTROLLER_EPOCH KAFKA_STORAGE_ERROR
UpdateMetadata: STALE_CONTROLLER_EPOCH STALE_BROKER_EPOCH
Vote: CLUSTER_AUTHORIZATION_FAILED FENCED_LEADER_EPOCH INCONSISTENT_VOTER_SET INVALID_REQUEST UNKNOWN_TOPIC_OR_PARTITION
  INCONSISTENT_CLUSTER_ID INVALID_VOTER_KEY
BeginQuorumEpoch: CLUSTER_AUTHORIZATION_FAILED FENCED_LEADER_EPOCH INCONSISTENT_VOTER_SET INVALID_REQUEST
  INCONSISTENT_CLUSTER_ID
AlterPartition: INELIGIBLE_REPLICA NEW_LEADER_ELECTED UNKNOWN_TOPIC_ID FENCED_LEADER_EPOCH INVALID_UPDATE_VERSION
  STALE_BROKER_EPOCH NOT_CONTROLLER OPERATION_NOT_ATTEMPTED
FetchSnapshot: SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE NOT_LEADER_OR_FOLLOWER INCONSISTENT_CLUSTER_ID
BrokerRegistration: DUPLICATE_BROKER_REGISTRATION INCONSISTENT_CLUSTER_ID NOT_CONTROLLER UNSUPPORTED_VERSION
  INVALID_REGISTRATION BROKER_ID_NOT_REGISTERED CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR
BrokerHeartbeat: STALE_BROKER_EPOCH NOT_CONTROLLER BROKER_ID_NOT_REGISTERED CLUSTER_AUTHORIZATION_FAILED UNKNOWN_SERVER_ERROR
  REQUEST_TIMED_OUT
AllocateProducerIds: NOT_CONTROLLER STALE_BROKER_EPOCH BROKER_ID_NOT_REGISTERED CLUSTER_AUTHORIZATION_FAILED
ControllerRegistration: NOT_CONTROLLER UNSUPPORTED_VERSION INVALID_REGISTRATION CLUSTER_AUTHORIZATION_FAILED
AssignReplicasToDirs: NOT_CONTROLLER STALE_BROKER_EPOCH CLUSTER_AUTHORIZATION_FAILED
Envelope: NOT_CONTROLLER PRINCIPAL_DESERIALIZATION_FAILURE CLUSTER_AUTHORIZATION_FAILED
WriteShareGroupState: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR FENCED_LEADER_EPOCH
  FENCED_STATE_EPOCH GROUP_ID_NOT_FOUND INVALID_REQUEST UNKNOWN_TOPIC_OR_PARTITION
ReadShareGroupState: COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR FENCED_LEADER_EPOCH
  GROUP_ID_NOT_FOUND INVALID_REQUEST UNKNOWN_TOPIC_OR_PARTITION
"""
"""What brokers answer beyond error_sources.PAIRS: "Possible error codes" of XResponse.java, and its callers in KafkaApis."""


def _errors() -> list[tuple[str, str]]:
    answers = {
        api: errors.split()
        for api, errors in (line.split(":") for line in ANSWERS.replace("\n  ", " ").split("\n") if line)
    }
    whole = [(api, error) for api, errors in answers.items() for each in errors for error in answers.get(each, [each])]
    return [pair for pair in dict.fromkeys(PAIRS + whole) if pair[0] in KEYS]


ERRORS = _errors()
START_S = 1_760_000_000
REPEATS, EVERY_S = 21, 1.5
LEFT_OUT = {  # what clients seldom send
    "client_assignors", "preferred_candidates", "assigned_topic_partitions", "pending_topic_partitions", "error",
    "aborted_transactions",
}  # fmt: skip


class Course(Enum):
    """What comes of the error."""

    ONCE = "once"
    LASTS = "lasts"
    GIVES_UP = "gives up"


class ErrorTalks:
    """The packets of all clients."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, Course]] = []
        self._packets: list[tuple[float, bytes]] = []

    def add(self, api: str, error: str, course: Course) -> None:
        """Add a client, numbered from 1."""
        self.made.append((api, error, course))
        client = _Client(len(self.made), self._packets)
        stream = next((each for each in STREAMS if api in each), [api])
        client.is_transactional = stream is TRANSACTION
        client.is_idempotent = "SEQUENCE" in error or error == "UNKNOWN_PRODUCER_ID"
        code = ErrorCode[error]
        first = {
            "SaslHandshake": ["ApiVersions"],
            "SaslAuthenticate": ["ApiVersions", "SaslHandshake"],
            "ApiVersions": [],
        }
        for number, before in enumerate([*first.get(api, ["ApiVersions", "Metadata"]), *stream[: stream.index(api)]]):
            if before != api:
                client.ask(number / 10, before)
        client.ask(2, api, code)
        if course is Course.LASTS:
            for number in range(1, REPEATS):
                client.ask(2 + number * EVERY_S, api, code)
        elif course is Course.GIVES_UP:
            client.close(2.2)
        else:
            at = 2.3
            for after in (api, *stream[stream.index(api) + 1 :]):
                if after != "LeaveGroup" or after == api:
                    client.ask(at, after)
                at += 0.1
            for number in range(12):
                for again in stream:
                    if again in ("Produce", "Fetch", "EndTxn", "AddPartitionsToTxn") or again.endswith(
                        ("Heartbeat", "Commit")
                    ):
                        client.ask(at + number * 2.5, again)
                        at += 0.05
            client.close(at + 32)

    def write(self, path: Path) -> Path:
        """Write a pcap file."""
        data = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 101))
        for at, packet in sorted(self._packets, key=lambda each: each[0]):
            seconds, fraction = divmod(round(at * 1_000_000), 1_000_000)
            data += struct.pack("<IIII", START_S + seconds, fraction, len(packet), len(packet)) + packet
        path.write_bytes(data)
        return path


class _Client:
    """A connection on which everything is asked."""

    def __init__(self, number: int, packets: list[tuple[float, bytes]]) -> None:
        self.number, self.is_transactional, self.is_idempotent = number, False, False
        self._packets, self._correlation_id, self._produced, self._batch_at = packets, 0, 0, 0.0
        self._ends = [bytes([10, number >> 8, number & 255, host]) for host in (5, 9)]
        self._positions = [1000, 5000]
        for side, flags in ((0, 2), (1, 18), (0, 16)):
            self._packet(0.0001 * (side + 1), side, flags)

    def ask(self, at: float, api: str, code: ErrorCode = ErrorCode.NONE) -> None:
        """A request that is answered, with the error."""
        version = VERSIONS.get(api, 0) or min(
            message(f"{api}Request").versions.highest, message(f"{api}Response").versions.highest
        )
        if api == "Produce":
            self._batch_at = self._batch_at or at  # records that are sent again keep their time
        request, answer = (self._filled(f"{api}{kind}", version, at) for kind in ("Request", "Response"))
        if api == "Produce":
            answer.responses[0].partition_responses[0].base_offset = -1 if code else self._produced
            self._produced += not code
            self._batch_at *= error_codes()[code].retriable
        if api == "Fetch" and code:
            part = answer.responses[0].partitions[0]
            part.records, part.high_watermark, part.last_stable_offset = None, -1, -1
        if api == "JoinGroup":
            answer.members = []
        if api == "Metadata" and code not in (5, 9, 72):  # these are of a partition
            answer.topics[0].partitions = []
        if code:
            _refuse(answer, code)
        self._correlation_id += 1
        layout = message(f"{api}Request")
        tags = b"\0" if version in layout.flexible_versions else b""
        head = struct.pack(">hhi", KEYS[api], version, self._correlation_id) + string(f"client-{self.number}") + tags
        self._send(at, 0, frame(head + layout.encode(version, request)))
        tags = b"\0" * response_header_version(KEYS[api], version)
        self._send(
            at + 0.002,
            1,
            frame(struct.pack(">i", self._correlation_id) + tags + message(f"{api}Response").encode(version, answer)),
        )

    def close(self, at: float) -> None:
        for side in (0, 1):
            self._packet(at + 0.001 * side, side, 17)

    def _send(self, at: float, side: int, data: bytes) -> None:
        self._packet(at, side, 24, data)

    def _packet(self, at: float, side: int, flags: int, data: bytes = b"") -> None:
        ports = (20_000, 9092) if side == 0 else (9092, 20_000)
        acknowledged = self._positions[1 - side] if flags & 16 else 0
        tcp = struct.pack(">HHIIBBHHH", *ports, self._positions[side], acknowledged, 0x50, flags, 65_535, 0, 0)
        self._positions[side] += len(data) + bool(flags & 3)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0) + self._ends[side] + self._ends[1 - side]
        self._packets.append((at, ip + tcp + data))

    def _filled(self, name: str, version: int, at: float, kind: str = "") -> Any:
        """A message with one element in each list."""
        layout = struct_types(name)[kind or name]
        return layout(**{
            attribute: self._value(name, version, at, field)
            for attribute, field in layout.by_attribute.items()
            if version in field.versions and field.tag is None and attribute not in LEFT_OUT
        })  # fmt: skip

    def _value(self, name: str, version: int, at: float, field: Any) -> Any:
        if field.is_struct and field.attribute not in ("protocols", "topology"):
            one = self._filled(name, version, at, field.type)
        elif field.is_struct:
            one = self._filled(name, version, at, field.type) if name.startswith("JoinGroup") else None
        else:
            one = self._scalar(name, at, field)
        if field.is_array and field.attribute in (
            "configuration_keys",
            "requested_metrics",
            "accepted_compression_types",
        ):
            return [] if name.endswith("Response") else None
        return [one] if field.is_array and one is not None else [] if field.is_array else one

    def _scalar(self, name: str, at: float, field: Any) -> Any:  # noqa: PLR0911
        attribute, n = field.attribute, self.number
        text = {
            "topicName": f"topic-{n}", "groupId": f"group-{n}", "transactionalId": f"id-{n}", "member_id": "member-1",
            "leader": "member-1",
            "protocol_type": "consumer", "protocol_name": "range", "group_instance_id": f"instance-{n}",
            "instance_id": f"instance-{n}",
            "host": f"10.{n >> 8}.{n & 255}.9", "key": f"id-{n}" if self.is_transactional else f"group-{n}",
            "mechanism": "SCRAM-SHA-256",
            "client_software_name": "apache-kafka-java", "client_software_version": "4.1.0", "transactional_id": f"id-{n}",
            "resource_name": f"topic-{n}", "name": "range" if name.startswith("JoinGroup") else f"topic-{n}",
            "cluster_id": f"cluster-{n}",
        }  # fmt: skip
        number = {
            "acks": -1, "replica_id": -1, "current_leader_epoch": -1, "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "generation_id": 1, "generation_id_or_member_epoch": 1, "member_epoch": 1, "timeout_ms": 30_000,
            "transaction_timeout_ms": 60_000,
            "key_type": int(self.is_transactional), "fetch_offset": self._correlation_id, "max_wait_ms": 500,
            "min_bytes": 1, "port": 9092,
            "max_bytes": 1 << 20, "partition_max_bytes": 1 << 20, "producer_id": 7, "high_watermark": self._correlation_id + 1,
            "last_stable_offset": self._correlation_id + 1, "preferred_read_replica": -1, "log_append_time_ms": -1,
            "resource_type": 2,
            "committed_offset": self._correlation_id, "share_session_epoch": self._correlation_id, "max_version": 4,
            "log_start_offset": 0,
            "committed_leader_epoch": -1, "api_key": 18, "heartbeat_interval_ms": 3000, "push_interval_ms": 30_000,
        }  # fmt: skip
        if field.type == "string":
            if attribute in ("transactional_id",) and not self.is_transactional:
                return None if field.nullable else ""
            found = text.get(field.entity or "") or text.get(attribute)
            return found if found is not None else None if field.nullable else ""
        if field.type == "uuid":
            of_topic = hashlib.md5(f"topic-{n}".encode(), usedforsecurity=False).digest()
            return base64.urlsafe_b64encode(of_topic if attribute == "topic_id" else bytes(16)).decode().rstrip("=")
        if field.type == "records":
            if name in ("ProduceRequest", "FetchResponse", "ShareFetchResponse"):
                return self._batch(name, at)
            return None if field.nullable else b""
        if field.type == "bytes":
            subscription = b"\0\1\0\0\0\1" + string(f"topic-{n}") + bytes(4)
            assignment = b"\0\1\0\0\0\1" + string(f"topic-{n}") + b"\0\0\0\1\0\0\0\0" + bytes(4)
            known = {"JoinGroupRequest": subscription, "SyncGroupRequest": assignment, "SyncGroupResponse": assignment}
            return known.get(name, None if field.nullable else b"")
        return {"bool": False, "float64": 0.0}.get(field.type, number.get(attribute, 0))

    def _batch(self, name: str, at: float) -> bytes:
        at_ms = round((START_S + (self._batch_at or at)) * 1000)
        has_id = name == "ProduceRequest" and (self.is_transactional or self.is_idempotent)
        producer = (16 * self.is_transactional, 7, 0, self._produced) if has_id else (0, -1, -1, -1)
        records = record(b"key", b"value", 0)
        covered = struct.pack(">hiqqqhii", producer[0], 0, at_ms, at_ms, *producer[1:], 1) + records
        base = self._correlation_id if name != "ProduceRequest" else 0
        return struct.pack(">qiibI", base, len(covered) + 9, -1, 2, crc32c(covered)) + covered


def _refuse(answer: Any, code: ErrorCode) -> bool:
    """Put the code where it is furthest inside."""
    fields = type(answer).by_attribute
    for attribute, field in fields.items():
        value = getattr(answer, attribute) if field.is_struct and field.tag is None else None
        for each in value if isinstance(value, list) else [value] if value is not None else []:
            if _refuse(each, code):
                return True
    for attribute in fields:
        if attribute == "error_code" or attribute.endswith("_error_code"):
            setattr(answer, attribute, int(code))
            return True
    return False


def clients_of(row: dict[str, Any]) -> Iterator[int]:
    """The numbers of the clients that a row is about."""
    for text in (row.get("client_id"), row.get("client_address")):
        if isinstance(text, str) and text.startswith("client-"):
            yield int(text.removeprefix("client-"))
            return
        if isinstance(text, str) and text.startswith("10."):
            _, high, low, _ = text.split(".")
            yield int(high) * 256 + int(low)
            return
