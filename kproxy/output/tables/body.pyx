# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Body: what rows need of a body, found by one walk over its bytes; no object or text is made for a field.

    Body.read         walks over the body of a frame: error codes, names, topic ids, partitions, fields at its top
    read_body         the same for a new Body
    put_...           write what was found into columns, from the bytes
    Body.errors       walks once more over a body that has error codes: what each of them is about
    Body.struct       the object, decoded when it is first asked for: by group events that have a row

Which fields are searched is found in the facts once for each layout (kproxy.output.tables.layouts), and kept beside its operations
(Plan). What a Body found points into the frame's bytes, and is overwritten by its next ``read``. A line of a decoded log has no
bytes: its JSON is encoded for the walk.
"""

from collections.abc import Mapping  # no-cython-lint
from typing import TYPE_CHECKING

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, uint32_t
from libc.stdlib cimport free, qsort
from libc.string cimport memcmp, memset

from kproxy.output.tables.columns cimport Column
from kproxy.protocol.found cimport add_error_code, error_codes_in, is_zero, read_tag
from kproxy.protocol.json_sink cimport put_int, put_word, uuid_text
from kproxy.protocol.object_codec cimport decode as decode_object
from kproxy.protocol.program cimport (
    begin, integer_at, KIND_BOOL, KIND_INT64, KIND_STRUCT, read_count, read_element_size, read_presence,
    read_size, slice_start, Struct, walk_struct, walk_tags, walk_value,
)
from kproxy.protocol.wire cimport be16, be32, be64, Cursor, empty, need, put, read_uvarint

from kproxy.errors import DecodeError
from kproxy.output.escaping import well_formed
from kproxy.output.tables import layouts
from kproxy.output.tables.layouts import Part, TOP_FIELDS
from kproxy.protocol.addresses import join_address

if TYPE_CHECKING:
    from kproxy.output.from_jsonl import LoggedRecords  # no-cython-lint
    from kproxy.protocol import Message  # no-cython-lint
    from kproxy.protocol.structs import MessageStruct

LARGEST: int = 16 * 1024 * 1024  # bytes of a body; as objects it can be many times its size
WITH_RECORDS: frozenset[str] = frozenset({"ProduceRequest", "FetchResponse", "ShareFetchResponse", "FetchSnapshotResponse"})

cdef enum:
    MOST_VALUES = 100_000  # values kept of each kind; a frame of 100 MiB could name tens of millions
    MOST_PROTOCOLS = 100  # assignors of a member in one row
    MOST_RANGES = 1_000  # APIs of a broker, and brokers of a cluster, in one row
    FEW = 16  # names that are compared with each other
    LEAST_ELEMENT = 4  # bytes that Rows counts for an element of a list, in addition to its text
    KEYS = 3  # after layouts.Kind: groups or transactional ids, as the type of the coordinator says
    ABOUTS = 13  # layouts.About
    MOST_ERRORS = 10_000  # of one response: kinds of them, each with a count
    GROUP_KEY = 0  # CoordinatorType
    TRANSACTION_KEY = 1

cdef int TOPIC = layouts.Kind.TOPIC
cdef int GROUP = layouts.Kind.GROUP
cdef int TRANSACTIONAL_ID = layouts.Kind.TRANSACTIONAL_ID
cdef int BY_TYPE = layouts.Kind.BY_TYPE
cdef dict RESOURCES = {2: TOPIC, 32: GROUP}  # ConfigResource.Type
cdef int COUNT = layouts.Form.COUNT
cdef int NAMES = layouts.Form.NAMES
cdef int ONE_NAME = layouts.Form.ONE_NAME
cdef int RANGES = layouts.Form.RANGES
cdef int DESCRIBED = layouts.Form.DESCRIBED
cdef int ADDRESSES = layouts.Form.ADDRESSES
cdef Py_ssize_t TOP_FIELD_COUNT = len(TOP_FIELDS)
cdef dict ELEMENTS = {
    NAMES: ("name",), DESCRIBED: ("name", "error_code"), RANGES: ("api_key", "min_version", "max_version"),
    ADDRESSES: ("node_id", "host", "port"),
}
cdef dict OTHER_NAMES = {"broker_id": "node_id"}  # of DescribeCluster
if TOP_FIELD_COUNT > MOST_TOP:
    raise ValueError(f"{TOP_FIELD_COUNT} fields at the top; MOST_TOP says {MOST_TOP}")


cdef int INDEX = layouts.Part.INDEX
cdef int ERROR_CODE = layouts.Part.ERROR_CODE
cdef int OFFSET = layouts.Part.OFFSET
cdef int HIGH_WATERMARK = layouts.Part.HIGH_WATERMARK
cdef int LAST_STABLE_OFFSET = layouts.Part.LAST_STABLE_OFFSET
cdef int LOG_START_OFFSET = layouts.Part.LOG_START_OFFSET
cdef int TIMESTAMP = layouts.Part.TIMESTAMP
cdef int RECORDS = layouts.Part.RECORDS
cdef int LEADER_ID = layouts.Part.LEADER_ID
cdef int LEADER_EPOCH = layouts.Part.LEADER_EPOCH
cdef int CURRENT_LEADER = layouts.Part.CURRENT_LEADER
cdef int FIRST_LIST = layouts.Part.FIRST_LIST
cdef int ACKNOWLEDGE_ERROR = layouts.Part.ACKNOWLEDGE_ERROR
cdef tuple LISTS_OF_PARTITIONS = (Part.FIRST_LIST, Part.SECOND_LIST, Part.THIRD_LIST)
cdef int TOPIC_NAME = layouts.Part.TOPIC_NAME
cdef int TOPIC_ID_OF = layouts.Part.TOPIC_ID
cdef int KEY_TYPE = layouts.Part.KEY_TYPE
cdef int CODE = layouts.About.CODE
cdef int OTHER_CODE = layouts.About.OTHER_CODE
cdef int FIRST_NAME = layouts.About.TOPIC
cdef int ABOUT_TOPIC_ID = layouts.About.TOPIC_ID
cdef int ABOUT_PARTITION = layouts.About.PARTITION
cdef int RESOURCE_TYPE = layouts.About.RESOURCE_TYPE
cdef int RESOURCE_NAME = layouts.About.RESOURCE_NAME
cdef tuple NAMED = ("topic", "group", "transactional_id", "key")  # in the order of layouts.About
cdef dict CONFIG_RESOURCES = {2: "topic", 4: "broker", 8: "broker", 32: "group"}  # ConfigResource.Type


# Plans

cdef enum Purpose:
    A_CODE = 1
    A_NAME = 2
    A_TOPIC_ID = 4
    A_COUNT = 8
    A_COLUMN = 16
    A_PART = 32
    STRUCTS = 64
    A_RESOURCE_TYPE = 128


cdef struct Node


cdef struct Wanted:  # what is wanted of a field
    int purposes  # Purposes; 0: nothing
    int name  # layouts.Kind
    int column  # of TOP_FIELDS
    int part  # layouts.Part
    int about  # layouts.About; 0: nothing
    Node *node  # of the structs in it


cdef struct Node:  # what is wanted of a struct at a version
    Wanted *ops
    Wanted *tagged
    bint is_topic  # partitions are in it
    bint is_partition


cdef struct Here:  # what a struct and the structs around it say about error codes
    Text parts[ABOUTS]  # by layouts.About; those that are not there are zero
    Here *around  # NULL: none


cdef struct Top:  # how a column is made from a field at the top of bodies
    Op *op  # NULL: the message at this version has none
    int form
    Op *inner[3]  # the fields of its elements


cdef class Plan:
    """What is wanted of a message in one layout."""

    cdef str message
    cdef list arena
    cdef Node *root
    cdef Top[MOST_TOP] top
    cdef Op *lists[LISTS]  # of partitions
    cdef tuple columns  # of TOP_FIELDS that the message has
    cdef list defaults  # of the columns, where the field is not in the bytes
    cdef list nothing  # values of the columns that stand for a missing one

    def __init__(self, Program program not None):
        cdef str name = program.message
        self.message = name
        self.arena = []
        self.defaults = [None] * TOP_FIELD_COUNT
        self.nothing = [None] * TOP_FIELD_COUNT
        fields = layouts.top_fields(name, program.version, in_response=name.endswith("Response"))
        self.columns = tuple([field.column for field in fields])
        for field in fields:
            self.nothing[field.column] = field.nothing
            self.defaults[field.column] = layouts.default_of(name, program.version, field)
            self.top[<int>field.column].form = field.form
        searched = layouts.searched_fields(name, program.version)
        self.root = self.node(program.root, searched, list(fields), name in layouts.PARTITIONED)

    cdef Node *node(self, Struct *s, searched, list columns, bint partitioned) except NULL:
        cdef Node *node = <Node *>self.allocate(sizeof(Node))
        cdef int i
        node.ops = <Wanted *>self.allocate(sizeof(Wanted) * s.count)
        node.tagged = <Wanted *>self.allocate(sizeof(Wanted) * s.tagged_count)
        if partitioned:
            attributes = {<object>s.ops[i].member.name for i in range(s.count) if not s.ops[i].is_array}
            node.is_partition = not attributes.isdisjoint(layouts.INDEXES)
        for i in range(s.count):
            self.want(&node.ops[i], &s.ops[i], node, searched, columns, partitioned)
        for i in range(s.tagged_count):
            self.want(&node.tagged[i], &s.tagged[i], node, searched, columns, partitioned)
        return node

    cdef int want(self, Wanted *wanted, Op *op, Node *node, searched, list columns, bint partitioned) except -1:
        cdef str attribute = <object>op.member.name
        children = {} if searched is None else dict(searched.children)
        if searched is not None:
            wanted.about = searched.about.get(attribute, 0)
            self.search(wanted, attribute, searched)
        inner_columns = []
        for field in columns:
            if field.attribute == attribute and not field.inner:
                self.want_column(wanted, op, field)
            elif field.attribute == attribute:
                inner_columns.append(field._replace(attribute=field.inner, inner=""))
        part = layouts.part_of(self.message, attribute, is_partition=node.is_partition) if partitioned else None
        if part in LISTS_OF_PARTITIONS and op.is_array:
            self.lists[<int>part - FIRST_LIST] = op
        elif part is not None and (op.kind == KIND_STRUCT or op.is_array) != (part in (Part.OLD_OFFSETS, Part.CURRENT_LEADER)):
            part = None
        if part is not None:
            wanted.purposes |= A_PART
            wanted.part = part
        if op.kind == KIND_STRUCT and part is None and (attribute in children or inner_columns or partitioned):
            wanted.node = self.node(op.struct, children.get(attribute), inner_columns, partitioned and not node.is_partition)
            node.is_topic |= wanted.node.is_partition
            wanted.purposes |= STRUCTS if wants_anything(wanted.node, op.struct) else 0
        return 0

    cdef int search(self, Wanted *wanted, str attribute, searched) except -1:
        """Note what rows want of any message: a few requests repeat the error code of another response; only the topics in a
        response are wanted, except for Metadata: a client may request all of them, so they do not show what it uses."""
        cdef bint in_response = self.message.endswith("Response")
        cdef dict names = searched.names
        cdef bint is_pattern = self.message == "CreateAclsRequest"  # not the names of topics
        cdef bint is_metadata = self.message == "MetadataResponse"
        if attribute in searched.error_codes and in_response:
            wanted.purposes |= A_CODE
        if attribute in names and not is_metadata and not is_pattern and (not in_response or names[attribute] == TOPIC):
            wanted.purposes |= A_NAME
            wanted.name = names[attribute]
        if attribute == "resource_type" and BY_TYPE in names.values():
            wanted.purposes |= A_RESOURCE_TYPE
        if attribute == searched.topic_id and not is_metadata:
            wanted.purposes |= A_TOPIC_ID
        if attribute == searched.partitions:
            wanted.purposes |= A_COUNT
        if self.message == "FindCoordinatorRequest" and attribute in ("key", "coordinator_keys"):
            wanted.purposes |= A_NAME
            wanted.name = KEYS
        return 0

    cdef int want_column(self, Wanted *wanted, Op *op, field) except -1:
        cdef Top *top = &self.top[<int>field.column]
        cdef int i, number
        wanted.purposes |= A_COLUMN
        wanted.column = field.column
        top.op = op
        for number, name in enumerate(ELEMENTS.get(top.form, ())):
            for i in range(op.struct.count):
                member = <object>op.struct.ops[i].member.name
                if OTHER_NAMES.get(member, member) == name:
                    top.inner[number] = &op.struct.ops[i]
        return 0

    cdef void *allocate(self, size_t size) except NULL:
        cdef bytearray block = bytearray(size if size else 1)  # zeroed, and freed with the arena
        self.arena.append(block)
        return PyByteArray_AS_STRING(block)


cdef bint wants_anything(Node *node, Struct *s) noexcept:
    cdef int i
    if node.is_partition:
        return True
    for i in range(s.count):
        if node.ops[i].purposes:
            return True
    for i in range(s.tagged_count):
        if node.tagged[i].purposes:
            return True
    return False


cdef dict _plans = {}  # Program -> Plan; programs live as long as the process


cdef Plan plan_of(Program program):
    plan = _plans.get(program)
    if plan is None:
        plan = _plans[program] = Plan(program)
    return plan


# Bodies

cdef class Body:
    """What the latest ``read`` found in the body of a frame."""

    def __dealloc__(self):
        cdef int kind
        free(self.codes.data)
        free(self.topic_ids.data)
        free(self.found.data)
        free(self.ordered.data)
        for kind in range(KINDS):
            free(self.names[kind].data)

    @property
    def struct(self) -> MessageStruct:
        """The body as an object."""
        if self.decoded is None:
            self.decoded = decode_object(self.program, self.data, self.start, PyBytes_GET_SIZE(self.data) - self.end)
        return self.decoded

    cdef bint read(self, Frame frame) except -1:
        """Read the body of a frame; return whether there is one to read. ``problem`` says why one cannot be read, else it is None."""
        self.problem = self.decoded = self.logged = None
        if frame is None or frame.unread:
            return False
        message = frame.message
        if frame.cut_code and type(frame) is not Frame:
            return False  # a decoded log has no message where no field is whole
        if message is None or frame.error is not None:
            self.problem = str(frame.error) if frame.error is not None else "nothing is known about its layout"
            return False
        if frame.cut_code:
            return False
        self.message, self.name = message, message.name
        if PyBytes_GET_SIZE(frame.data) + frame.absent > <int64_t>LARGEST and self.name not in WITH_RECORDS:
            self.problem = f"{self.name} has {frame.size:,} bytes: one of more than {LARGEST:,} is not taken apart"
            return False
        try:
            if type(frame) is Frame:
                self.program = frame.layout_program()
                self.data, self.start, self.version = frame.data, frame.body_start, frame.body_version
                self.end = PyBytes_GET_SIZE(self.data) - frame.trailing
            else:
                self.program, self.data, self.logged = frame.encode()
                self.start, self.version, self.end = 0, frame.json_version, PyBytes_GET_SIZE(self.data)
            self.walk()
        except DecodeError as error:
            self.problem = str(error)
            return False
        return True

    cdef int walk(self) except -1:
        cdef Plan plan = plan_of(self.program)
        cdef Cursor c
        cdef int kind
        cdef const uint8_t *base = slice_start(self.data, &self.start)
        self.plan = plan
        self.lists = plan.lists
        memset(self.top, 0, sizeof(self.top))
        self.codes.size = 0
        empty(&self.topic_ids)
        empty(&self.found)
        empty(&self.ordered)
        for kind in range(KINDS):
            empty(&self.names[kind])
        self.partitions = self.key_type = 0
        self.group.at = self.topic.at = self.topic_id = NULL
        self.group.size = self.topic.size = 0
        begin(&c, base, self.end - self.start)
        if walk_node(plan.root, self.program.root, &c, self) < 0 or c.at != c.limit:
            raise self.program.error(base, self.end - self.start)
        if self.names[KEYS].size and self.key_type in (GROUP_KEY, TRANSACTION_KEY):
            kind = GROUP if self.key_type == GROUP_KEY else TRANSACTIONAL_ID
            self.names[kind], self.names[KEYS] = self.names[KEYS], self.names[kind]
        return self.order()

    cdef int order(self) except -1:
        """Make it possible to look partitions up."""
        cdef Py_ssize_t i
        cdef Partition *partition
        for i in range(self.count()):
            partition = self.partition(i)
            put(&self.ordered, &partition, sizeof(partition))
        if self.count() > 1:
            qsort(self.ordered.data, self.count(), sizeof(partition), compare_pointers)
        return 0

    cdef list error_codes(self):
        """Return every error code other than 0 once, in the order of the body."""
        return error_codes_in(&self.codes)

    def errors(self) -> dict[tuple[int, str, str | None, int | None], tuple[int, str | None]]:
        """Return the count and a message for each error code of each resource (type, name and partition)."""
        cdef dict counted = {}
        cdef Cursor c
        if self.codes.size:
            begin(&c, <const uint8_t *>PyBytes_AS_STRING(self.data) + self.start, self.end - self.start)
            find_errors((<Plan>self.plan).root, self.program.root, &c, NULL, counted)
        return counted

    cdef Text first_name(self, int kind) noexcept:
        """Return the first name of a kind; its ``at`` is NULL if there is none."""
        cdef Text none
        if self.names[kind].size:
            return (<Text *>self.names[kind].data)[0]
        none.at, none.size = NULL, 0
        return none

    cdef Py_ssize_t count(self) noexcept:
        """Return how many partitions with fields of their own there are."""
        return self.found.size // sizeof(Partition)

    cdef Partition *partition(self, Py_ssize_t number) noexcept:
        return &(<Partition *>self.found.data)[number]

    cdef Partition *same(self, Partition *sought) noexcept:
        """Return the last partition of the same group, topic and number; NULL if there is none."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.count()
        cdef Py_ssize_t middle
        cdef Partition **ordered = <Partition **>self.ordered.data
        while low < high:
            middle = (low + high) // 2
            if compare(ordered[middle], sought) > 0:
                high = middle
            else:
                low = middle + 1
        return ordered[low - 1] if low and compare(ordered[low - 1], sought) == 0 else NULL

    cdef bint is_first(self, Partition *one) noexcept:
        """Return whether no partition before it has the same group, topic and number."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.count()
        cdef Py_ssize_t middle
        cdef Partition **ordered = <Partition **>self.ordered.data
        while low < high:
            middle = (low + high) // 2
            if compare(ordered[middle], one) < 0:
                low = middle + 1
            else:
                high = middle
        return ordered[low] == one


cdef Cursor list_at(Body body, Partition *partition, int number, int32_t *count) except *:
    """Return where the elements of one of a partition's lists begin, and how many there are; no list has none."""
    cdef Cursor c
    cdef const uint8_t *at = partition.lists[number]
    count[0] = 0
    begin(&c, at, 0 if at == NULL else <const uint8_t *>PyBytes_AS_STRING(body.data) + body.end - at)
    if at != NULL:
        read_count(body.lists[number], &c, count)
        count[0] = max(count[0], 0)
    return c


