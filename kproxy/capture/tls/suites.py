"""Cipher suites, versions and alerts by number (IANA "TLS Parameters"): those that Kafka's clients use."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Hash = Literal["sha256", "sha384"]


class Kind(Enum):
    """The kind of record protection."""

    GCM = "AES-GCM"
    CHACHA = "ChaCha20-Poly1305"
    CBC = "AES-CBC"


@dataclass(frozen=True, slots=True)
class CipherSuite:
    """A cipher suite that kproxy can decrypt; sizes in bytes."""

    name: str
    kind: Kind
    key_size: int
    hash: Hash  # of the key schedule or PRF
    mac: str = ""  # CBC: the hash of its HMAC
    tls13: bool = False

    @property
    def mac_size(self) -> int:
        """Size of the HMAC; 0 if the cipher itself authenticates."""
        return {"": 0, "sha1": 20, "sha256": 32, "sha384": 48}[self.mac]


def _gcm(name: str) -> CipherSuite:
    small = "AES_128" in name
    return CipherSuite(name, Kind.GCM, 16 if small else 32, "sha256" if small else "sha384")


def _chacha(name: str) -> CipherSuite:
    return CipherSuite(name, Kind.CHACHA, 32, "sha256")


def _cbc(name: str) -> CipherSuite:
    mac = {"SHA": "sha1", "SHA256": "sha256", "SHA384": "sha384"}[name.rpartition("_")[2]]
    return CipherSuite(name, Kind.CBC, 16 if "AES_128" in name else 32, "sha384" if mac == "sha384" else "sha256", mac)


_GCM = {
    0x009C: "TLS_RSA_WITH_AES_128_GCM_SHA256",
    0x009D: "TLS_RSA_WITH_AES_256_GCM_SHA384",
    0x009E: "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
    0x009F: "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
    0x00A2: "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256",
    0x00A3: "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384",
    0x00A8: "TLS_PSK_WITH_AES_128_GCM_SHA256",
    0x00A9: "TLS_PSK_WITH_AES_256_GCM_SHA384",
    0xC02B: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02C: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02D: "TLS_ECDH_ECDSA_WITH_AES_128_GCM_SHA256",
    0xC02E: "TLS_ECDH_ECDSA_WITH_AES_256_GCM_SHA384",
    0xC02F: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    0xC030: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    0xC031: "TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256",
    0xC032: "TLS_ECDH_RSA_WITH_AES_256_GCM_SHA384",
}
_CHACHA = {
    0xCCA8: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCA9: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCAA: "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    0xCCAB: "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256",
}
_CBC = {
    0x002F: "TLS_RSA_WITH_AES_128_CBC_SHA",
    0x0032: "TLS_DHE_DSS_WITH_AES_128_CBC_SHA",
    0x0033: "TLS_DHE_RSA_WITH_AES_128_CBC_SHA",
    0x0035: "TLS_RSA_WITH_AES_256_CBC_SHA",
    0x0038: "TLS_DHE_DSS_WITH_AES_256_CBC_SHA",
    0x0039: "TLS_DHE_RSA_WITH_AES_256_CBC_SHA",
    0x003C: "TLS_RSA_WITH_AES_128_CBC_SHA256",
    0x003D: "TLS_RSA_WITH_AES_256_CBC_SHA256",
    0x0040: "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256",
    0x0067: "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
    0x006A: "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256",
    0x006B: "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256",
    0xC004: "TLS_ECDH_ECDSA_WITH_AES_128_CBC_SHA",
    0xC005: "TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA",
    0xC009: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    0xC00A: "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    0xC00E: "TLS_ECDH_RSA_WITH_AES_128_CBC_SHA",
    0xC00F: "TLS_ECDH_RSA_WITH_AES_256_CBC_SHA",
    0xC013: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    0xC014: "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    0xC023: "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC024: "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    0xC025: "TLS_ECDH_ECDSA_WITH_AES_128_CBC_SHA256",
    0xC026: "TLS_ECDH_ECDSA_WITH_AES_256_CBC_SHA384",
    0xC027: "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    0xC028: "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    0xC029: "TLS_ECDH_RSA_WITH_AES_128_CBC_SHA256",
    0xC02A: "TLS_ECDH_RSA_WITH_AES_256_CBC_SHA384",
}
SUITES: dict[int, CipherSuite] = {
    0x1301: CipherSuite("TLS_AES_128_GCM_SHA256", Kind.GCM, 16, "sha256", tls13=True),
    0x1302: CipherSuite("TLS_AES_256_GCM_SHA384", Kind.GCM, 32, "sha384", tls13=True),
    0x1303: CipherSuite("TLS_CHACHA20_POLY1305_SHA256", Kind.CHACHA, 32, "sha256", tls13=True),
    **{number: _gcm(name) for number, name in _GCM.items()},
    **{number: _chacha(name) for number, name in _CHACHA.items()},
    **{number: _cbc(name) for number, name in _CBC.items()},
}
NAMES_ONLY = {
    0x0001: "TLS_RSA_WITH_NULL_MD5",
    0x0002: "TLS_RSA_WITH_NULL_SHA",
    0x0005: "TLS_RSA_WITH_RC4_128_SHA",
    0x000A: "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    0x003B: "TLS_RSA_WITH_NULL_SHA256",
    0x00FF: "TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
    0x1304: "TLS_AES_128_CCM_SHA256",
    0x1305: "TLS_AES_128_CCM_8_SHA256",
    0xC012: "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
}

TLS12, TLS13 = 0x0303, 0x0304
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS12: "TLS 1.2", TLS13: "TLS 1.3"}

ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}


def suite_name(number: int) -> str:
    """Return IANA's name of a suite, or its number in hexadecimal."""
    suite = SUITES.get(number)
    return suite.name if suite is not None else NAMES_ONLY.get(number, f"0x{number:04X}")


def version_name(number: int) -> str:
    """Return the name of a version, as "TLS 1.3", or its number in hexadecimal."""
    return VERSIONS.get(number, f"0x{number:04X}")


def alert_name(number: int) -> str:
    """Return RFC 8446's name of an alert (section 6), or its number."""
    return ALERTS.get(number, f"alert {number}")


def is_grease(number: int) -> bool:
    """Return whether a value is a GREASE value, which peers must ignore (RFC 8701)."""
    return number & 0x0F0F == 0x0A0A and number >> 8 == number & 0xFF
