# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Turn bytes directly into Kafka's JSON, as Kafka's own JsonConverter writes it.

Untagged fields always appear; tagged ones if their value is not the default, in the order of the definition; unknown tagged
fields as ``_unknownTaggedFields``. bytes are base64, uuids URL-safe base64, and records become their size. Control and
bidirectional-formatting characters are escaped, so that a line is safe on a terminal.

``write_*`` walk over the fields of a message, complete or not; ``put_*`` write single values: numbers, strings with their escapes,
base64. A ``write_*`` returns -1 at malformed or missing bytes. What is written then is valid JSON of the complete fields, which
``beginning`` returns and ``to_json`` discards.
"""

from typing import TYPE_CHECKING

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free
from libc.math cimport isfinite, isnan
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memmove, memset, strlen

from kproxy.protocol.program cimport (
    ALWAYS_SECRET, KIND_BOOL, KIND_FLOAT64, KIND_INT8, KIND_INT16, KIND_INT32, KIND_INT64, KIND_RECORDS,
    KIND_STRING, KIND_STRUCT, KIND_UINT16, KIND_UUID, MARKS_THE_VALUE, MOST_TAGS, NAMES_AN_UNMARKED_SETTING,
    NAMES_THE_SETTING, OPEN_FIELD, Op, Program, Struct, Trail, begin, describe_fault, find_tag, note,
    read_count, read_element_size, read_presence, read_size, render_trail, slice_size, slice_start,
    walk_value,
)
from kproxy.protocol.secrets import is_known_setting, is_secret_setting
from kproxy.protocol.wire cimport (
    be16, be32, be64, bef64, Buffer, Cursor, FAULT_COUNT, FAULT_NULL, FAULT_SHORT, FAULT_TAG_SIZE, fail, need, put,
    put8, read_compact_size, read_int32_size, read_uvarint, reserve,
)

if TYPE_CHECKING:
    from kproxy.errors import DecodeError


cdef extern from "Python.h":
    char *PyOS_double_to_string(double value, char code, int precision, int flags, int *kind) except NULL
    int Py_DTSF_ADD_DOT_0

cdef const char *HEX = "0123456789abcdef"
cdef const char *DIGITS = (
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
    "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
    "9899"
)
cdef const char *ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char *URL_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

cdef uint8_t[256] PLAIN  # 1: an ASCII byte that stands for itself inside a JSON string
for _byte in range(256):
    PLAIN[_byte] = 0x20 <= _byte < 0x7F and _byte not in b'"\\'

cdef enum:
    MOST_RESERVED = 1 << 20  # bytes of output reserved at first, at most: a frame of records becomes little text


cdef struct Sink:
    Buffer out
    bint withhold
    bint withhold_unknown  # unknown tagged fields, in a message that carries credentials
    bint setting_is_secret  # the setting's name says that the current struct's value is a secret
    bint marked_secret  # another field says so, which also holds for the structs inside
    Trail *trail  # the place where an incomplete message ends, noted on the way out; NULL: the message must be complete
    bint ends_in_tags  # an incomplete message ends among the tagged fields of the innermost struct


def to_json(
    Program program not None, bytes data not None, Py_ssize_t start=0, bint withhold=False, Py_ssize_t trailing=0,
) -> bytes:
    """Return the JSON text (UTF-8) of the message in *data* from *start* up to the last *trailing* bytes.

    With *withhold*, credentials become the string "(withheld)", and so does the data of unknown tagged fields in messages that
    have credentials. Raises DecodeError.
    """
    cdef Cursor c
    cdef Sink sink
    cdef const uint8_t *base = slice_start(data, &start)
    cdef Py_ssize_t size = slice_size(data, start, trailing)
    begin(&c, base, size)
    memset(&sink, 0, sizeof(Sink))
    sink.withhold = withhold
    sink.withhold_unknown = withhold and program.holds_secrets
    try:
        reserve(&sink.out, min(size * 3 + 64, MOST_RESERVED))
        if write_struct(program.root, &c, &sink) < 0 or c.at != c.limit:
            raise program.error(base, size)
        return PyBytes_FromStringAndSize(<char *>sink.out.data, sink.out.size)
    finally:
        free(sink.out.data)


cdef int write_struct(Struct *s, Cursor *c, Sink *sink) except? -1:
    """Write a struct as a JSON object; -1 without an exception means that the bytes are malformed or incomplete."""
    cdef int i
    cdef int done = 0
    cdef size_t begins = sink.out.size
    cdef bint outer = sink.setting_is_secret
    cdef bint outer_mark = sink.marked_secret
    cdef size_t marks[MOST_TAGS]  # where each tagged field goes, if it is present
    sink.setting_is_secret = False
    if sink.withhold and s.marker >= 0:
        sink.marked_secret |= is_marked(s, c[0])
    if s.tagged_count:
        memset(marks, 0, sizeof(marks))
    for i in range(s.count):
        if s.tagged_count:
            mark_tagged(s, i, sink.out.size, marks)
        done = write_field(&s.ops[i], c, sink)
        if done < 0:
            break
    if done == 0 and s.flexible:
        if s.tagged_count:
            mark_tagged(s, s.count, sink.out.size, marks)
        done = write_tags(s, c, sink, marks)
    if sink.out.size == begins:
        put8(&sink.out, b"{")
    sink.out.data[begins] = b"{"  # over the first field's comma
    put8(&sink.out, b"}")
    sink.setting_is_secret = outer
    sink.marked_secret = outer_mark
    return done


cdef bint is_marked(Struct *s, Cursor c) noexcept:
    """Return whether the struct at the cursor marks its value as a secret; True if it cannot be read."""
    cdef int i
    for i in range(s.marker):
        if walk_value(&s.ops[i], &c, True, NULL) < 0:
            return True
    return c.at >= c.limit or c.at[0] != 0


cdef void mark_tagged(Struct *s, int after, size_t size, size_t *marks) noexcept:
    cdef int k
    for k in range(min(s.tagged_count, MOST_TAGS)):
        if s.tagged[k].after == after:
            marks[k] = size


cdef int write_field(Op *op, Cursor *c, Sink *sink) except? -1:
    """Write a field with its key; of an incomplete one, the complete elements or fields inside it, if there are any."""
    cdef size_t begins = sink.out.size
    cdef size_t value
    cdef bint withheld
    cdef int done
    if op.kind == KIND_RECORDS:
        return write_records(op, c, sink)
    put(&sink.out, op.key, op.key_size)
    value = sink.out.size
    withheld = sink.withhold and op.secrecy != OPEN_FIELD and is_withheld(op, c, sink)
    if withheld:
        done = withhold_field(op, c, sink)
    else:
        done = write_array(op, c, sink) if op.is_array else write_value(op, c, sink)
    if done < 0:
        if sink.out.size <= value + 2:  # nothing, or an empty object or array
            sink.out.size = begins
        if withheld or not op.is_array:  # write_array has noted the element
            note(sink.trail, op, -1)
    return done


cdef int write_records(Op *op, Cursor *c, Sink *sink) except? -1:
    """Write the size of records, also of incomplete ones."""
    cdef int32_t size
    if (read_compact_size(c, &size) if op.compact else read_int32_size(c, &size)) < 0:
        return note(sink.trail, op, -1)
    if size < 0 and not op.nullable:
        fail(c, FAULT_NULL, 0)
        return note(sink.trail, op, -1)
    if size < 0:
        put(&sink.out, op.key, op.key_size)
        return put_word(&sink.out, b"null")
    put(&sink.out, op.size_key, op.size_key_size)
    put_int(&sink.out, size)
    if need(c, size) < 0:
        return note(sink.trail, op, -1)
    c.at += size
    return 0


cdef bint is_withheld(Op *op, Cursor *c, Sink *sink) except -1:
    """Return whether the next field is a secret, looking ahead at a setting's name without moving the cursor."""
    cdef Cursor ahead = c[0]
    cdef int32_t size
    if op.secrecy == NAMES_THE_SETTING or op.secrecy == NAMES_AN_UNMARKED_SETTING:
        sink.setting_is_secret = True  # a name that cannot be read: assume the worst
        if read_size(op, &ahead, &size) == 0 and size >= 0:
            name = ahead.at[:size]
            sink.setting_is_secret = is_secret_setting(name) or (
                op.secrecy == NAMES_AN_UNMARKED_SETTING and not is_known_setting(name)
            )
        return False
    if op.secrecy == MARKS_THE_VALUE:
        return False
    return op.secrecy == ALWAYS_SECRET or sink.setting_is_secret or sink.marked_secret


