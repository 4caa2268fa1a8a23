# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, auto_pickle=False
"""Found: what one walk over a body finds of chosen fields, at any depth, without objects or text for the rest.

    ROLE_ERROR_CODE     int16 whose name ends in errorCode: each code other than 0, once
    ROLE_THROTTLE_TIME  throttleTimeMs
    ROLE_TOPIC_ID       topicId, other than zero
    ROLE_GROUP_ID       groupId
    ROLE_PARTITION      partitionIndex, index or partition: a NamedPartition for each struct that has one, with its other fields
                        that have a role, and with the topic and the group that are named before it

``records_fields`` finds every records field that is not empty, with its place and the partition that it belongs to;
``named_topics`` the topics of a message that consists of records for the most part.

A field's role is found once, when the program of its message and version is compiled; structs without any are walked over. To
add a role: Role in program.pxd, _ROLES in program.pyx, ``take`` here. Memory is bounded by MOST_CODES, MOST_GROUPS and
MOST_PARTITIONS; topic ids take no more than their body.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

from kproxy.protocol.json_sink cimport uuid_text
from kproxy.protocol.program cimport (
    KIND_STRUCT, Op, Program, ROLE_ERROR_CODE, ROLE_GROUP_ID, ROLE_OFFSET, ROLE_PARTITION, ROLE_RECORDS, ROLE_THROTTLE_TIME,
    ROLE_TIMESTAMP, ROLE_TOPIC_ID, ROLE_TOPIC_NAME, Struct, begin, find_tag, read_count, read_presence, read_size, slice_size,
    slice_start, walk_tags, walk_value,
)
from kproxy.protocol.wire cimport be16, be32, be64, Cursor, empty, FAULT_SHORT, need, put, read_uvarint

cdef enum:
    MOST_CODES = 256
    MOST_GROUPS = 100
    MOST_PARTITIONS = 50_000
    MOST_NESTED = 4  # arrays around a records field; no message has more than two
    OF_PARTITIONS = (
        ROLE_PARTITION | ROLE_TOPIC_NAME | ROLE_TOPIC_ID | ROLE_GROUP_ID | ROLE_ERROR_CODE | ROLE_OFFSET | ROLE_TIMESTAMP | ROLE_RECORDS
    )


cdef class NamedPartition:
    """Some fields of a partition in a request or response, whatever their names in its API and version."""


cdef class Found:
    """What the latest ``search`` found; one is used again and again."""

    def __dealloc__(self):
        free(self._errors.data)
        free(self._topic_ids.data)

    cdef int clear(self) except -1:
        """Forget what was found, and return the memory that an unusual body took."""
        self.throttle_ms = 0
        empty(&self._errors)
        empty(&self._topic_ids)
        self._groups = self._partitions = self._partition = None
        self._group_id = self._topic = self._topic_id = ""
        return 0

    cdef int search(self, Program program, bytes data, Py_ssize_t start, int roles) except -1:
        """Look for fields with these roles. Of a body that is cut or malformed, what comes before that is found."""
        cdef Cursor c
        cdef const unsigned char *base = slice_start(data, &start)
        self.clear()
        if program.root.roles & roles:
            begin(&c, base, PyBytes_GET_SIZE(data) - start)
            find_struct(program.root, &c, OF_PARTITIONS if roles & ROLE_PARTITION else roles, self)
            if self._partition is not None:
                self._partitions.append(self._partition)
        return 0

    cdef bint has_errors(self) noexcept:
        return self._errors.size > 0

    cdef list error_codes(self):
        """Return every error code other than 0 once, in the order of the body."""
        return error_codes_in(&self._errors)

    cdef list topic_ids(self):
        """Return the topic ids, as Kafka writes them, in the order of the body."""
        cdef size_t i
        return [uuid_text(self._topic_ids.data + i * 16) for i in range(self._topic_ids.size // 16)]

    cdef list group_ids(self):
        """Return the ids of groups, in the order of the body."""
        return self._groups or []

    cdef list partitions(self):
        """Return the partitions, in the order of the body; the last one of a cut body may lack fields."""
        return self._partitions or []


cdef int find_struct(Struct *s, Cursor *c, int roles, Found found) except? -1:
    """Take the fields with these roles; return -1 without an exception at malformed or missing bytes."""
    cdef int i
    cdef bint is_partition = s.is_partition and roles & ROLE_PARTITION
    if is_partition and begin_partition(found) < 0:
        return -1
    for i in range(s.count):
        if (find_field if s.ops[i].roles & roles else walk_over)(&s.ops[i], c, roles, found) < 0:
            return -1
    if s.flexible and find_tags(s, c, roles, found) < 0:
        return -1
    if is_partition:
        found._partitions.append(found._partition)
        found._partition = None
    return 0


cdef int begin_partition(Found found) except? -1:
    """Begin a partition; return -1 if there are too many."""
    cdef NamedPartition partition
    if found._partitions is None:
        found._partitions = []
    if len(found._partitions) >= MOST_PARTITIONS:
        return -1
    partition = found._partition = NamedPartition.__new__(NamedPartition)
    partition.group_id, partition.topic, partition.topic_id = found._group_id, found._topic, found._topic_id
    partition.offset = -1
    return 0


cdef int walk_over(Op *op, Cursor *c, int roles, Found found) except? -1:
    return walk_value(op, c, True, NULL)


cdef int find_field(Op *op, Cursor *c, int roles, Found found) except? -1:
    cdef int32_t count
    cdef int32_t _
    cdef bint present = True
    if not op.is_array:
        if op.kind != KIND_STRUCT:
            return take_fixed(op, c, found, roles) if op.width else take_sized(op, c, found, roles)
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
    cdef uint32_t count
    cdef uint32_t _
    cdef Op *op
    cdef Cursor value
    if read_uvarint(c, &count) < 0:
        return -1
    for _ in range(count):
        if read_tag(s, c, &op, &value) < 0:
            return -1
        if op != NULL and op.roles & roles and find_field(op, &value, roles, found) < 0:
            return -1
    return 0


cdef int read_tag(Struct *s, Cursor *c, Op **op, Cursor *value) noexcept nogil:
    """Read a tagged field: its operation, NULL if it is not known, and its bytes. Return -1 if they are malformed or missing."""
    cdef uint32_t tag, size
    if read_uvarint(c, &tag) < 0 or read_uvarint(c, &size) < 0 or need(c, size) < 0:
        return -1
    op[0] = find_tag(s, tag)
    begin(value, c.at, size)
    value.base = c.base
    c.at += size
    return 0


cdef int take_fixed(Op *op, Cursor *c, Found found, int roles) except? -1:
    """Take a single field of fixed size that has one of these roles."""
    cdef NamedPartition partition = found._partition
    if need(c, op.width) < 0:
        return -1
    if op.role == ROLE_TOPIC_ID:
        take_topic_id(c, found, roles)
    elif op.role == ROLE_THROTTLE_TIME:
        found.throttle_ms = found.throttle_ms or max(0, <int32_t>be32(c.at))
    elif partition is None:
        if op.role == ROLE_ERROR_CODE:
            add_error_code(&found._errors, <int16_t>be16(c.at))
    elif op.role == ROLE_ERROR_CODE:
        partition.error_code = <int16_t>be16(c.at)
    elif op.role == ROLE_PARTITION:
        partition.index = <int32_t>be32(c.at)
    elif op.role == ROLE_OFFSET:
        partition.offset = <int64_t>be64(c.at)
    elif op.role == ROLE_TIMESTAMP:
        partition.timestamp = <int64_t>be64(c.at)
    c.at += op.width
    return 0


cdef int take_topic_id(Cursor *c, Found found, int roles) except -1:
    if roles & ROLE_PARTITION:
        found._topic_id = "" if is_zero(c.at) else uuid_text(c.at)
    elif not is_zero(c.at):
        put(&found._topic_ids, c.at, 16)
    return 0


cdef int add_error_code(Buffer *codes, int16_t code) except -1:
    """Add a code if it is not 0 and not there yet, and there are fewer than MOST_CODES."""
    cdef size_t i
    cdef size_t count = codes.size // sizeof(int16_t)
    if code == 0 or count >= MOST_CODES:
        return 0
    for i in range(count):
        if (<int16_t *>codes.data)[i] == code:
            return 0
    put(codes, &code, sizeof(code))
    return 0


cdef list error_codes_in(const Buffer *codes):
    cdef size_t i
    return [(<int16_t *>codes.data)[i] for i in range(codes.size // sizeof(int16_t))]


cdef int take_sized(Op *op, Cursor *c, Found found, int roles) except? -1:
    """Take a single string or records field that has one of these roles."""
    cdef int32_t size = 0
    if read_size(op, c, &size) < 0:
        if op.role == ROLE_RECORDS and found._partition is not None and c.fault == FAULT_SHORT:
            found._partition.records_size = size  # of records that are cut, but whose size is here
        return -1
    if size < 0:
        if op.role == ROLE_TOPIC_NAME:
            found._topic = ""
        return 0
    if op.role == ROLE_RECORDS:
        if found._partition is not None:
            found._partition.records_size = size
    elif op.role == ROLE_TOPIC_NAME:
        found._topic = text_of(c.at, size)
    elif op.role == ROLE_GROUP_ID and roles & ROLE_PARTITION:
        found._group_id = text_of(c.at, size)
    elif op.role == ROLE_GROUP_ID:
        found._groups = found._groups or []
        if len(found._groups) < MOST_GROUPS:
            found._groups.append(text_of(c.at, size))
    c.at += size
    return 0


cdef inline str text_of(const unsigned char *at, int32_t size):
    return PyUnicode_DecodeUTF8(<const char *>at, size, b"surrogateescape")


cdef struct Place:  # where a walk over records fields is
    int depth
    Op *arrays[MOST_NESTED]  # those that the walk is inside of
    int32_t indexes[MOST_NESTED]
    const unsigned char *name  # of the topic; NULL for none
    int32_t name_size
    const unsigned char *topic_id  # NULL for none
    int32_t partition


cdef class RecordsField:
    """A records field that is not empty, in the message that it was found in."""

    @property
    def data(self) -> bytes:
        """Its bytes, copied."""
        return self.message[self.start:self.start + self.size]


def records_fields(Program program not None, bytes data not None, Py_ssize_t start=0, Py_ssize_t trailing=0) -> list[RecordsField]:
    """Return the records fields of a message that are not empty, in its order; those before the fault, if it is malformed."""
    cdef Cursor c
    cdef Place place
    cdef const unsigned char *base = slice_start(data, &start)
    cdef list fields = []
    memset(&place, 0, sizeof(Place))
    begin(&c, base, slice_size(data, start, trailing))
    if program.root.roles & ROLE_RECORDS:
        find_records(program.root, &c, &place, data, fields)
    return fields


cdef int find_records(Struct *s, Cursor *c, Place *place, bytes data, list fields) except? -1:
    """Add the records fields of a struct; return -1 without an exception at malformed or missing bytes."""
    cdef int i
    cdef int32_t count, size, index
    cdef const unsigned char *before
    cdef Op *op
    for i in range(s.count):
        op = &s.ops[i]
        if op.is_array and op.roles & ROLE_RECORDS and place.depth < MOST_NESTED:
            if read_count(op, c, &count) < 0:
                return -1
            place.arrays[place.depth] = op
            place.depth += 1
            for index in range(count):
                place.indexes[place.depth - 1] = index
                if find_records(op.struct, c, place, data, fields) < 0:
                    return -1
            place.depth -= 1
        elif op.is_array or op.role not in (ROLE_RECORDS, ROLE_TOPIC_NAME, ROLE_TOPIC_ID, ROLE_PARTITION):
            if walk_value(op, c, True, NULL) < 0:
                return -1
        elif op.role == ROLE_RECORDS or op.role == ROLE_TOPIC_NAME:
            before = c.at
            if read_size(op, c, &size) < 0:
                return -1
            if op.role == ROLE_TOPIC_NAME:
                place.name, place.name_size = c.at if size >= 0 else NULL, size
            elif size > 0:
                fields.append(records_field(op, data, before, c.at, size, place))
            c.at += max(size, 0)
        else:
            if need(c, op.width) < 0:
                return -1
            if op.role == ROLE_PARTITION:
                place.partition = <int32_t>be32(c.at)
            else:
                place.topic_id = NULL if is_zero(c.at) else c.at
            c.at += op.width
    return walk_tags(s, c, True, NULL) if s.flexible else 0


def named_topics(
    Program program not None, bytes data not None, Py_ssize_t start, Py_ssize_t most
) -> tuple[set[str], set[str], bool] | None:
    """Return the names of the topics, their ids, zero as well, and whether tagged fields end the message.

    None if more than *most* bytes are not in records, and for a message that is malformed, or does not end with *data*.
    """
    cdef Cursor c
    cdef const unsigned char *base = slice_start(data, &start)
    cdef set names = set()
    cdef set ids = set()
    cdef Py_ssize_t in_records = 0
    cdef bint has_tags
    begin(&c, base, PyBytes_GET_SIZE(data) - start)
    if not program.root.roles & ROLE_RECORDS or find_topics(program.root, &c, names, ids, &in_records) < 0:
        return None
    has_tags = program.root.flexible and c.limit - c.at != 1
    if program.root.flexible and walk_tags(program.root, &c, True, NULL) < 0:
        return None
    return (names, ids, has_tags) if c.at == c.limit and c.at - c.base - in_records <= most else None


cdef int find_topics(Struct *s, Cursor *c, set names, set ids, Py_ssize_t *in_records) except? -1:
    """Add the topics of a struct and the bytes of its records, up to its tagged fields.

    Returns -1 without an exception at malformed or missing bytes.
    """
    cdef int i
    cdef int32_t _
    cdef int32_t count, size
    cdef Op *op
    for i in range(s.count):
        op = &s.ops[i]
        if op.is_array and op.roles & ROLE_RECORDS:
            if read_count(op, c, &count) < 0:
                return -1
            for _ in range(count):
                if find_topics(op.struct, c, names, ids, in_records) < 0:
                    return -1
                if op.struct.flexible and walk_tags(op.struct, c, True, NULL) < 0:
                    return -1
        elif op.is_array or op.role not in (ROLE_RECORDS, ROLE_TOPIC_NAME, ROLE_TOPIC_ID):
            if walk_value(op, c, True, NULL) < 0:
                return -1
        elif op.role == ROLE_TOPIC_ID:
            if need(c, op.width) < 0:
                return -1
            ids.add(uuid_text(c.at))
            c.at += op.width
        else:
            if read_size(op, c, &size) < 0:
                return -1
            size = max(size, 0)
            if op.role == ROLE_RECORDS:
                in_records[0] += size
            else:
                names.add(text_of(c.at, size))
            c.at += size
    return 0


cdef RecordsField records_field(
    Op *op, bytes data, const unsigned char *size_at, const unsigned char *at, int32_t size, Place *place,
):
    cdef const unsigned char *base = <const unsigned char *>PyBytes_AS_STRING(data)
    cdef RecordsField field = RecordsField.__new__(RecordsField)
    cdef int i
    cdef str path = ""
    for i in range(place.depth):
        path += f"{<object>place.arrays[i].name}[{place.indexes[i]}]."
    field.path = path + <object>op.name
    field.topic = None if place.name == NULL else text_of(place.name, place.name_size)
    field.topic_id = None if place.topic_id == NULL else uuid_text(place.topic_id)
    field.partition = place.partition
    field.message = data
    field.start, field.size, field.size_at = at - base, size, size_at - base
    field.is_compact = op.compact
    return field
