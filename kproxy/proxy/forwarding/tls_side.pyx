# cython: language_level=3, boundscheck=False, wraparound=False
"""TLS of one side of a link: decrypts what its socket receives and encrypts what is sent to it; the sockets are the pipes'.

OpenSSL works between two buffers in memory (BIOs). They keep at most one incomplete record, as all complete records are decrypted
and all encrypted bytes are taken out at once. So a link over TLS has the same buffers, with the same bounds, as one between plain
sockets. uvloop's transports keep more than they report, and drop what is written after the peer's close_notify
(SSLProtocol._start_shutdown).

Half-close: close_notify ends one direction only (RFC 8446, 6.1). A client that has sent it still gets its responses.
"""

from ssl import MemoryBIO, SSLObject

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t

import ssl

cdef object WantRead = ssl.SSLWantReadError
cdef object ZeroReturn = ssl.SSLZeroReturnError
cdef object Error = ssl.SSLError


cdef class TlsSide:
    """Made of what a handshake has left: the SSLObject and its two MemoryBIOs."""

    def __init__(self, ssl_object: SSLObject, incoming: MemoryBIO, outgoing: MemoryBIO):
        self.ssl_object = ssl_object
        self.incoming = incoming
        self.outgoing = outgoing
        self.feed = incoming.write
        self.read = ssl_object.read
        self.pending = ssl_object.pending
        self.write = ssl_object.write
        self.take = outgoing.read

    cdef Py_ssize_t decrypt(self, const uint8_t *data, size_t size, uint8_t *plain, size_t room) except -1:
        """Decrypt received bytes, and what was received before, to *plain*; return how many bytes that are. Raises SSLError.

        The *room* must be *size* and two records more.
        """
        cdef size_t got = 0
        cdef size_t n
        while not self.ended:
            if size:
                n = min(size, <size_t>PIECE)
                self.feed(PyMemoryView_FromMemory(<char *>data, n, PyBUF_READ))
                data += n
                size -= n
            while self.incoming.pending or self.pending():  # without this WantRead would be raised each time
                try:
                    n = self.read(room - got, PyMemoryView_FromMemory(<char *>plain + got, room - got, PyBUF_WRITE))
                except WantRead:
                    break
                except ZeroReturn:
                    n = 0
                if n == 0:
                    self.ended = True
                    break
                got += n
            if not size:
                break
        return got

    cdef bytes encrypt(self, const uint8_t *data, size_t size):
        """Return what to send for *data*, at most PIECE bytes. Raises SSLError."""
        self.write(PyMemoryView_FromMemory(<char *>data, size, PyBUF_READ))
        return self.take()

    cdef bytes due(self):
        """Return what TLS itself has to send, such as the answer to a key update; usually nothing."""
        return self.take() if self.outgoing.pending else b""

    cdef bytes goodbye(self):
        """Return close_notify, which ends what is sent; empty if it was sent already or cannot be sent."""
        try:
            self.ssl_object.unwrap()
        except Error:  # WantRead too: the peer's own close_notify has not come, and is not waited for
            pass
        return self.take()