cdef int withhold_field(Op *op, Cursor *c, Sink *sink) except? -1:
    """Write "(withheld)" for a secret, or null for a null one, and move past its bytes."""
    cdef Cursor value = c[0]
    cdef int32_t size = 0
    if walk_value(op, c, True, NULL) < 0:
        return -1
    if not op.is_array and not op.width and op.kind != KIND_STRUCT:
        read_size(op, &value, &size)
    return put_word(&sink.out, b"null" if size < 0 else b'"(withheld)"')


cdef int write_array(Op *op, Cursor *c, Sink *sink) except? -1:
    cdef int64_t i
    cdef int32_t count
    cdef int done
    cdef size_t element
    if (read_count(op, c, &count) if sink.trail == NULL else read_cut_count(op, c, &count)) < 0:
        return note(sink.trail, op, -1)
    if count < 0:
        return put_word(&sink.out, b"null")
    put8(&sink.out, b"[")
    for i in range(count):
        element = sink.out.size
        if i:
            put8(&sink.out, b",")
        if sink.trail != NULL and need(c, 1) < 0:  # every element takes at least one byte
            done = -1
        elif op.kind == KIND_STRUCT:
            done = write_struct(op.struct, c, sink)
        elif op.width:
            done = need(c, op.width)
            if done == 0:
                write_fixed(op, c, sink)
        else:
            done = write_sized(op, c, sink, True)
        if done < 0:
            return cut_array(op, i, count, element, sink)
    return put8(&sink.out, b"]")


