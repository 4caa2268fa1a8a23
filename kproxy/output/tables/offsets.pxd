# cython: language_level=3

from kproxy.output.tables.body cimport Body
from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Head
from kproxy.session.exchanges cimport Exchange


cdef int write_offsets(Rows rows, Head head, Exchange exchange, Body request, Body response) except -1
