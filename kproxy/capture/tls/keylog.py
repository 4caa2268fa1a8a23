"""Read NSS key logs, which map connections to secrets (draft-ietf-tls-keylogfile, and NSS's own older lines).

No text or error here ever shows a secret. Wrong, duplicate and overlong lines are counted and ignored: many processes may write
a key log at the same time, and it may end anywhere.
"""

from collections.abc import Callable
from enum import IntEnum
from itertools import islice
from pathlib import Path

from kproxy.errors import OptionError

MAX_LINE = 1024  # characters; valid lines have fewer than 300
MAX_SECRETS = 65_536  # for each purpose, about 100 MB altogether; the oldest are dropped first
MOST_AT_ONCE = 4096  # secrets tried for one connection whose ClientHello is missing
MOST_SEARCHED = 200_000  # secrets tried for all such connections, as each try takes time
MAX_ALTERNATIVES = 4  # secrets kept for the same connection; the right one decrypts a record
RANDOM_SIZE = 32
MASTER_SIZE = 48
TRAFFIC_SIZES = (32, 48, 64)  # of SHA-256, SHA-384 and SHA-512


class Label(IntEnum):
    """The purpose of a secret."""

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
    """Secrets by connection. *more* returns further bytes of the key log; it is called if a secret is missing.

    lines: secrets read; passed_over: lines without a secret; duplicates: lines with a known secret; forgotten: secrets dropped
    because there were too many.
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
        """Read the next bytes of a key log; a line may be split between calls."""
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
        """End the key log: a last line without a newline counts, too."""
        self.feed(b"\n")

    def secrets(self, label: Label, client_random: bytes) -> tuple[bytes, ...]:
        """Return the secrets of a connection, usually one; with SESSION, pass a session id instead of a client random."""
        by_name = self._secrets[label]
        secrets = by_name.get(client_random, ())
        while not secrets and self._more is not None and (data := self._more()):
            self.feed(data)
            secrets = by_name.get(client_random, ())
        if not secrets and self._rest:
            last = _read_line(self._rest)  # the newline may not be written yet
            return (last[2],) if last is not None and last[:2] == (label, client_random) else ()
        return secrets

    def some(self, label: Label) -> list[tuple[bytes, bytes]]:
        """Return secrets of all connections with their client randoms, up to MOST_AT_ONCE; none after MOST_SEARCHED."""
        names = islice(self._secrets[label].items(), min(MOST_AT_ONCE, self._searches_left))
        pairs = [(name, secret) for name, secrets in names for secret in secrets]
        self._searches_left = max(0, self._searches_left - len(pairs))
        return pairs

    def remember(self, label: Label, name: bytes, secret: bytes) -> bool:
        """Keep a secret under a name, like a line of the log; return False if it was known or the name has too many."""
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
        entry = _read_line(line)
        if entry is not None:
            new = self.remember(*entry)
            self.lines += new
            self.duplicates += not new
        elif line.split(maxsplit=1)[0] not in NOT_NEEDED:
            self.passed_over += 1


def _read_line(line: bytes) -> tuple[Label, bytes, bytes] | None:
    """Return the label, client random or session id, and secret of a line; None if it has none."""
    words = line.split() if len(line) <= MAX_LINE else []
    if len(words) != 3:
        return None
    if words[0] == b"RSA":  # "RSA Session-ID:hex Master-Key:hex", of tools that read OpenSSL's sessions
        (name_is, _, name_digits), (key_is, _, digits) = words[1].partition(b":"), words[2].partition(b":")
        name, secret = _unhex(name_digits), _unhex(digits)
        is_session = (name_is, key_is) == (b"Session-ID", b"Master-Key") and 0 < len(name) <= 32
        return (Label.SESSION, name, secret) if is_session and len(secret) == MASTER_SIZE else None
    label = LABELS.get(words[0])
    name, secret = _unhex(words[1]), _unhex(words[2])
    if label is None or len(name) != RANDOM_SIZE:
        return None
    sizes = (MASTER_SIZE,) if label is Label.MASTER else TRAFFIC_SIZES
    return (label, name, secret) if len(secret) in sizes else None


def _unhex(text: bytes) -> bytes:
    """Return the bytes of a hexadecimal word; empty if it is not one."""
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return b""


READ_SIZE = 1 << 20


class KeyLogFile:
    """Returns a key log's bytes piece by piece, including those written later.

    Raises:
        OptionError: it cannot be opened or read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise OptionError(f"keylog {path}: cannot be opened: {error.strerror}") from error

    def more(self) -> bytes:
        """Return the next bytes; empty if the file has no more at present."""
        try:
            return self._file.read(READ_SIZE)
        except OSError as error:
            raise OptionError(f"keylog {self._path}: cannot be read: {error.strerror}") from error

    def reopen(self) -> None:
        """Open the file again at the same position, as a forked process shares the position with its parent."""
        position = self._file.tell()
        self._file.close()
        self._file = self._path.open("rb")
        self._file.seek(position)

    def close(self) -> None:
        self._file.close()
