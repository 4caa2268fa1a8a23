# cython: language_level=3, nonecheck=True
"""What a body holds anywhere in it: error codes, topics, groups, transactional ids, partitions.

The facts say which fields these are (names of error codes, entity types), so that no API is forgotten. What leads nowhere is
not visited.
"""

from cpython.object cimport Py_TYPE, PyObject

from kproxy.protocol.slots cimport slot, slot_offset

from kproxy.protocol.facts import facts
from kproxy.protocol.ids import ZERO_UUID
from kproxy.protocol.structs import struct_types

cdef enum:
    MOST = 100_000  # of each kind that are kept; a frame of 100 MiB could name tens of millions

cdef enum Kind:
    TOPICS = 0
    GROUPS = 1
    TRANSACTIONAL_IDS = 2

ENTITIES = {"topicName": TOPICS, "groupId": GROUPS, "transactionalId": TRANSACTIONAL_IDS}
GROUPS_WITHOUT_ENTITY = ("group_id",)  # of the requests about the state of share groups


cdef class Slot:
    """A field of the instances of one message class."""

    def __init__(self, type owner not None, str name not None):
        self.name = name
        self.owner = <PyObject *>owner
        self.offset = slot_offset(getattr(owner, name))
        if self.offset < 0:
            raise TypeError(f"{owner.__name__}.{name} is no slot")

    cdef object of(self, object struct):
        """Its value in *struct*; what is of another class, or has not set it, is asked as anything is."""
        cdef PyObject *value
        if <PyObject *>Py_TYPE(struct) == self.owner:
            value = slot(struct, self.offset)[0]
            if value != NULL:
                return <object>value
        return getattr(struct, self.name)


cdef class Found:
    """Different values in the order in which they occur."""

    def __init__(self, dict error_codes=None):
        self.error_codes = {} if error_codes is None else error_codes
        self.topics = {}
        self.topic_ids = {}
        self.groups = {}
        self.transactional_ids = {}

    cdef dict into(self, int kind):
        return self.topics if kind == TOPICS else self.groups if kind == GROUPS else self.transactional_ids


cdef class Plan:
    """Which fields of a struct at a version are looked at."""

    @property
    def leads_somewhere(self):
        """Whether there is anything to find."""
        return bool(self.error_codes or self.names or self.topic_id or self.partitions or self.children)


cdef dict _plans = {}  # as many as there are versions of messages: a body is read as one that is known


cpdef Plan plan_of(str message, int version):
    """The plan for a message at a version."""
    cdef tuple asked = (message, version)
    found = _plans.get(asked)
    if found is None:
        found = _plans[asked] = _newest_plan(message, version)
    return found


def _newest_plan(message, version):
    layout = next(layout for layout in facts().layouts(message) if version in layout.versions)
    return _plan(struct_types(message), message, layout.fields, version)


def _plan(types, name, fields, version):
    cdef Plan plan = Plan()
    cls = types[name]
    present = [f for f in fields if version in f.versions]
    is_topic = any(f.entity == "topicName" or f.attribute == "topic_id" for f in present)
    children = [
        (Slot(cls, f.attribute), f.is_array, _plan(types, f.type, f.fields, version)) for f in present if f.is_struct
    ]
    ids = [f for f in present if f.attribute == "topic_id" and f.type == "uuid"]
    partitions = [f for f in present if is_topic and f.is_array and f.attribute.startswith("partition")]
    plan.error_codes = tuple(
        Slot(cls, f.attribute) for f in present if f.json_name.endswith("rrorCode") and not f.is_array
    )
    plan.names = tuple((Slot(cls, f.attribute), _kind(f), f.is_array) for f in present if _kind(f) is not None)
    plan.topic_id = Slot(cls, ids[0].attribute) if ids else None
    plan.partitions = Slot(cls, partitions[0].attribute) if partitions else None
    plan.children = tuple(child for child in children if child[2].leads_somewhere)
    return plan


def _kind(f):
    if f.type != "string":
        return None
    return GROUPS if f.attribute in GROUPS_WITHOUT_ENTITY else ENTITIES.get(f.entity)


cpdef int gather(Plan plan, object struct, Found found) except -1:
    """Add what *struct*, decoded at the plan's version, holds."""
    cdef Slot field
    cdef bint named
    for field in plan.error_codes:
        code = field.of(struct)
        if code:
            found.error_codes[code] = None
    named = gather_names(plan.names, struct, found) if plan.names else False
    if plan.topic_id is not None and not named:  # a topic with both is known by its name
        topic_id = plan.topic_id.of(struct)
        if topic_id is not None and len(found.topic_ids) < MOST and topic_id != ZERO_UUID:
            found.topic_ids[topic_id] = None
    if plan.partitions is not None:
        found.partitions += len(plan.partitions.of(struct) or ())
    return gather_below(plan, struct, found) if plan.children else 0


cdef int gather_below(Plan plan, object struct, Found found) except -1:
    cdef tuple child
    cdef Slot field
    cdef Plan inner
    for child in plan.children:
        field, inner = child[0], child[2]
        below = field.of(struct)
        if below is None:
            continue
        if child[1]:
            for each in <list?>below:
                gather(inner, each, found)
        else:
            gather(inner, below, found)
    return 0


cdef bint gather_names(tuple names, object struct, Found found) except -1:
    """Add the names in a struct; whether there is a topic's among them."""
    cdef bint is_topic = False
    cdef tuple name
    cdef Slot field
    cdef dict into
    for name in names:
        field = name[0]
        value = field.of(struct)
        into = found.into(name[1])
        if not value or len(into) >= MOST:
            continue
        if name[2]:
            into.update(dict.fromkeys(value[:MOST]))
        else:
            into[value] = None
            is_topic |= <int>name[1] == TOPICS
    return is_topic
