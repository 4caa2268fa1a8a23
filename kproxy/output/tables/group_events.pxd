# cython: language_level=3

from kproxy.output.tables.rows cimport Body
from kproxy.session.exchanges cimport Exchange


cpdef list group_events(Exchange exchange, Body request, Body response)
