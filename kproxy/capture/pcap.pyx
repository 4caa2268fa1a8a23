"""Classic pcap files (draft-ietf-opsawg-pcap): where the packets lie. Either byte order, micro- and nanoseconds.

The "modified" format of Alexey Kuznetsov's patches to libpcap is the same with eight more bytes before each packet
(interface index, protocol, packet type), which are passed over.
"""

from libc.stdint cimport int64_t, uint16_t, uint32_t

from kproxy.capture.packets cimport PacketBatch, PacketRef
from kproxy.capture.spans cimport Span, file16, file32

MAX_PACKET_SIZE = 262_144  # as libpcap's MAXIMUM_SNAPLEN
FILE_HEADER_SIZE = 24
cdef Py_ssize_t RECORD_HEADER_SIZE = 16
cdef Py_ssize_t MODIFIED_HEADER_SIZE = 24
cdef uint32_t PACKET_LIMIT = 262_144

MAGICS = {
    bytes.fromhex("a1b2c3d4"): (True, 1000),
    bytes.fromhex("d4c3b2a1"): (False, 1000),
    bytes.fromhex("a1b2cd34"): (True, 1000),  # modified
    bytes.fromhex("34cdb2a1"): (False, 1000),
    bytes.fromhex("a1b23c4d"): (True, 1),
    bytes.fromhex("4d3cb2a1"): (False, 1),
}


cdef class PcapScanner:
    """Finds the packets of a pcap file in buffers of it.

    Args:
        header: the first 24 bytes of the file, which begin with one of MAGICS.
    """

    def __init__(self, header):
        self.big_endian, self._fraction_ns = MAGICS[bytes(header[:4])]
        modified = bytes(header[:4]) in (b"\xa1\xb2\xcd\x34", b"\x34\xcd\xb2\xa1")
        self._record_header = MODIFIED_HEADER_SIZE if modified else RECORD_HEADER_SIZE
        cdef const unsigned char[::1] view = bytes(header[:FILE_HEADER_SIZE])
        cdef Span span
        span.data, span.size, span.overrun = &view[0], view.shape[0], False
        if file16(&span, 4, self.big_endian) != 2:
            self.problem = f"pcap format {file16(&span, 4, self.big_endian)} is not known, only 2"
        self.snaplen = file32(&span, 16, self.big_endian)
        self.link_type = <uint16_t>(file32(&span, 20, self.big_endian) & 0xFFFF)  # the rest says how long the FCS is

    cpdef Py_ssize_t scan(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Add the packets that lie whole in bytes *start* to *stop* of the batch's buffer; return where the rest begins.

        Afterwards *needed* is how many bytes the next record takes (0: not known), and *problem* says why the
        file cannot be read on at the place returned, if it cannot.
        """
        cdef Span span
        cdef PacketRef* ref
        cdef uint32_t size
        cdef uint32_t original
        cdef Py_ssize_t header_size = self._record_header
        if stop > batch.view.shape[0] or start < 0:
            raise IndexError("outside the buffer")
        self.needed = 0
        if stop <= start:
            return start
        span.data, span.size, span.overrun = &batch.view[0], stop, False
        while self.problem is None and not batch.full() and stop - start >= header_size:
            size = file32(&span, start + 8, self.big_endian)
            original = file32(&span, start + 12, self.big_endian)
            if size > PACKET_LIMIT:
                self.problem = f"a packet of {size} bytes; no capture holds one of more than {PACKET_LIMIT}"
                break
            if stop - start < header_size + <Py_ssize_t>size:
                self.needed = header_size + <Py_ssize_t>size
                break
            if size > original:
                self.sizes_contradict += 1
                original = size
            ref = batch.add()
            ref.time_ns = <int64_t>file32(&span, start, self.big_endian) * 1_000_000_000
            ref.time_ns += <int64_t>file32(&span, start + 4, self.big_endian) * self._fraction_ns
            ref.start = start + header_size
            ref.size = size
            ref.original_size = original
            ref.link_type = self.link_type
            ref.options_size = 0
            start += header_size + <Py_ssize_t>size
        return start
