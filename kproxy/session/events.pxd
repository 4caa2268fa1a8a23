# cython: language_level=3
"""Frames and exchanges, for compiled code that makes or reads many of them; the fields' meanings are in events.pyi."""

from libc.stdint cimport int64_t


cdef class Frame:
    cdef public bytes data
    cdef public int64_t started_at
    cdef public int64_t ended_at
    cdef public object header
    cdef public Py_ssize_t body_start
    cdef public object message
    cdef public int body_version
    cdef public object layout
    cdef public object assumed_version
    cdef public object error
    cdef public bint cut
    cdef public bint unread


cdef class Event:
    cdef public object connection
    cdef public int64_t at


cdef class Exchange(Event):
    cdef public object api_key
    cdef public object api_version
    cdef public object correlation_id
    cdef public object client_id
    cdef public Frame request
    cdef public Frame response
    cdef public bint expects_response
    cdef public object unanswered
    cdef public object undecoded
    cdef public object topic_names
    cdef public object fetch_sessions
    cdef public int64_t fetch_number
