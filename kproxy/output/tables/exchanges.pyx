# cython: language_level=3, nonecheck=True
"""Rows of the table exchanges; the contract says what the columns are."""

from operator import attrgetter

from libc.stdint cimport int64_t

from kproxy.output.tables.bodies cimport Body
from kproxy.output.tables.gather cimport Found, Slot, gather
from kproxy.session.exchanges cimport Exchange, Frame

from kproxy.output.tables.times import instant
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.protocol.structs import struct_types

cdef int METADATA = ApiKey.METADATA
cdef int FIND_COORDINATOR = ApiKey.FIND_COORDINATOR

cdef enum:
    GROUP_KEY = 0  # CoordinatorType
    TRANSACTION_KEY = 1
    MOST_PROTOCOLS = 100  # assignors of a member that are told

# column, where it may be in the request, and where in the response if the request does not say
TOP_FIELDS = (
    ("member_id", ("member_id", "members.member_id"), ("member_id",)),
    ("group_instance_id", ("group_instance_id", "instance_id", "members.group_instance_id"), ()),
    ("generation_id", ("generation_id", "generation_id_or_member_epoch", "member_epoch"), ()),
    ("response_generation_id", (), ("generation_id", "member_epoch")),
    ("protocol_type", ("protocol_type",), ("protocol_type",)),
    ("protocol_name", ("protocol_name",), ("protocol_name",)),
    ("protocols", ("protocols", "server_assignor"), ()),
    ("leader_id", (), ("leader",)),
    ("members", ("members",), ("members",)),
    ("session_timeout_ms", ("session_timeout_ms",), ()),
    ("rebalance_timeout_ms", ("rebalance_timeout_ms",), ()),
    ("reason", ("reason", "members.reason"), ()),
    ("producer_id", ("producer_id", "v3_and_below_producer_id"), ("producer_id",)),
    ("producer_epoch", ("producer_epoch", "v3_and_below_producer_epoch"), ("producer_epoch",)),
    ("committed", ("committed",), ()),
    ("acks", ("acks",), ()),
    ("timeout_ms", ("timeout_ms",), ()),
    ("replica_id", ("replica_id", "replica_state.replica_id"), ()),
    ("isolation_level", ("isolation_level",), ()),
    ("max_wait_ms", ("max_wait_ms",), ()),
    ("min_bytes", ("min_bytes",), ()),
    ("max_bytes", ("max_bytes",), ()),
    ("fetch_session_id", ("session_id",), ("session_id",)),
    ("fetch_session_epoch", ("session_epoch",), ()),
    ("throttle_time_ms", (), ("throttle_time_ms",)),
)
SAYS_NOTHING = {"fetch_session_id": (None, 0), "fetch_session_epoch": (None,)}  # others: null, "" and -1
cdef tuple NOTHING = (None, "", -1)
cdef dict _api_names = {key: api.name for key, api in facts().apis.items()}


cpdef tuple exchange_row(int64_t number, Exchange exchange, Found found, list top, object undecoded):
    """The columns of exchanges up to throttle_time_ms, without connection_id.

    Args:
        number: of the exchange in its connection.
        found: what is in both bodies.
        top: what top_fields gave.
        undecoded: why a body could not be read, where the exchange itself does not say.
    """
    cdef Frame request = exchange.request
    cdef Frame response = exchange.response
    cdef list codes = list(found.error_codes)
    cdef list groups = list(found.groups)
    layout = assumed = latency = None
    if request is not None:
        layout, assumed = request.layout, request.assumed_version
    if response is not None:
        layout = layout or response.layout
        assumed = response.assumed_version if assumed is None else assumed
        if request is not None:
            latency = <double>(response.ended_at - request.started_at) / 1e6
    return (
        number,
        None if request is None else instant(request.started_at),
        None if response is None else instant(response.ended_at),
        latency,
        exchange.api_key,
        _api_names.get(exchange.api_key),
        exchange.api_version,
        exchange.correlation_id,
        exchange.client_id,
        None if request is None else len(request.data) + 4,
        None if response is None else len(response.data) + 4,
        exchange.expects_response,
        exchange.unanswered,
        exchange.undecoded or undecoded,
        layout,
        assumed,
        codes,
        error_name(codes[0]) if codes else None,
        topic_labels(found, exchange.topic_names),
        found.partitions or None,
        groups,
        groups[0] if groups else None,
        next(iter(found.transactional_ids)) if found.transactional_ids else None,
    ) + tuple(top)


