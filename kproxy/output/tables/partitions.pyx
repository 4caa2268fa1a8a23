# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Rows of partition_states and share_deliveries: what brokers say of leaders and replicas, and how often share groups get records.

A connection remembers hashes of what it saw last: of each partition, and of all topics of a response (ALL), as most are the same.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from kproxy.output.tables.body cimport Body, list_at, LISTS, Partition, put_text, put_top_field, put_topic
from kproxy.output.tables.columns cimport Column, Rows
from kproxy.output.tables.rows cimport Head, put_instant
from kproxy.protocol.program cimport integer_at, Op, read_count, walk_tags, walk_value
from kproxy.protocol.wire cimport be32, Cursor
from kproxy.session.exchanges cimport Exchange

from kproxy.output.tables import layouts
from kproxy.output.tables.contracts import PARTITION_STATES, SHARE_DELIVERIES

MOST_PARTITIONS: int = 10_000  # that a connection remembers
cdef enum:
    MOST_ROWS = 10_000  # of share_deliveries, in one exchange
    ALL = 0  # key of what is known; others are hashes
    GAP = 0
    LEAST_ELEMENT = 4  # bytes that Rows counts for an element of a list
cdef dict ANSWERS = {GAP: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}  # AcknowledgeType
cdef frozenset DESCRIPTIONS = frozenset({"MetadataResponse", "DescribeTopicPartitionsResponse"})
cdef frozenset REFUSALS = frozenset({"FetchResponse", "ShareFetchResponse", "ProduceResponse"})
cdef int TOPICS = [column for column, _, _ in layouts.TOP_FIELDS].index("described_topics")
cdef int MEMBER = [column for column, _, _ in layouts.TOP_FIELDS].index("member_id")
cdef int GROUP = layouts.Kind.GROUP


cdef Py_ssize_t SEEN_AT = PARTITION_STATES.place("seen_at")
cdef Py_ssize_t API_KEY = PARTITION_STATES.place("api_key")
cdef Py_ssize_t TOPIC = PARTITION_STATES.place("topic")
cdef Py_ssize_t TOPIC_ID = PARTITION_STATES.place("topic_id")
cdef Py_ssize_t PARTITION = PARTITION_STATES.place("partition")
cdef Py_ssize_t ERROR_CODE = PARTITION_STATES.place("error_code")
cdef Py_ssize_t LEADER_ID = PARTITION_STATES.place("leader_id")
cdef Py_ssize_t LEADER_EPOCH = PARTITION_STATES.place("leader_epoch")
cdef Py_ssize_t REPLICAS = PARTITION_STATES.place("replicas")


cdef bint has_states(Body response):
    """Return whether a response says anything of leaders."""
    if not response.count():
        return False
    return response.name in DESCRIPTIONS or (response.codes.size and response.name in REFUSALS)


cdef int write_states(Rows rows, Head head, Exchange exchange, Body response, dict known) except -1:
    """Write a row for each partition whose leader or replicas differ from what is *known*, and note them there."""
    cdef Py_ssize_t i
    cdef Partition *partition
    cdef bint is_refusal = response.name in REFUSALS
    if not is_refusal and known.get(ALL) == (every := all_topics(response)):
        return 0
    for i in range(response.count()):
        partition = response.partition(i)
        if is_refusal and (not partition.error_code or partition.leader_id < 0):
            continue
        if not is_refusal and partition.lists[0] == NULL:
            continue  # where to go on
        key, state = key_of(partition), state_of(response, partition, 0 if is_refusal else LISTS)
        if known.get(key) != state:
            if len(known) > MOST_PARTITIONS:
                known.clear()
            known[key] = state
            write_state(rows, head, exchange, response, partition)
    if is_refusal:
        known.pop(ALL, None)
    else:
        known[ALL] = every
    return 0


cdef object all_topics(Body response):
    """Return a hash of the topics in a response; the few bytes behind them are the same each time."""
    cdef const uint8_t *end = <const uint8_t *>PyBytes_AS_STRING(response.data) + response.end
    cdef const uint8_t *at = response.top[TOPICS]
    return None if at == NULL else hash(PyBytes_FromStringAndSize(<const char *>at, end - at))


cdef object key_of(Partition *partition):
    cdef bytes name = PyBytes_FromStringAndSize(<const char *>partition.topic.at, max(partition.topic.size, 0))
    if not name and partition.topic_id != NULL:
        name = PyBytes_FromStringAndSize(<const char *>partition.topic_id, 16)
    return hash((name, partition.index))


cdef object state_of(Body response, Partition *partition, int lists_of_it):
    cdef int number
    cdef int32_t count
    cdef Cursor c
    cdef bytes lists = b""
    for number in range(lists_of_it):
        c = list_at(response, partition, number, &count)
        lists += PyBytes_FromStringAndSize(<const char *>c.at, 4 * <Py_ssize_t>count) + b"|"
    return hash((lists, partition.leader_id, partition.leader_epoch, partition.error_code))


cdef int write_state(Rows rows, Head head, Exchange exchange, Body response, Partition *partition) except -1:
    cdef int number
    cdef int32_t i, count
    cdef Cursor c
    cdef Column column
    head.put(rows)
    put_instant(rows, SEEN_AT, exchange.response.ended_at)
    rows.put(API_KEY, exchange.api_key)
    put_topic(rows, TOPIC, TOPIC_ID, partition, exchange.topic_names)
    rows.column(PARTITION).put_integer(partition.index)
    rows.column(ERROR_CODE).put_integer(partition.error_code)
    if partition.leader_id >= 0:
        rows.column(LEADER_ID).put_integer(partition.leader_id)
    if partition.leader_epoch >= 0:
        rows.column(LEADER_EPOCH).put_integer(partition.leader_epoch)
    for number in range(LISTS):
        if partition.lists[number] == NULL or response.name in REFUSALS:
            continue
        c = list_at(response, partition, number, &count)
        column = rows.column(REPLICAS + number)
        for i in range(count):
            column.elements.put_integer(<int32_t>be32(c.at + 4 * i))
        column.end_list()
        rows.size += LEAST_ELEMENT * count
    return rows.end()


