"""pcapng files (draft-ietf-opsawg-pcapng): where the packets lie, whose clock stamped them, which TLS secrets come along."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc

from kproxy.capture.options import read_interface
from kproxy.capture.packets cimport PacketBatch, PacketRef
from kproxy.capture.spans cimport Span, be32, file16, file32

MAX_BLOCK_SIZE = 16 << 20  # as libpcap's
MAX_INTERFACES = 65_536

SECTION_MAGIC = bytes.fromhex("0a0d0d0a")

cdef enum:
    SECTION = 0x0A0D0D0A
    INTERFACE = 1
    OBSOLETE_PACKET = 2
    SIMPLE_PACKET = 3
    ENHANCED_PACKET = 6
    SECRETS = 10
    BYTE_ORDER = 0x1A2B3C4D
    SWAPPED_BYTE_ORDER = 0x4D3C2B1A
    BLOCK_LIMIT = 16 << 20
    PACKET_LIMIT = 262_144
    INTERFACE_LIMIT = 65_536

cdef uint64_t SECOND = 1_000_000_000


cdef Clock make_clock(unit) except *:
    cdef Clock clock
    clock.offset_ns = max(INT64_MIN, min(INT64_MAX, unit.offset * 1_000_000_000))
    clock.binary = unit.binary
    clock.digits = unit.digits
    clock.fine = unit.digits > 9
    clock.scale = 1
    if not unit.binary:
        clock.scale = min(10 ** abs(9 - unit.digits), 10 ** 19)
    return clock


cdef inline int64_t time_of(Clock* clock, uint64_t units) noexcept nogil:
    # Nanoseconds since 1970; what an int64 cannot hold (after the year 2262, or a hostile clock) becomes its largest value.
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
    """Finds the packets of a pcapng file in buffers of it.

    Args:
        secrets_limit: how many bytes of decryption secrets blocks are kept in all; the rest is counted.
    """

    def __init__(self, Py_ssize_t secrets_limit=16 << 20):
        self.secrets = []
        self._secrets_limit = secrets_limit

    def __dealloc__(self):
        free(self._interfaces)

    cpdef Py_ssize_t scan(self, PacketBatch batch, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Add the packets that lie whole in bytes *start* to *stop* of the batch's buffer; return where the rest begins.

        Afterwards *needed* is how many bytes the next block takes (0: not known), and *problem* says why the
        file cannot be read on at the place returned, if it cannot.
        """
        cdef Span span
        cdef Py_ssize_t size
        if stop > batch.view.shape[0] or start < 0:
            raise IndexError("outside the buffer")
        self.needed = 0
        if stop <= start:
            return start
        span.data, span.size, span.overrun = &batch.view[0], stop, False
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
            return self._begin_section()
        if kind == INTERFACE:
            return self._add_interface(bytes(batch.view[start + 8 : end]))
        if kind == SECRETS:
            return self._keep_secrets(batch, span, start + 8, end)
        self.blocks_passed_over += 1
        return 0

    cdef int _begin_section(self) except -1:
        self._in_section = True
        self._interface_count = 0
        return 0

    cdef int _add_interface(self, bytes body) except -1:
        cdef InterfaceRef* grown
        cdef uint32_t capacity
        interface = read_interface(body, bool(self.big_endian))
        if interface is None:
            self.problem = f"an interface description of {len(body)} bytes; 8 are the least"
            return 0
        if self._interface_count >= INTERFACE_LIMIT:
            self.problem = f"more than {INTERFACE_LIMIT} interfaces in a section"
            return 0
        if self._interface_count == self._interface_capacity:
            capacity = max(<uint32_t>8, self._interface_capacity * 2)
            grown = <InterfaceRef*>realloc(self._interfaces, capacity * sizeof(InterfaceRef))
            if grown == NULL:
                raise MemoryError
            self._interfaces, self._interface_capacity = grown, capacity
        self._interfaces[self._interface_count].clock = make_clock(interface.unit)
        self._interfaces[self._interface_count].snaplen = interface.snaplen
        self._interfaces[self._interface_count].link_type = interface.link_type
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
            self.secrets.append((kind, bytes(batch.view[start + 8 : start + 8 + <Py_ssize_t>size])))
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
        ref = self._place(batch, interface, start + 20, end, size, file32(span, start + 16, self.big_endian))
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
        # No time: that of the packet before. No captured size: what the interface's snaplen and the block leave.
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
        ref = self._place(batch, 0, start + 4, end, size, original)
        if ref != NULL:
            self.without_time += 1
            ref.time_ns = self._last_time_ns
            ref.options_size = 0
        return 0

    cdef PacketRef* _place(
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
