"""Rows of the table errors: every error code of a response, with the topic, group or transactional id that it is about.

Only responses that have an error are searched, by a walk of body.pyx.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kproxy.output.escaping import printable
from kproxy.output.tables.body import Body, requested_of
from kproxy.output.tables.rows import instant
from kproxy.protocol.error_codes import error_name
from kproxy.session import Exchange

Place = tuple[str, str | None, int | None]  # of what a code is about: type, name, partition

LONGEST = 500  # characters of a message
NONE = "none"
COORDINATOR_KEYS = {0: "group", 1: "transactional_id"}  # CoordinatorType


def error_rows(exchange: Exchange, request: Body | None, response: Body) -> Iterator[tuple[Any, ...]]:
    """Yield rows of the table errors, from column ``at`` on."""
    counted: dict[tuple[int, Place], tuple[int, str | None]] = {}
    for (code, kind, name, partition), (count, message) in response.errors().items():
        key = code, _named(kind, name, partition, request, exchange.topic_names)
        before, said = counted.get(key, (0, None))
        counted[key] = before + count, said or message
    at = None if exchange.response is None else instant(exchange.response.ended_at)
    head = at, exchange.api_key, exchange.api_name, exchange.client_id
    for (code, place), (count, message) in counted.items():
        text = None if not message else printable(message, LONGEST)
        yield *head, code, error_name(code), text, *place, count


def _named(
    kind: str, name: str | None, partition: int | None, request: Body | None, topic_names: Mapping[str, str]
) -> Place:
    """Complete a place by what else is known: names of topic ids, and what the request is about."""
    if kind == "topic" and name is not None:
        name = topic_names.get(name, name)
    elif kind == "key":
        kind = NONE if request is None else COORDINATOR_KEYS.get(request.key_type, NONE)
    elif (
        kind == NONE
    ):  # a code alone in its response is about the only transactional id, group or broker in the request
        only = [(each, names[0]) for each, names in requested_of(request) if len(names) == 1]
        kind, name = only[0] if only else (NONE, None)
    return kind, name, partition
