"""Keyed pseudonyms: the same text has the same pseudonym everywhere, of the same length, which reveals nothing without the key.

Keyed BLAKE2b (RFC 7693) of the text, spread over a harmless alphabet. Different texts get different pseudonyms, if
there are enough of that length. A name has the same pseudonym in all roles (a topic, a resource, a key), so that things that
belong together can still be recognised. The numbers of an IPv4 address keep their digit counts, so that the address has one
pseudonym in packets and in text.
"""

import re
from hashlib import blake2b, shake_128
from ipaddress import IPv4Address, IPv6Address

from kproxy.protocol.addresses import IPAddress, join_address, parse_ip, split_address

KEY_SIZE = 32
REMEMBERED = 200_000  # texts whose pseudonyms certainly differ; two of further texts may, very rarely, be equal
TRIES = 50
UNIQUE_LOCAL = b"\xfd"  # RFC 4193: IPv6 addresses without a public owner
ALPHABET = b"abcdefghijklmnopqrstuvwxyz234567"  # legal in names of topics, hosts and groups alike
LETTERS = bytes(ALPHABET[value % len(ALPHABET)] for value in range(256))
IPV4 = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}")
PRINCIPAL = "User:"  # KafkaPrincipal.USER_TYPE


class Pseudonyms:
    """Makes the pseudonyms of one key.

    Args:
        key: any bytes; whoever has it can test guesses of the originals.
    """

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=KEY_SIZE).digest()
        self._known: dict[str, str] = {}
        self._taken: set[str] = set()

    def text(self, text: str) -> str:
        """Return the pseudonym of a name, of as many bytes of UTF-8; "", "*" and the type of a principal stay."""
        if text in ("", "*"):
            return text
        if text.startswith(PRINCIPAL):
            return PRINCIPAL + self.text(text.removeprefix(PRINCIPAL))
        if text[0] == "/" and IPV4.fullmatch(text, 1):  # InetAddress.toString
            return "/" + self.text(text[1:])
        known = self._known.get(text)
        return self._remember(text) if known is None else known

    def data(self, data: bytes) -> bytes:
        """Return letters and digits in place of bytes such as a record's key, as many as there are bytes."""
        seed = blake2b(data, key=self._key, digest_size=32).digest()
        return shake_128(seed).digest(len(data)).translate(LETTERS)

    def address(self, address: IPAddress) -> IPAddress:
        """Return the pseudonym of an address, of the same IP version."""
        if address.version == 4:
            return IPv4Address(self.text(str(address)))
        return IPv6Address(UNIQUE_LOCAL + blake2b(address.packed, key=self._key, digest_size=15).digest())

    def endpoint(self, endpoint: str) -> str:
        """Return "address:port" with the pseudonym of the address and the same port."""
        host, port = split_address(endpoint)
        address = parse_ip(host)
        if address is None:
            raise ValueError(f"{endpoint} does not begin with an IP address")
        return join_address(str(self.address(address)), port)

    def _remember(self, text: str) -> str:
        make = _ipv4 if IPV4.fullmatch(text) else _letters
        size = len(text.encode("utf-8", "surrogateescape"))
        for attempt in range(TRIES):
            seed = blake2b(b"%d %b" % (attempt, text.encode("utf-8", "surrogateescape")), key=self._key).digest()
            pseudonym = make(seed, text, size)
            if pseudonym != text and pseudonym not in self._taken:
                break
        if len(self._known) < REMEMBERED:
            self._known[text] = pseudonym
            self._taken.add(pseudonym)
        return pseudonym


def _letters(seed: bytes, _text: str, size: int) -> str:
    return shake_128(seed).digest(size).translate(LETTERS).decode()


def _ipv4(seed: bytes, text: str, _size: int) -> str:
    """Return an address whose numbers have as many digits as before, none zero; it is a host's address, not a multicast one."""
    parts = (_number(seed[2 * at], len(part), 223 if at == 0 else 254) for at, part in enumerate(text.split(".")))
    return ".".join(map(str, parts))


def _number(value: int, digits: int, most: int) -> int:
    lowest: int = 10 ** (digits - 1)
    return lowest + value % (min(int(10**digits) - 1, most) - lowest + 1)
