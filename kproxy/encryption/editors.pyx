# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Encrypt and decrypt the values of records from their batch right into the new one, without objects for them.

Only AES-256-GCM of values that are not compressed is here, which is nearly all there is to do. The cipher is that of
`cryptography`: the function that writes into a given buffer. The format is in the package.
"""

from collections.abc import Callable, Iterator

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from kproxy.protocol.records.in_place cimport Editor
from kproxy.protocol.records.shape cimport RecordShape
from kproxy.protocol.wire cimport be64, Buffer, put, put8, reserve

from cryptography.exceptions import InvalidTag

from kproxy.encryption.envelope import MARKER, NONCE, TAG

cdef enum:
    NONCE_SIZE = 12
    TAG_SIZE = 16
    SALT_SIZE = 4
    MARKER_SIZE = 4

assert (NONCE, TAG, len(MARKER)) == (NONCE_SIZE, TAG_SIZE, MARKER_SIZE)

cdef bytes marker = MARKER
cdef const uint8_t *marker_at = <const uint8_t *>PyBytes_AS_STRING(marker)


cdef class Span:
    """Bytes that the cipher reads or writes: one object for all records, where memoryviews are made for each."""

    cdef const uint8_t *at
    cdef Py_ssize_t size
    cdef bint is_readonly

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void *>self.at, self.size, self.is_readonly, flags)


cdef Span reading():
    cdef Span span = Span.__new__(Span)
    span.is_readonly = True
    return span


cdef class WholeValueEditor(Editor):
    """Changes a value by its bytes and those of its record's key."""

    cdef bytes envelope  # that the values are written with; None: none yet
    cdef Buffer bound  # associated data of a value: the envelope, whether its record has a key, and the key
    cdef Span nonce
    cdef Span source
    cdef Span associated
    cdef Span target

    def __cinit__(self, *args, **kwargs):
        self.calls_python = True
        self.nonce, self.source, self.associated, self.target = reading(), reading(), reading(), Span.__new__(Span)

    def __dealloc__(self):
        free(self.bound.data)

    cdef int use(self, bytes envelope) except -1:
        """Begin the associated data with another envelope."""
        self.envelope = envelope
        self.bound.size = 0
        return put(&self.bound, PyBytes_AS_STRING(envelope), PyBytes_GET_SIZE(envelope))

    cdef int call(
        self, object cipher, const RecordShape *record, const uint8_t *nonce, const uint8_t *source, Py_ssize_t size,
        const uint8_t *target, Py_ssize_t target_size,
    ) except -1:
        """Have a function of the cipher read the source and write the target."""
        self.bound.size = PyBytes_GET_SIZE(self.envelope)
        put8(&self.bound, record.key_size >= 0)
        if record.key_size > 0:
            put(&self.bound, record.key, record.key_size)
        self.nonce.at, self.nonce.size = nonce, NONCE_SIZE
        self.source.at, self.source.size = source, size
        self.associated.at, self.associated.size = self.bound.data, self.bound.size
        self.target.at, self.target.size = target, target_size
        cipher(self.nonce, self.source, self.associated, self.target)
        return 0

    cdef int change(self, const RecordShape *record, Buffer *out) except -1:
        return 0

    cdef bint write_into(self, const RecordShape *record, uint8_t *at) except -1:
        return False

    cdef int edit_value(self, const RecordShape *record, Buffer *out) except -1 nogil:
        with gil:
            return self.change(record, out)

    cdef bint write_value(self, const RecordShape *record, uint8_t *at) except -1 nogil:
        with gil:
            return self.write_into(record, at)

    def edited(self, bytes data not None, bytes key=None) -> bytes | None:
        """Return the changed value; None if it stays. *key*: of its record."""
        cdef Buffer out
        cdef RecordShape record
        memset(&out, 0, sizeof(Buffer))
        memset(&record, 0, sizeof(RecordShape))
        record.value = <const uint8_t *>PyBytes_AS_STRING(data)
        record.value_size = PyBytes_GET_SIZE(data)
        record.key_size = -1
        if key is not None:
            record.key = <const uint8_t *>PyBytes_AS_STRING(key)
            record.key_size = PyBytes_GET_SIZE(key)
        try:
            return PyBytes_FromStringAndSize(<char *>out.data, out.size) if self.change(&record, &out) else None
        finally:
            free(out.data)