cdef int compare(Partition *one, Partition *other) noexcept nogil:
    """Compare group, topic and number."""
    cdef int order = compare_texts(&one.group, &other.group) or compare_texts(&one.topic, &other.topic)
    if not order and one.topic_id != other.topic_id:
        order = 1 if other.topic_id == NULL else -1 if one.topic_id == NULL else memcmp(one.topic_id, other.topic_id, 16)
    return order or (one.index > other.index) - (one.index < other.index)


cdef int compare_texts(Text *one, Text *other) noexcept nogil:
    if one.at == other.at and one.size == other.size:
        return 0
    if one.at == NULL or other.at == NULL or one.size != other.size:
        return 1 if other.at == NULL or (one.at != NULL and one.size > other.size) else -1
    return memcmp(one.at, other.at, one.size)


cdef int compare_pointers(const void *one, const void *other) noexcept nogil:
    """Compare two partitions; of equal ones the earlier is less."""
    cdef Partition *first = (<Partition **>one)[0]
    cdef Partition *second = (<Partition **>other)[0]
    return compare(first, second) or (first > second) - (first < second)


def read_body(frame: Frame | None) -> tuple[Body | None, str | None]:
    """Return the body of a frame and None; without a body, None and why it cannot be read, which is None if there is nothing to read."""
    cdef Body body = Body()
    return (body, None) if body.read(frame) else (None, body.problem)


