# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""A walk over payloads of Avro and Protobuf without objects for their values: whether they fit their schema, and some of them hidden
(Avro) or marked.

Compiled, as it looks at every byte of every record that a filter validates or masks: fastavro makes objects, at a tenth of the speed.
The plan of a schema (avro.py, protobuf.py) has a Node for each type at each place; a type that contains itself leads back to its own
node. Bytes that are not hidden stay as they are. Only a block that begins with its size in bytes (Avro 1.12, "Arrays") is written
without it.

Of Protobuf a walk takes only what its library takes, and less: it gives up where the library would have to say which of several
fields counts, as for a field twice, a map's entry without a key, or fields with marks that do not ascend.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from kproxy.protocol.records.in_place cimport Editor
from kproxy.protocol.wire cimport Buffer, put, put8

cdef enum Kind:  # in the order of avro.KINDS, and then of protobuf.KINDS
    NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, ARRAY, MAP, UNION, RECORD
    MESSAGE, ENTRY  # of Protobuf: its fields are its children, by their numbers
    VARINT, FIXED64, FIXED32, TEXT, DATA, INNER, GROUP  # a field; the child of the last two is a MESSAGE or ENTRY

cdef enum Flag:  # of a field; its number stands above them in Node.size
    REPEATED = 1
    MARKED = 2  # it is marked, or something in it
    PRESENT = 4  # an empty text is one, and not the same as none
    UTF8 = 8  # the library refuses a text that is none

cdef enum:
    FLAGS = 4  # bits

cdef enum WireType:
    OF_VARINT, OF_FIXED64, OF_SIZED, OF_GROUP, OF_END, OF_FIXED32

cdef uint64_t HIGH = 0x8080808080808080

cdef enum:
    MOST_DEPTH = 200  # of a value
    MOST_MARKED = 1 << 23  # bytes of all marks of a payload: more than 100,000
    MOST_MESSAGES = 100  # around a field of Protobuf, as in its library
    EACH = -1
    INSIDE = -2
    FITS = 1
    BROKEN = 0


cdef struct Node:
    int kind
    int64_t size  # of FIXED; how many symbols ENUM has; number and flags of a field of Protobuf
    int first  # of its children, in *children*
    int count
    const uint8_t *replacement  # of a value that is hidden; NULL: it is not
    size_t replacement_size


cdef struct Walk:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *limit
    const uint8_t *copied  # what is before this is in *out*, or left out
    Buffer *out  # NULL: nothing is written
    Node *nodes
    int *children
    bint is_changed
    Buffer *marked  # NULL: nothing is noted. For each marked value: its node, where it begins and ends, how much of *trail* follows
    Buffer trail  # two numbers for each array and map around a value: EACH and its index, or where its key begins and the key's size


