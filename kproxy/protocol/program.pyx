# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Compile a layout at one version to a table of operations; walk bytes by it, and locate faults.

The walk alone decides what is well formed; it touches every byte once and creates no object. The other sinks follow the same
table with the same readers; if one of them stops, the walk finds out where and why.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int16_t
from libc.string cimport memset

from kproxy.errors import DecodeError, Malformed, TrailingBytes, Truncated
from kproxy.protocol.slots cimport slot_offset
from kproxy.protocol.wire cimport be16, be32, be64, FAULT_SHORT, FAULT_TAG_SIZE, FAULT_VARINT

if TYPE_CHECKING:
    from kproxy.protocol import secrets, structs
    from kproxy.protocol.facts import Layout

KINDS = {
    "bool": KIND_BOOL, "int8": KIND_INT8, "int16": KIND_INT16, "uint16": KIND_UINT16, "int32": KIND_INT32,
    "uint32": KIND_UINT32, "int64": KIND_INT64, "float64": KIND_FLOAT64, "uuid": KIND_UUID,
    "string": KIND_STRING, "bytes": KIND_BYTES, "records": KIND_RECORDS,
}  # fmt: skip
WIDTHS = (1, 1, 2, 2, 4, 4, 8, 8, 16)

cdef int MOST_DEPTH = 16  # places in a trail; no message nests deeper than eight


cdef dict KEYS = {}  # of fields in JSON: most programs have the same


cdef tuple keys_of(str name):
    """Return the key of a field in JSON, and that of its size where it is shown by its size alone."""
    if name not in KEYS:
        KEYS[name] = f',"{name}":'.encode(), f',"{name}SizeInBytes":'.encode()
    return KEYS[name]


