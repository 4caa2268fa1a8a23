# cython: language_level=3
"""Which topic a struct is about, for compiled code."""

cpdef tuple topic_of(object name, object topic_id, object names)
