# cython: language_level=3

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Body
from kproxy.session.exchanges cimport Exchange


cpdef tuple find_offsets(Body request, Body response, object names)
cpdef int write_offsets(Rows rows, tuple head, Exchange exchange, str kind, list offsets) except -1
