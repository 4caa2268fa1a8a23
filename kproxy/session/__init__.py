"""One connection as a conversation: bytes of both directions with their times in, events out. No I/O, no clock.

    events.pyx      Direction, Frame, Exchange and the other things a session can say
    framing.pyx     FrameBuffer: cuts one direction into frames, whatever the chunks
    limits.py       Limits: what one connection may take
    hunting.py      finds the next plausible frame after a gap or a mid-stream start
    stream.pyx      one direction: in frames, passing over, hunting, or opaque
    routes.pyx      what is done with an API at a version: messages, headers, the exceptions of the protocol
    in_flight.pyx   requests that are not answered yet, bounded
    sasl.py         which frames are raw SASL tokens
    learning.py     what exchanges tell beyond themselves: client software, topic names, fetch sessions
    session.pyx     Session: pairs requests with responses, says what happens as events
    software.py     which software an ApiVersions request newer than the facts names
    tls_facts.py    what is known of a connection's TLS
    recognise.py    what the first bytes are when they are not Kafka: TLS, HTTP, ... said in words
    cluster.py      ClusterView: what connections to one cluster have shown: topic ids, brokers, cluster id; bounded
    fetch_session.py  incremental fetch sessions (KIP-227), so that a Fetch can be read in full

Seams

    session = Session(number=1, client="10.0.0.5:51234", broker="10.0.0.9:9092", cluster=ClusterView(), limits=Limits(),
                      from_start=True)    False: the capture joined in mid-stream, look for the first plausible frame;
                                          or a pair, for requests and responses
    session.receive(Direction.REQUEST, data, at) -> list[Event]   bytes as they came, in order; *at* in ns
    session.gap(Direction.RESPONSE, size, at)    -> list[Event]   that many bytes are missing (None: nobody knows)
    session.end(Direction.REQUEST, at)           -> list[Event]   that side said it is done (FIN)
    session.close(at)                            -> list[Event]   nothing more will come: what is unanswered is told

    recognise(first_bytes, Direction.REQUEST)    -> KAFKA, a Foreign that says what it is, or None: more bytes, please
    looks_like_request(bytes)                    -> bool          to find out which side is the client
    looks_like_responses(bytes)                  -> bool          of a direction whose requests are missing

Times are ns since the epoch. A frame owns its bytes: ``Frame.data`` is what followed the size field, and whoever wants
JSON or objects asks ``frame.message`` to read ``frame.data`` from ``frame.body_start`` at ``frame.body_version``;
``frame.message`` is None when the body cannot be read, and ``frame.error`` then says why, if anything was tried.
``exchange.topic_names`` and ``exchange.fetch_session`` are worked out when somebody looks.
A session never raises for what the bytes say.
"""

from kproxy.protocol import Direction
from kproxy.session.cluster import ClusterView
from kproxy.session.events import BadFrame, Connection, Gap, NotKafka, SaslToken, Tls
from kproxy.session.exchanges import Event, Exchange, Frame
from kproxy.session.fetch_session import FetchPartition, FetchSession
from kproxy.session.limits import Limits
from kproxy.session.recognise import KAFKA, Foreign, looks_like_request, looks_like_responses, recognise
from kproxy.session.session import Session
from kproxy.session.software import client_software
from kproxy.session.stream import FrameBuffer
from kproxy.session.tls_facts import TlsFacts, TlsTraffic

__all__ = [
    "KAFKA",
    "BadFrame",
    "ClusterView",
    "Connection",
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
    "SaslToken",
    "Session",
    "Tls",
    "TlsFacts",
    "TlsTraffic",
    "client_software",
    "looks_like_request",
    "looks_like_responses",
    "recognise",
]
