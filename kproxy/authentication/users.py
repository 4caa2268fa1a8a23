"""The users file: who may log in with PLAIN and SCRAM. It has no password, only what a password can be checked by.

    {"unknown_users": "...", "users": {"alice": {"groups": ["ops"], "PLAIN": "salt=...,hash=...,n=16384,r=8,p=1",
     "SCRAM-SHA-256": "salt=...,stored_key=...,server_key=...,iterations=4096"}}}

PLAIN has a slow hash (scrypt, RFC 7914), so that passwords cannot be guessed soon if the file is stolen. SCRAM has the verifier
of RFC 5802 in Kafka's own text. `kproxy users` writes the file.

A user that does not exist, or has no credential of the mechanism, is answered as one with a wrong password: with the salt and the
iterations that it might have, and after the same work. Such a salt has to stay the same, as that of a real user does:
``unknown_users`` is the key that it is made with.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kproxy.authentication.scram import DIGESTS, LEAST_ITERATIONS, Verifier, make_verifier, parse_verifier
from kproxy.errors import UsageError

LARGEST = 64 << 20  # bytes of the file: 100,000 users
SALT_SIZE = 16  # bytes
KEY_SIZE = 32  # bytes of unknown_users
HASH_SIZE = 32  # bytes
LONGEST_NAME = 1_024  # characters
SCRYPT = (16_384, 8, 1)  # n, r, p: 16 MB and 50 ms for each login
MOST_SCRYPT = (131_072, 16, 4)  # as a person may have made the file in another way
MEMORY_FACTOR = 128  # bytes that scrypt takes for each n times r
SPARE_MEMORY = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class SlowHash:
    """The hash of a PLAIN password."""

    salt: bytes
    hash: bytes
    scrypt: tuple[int, int, int]  # n, r, p

    def __repr__(self) -> str:
        return f"SlowHash(scrypt={self.scrypt})"

    def matches(self, password: bytes) -> bool:
        """Return whether it is the hash of *password*; takes long."""
        return hmac.compare_digest(_scrypt(password, self.salt, self.scrypt), self.hash)

    def render(self) -> str:
        """Return the text that `parse_slow_hash` reads."""
        n, r, p = self.scrypt
        return f"salt={b64encode(self.salt).decode()},hash={b64encode(self.hash).decode()},n={n},r={r},p={p}"


def make_slow_hash(password: bytes) -> SlowHash:
    salt = secrets.token_bytes(SALT_SIZE)
    return SlowHash(salt, _scrypt(password, salt, SCRYPT), SCRYPT)


def parse_slow_hash(text: str) -> SlowHash:
    """Read a hash. Raises ValueError, without any of the text."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, hash_ = (b64decode(parts[name], validate=True) for name in ("salt", "hash"))
        n, r, p = (int(parts[name]) if len(parts[name]) < 8 else -1 for name in ("n", "r", "p"))
    except (KeyError, ValueError):
        raise ValueError("the credential of PLAIN is not salt=,hash=,n=,r=,p=") from None
    if not all(1 <= one <= most for one, most in zip((n, r, p), MOST_SCRYPT, strict=True)) or n < 2 or n & (n - 1):
        raise ValueError("n, r and p of PLAIN are not within 131072, 16 and 4, n a power of two")
    if not salt or len(hash_) != HASH_SIZE:
        raise ValueError(f"the hash of PLAIN has {HASH_SIZE} bytes")
    return SlowHash(salt, hash_, (n, r, p))


def _scrypt(password: bytes, salt: bytes, costs: tuple[int, int, int]) -> bytes:
    n, r, p = costs
    memory = MEMORY_FACTOR * n * r + SPARE_MEMORY
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=memory, dklen=HASH_SIZE)


