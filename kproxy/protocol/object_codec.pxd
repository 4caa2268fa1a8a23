# cython: language_level=3
"""Bytes to objects, for compiled code."""

from kproxy.protocol.program cimport Program

cpdef object decode(Program program, bytes data, Py_ssize_t start=*, Py_ssize_t trailing=*)