cdef class SealingEditor(WholeValueEditor):
    """Encrypts values.

    Args:
        encrypt_into: of AESGCM: nonce, plain bytes, associated data, and the buffer for the encrypted bytes and the tag.
        envelope: what each value begins with.
        salt: the first 4 bytes of the nonces.
        numbers: gives the rest of each nonce, and gives no number twice.

    Attributes:
        number: the last that was used.
        blocks: how many blocks of 16 bytes the cipher made, one more for each tag.
    """

    cdef object encrypt_into
    cdef bytes salt
    cdef object numbers
    cdef int64_t added
    cdef readonly int64_t number
    cdef readonly int64_t blocks

    def __init__(
        self, encrypt_into: Callable[..., object], bytes envelope not None, bytes salt not None, numbers: Iterator[int],
    ):
        if PyBytes_GET_SIZE(salt) != SALT_SIZE:
            raise ValueError(f"a salt has {SALT_SIZE} bytes")
        self.encrypt_into = encrypt_into
        self.use(envelope)
        self.salt = salt
        self.numbers = numbers
        self.added = PyBytes_GET_SIZE(envelope) + NONCE_SIZE + TAG_SIZE
        self.number = -1

    cdef int64_t size_of(self, const RecordShape *record) noexcept nogil:
        return self.added + record.value_size

    cdef int change(self, const RecordShape *record, Buffer *out) except -1:
        reserve(out, self.size_of(record))
        self.write_into(record, out.data + out.size)
        out.size += self.size_of(record)
        return 1

    cdef bint write_into(self, const RecordShape *record, uint8_t *at) except -1:
        cdef uint64_t number = next(self.numbers)  # one step, in any thread
        cdef uint64_t swapped = be64(<const uint8_t *>&number)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(self.envelope)
        self.number = number
        self.blocks += (record.value_size + 15 >> 4) + 1
        memcpy(at, PyBytes_AS_STRING(self.envelope), size)
        at += size
        memcpy(at, PyBytes_AS_STRING(self.salt), SALT_SIZE)
        memcpy(at + SALT_SIZE, &swapped, sizeof(uint64_t))
        self.call(
            self.encrypt_into, record, at, record.value, record.value_size, at + NONCE_SIZE, record.value_size + TAG_SIZE
        )
        return True


cdef class OpeningEditor(WholeValueEditor):
    """Decrypts values: those with the envelope of the value before by the cipher at hand, all others by a function.

    Args:
        read: a record's key (None if it has none) and a value -> the plain value, or the same object; what it raises, the edit
            raises.
        cipher: called after *read*: the envelope of that value, and decrypt_into of its AESGCM; None if there is none, or it
            is not all that it takes.
    """

    cdef object read
    cdef object cipher
    cdef const uint8_t *envelope_at
    cdef Py_ssize_t envelope_size  # 0: there is none
    cdef object decrypt_into

    def __init__(
        self, read: Callable[[bytes | None, bytes], bytes], cipher: Callable[[], tuple[bytes, Callable[..., object]] | None],
    ):
        self.read = read
        self.cipher = cipher

    cdef int64_t size_of(self, const RecordShape *record) noexcept nogil:
        """Return the size of the plain value, if the cipher at hand may open it."""
        cdef int64_t left
        if self.envelope_size == 0:
            return -1
        left = record.value_size - self.envelope_size - NONCE_SIZE - TAG_SIZE
        if left < 0 or memcmp(record.value, self.envelope_at, self.envelope_size) != 0:
            return -1
        if record.key_size >= MARKER_SIZE and memcmp(record.key, marker_at, MARKER_SIZE) == 0:
            return -1  # the value is bound to the plain key
        return left

    cdef int change(self, const RecordShape *record, Buffer *out) except -1:
        key = None
        if record.key_size >= 0:
            key = PyBytes_FromStringAndSize(<const char *>record.key, record.key_size)
        given = PyBytes_FromStringAndSize(<const char *>record.value, record.value_size)
        changed = <bytes?>self.read(key, given)
        known = self.cipher()
        self.envelope_size = 0
        if known is not None:
            envelope, self.decrypt_into = known
            self.use(envelope)
            self.envelope_at = <const uint8_t *>PyBytes_AS_STRING(self.envelope)
            self.envelope_size = PyBytes_GET_SIZE(self.envelope)
        if changed is given:
            return 0
        put(out, PyBytes_AS_STRING(changed), PyBytes_GET_SIZE(changed))
        return 1

    cdef bint write_into(self, const RecordShape *record, uint8_t *at) except -1:
        """Decrypt a value with the cipher at hand; return whether it opens. If not, ``read`` says why."""
        cdef const uint8_t *begin = record.value + self.envelope_size
        cdef Py_ssize_t left = record.value + record.value_size - begin - NONCE_SIZE
        try:
            self.call(self.decrypt_into, record, begin, begin + NONCE_SIZE, left, at, left - TAG_SIZE)
        except InvalidTag:
            return False
        return True
