"""Explain why an answer differs from the recorded one, in a sentence; None if the reason is not known.

The first rule that fits gives the reason. A rule looks at the API, at the field, and at both values as people see them.
Differences without a reason are reported as unexplained: they are what to look at.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kproxy.protocol.error_codes import ErrorCode, error_codes
from kproxy.replay.comparing import MISSING, NOT_READY, Difference

BEFORE = (
    "records that the new cluster does not have: from before the capture, or of requests that were not sent, or refused"
)
COMMITTED = (
    "offsets that were committed before the capture, or by requests that were not sent, or refused; or that the new cluster"
    " had already"
)
JOINED = (
    "the member's group is not as it was: it had joined before the capture, or its JoinGroup is not among what was"
    " sent, was refused, or came too late"
)
REBALANCED = "a rebalance of the group had begun by one of the two answers, and not, or no longer, by the other"
ASSIGNED = (
    "a coordinator divides partitions among the members that it knows of by then, and tells each when the others have given"
    " them up: here in other portions, or at another heartbeat"
)
TAKEN = (
    "a share group hands out records as it comes to them: which of them an answer has, and by when, is a matter of time"
)
SETTINGS = "settings: the brokers, or their defaults, are configured otherwise"
THERE_BEFORE = "the recorded cluster had it from before the capture: no request that was sent creates it"
THERE_ALREADY = "the new cluster has it already, or creates it by itself"
SPOKEN = "a broker names what its release, its features and its plugins speak: it is another release or another setup"
TELEMETRY = "a broker names the APIs of telemetry (KIP-714) only with a plugin that takes clients' metrics"
REFUSED = "the login of the replay may not do this: it needs an ACL, or another login (--command-config)"
ALLOWED = "the recorded client was not allowed to do this, and the login of the replay is"
LACKING = "the new cluster lacks the topic or the partition: --create-topics creates it first"
FEWER = "the new cluster has another number of brokers"
PRODUCER = "the producer had written before the capture: its epoch and sequence numbers go on in the middle"
UNREADY = (
    "the new cluster was still not ready after 10 s of asking again; or several nodes lead the partitions of one request,"
    " which goes to one of them"
)
ANOTHER_FEATURE = "the new cluster does not have this, or its finalized features are lower (kafka-features.sh)"
SINCE = "it grows with time"
DEAD = (
    "a group that is not there: brokers from 4.0 on answer with this error, older ones with the state Dead (KIP-1043)"
)
ANOTHER_REFUSAL = "refused both times, now for another reason"
REFUSED_NOW = "refused now"

_EVERY = re.compile("")
_HEARTBEATS = "ConsumerGroupHeartbeat ShareGroupHeartbeat StreamsGroupHeartbeat"
_MEMBERS = (
    "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID STALE_MEMBER_EPOCH"
    " REBALANCE_IN_PROGRESS"
)
_PRODUCERS = (
    "INVALID_PRODUCER_EPOCH PRODUCER_FENCED UNKNOWN_PRODUCER_ID OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_ID_MAPPING"
    " INVALID_TXN_STATE DUPLICATE_SEQUENCE_NUMBER"
)
_FEATURES = "UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT FEATURE_UPDATE_FAILED INVALID_UPDATE_VERSION"
_ERROR = r"[eE]rrorCode$"
_THERE, _ABSENT = "present", re.escape(MISSING)


@dataclass(frozen=True, slots=True)
class _Rule:
    why: str
    apis: frozenset[str]  # none: every
    path: re.Pattern[str] = _EVERY  # of the difference, searched
    recorded: re.Pattern[str] = _EVERY  # matches the whole value
    new: re.Pattern[str] = _EVERY

    def fits(self, api_name: str, difference: Difference) -> bool:
        return (
            (not self.apis or api_name in self.apis)
            and self.path.search(difference.path) is not None
            and (self.recorded is _EVERY or self.recorded.fullmatch(difference.recorded) is not None)
            and (self.new is _EVERY or self.new.fullmatch(difference.new) is not None)
        )


def _rule(why: str, apis: str = "", path: str = "", recorded: str = "", new: str = "") -> _Rule:
    compiled = (re.compile(one) if one else _EVERY for one in (path, recorded, new))
    return _Rule(why, frozenset(apis.split()), *compiled)


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


_UNREADY = _any_of(error_codes()[code].name for code in NOT_READY if code in error_codes())
_RULES = (
    _rule(ALLOWED, path=_ERROR, recorded=r".*_AUTHORIZATION_FAILED|SECURITY_DISABLED"),
    _rule(REFUSED, path=_ERROR, new=r".*_AUTHORIZATION_FAILED|SECURITY_DISABLED"),
    _rule(SPOKEN, "ApiVersions"),
    _rule(SETTINGS, "DescribeConfigs"),
    _rule(SETTINGS, "CreateTopics", r"^topics\.configs"),
    _rule(SETTINGS, "GetTelemetrySubscriptions PushTelemetry"),
    _rule(FEWER, path=r"replicationFactor$"),
    _rule(
        FEWER,
        path=_ERROR,
        new=_any_of(("INVALID_REPLICATION_FACTOR", "NOT_ENOUGH_REPLICAS", "BROKER_ID_NOT_REGISTERED")),
    ),
    _rule(FEWER, path=_ERROR, recorded=_any_of(("INVALID_REPLICATION_FACTOR", "NOT_ENOUGH_REPLICAS"))),
    _rule(BEFORE, path=_ERROR, recorded="NONE", new="OFFSET_OUT_OF_RANGE"),
    _rule(DEAD, "DescribeGroups", _ERROR, recorded="GROUP_ID_NOT_FOUND", new="NONE"),
    _rule(DEAD, "DescribeGroups", _ERROR, recorded="NONE", new="GROUP_ID_NOT_FOUND"),
    _rule(JOINED, f"{_HEARTBEATS} OffsetCommit TxnOffsetCommit", _ERROR, new="GROUP_ID_NOT_FOUND"),
    _rule(LACKING, path=_ERROR, recorded="NONE", new="UNKNOWN_TOPIC_OR_PARTITION|UNKNOWN_TOPIC_ID"),
    _rule(
        THERE_ALREADY,
        path=_ERROR,
        recorded="UNKNOWN_TOPIC_OR_PARTITION|UNKNOWN_TOPIC_ID|GROUP_ID_NOT_FOUND",
        new="NONE",
    ),
    _rule(THERE_ALREADY, path=_ERROR, new=r"TOPIC_ALREADY_EXISTS|GROUP_MAX_SIZE_REACHED|NON_EMPTY_GROUP"),
    _rule(THERE_BEFORE, path=_ERROR, recorded=r"TOPIC_ALREADY_EXISTS|NON_EMPTY_GROUP"),
    _rule(
        THERE_BEFORE,
        path=_ERROR,
        recorded="NONE",
        new="GROUP_ID_NOT_FOUND|TRANSACTIONAL_ID_NOT_FOUND|DELEGATION_TOKEN_NOT_FOUND",
    ),
    _rule(UNREADY, path=_ERROR, recorded="NONE", new=_UNREADY),
    _rule(REBALANCED, path=_ERROR, recorded="REBALANCE_IN_PROGRESS", new="NONE"),
    _rule(REBALANCED, path=_ERROR, recorded="NONE", new="REBALANCE_IN_PROGRESS"),
    _rule(JOINED, path=_ERROR, new=_any_of(_MEMBERS.split())),
    _rule(JOINED, path=_ERROR, recorded=_any_of(_MEMBERS.split())),
    _rule(PRODUCER, path=_ERROR, recorded="NONE", new=_any_of(_PRODUCERS.split())),
    _rule(ANOTHER_FEATURE, path=_ERROR, new=_any_of(_FEATURES.split())),
    _rule(BEFORE, "Fetch ListOffsets OffsetForLeaderEpoch Produce DeleteRecords", r"(records|[oO]ffset|lowWatermark)$"),
    _rule(COMMITTED, "OffsetFetch", r"(committedOffset|metadata)$"),
    _rule(JOINED, "JoinGroup SyncGroup", r"^(members|assignment|protocol)"),
    _rule(ASSIGNED, _HEARTBEATS),
    _rule(TAKEN, "ShareFetch", r"^responses$|responses\.partitions($|\.(records|acquiredRecords))"),
    _rule(TAKEN, "ShareFetch ShareAcknowledge", _ERROR, new="INVALID_RECORD_STATE"),
    _rule(SINCE, "DescribeQuorum", r"(highWatermark|logEndOffset)$"),
    _rule(THERE_BEFORE, recorded=_THERE, new=_ABSENT),
    _rule(THERE_ALREADY, recorded=_ABSENT, new=_THERE),
)


def explain(api_name: str, difference: Difference) -> str | None:
    """Return why a value differs, as far as the two values show it; None if that is not known."""
    if api_name == "ApiVersions" and re.search(r"\[(GetTelemetrySubscriptions|PushTelemetry)\]", difference.where):
        return TELEMETRY
    for rule in _RULES:
        if rule.fits(api_name, difference):
            return rule.why
    if difference.new not in ErrorCode.__members__ or not re.search(_ERROR, difference.path):
        return None
    known = error_codes()[ErrorCode[difference.new]]
    if known.code == 0:
        return None
    return f"{REFUSED_NOW if difference.recorded == 'NONE' else ANOTHER_REFUSAL}: {known.meaning.rstrip('.')}"
