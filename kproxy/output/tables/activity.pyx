# cython: language_level=3, nonecheck=True
"""Rows of the table topic_activity: what a connection produced to and fetched from each partition, counted by the minute.

Counts are held until the connection moves on to another minute, has MOST_KEYS of them, or ends; later counts for the same minute
begin another row. Only the exchanges of the connection decide this, so the rows are the same however a capture is divided among
processes. The exception: if all connections together hold too many counts (MOST_HELD in kproxy.output.tables.tables), rows are
written early.
"""

from libc.stdint cimport int64_t

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport RecordsField

cdef int64_t MINUTE_US = 60_000_000

cdef enum:
    MOST = 10_000

MOST_KEYS: int = MOST  # minutes, partitions, client ids and directions of one connection


cdef class Count:
    """The counts of one key."""

    cdef int64_t last  # exchange that was counted last
    cdef int64_t exchanges
    cdef int64_t batches
    cdef int64_t records
    cdef int64_t size
    cdef int64_t refused


cdef class Activity:
    """The counts of one connection."""

    def __init__(self, str connection_id not None):
        self.connection_id = connection_id
        self._counts = {}

    cdef Py_ssize_t add(
        self, Rows rows, int64_t number, client_id, at, RecordsField field, int64_t batches, int64_t records
    ) except -1:
        """Count a records field, and write rows that are complete. Return how many keys are held now."""
        cdef Count count
        cdef int64_t minute = 0
        cdef object begins = None
        if at is not None:
            minute = <int64_t>at
            minute -= minute % MINUTE_US
            begins = minute
            if self._has_newest and minute > self._newest:
                self.write(rows)
            if not self._has_newest or minute > self._newest:
                self._newest, self._has_newest = minute, True
        key = begins, field.topic, field.topic_id, field.partition, client_id, field.direction
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= MOST:
                self.write(rows)
            count = self._counts[key] = Count()
        if count.last != number:
            count.last = number
            count.exchanges += 1
        count.batches += batches
        count.records += records
        count.size += len(field.data)
        if field.error_code:
            count.refused += records
        return len(self._counts)

    cdef Py_ssize_t held(self) noexcept:
        """Return how many keys are held."""
        return len(self._counts)

    cdef Py_ssize_t write(self, Rows rows) except -1:
        """Write all counts as rows and forget them. Return how many there were."""
        cdef Py_ssize_t held = len(self._counts)
        cdef Count count
        for key, count in self._counts.items():
            minute, topic, topic_id, partition, client_id, direction = key
            rows.put((minute, topic, topic_id, partition, client_id, self.connection_id, direction))
            rows.put((count.exchanges, count.batches, count.records, count.size, count.refused))
            rows.end()
        self._counts.clear()
        return held
