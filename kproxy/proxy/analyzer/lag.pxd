# cython: language_level=3
"""GroupLag for compiled code that counts each exchange; what it does is in lag.pyx."""

from libc.stdint cimport int64_t

from kproxy.protocol.found cimport NamedPartition
from kproxy.session.exchanges cimport Exchange, Frame


cdef class GroupLag:
    cdef readonly object _ends  # type: OrderedDict[Place, int]
    cdef readonly object _groups  # type: OrderedDict[GroupKey, GroupCommits]
    cdef readonly int64_t _commits  # of all groups
    cdef int64_t _most
    cdef double _idle
    cdef double _now

    cpdef int note_fetched(self, Exchange exchange, list partitions) except -1
    cpdef int note_produced(self, Exchange exchange, list partitions) except -1
    cpdef int note_listed(self, Exchange exchange) except -1
    cpdef int note_committed(self, Exchange exchange) except -1


cdef list partitions_of(Frame frame)
cdef str name_of(NamedPartition partition, names)
