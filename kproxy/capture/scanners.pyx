"""Find packets in a buffer of a capture file: PcapScanner and PcapngScanner; PacketBatch holds their positions.

    scan(batch, start, stop) -> position     both scanners: add the complete packets in the batch's buffer

pcap (draft-ietf-opsawg-pcap): either byte order, micro- and nanoseconds. The "modified" format of Alexey Kuznetsov's patches
to libpcap has eight more bytes before each packet (interface index, protocol, packet type), which are skipped.
pcapng (draft-ietf-opsawg-pcapng): packets of all three block types, the clock of each interface, TLS secrets.

To add a file format: write a scanner with the members of kproxy.capture.reader.Scanner, and choose it by its first bytes
in Capture._detect.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from kproxy.capture.spans cimport Span, be32, file16, file32

from kproxy.capture.items import Packet

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

BATCH_PACKETS = 4096
FILE_HEADER_SIZE = 24  # of pcap
MAX_PACKET_SIZE: int = PACKET_LIMIT
MAX_BLOCK_SIZE: int = BLOCK_LIMIT
MAX_INTERFACES: int = INTERFACE_LIMIT

cdef const uint8_t* EMPTY = b""

cdef enum:  # options of pcapng blocks (draft-ietf-opsawg-pcapng, section 3.5 and those of each block)
    OPTION_END = 0
    OPTION_COMMENT = 1
    OPTION_TIME_RESOLUTION = 9
    OPTION_TIME_OFFSET = 14

cdef enum:
    PACKET_LIMIT = 262_144  # as libpcap's MAXIMUM_SNAPLEN
    BLOCK_LIMIT = 16 << 20  # as libpcap's
    INTERFACE_LIMIT = 65_536
    DESCRIPTIONS_LIMIT = 4 << 20  # bytes
    RECORD_HEADER_SIZE = 16
    MODIFIED_HEADER_SIZE = 24


cdef class PacketBatch:
    """The positions of packets in a buffer that a reader lends; valid until the reader's next batch."""

    def __cinit__(self, Py_ssize_t capacity=BATCH_PACKETS):
        if not 0 < capacity <= 1 << 20:
            raise ValueError("a batch holds between 1 and 1,048,576 packets")
        self.refs = <PacketRef*>calloc(capacity, sizeof(PacketRef))
        if self.refs == NULL:
            raise MemoryError
        self.capacity = capacity
        self.count = 0

    def __dealloc__(self):
        self._release()
        free(self.refs)

    def __len__(self):
        return self.count

    def lend(self, buffer: ReadableBuffer) -> None:
        """Start over with packets in *buffer*, which must not be resized or freed before ``clear``."""
        self._release()
        PyObject_GetBuffer(buffer, &self._buffer, PyBUF_SIMPLE)
        self.lent = EMPTY if self._buffer.buf == NULL else <const uint8_t*>self._buffer.buf
        self.size = self._buffer.len

    def clear(self) -> None:
        """Drop the packets and release the buffer."""
        self._release()

    cdef void _release(self) noexcept:
        self.count = 0
        self.size = 0
        if self.lent != NULL:
            self.lent = NULL
            PyBuffer_Release(&self._buffer)

    def add_packet(self, packet: Packet) -> None:
        """Add a Packet whose bytes are the lent buffer; for packets that are not from a file."""
        cdef PacketRef* ref = self.add()
        ref.time_ns = packet.time_ns
        ref.link_type = packet.link_type
        ref.start = 0
        ref.size = <uint32_t>min(<Py_ssize_t>len(packet.data), self.size)
        ref.original_size = max(ref.size, <uint32_t>min(packet.original_size, 0xFFFFFFFF))

    def __iter__(self) -> Iterator[Packet]:
        return iter([self.packet(index) for index in range(self.count)])

    def packet(self, Py_ssize_t index) -> Packet:
        """Return packet *index* as an object with its own bytes."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        cdef PacketRef* ref = &self.refs[index]
        return Packet(ref.time_ns, ref.link_type, self.bytes_at(index), ref.original_size, self._comment(ref))

    def time_at(self, Py_ssize_t index) -> int:
        """Return the time of packet *index* in ns."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.refs[index].time_ns

    def first_after(self, Py_ssize_t index, int64_t time_ns) -> int:
        """Return the first packet from *index* on that is later than a time; ``count`` if there is none."""
        while 0 <= index < self.count and self.refs[index].time_ns <= time_ns:
            index += 1
        return index

    def bytes_at(self, Py_ssize_t index) -> bytes:
        """Return the bytes of packet *index*."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        cdef PacketRef* ref = &self.refs[index]
        return PyBytes_FromStringAndSize(<const char*>self.data(ref), ref.size)

    cdef bytes copy(self, Py_ssize_t start, Py_ssize_t stop):
        # Returns a copy of the bytes from start to stop of the buffer.
        if not 0 <= start <= stop <= self.size:
            raise IndexError("outside the buffer")
        return PyBytes_FromStringAndSize(<const char*>self.lent + start, stop - start)

    cdef object _comment(self, PacketRef* ref):
        if ref.options_size == 0:
            return None
        options = self.copy(ref.options_start, ref.options_start + <Py_ssize_t>ref.options_size)
        for code, value in read_options(options, bool(ref.big_endian)):
            if code == OPTION_COMMENT:
                return value.decode("utf-8", "replace")
        return None

    cdef bint full(self) noexcept:
        return self.count >= self.capacity

    cdef PacketRef* add(self) except NULL:
        if self.count >= self.capacity:
            raise IndexError("the batch is full")
        self.count += 1
        return &self.refs[self.count - 1]

    cdef const uint8_t* data(self, PacketRef* ref) except NULL:
        # Only here does a packet's position in the buffer become a pointer.
        if ref.size == 0:
            return EMPTY
        if ref.start < 0 or ref.start > self.size - <Py_ssize_t>ref.size:
            raise IndexError("packet outside its buffer")
        return self.lent + ref.start


# pcap

MAGICS: dict[bytes, tuple[bool, int]] = {
    bytes.fromhex("a1b2c3d4"): (True, 1000),
    bytes.fromhex("d4c3b2a1"): (False, 1000),
    bytes.fromhex("a1b2cd34"): (True, 1000),  # modified
    bytes.fromhex("34cdb2a1"): (False, 1000),
    bytes.fromhex("a1b23c4d"): (True, 1),
    bytes.fromhex("4d3cb2a1"): (False, 1),
}


cdef class PcapScanner:
    """Finds the packets of a pcap file in buffers of its bytes.

    Args:
        header: the first 24 bytes of the file, which begin with one of MAGICS.
    """

    cdef readonly str problem  # type: str | None
    cdef readonly Py_ssize_t needed
    cdef readonly bint big_endian
    cdef readonly uint16_t link_type
    cdef readonly uint32_t snaplen
    cdef readonly uint64_t sizes_contradict
    cdef int64_t _fraction_ns
    cdef Py_ssize_t _record_header

    def __init__(self, header: bytes):
        self.big_endian, self._fraction_ns = MAGICS[bytes(header[:4])]
        modified = bytes(header[:4]) in (b"\xa1\xb2\xcd\x34", b"\x34\xcd\xb2\xa1")
        self._record_header = MODIFIED_HEADER_SIZE if modified else RECORD_HEADER_SIZE
        cdef bytes fixed = bytes(header[:FILE_HEADER_SIZE])
        cdef Span span
        span.data, span.size, span.overrun = <const uint8_t*><const char*>fixed, len(fixed), False
        if file16(&span, 4, self.big_endian) != 2:
            self.problem = f"pcap format {file16(&span, 4, self.big_endian)} is not known, only 2"
        self.snaplen = file32(&span, 16, self.big_endian)
        self.link_type = <uint16_t>(file32(&span, 20, self.big_endian) & 0xFFFF)  # the upper half: how long the FCS is

    cpdef Py_ssize_t scan(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Add the packets that lie completely in bytes *start* to *stop* of the buffer; return where the rest begins.

        Afterwards *needed* is the size of the next record in bytes (0: unknown). *problem* is the reason why the file cannot
        be read beyond the returned position, or None.
        """
        cdef Span span
        cdef PacketRef* ref
        cdef uint32_t size
        cdef uint32_t original
        cdef Py_ssize_t header_size = self._record_header
        if stop > batch.size or start < 0:
            raise IndexError("outside the buffer")
        self.needed = 0
        if stop <= start:
            return start
        span.data, span.size, span.overrun = batch.lent, stop, False
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