# The walk

cdef int walk_node(Node *node, Struct *s, Cursor *c, Body body) except? -1:
    """Take what is wanted of a struct; return -1 without an exception at malformed bytes."""
    cdef int i
    cdef bint is_named = False  # as a topic
    cdef const uint8_t *topic_id = NULL
    if node.is_topic:
        body.topic.at = body.topic_id = NULL
        body.topic.size = 0
    if node.is_partition:
        add_partition(body)
    for i in range(s.count):
        if node.ops[i].purposes == 0:
            if walk_value(&s.ops[i], c, True, NULL) < 0:
                return -1
        elif take(&node.ops[i], &s.ops[i], c, body, &is_named, &topic_id) < 0:
            return -1
    if s.flexible and take_tags(node, s, c, body, &is_named, &topic_id) < 0:
        return -1
    if topic_id != NULL and not is_named and body.topic_ids.size < MOST_VALUES * sizeof(topic_id):
        put(&body.topic_ids, &topic_id, sizeof(topic_id))  # a topic with both is known by its name
    return 0


cdef int add_partition(Body body) except -1:
    cdef Partition partition
    memset(&partition, 0, sizeof(partition))
    partition.group, partition.topic, partition.topic_id = body.group, body.topic, body.topic_id
    partition.leader_id = partition.leader_epoch = -1
    partition.offset = partition.high_watermark = partition.last_stable_offset = partition.log_start_offset = -1
    return put(&body.found, &partition, sizeof(partition))


