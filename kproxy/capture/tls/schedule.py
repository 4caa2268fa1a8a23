"""Derive keys from secrets: TLS 1.3's key schedule (RFC 8446 section 7, RFC 5869), TLS 1.2's PRF (RFC 5246 section 5)."""

import hashlib
import hmac
from dataclasses import dataclass

from kproxy.capture.tls.suites import CipherSuite, Kind

IV_SIZE = 12
GCM_SALT_SIZE = 4


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """The keys for the records of one direction; *mac* only for CBC."""

    key: bytes
    iv: bytes
    mac: bytes = b""


def expand_label(secret: bytes, label: bytes, size: int, name: str) -> bytes:
    """Return HKDF-Expand-Label with an empty context (RFC 8446 section 7.1); *name* is the hash function's."""
    full = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes((len(full),)) + full + b"\0"
    out = block = b""
    counter = 1
    while len(out) < size:
        block = hmac.digest(secret, block + info + bytes((counter,)), name)
        out += block
        counter += 1
    return out[:size]


def keys_13(secret: bytes, suite: CipherSuite) -> Keys:
    """Return the traffic keys for a traffic secret (RFC 8446 section 7.3)."""
    key = expand_label(secret, b"key", suite.key_size, suite.hash)
    return Keys(key, expand_label(secret, b"iv", IV_SIZE, suite.hash))


def next_secret(secret: bytes, suite: CipherSuite) -> bytes:
    """Return the application traffic secret after a key update (RFC 8446 section 7.2)."""
    return expand_label(secret, b"traffic upd", hash_size(suite), suite.hash)


def hash_size(suite: CipherSuite) -> int:
    """Return the size of the suite's hash, which is also that of its secrets."""
    return hashlib.new(suite.hash).digest_size


def prf_12(secret: bytes, label: bytes, seed: bytes, size: int, name: str) -> bytes:
    """Return *size* bytes of TLS 1.2's P_hash (RFC 5246 section 5)."""
    seed = label + seed
    out, a = b"", seed
    while len(out) < size:
        a = hmac.digest(secret, a, name)
        out += hmac.digest(secret, a + seed, name)
    return out[:size]


def keys_12(master: bytes, client_random: bytes, server_random: bytes, suite: CipherSuite) -> tuple[Keys, Keys]:
    """Return the client's and the server's write keys (RFC 5246 section 6.3)."""
    # CBC suites carry the IV in the record; the key block has none (TLS 1.1 and later).
    iv_size = {Kind.GCM: GCM_SALT_SIZE, Kind.CHACHA: IV_SIZE, Kind.CBC: 0}[suite.kind]
    sizes = [suite.mac_size, suite.mac_size, suite.key_size, suite.key_size, iv_size, iv_size]
    block = prf_12(master, b"key expansion", server_random + client_random, sum(sizes), suite.hash)
    parts: list[bytes] = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    return Keys(parts[2], parts[4], parts[0]), Keys(parts[3], parts[5], parts[1])
