"""One connection as a conversation: bytes of both directions with their times in, events out. No I/O, no clock.

    session = Session(number=1, client="10.0.0.5:51234", broker="10.0.0.9:9092", cluster=ClusterView(), limits=Limits(),
                      from_start=True)    False: the capture joined in mid-stream, look for the first plausible frame;
                                          or a pair, for requests and responses
    session.receive(Direction.REQUEST, data, at) -> list[Event]   bytes as they arrived, in order; *at* in ns
    session.gap(Direction.RESPONSE, size, at, cut=Cut.SNAPLEN)
                                                 -> list[Event]   that many bytes are not here (None: unknown), and why
    session.end(Direction.REQUEST, at)           -> list[Event]   that side sent FIN; reset_by: or the direction ended by an RST
    session.close(at)                            -> list[Event]   nothing more will arrive: unanswered requests are reported

    recognise(first_bytes, Direction.REQUEST)    -> KAFKA, a Foreign that says what it is, or None while more is needed
    looks_like_request(data)                     -> bool          to find out which side is the client
    looks_like_responses(data)                   -> bool          of a direction whose requests are missing

Map, in the order the bytes pass through

    session.pyx       Session: pairs requests with responses, reports events; its states are in its docstring
    stream.pyx        one direction: FrameBuffer cuts frames, Stream has the states in frames, skipping, hunting, opaque
    hunting.py        finds the next frame after a gap or a mid-stream start: what is a candidate, and a sign that it is one
    request_hunting.py, response_hunting.py    which signs are enough; fitting.py: how well bytes fit a layout
    lone_responses.py whether frames without any request are responses: by the layouts of their bodies
    exchanges.pyx     Frame, Exchange; Route: how each API is read; InFlight: requests not answered yet, bounded
    sasl.py           which frames are raw SASL tokens
    learning.py       what exchanges show beyond themselves: client software, topic names, fetch sessions
    events.py         Connection, and the events that are no exchange: Gap, BadFrame, Note, NotKafka, SaslToken, Tls
    cut.py            Cut: why the end of a frame is not here
    closing.py        who ended a connection, in words
    limits.py         Limits: what one connection may use
    recognise.py      what the first bytes are when they are not Kafka: TLS, HTTP, ... in words
    software.py       which software an ApiVersions request newer than the facts names
    tls_facts.py      what is known of a connection's TLS
    cluster.py        ClusterView: what connections to one cluster have shown: topic ids, brokers, cluster id; bounded
    fetch_session.py  incremental fetch sessions (KIP-227), so that a Fetch can be read in full

Bytes: the Stream of each direction holds the bytes of at most one unfinished frame or of one hunt; InFlight holds the frames of
requests without a response, within Limits; everything else belongs to the events. A Frame owns its bytes: ``frame.data`` is what
followed the size field, ``frame.size`` what the size field says; they differ for a cut frame (``frame.cut``), of which only the
beginning is here. Its last ``frame.trailing`` bytes come after the message: some software sends such, and what reads it ignores
them. To read a body, ask ``frame.body``, or ``frame.message`` to decode ``frame.data`` from ``frame.body_start`` on at
``frame.body_version``; ``frame.message`` is None when the body cannot be read, and ``frame.error`` then says why.
``exchange.topic_names`` and ``exchange.fetch_session`` are computed when they are read.
Times are ns since the epoch. A session never raises for what the bytes say.

To add
    an event                          events.py (its docstring lists the outputs that must then handle it)
    an API that needs more than       Step in exchanges.pyx, then ``_request_step`` or ``_response_step`` in session.pyx
    pairing
    something learned of exchanges    learning.py for a connection, cluster.py for a cluster
    another protocol to recognise     recognise.py
"""

from kproxy.protocol import Direction
from kproxy.session.cluster import ClusterView
from kproxy.session.cut import Cut
from kproxy.session.events import BadFrame, Connection, Gap, Note, NotKafka, SaslToken, Tls
from kproxy.session.exchanges import Event, Exchange, Frame
from kproxy.session.fetch_session import FetchPartition, FetchSession
from kproxy.session.limits import Limits
from kproxy.session.recognise import (
    KAFKA,
    Foreign,
    looks_like_request,
    looks_like_responses,
    may_be_response,
    recognise,
)
from kproxy.session.session import Session
from kproxy.session.software import client_software
from kproxy.session.stream import FrameBuffer
from kproxy.session.tls_facts import TlsFacts, TlsTraffic

__all__ = [
    "KAFKA",
    "BadFrame",
    "ClusterView",
    "Connection",
    "Cut",
    "Direction",
    "Event",
    "Exchange",
    "FetchPartition",
    "FetchSession",
    "Foreign",
    "Frame",
    "FrameBuffer",
    "Gap",
    "Limits",
    "NotKafka",
    "Note",
    "SaslToken",
    "Session",
    "Tls",
    "TlsFacts",
    "TlsTraffic",
    "client_software",
    "looks_like_request",
    "looks_like_responses",
    "may_be_response",
    "recognise",
]