cdef int take(Wanted *wanted, Op *op, Cursor *c, Body body, bint *is_named, const uint8_t **topic_id) except? -1:
    cdef int32_t size
    cdef bint present = True
    if wanted.purposes & A_COLUMN and body.top[wanted.column] == NULL:
        body.top[wanted.column] = c.at
    if op.is_array:
        return take_array(wanted, op, c, body)
    if op.kind == KIND_STRUCT:
        if op.nullable and read_presence(op, c, &present) < 0:
            return -1
        if not present:
            return 0
        if wanted.purposes & A_PART and need(c, 8) == 0:  # the leader's id and epoch
            body.partition(body.count() - 1).leader_id = <int32_t>be32(c.at)
            body.partition(body.count() - 1).leader_epoch = <int32_t>be32(c.at + 4)
        return walk_node(wanted.node, op.struct, c, body) if wanted.purposes & STRUCTS else walk_struct(op.struct, c, True, NULL)
    if op.width:
        if need(c, op.width) < 0:
            return -1
        take_fixed(wanted, c.at, body, topic_id)
        c.at += op.width
        return 0
    if read_size(op, c, &size) < 0:
        return -1
    if wanted.purposes & A_NAME and size > 0 and wanted.name == BY_TYPE:
        if body.resource >= 0:
            add_name(body, body.resource, c.at, size)
    elif wanted.purposes & A_NAME and size > 0:
        add_name(body, wanted.name, c.at, size)
        is_named[0] |= wanted.name == TOPIC
    if wanted.purposes & A_PART and size >= 0:
        take_sized(wanted.part, c.at, size, body)
    c.at += max(size, 0)
    return 0