# Share groups

cdef Py_ssize_t EVENT = SHARE_DELIVERIES.place("event")
cdef Py_ssize_t CLIENT_ID = SHARE_DELIVERIES.place("client_id")
cdef Py_ssize_t GROUP_ID = SHARE_DELIVERIES.place("group_id")
cdef Py_ssize_t MEMBER_ID = SHARE_DELIVERIES.place("member_id")
cdef Py_ssize_t SHARE_TOPIC = SHARE_DELIVERIES.place("topic")
cdef Py_ssize_t SHARE_TOPIC_ID = SHARE_DELIVERIES.place("topic_id")
cdef Py_ssize_t SHARE_PARTITION = SHARE_DELIVERIES.place("partition")
cdef Py_ssize_t FIRST_OFFSET = SHARE_DELIVERIES.place("first_offset")
cdef Py_ssize_t LAST_OFFSET = SHARE_DELIVERIES.place("last_offset")
cdef Py_ssize_t DELIVERY_COUNT = SHARE_DELIVERIES.place("delivery_count")
cdef Py_ssize_t ANSWER_ERROR = SHARE_DELIVERIES.place("error_code")


cdef class Deliveries:
    """Writes the rows of one exchange."""

    cdef Rows rows
    cdef Head head
    cdef Exchange exchange
    cdef Body request
    cdef Py_ssize_t written

    cdef int write(self, Partition *partition, str event, int64_t at, int64_t first, int64_t last, object count, object error) except -1:
        cdef Rows rows = self.rows
        if self.written == MOST_ROWS:
            return 0
        self.written += 1
        self.head.put(rows)
        put_instant(rows, SEEN_AT, at)
        rows.put(EVENT, event)
        rows.put(CLIENT_ID, self.exchange.client_id)
        put_text(rows, GROUP_ID, self.request.first_name(GROUP))
        put_top_field(rows, MEMBER_ID, self.request, MEMBER)
        put_topic(rows, SHARE_TOPIC, SHARE_TOPIC_ID, partition, self.exchange.topic_names)
        rows.column(SHARE_PARTITION).put_integer(partition.index)
        rows.column(FIRST_OFFSET).put_integer(first)
        rows.column(LAST_OFFSET).put_integer(last)
        rows.put(DELIVERY_COUNT, count)
        rows.put(ANSWER_ERROR, error)
        return rows.end()

    cdef int write_acquired(self, Body response, Partition *partition) except -1:
        cdef int32_t count, _
        cdef Cursor c = list_at(response, partition, 0, &count)
        cdef const uint8_t *places[3]
        for _ in range(count):
            find_places(response.lists[0], &c, places)
            self.write(
                partition, "acquired", self.exchange.response.ended_at, integer(response, 0, places), integer(response, 1, places),
                integer(response, 2, places), None,
            )
        return 0

    cdef int write_answers(self, Partition *partition, object error) except -1:
        """An answer stands for all records of its batch, or for one each."""
        cdef int32_t count, types, k, begun, _
        cdef int64_t first, last
        cdef Cursor inner
        cdef Cursor c = list_at(self.request, partition, 0, &count)
        cdef const uint8_t *places[3]
        for _ in range(count):
            find_places(self.request.lists[0], &c, places)
            first, last = integer(self.request, 0, places), integer(self.request, 1, places)
            inner = c
            inner.at = places[2]
            read_count(&self.request.lists[0].struct.ops[2], &inner, &types)
            begun = 0
            for k in range(1, types + 1):
                if k < types and inner.at[k] == inner.at[begun]:
                    continue
                event = ANSWERS.get(inner.at[begun], "unknown")
                self.write(
                    partition, event, self.exchange.request.started_at, first + begun, last if k == types else first + k - 1, None, error
                )
                begun = k
        return 0


cdef int write_deliveries(Rows rows, Head head, Exchange exchange, Body request, Body response) except -1:
    """Write what members of share groups got and answered; nothing for other requests."""
    cdef Deliveries deliveries
    cdef Partition *partition
    cdef Partition *answer
    cdef Py_ssize_t i
    if request.name != "ShareFetchRequest" and request.name != "ShareAcknowledgeRequest":
        return 0
    deliveries = Deliveries.__new__(Deliveries)
    deliveries.rows, deliveries.head, deliveries.exchange, deliveries.request = rows, head, exchange, request
    for i in range(request.count()):
        partition = request.partition(i)
        error = None
        if response is not None:
            answer = response.same(partition)
            error = 0 if answer == NULL else answer.acknowledge_error or (answer.error_code if request.name[5] == "A" else 0)
        deliveries.write_answers(partition, error)
    if response is not None and response.name == "ShareFetchResponse":
        for i in range(response.count()):
            deliveries.write_acquired(response, response.partition(i))
    return 0


cdef int find_places(Op *op, Cursor *c, const uint8_t **places) except -1:
    """Walk over an element of a list; note where its first three fields begin."""
    cdef int i
    for i in range(op.struct.count):
        if i < 3:
            places[i] = c.at
        walk_value(&op.struct.ops[i], c, True, NULL)
    return walk_tags(op.struct, c, True, NULL) if op.struct.flexible else 0


cdef int64_t integer(Body body, int number, const uint8_t **places) except? -1:
    return integer_at(&body.lists[0].struct.ops[number], places[number])
