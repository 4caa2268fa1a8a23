# cython: language_level=3

from kproxy.output.tables.body cimport Body
from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Head
from kproxy.session.exchanges cimport Exchange


cpdef list group_events(Body request, Body response, object names)
cdef int write_group_events(Rows rows, Head head, Exchange exchange, list events) except -1
