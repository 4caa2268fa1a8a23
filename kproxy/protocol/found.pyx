# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Found: what one walk over a body finds of chosen fields, at any depth, without objects or text for the rest.

    ROLE_ERROR_CODE     every int16 whose name ends in errorCode, other than 0
    ROLE_THROTTLE_TIME  throttleTimeMs
    ROLE_TOPIC_ID       topicId, other than zero
    ROLE_GROUP_ID       groupId

A field's role is found once, when the program of its message and version is compiled; structs without any are walked over. To
add a role: Role in program.pxd, _role in program.pyx, ``take`` here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from kproxy.protocol.json_sink cimport uuid_text
from kproxy.protocol.program cimport (
    KIND_STRUCT, Op, Program, ROLE_ERROR_CODE, ROLE_THROTTLE_TIME, ROLE_TOPIC_ID, Struct, begin, find_tag,
    read_count, read_presence, read_size, slice_start, walk_value,
)
from kproxy.protocol.wire cimport be16, be32, Cursor, need, put, read_uvarint

cdef enum:
    KEPT = 1 << 20  # bytes of a buffer that are kept for the next search


cdef class Found:
    """What the latest ``search`` found; one is used again and again."""

    def __dealloc__(self):
        free(self._errors.data)
        free(self._topic_ids.data)
        free(self._groups.data)

    cdef int clear(self) except -1:
        """Forget what was found, and return the memory that an unusual body took."""
        self.throttle_ms = 0
        self._data = None
        empty(&self._errors)
        empty(&self._topic_ids)
        empty(&self._groups)
        return 0

    cdef int search(self, Program program, bytes data, Py_ssize_t start, int roles) except -1:
        """Look for fields with these roles. Of a body that is cut or malformed, what comes before that is found."""
        cdef Cursor c
        cdef const unsigned char *base = slice_start(data, &start)
        self.clear()
        self._data = data
        if program.root.roles & roles:
            begin(&c, base, PyBytes_GET_SIZE(data) - start)
            find_struct(program.root, &c, roles, self)
        return 0

    cdef bint has_errors(self) noexcept:
        return self._errors.size > 0

    cdef list error_codes(self):
        """Return every error code other than 0, in the order of the body."""
        cdef size_t i
        return [(<int16_t *>self._errors.data)[i] for i in range(self._errors.size // sizeof(int16_t))]

    cdef list topic_ids(self):
        """Return the topic ids, as Kafka writes them, in the order of the body."""
        cdef size_t i
        return [uuid_text(self._topic_ids.data + i * 16) for i in range(self._topic_ids.size // 16)]

    cdef list group_ids(self):
        """Return the ids of groups, in the order of the body."""
        cdef int64_t *places = <int64_t *>self._groups.data
        cdef const char *data = PyBytes_AS_STRING(self._data) if self._data is not None else NULL
        cdef size_t i
        return [
            PyUnicode_DecodeUTF8(data + places[2 * i], places[2 * i + 1], b"surrogateescape")
            for i in range(self._groups.size // (2 * sizeof(int64_t)))
        ]


cdef void empty(Buffer *buffer) noexcept:
    buffer.size = 0
    if buffer.capacity > KEPT:
        free(buffer.data)
        memset(buffer, 0, sizeof(Buffer))


cdef int find_struct(Struct *s, Cursor *c, int roles, Found found) except? -1:
    """Take the fields with these roles; return -1 without an exception at malformed or missing bytes."""
    cdef int i
    for i in range(s.count):
        if (find_field if s.ops[i].roles & roles else walk_over)(&s.ops[i], c, roles, found) < 0:
            return -1
    return find_tags(s, c, roles, found) if s.flexible else 0


cdef int walk_over(Op *op, Cursor *c, int roles, Found found) except? -1:
    return walk_value(op, c, True, NULL)


cdef int find_field(Op *op, Cursor *c, int roles, Found found) except? -1:
    cdef int32_t count
    cdef int32_t _
    cdef bint present = True
    if not op.is_array:
        if op.kind != KIND_STRUCT:
            return take(op, c, roles, found)
        if op.nullable and read_presence(op, c, &present) < 0:
            return -1
        return find_struct(op.struct, c, roles, found) if present else 0
    if op.kind != KIND_STRUCT:
        return walk_value(op, c, True, NULL)
    if read_count(op, c, &count) < 0:
        return -1
    for _ in range(count):
        if find_struct(op.struct, c, roles, found) < 0:
            return -1
    return 0


cdef int find_tags(Struct *s, Cursor *c, int roles, Found found) except? -1:
    cdef uint32_t count, tag, size
    cdef uint32_t _
    cdef Op *op
    cdef Cursor value
    if read_uvarint(c, &count) < 0:
        return -1
    for _ in range(count):
        if read_uvarint(c, &tag) < 0 or read_uvarint(c, &size) < 0 or need(c, size) < 0:
            return -1
        op = find_tag(s, tag)
        if op != NULL and op.roles & roles:
            begin(&value, c.at, size)
            value.base = c.base
            if find_field(op, &value, roles, found) < 0:
                return -1
        c.at += size
    return 0


cdef int take(Op *op, Cursor *c, int roles, Found found) except? -1:
    """Take a single field that has one of these roles."""
    cdef int32_t size
    cdef int16_t code
    cdef int64_t[2] place
    if op.width:
        if need(c, op.width) < 0:
            return -1
        if op.role == ROLE_ERROR_CODE:
            code = <int16_t>be16(c.at)
            if code:
                put(&found._errors, &code, sizeof(code))
        elif op.role == ROLE_THROTTLE_TIME and found.throttle_ms == 0:
            found.throttle_ms = max(0, <int32_t>be32(c.at))
        elif op.role == ROLE_TOPIC_ID and not is_zero(c.at):
            put(&found._topic_ids, c.at, 16)
        c.at += op.width
        return 0
    if read_size(op, c, &size) < 0:
        return -1
    if size >= 0:
        place[0] = c.at - <const unsigned char *>PyBytes_AS_STRING(found._data)
        place[1] = size
        put(&found._groups, place, sizeof(place))
        c.at += size
    return 0


cdef inline bint is_zero(const unsigned char *uuid) noexcept:
    cdef int64_t[2] halves
    memcpy(halves, uuid, 16)
    return halves[0] == 0 and halves[1] == 0
