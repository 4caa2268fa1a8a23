"""Refusal: a request that is answered with a Kafka error in place of being forwarded."""

from typing import Any

from kproxy.filters.contract import Close, Reply, Request, Verdict
from kproxy.filters.error_responses import error_response
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_ID


class Refusal(Exception):
    """Raised for a request that is refused; *code* and *reason* are for the client."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.reason = reason


class UnknownId(Refusal):
    """Raised for a topic id that no response has named to the tenant."""

    def __init__(self) -> None:
        super().__init__(UNKNOWN, "a topic id that is not known to be the tenant's")


def refused(request: Request, refusal: Refusal) -> Verdict:
    """Answer with the error in each place that has one; close the connection where the response has none."""
    if request.api_key == ApiKey.PRODUCE and getattr(request.message, "acks", None) == 0:
        return Close(str(refusal))  # what brokers do where no response is expected: it makes clients ask for metadata
    # Brokers report an unknown topic for each partition: clients do not understand an error of the response, or of a group, so
    is_unknown = isinstance(refusal, UnknownId)
    in_elements = is_unknown and request.api_key == ApiKey.FETCH
    response = error_response(request, refusal.code, refusal.reason, in_elements=in_elements)
    if response is None:
        return Close(str(refusal))
    if is_unknown and request.api_key == ApiKey.OFFSET_FETCH:
        _fail_partitions(request.message, response)
    return Reply(response)


def _fail_partitions(request: Any, response: Any) -> None:
    types = response.struct_types
    topic_of, partition_of = types["OffsetFetchResponseTopics"], types["OffsetFetchResponsePartitions"]
    # A request may name a group twice; the response has it once.
    asked = {group.group_id: group for group in request.groups}
    for group in response.groups:
        requested = asked[group.group_id]
        # A group whose topics are all asked for must not look as if it had none: with this error clients ask again
        group.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if requested.topics is None else ErrorCode.NONE
        group.topics = [
            topic_of(
                topic_id=topic.topic_id,
                partitions=[
                    partition_of(partition_index=each, error_code=UNKNOWN, committed_offset=-1)
                    for each in topic.partition_indexes
                ],
            )
            for topic in requested.topics or ()
        ]
