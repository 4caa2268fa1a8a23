# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Turn messages into objects (``decode``: one instance for each struct, see structs.py) and objects into bytes (``encode``).

Decoding writes the slots of the instances directly. A count on the wire reserves only a small list, which grows as elements are
read. Encoding follows Kafka: tagged fields ascending, and only those that differ from their defaults. A field that the version
cannot carry must have its default, unless its definition calls it ignorable.

A message of many megabytes occupies its thread for tenths of a second. A thread that has called ``give_way`` releases the
interpreter lock briefly after every few thousand elements, so that it does not delay the event loop of the process.
"""

from typing import TYPE_CHECKING

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset
from posix.time cimport nanosleep, timespec

from kproxy.protocol.program cimport (
    Class, KIND_BOOL, KIND_FLOAT64, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_STRING, KIND_STRUCT,
    KIND_UINT16, KIND_UUID, Member, Op, Program, Struct, begin, find_tag, read_count, read_element_size, read_presence,
    read_size, slice_size, slice_start,
)
from kproxy.protocol.slots cimport slot
from kproxy.protocol.wire cimport (
    be16, be32, be64, bef64, Buffer, Cursor, f64bits, need, put, put8, put16, put32, put64, put_uvarint, read_uvarint, reserve,
)

import binascii

from kproxy.errors import EncodeError

if TYPE_CHECKING:
    from kproxy.protocol.structs import MessageStruct

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() nogil
    Py_ssize_t Py_REFCNT(PyObject *instance)
    bint PyList_CheckExact(PyObject *instance)
    object PyLong_FromLong(long value)
    object PyLong_FromLongLong(long long value)
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 largest)
    uint8_t *PyUnicode_1BYTE_DATA(object text)
    PyObject *PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items) except NULL
    void PyObject_GC_UnTrack(PyObject *instance)
    bint PyObject_TypeCheck(object value, PyTypeObject *type)

cdef const char *URL_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
cdef object EMPTY = ()
# By kind, up to KIND_INT64:
cdef int64_t[7] LEAST = [0, -128, -32768, 0, -2147483648, 0, -9223372036854775807 - 1]
cdef int64_t[7] GREATEST = [1, 127, 32767, 65535, 2147483647, 4294967295, 9223372036854775807]

cdef enum:
    PRESIZED = 1024  # elements reserved for a list at first, at most
    ELEMENTS_IN_A_SLICE = 2_048  # about 0.1 ms
    PAUSE_NS = 20_000  # long enough for a waiting thread to get the lock

cdef unsigned long patient_thread = 0  # the thread that called give_way; 0: none
cdef unsigned int elements = 0  # elements read or written since the last pause


def give_way() -> None:
    """Let this thread yield to others while it decodes or encodes; one thread of a process can do so."""
    global patient_thread
    patient_thread = PyThread_get_thread_ident()


cdef inline void count_element() noexcept:
    """Count an element of an array; after each slice of elements, pause if this is the patient thread."""
    global elements
    cdef timespec pause
    elements += 1
    if elements < ELEMENTS_IN_A_SLICE or patient_thread == 0:
        return
    elements = 0
    if patient_thread == PyThread_get_thread_ident():
        pause.tv_sec = 0
        pause.tv_nsec = PAUSE_NS
        with nogil:
            nanosleep(&pause, NULL)


cdef class BadBytes(Exception):
    """Raised inside this module only; the walk then finds out what is wrong.

    Always create a new one: a shared instance would keep the tracebacks, and so the frames, of every raise.
    """


# Bytes to objects


cpdef object decode(
    Program program, bytes data, Py_ssize_t start=0, Py_ssize_t trailing=0,
):  # type: (...) -> MessageStruct
    """Return the object of a message that fills *data* from *start* on, up to the last *trailing* bytes. Raises DecodeError."""
    cdef Cursor c
    cdef const uint8_t *base = slice_start(data, &start)
    cdef Py_ssize_t size = slice_size(data, start, trailing)
    if program is None:
        raise TypeError("expected a Program, not None")
    begin(&c, base, size)
    try:
        message = read_struct(program.root, &c)
        if c.at == c.limit:
            return message
    except BadBytes:
        pass
    raise program.error(base, size)


cdef inline void fill(object instance, Py_ssize_t offset, object value) noexcept:
    """Replace the value in a slot."""
    cdef PyObject **at = slot(instance, offset)
    cdef PyObject *old = at[0]
    Py_INCREF(value)
    at[0] = <PyObject *>value
    Py_XDECREF(old)


cdef object new_instance(Class *cls):
    """Return an instance with empty slots."""
    cdef PyObject *instance = PyType_GenericAlloc(cls.type, 0)
    cdef object owned = <object>instance
    Py_DECREF(owned)
    PyObject_GC_UnTrack(instance)  # a message is a tree, which the garbage collector would walk in vain
    return owned


cdef int fill_defaults(object instance, Class *cls) except -1:
    """Fill empty slots with immutable defaults; default lists and structs are created when they are read."""
    cdef int _
    cdef Member *member = cls.members
    for _ in range(cls.count):
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
    if read_count(op, c, &count) < 0:
        raise BadBytes
    if count < 0:
        return None
    if count > PRESIZED:
        return read_long_array(op, c, count)
    values = PyList_New(count)
    for i in range(count):
        value = read_struct(op.struct, c) if op.kind == KIND_STRUCT else read_value(op, c, True)
        count_element()
        Py_INCREF(value)
        PyList_SET_ITEM(values, i, value)
    if op.kind != KIND_STRUCT:
        PyObject_GC_UnTrack(<PyObject *>values)
    return values


cdef list read_long_array(Op *op, Cursor *c, int32_t count):
    cdef list values = []
    for _ in range(count):
        values.append(read_struct(op.struct, c) if op.kind == KIND_STRUCT else read_value(op, c, True))
        count_element()
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
        if not op.null_is_empty:
            return None
        size = 0
    at = c.at
    c.at += size
    if op.kind == KIND_STRING:
        # bytes that are not UTF-8 become lone surrogates, so that they can be written back unchanged
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


def release(Program program not None, message: MessageStruct) -> None:
    """Free a large message piece by piece, so that it does not occupy the thread for long.

    The message must not be used afterwards. Objects with other references stay.
    """
    if PyObject_TypeCheck(message, program.root.cls.type):
        release_struct(message, program.root.cls)


cdef int release_struct(object instance, Class *cls) except -1:
    cdef int i
    cdef PyObject *value
    cdef Member *member
    for i in range(cls.count):
        member = &cls.members[i]
        value = slot(instance, member.offset)[0]
        if value == NULL or Py_REFCNT(value) > 1:
            continue
        if member.is_array and PyList_CheckExact(value):
            release_list(<list>value, member.struct)
        elif member.struct != NULL and PyObject_TypeCheck(<object>value, member.struct.type):
            release_struct(<object>value, member.struct)
    return 0


cdef int release_list(list values, Class *cls) except -1:
    cdef object element
    while values:
        element = values.pop()
        if cls != NULL and Py_REFCNT(<PyObject *>element) == 1 and PyObject_TypeCheck(element, cls.type):
            release_struct(element, cls)
        count_element()
    return 0


# Objects to bytes


def encode(Program program not None, message: MessageStruct, bytes header=None) -> bytes:
    """Encode *message* at the program's version; with *header*, a frame: its size, the header, the message. Raises EncodeError."""
    cdef Buffer out
    cdef uint32_t size
    memset(&out, 0, sizeof(Buffer))
    try:
        reserve(&out, 512)
        if header is not None:
            put32(&out, 0)
            put(&out, PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header))
        write_struct(program.root, message, &out)
        if out.size > 0x7FFFFFFF:
            raise Refused(f"takes {out.size} bytes, more than a frame can")
        if header is not None:
            size = <uint32_t>(out.size - 4)
            size = be32(<const uint8_t *>&size)
            memcpy(out.data, &size, 4)
        return PyBytes_FromStringAndSize(<char *>out.data, out.size)
    except Refused as refused:
        path = ".".join(refused.path).replace(".[", "[")
        where = f": {path}" if path else ""
        raise EncodeError(f"{program.message} v{program.version}{where}: {refused.reason}") from None
    finally:
        free(out.data)


