# cython: language_level=3

from kproxy.output.tables.columns cimport Rows
from kproxy.output.tables.rows cimport Body
from kproxy.session.exchanges cimport Exchange


cpdef list group_events(Body request, Body response, object names)
cpdef int write_group_events(Rows rows, tuple head, Exchange exchange, list events) except -1