cdef int read_cut_count(Op *op, Cursor *c, int32_t *count) noexcept:
    """As read_count, for an array whose end may be missing, so that the bytes left need not hold all elements."""
    if (read_compact_size(c, count) if op.compact else read_int32_size(c, count)) < 0:
        return -1
    return fail(c, FAULT_NULL, 0) if count[0] < 0 and not op.nullable else 0


cdef int cut_array(Op *op, int64_t index, int32_t count, size_t element, Sink *sink) except? -1:
    """End an array in element *index*, which begins at *element* in the output; return -1."""
    if sink.out.size <= element + (1 if index else 0) + 2:  # nothing behind the comma, or an empty object
        sink.out.size = element
    if index or sink.out.size > element:
        put8(&sink.out, b"]")
    note(sink.trail, op, index)
    if sink.trail != NULL:
        sink.trail.places[sink.trail.depth - 1].count = count
    return -1


cdef int write_value(Op *op, Cursor *c, Sink *sink) except? -1:
    cdef bint present = True
    if op.width:
        if need(c, op.width) < 0:
            return -1
        return write_fixed(op, c, sink)
    if op.kind != KIND_STRUCT:
        return write_sized(op, c, sink, False)
    if op.nullable and read_presence(op, c, &present) < 0:
        return -1
    return write_struct(op.struct, c, sink) if present else put_word(&sink.out, b"null")


