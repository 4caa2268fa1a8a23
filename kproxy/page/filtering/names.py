"""The names that a filter may use: those of ``kproxy decode --where``, each with its type and meaning, for completion."""

from kproxy.output.where import CHEAP, COSTLY, ENTITIES
from kproxy.output.where_types import LISTS, NUMBERS, SIDES, TEXTS, TRUTHS

MEANINGS = {
    "event": "exchange",
    "connection": "number of the connection",
    "client": "address and port of the client",
    "broker": "address and port of the broker",
    "apiKey": "number of the API",
    "apiName": "Kafka's name of the API",
    "apiVersion": "version of the API",
    "correlationId": "as the request header has it",
    "clientId": "as the request header has it",
    "requestAt": "when the request's first byte came, RFC 3339",
    "responseAt": "when the response's last byte came, RFC 3339",
    "latencyMs": "from the one to the other, in milliseconds",
    "requestInProxyMs": "from the request's first byte received by kproxy to its last one sent on, in milliseconds",
    "brokerMs": "from there to the response's first byte, in milliseconds",
    "responseInProxyMs": "from there to the response's last byte sent on, in milliseconds",
    "requestSize": "bytes on the wire, size field included",
    "responseSize": "bytes on the wire, size field included",
    "unanswered": "why there is no response, in words",
    "expectsResponse": "false for Produce with acks=0",
    "bodies": "why a body is not here to its end, in words",
    "trailing": "bytes after the message, by side",
    "requestHeader": "the header as Kafka's JSON",
    "request": "the request's body as Kafka's JSON",
    "responseHeader": "the header as Kafka's JSON",
    "response": "the response's body as Kafka's JSON",
    "embedded": "what is inside bytes and records fields: path, in, kind, json",
    "errors": "error codes in the response that are not 0: path, code, name",
    "undecoded": "why something could not be read, in words",
    "topicNames": "topic id -> name",
    "layout": "the release of an older layout",
    "assumedVersion": "the newest known version, where a newer one was read as it",
    "topics": 'topics that it names, as in "orders" in topics',
    "groups": 'groups that its request names, as in "billing" in groups',
    "principal": "as whom the client has logged in: the SASL user, else the subject of its TLS certificate",
    "missing": "by side, the first field that is not whole",
}


def _type_of(name: str) -> str:
    for kind, names in (("number", NUMBERS), ("text", TEXTS), ("truth", TRUTHS), ("object", SIDES)):
        if name in names:
            return kind
    return "list" if name in LISTS | {"embedded", "errors"} else "object"


NAMES = {name: (_type_of(name), MEANINGS[name]) for name in (*CHEAP, *ENTITIES, *COSTLY)}  # name -> type, meaning
