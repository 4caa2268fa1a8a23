# cython: language_level=3, nonecheck=True
"""Bodies as objects, for the tables; one that is too large to be taken apart is left alone."""

from kproxy.output.tables.gather cimport Found, gather, Plan, plan_of
from kproxy.session.events cimport Frame

from kproxy.errors import DecodeError

LARGEST = 16 * 1024 * 1024  # bytes; as objects a body can be many times its size
WITH_RECORDS = frozenset({"ProduceRequest", "FetchResponse", "ShareFetchResponse", "FetchSnapshotResponse"})


cdef class Body:
    """One body that was read: a message at a version, and the object."""

    def __init__(self, message, int version, struct):
        self.message = message
        self.version = version
        self.struct = struct

    cdef Plan plan(self):
        return plan_of(self.message.name, self.version)

    def gather(self, Found found not None):
        """Add what it holds to *found*."""
        gather(self.plan(), self.struct, found)


cpdef tuple read_body(Frame frame):
    """The body of a frame, or why there is none although the frame is; (None, None) where no frame is."""
    if frame is None:
        return None, None
    message = frame.message
    if message is None or frame.error is not None:
        return None, str(frame.error) if frame.error is not None else "nothing is known about its layout"
    if len(frame.data) > LARGEST and message.name not in WITH_RECORDS:
        return None, f"{message.name} has {len(frame.data):,} bytes: one of more than {LARGEST:,} is not taken apart"
    try:
        struct = message.decode(frame.body_version, frame.data, frame.body_start)
    except DecodeError as error:
        return None, str(error)
    return Body(message, frame.body_version, struct), None


def json_of(Frame frame):
    """Kafka's JSON of the body, credentials withheld; None where there is none."""
    if frame is None or frame.message is None or frame.error is not None:
        return None
    try:
        return frame.message.to_json(frame.body_version, frame.data, frame.body_start, withhold=True)
    except DecodeError:
        return None