cpdef Found gather_bodies(Exchange exchange, Body request, Body response):
    """What both bodies of an exchange hold, as far as the table tells it."""
    cdef Found found = Found()
    cdef Found answered
    if request is not None:
        gather(request.form.plan, request.struct, found)
        found.error_codes.clear()  # a few requests repeat what another said
        if exchange.api_key == FIND_COORDINATOR:
            _coordinator_keys(request.struct, found)
    if response is not None:
        answered = Found(found.error_codes)
        gather(response.form.plan, response.struct, answered)
        if exchange.api_key != METADATA:  # a client may ask for all topics: those in its response say nothing of it
            found.topics.update(answered.topics)
            found.topic_ids.update(answered.topic_ids)
        found.partitions = found.partitions or answered.partitions
    return found


cdef list topic_labels(Found found, object names):
    """The names of topics, and the ids of those whose names the traffic has not shown."""
    if not found.topic_ids:
        return list(found.topics)
    named = dict.fromkeys(found.topics)
    for topic_id in found.topic_ids:
        named[names.get(topic_id, topic_id)] = None
    return list(named)


cpdef list top_fields(Body request, Body response):
    """The values of TOP_FIELDS."""
    cdef list values = [None] * len(TOP_FIELDS)
    cdef tuple getter
    cdef int number
    if request is not None:
        for getter in getters(request, False):
            number = getter[0]
            values[number] = value_of(getter, request.struct)
    if response is not None:
        for getter in getters(response, True):
            number = getter[0]
            if values[number] in getter[2]:
                values[number] = value_of(getter, response.struct)
    return values


cdef inline object value_of(tuple getter, object struct):
    return (<Slot>getter[1]).of(struct) if type(getter[1]) is Slot else getter[1](struct)


cdef tuple getters(Body body, bint is_response):
    """(number in TOP_FIELDS, how to get it, values that say nothing) of what the message has at that version."""
    if body.form.getters is None:
        body.form.getters = _getters(body.message.name, body.version, is_response)
    return body.form.getters


def _getters(message, version, is_response):
    layout = next(layout for layout in facts().layouts(message) if version in layout.versions)
    fields = {field.attribute: field for field in layout.fields if version in field.versions}
    found = []
    for number, (column, in_request, in_response) in enumerate(TOP_FIELDS):
        for path in in_response if is_response else in_request:
            outer, _, inner = path.partition(".")
            if outer in fields and (not inner or inner in {f.attribute for f in fields[outer].fields}):
                getter = _getter(column, struct_types(message)[message], fields[outer], inner)
                found.append((number, getter, SAYS_NOTHING.get(column, NOTHING)))
                break
    return tuple(found)


def _getter(column, cls, field, inner):
    name = field.attribute
    if inner:
        return _first_of(name, inner) if field.is_array else attrgetter(f"{name}.{inner}")
    if column == "members":
        return lambda struct: len(getattr(struct, name) or ())
    if column == "protocols":
        return _names_of(name) if field.is_array else lambda struct: [getattr(struct, name) or ""]
    return Slot(cls, name)


def _first_of(name, inner):
    def get(struct):
        for each in getattr(struct, name) or ():
            return getattr(each, inner)
        return None

    return get


def _names_of(name):
    return lambda struct: [each.name for each in (getattr(struct, name) or ())[:MOST_PROTOCOLS]]


cdef int _coordinator_keys(request, Found found) except -1:
    """FindCoordinator names groups and transactional ids in one field (KIP-699 made it many)."""
    into = {GROUP_KEY: found.groups, TRANSACTION_KEY: found.transactional_ids}.get(request.key_type)
    if into is not None:
        into.update(dict.fromkeys([request.key] if request.key else request.coordinator_keys or ()))
    return 0
