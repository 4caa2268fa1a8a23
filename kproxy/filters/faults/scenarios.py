"""Scenarios: faults that are ready to use by name. Options that a fault sets itself win over those of its scenario.

To add a scenario: an entry of SCENARIOS and its name in Fault.scenario (options.py).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

OFFSETS = ("OffsetCommit", "OffsetFetch")
GROUP = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat")
TRANSACTION = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn")


class Scenario(NamedTuple):
    """A fault by name."""

    meaning: str
    options: dict[str, Any]  # of Fault
    errors: Mapping[str, str] = MappingProxyType({})  # API -> the error it is answered with; then these are its APIs


SCENARIOS = {
    "leader_moved": Scenario(
        "Once, the leader of a partition has moved: the client asks for metadata and sends again.",
        {"times": 1},
        dict.fromkeys(("Produce", "Fetch"), "NOT_LEADER_OR_FOLLOWER"),
    ),
    "coordinator_moved": Scenario(
        "Once, the coordinator of a group or a transactional id has moved: the client looks for it again.",
        {"times": 1},
        dict.fromkeys((*GROUP, *OFFSETS, *TRANSACTION, "TxnOffsetCommit"), "NOT_COORDINATOR"),
    ),
    "delayed_end_txn": Scenario(
        "Each transaction ends late: its records are visible to read_committed consumers only after the delay.",
        {"api_name": "EndTxn", "delay": 5.0},
    ),
    "fenced_producer": Scenario(
        "Another producer with the transactional id has taken over.",
        {},
        {
            "Produce": "INVALID_PRODUCER_EPOCH",
            **dict.fromkeys(("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"), "PRODUCER_FENCED"),
        },
    ),
    "slow_broker": Scenario("Every response comes late.", {"delay": 1.0, "when": "after"}),
    "half_open_connection": Scenario(
        "Once, a connection stays open and carries nothing more: the client waits for its request timeout.",
        {"times": 1, "black_hole": True},
    ),
    "throttled": Scenario(
        "A quota is exceeded: clients are told to wait.", {"api_name": ("Produce", "Fetch"), "throttle": 1.0}
    ),
    "authorization_lost": Scenario(
        "The principal may not do any more what it could.",
        {},
        {
            **dict.fromkeys(("Produce", "Fetch", "Metadata", "ListOffsets"), "TOPIC_AUTHORIZATION_FAILED"),
            **dict.fromkeys((*GROUP, *OFFSETS), "GROUP_AUTHORIZATION_FAILED"),
            **dict.fromkeys(TRANSACTION, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        },
    ),
}
