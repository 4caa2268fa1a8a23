# cython: language_level=3, nonecheck=True
"""Rows of the table offsets: positions of consumers and followers, offsets that groups committed, ends of logs.

Compiled because most exchanges of consumers come here.
"""

from kproxy.output.tables.body cimport Body, Partition, put_text, put_top_field, put_topic
from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Head, put_instant
from kproxy.session.exchanges cimport Exchange

from kproxy.output.tables import layouts
from kproxy.output.tables.contracts import OFFSETS

cdef dict KINDS = {
    "FetchRequest": "fetch",
    "ListOffsetsRequest": "list",
    "OffsetCommitRequest": "commit",
    "TxnOffsetCommitRequest": "commit",
    "OffsetFetchRequest": "committed",
}
cdef list _columns = [column.name for column in OFFSETS.columns]
cdef Py_ssize_t SEEN_AT = _columns.index("seen_at")
cdef Py_ssize_t KIND = _columns.index("kind")
cdef Py_ssize_t CLIENT_ID = _columns.index("client_id")
cdef Py_ssize_t GROUP_ID = _columns.index("group_id")
cdef Py_ssize_t REPLICA_ID = _columns.index("replica_id")
cdef Py_ssize_t TOPIC = _columns.index("topic")
cdef Py_ssize_t TOPIC_ID = _columns.index("topic_id")
cdef Py_ssize_t PARTITION = _columns.index("partition")
cdef Py_ssize_t OFFSET = _columns.index("partition_offset")
cdef Py_ssize_t HIGH_WATERMARK = _columns.index("high_watermark")
cdef Py_ssize_t LAST_STABLE_OFFSET = _columns.index("last_stable_offset")
cdef Py_ssize_t LOG_START_OFFSET = _columns.index("log_start_offset")
cdef Py_ssize_t ASKED_TIMESTAMP = _columns.index("asked_timestamp_ms")
cdef Py_ssize_t ERROR_CODE = _columns.index("error_code")
cdef int GROUP = layouts.Kind.GROUP
cdef int REPLICA = [column for column, _, _ in layouts.TOP_FIELDS].index("replica_id")


cdef int write_offsets(Rows rows, Head head, Exchange exchange, Body request, Body response) except -1:
    """Write the rows of an exchange: one for each partition in its request, or in the response to an OffsetFetch."""
    cdef str kind = KINDS.get(request.name)
    cdef Body sent = response if kind == "committed" else request
    cdef Partition *partition
    cdef Partition *answer
    cdef Py_ssize_t i
    if kind is None or sent is None:
        return 0
    for i in range(sent.count()):
        partition = sent.partition(i)
        if sent.is_first(partition):  # a repeated one replaces the one before
            answer = NULL if response is None else response.same(partition)
            write_row(rows, head, exchange, kind, request, sent.same(partition), answer)
    if kind == "fetch" and response is not None:
        for i in range(response.count()):
            partition = response.partition(i)
            if response.is_first(partition) and request.same(partition) == NULL:
                write_row(rows, head, exchange, kind, request, NULL, response.same(partition))
    return 0


cdef int write_row(
    Rows rows, Head head, Exchange exchange, str kind, Body request, Partition *sent, Partition *answer
) except -1:
    """Write the row of a partition; *sent*, *answer*: what the request and the response say of it, or NULL."""
    cdef Partition *partition = answer if sent == NULL else sent
    head.put(rows)
    if exchange.response is not None:
        put_instant(rows, SEEN_AT, exchange.response.ended_at)
    elif exchange.request is not None:
        put_instant(rows, SEEN_AT, exchange.request.started_at)
    rows.put(KIND, kind)
    rows.put(CLIENT_ID, exchange.client_id)
    put_topic(rows, TOPIC, TOPIC_ID, partition, exchange.topic_names)
    rows.column(PARTITION).put_integer(partition.index)
    if answer != NULL:
        rows.column(ERROR_CODE).put_integer(answer.error_code)
    if kind == "commit" or kind == "committed":
        put_group(rows, request, partition)
    else:
        put_top_field(rows, REPLICA_ID, request, REPLICA)
    if kind == "list":
        rows.column(ASKED_TIMESTAMP).put_integer(sent.timestamp)
        sent = answer  # which has the offset
    if sent != NULL:
        rows.column(OFFSET).put_integer(sent.offset)
    if kind == "fetch" and answer != NULL:
        rows.column(HIGH_WATERMARK).put_integer(answer.high_watermark)
        rows.column(LAST_STABLE_OFFSET).put_integer(answer.last_stable_offset)
        rows.column(LOG_START_OFFSET).put_integer(answer.log_start_offset)
    return rows.end()


cdef int put_group(Rows rows, Body request, Partition *partition) except -1:
    """Set the group: that around the partition, else that of the request."""
    if partition.group.at != NULL:
        return put_text(rows, GROUP_ID, partition.group)
    if request.names[GROUP].size:
        return put_text(rows, GROUP_ID, request.first_name(GROUP))
    return rows.put(GROUP_ID, "")
