# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Objects to bytes, as Kafka writes them: tagged fields ascending and only when they differ from their default.

A field that the version cannot carry must have its default, unless its definition calls it ignorable.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport Py_EQ, PyObject, PyObject_RichCompareBool, PyTypeObject
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset

from kproxy.protocol.program cimport (
    Class, KIND_BOOL, KIND_FLOAT64, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_STRING, KIND_STRUCT,
    KIND_UINT16, KIND_UUID, Member, Op, Program, Struct, find_tag,
)
from kproxy.protocol.wire cimport Buffer, f64bits, put, put8, put16, put32, put64, put_uvarint, reserve

import binascii
import struct

from kproxy.errors import EncodeError

cdef extern from "Python.h":
    bint PyObject_TypeCheck(object value, PyTypeObject *type)

cdef int64_t[7] LEAST = [0, -128, -32768, 0, -2147483648, 0, -9223372036854775807 - 1]
cdef int64_t[7] GREATEST = [1, 127, 32767, 65535, 2147483647, 4294967295, 9223372036854775807]


def encode(Program program not None, message):
    """The bytes of *message* at the program's version. Raises EncodeError."""
    cdef Buffer out
    memset(&out, 0, sizeof(Buffer))
    try:
        reserve(&out, 512)
        write_struct(program.root, message, &out)
        if out.size > 0x7FFFFFFF:
            raise Refused(f"takes {out.size} bytes, more than a frame can")
        return PyBytes_FromStringAndSize(<char *>out.data, out.size)
    except Refused as refused:
        path = ".".join(refused.path).replace(".[", "[")
        where = f": {path}" if path else ""
        raise EncodeError(f"{program.message} v{program.version}{where}: {refused.reason}") from None
    finally:
        free(out.data)


class Refused(Exception):
    """Raised inside this module only; gathers the path on its way out."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason
        self.path = []


cdef inline object member_value(object instance, Member *member):
    cdef PyObject *value = (<PyObject **>(<char *><PyObject *>instance + member.offset))[0]
    if value == NULL:  # decoding left it out, or someone deleted it
        return getattr(instance, <object>member.name)
    return <object>value


cdef inline bint is_unset(object instance, Member *member) noexcept:
    """A slot nobody has asked for since decoding left it empty: it stands for its default."""
    return (<PyObject **>(<char *><PyObject *>instance + member.offset))[0] == NULL


cdef int write_struct(Struct *s, object instance, Buffer *out) except -1:
    cdef int i
    cdef Op *op
    if not PyObject_TypeCheck(instance, s.cls.type):
        raise Refused(f"is {describe(instance)}, not a {(<object>s.cls.type).__qualname__}")
    for i in range(s.count):
        op = &s.ops[i]
        try:
            write_field(op, member_value(instance, op.member), out)
        except Refused as refused:
            refused.path.insert(0, <object>op.name)
            raise
    for i in range(s.absent_count):
        refuse_loss(s.absent[i], instance)
    if s.flexible:
        write_tags(s, instance, out)
    elif tags_of(s, instance):
        raise Refused("has unknown tags, which this version cannot carry")
    return 0


cdef inline object tags_of(Struct *s, object instance):
    cdef PyObject *tags = (<PyObject **>(<char *><PyObject *>instance + s.cls.tags_offset))[0]
    return <object>tags if tags != NULL else ()


cdef int refuse_loss(Member *member, object instance) except -1:
    """Kafka's rule: what this version cannot carry may only be dropped when it is ignorable or says nothing."""
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
    tags = (<PyObject **>(<char *><PyObject *>instance + cls.tags_offset))[0]
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
            pass
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
    """Known tagged fields that say something, and the unknown ones, ascending by tag."""
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
    entries.sort(key=first)  # stable: an unknown tag that came twice keeps its order
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
    """The value, then its size moved in before it."""
    cdef size_t begins = out.size
    cdef size_t size, shift
    cdef uint8_t[8] prefix
    try:
        write_field(op, member_value(instance, op.member), out)
    except Refused as refused:
        refused.path.insert(0, <object>op.name)
        raise
    size = out.size - begins
    put_uvarint(out, size)
    shift = out.size - begins - size
    memcpy(prefix, out.data + begins + size, shift)
    memmove(out.data + begins + shift, out.data + begins, size)
    memcpy(out.data + begins, prefix, shift)
    return 0


cdef str describe(object value):
    """For a person: its type, and the value of a number; text and bytes may be a secret put into the wrong field."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int:
        return f"int {value}" if -1 << 64 < value < 1 << 64 else f"an int of {value.bit_length()} bits"
    return f"a {type(value).__name__}"
