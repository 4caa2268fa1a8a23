# cython: language_level=3

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Body
from kproxy.session.exchanges cimport Exchange


cpdef int write_offsets(Rows rows, tuple head, Exchange exchange, Body request, Body response) except -1
