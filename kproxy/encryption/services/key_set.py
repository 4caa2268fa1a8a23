"""A set of keys in a file, sealed by a passphrase or a key file: for development, and for sites without a key service.

    {"format": "kproxy key set 1", "seal": {"scrypt": {"salt": "...", "n": 32768, "r": 8, "p": 3}}, "sealed": "..."}

``sealed`` is base 64: a nonce of 12 bytes, then AES-256-GCM of the keys as JSON. Its associated data is the JSON of ``format``
and ``seal``. The key of the seal is scrypt (RFC 7914) of the passphrase, or HKDF-SHA256 (RFC 5869) of the key file. So neither
names nor keys can be read or changed without it; an older copy of the file can be put in its place.

A key has versions: the newest wraps new data keys, all of them unwrap. A destroyed version is removed, and remembered: what it
wrapped is then known to be lost, and no other key gets its name. A wrapped data key:

    offset  size
    0       1     1
    1       4     version of the key, big-endian
    5       12    nonce, random
    17      48    AES-256-GCM of the data key; associated data: the bytes before the nonce, then the name of the key

Random nonces are safe for 2^32 data keys of one version.
"""

import fcntl
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from kproxy.encryption.services.contract import (
    DATA_KEY_SIZE,
    DataKey,
    KeyDestroyed,
    KeyFacts,
    KeyServiceAway,
    KeyServiceError,
    check_before,
    check_new_name,
)
from kproxy.errors import UsageError
from kproxy.options import OptionMistakes, Options, Problem, text
from kproxy.secrets import SecretUnreadable, is_reference, read_bytes, read_secret

FORMAT = "kproxy key set 1"
LARGEST = 16 << 20  # bytes of the file
MOST_KEYS, MOST_VERSIONS = 10_000, 10_000
SCRYPT = (32_768, 8, 3)  # n, r, p: 32 MB and a quarter of a second
MOST_SCRYPT = (1 << 18, 8, 16)
SALT_SIZE = 16  # bytes
NONCE_SIZE = 12  # bytes
LEAST_KEY_FILE, LEAST_PASSPHRASE = 32, 12  # bytes
WRAPPED = b"\x01"
WRAPPED_SIZE = 1 + 4 + NONCE_SIZE + DATA_KEY_SIZE + 16
T = TypeVar("T")


class KeySetOptions(Options, frozen=True):
    """A sealed file of keys. It needs a passphrase or a key file."""

    files: ClassVar = ("path", "key_file")
    path: Annotated[str, text("The file; `kproxy keys` makes it, and it is read again when it changes.")]
    passphrase: Annotated[
        str | None, text('Where the passphrase is: "file:PATH" or "env:NAME". Never the passphrase itself.')
    ] = None
    key_file: Annotated[
        str | None, text("A file of at least 32 random bytes, which are known to nobody; in place of a passphrase.")
    ] = None

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        if (self.passphrase is None) == (self.key_file is None):
            problems.append(("passphrase", "write either passphrase or key_file"))
        elif self.passphrase is not None and not is_reference(self.passphrase):
            problems.append(("passphrase", 'it says where the passphrase is: write "file:PATH" or "env:NAME"'))
        if problems:
            raise OptionMistakes(problems)


class Costs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What scrypt is called with."""

    salt: bytes
    n: int
    r: int
    p: int


class Seal(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """How the key of the seal is made: by scrypt of a passphrase, else by HKDF of a key file with this salt."""

    scrypt: Costs | None = None
    salt: bytes | None = None


class SealedFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    format: str
    seal: Seal
    sealed: bytes


class Version(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A version of a key. Times are milliseconds of the epoch."""

    made_at: int
    key: bytes | None = None
    destroyed_at: int | None = None

    def __repr__(self) -> str:
        return f"Version(made_at={self.made_at}, destroyed_at={self.destroyed_at})"


Keys = dict[str, list[Version]]  # version 1 is the first of the list


