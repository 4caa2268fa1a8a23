# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Encrypt and decrypt the values of records from their batch right into the new one, without objects for them.

Only AES-256-GCM of values that are not compressed is here, which is nearly all there is to do. The cipher is that of
`cryptography`: the function that writes into a given buffer. The format is in the package.
"""

from collections.abc import Callable, Iterator

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, memset

from kproxy.protocol.records.in_place cimport Editor
from kproxy.protocol.records.shape cimport RecordShape
from kproxy.protocol.wire cimport be64, Buffer, put, reserve

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


cdef bytes bound_to(bytes envelope, const RecordShape *record):
    """Return the associated data of a value."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(envelope)
    cdef bint has_key = record.key_size >= 0
    cdef bytes bound = PyBytes_FromStringAndSize(NULL, size + 1 + (record.key_size if has_key else 0))
    cdef char *at = PyBytes_AS_STRING(bound)
    memcpy(at, PyBytes_AS_STRING(envelope), size)
    at[size] = has_key
    if has_key:
        memcpy(at + size + 1, record.key, record.key_size)
    return bound


cdef class WholeValueEditor(Editor):
    """Changes a value by its bytes and those of its record's key."""

    def __cinit__(self, *args, **kwargs):
        self.calls_python = True

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
    cdef bytes envelope
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
        self.envelope = envelope
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
        nonce = PyBytes_FromStringAndSize(<char *>at, NONCE_SIZE)
        plain = PyMemoryView_FromMemory(<char *>record.value, record.value_size, PyBUF_READ)
        sealed = PyMemoryView_FromMemory(<char *>at + NONCE_SIZE, record.value_size + TAG_SIZE, PyBUF_WRITE)
        self.encrypt_into(nonce, plain, bound_to(self.envelope, record), sealed)
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
    cdef bytes envelope  # of the last value; None: there is no cipher at hand
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
        self.envelope, self.decrypt_into = (None, None) if known is None else known
        self.envelope_size = 0
        if self.envelope is not None:
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
        nonce = PyBytes_FromStringAndSize(<const char *>begin, NONCE_SIZE)
        sealed = PyMemoryView_FromMemory(<char *>begin + NONCE_SIZE, left, PyBUF_READ)
        plain = PyMemoryView_FromMemory(<char *>at, left - TAG_SIZE, PyBUF_WRITE)
        try:
            self.decrypt_into(nonce, sealed, bound_to(self.envelope, record), plain)
        except InvalidTag:
            return False
        return True