cdef int write_fixed(Op *op, Cursor *c, Sink *sink) except -1:
    """Write a value of fixed size, whose bytes were checked to be present."""
    cdef const uint8_t *at = c.at
    c.at += op.width
    if op.kind == KIND_INT32:
        return put_int(&sink.out, <int32_t>be32(at))
    if op.kind == KIND_INT16:
        return put_int(&sink.out, <int16_t>be16(at))
    if op.kind == KIND_INT64:
        return put_int(&sink.out, <int64_t>be64(at))
    if op.kind == KIND_BOOL:
        return put_word(&sink.out, b"true" if at[0] else b"false")
    if op.kind == KIND_UUID:
        return put_uuid(&sink.out, at)
    if op.kind == KIND_FLOAT64:
        return put_float(&sink.out, bef64(at))
    if op.kind == KIND_INT8:
        return put_int(&sink.out, <int8_t>at[0])
    return put_int(&sink.out, be16(at) if op.kind == KIND_UINT16 else be32(at))


cdef int write_sized(Op *op, Cursor *c, Sink *sink, bint is_element) except? -1:
    cdef int32_t size
    if (read_element_size(op, c, &size) if is_element else read_size(op, c, &size)) < 0:
        return -1
    if size < 0:
        return put_word(&sink.out, b"null")
    if op.kind == KIND_STRING:
        put_string(&sink.out, c.at, size)
    else:
        put_base64(&sink.out, c.at, size)
    c.at += size
    return 0