# pcapng

SECTION_MAGIC: bytes = bytes.fromhex("0a0d0d0a")

cdef enum:
    SECTION = 0x0A0D0D0A
    INTERFACE = 1
    OBSOLETE_PACKET = 2
    SIMPLE_PACKET = 3
    ENHANCED_PACKET = 6
    SECRETS = 10
    BYTE_ORDER = 0x1A2B3C4D
    SWAPPED_BYTE_ORDER = 0x4D3C2B1A

cdef uint64_t SECOND = 1_000_000_000


cdef struct Clock:
    int64_t offset_ns
    uint64_t scale  # nanoseconds in a unit, or units in a nanosecond if fine
    uint32_t digits
    bint fine
    bint binary


cdef struct InterfaceRef:
    Clock clock
    uint32_t snaplen
    uint16_t link_type


def read_options(bytes data not None, bint big_endian) -> Iterator[tuple[int, bytes]]:
    """Yield (code, value) up to the end marker or the first option that does not fit; a bad option is not an error."""
    order = "big" if big_endian else "little"
    at = 0
    while at + 4 <= len(data):
        code = int.from_bytes(data[at : at + 2], order)
        size = int.from_bytes(data[at + 2 : at + 4], order)
        if code == OPTION_END or at + 4 + size > len(data):
            return
        yield code, data[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4


cdef Clock read_clock(bytes options, bint big_endian) except *:
    """Return how an interface counts time: units of 1/10^digits or 1/2^digits second since 1970 + offset seconds."""
    cdef Clock clock
    digits, offset = 6, 0
    clock.binary = False
    for code, value in read_options(options, big_endian):
        if code == OPTION_TIME_RESOLUTION and len(value) == 1:
            digits, clock.binary = value[0] & 0x7F, value[0] & 0x80 != 0
        elif code == OPTION_TIME_OFFSET and len(value) == 8:
            offset = int.from_bytes(value, "big" if big_endian else "little", signed=True)
    clock.offset_ns = max(INT64_MIN, min(INT64_MAX, offset * 1_000_000_000))
    clock.digits = digits
    clock.fine = digits > 9
    clock.scale = 1 if clock.binary else min(10 ** abs(9 - digits), 10 ** 19)
    return clock


cdef inline int64_t time_of(Clock* clock, uint64_t units) noexcept nogil:
    # Nanoseconds since 1970. Times that an int64 cannot hold (after 2262, or a hostile clock) become its largest value.
    cdef uint64_t ns
    cdef uint64_t seconds
    cdef uint64_t fraction
    if clock.binary:
        seconds = units >> clock.digits if clock.digits < 64 else 0
        fraction = units - (seconds << clock.digits) if clock.digits < 64 else 0
        if seconds > <uint64_t>INT64_MAX // SECOND:
            return INT64_MAX
        if clock.digits > 34:
            fraction >>= clock.digits - 34 if clock.digits < 64 else 63
        ns = seconds * SECOND + ((fraction * SECOND) >> min(clock.digits, <uint32_t>34))
    elif clock.fine:
        ns = units // clock.scale
    else:
        if units > <uint64_t>INT64_MAX // clock.scale:
            return INT64_MAX
        ns = units * clock.scale
    if ns > <uint64_t>INT64_MAX:
        return INT64_MAX
    if clock.offset_ns > 0 and <int64_t>ns > INT64_MAX - clock.offset_ns:
        return INT64_MAX
    return <int64_t>ns + clock.offset_ns


cdef class PcapngScanner:
    """Finds the packets of a pcapng file in buffers of its bytes.

    Args:
        secrets_limit: total bytes of decryption secrets blocks to keep; further blocks are counted.

    descriptions: the current section header and interface descriptions, as in the file: what another reader needs to continue
    here. Incomplete beyond DESCRIPTIONS_LIMIT bytes.
    """

    cdef readonly str problem  # type: str | None
    cdef readonly Py_ssize_t needed
    cdef readonly bint big_endian
    cdef readonly list secrets  # type: list[tuple[int, bytes]]
    cdef readonly list descriptions  # type: list[bytes]
    cdef readonly bint descriptions_whole
    cdef Py_ssize_t _descriptions_size
    cdef readonly uint64_t secrets_passed_over
    cdef readonly uint64_t sizes_contradict
    cdef readonly uint64_t blocks_passed_over
    cdef readonly uint64_t without_time
    cdef bint _in_section
    cdef Py_ssize_t _secrets_size
    cdef Py_ssize_t _secrets_limit
    cdef InterfaceRef* _interfaces
    cdef uint32_t _interface_count
    cdef uint32_t _interface_capacity
    cdef int64_t _last_time_ns

    def __init__(self, Py_ssize_t secrets_limit=16 << 20):
        self.secrets = []
        self.descriptions = []
        self.descriptions_whole = True
        self._secrets_limit = secrets_limit

    def __dealloc__(self):
        free(self._interfaces)

    cpdef Py_ssize_t scan(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Add the packets that lie completely in bytes *start* to *stop* of the buffer; return where the rest begins.

        Afterwards *needed* is the size of the next block in bytes (0: unknown), and *problem* as in PcapScanner.
        """
        cdef Span span
        cdef Py_ssize_t size
        if stop > batch.size or start < 0:
            raise IndexError("outside the buffer")
        self.needed = 0
        if stop <= start:
            return start
        span.data, span.size, span.overrun = batch.lent, stop, False
        while self.problem is None and not batch.full() and stop - start >= 12:
            size = self._block_size(&span, start)
            if self.problem is not None:
                break
            if stop - start < size:
                self.needed = size
                break
            if file32(&span, start + size - 4, self.big_endian) != size:
                self.problem = (
                    f"a block of {size} bytes ends with length {file32(&span, start + size - 4, self.big_endian)}"
                )
                break
            self._read_block(batch, &span, start, size)
            if self.problem is None:
                start += size
        return start

    cdef Py_ssize_t _block_size(self, Span* span, Py_ssize_t start) except -1:
        cdef uint32_t kind = be32(span, start)
        cdef uint32_t order
        cdef uint32_t size
        if kind == SECTION:
            order = be32(span, start + 8)
            if order != BYTE_ORDER and order != SWAPPED_BYTE_ORDER:
                self.problem = f"a section header with byte order {order:#010x}"
                return 0
            self.big_endian = order == BYTE_ORDER
        elif not self._in_section:
            self.problem = "a block before the first section header"
            return 0
        size = file32(span, start + 4, self.big_endian)
        if size < 12 or size % 4 != 0:
            self.problem = f"a block of {size} bytes; its length is at least 12 and a multiple of 4"
            return 0
        if size > BLOCK_LIMIT:
            self.problem = f"a block of {size} bytes; more than {BLOCK_LIMIT} are not read"
            return 0
        return size

    cdef int _read_block(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t size) except -1:
        cdef uint32_t kind = file32(span, start, self.big_endian)
        cdef Py_ssize_t end = start + size - 4
        if kind == ENHANCED_PACKET or kind == OBSOLETE_PACKET:
            return self._enhanced(batch, span, start + 8, end, kind)
        if kind == SIMPLE_PACKET:
            return self._simple(batch, span, start + 8, end)
        if kind == SECTION:
            if size < 28:
                self.problem = f"a section header of {size} bytes; 28 are the least"
                return 0
            self._begin_section()
            return self._keep_description(batch, start, size)
        if kind == INTERFACE:
            self._add_interface(span, start + 8, batch.copy(start + 8, end))
            return self._keep_description(batch, start, size)
        if kind == SECRETS:
            return self._keep_secrets(batch, span, start + 8, end)
        self.blocks_passed_over += 1
        return 0

    cdef int _begin_section(self) except -1:
        self._in_section = True
        self._interface_count = 0
        self.descriptions.clear()
        self.descriptions_whole = True
        self._descriptions_size = 0
        return 0

    cdef int _keep_description(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t size) except -1:
        if self._descriptions_size + size > DESCRIPTIONS_LIMIT:
            self.descriptions_whole = False
        else:
            self._descriptions_size += size
            self.descriptions.append(batch.copy(start, start + size))
        return 0

    cdef int _add_interface(self, Span* span, Py_ssize_t start, bytes body) except -1:
        cdef InterfaceRef* interface
        cdef uint32_t capacity
        if len(body) < 8:
            self.problem = f"an interface description of {len(body)} bytes; 8 are the least"
            return 0
        if self._interface_count >= INTERFACE_LIMIT:
            self.problem = f"more than {INTERFACE_LIMIT} interfaces in a section"
            return 0
        if self._interface_count == self._interface_capacity:
            capacity = max(<uint32_t>8, self._interface_capacity * 2)
            interface = <InterfaceRef*>realloc(self._interfaces, capacity * sizeof(InterfaceRef))
            if interface == NULL:
                raise MemoryError
            self._interfaces, self._interface_capacity = interface, capacity
        interface = &self._interfaces[self._interface_count]
        interface.clock = read_clock(body[8:], self.big_endian)
        interface.link_type = file16(span, start, self.big_endian)
        interface.snaplen = file32(span, start + 4, self.big_endian)
        self._interface_count += 1
        return 0

    cdef int _keep_secrets(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t end) except -1:
        cdef uint32_t kind = file32(span, start, self.big_endian)
        cdef uint32_t size = file32(span, start + 4, self.big_endian)
        if end - start < 8 or end - start - 8 < <Py_ssize_t>size:
            self.problem = f"a decryption secrets block that claims {size} bytes and has {max(0, end - start - 8)}"
        elif self._secrets_size + <Py_ssize_t>size > self._secrets_limit or len(self.secrets) >= INTERFACE_LIMIT:
            self.secrets_passed_over += 1
        else:
            self._secrets_size += size
            self.secrets.append((kind, batch.copy(start + 8, start + 8 + <Py_ssize_t>size)))
        return 0

    cdef int _enhanced(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t end, uint32_t kind) except -1:
        cdef uint32_t interface = file32(span, start, self.big_endian)
        cdef uint64_t units
        cdef uint32_t size = file32(span, start + 12, self.big_endian)
        cdef PacketRef* ref
        if end - start < 20:
            self.problem = f"a packet block of {end - start + 12} bytes; 32 are the least"
            return 0
        if kind == OBSOLETE_PACKET:  # appendix A: a 16 bit interface, then a count of drops
            interface = file16(span, start, self.big_endian)
        ref = self._add_packet(batch, interface, start + 20, end, size, file32(span, start + 16, self.big_endian))
        if ref == NULL:
            return 0
        units = (<uint64_t>file32(span, start + 4, self.big_endian) << 32) | file32(span, start + 8, self.big_endian)
        ref.time_ns = time_of(&self._interfaces[interface].clock, units)
        self._last_time_ns = ref.time_ns
        ref.options_start = min(end, start + 20 + ((<Py_ssize_t>size + 3) // 4) * 4)
        ref.options_size = <uint32_t>(end - ref.options_start)
        ref.big_endian = self.big_endian
        return 0

    cdef int _simple(self, PacketBatch batch, Span* span, Py_ssize_t start, Py_ssize_t end) except -1:
        # The block has no time (use the previous packet's) and no captured size (use the snaplen and the block's size).
        cdef uint32_t original = file32(span, start, self.big_endian)
        cdef uint32_t size = original
        cdef PacketRef* ref
        if end - start < 4:
            self.problem = f"a simple packet block of {end - start + 12} bytes; 16 are the least"
            return 0
        if self._interface_count > 0 and 0 < self._interfaces[0].snaplen < size:
            size = self._interfaces[0].snaplen
        if <Py_ssize_t>size > end - start - 4:
            size = <uint32_t>(end - start - 4)
        ref = self._add_packet(batch, 0, start + 4, end, size, original)
        if ref != NULL:
            self.without_time += 1
            ref.time_ns = self._last_time_ns
            ref.options_size = 0
        return 0

    cdef PacketRef* _add_packet(
        self, PacketBatch batch, uint32_t interface, Py_ssize_t start, Py_ssize_t end, uint32_t size, uint32_t original
    ) except? NULL:
        cdef PacketRef* ref
        if interface >= self._interface_count:
            self.problem = f"a packet of interface {interface}, and {self._interface_count} are described"
            return NULL
        if size > PACKET_LIMIT:
            self.problem = f"a packet of {size} bytes; no capture holds one of more than {PACKET_LIMIT}"
            return NULL
        if <Py_ssize_t>size > end - start:
            self.problem = f"a packet of {size} bytes in a block that has {end - start} for it"
            return NULL
        if size > original:
            self.sizes_contradict += 1
            original = size
        ref = batch.add()
        ref.start = start
        ref.size = size
        ref.original_size = original
        ref.link_type = self._interfaces[interface].link_type
        return ref
