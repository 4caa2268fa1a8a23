"""Encrypted values for those who read captures: decrypted with the keys of a key service, or said which key they take.

Unlike the filter, it waits for the key service in the caller's thread; a call ends within KeySettings.timeout. A service that is
away is asked for the same again after AWAY_S.
"""

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kproxy.encryption.envelope import HEADER, MARKER, VALUE, Damaged, Envelope, has_lost_marker, read_envelope, split
from kproxy.encryption.services.contract import KeyRefused, KeyService, KeyServiceAway, KeyServiceError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from kproxy.encryption.batches import ValueReader

MOST_KEYS = 10_000
AWAY_S = 30.0
NO_SERVICE = "no key service was named (--keys FILE)"


class Decrypted(NamedTuple):
    """What became of an encrypted value."""

    value: bytes | None  # plain; None: see problem
    key_name: str | None  # the key that it takes; None: that cannot be read
    problem: str | None


class RecordKeys:
    """Decrypts values for outputs.

    Args:
        service: the key service; None: values are not decrypted, but the key that they take is known.
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, service: KeyService | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._monotonic = monotonic
        self._known: dict[tuple[str, bytes], tuple[AESGCM | KeyServiceError, float]] = {}  # and until when it is known
        self._reader: ValueReader | None = None

    def decrypt(self, key: bytes | None, value: bytes, header: bytes | None = None) -> Decrypted | None:
        """Return what became of the value of a record, or of its header *header*; None for a plain one. *key*: the record's."""
        part = VALUE if header is None else HEADER
        if not value.startswith(MARKER) and not has_lost_marker(value, part):
            return None
        from kproxy.encryption.batches import CannotDecrypt, ValueReader  # noqa: PLC0415 - few captures have any

        self._reader = self._reader or ValueReader(self, None)
        self._reader.begin()
        try:
            return Decrypted(self._reader.read(key, value, header), _key_name(value, part), None)
        except CannotDecrypt as error:
            return Decrypted(None, _key_name(value, part), str(error))

    def for_reading(self, envelope: Envelope) -> "AESGCM":
        """Return the cipher with the data key of a record. Raises KeyServiceError."""
        if self._service is None:
            raise KeyRefused(NO_SERVICE)
        question = envelope.key_name, envelope.wrapped
        known, until = self._known.get(question, (None, 0.0))
        if known is None or until < self._monotonic():
            if len(self._known) >= MOST_KEYS:
                self._known.clear()
            known = self._asked(self._service, envelope)
            until = self._monotonic() + AWAY_S if isinstance(known, KeyServiceAway) else math.inf
            self._known[question] = known, until
        if isinstance(known, KeyServiceError):
            raise known.with_traceback(None)
        return known

    def _asked(self, service: KeyService, envelope: Envelope) -> "AESGCM | KeyServiceError":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        try:
            return AESGCM(service.unwrap(envelope.key_name, envelope.wrapped))
        except KeyServiceError as error:
            return error
        except Exception as error:  # of a service that breaks its contract
            return KeyServiceAway(f"the key service failed ({type(error).__name__})")


def _key_name(value: bytes, part: int) -> str | None:
    try:
        encoded = split(value)
        return None if encoded is None else read_envelope(encoded, part).key_name
    except Damaged:
        return None
