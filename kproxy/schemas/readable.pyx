# cython: language_level=3
"""Values as JSON has them. Compiled because every key and value by a schema comes through here, field by field."""

import base64

from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from libc.math cimport isfinite

MOST_DEPTH: int = 64  # levels of dicts and lists; as kproxy.protocol.embedded.viewers shows them
cdef int DEEPEST = MOST_DEPTH


def readable(value: object) -> object:
    """Return a value as JSON has it: bytes in base64, NaN and infinities as text. Dicts and lists are changed in place.

    Raises RecursionError beyond MOST_DEPTH levels.
    """
    return _readable(value, 0)


cdef object _readable(object value, int depth):
    cdef PyObject *name = NULL
    cdef PyObject *held = NULL
    cdef Py_ssize_t at = 0
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool:
        return value
    if kind is float:
        return value if isfinite(<double>value) else str(value)
    if depth > DEEPEST:
        raise RecursionError(f"a value of more than {DEEPEST} levels")
    if kind is dict:
        while PyDict_Next(value, &at, &name, &held):
            inner = <object>held
            kind = type(inner)
            if kind is str or kind is int or inner is None or kind is bool or (kind is float and isfinite(<double>inner)):
                continue
            shown = _readable(inner, depth + 1)
            if shown is not inner:
                value[<object>name] = shown  # the keys stay the same, so the walk goes on
        return value
    if kind is list:
        for at in range(len(value)):
            inner = value[at]
            shown = _readable(inner, depth + 1)
            if shown is not inner:
                value[at] = shown
        return value
    if kind is bytes:
        return base64.b64encode(value).decode()
    return [_readable(inner, depth + 1) for inner in value] if kind is tuple else str(value)