cdef int write_tags(Struct *s, Cursor *c, Sink *sink, size_t *marks) except? -1:
    """Write the complete tagged fields: known ones at their marks (the last of duplicates counts), then unknown ones."""
    cdef uint32_t count, tag, size
    cdef uint32_t _
    cdef int k
    cdef Cursor known[MOST_TAGS]
    cdef const uint8_t *first
    cdef const uint8_t *at
    cdef int unknown = 0
    cdef int done = read_uvarint(c, &count)
    if done == 0 and count == 0:
        return 0
    if done < 0 or (sink.trail == NULL and count > (c.limit - c.at) // 2):
        sink.ends_in_tags = True
        return -1
    first = c.at
    if s.tagged_count:
        memset(known, 0, sizeof(known))
    for _ in range(count):
        at = c.at
        done = read_tag(s, c, known, &tag, &size)
        if done < 0:
            c.at = at
            break
        unknown += find_tag(s, tag) == NULL
    if done < 0 and sink.trail == NULL:
        return -1
    for k in range(s.tagged_count):
        if known[k].base != NULL and insert_tagged(s, k, &known[k], sink, marks) < 0:
            return -1
    if unknown and write_unknown(s, first, c.at, sink) < 0:
        return -1
    sink.ends_in_tags |= done < 0
    return done


cdef int read_tag(Struct *s, Cursor *c, Cursor *known, uint32_t *tag, uint32_t *size) noexcept:
    """Move past a tagged field; for a known one with a fitting size, note the position of its value."""
    cdef Op *op
    cdef Cursor value
    if read_uvarint(c, tag) < 0 or read_uvarint(c, size) < 0 or need(c, size[0]) < 0:
        return -1
    op = find_tag(s, tag[0])
    if op != NULL:
        begin(&value, c.at, size[0])
        if not fills(op, value):
            return fail(c, FAULT_TAG_SIZE, size[0])
        known[op - s.tagged] = value
    c.at += size[0]
    return 0


cdef bint fills(Op *op, Cursor c) noexcept:
    return walk_value(op, &c, True, NULL) == 0 and c.at == c.limit


cdef int insert_tagged(Struct *s, int k, Cursor *c, Sink *sink, size_t *marks) except? -1:
    """Write a tagged field at the end; remove it again if it has its default, else move it to its place."""
    cdef int other
    cdef Op *op = &s.tagged[k]
    cdef size_t end = sink.out.size
    cdef size_t size, tail
    if is_default(op, c[0]):
        return 0
    if write_field(op, c, sink) < 0:
        return -1
    size = sink.out.size - end
    tail = end - marks[k]
    if tail:
        reserve(&sink.out, size)
        memmove(sink.out.data + marks[k] + size, sink.out.data + marks[k], tail + size)
        memcpy(sink.out.data + marks[k], sink.out.data + end + size, size)
    for other in range(s.tagged_count):
        if marks[other] > marks[k] or (marks[other] == marks[k] and s.tagged[other].rank > op.rank):
            marks[other] += size
    return 0


cdef int write_unknown(Struct *s, const uint8_t *first, const uint8_t *limit, Sink *sink) except? -1:
    cdef Cursor c
    cdef uint32_t tag, size
    cdef bint comma = False
    begin(&c, first, limit - first)
    put_word(&sink.out, b',"_unknownTaggedFields":[')
    while c.at < c.limit:
        if read_uvarint(&c, &tag) < 0 or read_uvarint(&c, &size) < 0:
            return -1
        if find_tag(s, tag) == NULL:
            put_word(&sink.out, b',{"tag":' if comma else b'{"tag":')
            put_int(&sink.out, tag)
            put_word(&sink.out, b',"data":')
            if sink.withhold_unknown:
                put_word(&sink.out, b'"(withheld)"')
            else:
                put_base64(&sink.out, c.at, size)
            put8(&sink.out, b"}")
            comma = True
        c.at += size
    return put8(&sink.out, b"]")


cdef bint is_default(Op *op, Cursor c) noexcept:
    """Return whether the well-formed value at the cursor is the default, which Kafka's writer leaves out."""
    return skip_default(op, &c)


cdef bint skip_default(Op *op, Cursor *c) noexcept:
    cdef int32_t size
    cdef bint present = True
    if op.is_array:
        read_count(op, c, &size)
        return size < 0 if op.default_null else size == 0
    if op.kind == KIND_STRUCT:
        if op.nullable:
            read_presence(op, c, &present)
            if not present or op.default_null:
                return op.default_null and not present
        return struct_is_default(op.struct, c)
    if op.width:
        c.at += op.width
        return fixed_is_default(op, c.at - op.width)
    read_size(op, c, &size)
    if size < 0 or op.default_null:
        return size < 0 and op.default_null
    c.at += size
    return size == op.default_size and (size == 0 or memcmp(c.at - size, op.default_text, size) == 0)


cdef bint fixed_is_default(Op *op, const uint8_t *at) noexcept:
    cdef uint8_t *zeros = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    if op.kind == KIND_INT32:
        return <int32_t>be32(at) == op.default_int
    if op.kind == KIND_INT64:
        return <int64_t>be64(at) == op.default_int
    if op.kind == KIND_INT16:
        return <int16_t>be16(at) == op.default_int
    if op.kind == KIND_INT8:
        return <int8_t>at[0] == op.default_int
    if op.kind == KIND_BOOL:
        return (at[0] != 0) == op.default_int
    if op.kind == KIND_UINT16:
        return be16(at) == op.default_int
    return memcmp(at, zeros, op.width) == 0


cdef bint struct_is_default(Struct *s, Cursor *c) noexcept:
    """Return whether all fields have their defaults, and no tagged field is present."""
    cdef int i
    cdef uint32_t tags = 0
    for i in range(s.count):
        if not skip_default(&s.ops[i], c):
            return False
    if s.flexible:
        read_uvarint(c, &tags)
    return tags == 0


# The beginning of a message


def beginning(
    Program program not None, bytes data not None, Py_ssize_t start=0, bint withhold=False,
) -> tuple[bytes, str | None, dict[str, int], int, int, tuple[tuple[type[DecodeError], str], int] | None]:
    """Return the JSON text of the complete fields of a message whose beginning is *data* from *start* on, and what is missing.

    An object has its complete fields; an array its complete elements and the complete fields of the next one; empty ones are
    left out. For incomplete records the size is written. Never raises.

    Returns the text; the path of the first incomplete field, or None; the element counts of incomplete arrays, by path; how many
    bytes the field needs and how many of them are present; and, if the bytes are malformed and not only cut, the class of
    DecodeError and its reason.
    """
    cdef Cursor c
    cdef Sink sink
    cdef Trail trail
    cdef const uint8_t *base = slice_start(data, &start)
    cdef Py_ssize_t size = slice_size(data, start, 0)
    begin(&c, base, size)
    memset(&sink, 0, sizeof(Sink))
    sink.withhold = withhold
    sink.withhold_unknown = withhold and program.holds_secrets
    sink.trail = &trail
    trail.depth = 0
    try:
        reserve(&sink.out, min(size * 3 + 64, MOST_RESERVED))
        done = write_struct(program.root, &c, &sink)
        text = PyBytes_FromStringAndSize(<char *>sink.out.data, sink.out.size)
    finally:
        free(sink.out.data)
    if done == 0:
        return text, None, {}, 0, 0, None
    path = render_trail(&trail)
    if sink.ends_in_tags:
        path = f"{path}._taggedFields" if path else "_taggedFields"
    is_cut = c.fault == FAULT_SHORT or c.fault == FAULT_COUNT
    return text, path, counts_of(&trail), c.needed, c.left, None if is_cut else (describe_fault(&c), c.at - base)


cdef dict counts_of(Trail *trail):
    cdef int i
    cdef Trail outer
    cdef dict counts = {}
    for i in range(trail.depth):
        if trail.places[i].count >= 0:
            outer.depth = trail.depth - i
            memcpy(outer.places, &trail.places[i], outer.depth * sizeof(trail.places[0]))
            outer.places[0].index = -1
            counts[render_trail(&outer)] = trail.places[i].count
    return counts


# How one value is written


cdef int put_word(Buffer *b, const char *word) except -1:
    return put(b, word, strlen(word))


cdef int put_int(Buffer *b, int64_t value) except -1:
    cdef char[24] text
    cdef int at = 24
    cdef uint64_t rest = <uint64_t>value
    if value < 0:
        rest = 0 - rest
    while rest >= 100:
        at -= 2
        memcpy(&text[at], DIGITS + 2 * (rest % 100), 2)
        rest //= 100
    if rest >= 10:
        at -= 2
        memcpy(&text[at], DIGITS + 2 * rest, 2)
    else:
        at -= 1
        text[at] = <char>(48 + rest)
    if value < 0:
        at -= 1
        text[at] = b"-"
    return put(b, &text[at], 24 - at)


cdef int put_float(Buffer *b, double value) except -1:
    """Write the shortest text that reads back as the same number. NaN and the infinities are strings, as Jackson writes them."""
    cdef char *text
    if isnan(value):
        return put_word(b, b'"NaN"')
    if not isfinite(value):
        return put_word(b, b'"Infinity"' if value > 0 else b'"-Infinity"')
    text = PyOS_double_to_string(value, b"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    try:
        return put(b, text, strlen(text))
    finally:
        PyMem_Free(text)


cdef int put_string(Buffer *b, const uint8_t *text, int32_t size) except -1:
    """Write a JSON string of UTF-8 bytes; each ill-formed sequence becomes U+FFFD, as in Java and Python."""
    cdef const uint8_t *at = text
    cdef const uint8_t *limit = text + size
    cdef const uint8_t *run
    reserve(b, size + 2)
    put8(b, b'"')
    while at < limit:
        run = at
        while at < limit and PLAIN[at[0]]:
            at += 1
        put(b, run, at - run)
        if at < limit:
            at = put_character(b, at, limit)
    return put8(b, b'"')


cdef const uint8_t *put_character(Buffer *b, const uint8_t *at, const uint8_t *limit) except NULL:
    """Write one character that is not PLAIN; return where the next one begins."""
    cdef uint32_t point
    cdef int size
    if at[0] < 0x80:
        put_escape(b, at[0])
        return at + 1
    size = sequence(at, limit, &point)
    if size < 0:
        put(b, b"\xef\xbf\xbd", 3)
        return at - size
    if is_unseen(point):
        put_escape(b, point)
    else:
        put(b, at, size)
    return at + size


cdef int put_escape(Buffer *b, uint32_t point) except -1:
    cdef int i
    cdef char[6] text
    if point == b'"' or point == b"\\":
        put8(b, b"\\")
        return put8(b, point)
    if point == b"\n" or point == b"\r" or point == b"\t":
        return put_word(b, b"\\n" if point == b"\n" else b"\\r" if point == b"\r" else b"\\t")
    text[0] = b"\\"
    text[1] = b"u"
    for i in range(4):
        text[2 + i] = HEX[(point >> (12 - 4 * i)) & 15]
    return put(b, text, 6)


cdef bint is_unseen(uint32_t point) noexcept:
    """Return whether a character can mislead a reader: C1 controls, line separators, bidirectional formatting."""
    return (
        point < 0xA0
        or point == 0x061C
        or 0x200E <= point <= 0x200F
        or 0x2028 <= point <= 0x202E
        or 0x2066 <= point <= 0x2069
        or point == 0xFEFF
    )


cdef int sequence(const uint8_t *at, const uint8_t *limit, uint32_t *point) noexcept:
    """Return the size of the UTF-8 sequence at *at*, or minus the size of its maximal ill-formed part (Unicode 3.9)."""
    cdef int i
    cdef uint8_t lead = at[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int more
    if 0xC2 <= lead <= 0xDF:
        more, point[0] = 1, lead & 0x1F
    elif 0xE0 <= lead <= 0xEF:
        more, point[0] = 2, lead & 0x0F
        low = 0xA0 if lead == 0xE0 else 0x80
        high = 0x9F if lead == 0xED else 0xBF
    elif 0xF0 <= lead <= 0xF4:
        more, point[0] = 3, lead & 0x07
        low = 0x90 if lead == 0xF0 else 0x80
        high = 0x8F if lead == 0xF4 else 0xBF
    else:
        return -1
    for i in range(1, more + 1):
        if at + i >= limit or not low <= at[i] <= high:
            return -i
        point[0] = (point[0] << 6) | (at[i] & 0x3F)
        low, high = 0x80, 0xBF
    return more + 1


cdef int put_base64(Buffer *b, const uint8_t *data, int64_t size) except -1:
    """Write a JSON string of padded base64 (RFC 4648 section 4)."""
    reserve(b, size // 3 * 4 + 6)
    put8(b, b'"')
    encode64(b, data, size, ALPHABET)
    while (b.size and size % 3):
        put8(b, b"=")
        size += 1
    return put8(b, b'"')


cdef int put_uuid(Buffer *b, const uint8_t *data) except -1:
    """Write a JSON string like Kafka's Uuid.toString: 16 bytes as 22 characters of URL-safe base64 without padding."""
    reserve(b, 24)
    put8(b, b'"')
    encode64(b, data, 16, URL_ALPHABET)
    return put8(b, b'"')


cdef str uuid_text(const uint8_t *data):
    """Return the text that put_uuid writes, without its quotes."""
    cdef Buffer text
    memset(&text, 0, sizeof(Buffer))
    try:
        put_uuid(&text, data)
        return (<char *>text.data)[1 : text.size - 1].decode("ascii")
    finally:
        free(text.data)


cdef int encode64(Buffer *b, const uint8_t *data, int64_t size, const char *alphabet) except -1:
    cdef uint32_t bits
    cdef char[4] quad
    while size >= 3:
        bits = (<uint32_t>data[0] << 16) | (<uint32_t>data[1] << 8) | data[2]
        quad[0] = alphabet[bits >> 18]
        quad[1] = alphabet[(bits >> 12) & 63]
        quad[2] = alphabet[(bits >> 6) & 63]
        quad[3] = alphabet[bits & 63]
        put(b, quad, 4)
        data += 3
        size -= 3
    if size:
        bits = (<uint32_t>data[0] << 16) | (<uint32_t>data[1] << 8 if size == 2 else 0)
        quad[0] = alphabet[bits >> 18]
        quad[1] = alphabet[(bits >> 12) & 63]
        quad[2] = alphabet[(bits >> 6) & 63]
        put(b, quad, size + 1)
    return 0