class User(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A user as the file has it."""

    groups: list[str] = []
    plain: str | None = msgspec.field(default=None, name="PLAIN")
    scram_sha_256: str | None = msgspec.field(default=None, name="SCRAM-SHA-256")
    scram_sha_512: str | None = msgspec.field(default=None, name="SCRAM-SHA-512")

    def __repr__(self) -> str:
        return f"User({', '.join(self.mechanisms)})"

    @property
    def mechanisms(self) -> list[str]:
        return [name for name, field in FIELDS.items() if getattr(self, field) is not None]


FIELDS = {"PLAIN": "plain", "SCRAM-SHA-256": "scram_sha_256", "SCRAM-SHA-512": "scram_sha_512"}


class UsersFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    unknown_users: str  # in base 64
    users: dict[str, User] = {}


def new_users_file() -> UsersFile:
    return UsersFile(b64encode(secrets.token_bytes(KEY_SIZE)).decode())


def set_password(user: User, mechanisms: Iterable[str], password: str, iterations: int) -> None:
    """Replace the credentials of a user by those of a password, for these mechanisms; those of others are removed."""
    encoded = password.encode()
    for mechanism, field in FIELDS.items():
        text = None
        if mechanism in mechanisms:
            if mechanism in DIGESTS:
                text = make_verifier(mechanism, encoded, secrets.token_bytes(SALT_SIZE), iterations).render()
            else:
                text = make_slow_hash(encoded).render()
        setattr(user, field, text)


def read_users_file(path: Path) -> UsersFile:
    """Read the file as it stands. Raises UsageError, whose text has nothing of its values."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError:  # NUL in the name
        raise UsageError(f"{str(path)!r} is not a file name") from None
    if len(data) > LARGEST:
        raise UsageError(f"{path}: more than {LARGEST >> 20} MB, which are no users file")
    try:
        return msgspec.json.decode(data, type=UsersFile)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_without_names(str(error))}") from None
    except (msgspec.DecodeError, RecursionError):
        raise UsageError(f"{path}: it is not JSON; write it with `kproxy users`") from None


def write_users_file(path: Path, file: UsersFile) -> None:
    """Write the file in one step, for its owner to read alone unless it had another mode. Raises UsageError."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        beside.touch(mode=0o600, exist_ok=False)
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
        beside.chmod(mode)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{path}: {error.strerror}") from None


def _without_names(message: str) -> str:
    """Keep what msgspec says about types: its path may name a field that holds a secret, but no value."""
    return f"it is not a users file: {message}; write it with `kproxy users`"


class Users:
    """The users of a file, checked.

    Raises UsageError.
    """

    def __init__(self, path: Path) -> None:
        file = read_users_file(path)
        try:
            self._key = b64decode(file.unknown_users, validate=True)
        except ValueError:
            self._key = b""
        if len(self._key) < KEY_SIZE:
            raise UsageError(f"{path}: unknown_users is not {KEY_SIZE} bytes in base 64; `kproxy users` makes it")
        self._groups = {name: frozenset(user.groups) for name, user in file.users.items()}
        self._hashes: dict[str, SlowHash] = {}
        self._verifiers: dict[tuple[str, str], Verifier] = {}
        for name, user in file.users.items():
            if not 0 < len(name) <= LONGEST_NAME or "\0" in name:
                raise UsageError(f"{path}: a name has 1 to {LONGEST_NAME} characters, and no NUL")
            try:
                self._add(name, user)
            except ValueError as error:
                raise UsageError(f"{path}: user {name!r}: {error}") from None
        self._usual = {mechanism: self._most_common(mechanism) for mechanism in DIGESTS}
        costs = Counter(hash_.scrypt for hash_ in self._hashes.values())
        self._usual_hash = SlowHash(
            secrets.token_bytes(SALT_SIZE), bytes(HASH_SIZE), costs.most_common(1)[0][0] if costs else SCRYPT
        )

    def _add(self, name: str, user: User) -> None:
        if user.plain is not None:
            self._hashes[name] = parse_slow_hash(user.plain)
        for mechanism in DIGESTS:
            text = getattr(user, FIELDS[mechanism])
            if text is not None:
                self._verifiers[mechanism, name] = parse_verifier(mechanism, text)

    def _most_common(self, mechanism: str) -> tuple[int, int]:
        """Return the size of the salt and the iterations that most users of a mechanism have."""
        known = Counter((len(v.salt), v.iterations) for (of, _), v in self._verifiers.items() if of == mechanism)
        return known.most_common(1)[0][0] if known else (SALT_SIZE, LEAST_ITERATIONS)

    def __len__(self) -> int:
        return len(self._groups)

    def groups(self, name: str) -> frozenset[str]:
        return self._groups.get(name, frozenset())

    def verifier(self, mechanism: str, name: str) -> Verifier:
        """Return the verifier of a user; without one, a verifier that no password has, always with the same salt."""
        known = self._verifiers.get((mechanism, name))
        size, iterations = self._usual[mechanism]
        seed = hmac.digest(self._key, f"{mechanism}\0{name}".encode("utf-8", "surrogatepass"), "sha512")
        if known is not None:
            return known
        keys = secrets.token_bytes(hashlib.new(DIGESTS[mechanism]).digest_size)
        return Verifier(seed[:size].ljust(size, b"\0"), keys, keys, iterations)

    def matches(self, name: str, password: bytes) -> bool:
        """Return whether a PLAIN password is that of the user. Takes long (50 ms), also for a user that does not exist."""
        known = self._hashes.get(name)
        is_right = (known or self._usual_hash).matches(password)
        return is_right and known is not None
