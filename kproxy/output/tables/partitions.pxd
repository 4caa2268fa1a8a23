# cython: language_level=3

from kproxy.output.tables.body cimport Body
from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Head
from kproxy.session.exchanges cimport Exchange


cdef bint has_states(Body response)
cdef int write_states(Rows rows, Head head, Exchange exchange, Body response, dict known) except -1
cdef int write_deliveries(Rows rows, Head head, Exchange exchange, Body request, Body response) except -1