cdef class PayloadWalk(Editor):
    """Walks payloads by a plan: for each node its kind, its size, its children and the bytes that hide it (None: it stays)."""

    cdef Node *nodes
    cdef int *children
    cdef list kept  # what the pointers point to

    def __init__(self, plan: list[tuple[int, int, tuple[int, ...], bytes | None]]):
        cdef int at = 0, number
        cdef bytes replacement
        self.kept = []
        self.nodes = <Node *>calloc(len(plan), sizeof(Node))
        self.children = <int *>calloc(max(sum(len(one[2]) for one in plan), 1), sizeof(int))
        if self.nodes == NULL or self.children == NULL:
            raise MemoryError
        for number, (kind, size, children, hidden) in enumerate(plan):
            self.nodes[number].kind, self.nodes[number].size = kind, size
            self.nodes[number].first, self.nodes[number].count = at, len(children)
            for child in children:
                if not 0 <= child < len(plan):
                    raise ValueError("a child that is no node")
                self.children[at] = child
                at += 1
            if hidden is not None:
                replacement = hidden
                self.kept.append(replacement)
                self.nodes[number].replacement = <const uint8_t *>PyBytes_AS_STRING(replacement)
                self.nodes[number].replacement_size = PyBytes_GET_SIZE(replacement)

    def __dealloc__(self):
        free(self.nodes)
        free(self.children)

    def fits(self, bytes payload not None) -> bool:
        """Return whether a payload is a value of the schema, to its last byte."""
        return self.accepts(<const uint8_t *>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))

    def hidden(self, bytes payload not None) -> bytes | None:
        """Return a payload with its values hidden, the same object if there are none; None if it does not fit the schema."""
        cdef Buffer out
        cdef Walk w
        memset(&out, 0, sizeof(Buffer))
        self.begin(&w, <const uint8_t *>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        w.out = &out
        try:
            if walk(&w, 0, 0) != FITS or w.at != w.limit:
                return None
            if not w.is_changed:
                return payload
            put(&out, w.copied, w.limit - w.copied)
            return PyBytes_FromStringAndSize(<char *>out.data, out.size)
        finally:
            free(out.data)

    def marked(self, bytes payload not None) -> bytes | None:
        """Return where the values are that would be hidden, as INT64s; None if the payload does not fit the schema.
        Raises OverflowError for too many.

        For each value: the number of its node, where it begins and where it ends; then how many numbers follow, two for each array
        and map around it: -1 and the index of its item, or where its key begins and the size of the key (in Protobuf of the key's
        field). The node -1 stands for the count and the size of a block that has a size: its count is the only number that follows;
        -2 for the size of a message with marks in it: where the message ends is the only one.
        """
        cdef Buffer marked
        cdef Walk w
        memset(&marked, 0, sizeof(Buffer))
        self.begin(&w, <const uint8_t *>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        w.marked = &marked
        try:
            if walk(&w, 0, 0) != FITS or w.at != w.limit:
                return None
            return PyBytes_FromStringAndSize(<char *>marked.data, marked.size)
        finally:
            free(marked.data)
            free(w.trail.data)

    cdef void begin(self, Walk *w, const uint8_t *data, size_t size) noexcept nogil:
        memset(w, 0, sizeof(Walk))
        w.start = w.at = w.copied = data
        w.limit = data + size
        w.nodes, w.children = self.nodes, self.children

    cdef bint accepts(self, const uint8_t *data, size_t size) except -1 nogil:
        cdef Walk w
        self.begin(&w, data, size)
        return walk(&w, 0, 0) == FITS and w.at == w.limit


cdef int walk(Walk *w, int number, int depth) except -1 nogil:
    """Walk one value; FITS, or BROKEN."""
    cdef Node *node = &w.nodes[number]
    cdef const uint8_t *start = w.at
    cdef Buffer *out = w.out
    cdef int status
    if depth > MOST_DEPTH:
        return BROKEN
    if node.replacement != NULL and w.marked != NULL:
        status = walk_value(w, node, depth)
        return mark(w, number, start, w.trail.data, w.trail.size) if status == FITS else status
    if node.replacement == NULL or out == NULL:
        return walk_value(w, node, depth)
    w.out = NULL
    status = walk_value(w, node, depth)
    w.out = out
    if status == FITS:
        put(out, w.copied, start - w.copied)
        put(out, node.replacement, node.replacement_size)
        w.copied = w.at
        w.is_changed = True
    return status


cdef int walk_value(Walk *w, Node *node, int depth) except -1 nogil:
    cdef int64_t value
    cdef int place
    if node.kind == RECORD:
        for place in range(node.count):
            if walk(w, w.children[node.first + place], depth + 1) != FITS:
                return BROKEN
        return FITS
    if node.kind == STRING or node.kind == BYTES:
        if not read_long(w, &value) or value < 0 or not skip(w, value):
            return BROKEN
        return FITS if node.kind == BYTES or is_utf8(w.at - value, w.at) else BROKEN
    if node.kind == LONG:
        return read_long(w, &value)
    if node.kind == INT:
        return FITS if read_long(w, &value) and -0x80000000 <= value <= 0x7FFFFFFF else BROKEN
    if node.kind == UNION:
        if not read_long(w, &value) or not 0 <= value < node.count:
            return BROKEN
        return walk(w, w.children[node.first + value], depth + 1)
    if node.kind == ARRAY or node.kind == MAP:
        return walk_blocks(w, node, depth)
    if node.kind == ENUM:
        return FITS if read_long(w, &value) and 0 <= value < node.size else BROKEN
    if node.kind == BOOLEAN:
        return FITS if skip(w, 1) and (w.at - 1)[0] <= 1 else BROKEN
    if node.kind == MESSAGE:
        return walk_message(w, node, depth, 0)
    return skip(w, 4 if node.kind == FLOAT else 8 if node.kind == DOUBLE else node.size if node.kind == FIXED else 0)


cdef int walk_blocks(Walk *w, Node *node, int depth) except -1 nogil:
    """Walk the blocks of an array, or of a map, whose first child is its keys' node."""
    cdef int64_t count, size, _
    cdef int64_t number = 0
    cdef int place
    cdef const uint8_t *start
    cdef size_t trail = w.trail.size
    while True:
        start = w.at
        if not read_long(w, &count):
            return BROKEN
        if count == 0:
            return FITS
        if count < 0:
            if count == <int64_t>(<uint64_t>1 << 63) or not read_long(w, &size) or size < 0 or size > w.limit - w.at:
                return BROKEN
            count = -count
            if w.out != NULL:  # its size may change: write the block without it
                put(w.out, w.copied, start - w.copied)
                put_long(w.out, count)
                w.copied = w.at
            if w.marked != NULL:
                mark(w, EACH, start, <const uint8_t *>&count, sizeof(int64_t))
        if count > w.limit - w.at:  # an item takes a byte at least
            return BROKEN
        for _ in range(count):
            for place in range(node.count):
                if w.marked != NULL and place == node.count - 1:
                    enter(w, start if node.kind == MAP else NULL, number)
                start = w.at
                if walk(w, w.children[node.first + place], depth + 1) != FITS:
                    return BROKEN
            w.trail.size = trail
            number += 1


cdef int walk_message(Walk *w, Node *message, int depth, uint32_t group) except -1 nogil:
    """Walk the fields of a message to the limit, or to the end of the group of this number."""
    cdef uint32_t tag
    cdef int64_t last = 0
    cdef int64_t index = 0
    cdef int number, count = 0
    cdef const uint8_t *start
    cdef Node *field
    cdef size_t trail = w.trail.size
    while w.at < w.limit:
        start = w.at
        if not read_uint(w, &tag, 0xFFFFFFFF) or tag < 8:
            return BROKEN
        if tag & 7 == OF_END:
            return FITS if tag >> 3 == group else BROKEN
        count += 1
        number = field_of(w, message, tag >> 3)
        field = &w.nodes[number]
        if number < 0:
            if not skip_field(w, tag, depth):
                return BROKEN
        elif w.marked == NULL or not field.size & MARKED:
            if not walk_field(w, field, tag, depth):
                return BROKEN
        else:
            index = index + 1 if tag >> 3 == last else 0
            if tag >> 3 < last or (index and not field.size & REPEATED):
                return BROKEN
            last = tag >> 3
            if field.size & REPEATED and (field.count == 0 or w.nodes[w.children[field.first]].kind != ENTRY):
                enter(w, NULL, index)
            if not mark_field(w, number, tag, depth):
                return BROKEN
            w.trail.size = trail
            if message.kind == ENTRY and last == 1:
                put_number(&w.trail, start - w.start)
                put_number(&w.trail, w.at - start)
                trail = w.trail.size
    if message.kind == ENTRY and w.marked != NULL and (count != 2 or last != 2):
        return BROKEN
    return FITS if group == 0 else BROKEN


cdef int field_of(Walk *w, Node *message, uint32_t number) noexcept nogil:
    """Return the node of the field of a number; -1: the schema has none."""
    cdef int low = 0, high = message.count, middle
    cdef int64_t found
    while low < high:
        middle = (low + high) // 2
        found = w.nodes[w.children[message.first + middle]].size >> FLAGS
        if found == number:
            return w.children[message.first + middle]
        if found < number:
            low = middle + 1
        else:
            high = middle
    return -1


cdef int mark_field(Walk *w, int number, uint32_t tag, int depth) except -1 nogil:
    """Walk the value of a field, and mark it or what is in it."""
    cdef Node *field = &w.nodes[number]
    cdef const uint8_t *start = w.at
    cdef uint32_t size
    cdef size_t before = w.marked.size, inside
    cdef int64_t end
    if field.replacement != NULL:
        if not walk_field(w, field, tag, depth):
            return BROKEN
        if behind_varint(start) == w.at and not field.size & PRESENT:
            return FITS
        return mark(w, number, start, w.trail.data, w.trail.size)
    if field.kind == INNER and tag & 7 == OF_SIZED:
        if not read_uint(w, &size, 0x7FFFFFFF) or size > w.limit - w.at:
            return BROKEN
        end = w.at - w.start + size
        mark(w, INSIDE, start, <const uint8_t *>&end, sizeof(int64_t))
        inside = w.marked.size
        w.at = start
        if not walk_field(w, field, tag, depth):
            return BROKEN
        if w.marked.size == inside:
            w.marked.size = before
        return FITS
    return walk_field(w, field, tag, depth)


cdef int walk_field(Walk *w, Node *field, uint32_t tag, int depth) except -1 nogil:
    """Walk the value of a field behind its tag, whose wire type has to be that of the field."""
    cdef int wire_type = tag & 7
    cdef uint32_t size
    cdef int status
    cdef const uint8_t *limit = w.limit
    if field.kind == GROUP:
        if wire_type != OF_GROUP or depth >= MOST_MESSAGES:
            return BROKEN
        return walk_message(w, &w.nodes[w.children[field.first]], depth + 1, tag >> 3)
    if wire_type != OF_SIZED:
        if wire_type != (OF_VARINT if field.kind == VARINT else OF_FIXED64 if field.kind == FIXED64 else OF_FIXED32):
            return BROKEN
        return skip_field(w, tag, depth) if field.kind == VARINT or field.kind == FIXED64 or field.kind == FIXED32 else BROKEN
    if not read_uint(w, &size, 0x7FFFFFFF) or size > limit - w.at:
        return BROKEN
    w.limit = w.at + size
    if field.kind == INNER:
        status = BROKEN if depth >= MOST_MESSAGES else walk_message(w, &w.nodes[w.children[field.first]], depth + 1, 0)
    elif field.kind == TEXT:
        status = FITS if not field.size & UTF8 or is_utf8(w.at, w.limit) else BROKEN
        w.at = w.limit
    elif field.kind == DATA:
        status = skip(w, size)
    else:
        status = FITS if field.size & REPEATED else BROKEN  # packed
        while status and w.at < w.limit:
            status = skip_value(w, OF_VARINT if field.kind == VARINT else OF_FIXED64 if field.kind == FIXED64 else OF_FIXED32)
    w.limit = limit
    return status


cdef int skip_field(Walk *w, uint32_t tag, int depth) noexcept nogil:
    """Go behind the value of a field that no schema describes."""
    cdef uint32_t size, inner
    if tag & 7 == OF_SIZED:
        return read_uint(w, &size, 0x7FFFFFFF) and skip(w, size)
    if tag & 7 != OF_GROUP:
        return skip_value(w, tag & 7)
    if depth >= MOST_MESSAGES:
        return BROKEN
    while w.at < w.limit:
        if not read_uint(w, &inner, 0xFFFFFFFF) or inner < 8:
            return BROKEN
        if inner & 7 == OF_END:
            return FITS if inner >> 3 == tag >> 3 else BROKEN
        if not skip_field(w, inner, depth + 1):
            return BROKEN
    return BROKEN


cdef int skip_value(Walk *w, int wire_type) noexcept nogil:
    cdef int64_t ignored
    if wire_type == OF_VARINT:
        return read_long(w, &ignored)
    return skip(w, 8 if wire_type == OF_FIXED64 else 4 if wire_type == OF_FIXED32 else -1)


cdef inline int read_uint(Walk *w, uint32_t *out, uint32_t most) noexcept nogil:
    """Read a varint of at most five bytes that is at most *most*: a tag, or a size."""
    cdef uint64_t value = 0
    cdef int shift = 0
    while w.at < w.limit and shift < 35:
        value |= <uint64_t>(w.at[0] & 0x7F) << shift
        w.at += 1
        if (w.at - 1)[0] < 0x80:
            out[0] = <uint32_t>value
            return FITS if value <= most else BROKEN
        shift += 7
    return BROKEN


cdef int mark(Walk *w, int64_t node, const uint8_t *start, const uint8_t *behind, size_t size) except -1 nogil:
    """Note a value that ends here; FITS. Raises OverflowError for too many: a value of one byte takes 300 as Python objects."""
    if w.marked.size > MOST_MARKED:
        with gil:
            raise OverflowError("too many values to be marked")
    put_number(w.marked, node)
    put_number(w.marked, start - w.start)
    put_number(w.marked, w.at - w.start)
    put_number(w.marked, <int64_t>(size // sizeof(int64_t)))
    put(w.marked, behind, size)
    return FITS


cdef int enter(Walk *w, const uint8_t *key, int64_t number) except -1 nogil:
    """Go to the value of a key that ends here, or to an item of an array."""
    if key == NULL:
        put_number(&w.trail, EACH)
        return put_number(&w.trail, number)
    key = behind_varint(key)
    put_number(&w.trail, key - w.start)
    return put_number(&w.trail, w.at - key)


cdef inline const uint8_t *behind_varint(const uint8_t *at) noexcept nogil:
    """Return where a varint ends that was read before."""
    while at[0] >= 0x80:
        at += 1
    return at + 1


cdef inline int put_number(Buffer *out, int64_t number) except -1 nogil:
    put(out, <const uint8_t *>&number, sizeof(int64_t))
    return 0


cdef inline int read_long(Walk *w, int64_t *out) noexcept nogil:
    """Read a zigzag varint of at most ten bytes."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while w.at < w.limit and shift < 70:
        byte = w.at[0]
        w.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
            return FITS
        shift += 7
    return BROKEN


cdef int put_long(Buffer *out, int64_t value) except -1 nogil:
    cdef uint64_t left = <uint64_t>value << 1
    while left >= 0x80:
        put8(out, <uint8_t>(left | 0x80))
        left >>= 7
    put8(out, <uint8_t>left)
    return 0


cdef inline int skip(Walk *w, int64_t size) noexcept nogil:
    if size < 0 or size > w.limit - w.at:
        return BROKEN
    w.at += size
    return FITS


cdef bint is_utf8(const uint8_t *at, const uint8_t *limit) noexcept nogil:
    """Return whether bytes are UTF-8 (RFC 3629, 4)."""
    cdef uint64_t eight
    cdef uint8_t first, low, high
    cdef int size, place
    while at < limit:
        if limit - at >= 8:
            memcpy(&eight, at, 8)
            if not eight & HIGH:
                at += 8
                continue
        first = at[0]
        if first < 0x80:
            at += 1
            continue
        size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        if not 0xC2 <= first <= 0xF4 or limit - at < size:
            return False
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if not low <= at[1] <= high:
            return False
        for place in range(2, size):
            if at[place] & 0xC0 != 0x80:
                return False
        at += size
    return True