cdef class Program:
    """One layout of one message at one version, in the form that sinks execute. Made by kproxy.protocol.message."""

    def __cinit__(
        self, layout not None: Layout, int version, dict types not None: dict[str, type[structs.Struct]],
        secrecy not None: Callable[[str, tuple[str, ...]], secrets.Secrecy], bint nulls=False,
    ) -> Self:
        self.message = layout.name
        self.version = version
        self.release = layout.release
        self.allows_nulls = nulls
        self.arena = []
        cdef dict classes = self._make_classes(types)
        self.root = self._make_struct(layout.fields, layout.name, (), layout, classes, secrecy)

    cdef void *allocate(self, size_t size) except NULL:
        cdef bytearray block = bytearray(size if size else 1)  # zeroed, and freed with the arena
        self.arena.append(block)
        return PyByteArray_AS_STRING(block)

    cdef PyObject *keep(self, object value) except NULL:
        self.arena.append(value)
        return <PyObject *>value

    cdef dict _make_classes(self, dict types):
        """Make a Class for every struct type of the message; return struct name -> index."""
        cdef Class *cls
        cdef Member *member
        cdef dict order = {name: index for index, name in enumerate(types)}
        self.classes = <Class *>self.allocate(sizeof(Class) * len(types))
        for name, index in order.items():
            cls = &self.classes[<int>index]
            pytype = types[name]
            cls.type = <PyTypeObject *>self.keep(pytype)
            cls.tags_offset = slot_offset(pytype.unknown_tags)
            cls.layout_offset = slot_offset(pytype.layout) if index == 0 else 0
            cls.count = len(pytype.fields)
            cls.members = <Member *>self.allocate(sizeof(Member) * cls.count)
            for i, field in enumerate(pytype.fields):
                member = &cls.members[<int>i]
                member.offset = slot_offset(getattr(pytype, field.attribute))
                if member.offset < 0 or cls.tags_offset < 0:
                    raise TypeError(f"{name}.{field.attribute} is not a slot")
                member.name = self.keep(field.attribute)
                member.ignorable = field.ignorable
                member.is_array = field.is_array
                if field.is_struct:
                    member.struct = &self.classes[<int>order[field.type]]
                if field.default != ():
                    member.default = self.keep(field.default)
        return order

    cdef Struct *_make_struct(self, fields, str name, tuple path, layout, dict classes, secrecy) except NULL:
        cdef int i
        cdef Struct *s = <Struct *>self.allocate(sizeof(Struct))
        cdef list plain = [f for f in fields if self.version in f.versions and self.version not in f.tagged]
        cdef list tagged = [f for f in fields if self.version in f.tagged]
        if len({f.tag for f in tagged}) < len(tagged) or len(tagged) > MOST_TAGS:
            raise ValueError(f"{name} v{self.version}: a tag defined twice, or more than {MOST_TAGS} tagged fields")
        s.flexible = self.version in layout.flexible
        s.cls = &self.classes[<int>classes[name]]
        s.ops = <Op *>self.allocate(sizeof(Op) * len(plain))
        s.tagged = <Op *>self.allocate(sizeof(Op) * len(tagged))
        s.smallest = 1 if s.flexible else 0
        s.marker = -1
        for field in plain:
            self._make_op(&s.ops[s.count], field, path, layout, classes, secrecy)
            op = &s.ops[s.count]
            if op.secrecy == MARKS_THE_VALUE:
                s.marker = s.count
            s.smallest += (1 if op.compact else 4) if op.is_array else op.smallest
            s.count += 1
        for field in sorted(tagged, key=lambda f: f.tag):
            op = &s.tagged[s.tagged_count]
            op.tagged = True
            op.tag = field.tag
            op.after = sum(1 for other in fields[: fields.index(field)] if other in plain)
            op.rank = tagged.index(field)
            self._make_op(op, field, path, layout, classes, secrecy)
            s.tagged_count += 1
        for i in range(s.count):
            s.roles |= s.ops[i].roles
            s.is_partition |= s.ops[i].role == ROLE_PARTITION and not s.ops[i].is_array
        for i in range(s.tagged_count):
            s.roles |= s.tagged[i].roles
        self._note_absent(s, {f.attribute for f in plain + tagged})
        s.steps = self._make_steps(s, False, &s.step_count)
        s.fused = self._make_steps(s, True, &s.fused_count)
        return s

    cdef int _make_op(self, Op *op, field, tuple path, layout, dict classes, secrecy) except -1:
        cdef int64_t i
        cdef Member *member
        path = (*path, field.json_name)
        op.kind = KIND_STRUCT if field.is_struct else KINDS[field.type]
        op.is_array = field.is_array
        op.nullable = self.version in field.nullable
        if self.allows_nulls and op.kind in (KIND_STRING, KIND_BYTES) and not op.is_array and not op.nullable:
            op.nullable = op.null_is_empty = True
        op.compact = self.version in layout.flexible and not field.never_flexible
        op.secrecy = secrecy(self.message, path)
        self.holds_secrets |= op.secrecy != OPEN_FIELD
        op.name = self.keep(field.json_name)
        op.role = op.roles = _role(field.json_name, op.kind)
        self._make_keys(op, field)
        if op.kind == KIND_STRUCT:
            op.struct = self._make_struct(field.fields, field.type, path, layout, classes, secrecy)
            op.roles |= op.struct.roles
            op.smallest = 1 if op.nullable and not op.is_array else op.struct.smallest
        elif op.kind <= KIND_UUID:
            op.width = op.smallest = WIDTHS[op.kind]
        else:
            op.smallest = 1 if op.compact else 2 if op.kind == KIND_STRING else 4
        if op.is_array and op.smallest == 0:
            op.smallest = 1  # bounds the count of elements; no message has elements of zero bytes
        self._make_default(op, field)
        cls = &self.classes[<int>classes[layout.name if len(path) == 1 else self._owner(layout, path)]]
        for i in range(cls.count):
            member = &cls.members[i]
            if <object>member.name == field.attribute:
                op.member = member
        if op.member == NULL:
            raise TypeError(f"{self.message} has no slot for {field.attribute}")
        return 0

    def _owner(self, layout, tuple path):
        """Return the name of the struct with the field at *path*."""
        fields, name = layout.fields, layout.name
        for step in path[: len(path) - 1]:
            field = next(f for f in fields if f.json_name == step and self.version in f.versions)
            fields, name = field.fields, field.type
        return name

    cdef int _make_keys(self, Op *op, field) except -1:
        cdef bytes key, size_key
        key, size_key = keys = keys_of(field.json_name)
        self.arena.append(keys)
        op.key = <const uint8_t *>PyBytes_AS_STRING(key)
        op.key_size = PyBytes_GET_SIZE(key)
        op.size_key = <const uint8_t *>PyBytes_AS_STRING(size_key)
        op.size_key_size = PyBytes_GET_SIZE(size_key)
        return 0

    cdef int _make_default(self, Op *op, field) except -1:
        cdef bytes text
        op.default_null = field.default is None
        if isinstance(field.default, (int, bool)):
            op.default_int = int(field.default)
        elif isinstance(field.default, str) and op.kind == KIND_STRING:
            text = field.default.encode()
            self.arena.append(text)
            op.default_text = <const uint8_t *>PyBytes_AS_STRING(text)
            op.default_size = PyBytes_GET_SIZE(text)
        return 0

    cdef int _note_absent(self, Struct *s, set present) except -1:
        cdef int64_t i
        s.absent = <Member **>self.allocate(sizeof(Member *) * s.cls.count)
        for i in range(s.cls.count):
            if <object>s.cls.members[i].name not in present:
                s.absent[s.absent_count] = &s.cls.members[i]
                s.absent_count += 1
        return 0

    cdef Step *_make_steps(self, Struct *s, bint fuse, int *count) except NULL:
        cdef int64_t i
        cdef Step *steps = <Step *>self.allocate(sizeof(Step) * s.count)
        cdef Step *step
        cdef Op *op
        cdef int n = 0
        for i in range(s.count):
            op = &s.ops[i]
            step = &steps[n]
            step.op = op
            step.size = op.width
            if op.is_array:
                step.kind = STEP_STRUCT_ARRAY if op.kind == KIND_STRUCT else STEP_FIXED_ARRAY if op.width else STEP_SIZED_ARRAY
                if fuse and op.kind == KIND_STRUCT and fixed_size(op.struct):
                    step.kind, step.size = STEP_FIXED_ARRAY, fixed_size(op.struct)
            elif op.kind == KIND_STRUCT:
                step.kind = STEP_STRUCT
            elif not op.width:
                step.kind = STEP_SIZED
            else:
                step.kind = STEP_SKIP
                if fuse and n and steps[n - 1].kind == STEP_SKIP:
                    steps[n - 1].size += op.width
                    continue
            n += 1
        count[0] = n
        return steps

    cdef object error(self, const uint8_t *data, Py_ssize_t size):
        """Return the DecodeError for bytes that a sink refused; TrailingBytes if bytes follow the message."""
        cdef Cursor c
        cdef Trail trail
        begin(&c, data, size)
        trail.depth = 0
        cdef int done = walk_struct(self.root, &c, False, &trail)
        where = {"message": self.message, "version": self.version, "position": c.at - data}
        if done == 0:
            left = c.limit - c.at
            return TrailingBytes(f"{left} bytes are left over after the message", needed=0, left=left, **where)
        path = render_trail(&trail)
        kind, reason = describe_fault(&c)
        if c.fault == FAULT_NULL or c.fault == FAULT_VARINT:
            return kind(reason, path=path, **where)  # neither is about sizes
        return kind(reason, path=path, needed=c.needed, left=c.left, **where)

    def walk(self, bytes data not None, Py_ssize_t start=0) -> int:
        """Return the size of the message that begins at *start*. Raises DecodeError."""
        cdef Cursor c
        cdef const uint8_t *base = slice_start(data, &start)
        begin(&c, base, PyBytes_GET_SIZE(data) - start)
        if walk_struct(self.root, &c, True, NULL) < 0:
            raise self.error(base, PyBytes_GET_SIZE(data) - start)
        return c.at - base

    cpdef object check(self, bytes data, Py_ssize_t start=0):  # type: (...) -> DecodeError | None
        """Return None if the message fills *data* from *start* on exactly, else the DecodeError."""
        cdef Cursor c
        cdef const uint8_t *base = slice_start(data, &start)
        begin(&c, base, PyBytes_GET_SIZE(data) - start)
        if walk_struct(self.root, &c, True, NULL) < 0 or c.at != c.limit:
            return self.error(base, PyBytes_GET_SIZE(data) - start)
        return None

    cpdef object peek(self, str name, bytes data, Py_ssize_t start=0):  # type: (...) -> int
        """Return the integer in the untagged top-level field *name* (Kafka's JSON name). Raises DecodeError, KeyError."""
        cdef int64_t i
        cdef Cursor c
        cdef Step *step
        cdef const uint8_t *base = slice_start(data, &start)
        begin(&c, base, PyBytes_GET_SIZE(data) - start)
        for i in range(self.root.step_count):
            step = &self.root.steps[i]
            if <object>step.op.name == name and step.kind == STEP_SKIP:
                if need(&c, step.op.width) < 0:
                    break
                return integer_at(step.op, c.at)
            if walk_value(step.op, &c, True, NULL) < 0:
                break
        else:
            raise KeyError(name)
        raise self.error(base, PyBytes_GET_SIZE(data) - start)


