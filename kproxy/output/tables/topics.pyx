# cython: language_level=3
"""Which topic a struct is about: by name, by id, or by both."""

from kproxy.output.escaping import well_formed
from kproxy.protocol.ids import ZERO_UUID

cdef str _ZERO_UUID = ZERO_UUID


cpdef tuple topic_of(object name, object topic_id, object names):
    """Name and id, None for what is not known; *names* are those of ids that the traffic has shown."""
    if topic_id is not None and topic_id == _ZERO_UUID:
        topic_id = None
    if not name and topic_id is not None:
        name = names.get(topic_id)
    if not name:
        return None, topic_id
    return name if (<str?>name).isascii() else well_formed(name), topic_id
