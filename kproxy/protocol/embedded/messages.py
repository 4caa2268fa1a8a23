"""The table of message fields that hold payloads, with the function that decodes each; callers pass decoded messages.

Messages without payloads are not in the table and cost only a look-up. Decoders are imported at their first use, as captures
have few kinds of payloads, and imports dominate the time for a small capture.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from kproxy.errors import Malformed
from kproxy.protocol.embedded.payload import Context, Embedded, Opening
from kproxy.protocol.headers import read_request_header
from kproxy.protocol.ids import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID

if TYPE_CHECKING:
    from kproxy.protocol.embedded.envelope import Nested

FIXED_IDS = {METADATA_TOPIC_ID: METADATA_TOPIC}  # in no Metadata response
UNALIGNED = "unalignedRecords"
Open: TypeAlias = Callable[[Any, int, Opening], None]


def holds_payloads(message_name: str) -> bool:
    """Return whether a message ("FetchResponse") has fields with payloads."""
    return message_name in REQUESTS or message_name in RESPONSES


def open_request(message_name: str, api_version: int, body: Any, context: Context) -> list[Embedded]:
    """Decode the payloads in the bytes and records fields of a request, in the order of the body; never raises.

    Args:
        message_name: Kafka's name ("JoinGroupRequest").
        api_version: the version of the body's layout.
        body: the decoded message.
        context: further knowledge.
    """
    return _open(REQUESTS.get(message_name), api_version, body, Opening("request", context))


def open_response(message_name: str, api_version: int, body: Any, context: Context) -> list[Embedded]:
    """As open_request, for a response; ``context.request`` is the decoded request if it was seen."""
    return _open(RESPONSES.get(message_name), api_version, body, Opening("response", context))


def _open(open_body: Open | None, api_version: int, body: Any, opening: Opening) -> list[Embedded]:
    if open_body is not None:
        open_body(body, api_version, opening)
    return opening.found


def _join_group_request(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    for index, protocol in enumerate(body.protocols):
        path = f"protocols[{index}].metadata"
        group.add_metadata(opening, path, protocol.metadata, body.protocol_type, protocol.name)


def _join_group_response(body: Any, _version: int, opening: Opening) -> None:
    """Decode the metadata of all members, which only the leader receives, by the chosen protocol."""
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    context = opening.context
    kind = body.protocol_type or getattr(context.request, "protocol_type", None) or context.protocol_type
    for index, member in enumerate(body.members):
        group.add_metadata(opening, f"members[{index}].metadata", member.metadata, kind, body.protocol_name)


def _sync_group_request(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    kind = body.protocol_type or opening.context.protocol_type
    name = body.protocol_name or opening.context.protocol_name
    for index, assigned in enumerate(body.assignments):
        group.add_assignment(opening, f"assignments[{index}].assignment", assigned.assignment, kind, name)


def _sync_group_response(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    context = opening.context
    kind = body.protocol_type or getattr(context.request, "protocol_type", None) or context.protocol_type
    name = body.protocol_name or getattr(context.request, "protocol_name", None) or context.protocol_name
    group.add_assignment(opening, "assignment", body.assignment, kind, name)


def _describe_groups_response(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded import group  # noqa: PLC0415

    for number, described in enumerate(body.groups):
        kind, name = described.protocol_type, described.protocol_data
        for index, member in enumerate(described.members):
            at = f"groups[{number}].members[{index}]"
            group.add_metadata(opening, f"{at}.memberMetadata", member.member_metadata, kind, name)
            group.add_assignment(opening, f"{at}.memberAssignment", member.member_assignment, kind, name)


def _sasl_authenticate_request(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415

    def read() -> dict[str, Any]:
        return open_token(body.auth_bytes, opening.context.sasl_mechanism, from_client=True)

    opening.add("authBytes", "sasl-token", read)


def _sasl_authenticate_response(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415

    def read() -> dict[str, Any]:
        failed = body.error_code != 0
        return open_token(body.auth_bytes, opening.context.sasl_mechanism, from_client=False, failed=failed)

    opening.add("authBytes", "sasl-token", read)


def _push_telemetry_request(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded.telemetry import open_metrics  # noqa: PLC0415

    opening.add("metrics", "telemetry-metrics", open_metrics, body.metrics, body.compression_type)


def _envelope_request(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded import envelope  # noqa: PLC0415

    opening.add("requestData", "request", envelope.open_nested_request, body.request_data)
    if body.request_principal is not None:
        opening.add("requestPrincipal", "principal", envelope.open_principal, body.request_principal)
    opening.add("clientHostAddress", "address", envelope.open_address, body.client_host_address)
    nested = envelope.nested_request(body.request_data)
    if nested is not None:
        _open_nested(REQUESTS, nested, "requestData", opening, None)


def _envelope_response(body: Any, _version: int, opening: Opening) -> None:
    from kproxy.protocol.embedded import envelope  # noqa: PLC0415

    if body.response_data is not None:
        opening.add("responseData", "response", _nested_response, body.response_data, opening.context.request)
        request = envelope.nested_request(getattr(opening.context.request, "request_data", b""))
        nested = None if request is None else envelope.nested_response(body.response_data, request)
        if request is not None and nested is not None:
            _open_nested(RESPONSES, nested, "responseData", opening, request.body)


def _open_nested(table: dict[str, Open], nested: "Nested", path: str, opening: Opening, request: Any) -> None:
    """Decode the payloads of the message inside an Envelope; their paths are appended to the message's.

    An Envelope inside an Envelope is not opened.
    """
    if nested.name in table and not nested.name.startswith("Envelope"):
        inner = Opening(opening.where, replace(opening.context, request=request))
        table[nested.name](nested.body, nested.version, inner)
        opening.found += [replace(one, path=f"{path}.{one.path}") for one in inner.found]


def _nested_response(data: bytes, request: Any) -> dict[str, Any]:
    from kproxy.protocol.embedded import envelope  # noqa: PLC0415

    request_data = getattr(request, "request_data", None)
    if request_data is None:
        raise Malformed("its request was not seen, which would tell what it is", message="nested response")
    header = read_request_header(request_data)
    return envelope.open_nested_response(data, header.api_key, header.api_version)


def _produce_request(body: Any, _version: int, opening: Opening) -> None:
    for number, topic in enumerate(body.topic_data):
        for index, partition in enumerate(topic.partition_data):
            path = f"topicData[{number}].partitionData[{index}].records"
            _add_records(opening, path, partition.records, (topic.name, topic.topic_id), partition.index)


def _fetch_response(body: Any, _version: int, opening: Opening) -> None:
    for number, topic in enumerate(body.responses):
        for index, partition in enumerate(topic.partitions):
            path = f"responses[{number}].partitions[{index}].records"
            _add_records(opening, path, partition.records, (topic.topic, topic.topic_id), partition.partition_index)


def _share_fetch_response(body: Any, _version: int, opening: Opening) -> None:
    for number, topic in enumerate(body.responses):
        for index, partition in enumerate(topic.partitions):
            path = f"responses[{number}].partitions[{index}].records"
            _add_records(opening, path, partition.records, ("", topic.topic_id), partition.partition_index)


def _fetch_snapshot_response(body: Any, _version: int, opening: Opening) -> None:
    """Decode a chunk of a snapshot of the metadata log, which may begin and end at any byte."""
    for number, topic in enumerate(body.topics):
        for index, partition in enumerate(topic.partitions):
            path = f"topics[{number}].partitions[{index}].unalignedRecords"
            _add_records(opening, path, partition.unaligned_records, (topic.name, ZERO_UUID), partition.index)


def _add_records(opening: Opening, path: str, data: bytes | None, topic: tuple[str, str], partition: int) -> None:
    """Decode a records field that is not empty. *topic* is (name, id); a version has only one of them."""
    if not data:
        return
    from kproxy.protocol.embedded.records_field import open_records  # noqa: PLC0415

    context = opening.context
    name: str | None
    topic_id: str | None
    name, topic_id = topic
    if topic_id == ZERO_UUID:
        topic_id = None
    else:
        name = context.topic_names.get(topic_id) or FIXED_IDS.get(topic_id)
    json = open_records(
        data, name, partition, topic_id=topic_id, unaligned=path.endswith(UNALIGNED), viewers=context.viewers
    )
    opening.found.append(Embedded(path, opening.where, "records", json))


REQUESTS: dict[str, Open] = {
    "ProduceRequest": _produce_request,
    "JoinGroupRequest": _join_group_request,
    "SyncGroupRequest": _sync_group_request,
    "SaslAuthenticateRequest": _sasl_authenticate_request,
    "PushTelemetryRequest": _push_telemetry_request,
    "EnvelopeRequest": _envelope_request,
}
RESPONSES: dict[str, Open] = {
    "FetchResponse": _fetch_response,
    "ShareFetchResponse": _share_fetch_response,
    "FetchSnapshotResponse": _fetch_snapshot_response,
    "JoinGroupResponse": _join_group_response,
    "SyncGroupResponse": _sync_group_response,
    "DescribeGroupsResponse": _describe_groups_response,
    "SaslAuthenticateResponse": _sasl_authenticate_response,
    "EnvelopeResponse": _envelope_response,
}