cdef dict _ROLES = {
    ("throttleTimeMs", KIND_INT32): ROLE_THROTTLE_TIME,
    ("topicId", KIND_UUID): ROLE_TOPIC_ID,
    ("groupId", KIND_STRING): ROLE_GROUP_ID,
    **{(name, KIND_STRING): ROLE_TOPIC_NAME for name in ("name", "topic", "topicName")},
    **{(name, KIND_INT32): ROLE_PARTITION for name in ("partitionIndex", "index", "partition")},
    **{(name, KIND_INT64): ROLE_OFFSET for name in ("offset", "baseOffset", "committedOffset", "highWatermark")},
    ("timestamp", KIND_INT64): ROLE_TIMESTAMP,
}


cdef int _role(str name, int kind) except -1:
    """Return the Role of a field with that JSON name; 0 for one without."""
    if kind == KIND_RECORDS:
        return ROLE_RECORDS
    if kind == KIND_INT16 and name.endswith("rrorCode"):
        return ROLE_ERROR_CODE
    return _ROLES.get((name, kind), 0)


cdef int64_t integer_at(Op *op, const uint8_t *at) except? -1:
    if op.kind == KIND_BOOL:
        return at[0]
    if op.kind == KIND_INT8:
        return <int8_t>at[0]
    if op.kind == KIND_INT16:
        return <int16_t>be16(at)
    if op.kind == KIND_UINT16:
        return be16(at)
    if op.kind == KIND_INT32:
        return <int32_t>be32(at)
    if op.kind == KIND_UINT32:
        return be32(at)
    if op.kind == KIND_INT64:
        return <int64_t>be64(at)
    raise KeyError(<object>op.name)  # not an integer


