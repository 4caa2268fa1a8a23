# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""AES-256-GCM with a data key: that of `cryptography`; for small values that of the libcrypto that Python's ssl has loaded.

A call of `cryptography` takes 0.6 us whatever the size, as it makes a new context, and 0.2 us more for the objects that it takes;
the same work by one context that is kept takes 0.2 us. Both are OpenSSL. libcrypto is asked for by its functions' names
(dlopen(3)): where the process has not loaded one, as ssl is linked otherwise, `cryptography` does all.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from kproxy.protocol.records.shape cimport RecordShape

from collections.abc import Callable  # no-cython-lint
import ssl  # it loads libcrypto

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

cdef extern from * nogil:
    """
    #include <dlfcn.h>
    #include <stdint.h>
    static void *(*kproxy_new)(void);
    static void (*kproxy_free)(void *);
    static const void *(*kproxy_aes)(void);
    static int (*kproxy_init)(void *, const void *, void *, const uint8_t *, const uint8_t *, int);
    static int (*kproxy_update)(void *, uint8_t *, int *, const uint8_t *, int);
    static int (*kproxy_final)(void *, uint8_t *, int *);
    static int (*kproxy_ctrl)(void *, int, int, void *);
    #define KPROXY_FIND(function, name) ((*(void **)&function = dlsym(library, name)) != NULL)
    static inline int kproxy_load(void) {
        void *library = dlopen("libcrypto.so.3", RTLD_LAZY | RTLD_NOLOAD);
        return library != NULL && KPROXY_FIND(kproxy_new, "EVP_CIPHER_CTX_new")
            && KPROXY_FIND(kproxy_free, "EVP_CIPHER_CTX_free") && KPROXY_FIND(kproxy_aes, "EVP_aes_256_gcm")
            && KPROXY_FIND(kproxy_init, "EVP_CipherInit_ex") && KPROXY_FIND(kproxy_update, "EVP_CipherUpdate")
            && KPROXY_FIND(kproxy_final, "EVP_CipherFinal_ex") && KPROXY_FIND(kproxy_ctrl, "EVP_CIPHER_CTX_ctrl");
    }
    static inline void kproxy_drop(void *context) { if (context) kproxy_free(context); }
    static inline void *kproxy_context(const uint8_t *key, int encrypts) {
        void *context = kproxy_new();
        if (context && kproxy_init(context, kproxy_aes(), NULL, key, NULL, encrypts) == 1) return context;
        kproxy_drop(context);
        return NULL;
    }
    enum { KPROXY_GET_TAG = 0x10, KPROXY_SET_TAG = 0x11 };  /* EVP_CTRL_AEAD_GET_TAG, EVP_CTRL_AEAD_SET_TAG */
    static inline int kproxy_crypt(
        void *context, int encrypts, const uint8_t *nonce, const uint8_t *bound, int bound_size, const uint8_t *key,
        int key_size, const uint8_t *data, int size, uint8_t *out, uint8_t *tag
    ) {
        uint8_t has_key = key_size >= 0;
        int n;
        return kproxy_init(context, NULL, NULL, NULL, nonce, encrypts) == 1
            && (encrypts || kproxy_ctrl(context, KPROXY_SET_TAG, 16, tag) == 1)
            && kproxy_update(context, NULL, &n, bound, bound_size) == 1
            && kproxy_update(context, NULL, &n, &has_key, 1) == 1
            && (key_size <= 0 || kproxy_update(context, NULL, &n, key, key_size) == 1)
            && (size == 0 || kproxy_update(context, out, &n, data, size) == 1)
            && kproxy_final(context, out, &n) == 1
            && (!encrypts || kproxy_ctrl(context, KPROXY_GET_TAG, 16, tag) == 1);
    }
    """
    int kproxy_load()
    void kproxy_drop(void *context)
    void *kproxy_context(const uint8_t *key, int encrypts)
    int kproxy_crypt(
        void *context, int encrypts, const uint8_t *nonce, const uint8_t *bound, int bound_size, const uint8_t *key, int key_size,
        const uint8_t *data, int size, uint8_t *out, uint8_t *tag,
    )

