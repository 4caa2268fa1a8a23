"""What a key service is: it makes data keys, and gives back the plain key of a wrapped one.

A data key is what records are encrypted with; it is stored next to them, wrapped by a key that never leaves its key service.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kproxy.errors import KproxyError

DATA_KEY_SIZE = 32  # bytes: AES-256
MOST_NAME = 255  # bytes of the name of a key, and of a topic, in a record
MOST_WRAPPED = 4_096  # bytes of a wrapped data key; that of AWS KMS has 184


class KeyServiceError(KproxyError):
    """A key service did not do what it was asked for. The message is one sentence without secrets.

    This class itself: the name or the wrapped data key is wrong, so that the record is damaged, and nobody needs to ask again.
    """


class KeyServiceAway(KeyServiceError):
    """The key service is slow, away or throttles, or answers what is not its own: the same call may succeed later.

    A record is never skipped for it, and producers try again.
    """


class KeyRefused(KeyServiceError):
    """kproxy has no right to use the key, or its login at the key service is not valid."""


class KeyDestroyed(KeyServiceError):
    """There is no such key, or that version of it is gone: what it wrapped stays unreadable."""


@dataclass(frozen=True, slots=True)
class DataKey:
    """A new data key.

    Attributes:
        plain: the key, 32 bytes; not in the repr.
        wrapped: the same key, encrypted by a key of the key service; at most MOST_WRAPPED bytes.
    """

    plain: bytes = field(repr=False)
    wrapped: bytes


class KeyService(Protocol):
    """A key service. Its methods block, and several threads may call them at once.

    Each raises a KeyServiceError, and nothing else, within a bounded time.
    """

    def new_data_key(self, key_name: str) -> DataKey:
        """Return a new data key, wrapped by the newest version of the key *key_name*."""

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        """Return the 32 bytes of the data key that *wrapped* holds.

        Raises KeyDestroyed if the key, or the version of it that wrapped the data key, is gone. Bytes that this key has not
        wrapped are a KeyServiceError.
        """

    def close(self) -> None:
        """Give up connections, and forget keys."""


def try_key(service: KeyService, key_name: str) -> DataKey:
    """Have a data key made by a key, and unwrapped; return it. Raises KeyServiceError if it is not the same afterwards."""
    made = service.new_data_key(key_name)
    if service.unwrap(key_name, made.wrapped) != made.plain:
        raise KeyServiceError(f"{key_name}: the data key that was unwrapped is not the one that was made")
    return made


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What may be shown of a key.

    Attributes:
        versions: how many it has had; the newest wraps new data keys.
        oldest: the oldest version that unwraps; None if the key has been destroyed.
        rotated_at: when the newest version was made, in milliseconds of the epoch; None if the service does not say.
        destroyed_at: when the key was destroyed, or will be; None otherwise.
    """

    name: str
    versions: int
    oldest: int | None
    rotated_at: int | None = None
    destroyed_at: int | None = None


@runtime_checkable
class KeyManager(Protocol):
    """What `kproxy keys` needs of a key service, in addition to KeyService. Each method raises KeyServiceError.

    *dry_run*: do all but the change, so that what would make it fail is found.
    """

    def list_keys(self) -> list[KeyFacts]:
        """Return the facts of all keys, by name."""

    def describe_key(self, key_name: str) -> KeyFacts:
        """Return the facts of a key. Raises KeyDestroyed if there is none."""

    def make(self, key_name: str, *, dry_run: bool = False) -> None:
        """Make a new key."""

    def rotate(self, key_name: str, *, dry_run: bool = False) -> None:
        """Add a version, which new data keys are wrapped by; the earlier ones go on unwrapping."""

    def destroy(self, key_name: str, before: int | None = None, *, dry_run: bool = False) -> None:
        """Destroy a key, or its versions before *before*: what they wrapped can never be read again."""

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        """Return a wrapped data key as the newest version wraps it."""


def check_name(name: str, of: str = "a key") -> None:
    """Raise KeyServiceError if the name of a key or topic does not fit into records."""
    try:
        fits = 0 < len(name.encode()) <= MOST_NAME
    except UnicodeEncodeError:  # it came as other bytes than UTF-8
        fits = False
    if not fits:
        raise KeyServiceError(
            f"the name of {of} has 1 to {MOST_NAME} bytes of UTF-8: {name[:MOST_NAME]!r} cannot be used"
        )


def check_new_name(key_name: str) -> None:
    """Raise KeyServiceError if no rule of the filter encrypt can name a key so."""
    check_name(key_name)
    if not key_name.isprintable() or {*key_name} & {*"{}"}:
        raise KeyServiceError(
            "the name of a key has characters that can be printed, and no braces, as rules replace what is in them: choose "
            "another name"
        )


def check_before(key_name: str, before: int | None, versions: int) -> None:
    """Raise KeyServiceError if a key, which has so many versions, has none before *before* that may be destroyed alone."""
    if before is not None and versions == 1:
        raise KeyServiceError(
            f"the key {key_name} has one version, which new data keys are wrapped by: rotate it before"
        )
    if before is not None and not 1 < before <= versions:
        raise KeyServiceError(f"the key {key_name} has versions 1 to {versions}: write one of 2 to {versions}")


def check_is_new(manager: KeyManager, key_name: str) -> None:
    """Raise KeyServiceError if there is a key of this name, or no rule of the filter encrypt can use it."""
    check_new_name(key_name)
    with suppress(KeyDestroyed):
        manager.describe_key(key_name)
        raise KeyServiceError(f"there is a key {key_name} already")
