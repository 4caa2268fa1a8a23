# cython: language_level=3, nonecheck=True
"""Bodies as objects, for the tables; one that is too large to be taken apart is left alone."""

from kproxy.output.tables.gather cimport Found, gather, plan_of
from kproxy.protocol.object_codec cimport decode
from kproxy.session.exchanges cimport Frame

from kproxy.errors import DecodeError

LARGEST = 16 * 1024 * 1024  # bytes; as objects a body can be many times its size
WITH_RECORDS = frozenset({"ProduceRequest", "FetchResponse", "ShareFetchResponse", "FetchSnapshotResponse"})


cdef class Body:
    """One body that was read: a message at a version, and the object."""

    def __init__(self, message, int version, struct):
        self.form = form_of(message, version)
        self.message = message
        self.version = version
        self.struct = struct

    def gather(self, Found found not None):
        """Add what it holds to *found*."""
        gather(self.form.plan, self.struct, found)


cdef class Form:
    """What is known of all bodies of a message at a version."""

    def __init__(self, message, int version):
        programs = message.programs(version)
        self.name = message.name
        self.plan = plan_of(message.name, version)
        self.program = programs[0] if len(programs) == 1 else None


cdef dict _forms = {}  # as many as there are versions of messages: a body is read as one that is known


cdef Form form_of(object message, int version):
    cdef tuple asked = (message, version)
    found = _forms.get(asked)
    if found is None:
        found = _forms[asked] = Form(message, version)
    return found


cpdef tuple read_body(Frame frame):
    """The body of a frame, or why there is none although the frame is; (None, None) where no frame is, or none of it read."""
    cdef Body body
    if frame is None or frame.unread:
        return None, None
    message = frame.message
    if message is None or frame.error is not None:
        return None, str(frame.error) if frame.error is not None else "nothing is known about its layout"
    if len(frame.data) > LARGEST and message.name not in WITH_RECORDS:
        return None, f"{message.name} has {len(frame.data):,} bytes: one of more than {LARGEST:,} is not taken apart"
    body = Body.__new__(Body)
    body.form = form_of(message, frame.body_version)
    body.message = message
    body.version = frame.body_version
    try:
        if body.form.program is not None:
            body.struct = decode(body.form.program, frame.data, frame.body_start)
        else:
            body.struct = message.decode(frame.body_version, frame.data, frame.body_start)
    except DecodeError as error:
        return None, str(error)
    return body, None


def json_of(Frame frame):
    """Kafka's JSON of the body, credentials withheld; None where there is none."""
    if frame is not None and frame.unread:
        return b"{}"
    if frame is None or frame.message is None or frame.error is not None:
        return None
    try:
        return frame.message.to_json(frame.body_version, frame.data, frame.body_start, withhold=True)
    except DecodeError:
        return None
