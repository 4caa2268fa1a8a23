# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Cutting one direction of a connection into frames. Not here: what a frame means, finding a lost frame boundary."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from kproxy.protocol.wire cimport be32
from kproxy.session.events cimport Frame

cdef enum:
    SIZE_FIELD = 4


cdef inline int32_t size_at(const char *at) noexcept:
    return <int32_t>be32(<const uint8_t *>at)


cdef Frame new_frame(const char *data, Py_ssize_t size, int64_t started_at, int64_t ended_at):
    cdef Frame frame = Frame.__new__(Frame)
    frame.data = PyBytes_FromStringAndSize(data, size)
    frame.started_at = started_at
    frame.ended_at = ended_at
    return frame


cdef class FrameBuffer:
    """Cuts the bytes of one direction into frames, whatever the chunks; holds no more than what came of one frame.

    ``push`` a chunk, then call ``next`` until it gives None. A size field that is negative or above ``limit`` stops it:
    ``refused`` is then that size, and ``rest`` gives back everything from that size field on.
    """

    def __init__(self, int64_t limit):
        self.limit = limit
        self.needed = SIZE_FIELD
        self.chunk = b""

    @property
    def held(self):
        """Bytes of an unfinished frame, its size field included."""
        return 0 if self.partial is None else len(self.partial)

    @property
    def missing(self):
        """Bytes that the unfinished frame still lacks; None when its size field is not whole, 0 when there is none."""
        if self.partial is None:
            return 0
        return self.needed - len(self.partial) if len(self.partial) >= SIZE_FIELD else None

    cpdef int push(self, bytes chunk, int64_t at) except -1:
        """Take a chunk that arrived at *at* (ns); the one before must have been used up."""
        if chunk is None:
            raise TypeError("bytes are wanted, not None")
        self.chunk = chunk
        self.position = 0
        self.at = at
        return 0

    cpdef Frame next(self):
        """The next whole frame, or None when the chunk is used up or a size was refused."""
        cdef Py_ssize_t left = PyBytes_GET_SIZE(self.chunk) - self.position
        cdef const char *at = PyBytes_AS_STRING(self.chunk) + self.position
        cdef int32_t size
        if self.partial is not None or self.refused is not None:
            return self.next_from_pieces()
        if left == 0:
            return None
        if left < SIZE_FIELD:
            return self.next_from_pieces()
        size = size_at(at)
        if size < 0 or size > self.limit or size > left - SIZE_FIELD:
            return self.next_from_pieces()
        self.position += SIZE_FIELD + size
        self.count += 1
        return new_frame(at + SIZE_FIELD, size, self.at, self.at)

    cdef Frame next_from_pieces(self):
        """As ``next``, for a frame that does not lie whole in the chunk."""
        cdef int32_t size
        cdef bytearray partial = self.partial
        cdef Frame frame
        if self.refused is not None:
            return None
        if partial is None:
            partial = self.partial = bytearray()
            self.started_at = self.at
            self.needed = SIZE_FIELD
        if PyByteArray_GET_SIZE(partial) < SIZE_FIELD:
            self.take(partial, SIZE_FIELD)
            if PyByteArray_GET_SIZE(partial) < SIZE_FIELD:
                return None
            size = size_at(PyByteArray_AS_STRING(partial))
            if not 0 <= size <= self.limit:
                self.refused = size
                return None
            self.needed = <int64_t>size + SIZE_FIELD
        self.take(partial, self.needed)
        if PyByteArray_GET_SIZE(partial) < self.needed:
            return None
        frame = new_frame(
            PyByteArray_AS_STRING(partial) + SIZE_FIELD, PyByteArray_GET_SIZE(partial) - SIZE_FIELD, self.started_at, self.at
        )
        self.partial = None
        self.count += 1
        return frame

    cdef int take(self, bytearray partial, int64_t until) except -1:
        """Move bytes of the chunk to *partial* until it has that many, or the chunk is used up."""
        cdef Py_ssize_t end = self.position + until - PyByteArray_GET_SIZE(partial)
        end = min(end, PyBytes_GET_SIZE(self.chunk))
        partial += self.chunk[self.position : end]
        self.position = end
        return 0

    def rest(self):
        """Give back what was not cut, as (bytes, time) in order, and start anew."""
        pieces = []
        if self.partial is not None:
            pieces.append((bytes(self.partial), self.started_at))
        if self.position < len(self.chunk):
            pieces.append((self.chunk[self.position :], self.at))
        self.partial = None
        self.refused = None
        self.chunk = b""
        self.position = 0
        return pieces
