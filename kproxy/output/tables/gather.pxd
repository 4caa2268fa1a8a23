# cython: language_level=3
"""Slots, plans and what they find, for compiled code; meanings are in gather.pyi."""

from cpython.object cimport PyObject


cdef class Slot:
    cdef readonly str name
    cdef Py_ssize_t offset  # of the slot in an instance
    cdef PyObject *owner  # the class whose instances have it there; classes of messages live as long as the process

    cdef object of(self, object struct)


cdef class Found:
    cdef readonly dict error_codes
    cdef readonly dict topics
    cdef readonly dict topic_ids
    cdef readonly dict groups
    cdef readonly dict transactional_ids
    cdef public Py_ssize_t partitions

    cdef dict into(self, int kind)


cdef class Plan:
    cdef tuple error_codes  # Slots
    cdef tuple names  # (Slot, which dict of Found, whether it is an array)
    cdef Slot topic_id
    cdef Slot partitions
    cdef tuple children  # (Slot, whether it is an array, Plan)


cpdef Plan plan_of(str message, int version)
cpdef int gather(Plan plan, object struct, Found found) except -1