class KeySet:
    """The key service "file".

    Args:
        options: where the file is, and what opens it.
        clock: seconds of the epoch.
    """

    Options = KeySetOptions
    is_on_this_machine = True  # kproxy check may ask it which keys there are

    def __init__(self, options: KeySetOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._path = Path(options.path)
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Keys = {}
        self._read_of: tuple[int, int, int] | None = None  # the file that they were read from

    def new_data_key(self, key_name: str) -> DataKey:
        plain = secrets.token_bytes(DATA_KEY_SIZE)
        return DataKey(plain, self._wrap(key_name, plain))

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        if len(wrapped) != WRAPPED_SIZE or not wrapped.startswith(WRAPPED):
            raise KeyServiceError(f"this is no data key that the key set {self._path} has wrapped")
        head, nonce, sealed = wrapped[:5], wrapped[5 : 5 + NONCE_SIZE], wrapped[5 + NONCE_SIZE :]
        version = int.from_bytes(head[1:], "big")
        try:
            return self._cipher(key_name, version).decrypt(nonce, sealed, head + key_name.encode())
        except InvalidTag:
            raise KeyServiceError(
                f"version {version} of the key {key_name} in {self._path} has not wrapped this data key: another copy of the key "
                "set may have another version of this number, if both were rotated"
            ) from None

    def close(self) -> None:
        """Forget the keys."""
        with self._lock:
            self._keys, self._read_of = {}, None

    def list_keys(self) -> list[KeyFacts]:
        return [self._facts(name, versions) for name, versions in sorted(self._known().items())]

    def describe_key(self, key_name: str) -> KeyFacts:
        return self._facts(key_name, self._versions(key_name))

    def make(self, key_name: str, *, dry_run: bool = False) -> None:
        """Add a key; make the file if there is none."""
        with self._change(dry_run) as keys:
            if key_name in keys:
                raise KeyServiceError(f"there is a key {key_name} already, or there was one: choose another name")
            check_new_name(key_name)
            if len(keys) >= MOST_KEYS:
                raise KeyServiceError(f"a key set has at most {MOST_KEYS:,} keys")
            keys[key_name] = [self._new_version()]

    def rotate(self, key_name: str, *, dry_run: bool = False) -> None:
        with self._change(dry_run) as keys:
            versions = self._versions(key_name, keys)
            self._newest(key_name, versions)
            if len(versions) >= MOST_VERSIONS:
                raise KeyServiceError(f"a key has at most {MOST_VERSIONS:,} versions")
            versions.append(self._new_version())

    def destroy(self, key_name: str, before: int | None = None, *, dry_run: bool = False) -> None:
        with self._change(dry_run) as keys:
            versions = self._versions(key_name, keys)
            self._newest(key_name, versions)
            check_before(key_name, before, len(versions))
            for version in versions[: None if before is None else before - 1]:
                version.key, version.destroyed_at = None, version.destroyed_at or self._now()

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        return self._wrap(key_name, self.unwrap(key_name, wrapped))

    def seal_with(self, options: KeySetOptions, *, dry_run: bool = False) -> int:
        """Write the keys into the file that *options* name, which may be the same, sealed as they say; return their number."""
        other = KeySet(options, self._clock)
        with self._locked():
            keys = self._read()
            if other._path.exists() and not (self._path.exists() and other._path.samefile(self._path)):
                raise KeyServiceError(f"{other._path} exists: it is not overwritten by another key set")
            other._write(keys, dry_run)
        return len(keys)

    def _wrap(self, key_name: str, plain: bytes) -> bytes:
        versions = self._versions(key_name)
        self._newest(key_name, versions)
        head, nonce = WRAPPED + len(versions).to_bytes(4, "big"), secrets.token_bytes(NONCE_SIZE)
        sealed = self._cipher(key_name, len(versions)).encrypt(nonce, plain, head + key_name.encode())
        return head + nonce + sealed

    def _cipher(self, key_name: str, version: int) -> AESGCM:
        versions = self._versions(key_name)
        if not 0 < version <= len(versions):
            raise KeyServiceError(f"the key {key_name} has no version {version}: is {self._path} an old copy?")
        key = versions[version - 1].key
        if key is None:
            raise KeyDestroyed(f"version {version} of the key {key_name} has been destroyed")
        return AESGCM(key)

    def _versions(self, key_name: str, keys: Keys | None = None) -> list[Version]:
        known = self._known() if keys is None else keys
        if key_name not in known:
            raise KeyDestroyed(f"there is no key {key_name} in {self._path}")
        return known[key_name]

    def _newest(self, key_name: str, versions: list[Version]) -> Version:
        """Return the newest version. Raises KeyDestroyed."""
        if versions[-1].key is None:
            raise KeyDestroyed(f"the key {key_name} has been destroyed")
        return versions[-1]

    def _facts(self, key_name: str, versions: list[Version]) -> KeyFacts:
        usable = [number for number, version in enumerate(versions, 1) if version.key is not None]
        return KeyFacts(
            key_name, len(versions), min(usable, default=None), versions[-1].made_at, versions[-1].destroyed_at
        )

    def _new_version(self) -> Version:
        return Version(self._now(), AESGCM.generate_key(256))

    def _now(self) -> int:
        return int(self._clock() * 1_000)

    def _known(self) -> Keys:
        """Return the keys of the file, which is opened again only if it has changed."""
        with self._lock:
            try:
                status = self._path.stat()
            except FileNotFoundError as error:
                hint = "put it back, or if there was none, make it with its first key: kproxy keys FILE --make KEY"
                raise KeyServiceAway(f"{self._path}: {error.strerror}: {hint}") from None
            except OSError as error:
                raise KeyServiceAway(f"{self._path}: {error.strerror}") from None
            read_of = (status.st_ino, status.st_mtime_ns, status.st_size)
            if read_of != self._read_of:
                self._keys, self._read_of = self._read(), read_of
            return self._keys

    @contextmanager
    def _change(self, dry_run: bool) -> Iterator[Keys]:
        """Yield the keys, and write them; no other process changes the file meanwhile. *dry_run*: do not replace the file."""
        with self._locked():
            keys = self._read() if self._path.exists() else {}
            yield keys
            self._write(keys, dry_run)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        path = self._path.resolve().parent
        folder = _usable(lambda: os.open(path, os.O_RDONLY), path)
        try:
            _usable(lambda: fcntl.flock(folder, fcntl.LOCK_EX), path)  # a lock file would stay behind
            yield
        finally:
            os.close(folder)

    def _read(self) -> Keys:
        data = _usable(lambda: read_bytes(self._path, LARGEST), self._path)
        try:
            file = msgspec.json.decode(data, type=SealedFile)
        except (msgspec.DecodeError, RecursionError):
            raise KeyServiceAway(f"{self._path} is not a key set of kproxy") from None
        if file.format != FORMAT:
            raise KeyServiceAway(f"{self._path} is not a {FORMAT}")
        try:
            plain = AESGCM(self._seal_key(file.seal)).decrypt(
                file.sealed[:NONCE_SIZE], file.sealed[NONCE_SIZE:], _associated(file.seal)
            )
            return msgspec.json.decode(plain, type=Keys)
        except (InvalidTag, ValueError):
            what = "the passphrase" if self._options.passphrase is not None else "the key file"
            raise KeyServiceAway(f"{what} does not open {self._path}, or the file is damaged") from None

    def _write(self, keys: Keys, dry_run: bool) -> None:
        """Write the file in one step, for its owner alone. *dry_run*: write it next to where it would be, and remove it."""
        salt = secrets.token_bytes(SALT_SIZE)
        by_passphrase = self._options.passphrase is not None
        seal = Seal(scrypt=Costs(salt, *SCRYPT)) if by_passphrase else Seal(salt=salt)
        nonce = secrets.token_bytes(NONCE_SIZE)
        sealed = nonce + AESGCM(self._seal_key(seal)).encrypt(nonce, msgspec.json.encode(keys), _associated(seal))
        data = msgspec.json.format(msgspec.json.encode(SealedFile(FORMAT, seal, sealed)), indent=1) + b"\n"
        _usable(lambda: _replace(self._path, data, dry_run), self._path)

    def _seal_key(self, seal: Seal) -> bytes:
        """Return the key of the seal. Raises KeyServiceAway."""
        options = self._options
        if (seal.scrypt is None) != (options.passphrase is None):
            by, other = ("key_file", "passphrase") if seal.scrypt is None else ("passphrase", "key_file")
            raise KeyServiceAway(f"{self._path} is sealed by a {by}: write {by} in place of {other}")
        if options.key_file is not None:
            content = _usable(lambda: read_bytes(Path(options.key_file or "")), Path(options.key_file))
            if len(content) < LEAST_KEY_FILE:
                raise KeyServiceAway(f"{options.key_file} has fewer than {LEAST_KEY_FILE} bytes")
            return HKDF(SHA256(), 32, seal.salt, FORMAT.encode()).derive(content)
        assert seal.scrypt is not None and options.passphrase is not None
        costs = seal.scrypt
        if not all(0 < one <= most for one, most in zip((costs.n, costs.r, costs.p), MOST_SCRYPT, strict=True)) or (
            costs.n < 2 or costs.n & (costs.n - 1)
        ):
            raise KeyServiceAway(
                f"{self._path}: n, r and p of scrypt are not within 262144, 8 and 16, n a power of two"
            )
        try:
            passphrase = read_secret(options.passphrase)
        except SecretUnreadable as error:
            raise KeyServiceAway(str(error)) from None
        if len(passphrase.encode()) < LEAST_PASSPHRASE:
            raise KeyServiceAway(f"the passphrase of {self._path} has fewer than {LEAST_PASSPHRASE} bytes")
        return Scrypt(costs.salt, 32, costs.n, costs.r, costs.p).derive(passphrase.encode())


def _associated(seal: Seal) -> bytes:
    return json.dumps([FORMAT, msgspec.to_builtins(seal)], sort_keys=True).encode()


def _usable(step: Callable[[], T], path: Path) -> T:
    """Return what a step that uses a file returns. Raises KeyServiceAway, as the file may be there a moment later."""
    try:
        return step()
    except OSError as error:
        raise KeyServiceAway(f"{path}: {error.strerror}") from None
    except UsageError as error:
        raise KeyServiceAway(str(error)) from None


def _replace(path: Path, data: bytes, dry_run: bool) -> None:
    """Replace a file in one step. The new file gets the owner and mode of the old one; a link stays a link. Raises OSError."""
    path = path.resolve()
    before = path.stat() if path.exists() else None
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if not dry_run:
            beside.replace(path)
            _sync(path.parent)  # before what the new key encrypts is written anywhere
    finally:
        beside.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
