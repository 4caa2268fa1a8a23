"""The NSS key log: which secrets belong to which connection (draft-ietf-tls-keylogfile, and NSS's own older lines).

Nothing here, in no text and no error, ever shows a secret. What is wrong, twice there, or too long is counted and
passed over: a key log is written by many processes at once and cut off anywhere.
"""

from collections.abc import Callable
from enum import IntEnum
from itertools import islice

MAX_LINE = 1024  # the longest line that means anything has under 300 characters
MAX_SECRETS = 65_536  # for each purpose, about 100 MB in all; the oldest go first
MOST_AT_ONCE = 4096  # secrets tried for a connection whose ClientHello is missing
MOST_SEARCHED = 200_000  # and for all such connections: each try costs time
MAX_ALTERNATIVES = 4  # different secrets of the same connection: the right one is the one that opens a record
RANDOM_SIZE = 32
MASTER_SIZE = 48
TRAFFIC_SIZES = (32, 48, 64)  # of SHA-256, SHA-384 and SHA-512


class Label(IntEnum):
    """What a secret is for."""

    MASTER = 0  # TLS 1.2: the master secret
    CLIENT_EARLY = 1
    CLIENT_HANDSHAKE = 2
    SERVER_HANDSHAKE = 3
    CLIENT_TRAFFIC = 4
    SERVER_TRAFFIC = 5
    SESSION = 6  # TLS 1.2: the master secret of a session id


LABELS = {
    b"CLIENT_RANDOM": Label.MASTER,
    b"CLIENT_EARLY_TRAFFIC_SECRET": Label.CLIENT_EARLY,
    b"CLIENT_HANDSHAKE_TRAFFIC_SECRET": Label.CLIENT_HANDSHAKE,
    b"SERVER_HANDSHAKE_TRAFFIC_SECRET": Label.SERVER_HANDSHAKE,
    b"CLIENT_TRAFFIC_SECRET_0": Label.CLIENT_TRAFFIC,
    b"SERVER_TRAFFIC_SECRET_0": Label.SERVER_TRAFFIC,
}
NOT_NEEDED = {b"EXPORTER_SECRET", b"EARLY_EXPORTER_SECRET", b"ECH_SECRET", b"ECH_CONFIG"}


class KeyLog:
    """Secrets by connection. *more* returns further bytes of the key log; it is called when a secret is missing.

    lines: secrets read; passed_over: lines without one; duplicates: lines with a known secret;
    forgotten: secrets that had to go because there were too many.
    """

    def __init__(self, more: Callable[[], bytes] | None = None) -> None:
        self.lines = 0
        self.passed_over = 0
        self.duplicates = 0
        self.forgotten = 0
        self._more = more
        self._secrets: dict[Label, dict[bytes, tuple[bytes, ...]]] = {label: {} for label in Label}
        self._searches_left = MOST_SEARCHED
        self._rest = b""
        self._in_long_line = False

    def __len__(self) -> int:
        return sum(map(len, self._secrets.values()))

    def __repr__(self) -> str:
        return f"<KeyLog of {len(self)} secrets>"

    def feed(self, data: bytes) -> None:
        """Take the next bytes of a key log; a line may be cut anywhere between calls."""
        *lines, rest = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        for line in lines:
            if self._in_long_line:
                self._in_long_line = False
            else:
                self._take(line)
        if len(rest) > MAX_LINE:
            self.passed_over += not self._in_long_line
            self._in_long_line = True
            rest = b""
        self._rest = rest

    def finish(self) -> None:
        """End what was fed: a last line without newline counts too."""
        self.feed(b"\n")

    def secrets(self, label: Label, client_random: bytes) -> tuple[bytes, ...]:
        """The secrets named for a connection, mostly one; with SESSION, of a session id in place of a client random."""
        by_name = self._secrets[label]
        found = by_name.get(client_random, ())
        while not found and self._more is not None and (data := self._more()):
            self.feed(data)
            found = by_name.get(client_random, ())
        if not found and self._rest:
            last = _read_line(self._rest)  # its newline may not be written yet
            return (last[2],) if last is not None and last[:2] == (label, client_random) else ()
        return found

    def some(self, label: Label) -> list[tuple[bytes, bytes]]:
        """Secrets of all connections with their client randoms, thousands at most; none after too many such searches."""
        some = islice(self._secrets[label].items(), min(MOST_AT_ONCE, self._searches_left))
        found = [(name, secret) for name, secrets in some for secret in secrets]
        self._searches_left = max(0, self._searches_left - len(found))
        return found

    def remember(self, label: Label, name: bytes, secret: bytes) -> bool:
        """Keep a secret under a name, as a line of the log would; False when there is nothing new in it."""
        by_name = self._secrets[label]
        known = by_name.get(name, ())
        if secret in known or len(known) >= MAX_ALTERNATIVES:
            return False
        if not known and len(by_name) >= MAX_SECRETS:
            del by_name[next(iter(by_name))]
            self.forgotten += 1
        by_name[name] = (*known, secret)
        return True

    def _take(self, line: bytes) -> None:
        line = line.strip()
        if not line or line.startswith(b"#"):
            return
        found = _read_line(line)
        if found is not None:
            new = self.remember(*found)
            self.lines += new
            self.duplicates += not new
        elif line.split(maxsplit=1)[0] not in NOT_NEEDED:
            self.passed_over += 1


def _read_line(line: bytes) -> tuple[Label, bytes, bytes] | None:
    """Read a line: label, client random or session id, secret; None when it has none."""
    words = line.split() if len(line) <= MAX_LINE else []
    if len(words) != 3:
        return None
    if words[0] == b"RSA":  # "RSA Session-ID:hex Master-Key:hex", of tools that read OpenSSL's sessions
        (name_is, _, name_digits), (key_is, _, digits) = words[1].partition(b":"), words[2].partition(b":")
        name, secret = _unhex(name_digits), _unhex(digits)
        right = (name_is, key_is) == (b"Session-ID", b"Master-Key") and 0 < len(name) <= 32
        return (Label.SESSION, name, secret) if right and len(secret) == MASTER_SIZE else None
    label = LABELS.get(words[0])
    name, secret = _unhex(words[1]), _unhex(words[2])
    if label is None or len(name) != RANDOM_SIZE:
        return None
    sizes = (MASTER_SIZE,) if label is Label.MASTER else TRAFFIC_SIZES
    return (label, name, secret) if len(secret) in sizes else None


def _unhex(text: bytes) -> bytes:
    """The bytes that a word of hexadecimal digits means; none when it is no such word."""
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""