cdef int take_array(Wanted *wanted, Op *op, Cursor *c, Body body) except? -1:
    cdef int32_t count, size
    cdef int32_t _
    cdef Cursor ahead = c[0]
    if read_count(op, &ahead, &count) < 0:
        return -1
    if wanted.purposes & A_COUNT:
        body.partitions += max(count, 0)
    if wanted.purposes & STRUCTS:
        c.at = ahead.at
        for _ in range(count):
            if walk_node(wanted.node, op.struct, c, body) < 0:
                return -1
        return 0
    if wanted.purposes & A_NAME:
        for _ in range(min(count, <int32_t>MOST_VALUES)):
            if read_element_size(op, &ahead, &size) < 0:
                return -1
            add_name(body, wanted.name, ahead.at, size)
            ahead.at += size
    if wanted.purposes & A_PART and FIRST_LIST <= wanted.part < FIRST_LIST + LISTS:
        body.partition(body.count() - 1).lists[wanted.part - FIRST_LIST] = c.at
    elif wanted.purposes & A_PART and count > 0 and need(&ahead, 8) == 0:
        body.partition(body.count() - 1).offset = <int64_t>be64(ahead.at)
    return walk_value(op, c, True, NULL)


cdef int take_tags(Node *node, Struct *s, Cursor *c, Body body, bint *is_named, const uint8_t **topic_id) except? -1:
    cdef uint32_t count
    cdef uint32_t _
    cdef Op *op
    cdef Cursor value
    cdef Wanted *wanted
    if read_uvarint(c, &count) < 0:
        return -1
    for _ in range(count):
        if read_tag(s, c, &op, &value) < 0:
            return -1
        wanted = NULL if op == NULL else &node.tagged[op - s.tagged]
        if wanted != NULL and wanted.purposes and take(wanted, op, &value, body, is_named, topic_id) < 0:
            return -1
    return 0