cdef const uint8_t *slice_start(bytes data, Py_ssize_t *start) except NULL:
    if data is None:
        raise TypeError("expected bytes, not None")
    if not 0 <= start[0] <= PyBytes_GET_SIZE(data):
        raise IndexError(f"start {start[0]} is not within {PyBytes_GET_SIZE(data)} bytes")
    return <const uint8_t *>PyBytes_AS_STRING(data) + start[0]


cdef Py_ssize_t slice_size(bytes data, Py_ssize_t start, Py_ssize_t trailing) except -1:
    """Return the number of bytes from *start* (checked by slice_start) up to the last *trailing* ones."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data) - start
    if not 0 <= trailing <= size:
        raise IndexError(f"{trailing} bytes after the message are not within {size} bytes")
    return size - trailing


cdef void begin(Cursor *c, const uint8_t *data, Py_ssize_t size) noexcept nogil:
    memset(c, 0, sizeof(Cursor))
    c.base = c.at = data
    c.limit = data + size


cdef int64_t fixed_size(Struct *s) noexcept:
    """Return the size of a struct of fixed size; 0 for others."""
    return s.fused[0].size if s.fused_count == 1 and s.fused[0].kind == STEP_SKIP and not s.flexible else 0


cdef int walk_struct(Struct *s, Cursor *c, bint fused, Trail *trail) noexcept nogil:
    cdef Step *step = s.fused if fused else s.steps
    cdef Step *last = step + (s.fused_count if fused else s.step_count)
    cdef int32_t size
    while step < last:
        if step.kind == STEP_SKIP:
            if need(c, step.size) < 0:
                return note(trail, step.op, -1)
            c.at += step.size
        elif step.kind == STEP_SIZED:
            if read_size(step.op, c, &size) < 0:
                return note(trail, step.op, -1)
            if size > 0:
                c.at += size
        elif walk_array(step, c, fused, trail) < 0:
            return -1
        step += 1
    return walk_tags(s, c, fused, trail) if s.flexible else 0


cdef int walk_array(Step *step, Cursor *c, bint fused, Trail *trail) noexcept nogil:
    """Walk a step that is neither a skip nor a sized value."""
    cdef Op *op = step.op
    cdef int32_t count
    cdef int32_t size
    cdef int64_t i
    cdef bint present = True
    if step.kind == STEP_STRUCT:
        if op.nullable and read_presence(op, c, &present) < 0:
            return note(trail, op, -1)
        if present and walk_struct(op.struct, c, fused, trail) < 0:
            return note(trail, op, -1)
        return 0
    if read_count(op, c, &count) < 0:
        return note(trail, op, -1)
    if step.kind == STEP_FIXED_ARRAY:
        if count > 0:
            if need(c, count * step.size) < 0:
                return note(trail, op, (c.limit - c.at) // step.size)
            c.at += count * step.size
        return 0
    for i in range(count):
        if step.kind == STEP_STRUCT_ARRAY:
            if walk_struct(op.struct, c, fused, trail) < 0:
                return note(trail, op, i)
        else:
            if read_element_size(op, c, &size) < 0:
                return note(trail, op, i)
            c.at += size
    return 0


cdef int walk_value(Op *op, Cursor *c, bint fused, Trail *trail) noexcept nogil:
    """Walk a single field: the value of a tag, or a field before the one that ``peek`` reads."""
    cdef Step step
    cdef int32_t size
    step.op = op
    step.size = op.width
    if not op.is_array and op.kind != KIND_STRUCT:
        if op.width:
            if need(c, op.width) < 0:
                return note(trail, op, -1)
            c.at += op.width
            return 0
        if read_size(op, c, &size) < 0:
            return note(trail, op, -1)
        c.at += size if size > 0 else 0
        return 0
    if not op.is_array:
        step.kind = STEP_STRUCT
    elif op.kind == KIND_STRUCT:
        step.kind = STEP_STRUCT_ARRAY
    else:
        step.kind = STEP_FIXED_ARRAY if op.width else STEP_SIZED_ARRAY
    return walk_array(&step, c, fused, trail)


cdef int walk_tags(Struct *s, Cursor *c, bint fused, Trail *trail) noexcept nogil:
    """Walk the tagged fields of a struct (KIP-482): known ones must fill their sizes, unknown ones are skipped."""
    cdef uint32_t count, tag, size
    cdef uint32_t _
    cdef const uint8_t *outer = c.limit
    cdef Op *op
    if read_uvarint(c, &count) < 0:
        return -1
    if count == 0:
        return 0
    if count > (c.limit - c.at) // 2:
        return fail(c, FAULT_COUNT, count)
    for _ in range(count):
        if read_uvarint(c, &tag) < 0 or read_uvarint(c, &size) < 0 or need(c, size) < 0:
            return -1
        op = find_tag(s, tag)
        if op == NULL:
            c.at += size
            continue
        c.limit = c.at + size
        if walk_value(op, c, fused, trail) < 0:
            return -1
        if c.at != c.limit:
            fail(c, FAULT_TAG_SIZE, size)
            return note(trail, op, -1)
        c.limit = outer
    return 0


cdef int note(Trail *trail, Op *op, int64_t index) noexcept nogil:
    """Record that the fault is inside *op*, while returning from it; always returns -1."""
    if trail != NULL and trail.depth < MOST_DEPTH:
        trail.places[trail.depth].op = op
        trail.places[trail.depth].index = index
        trail.places[trail.depth].count = -1
        trail.depth += 1
    return -1


cdef str render_trail(Trail *trail):
    cdef int64_t i
    cdef list parts = []
    for i in range(trail.depth - 1, -1, -1):
        name = <object>trail.places[i].op.name
        index = trail.places[i].index
        parts.append(name if index < 0 else f"{name}[{index}]")
    return ".".join(parts)


cdef tuple describe_fault(Cursor *c):
    """Return the class of a DecodeError and its reason."""
    if c.fault == FAULT_SHORT:
        return Truncated, f"needs {c.needed} bytes, {c.left} left"
    if c.fault == FAULT_COUNT:
        return Malformed, f"claims {c.needed} elements, more than the {c.left} bytes left can hold"
    if c.fault == FAULT_NULL:
        return Malformed, "is null, which it may not be in this version"
    if c.fault == FAULT_VARINT:
        return Malformed, "holds a varint of more than 5 bytes"
    if c.fault == FAULT_LENGTH:
        return Malformed, f"claims a string of {c.needed} bytes, more than the 32767 that Kafka allows"
    if c.fault == FAULT_TAG_SIZE:
        return Malformed, f"is a tagged field of {c.needed} bytes and leaves {c.left} of them over"
    return DecodeError, "cannot be read"
