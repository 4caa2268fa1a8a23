# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""JSON with the values at some paths hidden: all other bytes stay, as do order and duplicates. Or where these values are.

Compiled, as it looks at every byte of every record that is fetched. It reads the text once, from left to right, by the grammar of
RFC 8259: where no path leads it only finds the end of a value, with a byte for each level of nesting, and where one does it goes
down as many calls as the path has steps. Of members with the same name all are hidden, as clients may take any of them.
"""

from collections.abc import Sequence
from json import loads
from typing import TYPE_CHECKING

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy, memset

from kproxy.protocol.records.in_place cimport Editor
from kproxy.protocol.wire cimport Buffer, put, put8

if TYPE_CHECKING:
    from kproxy.filters import mask

cdef extern from *:
    int first_bit "__builtin_ctzll"(unsigned long long) noexcept nogil

cdef enum:
    LEAF = -1  # of mask.py
    NOTHING = -2  # in place of a state: nothing is looked for
    BROKEN = 0
    READ = 1
    HIDDEN = 2  # it was read, and no path goes on in it, though one leads to it: the field may be in it
    MOST_MARKED = 1 << 23  # bytes of all marks of a text: more than 100,000

cdef uint64_t ONES = 0x0101010101010101
cdef uint64_t HIGH = 0x8080808080808080


cdef struct Name:
    const uint8_t *text
    size_t size
    int leads_to


cdef struct Index:
    int64_t number
    int leads_to


cdef struct State:
    Name *names  # by size, then by bytes
    Index *indexes  # ascending
    int name_count
    int index_count
    int every  # for all others


cdef struct Step:
    int64_t at  # of a name; -1: an index
    int64_t size  # of the name; the index


cdef struct Text:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *limit
    const uint8_t *copied  # what is before this is in *out*, or left out
    Buffer *out
    Buffer levels  # of a value that is skipped: '{' or '[' each
    Buffer name  # without its escapes
    State *states
    const uint8_t *replacement
    size_t replacement_size
    bint removes
    bint is_changed
    Buffer *marks  # where nothing is hidden: see JsonFields
    bint is_strict
    Buffer steps  # Step: those that led to the value that is read, if there are marks
    const uint8_t *name_at  # of the last member that was read, with its escapes
    size_t name_size
    bint any_words  # NaN, Infinity and -Infinity are numbers
    bint any_bytes  # bytes that are not UTF-8 are let pass


cdef class JsonMask(Editor):
    """Hides the values at the paths of an automaton.

    Args:
        states: of ``mask.parse_paths``.
        replacement: JSON that stands in place of each value; None: the member is removed, of an array it becomes null.
        blanks: what is no JSON, or a scalar, becomes empty. Else it stays as it is, and JSON with bytes that are not UTF-8 is
            masked as well.

    A path goes on in an object or array. Where something else stands, all of it is hidden, but null and what is empty.
    """

    cdef State *states
    cdef int state_count
    cdef list kept  # what the pointers point to
    cdef const uint8_t *replacement
    cdef size_t replacement_size
    cdef bint removes
    cdef bint blanks

    def __init__(self, states: Sequence[mask.State], replacement: bytes | None, blanks: bool = False):
        cdef bytes written = b"null" if replacement is None else replacement
        self.kept = [written]
        self.replacement = <const uint8_t *>PyBytes_AS_STRING(written)
        self.replacement_size = PyBytes_GET_SIZE(written)
        self.removes = replacement is None
        self.blanks = blanks
        self.states = <State *>calloc(len(states), sizeof(State))
        if self.states == NULL:
            raise MemoryError
        self.state_count = len(states)
        for number, state in enumerate(states):
            self.fill(&self.states[<int>number], state)

    cdef int fill(self, State *state, object source) except -1:
        cdef int at
        cdef bytes text
        names = sorted(
            ((name.encode("utf-8", "surrogatepass"), leads_to) for name, leads_to in source.names.items()),
            key=lambda each: (len(each[0]), each[0]),
        )
        indexes = sorted(source.indexes.items())
        state.every = NOTHING if source.every is None else source.every
        state.names = <Name *>calloc(max(len(names), 1), sizeof(Name))
        state.indexes = <Index *>calloc(max(len(indexes), 1), sizeof(Index))
        if state.names == NULL or state.indexes == NULL:
            raise MemoryError
        for at in range(len(names)):
            text = names[at][0]
            self.kept.append(text)
            state.names[at].text = <const uint8_t *>PyBytes_AS_STRING(text)
            state.names[at].size = PyBytes_GET_SIZE(text)
            state.names[at].leads_to = names[at][1]
        state.name_count = len(names)
        for at in range(len(indexes)):
            state.indexes[at].number = indexes[at][0]
            state.indexes[at].leads_to = indexes[at][1]
        state.index_count = len(indexes)
        return 0

    def __dealloc__(self):
        cdef int at
        if self.states != NULL:
            for at in range(self.state_count):
                free(self.states[at].names)
                free(self.states[at].indexes)
            free(self.states)

    cdef int edit(self, const uint8_t *data, size_t size, Buffer *out) except -1 nogil:
        cdef Text t
        cdef int status
        if size == 0 or self.states == NULL:
            return 0
        memset(&t, 0, sizeof(Text))
        t.at = t.copied = data
        t.limit = data + size
        t.out = out
        t.states = self.states
        t.replacement = self.replacement
        t.replacement_size = self.replacement_size
        t.removes = self.removes
        t.any_bytes = not self.blanks
        try:
            status = read_document(&t)
            if status == BROKEN:
                out.size = 0
                return self.blanks
            if t.is_changed:
                put(out, t.copied, t.limit - t.copied)
            return t.is_changed
        finally:
            free(t.levels.data)
            free(t.name.data)


cdef class JsonFields(JsonMask):
    """Finds the values at the paths of an automaton, and hides nothing.

    Args:
        states: of ``mask.parse_paths``.
        is_strict: it also finds what a path cannot go on in.
    """

    cdef bint is_strict

    def __init__(self, states: Sequence[mask.State], bint is_strict=False):
        JsonMask.__init__(self, states, b"", True)
        self.is_strict = is_strict

    def found(self, bytes data not None) -> list[tuple[int, int, tuple[str | int, ...]]] | None:
        """Return where each value begins and ends, and its place: names and indexes; None if it is no object or array of JSON.

        A strict one also returns where something else stands than the object or array that a path goes on in: it ends where it
        begins. null, and an empty object or array, have nothing in them.

        NaN, Infinity and -Infinity are numbers, as programs write and read them. Raises OverflowError for too many.
        """
        cdef Text t
        cdef Buffer marks
        memset(&t, 0, sizeof(Text))
        memset(&marks, 0, sizeof(Buffer))
        t.start = t.at = <const uint8_t *>PyBytes_AS_STRING(data)
        t.limit = t.at + PyBytes_GET_SIZE(data)
        t.states = self.states
        t.marks = &marks
        t.is_strict = self.is_strict
        t.any_words = True
        try:
            return None if read_document(&t) == BROKEN or not is_container(&t) else listed(data, &marks)
        finally:
            free(t.levels.data)
            free(t.name.data)
            free(t.steps.data)
            free(marks.data)


cdef bint is_container(Text *t) noexcept nogil:
    """Return whether the text, which was read, ends as an object or array does."""
    cdef const uint8_t *at = t.limit - 1
    while at > t.start and at[0] in (c" ", c"\n", c"\r", c"\t"):
        at -= 1
    return at[0] == c"}" or at[0] == c"]"


cdef list listed(bytes data, Buffer *marks):
    """Return what ``mark`` has noted."""
    cdef list found = []
    cdef list place
    cdef const int64_t *mark = <const int64_t *>marks.data
    cdef const int64_t *end = mark + marks.size // sizeof(int64_t)
    cdef const Step *step
    cdef int64_t number
    while mark < end:
        step = <const Step *>(mark + 3)
        place = []
        for number in range(mark[2]):
            place.append(step[number].size if step[number].at < 0 else name_of(data, &step[number]))
        found.append((mark[0], mark[1], tuple(place)))
        mark = <const int64_t *>(step + mark[2])
    return found


cdef str name_of(bytes data, const Step *step):
    cdef const char *at = PyBytes_AS_STRING(data) + step.at
    if memchr(at, c"\\", step.size) == NULL:
        return PyUnicode_DecodeUTF8(at, step.size, NULL)
    return loads(data[step.at - 1 : step.at + step.size + 1])


cdef int mark(Text *t, const uint8_t *start, const uint8_t *end) except -1 nogil:
    """Note a value: where it begins and ends, and the steps to it. Raises OverflowError for too many."""
    cdef int64_t[3] head
    if t.marks.size > MOST_MARKED:
        with gil:
            raise OverflowError("too many values to be found")
    head[0] = start - t.start
    head[1] = end - t.start
    head[2] = t.steps.size // sizeof(Step)
    put(t.marks, &head, sizeof(head))
    return put(t.marks, t.steps.data, t.steps.size)


cdef int add_step(Text *t, int64_t at, int64_t size) except -1 nogil:
    cdef Step step
    step.at = at
    step.size = size
    return put(&t.steps, &step, sizeof(Step))


cdef int read_document(Text *t) except -1 nogil:
    """Read all of the text, behind a byte order mark, if there is one (RFC 8259, 8.1)."""
    cdef const uint8_t *start
    cdef int status
    if t.limit - t.at >= 3 and t.at[0] == 0xEF and t.at[1] == 0xBB and t.at[2] == 0xBF:
        t.at += 3
    skip_space(t)
    start = t.at
    status = read_value(t, 0)
    if status == BROKEN or (status == HIDDEN and start[0] != c"{" and start[0] != c"["):  # a scalar has no fields
        return BROKEN
    if status == HIDDEN:
        hide(t, start, t.at, True)
    skip_space(t)
    return READ if t.at == t.limit else BROKEN


cdef int read_value(Text *t, int state) except -1 nogil:
    """Read a value, and hide what the state leads to; HIDDEN if all of it has to be, as no path goes on in it."""
    cdef State *known = &t.states[state]
    if not goes_on(t, known):
        if t.marks == NULL:
            return BROKEN if skip_value(t) == BROKEN else HIDDEN
        if t.is_strict:
            mark(t, t.at, t.at)
    if take(t, c"{"):
        skip_space(t)
        return read_object(t, known)
    if take(t, c"["):
        skip_space(t)
        return read_array(t, known)
    return skip_scalar(t)


cdef bint goes_on(Text *t, State *known) noexcept nogil:
    """Return whether a value is what paths go on in, or has nothing in it: null, an empty object or array."""
    cdef const uint8_t *start = t.at
    cdef bint is_empty
    if t.at == t.limit or t.at[0] == c"n":
        return True
    if t.at[0] != c"{" and t.at[0] != c"[":
        return False
    if known.every != NOTHING or (known.name_count if t.at[0] == c"{" else known.index_count):
        return True
    t.at += 1
    skip_space(t)
    is_empty = t.at < t.limit and t.at[0] == start[0] + 2  # } is two behind {, and ] behind [
    t.at = start
    return is_empty


cdef int read_object(Text *t, State *state) except -1 nogil:
    """Read the members behind a brace and spaces."""
    cdef const uint8_t *comma = NULL  # before the member
    cdef const uint8_t *member
    cdef const uint8_t *start
    cdef const uint8_t *end
    cdef int leads_to, status
    cdef bint is_hidden
    cdef bint has_kept = False  # a member before it stays
    if take(t, c"}"):
        return READ
    while True:
        member = t.at
        leads_to = read_name(t, state)
        if leads_to == -3:
            return BROKEN
        start = t.at
        if t.marks != NULL and leads_to != NOTHING:
            add_step(t, t.name_at - t.start, t.name_size)
        status = read_value(t, leads_to) if leads_to >= 0 else skip_value(t)
        if status == BROKEN:
            return BROKEN
        is_hidden = leads_to == LEAF or status == HIDDEN
        end = t.at
        skip_space(t)
        if is_hidden and not t.removes:
            hide(t, start, end, True)
        elif is_hidden and has_kept:
            hide(t, comma, end, False)
        if t.marks != NULL and leads_to != NOTHING:
            t.steps.size -= sizeof(Step)
        comma = t.at
        if not take(t, c","):
            if is_hidden and t.removes and not has_kept:
                hide(t, member, end, False)
            return READ if take(t, c"}") else BROKEN
        skip_space(t)
        if is_hidden and t.removes:
            if not has_kept:
                hide(t, member, t.at, False)
        else:
            has_kept = True


cdef int read_name(Text *t, State *state) except -4 nogil:
    """Read a name and its colon, up to the value; where the name leads, or -3 where that is not what stands there."""
    cdef const uint8_t *start = t.at + 1
    cdef const uint8_t *end
    cdef bint has_escapes = False
    if not take(t, c'"') or skip_string(t, &has_escapes) == BROKEN:
        return -3
    end = t.at - 1
    t.name_at = start
    t.name_size = end - start
    skip_space(t)
    if not take(t, c":"):
        return -3
    skip_space(t)
    if state == NULL:
        return NOTHING
    if state.name_count == 0:
        return state.every
    if not has_escapes:
        return leads(state, start, end - start)
    unescape(t, start, end)
    return leads(state, t.name.data, t.name.size)


cdef inline int leads(State *state, const uint8_t *name, size_t size) noexcept nogil:
    cdef int low = 0
    cdef int high = state.name_count
    cdef int middle, order
    cdef Name *found
    while low < high:
        middle = (low + high) // 2
        found = &state.names[middle]
        if found.size == size:
            order = memcmp(found.text, name, size) if size else 0
        else:
            order = -1 if found.size < size else 1
        if order == 0:
            return found.leads_to
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return state.every


cdef int read_array(Text *t, State *state) except -1 nogil:
    """Read the elements behind a bracket and spaces."""
    cdef const uint8_t *start
    cdef int64_t number = 0
    cdef int next_index = 0
    cdef int leads_to, status
    if take(t, c"]"):
        return READ
    while True:
        leads_to = state.every
        if next_index < state.index_count and state.indexes[next_index].number == number:
            leads_to = state.indexes[next_index].leads_to
            next_index += 1
        start = t.at
        if t.marks != NULL and leads_to != NOTHING:
            add_step(t, -1, number)
        status = read_value(t, leads_to) if leads_to >= 0 else skip_value(t)
        if status == BROKEN:
            return BROKEN
        if leads_to == LEAF or status == HIDDEN:
            hide(t, start, t.at, True)
        if t.marks != NULL and leads_to != NOTHING:
            t.steps.size -= sizeof(Step)
        number += 1
        skip_space(t)
        if not take(t, c","):
            return READ if take(t, c"]") else BROKEN
        skip_space(t)


cdef int hide(Text *t, const uint8_t *start, const uint8_t *end, bint replaces) except -1 nogil:
    """Leave bytes out, or put the replacement in their place. What is before them was copied at most up to *start*."""
    if t.marks != NULL:
        return mark(t, start, end)
    put(t.out, t.copied, start - t.copied)
    if replaces:
        put(t.out, t.replacement, t.replacement_size)
    t.copied = end
    t.is_changed = True
    return 0


cdef int skip_value(Text *t) except -1 nogil:
    """Find the end of a value in which nothing is looked for, at any depth."""
    cdef uint8_t close
    t.levels.size = 0
    while True:
        if t.at < t.limit and (t.at[0] == c"{" or t.at[0] == c"["):
            put8(&t.levels, t.at[0])
            close = t.at[0] + 2  # } is two behind {, and ] behind [
            t.at += 1
            skip_space(t)
            if not take(t, close):
                if close == c"}" and read_name(t, NULL) == -3:
                    return BROKEN
                continue
            t.levels.size -= 1
        elif skip_scalar(t) == BROKEN:
            return BROKEN
        while t.levels.size:
            skip_space(t)
            close = t.levels.data[t.levels.size - 1] + 2
            if not take(t, close):
                break
            t.levels.size -= 1
        if t.levels.size == 0:
            return READ
        if not take(t, c","):
            return BROKEN
        skip_space(t)
        if close == c"}" and read_name(t, NULL) == -3:
            return BROKEN


cdef int skip_scalar(Text *t) noexcept nogil:
    if t.at == t.limit:
        return BROKEN
    if take(t, c'"'):
        return skip_string(t, NULL)
    if t.at[0] == c"t":
        return skip_word(t, b"true", 4)
    if t.at[0] == c"f":
        return skip_word(t, b"false", 5)
    if t.at[0] == c"n":
        return skip_word(t, b"null", 4)
    if t.any_words and t.at[0] == c"N":
        return skip_word(t, b"NaN", 3)
    return skip_number(t)


cdef inline int skip_word(Text *t, const char *word, size_t size) noexcept nogil:
    if <size_t>(t.limit - t.at) < size or memcmp(t.at, word, size) != 0:
        return BROKEN
    t.at += size
    return READ


cdef inline int skip_number(Text *t) noexcept nogil:
    take(t, c"-")
    if t.any_words and skip_word(t, b"Infinity", 8) == READ:
        return READ
    if not take(t, c"0") and skip_digits(t) == BROKEN:
        return BROKEN
    if take(t, c".") and skip_digits(t) == BROKEN:
        return BROKEN
    if take(t, c"e") or take(t, c"E"):
        if not take(t, c"+"):
            take(t, c"-")
        return skip_digits(t)
    return READ


cdef inline int skip_digits(Text *t) noexcept nogil:
    cdef const uint8_t *start = t.at
    while t.at < t.limit and c"0" <= t.at[0] <= c"9":
        t.at += 1
    return READ if t.at > start else BROKEN


cdef int skip_string(Text *t, bint *has_escapes) noexcept nogil:
    """Find the end of a string behind its quote."""
    cdef uint64_t word, quotes, escapes, marks
    cdef const uint8_t *at = t.at
    cdef int size
    while True:
        while t.limit - at >= 8:  # eight bytes at once, up to the first that is not plain
            memcpy(&word, at, 8)
            quotes = word ^ (ONES * c'"')
            escapes = word ^ (ONES * c"\\")
            marks = (quotes - ONES) & ~quotes | (escapes - ONES) & ~escapes | (word - ONES * 0x20) & ~word | word
            marks &= HIGH
            if marks:
                at += first_bit(marks) >> 3
                break
            at += 8
        if at >= t.limit:
            return BROKEN
        if at[0] == c'"':
            t.at = at + 1
            return READ
        if at[0] == c"\\":
            if has_escapes != NULL:
                has_escapes[0] = True
            size = escape_size(at, t.limit)
        elif at[0] < 0x20:
            return BROKEN
        elif at[0] < 0x80 or t.any_bytes:
            size = 1
        else:
            size = character_size(at, t.limit)
        if size == 0:
            return BROKEN
        at += size


cdef inline int escape_size(const uint8_t *at, const uint8_t *limit) noexcept nogil:
    """The bytes of an escape; 0: there is no such escape."""
    cdef uint32_t code
    if limit - at < 2:
        return 0
    if at[1] == c"u":
        return 6 if read_code(at, limit, &code) else 0
    if at[1] in (c'"', c"\\", c"/", c"b", c"f", c"n", c"r", c"t"):
        return 2
    return 0


cdef inline int read_code(const uint8_t *at, const uint8_t *limit, uint32_t *code) noexcept nogil:
    """Read an escape of four hexadecimal digits."""
    cdef int place
    cdef uint8_t digit
    code[0] = 0
    if limit - at < 6 or at[0] != c"\\" or at[1] != c"u":
        return BROKEN
    for place in range(2, 6):
        digit = at[place]
        if c"0" <= digit <= c"9":
            digit -= c"0"
        elif c"a" <= digit | 0x20 <= c"f":
            digit = (digit | 0x20) - c"a" + 10
        else:
            return BROKEN
        code[0] = code[0] << 4 | digit
    return READ


cdef inline int character_size(const uint8_t *at, const uint8_t *limit) noexcept nogil:
    """The bytes of a character of UTF-8 that is not ASCII (RFC 3629, 4); 0: there is none."""
    cdef uint8_t first = at[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xBF
    cdef int size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    cdef int place
    if not 0xC2 <= first <= 0xF4 or limit - at < size:
        return 0
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    if not low <= at[1] <= high:
        return 0
    for place in range(2, size):
        if at[place] & 0xC0 != 0x80:
            return 0
    return size


cdef int unescape(Text *t, const uint8_t *at, const uint8_t *end) except -1 nogil:
    """Put a name without its escapes into ``name``; a surrogate without its other half is three bytes, as one in a path."""
    cdef uint32_t code, other
    t.name.size = 0
    while at < end:
        if at[0] != c"\\":
            put8(&t.name, at[0])
            at += 1
        elif at[1] != c"u":
            put8(&t.name, plain_of(at[1]))
            at += 2
        else:
            read_code(at, end, &code)
            at += 6
            if 0xD800 <= code < 0xDC00 and read_code(at, end, &other) and 0xDC00 <= other < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + (other - 0xDC00)
                at += 6
            put_character(&t.name, code)
    return 0


cdef inline uint8_t plain_of(uint8_t escape) noexcept nogil:
    if escape == c"b":
        return 0x08
    if escape == c"f":
        return 0x0C
    if escape == c"n":
        return 0x0A
    if escape == c"r":
        return 0x0D
    if escape == c"t":
        return 0x09
    return escape


cdef int put_character(Buffer *out, uint32_t code) except -1 nogil:
    if code < 0x80:
        return put8(out, <uint8_t>code)
    if code < 0x800:
        put8(out, <uint8_t>(0xC0 | code >> 6))
    else:
        if code < 0x10000:
            put8(out, <uint8_t>(0xE0 | code >> 12))
        else:
            put8(out, <uint8_t>(0xF0 | code >> 18))
            put8(out, <uint8_t>(0x80 | code >> 12 & 0x3F))
        put8(out, <uint8_t>(0x80 | code >> 6 & 0x3F))
    return put8(out, <uint8_t>(0x80 | code & 0x3F))


cdef inline void skip_space(Text *t) noexcept nogil:
    while t.at < t.limit and (t.at[0] == c" " or t.at[0] == c"\n" or t.at[0] == c"\r" or t.at[0] == c"\t"):
        t.at += 1


cdef inline bint take(Text *t, uint8_t byte) noexcept nogil:
    """Go past a byte, if it is that one."""
    if t.at == t.limit or t.at[0] != byte:
        return False
    t.at += 1
    return True
