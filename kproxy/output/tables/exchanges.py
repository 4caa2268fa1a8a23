"""Rows of the table exchanges; the contract says what the columns are."""

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from kproxy.output.escaping import well_formed
from kproxy.output.tables.bodies import Body
from kproxy.output.tables.gather import Found
from kproxy.output.tables.times import instant
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import Field, facts
from kproxy.session import Exchange

Row = tuple[Any, ...]
Getter = Callable[[Any], Any]

METADATA = 3  # a client may ask for all topics: those in its response say nothing of it
FIND_COORDINATOR = 10
GROUP_KEY, TRANSACTION_KEY = 0, 1  # CoordinatorType
MOST_PROTOCOLS = 100  # assignors of a member that are told

# column, where it may be in the request, and where in the response if the request does not say
TOP_FIELDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
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


def exchange_row(number: int, exchange: Exchange, found: Found, top: list[Any], undecoded: str | None) -> Row:
    """The columns of exchanges up to throttle_time_ms, without connection_id.

    Args:
        number: of the exchange in its connection.
        found: what is in both bodies.
        top: what top_fields gave.
        undecoded: why a body could not be read, where the exchange itself does not say.
    """
    request, response = exchange.request, exchange.response
    started = None if request is None else request.started_at
    ended = None if response is None else response.ended_at
    codes = list(found.error_codes)
    groups = [well_formed(group) for group in found.groups]
    transactional_id = next(iter(found.transactional_ids), None)
    layout, assumed = _layout(exchange)
    return (
        number,
        None if started is None else instant(started),
        None if ended is None else instant(ended),
        None if started is None or ended is None else (ended - started) / 1e6,
        exchange.api_key,
        _api_name(exchange.api_key),
        exchange.api_version,
        exchange.correlation_id,
        _text(exchange.client_id),
        None if request is None else request.wire_size,
        None if response is None else response.wire_size,
        exchange.expects_response,
        _text(exchange.unanswered),
        _text(exchange.undecoded or undecoded),
        layout,
        assumed,
        codes,
        error_name(codes[0]) if codes else None,
        topic_labels(found, exchange.topic_names),
        found.partitions or None,
        groups,
        groups[0] if groups else None,
        _text(transactional_id),
        *top,
    )


def gather_bodies(exchange: Exchange, request: Body | None, response: Body | None) -> Found:
    """What both bodies of an exchange hold, as far as the table tells it."""
    found = Found()
    if request is not None:
        request.gather(found)
        found.error_codes.clear()  # a few requests repeat what another said
        if exchange.api_key == FIND_COORDINATOR:
            _coordinator_keys(request.struct, found)
    if response is not None:
        answered = Found(error_codes=found.error_codes)
        response.gather(answered)
        if exchange.api_key != METADATA:
            found.topics |= answered.topics
            found.topic_ids |= answered.topic_ids
        found.partitions = found.partitions or answered.partitions
    return found


def topic_labels(found: Found, names: Mapping[str, str]) -> list[str]:
    """The names of topics, and the ids of those whose names the traffic has not shown."""
    if not found.topic_ids:
        return [well_formed(topic) for topic in found.topics]
    named = dict.fromkeys(found.topics)
    for topic_id in found.topic_ids:
        named[names.get(topic_id, topic_id)] = None
    return [well_formed(topic) for topic in named]


def top_fields(request: Body | None, response: Body | None) -> list[Any]:
    """The values of TOP_FIELDS."""
    values: list[Any] = [None] * len(TOP_FIELDS)
    if request is not None:
        for number, get in _getters(request.message.name, request.version, False):
            values[number] = get(request.struct)
    if response is not None:
        for number, get in _getters(response.message.name, response.version, True):
            column = TOP_FIELDS[number][0]
            if values[number] in SAYS_NOTHING.get(column, (None, "", -1)):
                values[number] = get(response.struct)
    return values


@functools.cache  # as many as there are versions of messages
def _getters(message: str, version: int, is_response: bool) -> tuple[tuple[int, Getter], ...]:
    layout = next(layout for layout in facts().layouts(message) if version in layout.versions)
    fields = {field.attribute: field for field in layout.fields if version in field.versions}
    found = []
    for number, (column, in_request, in_response) in enumerate(TOP_FIELDS):
        for path in in_response if is_response else in_request:
            outer, _, inner = path.partition(".")
            if outer in fields and (not inner or inner in {f.attribute for f in fields[outer].fields}):
                found.append((number, _getter(column, fields[outer], inner)))
                break
    return tuple(found)


def _getter(column: str, field: Field, inner: str) -> Getter:
    name = field.attribute
    if inner:
        return _first_of(name, inner) if field.is_array else attrgetter(f"{name}.{inner}")
    if column == "members":
        return lambda struct: len(getattr(struct, name) or ())
    if column == "protocols":
        return _names_of(name) if field.is_array else lambda struct: [_text(getattr(struct, name) or "")]
    return (lambda struct: _text(getattr(struct, name))) if field.type == "string" else attrgetter(name)


def _first_of(name: str, inner: str) -> Getter:
    def get(struct: Any) -> Any:
        for each in getattr(struct, name) or ():
            return _text(getattr(each, inner))
        return None

    return get


def _names_of(name: str) -> Getter:
    return lambda struct: [well_formed(each.name) for each in (getattr(struct, name) or ())[:MOST_PROTOCOLS]]


def _coordinator_keys(request: Any, found: Found) -> None:
    """FindCoordinator names groups and transactional ids in one field (KIP-699 made it many)."""
    into = {GROUP_KEY: found.groups, TRANSACTION_KEY: found.transactional_ids}.get(request.key_type)
    if into is not None:
        into |= dict.fromkeys([request.key] if request.key else request.coordinator_keys or ())


def _text(text: str | None) -> str | None:
    return text if text is None else well_formed(text)


@functools.lru_cache(maxsize=4096)
def _api_name(api_key: int | None) -> str | None:
    api = None if api_key is None else facts().apis.get(api_key)
    return None if api is None else api.name


def _layout(exchange: Exchange) -> tuple[str | None, int | None]:
    layout: str | None = None
    assumed: int | None = None
    for frame in (exchange.response, exchange.request):
        if frame is not None:
            layout = frame.layout or layout
            assumed = assumed if frame.assumed_version is None else frame.assumed_version
    return layout, assumed
