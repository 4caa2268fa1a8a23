"""Selection: which requests are not sent to another broker, and why: logins, requests between brokers, incomplete ones."""

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, facts
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.judgements import apis_for_replay
from kproxy.replay.recording import Recorded

LOGINS = apis_for_replay("login")
# APIs of controllers, and APIs on listeners for clients that need ClusterAction or are sent by brokers alone
# (ApiKeys.clusterAction of kafka-clients; KIP-932 for share group state, KIP-853 for voters that register by themselves)
BETWEEN_BROKERS = apis_for_replay("internal")
# Versions that only brokers send: in batches, to verify transactions (KIP-890)
OF_BROKERS_FROM: dict[int, int] = {ApiKey.ADD_PARTITIONS_TO_TXN: 4}
LOGIN = "a login of the capture: connections to the new cluster log in by themselves, where --command-config says how"
INTERNAL = "what brokers and controllers say to each other"
DECLINED = "a version that the recorded broker did not know; its client asked again at a lower one, which is sent"
REPLICA = "a replica's fetch, not a client's"


def reason_not_sent(recorded: Recorded) -> str | None:
    """Return why a request is not sent to any broker, in words; None if it is sent."""
    api_key = recorded.api_key
    if api_key in LOGINS:
        return LOGIN
    if is_internal(api_key, recorded.api_version):
        return INTERNAL
    if recorded.request.cut:
        return f"its end is not in the capture ({recorded.request.cut.text})"
    return _reason_of_body(recorded)


def _reason_of_body(recorded: Recorded) -> str | None:
    request, api = recorded.request, facts().apis.get(recorded.api_key)
    if api is not None and (request.assumed_version is not None or request.unread):
        if request.unread and (recorded.api_version <= api.versions.highest or _is_declined(recorded)):
            return DECLINED
        return f"version {recorded.api_version} is newer than kproxy knows"
    if not recorded.readable:
        return f"it cannot be decoded: {request.error or 'the API is not known'}"
    try:
        return REPLICA if _is_replica(recorded.body()) else None
    except DecodeError as error:
        return f"it cannot be decoded: {error}"


def _is_declined(recorded: Recorded) -> bool:
    """Return whether the recorded broker answered ApiVersions with the version to ask at instead (KIP-511)."""
    answer = recorded.answer() if recorded.api_key == ApiKey.API_VERSIONS else None
    return answer is not None and answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def is_internal(api_key: int, api_version: int) -> bool:
    """Return whether brokers and controllers send this to each other, and clients do not."""
    return api_key in BETWEEN_BROKERS or api_version >= OF_BROKERS_FROM.get(api_key, api_version + 1)


def _is_replica(body: object) -> bool:
    """Return whether a Fetch, ListOffsets or OffsetForLeaderEpoch comes from a follower, which names itself."""
    replica = getattr(body, "replica_id", -1)
    state = getattr(body, "replica_state", None)
    return replica >= 0 or (state is not None and state.replica_id >= 0)
