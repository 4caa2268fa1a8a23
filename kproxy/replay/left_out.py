"""Fields that are not compared, in classes: they differ between any two clusters, or any two runs, without meaning anything."""

import functools
from enum import StrEnum

from kproxy.protocol.facts import Field
from kproxy.protocol.values import value_set
from kproxy.replay.identifiers import Kind, kind_of


class LeftOut(StrEnum):
    """A class of fields, and why it is not compared."""

    IDS = "ids and epochs that a cluster hands out: they are mapped"
    NODES = "node ids, hosts, ports, racks, cluster id, log directories: of the cluster, not of the answer"
    TIMES = "times"
    THROTTLE = "throttle times"
    TEXTS = "texts for people, of errors and settings: error codes and values are compared"
    SIZES = "sizes on disk"
    DIVISION = "which records came in which Fetch answer: all that was read of a partition is compared"
    OFFSETS = "offsets, by as much as the log of the new cluster begins elsewhere"
    ASSIGNED = "at which heartbeat a member is told of its partitions: what it has been told by then is compared"
    LEADER = "members of a group, which the broker tells the one that it chooses as leader: it chose another"
    FOLLOWS = "answers, or parts of them, whose error code differs: it is told, and what follows from it is not"
    NOT_READY = "answers that told the client to try again, as a coordinator or leader was not ready: now it was"


ADDRESSES = frozenset({"Host", "Port", "Rack", "ClusterId", "ControllerHost", "LogDir", "ClientHost", "ListenerName"})
DISK = frozenset({"PartitionSize", "TotalBytes", "UsableBytes", "OffsetLag"})
TIME_ENDS = ("TimestampMs", "TimeMs", "Timestamp", "IntervalMs")
EPOCHS = frozenset({"FinalizedFeaturesEpoch", "GroupEpoch", "AssignmentEpoch", "StateEpoch", "TopologyEpoch"})
BY_NAME = {
    "ThrottleTimeMs": LeftOut.THROTTLE,
    **dict.fromkeys(("ErrorMessage", "StatusDetail", "Documentation"), LeftOut.TEXTS),
    **dict.fromkeys(DISK, LeftOut.SIZES),
}


@functools.cache
def class_of(message: str, field: Field) -> LeftOut | None:
    """Return the class of a field of a response; None for a field that is compared."""
    kind = kind_of(message, field)
    if kind is Kind.NODE or field.name in ADDRESSES:
        return LeftOut.NODES
    if kind is Kind.OFFSET:
        return LeftOut.OFFSETS  # not compared if moved by as much as the other offsets of the partition
    if kind is not None or field.name in EPOCHS:
        return LeftOut.IDS
    if field.name in BY_NAME:
        return BY_NAME[field.name]
    values = value_set(message, (field.json_name,))
    if (values is not None and values.kind == "time") or field.name.endswith(TIME_ENDS):
        return LeftOut.TIMES
    return None
