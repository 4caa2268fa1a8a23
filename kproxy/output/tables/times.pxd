# cython: language_level=3
"""Times for Arrow, for compiled code."""

from libc.stdint cimport int64_t

cpdef object instant(int64_t at)
cdef object record_instant(int64_t at)
