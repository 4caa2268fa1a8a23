"""Addresses: where responses have addresses of brokers, found in the facts.

An address is a struct with a host (a string whose name ends in "Host") and a port, and with the id of a broker (an int32 of
Kafka's entity type "brokerId") in the same struct or in the one around it. These are no addresses of brokers: ``clientHost`` of
DescribeGroups and similar APIs, which is the group member's own and has no port; the user endpoint of Streams groups (KIP-1071),
where an application serves its own queries (``application.server``), which has no broker id; hosts of ACLs, which are conditions
on clients. Requests carry addresses only between brokers and controllers, and to controllers.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.filters.contract import Want
from kproxy.protocol import ApiKey, Versions, facts
from kproxy.protocol.facts import Field, Layout


@dataclass(frozen=True, slots=True)
class AddressField:
    """A struct of a response with the host and port of a broker, and the path to it."""

    path: tuple[Field, ...]  # from the message to the struct; empty: the message itself
    node_id: str  # attribute of the struct, or of the one around it where names_listeners
    host: str  # attributes of the struct
    port: str
    has_error_code: bool  # the struct can have an error in place of an address
    names_listeners: bool  # every listener of the node by its name, not the one of the connection (DescribeQuorum)
    versions: Versions


@functools.cache
def address_fields(api_key: int) -> tuple[AddressField, ...]:
    """Return the address fields of an API's response at all its versions; none for an API that is not in the facts."""
    api = facts().apis.get(api_key)
    if api is None:
        return ()
    layouts = facts().layouts(f"{api.name}Response")
    fields = [place for layout in layouts for place in _find(layout.fields, (), (), layout.versions)]
    return tuple(dict.fromkeys(fields))


@functools.cache
def responses_with_addresses() -> dict[tuple[int, int], Want]:
    """Return (api_key, api_version) -> which part of a response has to be held for its addresses.

    HEAD if other fields follow the addresses, TAIL if the addresses come last in a response that is large or frequent, else
    HOLD.
    """
    wants = {}
    for api_key in facts().apis:
        for version in sorted({version for place in address_fields(api_key) for version in place.versions}):
            if head_end(api_key, version) is not None:
                wants[api_key, version] = Want.HEAD
            else:
                wants[api_key, version] = Want.TAIL if _is_tail(api_key, version) else Want.HOLD
    return wants


def head_end(api_key: int, api_version: int) -> str | None:
    """Return the top-level untagged field (Kafka's JSON name) that follows the last address.

    The fields before it are the head of the response. None: no field follows, or the addresses are in the tag section.
    """
    fields = untagged(layout_of(api_key, api_version), api_version)
    leading = [at for at, field in enumerate(fields) if _leads(api_key, field)]
    return fields[leading[-1] + 1].json_name if leading and leading[-1] + 1 < len(fields) else None


def tail_start(api_key: int, api_version: int) -> str | None:
    """Return the top-level untagged field (Kafka's JSON name) where the addresses begin; None: in the tag section.

    Only for responses for which ``ends_with_addresses`` is true: behind it are only fields with addresses and the tag
    section.
    """
    layout = layout_of(api_key, api_version)
    return next((field.json_name for field in untagged(layout, api_version) if _leads(api_key, field)), None)


def ends_with_addresses(api_key: int, api_version: int) -> bool:
    """Return whether the tail of a response can be rewritten to the same size.

    That is so if its addresses are in its last field or in the tag section, and if it has a tag section, which can be filled.
    """
    layout = layout_of(api_key, api_version)
    *before, _ = untagged(layout, api_version)
    if any(not place.path and api_version in place.versions for place in address_fields(api_key)):
        return False  # FindCoordinator up to version 3: its only address is the message's own
    return api_version in layout.flexible and not any(_leads(api_key, field) for field in before)


def layout_of(api_key: int, api_version: int) -> Layout:
    """Return the newest layout of a response at a version."""
    layouts = facts().layouts(f"{facts().apis[api_key].name}Response")
    return next(layout for layout in layouts if api_version in layout.versions)


def untagged(layout: Layout, api_version: int) -> list[Field]:
    """Return the top-level fields that come before the tag section."""
    return [field for field in layout.fields if api_version in field.versions and api_version not in field.tagged]


def _find(
    fields: tuple[Field, ...], around: tuple[Field, ...], path: tuple[Field, ...], versions: Versions
) -> Iterator[AddressField]:
    here = _place(fields, around, path, versions)
    if here is not None:
        yield here
    for field in fields:
        if field.is_struct:
            yield from _find(field.fields, fields, (*path, field), versions.intersect(field.versions))


def _place(
    fields: tuple[Field, ...], around: tuple[Field, ...], path: tuple[Field, ...], versions: Versions
) -> AddressField | None:
    host = next((field for field in fields if field.type == "string" and field.name.endswith("Host")), None)
    port = next((field for field in fields if "int" in field.type and field.name.endswith("Port")), None)
    node_id, outer = _broker_id(fields), _broker_id(around)
    if host is None or port is None or (node_id or outer) is None:
        return None
    return AddressField(
        path=path,
        node_id=(node_id or outer).attribute,  # type: ignore[union-attr]
        host=host.attribute,
        port=port.attribute,
        has_error_code=any(field.name == "ErrorCode" for field in fields),
        names_listeners=node_id is None,
        versions=versions.intersect(host.versions),
    )


def _broker_id(fields: tuple[Field, ...]) -> Field | None:
    ids = (field for field in fields if field.entity == "brokerId" and not field.is_array)
    return next(ids, None)


def _is_tail(api_key: int, version: int) -> bool:
    """Return whether a response that carries records has addresses in its last field or its tag section.

    The response of an API whose requests carry records counts too. ShareAcknowledge carries none, but is sent as often as
    ShareFetch and has its form (KIP-932).
    """
    name = facts().apis[api_key].name
    layouts = [*facts().layouts(f"{name}Response"), *facts().layouts(f"{name}Request")]
    if api_key != ApiKey.SHARE_ACKNOWLEDGE and not any(_has_records(layout.fields) for layout in layouts):
        return False
    return ends_with_addresses(api_key, version)


def _has_records(fields: tuple[Field, ...]) -> bool:
    return any(field.type == "records" or _has_records(field.fields) for field in fields)


def _leads(api_key: int, field: Field) -> bool:
    return any(place.path[:1] == (field,) for place in address_fields(api_key))