cdef int take_fixed(Wanted *wanted, const uint8_t *at, Body body, const uint8_t **topic_id) except -1:
    cdef Partition *partition
    if wanted.purposes & A_CODE:
        add_error_code(&body.codes, <int16_t>be16(at))
    if wanted.purposes & A_RESOURCE_TYPE:
        body.resource = RESOURCES.get(at[0], -1)
    if wanted.purposes & A_TOPIC_ID and not is_zero(at):
        topic_id[0] = at
    if not wanted.purposes & A_PART:
        return 0
    if wanted.part == TOPIC_ID_OF:
        body.topic_id = at
        if is_zero(at):
            body.topic_id = NULL
        return 0
    if wanted.part == KEY_TYPE:
        body.key_type = <int8_t>at[0]
        return 0
    partition = body.partition(body.count() - 1)
    if wanted.part == INDEX:
        partition.index = <int32_t>be32(at)
    elif wanted.part == ERROR_CODE:
        partition.error_code = <int16_t>be16(at)
    elif wanted.part == ACKNOWLEDGE_ERROR:
        partition.acknowledge_error = <int16_t>be16(at)
    elif wanted.part == LEADER_ID:
        partition.leader_id = <int32_t>be32(at)
    elif wanted.part == LEADER_EPOCH:
        partition.leader_epoch = <int32_t>be32(at)
    elif wanted.part == OFFSET:
        partition.offset = <int64_t>be64(at)
    elif wanted.part == HIGH_WATERMARK:
        partition.high_watermark = <int64_t>be64(at)
    elif wanted.part == LAST_STABLE_OFFSET:
        partition.last_stable_offset = <int64_t>be64(at)
    elif wanted.part == LOG_START_OFFSET:
        partition.log_start_offset = <int64_t>be64(at)
    elif wanted.part == TIMESTAMP:
        partition.timestamp = <int64_t>be64(at)
    return 0


cdef int take_sized(int part, const uint8_t *at, int32_t size, Body body) except -1:
    cdef Text *text = &body.group
    if part == TOPIC_NAME:
        text = &body.topic
    elif part == RECORDS:
        text = &body.partition(body.count() - 1).records
    text.at, text.size = at, size
    return 0


cdef int add_name(Body body, int kind, const uint8_t *at, int32_t size) except -1:
    cdef Text text
    text.at, text.size = at, size
    return put(&body.names[kind], &text, sizeof(text)) if body.names[kind].size < MOST_VALUES * sizeof(text) else 0


# The walk over error codes

cdef int find_errors(Node *node, Struct *s, Cursor *c, Here *around, dict counted) except -1:
    """Count the error codes in a struct. The bytes are known to be well-formed, and names to come before the structs that they name."""
    cdef Here here
    cdef Op *op
    cdef Cursor value
    cdef Text code
    cdef uint32_t count = 0
    cdef uint32_t _
    cdef int i
    memset(&here, 0, sizeof(here))
    here.around = around
    for i in range(s.count):
        find_errors_in(&node.ops[i], &s.ops[i], c, &here, counted)
    if s.flexible:
        read_uvarint(c, &count)
    for _ in range(count):
        read_tag(s, c, &op, &value)
        if op != NULL:
            find_errors_in(&node.tagged[op - s.tagged], op, &value, &here, counted)
    for i in (CODE, OTHER_CODE):
        code = here.parts[i]
        if code.at != NULL and be16(code.at):
            count_error(<int16_t>be16(code.at), here.parts[i + 1], &here, counted)
    return 0


cdef int find_errors_in(Wanted *wanted, Op *op, Cursor *c, Here *here, dict counted) except -1:
    cdef int32_t size = op.width
    cdef int32_t _
    cdef bint present = True
    if op.kind == KIND_STRUCT and wanted.node != NULL:
        if op.is_array:
            read_count(op, c, &size)
        elif op.nullable:
            read_presence(op, c, &present)
        for _ in range(size if op.is_array else present):
            find_errors(wanted.node, op.struct, c, here, counted)
    elif wanted.about:
        if not size:
            read_size(op, c, &size)
        here.parts[wanted.about].at, here.parts[wanted.about].size = (c.at if size >= 0 else NULL), size
        c.at += max(size, 0)
    else:
        walk_value(op, c, True, NULL)
    return 0


cdef int count_error(int code, Text message, Here *here, dict counted) except -1:
    cdef tuple key = (code, *place_of(here))
    count, said = counted.get(key, (0, None))
    if count or len(counted) < MOST_ERRORS:
        counted[key] = count + 1, said or (None if message.at == NULL else text_of(message))
    return 0


