# cython: language_level=3, nonecheck=True, cdivision=True
"""Rows of exchanges and record batches, written into columns value by value; also what the rows of other tables need.

    instant, record_instant   times in the range that file formats and their readers accept
    put_exchange              a row of exchanges up to what is counted of its records; put_counts: the rest
    records_fields            the records fields of Produce and Fetch; write_batches: their rows of record_batches

Compiled because all of it runs for every exchange.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from kproxy.output.tables.body cimport (
    Body, Partition, Text, id_of, put_codes, put_names, put_text, put_top_fields, put_topics, topic_name,
)
from kproxy.output.tables.columns cimport Rows
from kproxy.protocol.records.batches cimport Batch
from kproxy.protocol.wire cimport be16, be32, be64
from kproxy.session.exchanges cimport Exchange, Frame, is_plain

from kproxy.output.tables import layouts
from kproxy.output.tables.changed import changed, READERS
from kproxy.output.tables.contracts import EXCHANGES, RECORD_BATCHES
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.protocol.records import Batches, DEFAULT_LIMITS, read_batches

if TYPE_CHECKING:
    from kproxy.output.from_jsonl import LoggedRecords

cdef int GROUP = layouts.Kind.GROUP
cdef int TRANSACTIONAL_ID = layouts.Kind.TRANSACTIONAL_ID
cdef int64_t LARGEST_OFFSET = 0x7FFFFFFFFFFFFFFF
cdef dict _api_names = {key: api.name for key, api in facts().apis.items()}


cdef class Head:

    cdef int put(self, Rows rows) except -1:
        rows.put(0, self.connection_id)
        rows.put(1, self.broker)
        return rows.column(2).put_integer(self.exchange)


# Times

# From 1900 on calendars agree: one earlier time in a column, and Spark refuses to read the column (it asks which calendar is
# meant: SparkUpgradeException, spark.sql.parquet.datetimeRebaseModeInRead). The last year that SQL has is 9999.
cdef int64_t FIRST_US = -2_208_988_800_000_000
cdef int64_t LAST_US = 253_402_300_799_999_999

EARLIEST_US: int = FIRST_US
LATEST_US: int = LAST_US


cdef inline int64_t microseconds(int64_t at) noexcept:
    return at // 1000 - (1 if at % 1000 < 0 else 0)


cpdef object instant(int64_t at):  # type: (...) -> int | None
    """Return nanoseconds since the epoch as microseconds; None before 1900, which only a damaged capture has."""
    cdef int64_t us = microseconds(at)
    return us if us >= FIRST_US else None


cdef int put_instant(Rows rows, Py_ssize_t at, int64_t time) except -1:
    """Set a column to what ``instant`` returns."""
    cdef int64_t us = microseconds(time)
    return rows.column(at).put_integer(us) if us >= FIRST_US else 0


cpdef object record_instant(int64_t at):  # type: (...) -> int | None
    """Return the timestamp of a record; None for -1 (no timestamp) and before 1900; the last of 9999 for what is later."""
    if at == -1 or at < FIRST_US // 1000:
        return None
    return min(at, LAST_US // 1000)


cdef int put_record_instant(Rows rows, Py_ssize_t at, int64_t time) except -1:
    """Set a column to what ``record_instant`` returns."""
    return 0 if time == -1 or time < FIRST_US // 1000 else rows.column(at).put_integer(min(time, LAST_US // 1000))


# Exchanges

cdef Py_ssize_t REQUEST_AT = EXCHANGES.place("request_at")
cdef Py_ssize_t RESPONSE_AT = EXCHANGES.place("response_at")
cdef Py_ssize_t LATENCY = EXCHANGES.place("latency_ms")
cdef Py_ssize_t REQUEST_IN_PROXY = EXCHANGES.place("request_in_proxy_ms")
cdef Py_ssize_t BROKER_MS = EXCHANGES.place("broker_ms")
cdef Py_ssize_t RESPONSE_IN_PROXY = EXCHANGES.place("response_in_proxy_ms")
cdef Py_ssize_t API_KEY = EXCHANGES.place("api_key")
cdef Py_ssize_t API_NAME = EXCHANGES.place("api_name")
cdef Py_ssize_t API_VERSION = EXCHANGES.place("api_version")
cdef Py_ssize_t CORRELATION_ID = EXCHANGES.place("correlation_id")
cdef Py_ssize_t CLIENT_ID = EXCHANGES.place("client_id")
cdef Py_ssize_t REQUEST_SIZE = EXCHANGES.place("request_size")
cdef Py_ssize_t RESPONSE_SIZE = EXCHANGES.place("response_size")
cdef Py_ssize_t EXPECTS_RESPONSE = EXCHANGES.place("expects_response")
cdef Py_ssize_t UNANSWERED = EXCHANGES.place("unanswered")
cdef Py_ssize_t UNDECODED = EXCHANGES.place("undecoded")
cdef Py_ssize_t LAYOUT = EXCHANGES.place("layout")
cdef Py_ssize_t ASSUMED_VERSION = EXCHANGES.place("assumed_version")
cdef Py_ssize_t INCOMPLETE = EXCHANGES.place("bodies")
cdef Py_ssize_t REQUEST_TRAILING = EXCHANGES.place("request_trailing_bytes")
cdef Py_ssize_t RESPONSE_TRAILING = EXCHANGES.place("response_trailing_bytes")
cdef Py_ssize_t EDITED = EXCHANGES.place("edited")
cdef Py_ssize_t ERROR_CODES = EXCHANGES.place("error_codes")
cdef Py_ssize_t ERROR_NAME = EXCHANGES.place("error_name")
cdef Py_ssize_t TOPICS = EXCHANGES.place("topics")
cdef Py_ssize_t PARTITIONS = EXCHANGES.place("partitions")
cdef Py_ssize_t GROUPS = EXCHANGES.place("groups")
cdef Py_ssize_t CHANGED = EXCHANGES.place("changed")
cdef Py_ssize_t GROUP_ID = EXCHANGES.place("group_id")
cdef Py_ssize_t TRANSACTION = EXCHANGES.place("transactional_id")
cdef Py_ssize_t TOP = EXCHANGES.place(layouts.TOP_FIELDS[0][0])
cdef Py_ssize_t COUNTS = EXCHANGES.place("record_batches")


cdef int put_exchange(Rows rows, Exchange exchange, Body request, Body response, undecoded) except -1:
    """Set the columns of exchanges from request_at to cluster_id.

    *request*, *response*: None if they are not read; *undecoded*: why, where the exchange itself does not say.
    """
    cdef Py_ssize_t partitions
    put_frames(rows, exchange, exchange.request, exchange.response)
    rows.put(API_KEY, exchange.api_key)
    rows.put(API_NAME, _api_names.get(exchange.api_key))
    rows.put(API_VERSION, exchange.api_version)
    number = exchange.correlation_id
    if number is not None and -(1 << 31) <= number < 1 << 31:  # a line of a decoded log may have what no header can have
        rows.put(CORRELATION_ID, number)
    rows.put(CLIENT_ID, exchange.client_id)
    rows.put(EXPECTS_RESPONSE, exchange.expects_response)
    rows.put(UNANSWERED, exchange.unanswered)
    rows.put(UNDECODED, exchange.undecoded or undecoded)
    put_codes(rows, ERROR_CODES, response)
    if response is not None and response.codes.size:
        rows.put(ERROR_NAME, error_name(response.error_codes()[0]))
    put_topics(rows, TOPICS, request, response, exchange.topic_names)
    partitions = 0 if request is None else request.partitions
    if not partitions and response is not None:
        partitions = response.partitions
    if partitions:
        rows.column(PARTITIONS).put_integer(partitions)
    put_names(rows, GROUPS, GROUP, request, None)
    if request is not None:
        if request.name in READERS:
            rows.put(CHANGED, changed(request.struct, request.name))
        put_text(rows, GROUP_ID, request.first_name(GROUP))
        put_text(rows, TRANSACTION, request.first_name(TRANSACTIONAL_ID))
    return put_top_fields(rows, TOP, request, response)


cdef int put_frames(Rows rows, Exchange exchange, Frame request, Frame response) except -1:
    """Set the columns that are about the frames, whatever is in them."""
    layout = assumed = None
    if request is not None:
        layout, assumed = request.layout, request.assumed_version
        put_instant(rows, REQUEST_AT, request.started_at)
        rows.column(REQUEST_SIZE).put_integer(len(request.data) + request.absent + 4)
        if request.trailing:
            rows.column(REQUEST_TRAILING).put_integer(request.trailing)
        if request.sent_at > 0:
            rows.put(REQUEST_IN_PROXY, exchange.request_in_proxy_ms)
            rows.put(BROKER_MS, exchange.broker_ms)
    if response is not None:
        layout = layout or response.layout
        assumed = response.assumed_version if assumed is None else assumed
        put_instant(rows, RESPONSE_AT, response.ended_at)
        rows.column(RESPONSE_SIZE).put_integer(len(response.data) + response.absent + 4)
        if response.trailing:
            rows.column(RESPONSE_TRAILING).put_integer(response.trailing)
        if response.sent_at > 0:
            rows.put(RESPONSE_IN_PROXY, exchange.response_in_proxy_ms)
        if request is not None and response.has_end():
            rows.column(LATENCY).put_float((response.ended_at - request.started_at) / 1e6)
    rows.put(LAYOUT, layout)
    rows.put(ASSUMED_VERSION, assumed)
    if is_plain(request) and is_plain(response):
        return rows.column(EDITED).end_list()
    rows.put(INCOMPLETE, exchange.bodies)
    return rows.put(EDITED, exchange.edited)


cdef int put_counts(Rows rows, int64_t batches, int64_t records, int64_t size) except -1:
    """Set the columns of exchanges about its records."""
    rows.column(COUNTS).put_integer(batches)
    rows.column(COUNTS + 1).put_integer(records)
    return rows.column(COUNTS + 2).put_integer(size)


# Record batches

cdef class RecordsField:
    """One records field: a partition of a Produce request or of a Fetch response."""

    def __init__(
        self, str direction, topic: str | None, topic_id: str | None, int partition, error_code: int | None,
        appended_offset: int | None, data: bytes | LoggedRecords, bint unaligned=False,
    ):
        self.direction = direction
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.appended_offset = appended_offset
        self.data = data
        self.unaligned = unaligned

    def batches(self) -> Batches:
        """Return its batches."""
        return read_batches(self.data, unaligned=self.unaligned)


cdef dict FETCHED = {"FetchResponse": False, "ShareFetchResponse": False, "FetchSnapshotResponse": True}  # whether unaligned


cpdef list records_fields(
    Body request: Body | None, Body response: Body | None, names: Mapping[str, str],
):  # type: (...) -> list[RecordsField] | None
    """Return the records fields of an exchange that are not empty; None for an API that has none. *names*: of topic ids."""
    cdef Py_ssize_t i
    cdef Partition *partition
    cdef Partition *answer
    cdef list fields = []
    if request is not None and request.name == "ProduceRequest":
        for i in range(request.count()):
            partition = request.partition(i)
            if partition.records.size > 0:
                answer = NULL if response is None else response.same(partition)
                error = None if answer == NULL else answer.error_code
                offset = None if answer == NULL or answer.error_code or answer.offset < 0 else answer.offset
                fields.append(records_field("produce", request, partition, error, offset, False, names))
        return fields
    unaligned = None if response is None else FETCHED.get(response.name)
    if unaligned is None:
        return None
    for i in range(response.count()):
        partition = response.partition(i)
        if partition.records.size > 0:
            fields.append(records_field("fetch", response, partition, partition.error_code, None, unaligned, names))
    return fields


cdef RecordsField records_field(
    str direction, Body body, Partition *partition, error_code, appended_offset, bint unaligned, names
):
    cdef RecordsField field = RecordsField.__new__(RecordsField)
    cdef Text records = partition.records
    field.direction = direction
    field.topic = topic_name(partition, names)
    field.topic_id = id_of(partition.topic_id)
    field.partition = partition.index
    field.error_code = error_code
    field.appended_offset = appended_offset
    if body.logged is None:
        field.data = PyBytes_FromStringAndSize(<const char *>records.at, records.size)
    else:
        field.data = body.logged[be32(records.at)]
    field.unaligned = unaligned
    return field


cdef Py_ssize_t SEEN_AT = RECORD_BATCHES.place("seen_at")
cdef Py_ssize_t APPENDED_OFFSET = RECORD_BATCHES.place("appended_offset")
cdef Py_ssize_t BASE_OFFSET = RECORD_BATCHES.place("base_offset")
cdef Py_ssize_t SIZE = RECORD_BATCHES.place("size")
cdef Py_ssize_t BATCH_ERROR = RECORD_BATCHES.place("error")


cdef int64_t write_batches(Rows rows, Head head, at, RecordsField field, batches, problems) except -1:
    """Write the rows of record_batches of a field; return how many records they have, as far as their headers say.

    *at*: column seen_at; *problems*: of records, by the position of their batch.
    """
    cdef int64_t spent = 0
    cdef int64_t counted = 0
    cdef Batch batch
    offset = field.appended_offset
    for batch in batches:
        count = None
        if batch.magic < 2:
            count, unpacked = _count(batch, spent)
            spent += unpacked
        elif batch.magic == 2:
            count = batch.count
        begin_row(rows, head, at, field)
        rows.put(APPENDED_OFFSET, offset)
        put_header(rows, batch, count)
        if problems:
            rows.put(BATCH_ERROR, problems.get(batch.position))
        rows.end()
        counted += max(0, count or 0)
        if offset is not None:
            offset = None if count is None or not 0 <= count <= LARGEST_OFFSET - offset else offset + count
    tail = batches.tail
    if tail is not None and tail.kind == "error":
        begin_row(rows, head, at, field)
        rows.put(SIZE, tail.size)
        rows.put(BATCH_ERROR, tail.reason)
        rows.end()
    return counted


cdef int begin_row(Rows rows, Head head, at, RecordsField field) except -1:
    head.put(rows)
    rows.put(SEEN_AT, at)
    rows.put(SEEN_AT + 1, field.direction)
    rows.put(SEEN_AT + 2, field.topic)
    rows.put(SEEN_AT + 3, field.topic_id)
    rows.column(SEEN_AT + 4).put_integer(field.partition)
    return rows.put(SEEN_AT + 5, field.error_code)


cdef tuple _count(Batch message, int64_t spent):
    """Count the records in a message of magic 0 or 1, whose header does not tell; return also how many bytes were unpacked."""
    if not message.is_wrapper:
        return 1, 0
    opened = message.open(DEFAULT_LIMITS.after(spent))
    readable = opened.error is None and opened.skipped is None
    return opened.claimed if readable else None, opened.unpacked_size


cdef int put_header(Rows rows, Batch batch, count) except -1:
    """Set the columns from base_offset to crc_valid."""
    cdef Py_ssize_t at = BASE_OFFSET
    cdef const uint8_t *header = batch.at
    rows.put(at + 2, count)
    rows.column(at + 3).put_integer(batch.size)
    rows.put(at + 4, batch.compression)
    rows.column(at + 5).put_integer(batch.magic)
    rows.put(at + 6, batch.timestamp_type)
    rows.put(at + 15, batch.has_valid_crc())
    if batch.magic < 2:
        rows.put(at, batch.base_offset)
        rows.put(at + 1, batch.last_offset)
        return put_record_instant(rows, at + 8, <int64_t>be64(header + 18)) if batch.magic else 0
    rows.column(at).put_integer(<int64_t>be64(header))
    rows.column(at + 1).put_integer(<int64_t>(be64(header) + <uint64_t><int64_t><int32_t>be32(header + 23)))
    put_record_instant(rows, at + 7, <int64_t>be64(header + 27))
    put_record_instant(rows, at + 8, <int64_t>be64(header + 35))
    rows.column(at + 9).put_integer(<int32_t>be32(header + 12))
    rows.column(at + 10).put_integer(<int64_t>be64(header + 43))
    rows.column(at + 11).put_integer(<int16_t>be16(header + 51))
    rows.column(at + 12).put_integer(<int32_t>be32(header + 53))
    rows.put(at + 13, batch.is_transactional)
    return rows.put(at + 14, batch.is_control)
