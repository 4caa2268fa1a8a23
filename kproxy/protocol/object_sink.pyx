# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bytes to objects: one instance a struct (kproxy.protocol.structs), its slots written directly.

Nothing is sized from a count on the wire beyond a small start; lists then grow with what was really read.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from kproxy.protocol.program cimport (
    Class, KIND_BOOL, KIND_FLOAT64, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_STRING, KIND_STRUCT,
    KIND_UINT16, KIND_UUID, Member, Op, Program, Struct, begin, find_tag, read_count, read_element_size, read_presence,
    read_size, slice_start,
)
from kproxy.protocol.slots cimport slot
from kproxy.protocol.wire cimport be16, be32, be64, bef64, Cursor, need, read_uvarint

cdef extern from "Python.h":
    object PyLong_FromLong(long value)
    object PyLong_FromLongLong(long long value)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)
    uint8_t *PyUnicode_1BYTE_DATA(object text)
    PyObject *PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items) except NULL
    void PyObject_GC_UnTrack(PyObject *instance)

cdef const char *URL_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
cdef object EMPTY = ()

cdef enum:
    PRESIZED = 1024  # elements a list may start with; more are appended as they are read


cdef class BadBytes(Exception):
    """Raised inside this module only: the walk will say what is wrong.

    Always a new one: an instance kept would gather the tracebacks, and so the frames, of every time it was raised.
    """


cpdef object decode(Program program, bytes data, Py_ssize_t start=0):
    """The object of a message that fills *data* from *start* on. Raises DecodeError."""
    cdef Cursor c
    cdef const uint8_t *base = slice_start(data, &start)
    if program is None:
        raise TypeError("a program is wanted, not None")
    begin(&c, base, PyBytes_GET_SIZE(data) - start)
    try:
        message = read_struct(program.root, &c)
        if c.at == c.limit:
            return message
    except BadBytes:
        pass
    raise program.error(base, PyBytes_GET_SIZE(data) - start)


cdef inline void fill(object instance, Py_ssize_t offset, object value) noexcept:
    """Put *value* into a slot, whatever was there."""
    cdef PyObject **place = slot(instance, offset)
    cdef PyObject *old = place[0]
    Py_INCREF(value)
    place[0] = <PyObject *>value
    Py_XDECREF(old)


cdef object new_instance(Class *cls):
    """An instance whose slots are all empty."""
    cdef PyObject *instance = PyType_GenericAlloc(cls.type, 0)
    cdef object owned = <object>instance
    Py_DECREF(owned)
    PyObject_GC_UnTrack(instance)  # a message is a tree: the collector would walk it over and over for nothing
    return owned


cdef int fill_defaults(object instance, Class *cls) except -1:
    """Give every slot that is still empty its default, if it is immutable; lists and structs are made when asked for."""
    cdef int i
    cdef Member *member = cls.members
    for i in range(cls.count):
        if member.default != NULL and slot(instance, member.offset)[0] == NULL:
            fill(instance, member.offset, <object>member.default)
        member += 1
    if slot(instance, cls.tags_offset)[0] == NULL:
        fill(instance, cls.tags_offset, EMPTY)
    if cls.layout_offset:
        fill(instance, cls.layout_offset, None)
    return 0


cdef object read_struct(Struct *s, Cursor *c):
    cdef int64_t i
    cdef object instance = new_instance(s.cls)
    cdef Op *op
    for i in range(s.count):
        op = &s.ops[i]
        fill(instance, op.member.offset, read_array(op, c) if op.is_array else read_value(op, c, False))
    if s.flexible:
        read_tags(s, c, instance)
    fill_defaults(instance, s.cls)
    return instance


cdef object read_array(Op *op, Cursor *c):
    cdef int64_t i
    cdef int32_t count
    cdef int32_t sized
    if read_count(op, c, &count) < 0:
        raise BadBytes
    if count < 0:
        return None
    if count > PRESIZED:
        return read_long_array(op, c, count)
    values = PyList_New(count)
    for i in range(count):
        value = read_struct(op.struct, c) if op.kind == KIND_STRUCT else read_value(op, c, True)
        Py_INCREF(value)
        PyList_SET_ITEM(values, i, value)
    if op.kind != KIND_STRUCT:
        PyObject_GC_UnTrack(<PyObject *>values)
    return values