cdef tuple place_of(Here *here):
    """Return type, name and partition of the resource that a struct, or a struct around it, names."""
    cdef tuple place
    cdef int i
    if here == NULL:
        return "none", None, None
    partition = None if here.parts[ABOUT_PARTITION].at == NULL else <int32_t>be32(here.parts[ABOUT_PARTITION].at)
    for i in range(4):
        if here.parts[FIRST_NAME + i].size > 0:
            return NAMED[i], text_of(here.parts[FIRST_NAME + i]), partition
    if here.parts[ABOUT_TOPIC_ID].at != NULL and not is_zero(here.parts[ABOUT_TOPIC_ID].at):
        return "topic", uuid_text(here.parts[ABOUT_TOPIC_ID].at), partition
    if here.parts[RESOURCE_TYPE].at != NULL and here.parts[RESOURCE_NAME].size > 0:
        kind = CONFIG_RESOURCES.get(<int8_t>here.parts[RESOURCE_TYPE].at[0])
        if kind is not None:
            return kind, text_of(here.parts[RESOURCE_NAME]), None
    place = place_of(here.around)
    return place if partition is None or place[0] != "topic" else (place[0], place[1], partition)


# What was found, as objects

cdef inline str text_of(Text text):
    return PyUnicode_DecodeUTF8(<const char *>text.at, text.size, b"surrogateescape")


cdef object id_of(const uint8_t *topic_id):
    return None if topic_id == NULL else uuid_text(topic_id)


cdef object topic_name(Partition *partition, names):
    """Return the name of a partition's topic; None if it is not known. *names*: of topic ids."""
    if partition.topic.size:
        return well_formed(text_of(partition.topic))
    name = None if partition.topic_id == NULL else names.get(uuid_text(partition.topic_id))
    return well_formed(name) if name else None


