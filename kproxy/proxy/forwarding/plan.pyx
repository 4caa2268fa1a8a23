# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Plan: what a lane does with an API at a version. Walker: finds a field in a body that passes in pieces and is not kept.

A Plan is made once for a configuration, from the chain of filters and the facts, and shared by all links of a virtual cluster.

A walk follows the same tables as kproxy.protocol.program. It remembers where it is, not what it saw, and checks only what it needs to
find its way: a size is believed and skipped, as the bytes are forwarded in any case. Every turn of its loop uses a byte or ends, and
frames have an end, so no count in a frame can hold it up. A number that is split between two pieces is put together in
``Walker.value``. Lanes walk to a Produce request's acks, and in responses to the end of the addresses (a head) or to the first
address (a tail).
"""

from collections.abc import Container, Iterable
from typing import Protocol

from libc.stdint cimport int8_t, int16_t
from libc.stdlib cimport calloc, free

from kproxy.protocol.direction cimport DIRECTION_RESPONSE
from kproxy.protocol.program cimport (
    KIND_STRING, Op, Program, STEP_FIXED_ARRAY, STEP_SIZED, STEP_SIZED_ARRAY, STEP_SKIP, STEP_STRUCT, Step,
)

from kproxy.filters.addresses import ends_with_addresses, head_end, responses_with_addresses, tail_start
from kproxy.filters.contract import Want
from kproxy.protocol import ApiKey, Direction, facts, message, request_header_version, response_header_version

cdef int PRODUCE = ApiKey.PRODUCE
cdef int HOLD = Want.HOLD
cdef set LEARNED = {  # sessions need their names, software and logins to read other frames
    ApiKey.API_VERSIONS, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP,
    ApiKey.METADATA, ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE,
}


class Wanting(Protocol):
    """What a plan asks of kproxy.filters.Chain."""

    def wanted(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """Return what the filters want of frames of an API at a version."""

    def wanted_unkept(self, api_key: int, api_version: int) -> Want:
        """Return what the filters want of a response to whose request they gave no RequestFacts."""

    def unknown(self, direction: Direction, api_key: int) -> Want:
        """Return what the filters want of frames of an API that kproxy does not know."""

    def looks_at_topics(self, direction: Direction, api_key: int, api_version: int) -> bool:
        """Return whether LinkOwner.on_beginning is asked about the frames that filters want held."""


cdef class Plan:
    """What lanes do with frames of each API and version, made of a chain of filters and the facts.

    Args:
        chain: kproxy.filters.Chain; None: every frame is cut through.
        tapped: API keys whose frames the tap gets; None: all.
        snaplen: bytes of a frame that the tap gets; 0: all.
    """

    def __cinit__(
        self, chain: Wanting | None = None, tapped: Container[int] | None = None, unsigned int snaplen=0,
    ) -> Self:
        cdef Row *next_rows
        self.chain = chain
        self.programs = []
        self.snaplen = snaplen
        self.selective = tapped is not None or snaplen > 0
        self.unknown.tapped = tapped is None
        apis = {key: message(f"{api.name}Request").versions for key, api in facts().apis.items() if key < PLAN_KEYS}
        counts = {key: min(versions.highest + 1, PLAN_VERSIONS) for key, versions in apis.items()}
        self.rows = <Row *>calloc(sum(counts.values()), sizeof(Row))
        if self.rows == NULL:
            raise MemoryError
        next_rows = self.rows
        for key, versions in apis.items():
            self.of[key] = next_rows
            self.counts[key] = counts[key]
            next_rows += self.counts[key]
            self._fill(key, versions, chain, tapped is None or key in tapped)

    def __dealloc__(self) -> None:
        free(self.rows)

    cdef int _fill(self, int key, object versions, object chain, bint tapped) except -1:
        """Fill the rows of an API: of each version that the facts have, and of versions above them."""
        cdef Row *row
        cdef int version
        name = facts().apis[key].name
        self.above[key].tapped = tapped
        self.above[key].learned = key in LEARNED
        for version in range(self.counts[key]):
            if version not in versions:
                continue
            row = &self.of[key][version]
            row.known = True
            row.tapped = tapped
            row.learned = key in LEARNED
            row.header_tags = response_header_version(key, version) > 0
            if chain is not None:
                row.want_request = chain.wanted(Direction.REQUEST, key, version)
                row.want_response = chain.wanted(Direction.RESPONSE, key, version)
                row.want_unkept = chain.wanted_unkept(key, version)
                row.topics_decide_request = row.want_request == HOLD and chain.looks_at_topics(Direction.REQUEST, key, version)
                row.topics_decide_response = row.want_response == HOLD and chain.looks_at_topics(Direction.RESPONSE, key, version)
                if (key, version) in responses_with_addresses():
                    self._fill_part(row, key, f"{name}Response", version)
            if key == PRODUCE:
                self._fill_produce(version)
        if chain is not None:
            self.above[key].want_request = chain.unknown(Direction.REQUEST, key)
            self.above[key].want_response = self.above[key].want_unkept = chain.unknown(Direction.RESPONSE, key)

    cdef Program _program(self, str name, int version):
        program = message(name).programs(version)[0]
        self.programs.append(program)
        return program

    cdef int _fill_part(self, Row *row, int key, str name, int version) except -1:
        """Note where the head of a response ends, or where its tail begins."""
        cdef Program program
        if head_end(key, version) is not None:
            program = self._program(name, version)
            row.head = program.root
            row.head_stop = stop_of(program, head_end(key, version))
        elif ends_with_addresses(key, version):
            program = self._program(name, version)
            row.tail = program.root
            row.tail_stop = stop_of(program, tail_start(key, version))
        return 0

    cdef int _fill_produce(self, int version) except -1:
        cdef Program program = self._program("ProduceRequest", version)
        self.produce[version] = program.root
        self.produce_stop[version] = stop_of(program, "acks")
        self.produce_tags[version] = request_header_version(PRODUCE, version) > 1

    def wanted(self, int direction, int api_key, int api_version) -> Want:
        """Return what lanes do with frames of an API at a version."""
        cdef Row *row = self.row(api_key, api_version)
        return Want(row.want_response if direction == DIRECTION_RESPONSE else row.want_request)

    cdef Row *row(self, int api_key, int api_version) noexcept nogil:
        """Return the row of an API at a version; there is one for everything unknown, too."""
        if not 0 <= api_key < PLAN_KEYS or self.of[api_key] == NULL:
            return &self.unknown
        if 0 <= api_version < self.counts[api_key] and self.of[api_key][api_version].known:
            return &self.of[api_key][api_version]
        return &self.above[api_key]


cdef enum Purpose:
    FOR_SIZE = 0  # of a string, bytes or records
    FOR_ELEMENT = 1  # the size of one in an array
    FOR_COUNT = 2
    FOR_PRESENCE = 3
    FOR_TAG_COUNT = 4
    FOR_TAG = 5
    FOR_TAG_SIZE = 6
    FOR_CLIENT_ID = 7
    FOR_CLIENT_ID_THEN_TAGS = 8
    FOR_INT16 = 9

cdef enum:
    VARINT = -1


cdef void begin_walk(Walker *w, Struct *body, int stop, bint client_id, bint header_tags, bint reads_int16) noexcept nogil:
    """Begin a walk after the correlation id of a header; *client_id*, *header_tags*: whether the header still has these."""
    w.depth = 1
    w.levels[0].s = body
    w.levels[0].step = 0
    w.levels[0].in_tags = False
    w.levels[0].elements = 1
    w.stop = stop
    w.skip = 0
    w.left = 0
    w.wanted = 0
    w.reads_int16 = reads_int16
    if client_id:
        want(w, 2, FOR_CLIENT_ID_THEN_TAGS if header_tags else FOR_CLIENT_ID)
    elif header_tags:
        want(w, VARINT, FOR_TAG_COUNT)


cdef inline void want(Walker *w, int size, int purpose) noexcept nogil:
    """Read a number next: of *size* bytes, or a VARINT."""
    w.wanted = size
    w.purpose = purpose
    w.have = 0
    w.value = 0


cdef inline void want_size(Walker *w, Op *op, int purpose) noexcept nogil:
    want(w, VARINT if op.compact else 2 if op.kind == KIND_STRING and purpose != FOR_COUNT else 4, purpose)


cdef int walk_on(Walker *w, const uint8_t **at, const uint8_t *limit) noexcept nogil:
    """Walk as far as the bytes reach, and move *at* there. Returns one of Walked."""
    cdef uint64_t here
    cdef int done
    while True:
        if w.skip:
            here = limit - at[0]
            if w.skip < here:
                here = w.skip
            at[0] += here
            w.skip -= here
            if w.skip:
                return WALK_MORE
        if w.wanted:
            done = read_number(w, at, limit)
            if done == WALK_DONE:
                w.wanted = 0
                done = use(w)
            elif done == WALK_MORE:
                return WALK_MORE
            if done != WALK_MORE:
                return done
            continue
        done = step_on(w)
        if done != WALK_MORE:
            return done


cdef inline int read_number(Walker *w, const uint8_t **at, const uint8_t *limit) noexcept nogil:
    """Read the wanted number as far as the bytes reach. Return WALK_DONE, WALK_MORE or WALK_FAULT."""
    cdef uint8_t byte
    while at[0] < limit:
        byte = at[0][0]
        at[0] += 1
        if w.wanted == VARINT:
            w.value |= <uint32_t>(byte & 0x7F) << w.have
            if byte < 0x80:
                return WALK_DONE
            w.have += 7
            if w.have > 28:
                return WALK_FAULT
        else:
            w.value = w.value << 8 | byte
            w.have += 1
            if w.have == w.wanted:
                return WALK_DONE
    return WALK_MORE


cdef inline int64_t sized(Walker *w, Op *op) noexcept nogil:
    """Return the number that was read, as a length or count; a negative one means null."""
    if op.compact:
        return <int64_t><int32_t>(w.value - 1)
    if w.have == 2:
        return <int16_t>w.value
    return <int32_t>w.value


cdef int use(Walker *w) noexcept nogil:
    """Use the number that was read: skip so many bytes, enter an array or struct, or stop."""
    cdef Level *level = &w.levels[w.depth - 1]
    cdef Step *step
    cdef int64_t n
    if w.purpose == FOR_CLIENT_ID or w.purpose == FOR_CLIENT_ID_THEN_TAGS:
        if <int16_t>w.value > 0:
            w.skip = w.value
        if w.purpose == FOR_CLIENT_ID_THEN_TAGS:
            want(w, VARINT, FOR_TAG_COUNT)
        return WALK_MORE
    if w.purpose == FOR_INT16:
        return WALK_STOPPED
    if w.purpose == FOR_TAG_COUNT:
        w.left = w.value
        w.left_are_tags = True
        return WALK_MORE
    if w.purpose == FOR_TAG:
        want(w, VARINT, FOR_TAG_SIZE)
        return WALK_MORE
    if w.purpose == FOR_TAG_SIZE:
        w.left -= 1
        w.skip = w.value
        return WALK_MORE
    step = &level.s.steps[level.step]
    if w.purpose == FOR_PRESENCE:
        level.step += 1
        return push(w, step.op.struct, 1) if <int8_t>w.value >= 0 else WALK_MORE
    n = sized(w, step.op)
    if w.purpose == FOR_COUNT:
        return use_count(w, level, step, n)
    if w.purpose == FOR_ELEMENT:
        w.left -= 1
        if w.left == 0:
            level.step += 1
    else:
        level.step += 1
    if n > 0:
        w.skip = n
    return WALK_MORE


cdef int use_count(Walker *w, Level *level, Step *step, int64_t count) noexcept nogil:
    """Go into an array of *count* elements, or skip it where its elements have a fixed size."""
    if count <= 0:
        level.step += 1
        return WALK_MORE
    if step.kind == STEP_SIZED_ARRAY:
        w.left = count
        w.left_are_tags = False
        return WALK_MORE
    level.step += 1
    if step.kind == STEP_FIXED_ARRAY:
        w.skip = count * step.size
        return WALK_MORE
    return push(w, step.op.struct, count)


cdef int push(Walker *w, Struct *s, int64_t elements) noexcept nogil:
    """Go into a struct, the first of so many elements."""
    cdef Level *level
    if w.depth == MOST_LEVELS:
        return WALK_FAULT
    level = &w.levels[w.depth]
    level.s = s
    level.step = 0
    level.in_tags = False
    level.elements = elements
    w.depth += 1
    return WALK_MORE


cdef int step_on(Walker *w) noexcept nogil:
    """Choose what to read next; uses no byte."""
    cdef Level *level = &w.levels[w.depth - 1]
    cdef Step *step
    if w.left:
        if w.left_are_tags:
            want(w, VARINT, FOR_TAG)
        else:
            want_size(w, level.s.steps[level.step].op, FOR_ELEMENT)
        return WALK_MORE
    if level.step < level.s.step_count and not level.in_tags:
        if w.depth == 1 and level.step == w.stop:
            if not w.reads_int16:
                return WALK_STOPPED
            want(w, 2, FOR_INT16)
            return WALK_MORE
        step = &level.s.steps[level.step]
        if step.kind == STEP_SKIP:
            w.skip = step.size
            level.step += 1
        elif step.kind == STEP_SIZED:
            want_size(w, step.op, FOR_SIZE)
        elif step.kind != STEP_STRUCT:
            want_size(w, step.op, FOR_COUNT)
        elif step.op.nullable:
            want(w, 1, FOR_PRESENCE)
        else:
            level.step += 1
            return push(w, step.op.struct, 1)
        return WALK_MORE
    if level.s.flexible and not level.in_tags:
        if w.depth == 1 and w.stop == STOP_AT_TAGS:
            return WALK_STOPPED
        level.in_tags = True
        want(w, VARINT, FOR_TAG_COUNT)
        return WALK_MORE
    return next_element(w, level)


cdef int next_element(Walker *w, Level *level) noexcept nogil:
    """Go on to the next element of an array, or back to the struct around it."""
    level.elements -= 1
    if level.elements > 0:
        level.step = 0
        level.in_tags = False
        return WALK_MORE
    w.depth -= 1
    return WALK_DONE if w.depth == 0 else WALK_MORE


def stop_of(Program program not None, name: str | None) -> int:
    """Return the top-level step that reads the untagged field *name* (Kafka's JSON name); None: the tags. Raises KeyError."""
    cdef int i
    if name is None:
        return STOP_AT_TAGS
    for i in range(program.root.step_count):
        if <object>program.root.steps[i].op.name == name:
            return i
    raise KeyError(name)


def walk_in_pieces(
    Program program not None, stop: str | None, pieces: Iterable[bytes], bint client_id=False, bint header_tags=False,
) -> tuple[str, int]:
    """Walk over *pieces* (bytes) as a lane does, for Python; return (how it ended, bytes it used)."""
    cdef Walker w
    cdef const uint8_t *at
    cdef const uint8_t *start
    cdef bytes piece
    cdef int done = WALK_MORE
    used = 0
    begin_walk(&w, program.root, stop_of(program, stop), client_id, header_tags, False)
    for piece in pieces:
        start = at = <const uint8_t *><char *>piece
        done = walk_on(&w, &at, start + len(piece))
        used += at - start
        if done != WALK_MORE:
            break
    return ("more", "stopped", "done", "fault")[done], used
