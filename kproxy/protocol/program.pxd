# cython: language_level=3
"""The table of operations for a layout at one version, and the structs that the sinks walk."""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kproxy.protocol.wire cimport (
    Cursor, FAULT_COUNT, FAULT_LENGTH, FAULT_NULL, fail, need, read_compact_size, read_int16_size, read_int32_size,
    read_uvarint,
)


cdef enum Kind:
    KIND_BOOL = 0
    KIND_INT8 = 1
    KIND_INT16 = 2
    KIND_UINT16 = 3
    KIND_INT32 = 4
    KIND_UINT32 = 5
    KIND_INT64 = 6
    KIND_FLOAT64 = 7
    KIND_UUID = 8
    KIND_STRING = 9
    KIND_BYTES = 10
    KIND_RECORDS = 11
    KIND_STRUCT = 12


cdef enum Secrecy:
    OPEN_FIELD = 0
    ALWAYS_SECRET = 1
    NAMES_THE_SETTING = 2  # a string: the name of the setting whose value is in the same struct
    SECRET_BY_NAME = 3  # a secret if the setting's name says so
    NAMES_AN_UNMARKED_SETTING = 5  # as NAMES_THE_SETTING; values of settings unknown to Kafka are secrets, too
    MARKS_THE_VALUE = 4  # a bool: whether the setting's value is a secret


cdef enum Role:  # what a field is, whatever its message; see kproxy.protocol.found
    ROLE_ERROR_CODE = 1
    ROLE_THROTTLE_TIME = 2
    ROLE_TOPIC_ID = 4
    ROLE_GROUP_ID = 8
    ROLE_TOPIC_NAME = 16
    ROLE_PARTITION = 32
    ROLE_OFFSET = 64
    ROLE_TIMESTAMP = 128
    ROLE_RECORDS = 256


cdef struct Member:  # one attribute of a class, for all versions
    Py_ssize_t offset  # of the slot in an instance
    PyObject *default  # shared and immutable; NULL: a new list, or a new instance of struct
    Class *struct
    PyObject *name  # str
    bint is_array
    bint ignorable


cdef struct Class:  # one Python class for a struct at all versions
    PyTypeObject *type
    Member *members
    int count
    Py_ssize_t tags_offset
    Py_ssize_t layout_offset  # 0: a class that has none


cdef struct Op:  # one field at one version
    int kind
    int width  # bytes of one value of fixed size; 0 for others
    bint is_array
    bint nullable
    bint null_is_empty  # null is tolerated although the definition forbids it; an object has an empty value then
    bint compact  # sizes are unsigned varints
    bint tagged
    int tag
    int after  # tagged fields: number of untagged fields before it in the definition
    int rank  # tagged fields: number of tagged fields before it in the definition
    int64_t smallest  # the least bytes of one value, or of one element
    int secrecy
    int role  # a Role, or 0
    int roles  # all Roles of the field and of what is inside it
    Struct *struct
    Member *member
    PyObject *name  # str: Kafka's JSON name
    const uint8_t *key  # ,"name":
    int key_size
    const uint8_t *size_key  # ,"nameSizeInBytes": of records
    int size_key_size
    int64_t default_int
    const uint8_t *default_text
    int32_t default_size
    bint default_null


cdef enum StepKind:
    STEP_SKIP = 0  # `size` bytes
    STEP_FIXED_ARRAY = 1  # elements of `size` bytes
    STEP_SIZED = 2  # string, bytes or records
    STEP_SIZED_ARRAY = 3
    STEP_STRUCT = 4
    STEP_STRUCT_ARRAY = 5


cdef struct Step:  # what the walk does for one field, or for several of fixed size at once
    int kind
    int64_t size
    Op *op


cdef struct Struct:  # a struct at one version
    Op *ops  # untagged, in wire order
    int count
    Op *tagged  # ascending by tag
    int tagged_count
    Member **absent  # members that this version lacks, so they must have their defaults
    int absent_count
    Step *steps  # one step for each field, to locate faults
    int step_count
    Step *fused  # the same with consecutive fields of fixed size merged
    int fused_count
    bint flexible
    int roles  # all Roles of its fields, at any depth
    bint is_partition  # whether one of its fields is a partition's index
    int marker  # index of the untagged field that marks the setting's value as a secret; -1: none
    int64_t smallest
    Class *cls