cdef enum:
    NONCE_SIZE = 12
    TAG_SIZE = 16
    KEY_SIZE = 32
    SMALL = 4_096  # bytes of a value; larger ones are faster with a newer OpenSSL, and that of `cryptography` is new

cdef bint is_loaded = ssl.OPENSSL_VERSION_INFO >= (3,) and kproxy_load()


cdef class Gcm:
    """AES-256-GCM with one data key; its methods are called with the lock of the interpreter.

    Attributes:
        encrypt, decrypt: those of AESGCM.
        is_small_by_libcrypto: whether libcrypto is used for small values; it may be set to False.
    """

    def __cinit__(self, bytes key not None):
        if PyBytes_GET_SIZE(key) != KEY_SIZE:
            raise ValueError(f"AES-256 has keys of {KEY_SIZE} bytes")
        aes = AESGCM(key)
        self.encrypt, self.decrypt = aes.encrypt, aes.decrypt
        self.encrypt_into, self.decrypt_into = aes.encrypt_into, aes.decrypt_into
        if is_loaded:
            self.sealing = kproxy_context(<const uint8_t *>PyBytes_AS_STRING(key), 1)
            self.opening = kproxy_context(<const uint8_t *>PyBytes_AS_STRING(key), 0)
        self.is_small_by_libcrypto = self.sealing != NULL and self.opening != NULL

    def __dealloc__(self):
        kproxy_drop(self.sealing)
        kproxy_drop(self.opening)

    cdef int seal(self, const uint8_t *nonce, bytes envelope, const RecordShape *record, uint8_t *out) except -1:
        """Write the encrypted value of a record, and the tag, to *out*."""
        cdef Py_ssize_t size = record.value_size
        if size <= SMALL and self.is_small_by_libcrypto:
            if not kproxy_crypt(
                self.sealing, 1, nonce, <const uint8_t *>PyBytes_AS_STRING(envelope), PyBytes_GET_SIZE(envelope),
                record.key, record.key_size, record.value, size, out, out + size,
            ):
                raise RuntimeError("libcrypto does not encrypt")
            return 0
        plain = PyMemoryView_FromMemory(<char *>record.value, size, PyBUF_READ)
        sealed = PyMemoryView_FromMemory(<char *>out, size + TAG_SIZE, PyBUF_WRITE)
        self.encrypt_into(PyBytes_FromStringAndSize(<const char *>nonce, NONCE_SIZE), plain, bound_to(envelope, record), sealed)
        return 0

    cdef bint open(self, bytes envelope, const RecordShape *record, uint8_t *out) except -1:
        """Write the plain value of a record with that envelope to *out*; False, and nothing of use there, if it does not open."""
        cdef const uint8_t *nonce = record.value + PyBytes_GET_SIZE(envelope)
        cdef const uint8_t *sealed = nonce + NONCE_SIZE
        cdef Py_ssize_t size = record.value + record.value_size - sealed - TAG_SIZE
        if size <= SMALL and self.is_small_by_libcrypto:
            return kproxy_crypt(
                self.opening, 0, nonce, <const uint8_t *>PyBytes_AS_STRING(envelope), PyBytes_GET_SIZE(envelope),
                record.key, record.key_size, sealed, size, out, <uint8_t *>sealed + size,
            )
        given = PyMemoryView_FromMemory(<char *>sealed, size + TAG_SIZE, PyBUF_READ)
        plain = PyMemoryView_FromMemory(<char *>out, size, PyBUF_WRITE)
        try:
            self.decrypt_into(PyBytes_FromStringAndSize(<const char *>nonce, NONCE_SIZE), given, bound_to(envelope, record), plain)
        except InvalidTag:
            return False
        return True


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
