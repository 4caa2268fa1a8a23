# cython: language_level=3
"""Direct access to the slots of message objects (kproxy.protocol.structs)."""

from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <Python.h>
    #include <structmember.h>
    #ifndef KP_SLOT_OFFSET
    #define KP_SLOT_OFFSET
    static inline Py_ssize_t kp_slot_offset(PyObject *descriptor) {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    #endif
    """
    Py_ssize_t slot_offset "kp_slot_offset"(object descriptor)  # -1: not the descriptor of a slot


cdef inline PyObject **slot(object instance, Py_ssize_t offset) noexcept:
    return <PyObject **>(<char *><PyObject *>instance + offset)
