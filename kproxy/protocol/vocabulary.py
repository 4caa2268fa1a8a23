"""The vocabulary of conditions: the fields that a CEL condition can use, each with its type, its meaning and where it is known.

A field has one name everywhere. It is camelCase in conditions: ``--where``, the page's filter, breakpoints, and rules of filters.
Options in YAML that select by a field, and columns of tables that hold it, have its name in snake_case (``api_name``).
Checks of names and types, completion on the page, and the reference in help texts are made from this table.

To add a field, add it here, then its value for each scope: kproxy/output/where.py for LOG (and page/columns.py, if the page is to
answer it from a column), kproxy/filters/conditions.py for REQUEST and RESPONSE. Tests fail while one is missing.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

FieldType: TypeAlias = Literal["number", "text", "truth", "texts", "object", "objects"]


class Scope(StrEnum):
    """What a condition is evaluated on, which decides the fields it can use."""

    LOG = "log"  # an exchange that is complete: --where and the page's filter
    REQUEST = "request"  # a request on its way to the broker: rules of filters, breakpoints on requests
    RESPONSE = "response"  # a response on its way to the client, and its request: breakpoints on responses
    RECORDS = "records"  # one of the records of a request on its way to the broker: rules of deny
    OTHER_LINES = "other lines"  # lines of the decoded log that are no exchange, such as gaps; only --where sees them


class VocabularyField(NamedTuple):
    name: str
    type: FieldType
    meaning: str
    scopes: frozenset[Scope]


LOG = frozenset({Scope.LOG})
PASSING = frozenset({Scope.REQUEST, Scope.RESPONSE})
RESPONSES = frozenset({Scope.LOG, Scope.RESPONSE})
EVERYWHERE = LOG | PASSING
OTHER_LINES = frozenset({Scope.OTHER_LINES})
WORDS: dict[FieldType, str] = {
    "number": "a number",
    "text": "a text",
    "truth": "true or false",
    "texts": "a list of texts",
    "object": "an object",
    "objects": "a list of objects",
}
_FIELDS: tuple[tuple[str, FieldType, frozenset[Scope], str], ...] = (
    ("event", "text", LOG | OTHER_LINES, "kind of the line: exchange, or gap, note, tls and others that --where can show"),
    # the connection
    ("connection", "number", LOG | OTHER_LINES, "number of the connection in the capture, from 1"),
    ("client", "text", EVERYWHERE, 'address and port of the client, "10.1.2.3:50412"'),
    ("address", "text", EVERYWHERE, "address of the client, without the port"),
    ("broker", "text", EVERYWHERE, "address and port of the broker"),
    ("listener", "text", PASSING, "address and port of kproxy that the client connected to"),
    ("cluster", "text", PASSING, "name of the virtual cluster"),
    ("principal", "text", EVERYWHERE, "user of the SASL login, else subject of the client's TLS certificate; may be null"),
    ("principalGroups", "texts", PASSING, 'groups of a client that has logged in to kproxy, as in "ops" in principalGroups'),
    ("claims", "object", PASSING, 'claims of its token, as in has(claims.tenant) && claims.tenant == "a"; empty without a token'),
    ("mechanism", "text", EVERYWHERE, "SASL mechanism of the login; null without one"),
    ("software", "text", EVERYWHERE, "name of the client's library, from ApiVersions (KIP-511); may be null"),
    ("softwareVersion", "text", EVERYWHERE, "version of that library; may be null"),
    # the header
    ("apiKey", "number", EVERYWHERE, "number of the API"),
    ("apiName", "text", EVERYWHERE, "Kafka's name of the API"),
    ("apiVersion", "number", EVERYWHERE, "version of the API"),
    ("correlationId", "number", EVERYWHERE, "correlation id in the request header"),
    ("clientId", "text", EVERYWHERE, "client id in the request header; may be null"),
    # time and size
    ("requestAt", "text", LOG, "when the request's first byte arrived, RFC 3339"),
    ("responseAt", "text", LOG, "when the response's last byte arrived, RFC 3339"),
    ("latencyMs", "number", LOG, "from requestAt to responseAt, in milliseconds"),
    ("requestInProxyMs", "number", LOG, "from the request's arrival at kproxy until all of it was sent on, in milliseconds"),
    ("brokerMs", "number", LOG, "from then until the response's first byte arrived, in milliseconds"),
    ("responseInProxyMs", "number", LOG, "from then until all of the response was sent on, in milliseconds"),
    ("requestSize", "number", LOG, "bytes of the request on the wire, size field included"),
    ("responseSize", "number", LOG, "bytes of the response on the wire, size field included"),
    # what the request names
    ("topics", "texts", EVERYWHERE, 'names of its topics, as in "orders" in topics'),
    ("groups", "texts", EVERYWHERE, 'names of its groups, as in "billing" in groups'),
    ("transactionalIds", "texts", PASSING, "transactional ids in the request"),
    ("resources", "objects", PASSING, "everything that the request names: objects of type and name"),
    ("topic", "text", PASSING, "evaluates the condition for each topic of the request by itself"),
    # how it went
    ("errors", "objects", RESPONSES, "error codes in the response other than 0: objects of code, name and path"),
    ("errorNames", "texts", RESPONSES, 'names of these errors, each once, as in "NOT_LEADER_OR_FOLLOWER" in errorNames'),
    ("expectsResponse", "truth", EVERYWHERE, "false for Produce with acks=0"),
    ("unanswered", "text", LOG, "why there is no response, in words; else null"),
    ("edited", "texts", LOG, 'what filters did, as in "request changed by mask" in edited, or size(edited) > 0'),
    # the bodies
    ("requestHeader", "object", LOG, "header of the request as Kafka's JSON"),
    ("request", "object", EVERYWHERE, "body of the request as Kafka's JSON; in filters without bytes and records"),
    ("responseHeader", "object", LOG, "header of the response as Kafka's JSON"),
    ("response", "object", RESPONSES, "body of the response as Kafka's JSON; in filters without bytes and records"),
    ("embedded", "objects", LOG, "what bytes and records fields hold: objects of path, in, kind and json"),
    ("record", "object", LOG | {Scope.RECORDS}, "some record: topic, partition, offset, timestamp, key, value, headers"),
    ("topicNames", "object", LOG, "name of each topic id in the exchange"),
    # what could not be read as usual
    ("bodies", "text", LOG, "why a body is incomplete, in words; else null"),
    ("missing", "object", LOG, "first field that is incomplete, of request and of response"),
    ("trailing", "object", LOG, "number of bytes after the message, of request and of response"),
    ("undecoded", "text", LOG, "why something could not be decoded, in words; else null"),
    ("layout", "text", LOG, "Kafka release whose layout was used, for versions that were changed in place; else null"),
    ("assumedVersion", "number", LOG, "newest known version, used to decode a newer one; else null"),
    # lines that are no exchange
    ("at", "text", OTHER_LINES, "when it happened, RFC 3339"),
    ("direction", "text", OTHER_LINES, "request (client to broker) or response"),
    ("size", "number", OTHER_LINES, "bytes"),
    ("skipped", "number", OTHER_LINES, "bytes that were skipped after a gap"),
    ("reason", "text", OTHER_LINES, "why no peer would accept the frame"),
    ("kind", "text", OTHER_LINES, "what is spoken on the connection instead of Kafka"),
    ("what", "text", OTHER_LINES, "what a peer did, in words"),
    ("tls", "object", OTHER_LINES, "version and certificates of the TLS connection"),
    ("tcp", "object", OTHER_LINES, "when a connection that is not Kafka began, how often it was tried, and who ended it"),
)  # fmt: skip
VOCABULARY = {name: VocabularyField(name, kind, meaning, scopes) for name, kind, scopes, meaning in _FIELDS}

# Fields of the elements of lists of objects: type and meaning
ELEMENTS: dict[str, dict[str, tuple[FieldType, str]]] = {
    "errors": {
        "code": ("number", "error code"),
        "name": ("text", "Kafka's name of the error"),
        "path": ("text", "where it is in the response"),
    },
    "resources": {
        "type": ("text", "topic, group, transactional_id…"),
        "name": ("text", "name of the resource; null for a topic id that is not known"),
    },
}
# Former spellings, which still work in rules of filters, in breakpoints and in YAML
ALIASES = {"api": "apiName"}
OPTION_ALIASES = {"api": "api_name", "apis": "api_name"}


def fields_in(*scopes: Scope) -> dict[str, VocabularyField]:
    """Return the fields known in any of the scopes, by name."""
    return {name: field for name, field in VOCABULARY.items() if not field.scopes.isdisjoint(scopes)}


def names_of_type(*types: FieldType) -> frozenset[str]:
    return frozenset(name for name, field in VOCABULARY.items() if field.type in types)


def snake_case(name: str) -> str:
    """Return the name of a field as options and columns spell it: ``apiName`` is ``api_name``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def table_rows(*scopes: Scope) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, meaning and scopes of each field, in words, for a reference; of all fields if no scope is given."""
    for field in (fields_in(*scopes) if scopes else VOCABULARY).values():
        known_in = ", ".join(scope.value for scope in Scope if scope in field.scopes)
        yield field.name, WORDS[field.type].removeprefix("a ").removeprefix("an "), field.meaning, known_in
