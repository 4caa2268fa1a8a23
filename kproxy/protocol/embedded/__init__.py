"""What clients and brokers put inside bytes and records fields, opened.

    open_request(message_name, version, body, context)    -> list[Embedded]: what is inside a decoded request; response likewise
    holds_payloads(message_name)                          -> bool: whether a message has such fields

Map

    messages.py        which fields of which messages hold what: open_request, open_response
    payload.py         Embedded (one opened payload), Context (what has to be known to open it), Opening (collects them)
    group.py           member metadata and assignments by protocol type: consumer.py, sticky.py, streams.py, connect.py
    sasl.py            tokens: mechanism, user name, outcome; never the secret
    telemetry.py       PushTelemetry; otlp.py (its table of fields), protobuf.py (the wire format)
    envelope.py        forwarded requests and responses, principal, address (KIP-590)
    records_field.py   records fields: batch headers, and the records of Kafka's own topics
    internal_topics.py records of __consumer_offsets, __cluster_metadata and the like
    viewers.py         keys and values of ordinary records as text, JSON, hex, or by a user's viewer
    reader.py          bounds-checked primitives for what no schema describes

Any bytes give a value, or a DecodeError that open_request and open_response report in the place of the payload.

To add
    a payload           a module with a function ``open_x(data) -> dict`` that raises only DecodeError (reader.py has the
                        primitives); then an entry for the message in the tables REQUESTS or RESPONSES of messages.py
    a group protocol    a module like consumer.py, and its protocol type in group.py
    a SASL mechanism    CLIENT_TOKENS and SERVER_TOKENS in sasl.py
    a record format     a viewer: see viewers.py
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kproxy.protocol.embedded.messages import holds_payloads, open_request, open_response
from kproxy.protocol.embedded.payload import Context, Embedded

if TYPE_CHECKING:
    from kproxy.protocol.embedded.viewers import Content, Viewer, Viewers

__all__ = ["Content", "Context", "Embedded", "Viewer", "Viewers", "holds_payloads", "open_request", "open_response"]


def __getattr__(name: str) -> object:
    """Load the viewers when they are used first (PEP 562): most decodes show no records."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.viewers"), name)
