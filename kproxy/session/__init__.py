"""Decode one connection: bytes of both directions with their times in, events out. No I/O, no clock.

    session = Session(number=1, client="10.0.0.5:51234", broker="10.0.0.9:9092", cluster=ClusterView(), limits=Limits(),
                      from_start=True)    False: the capture starts in mid-stream, so search for the first plausible frame;
                                          or a pair of bools, for requests and responses
    session.receive(Direction.REQUEST, data, at) -> list[Event]   the next bytes of a direction; *at* in ns
    session.gap(Direction.RESPONSE, size, at, cut=Cut.SNAPLEN)
                                                 -> list[Event]   *size* bytes are missing (None: unknown), and why
    session.end(Direction.REQUEST, at)           -> list[Event]   that side sent FIN; with reset_by, an RST ended it
    session.close(at)                            -> list[Event]   nothing more will arrive: report unanswered requests

    recognise(first_bytes, Direction.REQUEST)    -> KAFKA, a Foreign that names another protocol, or None: more bytes needed
    looks_like_request(data)                     -> bool          whether the sender is a client
    looks_like_responses(data)                   -> bool          for a direction whose requests are missing

Map, in the order in which bytes pass through

    session.pyx       Session: pairs requests with responses and reports events; its states are in its docstring
    stream.pyx        one direction: FrameBuffer cuts frames; Stream has the states in frames, skipping, hunting, opaque
    hunting.py        finds the next frame after a gap or a mid-stream start: candidates, and signs that speak for them
    request_hunting.py, response_hunting.py    which signs are enough
    exchanges.pyx     Frame, Exchange; Route: how each API is read; InFlight: the bounded queue of unanswered requests
    sasl.py           recognises raw SASL tokens
    learning.py       what exchanges reveal about a connection: client software, topic names, fetch sessions
    events.py         Connection and TlsFacts; the events that are not exchanges: Gap, BadFrame, Note, NotKafka, SaslToken, Tls
    endings.py        Cut: why a frame lacks its end; sentences about who ended a connection
    limits.py         Limits: what one connection may use
    recognise.py      recognises requests, responses and other protocols (TLS, HTTP, ...) by their bytes, and explains them
    cluster.py        ClusterView: topic ids, brokers and cluster id that connections have shown; bounded
    fetch_session.py  incremental fetch sessions (KIP-227): all partitions of a Fetch, not only the changed ones

Bytes: the Stream of each direction holds the bytes of at most one unfinished frame or one hunt. InFlight holds the frames of
requests without a response, within Limits. Everything else belongs to the events. A Frame owns its bytes: ``frame.data`` is
what followed the size field, ``frame.size`` the value of that field. They differ for a cut frame (``frame.cut``), which has
only its beginning. The last ``frame.trailing`` bytes follow the message: some software sends such bytes, and receivers ignore
them. Read a body with ``frame.body()``, or decode ``frame.data`` from ``frame.body_start`` on with ``frame.message`` at
``frame.body_version``. If the body cannot be read, ``frame.message`` is None and ``frame.error`` says why.
``exchange.topic_names`` and ``exchange.fetch_session`` are computed when they are read.
Times are ns since the epoch. A session never raises for any bytes.

To add
    an event                          events.py (its docstring lists the outputs that must then handle it)
    an API that needs more than       Step in exchanges.pyx, then ``_request_step`` or ``_response_step`` in session.pyx
    pairing
    something that exchanges reveal   learning.py about a connection, cluster.py about a cluster
    another protocol to recognise     recognise.py
"""

from kproxy.protocol import Direction
from kproxy.session.cluster import ClusterView
from kproxy.session.endings import Cut
from kproxy.session.events import (
    BadFrame,
    Connection,
    Gap,
    Note,
    NotKafka,
    SaslToken,
    TcpFacts,
    Tls,
    TlsFacts,
    TlsTraffic,
)
from kproxy.session.exchanges import Event, Exchange, Frame
from kproxy.session.fetch_session import FetchPartition, FetchSession
from kproxy.session.limits import Limits
from kproxy.session.recognise import (
    KAFKA,
    Foreign,
    client_software,
    looks_like_request,
    looks_like_responses,
    may_be_response,
    recognise,
)
from kproxy.session.session import Session

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
    "Gap",
    "Limits",
    "NotKafka",
    "Note",
    "SaslToken",
    "Session",
    "TcpFacts",
    "Tls",
    "TlsFacts",
    "TlsTraffic",
    "client_software",
    "looks_like_request",
    "looks_like_responses",
    "may_be_response",
    "recognise",
]