class Refused(Exception):
    """Raised inside this module only; collects the path to the field while it propagates."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason
        self.path = []


cdef inline object member_value(object instance, Member *member):
    cdef PyObject *value = slot(instance, member.offset)[0]
    if value == NULL:  # decoding left it out, or it was deleted
        return getattr(instance, <object>member.name)
    return <object>value


cdef inline bint is_unset(object instance, Member *member) noexcept:
    """Return whether the slot is empty, which means the default."""
    return slot(instance, member.offset)[0] == NULL


cdef int write_member(Op *op, object instance, Buffer *out) except -1:
    try:
        return write_field(op, member_value(instance, op.member), out)
    except Refused as refused:
        refused.path.insert(0, <object>op.name)
        raise


cdef int write_struct(Struct *s, object instance, Buffer *out) except -1:
    cdef int i
    if not PyObject_TypeCheck(instance, s.cls.type):
        raise Refused(f"is {describe(instance)}, not a {(<object>s.cls.type).__qualname__}")
    for i in range(s.count):
        write_member(&s.ops[i], instance, out)
    for i in range(s.absent_count):
        refuse_loss(s.absent[i], instance)
    if s.flexible:
        write_tags(s, instance, out)
    elif tags_of(s, instance):
        raise Refused("has unknown tags, which this version cannot carry")
    return 0


cdef inline object tags_of(Struct *s, object instance):
    cdef PyObject *tags = slot(instance, s.cls.tags_offset)[0]
    return <object>tags if tags != NULL else ()


cdef int refuse_loss(Member *member, object instance) except -1:
    """Raise Refused for a field that this version lacks, unless it is ignorable or has its default (Kafka's rule)."""
    if not member.ignorable and not has_default(instance, member):
        raise Refused(f"{<object>member.name} is set, and this version cannot carry it")
    return 0


cdef inline bint has_default(object instance, Member *member) except -1:
    return is_unset(instance, member) or is_default(member, member_value(instance, member))


cdef bint is_default(Member *member, object value) except -1:
    if member.default != NULL:
        return value is <object>member.default or PyObject_RichCompareBool(value, <object>member.default, Py_EQ)
    if member.is_array or member.struct == NULL:
        return isinstance(value, (list, tuple)) and not value
    return value is not None and struct_is_default(member.struct, value)


cdef bint struct_is_default(Class *cls, object instance) except -1:
    cdef int i
    cdef PyObject *tags
    if not PyObject_TypeCheck(instance, cls.type):
        raise Refused(f"is {describe(instance)}, not a {(<object>cls.type).__qualname__}")
    for i in range(cls.count):
        if not has_default(instance, &cls.members[i]):
            return False
    tags = slot(instance, cls.tags_offset)[0]
    return tags == NULL or len(<object>tags) == 0


cdef int write_field(Op *op, object value, Buffer *out) except -1:
    if op.is_array:
        return write_array(op, value, out)
    if op.kind != KIND_STRUCT:
        return write_value(op, value, out)
    if op.nullable:
        if op.tagged:
            put8(out, 0 if value is None else 1)
        else:
            put8(out, 0xFF if value is None else 1)
        if value is None:
            return 0
    return write_struct(op.struct, value, out)


cdef int write_array(Op *op, object values, Buffer *out) except -1:
    cdef Py_ssize_t count
    cdef Py_ssize_t i = 0
    if values is None:
        if not op.nullable:
            raise Refused("is None, and null is not allowed in this version")
        return put8(out, 0) if op.compact else put32(out, 0xFFFFFFFF)
    if not isinstance(values, (list, tuple)):
        raise Refused(f"is {describe(values)}, not a list")
    count = len(values)
    if count > 0x7FFFFFFE:
        raise Refused(f"has {count} elements, more than a count can say")
    if op.compact:
        put_uvarint(out, count + 1)
    else:
        put32(out, count)
    try:
        for value in values:
            if op.kind == KIND_STRUCT:
                write_struct(op.struct, value, out)
            elif value is None:
                raise Refused("is None, and elements of arrays are never null")
            else:
                write_value(op, value, out)
            i += 1
            count_element()
    except Refused as refused:
        refused.path.insert(0, f"[{i}]")
        raise
    if i != count:
        raise Refused(f"had {count} elements and {i} when they were written")
    return 0


cdef int write_value(Op *op, object value, Buffer *out) except -1:
    cdef double number
    if op.kind == KIND_BOOL:
        if not isinstance(value, bool):
            raise Refused(f"is {describe(value)}, not a bool")
        return put8(out, 1 if value else 0)
    if op.kind <= KIND_INT64:
        return write_int(op, value, out)
    if op.kind == KIND_UUID:
        return put_uuid(out, value)
    if op.kind == KIND_FLOAT64:
        if not isinstance(value, (int, float)):
            raise Refused(f"is {describe(value)}, not a number")
        try:
            number = value
        except OverflowError:
            raise Refused(f"is {describe(value)}, beyond 64 bits") from None
        return put64(out, f64bits(number))
    return write_sized(op, value, out)


cdef int write_int(Op *op, object value, Buffer *out) except -1:
    cdef int64_t number
    if not isinstance(value, int):
        raise Refused(f"is {describe(value)}, not a whole number")
    try:
        number = value
    except OverflowError:
        raise Refused(f"is {describe(value)}, beyond 64 bits") from None
    if not LEAST[op.kind] <= number <= GREATEST[op.kind]:
        raise Refused(f"is {value}, not within {LEAST[op.kind]} and {GREATEST[op.kind]}")
    if op.width == 4:
        return put32(out, <uint32_t>number)
    if op.width == 2:
        return put16(out, <uint32_t>number & 0xFFFF)
    return put8(out, <uint8_t>number) if op.width == 1 else put64(out, number)


cdef int put_uuid(Buffer *out, object value) except -1:
    cdef bytes data = b""
    if isinstance(value, str) and len(value) == 22 and value.isascii():
        try:
            data = binascii.a2b_base64(value.replace("-", "+").replace("_", "/") + "==", strict_mode=True)
        except binascii.Error:
            pass  # data stays empty and is refused below
    if len(data) != 16:
        raise Refused(f"is {describe(value)} that is no uuid in 22 characters of URL-safe base64")
    return put(out, PyBytes_AS_STRING(data), 16)


cdef int write_sized(Op *op, object value, Buffer *out) except -1:
    cdef bytes data
    cdef Py_ssize_t size
    if value is None:
        if not op.nullable:
            raise Refused("is None, and null is not allowed in this version")
        if op.compact:
            return put8(out, 0)
        return put16(out, 0xFFFF) if op.kind == KIND_STRING else put32(out, 0xFFFFFFFF)
    data = text_bytes(value) if op.kind == KIND_STRING else plain_bytes(value)
    size = PyBytes_GET_SIZE(data)
    if size > (0x7FFF if op.kind == KIND_STRING else 0x7FFFFFFE):
        raise Refused(f"is {size} bytes long, more than its size can say")
    if op.compact:
        put_uvarint(out, size + 1)
    elif op.kind == KIND_STRING:
        put16(out, size)
    else:
        put32(out, size)
    return put(out, PyBytes_AS_STRING(data), size)


cdef bytes text_bytes(object value):
    if not isinstance(value, str):
        raise Refused(f"is {describe(value)}, not a str")
    try:
        return (<str>value).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refused("holds a lone surrogate, which is no text") from None


cdef bytes plain_bytes(object value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise Refused(f"is {describe(value)}, not bytes")


cdef int write_tags(Struct *s, object instance, Buffer *out) except -1:
    """Write known tagged fields that differ from their defaults, and unknown ones, ascending by tag."""
    cdef int i
    cdef list entries = []
    cdef Op *op
    for i in range(s.tagged_count):
        op = &s.tagged[i]
        if not has_default(instance, op.member):
            entries.append((op.tag, i))
    unknown = tags_of(s, instance)
    if not entries and not unknown:
        return put8(out, 0)
    if not isinstance(unknown, (tuple, list)) or not all([isinstance(e, tuple) and len(e) == 2 for e in unknown]):
        raise Refused(f"has unknown tags that are no list of (tag, data): {describe(unknown)}")
    for tag, data in unknown:
        if not isinstance(tag, int) or not 0 <= tag <= 0xFFFFFFFF or find_tag(s, tag) != NULL:
            raise Refused(f"has an unknown tag {tag!r}, which is not a tag or is a known one")
        entries.append((tag, plain_bytes(data)))
    entries.sort(key=first)  # stable: duplicates of an unknown tag keep their order
    put_uvarint(out, len(entries))
    for tag, what in entries:
        put_uvarint(out, tag)
        if isinstance(what, bytes):
            put_uvarint(out, len(what))
            put(out, PyBytes_AS_STRING(what), len(what))
        else:
            write_tagged(&s.tagged[<int>what], instance, out)
    return 0


def first(pair):
    return pair[0]


cdef int write_tagged(Op *op, object instance, Buffer *out) except -1:
    """Write the value, then insert its size before it."""
    cdef size_t begins = out.size
    cdef size_t size, shift
    cdef uint8_t[8] prefix
    write_member(op, instance, out)
    size = out.size - begins
    put_uvarint(out, size)
    shift = out.size - begins - size
    memcpy(prefix, out.data + begins + size, shift)
    memmove(out.data + begins + shift, out.data + begins, size)
    memcpy(out.data + begins, prefix, shift)
    return 0


cdef str describe(object value):
    """Return a value's type, and for numbers the value; text and bytes may be secrets in the wrong field."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return f"int {value}" if -1 << 64 < value < 1 << 64 else f"an int of {value.bit_length()} bits"
    return f"a {type(value).__name__}"