cdef list read_long_array(Op *op, Cursor *c, int32_t count):
    cdef list values = []
    for _ in range(count):
        values.append(read_struct(op.struct, c) if op.kind == KIND_STRUCT else read_value(op, c, True))
    return values


cdef object read_value(Op *op, Cursor *c, bint is_element):
    cdef const uint8_t *at = c.at
    cdef bint present = True
    if op.width:
        if need(c, op.width) < 0:
            raise BadBytes
        c.at += op.width
        return fixed_value(op, at)
    if op.kind != KIND_STRUCT:
        return read_sized(op, c, is_element)
    if op.nullable and read_presence(op, c, &present) < 0:
        raise BadBytes
    return read_struct(op.struct, c) if present else None


cdef object fixed_value(Op *op, const uint8_t *at):
    if op.kind == KIND_INT32:
        return PyLong_FromLong(<int32_t>be32(at))
    if op.kind == KIND_INT16:
        return PyLong_FromLong(<int16_t>be16(at))
    if op.kind == KIND_INT64:
        return PyLong_FromLongLong(<int64_t>be64(at))
    if op.kind == KIND_BOOL:
        return True if at[0] else False
    if op.kind == KIND_UUID:
        return uuid_text(at)
    if op.kind == KIND_FLOAT64:
        return bef64(at)
    if op.kind == KIND_INT8:
        return PyLong_FromLong(<int8_t>at[0])
    return PyLong_FromLong(be16(at) if op.kind == KIND_UINT16 else be32(at))


cdef object read_sized(Op *op, Cursor *c, bint is_element):
    cdef const uint8_t *at
    cdef int32_t size
    if (read_element_size(op, c, &size) if is_element else read_size(op, c, &size)) < 0:
        raise BadBytes
    if size < 0:
        return None
    at = c.at
    c.at += size
    if op.kind == KIND_STRING:
        # bytes that are not UTF-8 survive as lone surrogates, so that they can be written back as they were
        return PyUnicode_DecodeUTF8(<const char *>at, size, "surrogateescape")
    return PyBytes_FromStringAndSize(<const char *>at, size)


cdef object uuid_text(const uint8_t *data):
    """Kafka's Uuid.toString."""
    cdef int64_t i
    cdef object text = PyUnicode_New(22, 127)
    cdef uint8_t *out = PyUnicode_1BYTE_DATA(text)
    cdef uint32_t bits
    for i in range(5):
        bits = (<uint32_t>data[3 * i] << 16) | (<uint32_t>data[3 * i + 1] << 8) | data[3 * i + 2]
        out[4 * i] = URL_ALPHABET[bits >> 18]
        out[4 * i + 1] = URL_ALPHABET[(bits >> 12) & 63]
        out[4 * i + 2] = URL_ALPHABET[(bits >> 6) & 63]
        out[4 * i + 3] = URL_ALPHABET[bits & 63]
    out[20] = URL_ALPHABET[data[15] >> 2]
    out[21] = URL_ALPHABET[(data[15] & 3) << 4]
    return text


cdef int read_tags(Struct *s, Cursor *c, object instance) except -1:
    cdef uint32_t count, tag, size
    cdef const uint8_t *outer = c.limit
    cdef list unknown = None
    cdef Op *op
    if read_uvarint(c, &count) < 0:
        raise BadBytes
    if count == 0:
        return 0
    if count > (c.limit - c.at) // 2:
        raise BadBytes
    for _ in range(count):
        if read_uvarint(c, &tag) < 0 or read_uvarint(c, &size) < 0 or need(c, size) < 0:
            raise BadBytes
        op = find_tag(s, tag)
        if op == NULL:
            unknown = [] if unknown is None else unknown
            unknown.append((tag, PyBytes_FromStringAndSize(<const char *>c.at, size)))
            c.at += size
            continue
        c.limit = c.at + size
        fill(instance, op.member.offset, read_array(op, c) if op.is_array else read_value(op, c, False))
        if c.at != c.limit:
            raise BadBytes
        c.limit = outer
    if unknown is not None:
        fill(instance, s.cls.tags_offset, tuple(unknown))
    return 0