cdef inline int read_size(Op *op, Cursor *c, int32_t *out) noexcept nogil:
    """Read the size of a string, bytes or records, and check that the bytes are present; negative means an allowed null."""
    cdef int done
    if op.compact:
        done = read_compact_size(c, out)
    elif op.kind == KIND_STRING:
        done = read_int16_size(c, out)
    else:
        done = read_int32_size(c, out)
    if done < 0:
        return -1
    if out[0] < 0:
        return 0 if op.nullable else fail(c, FAULT_NULL, 0)
    if op.kind == KIND_STRING and out[0] > 0x7FFF:
        return fail(c, FAULT_LENGTH, out[0])
    return need(c, out[0])


cdef inline int read_element_size(Op *op, Cursor *c, int32_t *out) noexcept nogil:
    """As read_size, for an element of an array, which is never null."""
    if read_size(op, c, out) < 0:
        return -1
    return fail(c, FAULT_NULL, 0) if out[0] < 0 else 0


cdef inline int read_count(Op *op, Cursor *c, int32_t *out) noexcept nogil:
    """Read the count of an array, and check that the bytes left can hold it; negative means an allowed null."""
    if (read_compact_size(c, out) if op.compact else read_int32_size(c, out)) < 0:
        return -1
    if out[0] < 0:
        return 0 if op.nullable else fail(c, FAULT_NULL, 0)
    if out[0] > (c.limit - c.at) // op.smallest:
        return fail(c, FAULT_COUNT, out[0])
    return 0


cdef inline int read_presence(Op *op, Cursor *c, bint *out) noexcept nogil:
    """Read whether a nullable struct is present: int8 inline, unsigned varint inside a tag (KIP-893)."""
    cdef uint32_t mark
    if op.tagged:
        if read_uvarint(c, &mark) < 0:
            return -1
        out[0] = <int32_t>mark > 0
        return 0
    if need(c, 1) < 0:
        return -1
    out[0] = <int8_t>c.at[0] >= 0
    c.at += 1
    return 0


cdef inline Op *find_tag(Struct *s, uint32_t tag) noexcept nogil:
    """Return the known tagged field of that tag, or NULL. Kafka numbers tags from 0 without gaps, so the first try succeeds."""
    cdef int i
    if tag < <uint32_t>s.tagged_count and s.tagged[tag].tag == <int>tag:
        return &s.tagged[tag]
    for i in range(s.tagged_count):
        if <uint32_t>s.tagged[i].tag == tag:
            return &s.tagged[i]
    return NULL


cdef enum:
    MOST_TAGS = 32  # known tagged fields allowed in one struct; the facts have at most nine


cdef struct Place:
    Op *op
    int64_t index
    int64_t count  # number of elements of a cut array; -1: unknown, or not an array


cdef struct Trail:  # where a fault happened, innermost first
    int depth
    Place places[16]


cdef int walk_struct(Struct *s, Cursor *c, bint fused, Trail *trail) noexcept nogil
cdef int walk_value(Op *op, Cursor *c, bint fused, Trail *trail) noexcept nogil
cdef int walk_tags(Struct *s, Cursor *c, bint fused, Trail *trail) noexcept nogil


cdef void begin(Cursor *c, const uint8_t *data, Py_ssize_t size) noexcept nogil
cdef int note(Trail *trail, Op *op, int64_t index) noexcept nogil
cdef str render_trail(Trail *trail)
cdef tuple describe_fault(Cursor *c)
cdef int64_t integer_at(Op *op, const uint8_t *at) except? -1
cdef const uint8_t *slice_start(bytes data, Py_ssize_t *start) except NULL
cdef Py_ssize_t slice_size(bytes data, Py_ssize_t start, Py_ssize_t trailing) except -1


cdef class Program:
    cdef Struct *root
    cdef Class *classes
    cdef list arena  # owns the memory blocks below, and the Python objects they point to
    cdef bint holds_secrets  # whether a field may carry a credential
    cdef bint allows_nulls  # whether strings and bytes may be null at every version
    cdef readonly str message
    cdef readonly int version
    cdef readonly str release  # the Kafka release whose jar has the layout

    cdef void *allocate(self, size_t size) except NULL
    cdef PyObject *keep(self, object value) except NULL
    cdef dict _make_classes(self, dict types)
    cdef Struct *_make_struct(self, fields, str name, tuple path, layout, dict classes, secrecy) except NULL
    cdef int _make_op(self, Op *op, field, tuple path, layout, dict classes, secrecy) except -1
    cdef int _make_keys(self, Op *op, field) except -1
    cdef int _make_default(self, Op *op, field) except -1
    cdef int _note_absent(self, Struct *s, set present) except -1
    cdef Step *_make_steps(self, Struct *s, bint fuse, int *count) except NULL
    cpdef object check(self, bytes data, Py_ssize_t start=*)
    cpdef object peek(self, str name, bytes data, Py_ssize_t start=*)
    cdef object error(self, const uint8_t *data, Py_ssize_t size)