def topics_of(Body request: Body | None, Body response: Body | None, names: Mapping[str, str]) -> list[str]:
    """Return the names of topics in an exchange, or their ids if *names*, which the traffic has shown, lacks them."""
    cdef Body body
    cdef size_t i
    labels = dict.fromkeys(names_of(request, TOPIC) + names_of(response, TOPIC))
    for body in (request, response):
        if body is not None:
            for i in range(body.topic_ids.size // sizeof(void *)):
                topic_id = uuid_text((<const uint8_t **>body.topic_ids.data)[i])
                labels[names.get(topic_id, topic_id)] = None
    return list(labels)


def groups_of(Body request: Body | None) -> list[str]:
    """Return the groups in a request."""
    return list(dict.fromkeys(names_of(request, GROUP)))


def requested_of(Body request: Body | None) -> list[tuple[str, list[str]]]:
    """Return the transactional ids, the groups and the broker in a request, by their type in the table errors."""
    try:
        broker = -1 if request is None else request.program.peek("brokerId", request.data, request.start)
    except KeyError:
        broker = -1
    return [
        ("transactional_id", list(dict.fromkeys(names_of(request, TRANSACTIONAL_ID)))), ("group", groups_of(request)),
        ("broker", [str(broker)] if broker >= 0 else []),
    ]


cdef list names_of(Body body, int kind):
    cdef size_t i
    if body is None:
        return []
    return [text_of((<Text *>body.names[kind].data)[i]) for i in range(body.names[kind].size // sizeof(Text))]


# What was found, into columns

cdef int put_text(Rows rows, Py_ssize_t at, Text text) except -1:
    if text.at != NULL:
        rows.size += rows.column(at).put_wire_text(text.at, text.size)
    return 0


cdef int put_topic(Rows rows, Py_ssize_t name_at, Py_ssize_t id_at, Partition *partition, names) except -1:
    """Set the columns of a topic's name and id. *names*: of topic ids."""
    if partition.topic.size:
        put_text(rows, name_at, partition.topic)
    if partition.topic_id != NULL:
        rows.put(id_at, uuid_text(partition.topic_id))
        if not partition.topic.size:
            rows.put(name_at, topic_name(partition, names))
    return 0


cdef int put_codes(Rows rows, Py_ssize_t at, Body response) except -1:
    """Set a column to the list of error codes in a response."""
    cdef Column column = rows.column(at)
    cdef size_t i
    if response is not None:
        for i in range(response.codes.size // sizeof(int16_t)):
            column.elements.put_integer((<int16_t *>response.codes.data)[i])
    return column.end_list()


cdef int put_topics(Rows rows, Py_ssize_t at, Body request, Body response, names) except -1:
    """Set a column to the list of topics in an exchange."""
    cdef bint has_ids = (request is not None and request.topic_ids.size) or (response is not None and response.topic_ids.size)
    return rows.put(at, topics_of(request, response, names)) if has_ids else put_names(rows, at, TOPIC, request, response)


cdef int put_names(Rows rows, Py_ssize_t at, int kind, Body request, Body response) except -1:
    """Set a column to the list of names of a kind in both bodies, without repetitions."""
    cdef Column column
    cdef Text[FEW] texts
    cdef Py_ssize_t i, k
    cdef Py_ssize_t count = 0
    cdef size_t asked = 0 if request is None else request.names[kind].size // sizeof(Text)
    cdef size_t answered = 0 if response is None else response.names[kind].size // sizeof(Text)
    if asked + answered > FEW:
        return rows.put(at, list(dict.fromkeys(names_of(request, kind) + names_of(response, kind))))
    column = rows.column(at)
    for i in range(asked + answered):
        texts[count] = (<Text *>request.names[kind].data)[i] if i < asked else (<Text *>response.names[kind].data)[i - asked]
        for k in range(count):
            if compare_texts(&texts[k], &texts[count]) == 0:
                break
        else:
            rows.size += LEAST_ELEMENT + column.elements.put_wire_text(texts[count].at, texts[count].size)
            count += 1
    return column.end_list()


cdef int put_top_fields(Rows rows, Py_ssize_t at, Body request, Body response) except -1:
    """Set the columns of TOP_FIELDS, which begin at *at*."""
    cdef int column
    cdef tuple nothing
    if request is not None:
        for column in (<Plan>request.plan).columns:
            nothing = None if response is None else (<Plan>response.plan).nothing[column]
            if nothing is None or not is_nothing(request, column, nothing):
                put_top_field(rows, at + column, request, column)
    if response is not None:
        for column in (<Plan>response.plan).columns:
            if (
                request is None
                or (<Plan>request.plan).nothing[column] is None
                or is_nothing(request, column, (<Plan>response.plan).nothing[column])
            ):
                put_top_field(rows, at + column, response, column)
    return 0


cdef bint is_nothing(Body body, int column, tuple nothing) except -1:
    """Return whether the value of a column in a body is one of *nothing*."""
    cdef Plan plan = body.plan
    cdef Top *top = &plan.top[column]
    cdef Cursor c
    cdef int32_t size
    if body.top[column] == NULL:
        return plan.defaults[column] in nothing
    if top.op.is_array:
        return False
    if top.op.kind <= KIND_INT64:
        return integer_at(top.op, body.top[column]) in nothing
    begin_at(&c, body, column)
    read_size(top.op, &c, &size)
    return size < 0 or (size == 0 and "" in nothing)


cdef int begin_at(Cursor *c, Body body, int column) except -1:
    begin(c, body.top[column], <const uint8_t *>PyBytes_AS_STRING(body.data) + body.end - body.top[column])
    return 0


cdef int put_top_field(Rows rows, Py_ssize_t at, Body body, int column) except -1:
    """Set column *at* to the value of one of TOP_FIELDS."""
    cdef Plan plan = body.plan
    cdef Top *top = &plan.top[column]
    cdef Cursor c
    cdef int32_t size
    if body.top[column] == NULL:
        return rows.put(at, plan.defaults[column])
    if top.op.kind == KIND_BOOL:
        return rows.put(at, body.top[column][0] != 0)
    if top.op.kind <= KIND_INT64 and not top.op.is_array:
        return rows.column(at).put_integer(integer_at(top.op, body.top[column]))
    begin_at(&c, body, column)
    if top.op.is_array:
        read_count(top.op, &c, &size)
        return rows.column(at).put_integer(max(size, 0)) if top.form == COUNT else put_elements(rows, at, top, &c, size)
    read_size(top.op, &c, &size)
    if top.form == ONE_NAME:
        return rows.put(at, [PyUnicode_DecodeUTF8(<const char *>c.at, max(size, 0), b"surrogateescape")])
    if size >= 0:
        rows.size += rows.column(at).put_wire_text(c.at, size)
    return 0


cdef int put_elements(Rows rows, Py_ssize_t at, Top *top, Cursor *c, int32_t count) except -1:
    """Set a column to a list made of the elements of an array."""
    cdef Column column = rows.column(at)
    cdef const uint8_t *places[3]
    cdef Column text = column.elements
    cdef Buffer *characters = &text.elements.values
    cdef size_t before
    cdef int32_t size
    cdef int32_t _
    cdef Cursor name
    cdef int most = MOST_PROTOCOLS if top.form == NAMES else MOST_RANGES if top.form in (RANGES, ADDRESSES) else MOST_VALUES
    for _ in range(min(count, most)):
        find_places(top, c, places)
        if top.form == RANGES:
            before = characters.size
            put_int(characters, integer_at(top.inner[0], places[0]))
            put_word(characters, b":")
            put_int(characters, integer_at(top.inner[1], places[1]))
            put_word(characters, b"-")
            put_int(characters, integer_at(top.inner[2], places[2]))
            rows.size += LEAST_ELEMENT + text.end_text(characters.size - before)
            continue
        if top.form == ADDRESSES:
            begin(&name, places[1], c.limit - places[1])
            read_size(top.inner[1], &name, &size)
            host = PyUnicode_DecodeUTF8(<const char *>name.at, max(size, 0), b"surrogateescape")
            address = join_address(host, integer_at(top.inner[2], places[2]))
            rows.size += LEAST_ELEMENT + text.put_text(f"{integer_at(top.inner[0], places[0])} {address}")
            continue
        begin(&name, places[0], c.limit - places[0])
        read_size(top.inner[0], &name, &size)
        if top.form == NAMES or (size > 0 and integer_at(top.inner[1], places[1]) == 0):
            rows.size += LEAST_ELEMENT + text.put_wire_text(name.at, max(size, 0))
    return column.end_list()


cdef int find_places(Top *top, Cursor *c, const uint8_t **places) except -1:
    """Walk over an element; note where the fields of ``top.inner`` begin."""
    cdef Struct *s = top.op.struct
    cdef int i, k
    for i in range(s.count):
        for k in range(3):
            if top.inner[k] == &s.ops[i]:
                places[k] = c.at
        walk_value(&s.ops[i], c, True, NULL)
    return walk_tags(s, c, True, NULL) if s.flexible else 0
