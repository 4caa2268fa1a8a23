# cython: language_level=3
"""Rows of exchanges, for compiled code; meanings are in exchanges.pyi."""

from libc.stdint cimport int64_t

from kproxy.output.tables.bodies cimport Body
from kproxy.output.tables.gather cimport Found
from kproxy.session.exchanges cimport Exchange

cpdef tuple exchange_row(int64_t number, Exchange exchange, Found found, list top, object undecoded)
cpdef Found gather_bodies(Exchange exchange, Body request, Body response)
cpdef list top_fields(Body request, Body response)
