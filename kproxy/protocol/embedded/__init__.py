"""What clients and brokers put inside bytes and records fields, opened.

    messages.py        which fields of which messages hold what: open_request, open_response, the way in
    payload.py         Embedded (what was found), Context (what has to be known to open it)
    group.py           member metadata and assignments by protocol type; consumer.py, sticky.py, streams.py, connect.py
    sasl.py            tokens: mechanism, user name, outcome; never the secret
    telemetry.py       PushTelemetry; otlp.py (its table of fields), protobuf.py (the wire format)
    envelope.py        forwarded requests and responses, principal, address
    internal_topics.py records of __consumer_offsets, __cluster_metadata and the like
    viewers.py         keys and values of ordinary records as text, JSON, hex, or by a viewer of the user's
    reader.py          bounds-checked primitives for what no schema describes

Any bytes give a value, or a DecodeError that open_request and open_response report in the place of the payload.
"""

from kproxy.protocol.embedded.messages import holds_payloads, open_request, open_response
from kproxy.protocol.embedded.payload import Context, Embedded
from kproxy.protocol.embedded.viewers import Content, Viewer, Viewers

__all__ = ["Content", "Context", "Embedded", "Viewer", "Viewers", "holds_payloads", "open_request", "open_response"]
