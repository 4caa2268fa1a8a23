# cython: language_level=3
"""What a session says: frames, exchanges, and the things that are neither. The fields' meanings are in events.pyi.

Compiled because there is an exchange and two frames of each for every request of a capture or of a live connection:
making the three costs a seventh of what it costs as classes of Python.
"""

cimport cython
from cython.dataclasses cimport dataclass, field

from libc.stdint cimport int64_t

from kproxy.protocol import Direction


@dataclass
cdef class Connection:
    """What is known of one TCP connection; shared by all its events and filled in as the session learns."""

    cdef public int64_t number
    cdef public object client
    cdef public object broker
    cdef public object client_software_name
    cdef public object client_software_version
    cdef public object sasl_mechanism
    cdef public object tls
    client_software_name = None
    client_software_version = None
    sasl_mechanism = None
    tls = None


@cython.freelist(64)  # instances that are used again
@dataclass
cdef class Frame:
    """One frame: header read, body checked by a walk but not decoded; it owns its bytes."""

    header = None
    body_start = 0
    message = None
    body_version = 0
    layout = None
    assumed_version = None
    error = None
    cut = False
    unread = False

    @property
    def wire_size(self):
        """Bytes on the wire, the size field included."""
        return len(self.data) + 4


@dataclass
cdef class Event:
    """Anything a session says."""


@dataclass
cdef class Exchange(Event):
    """A request and its response; either may be missing (acks=0, unanswered, the capture starts late)."""

    api_key = None
    api_version = None
    correlation_id = None
    client_id = None
    request = None
    response = None
    expects_response = True
    unanswered = None
    undecoded = None
    topic_names = field(default_factory=dict)
    fetch_sessions = None
    fetch_number = 0

    @property
    def fetch_session(self):
        """The whole of what a Fetch request asks for, partitions it left out as unchanged included.

        None for anything but a Fetch inside a fetch session, and for one so far back that it was forgotten.
        """
        return None if self.fetch_sessions is None else self.fetch_sessions.at(self.fetch_number)


@dataclass
cdef class SaslToken(Event):
    """A token of SaslHandshake v0 or of a client that starts with GSSAPI; its bytes are never shown."""

    cdef public object direction
    cdef public Py_ssize_t size
    cdef public object parts
    direction = Direction.REQUEST
    size = 0
    parts = None


@dataclass
cdef class Gap(Event):
    """Bytes that are missing, or that came and could not be used because frame boundaries were not known."""

    cdef public object direction
    cdef public object size
    cdef public int64_t skipped
    cdef public int64_t lost_frames
    direction = Direction.REQUEST
    size = None
    skipped = 0
    lost_frames = 0


@dataclass
cdef class NotKafka(Event):
    """The connection does not speak Kafka, or not in the clear; *what* is for people: which side, what to change."""

    cdef public object kind
    cdef public object direction
    cdef public object what
    kind = "unknown"
    direction = Direction.REQUEST
    what = ""


@dataclass
cdef class Tls(Event):
    """The connection was TLS, and what was said in it could be read; ``connection.tls`` has what is known of it."""


@dataclass
cdef class BadFrame(Event):
    """A size field no peer would accept, or a frame that is none; what follows must be plausible to be trusted."""

    cdef public object direction
    cdef public object reason
    direction = Direction.REQUEST
    reason = ""
