# cython: language_level=3
"""The numbers of kproxy.protocol.Direction for compiled code: indexes of pairs, one for each direction."""


cdef enum:
    DIRECTION_REQUEST = 0  # client to broker
    DIRECTION_RESPONSE = 1  # broker to client
