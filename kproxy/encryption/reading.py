"""Encrypted fields of records for those who read captures: decrypted with the keys of a key service, or said which key they take.

Unlike the filter, it waits for the key service in the caller's thread; a call ends within KeySettings.timeout. A service that is
away is asked for the same again after AWAY_S.
"""

import math
import time
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kproxy.encryption.envelope import (
    BYTES_FIELD,
    FIELD,
    HEADER,
    KEY,
    MARKER,
    VALUE,
    Damaged,
    Envelope,
    has_lost_marker,
    read_envelope,
    split,
)
from kproxy.encryption.fields import TEXT_MARKER, Place, name_of, sealed_in
from kproxy.encryption.services.contract import KeyRefused, KeyService, KeyServiceAway, KeyServiceError

if TYPE_CHECKING:
    from kproxy.encryption.batches import ValueReader
    from kproxy.encryption.data_keys import Question, ReadingCipher

MOST_KEYS = 10_000
AWAY_S = 30.0
NO_SERVICE = "no key service was named (--keys FILE)"


class Decrypted(NamedTuple):
    """What became of an encrypted value or record key."""

    value: bytes | None  # plain; None: see problem
    key_name: str | None  # the key that it takes; None: that cannot be read
    problem: str | None


class OutputKeys:
    """Decrypts values and record keys for outputs.

    Args:
        service: the key service; None: values are not decrypted, but the key that they take is known.
        monotonic: seconds of a clock that never goes back.
    """

    def __init__(self, service: KeyService | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._monotonic = monotonic
        self._known: dict[Question, tuple[ReadingCipher | KeyServiceError, float]] = {}  # and until when
        self._reader: ValueReader | None = None

    def decrypt(self, key: bytes | None, value: bytes, header: bytes | None = None) -> Decrypted | None:
        """Return what became of the value of a record, or of its header *header*; None for a plain one.

        *key*: that of the record, as it is stored.
        """
        part = VALUE if header is None else HEADER
        return self._decrypted(value, part, lambda reader: reader.read(key, value, header))

    def decrypt_key(self, key: bytes) -> Decrypted | None:
        """Return what became of a record key; None for a plain one."""
        return self._decrypted(key, KEY, lambda reader: reader.read_key(key))

    def decrypt_field(self, key: bytes | None, place: Place, text: str) -> Decrypted | None:
        """Return what became of a text in a value, as JSON has it; None for a plain one. Bytes are base64 there."""
        data = text.encode("utf-8", "surrogatepass")
        if not data.startswith(TEXT_MARKER):
            return None
        try:
            sealed = sealed_in(data) or b""
            is_text = split(sealed) is None or sealed[5] & 15 != BYTES_FIELD
        except Damaged as error:
            return Decrypted(None, None, f"an encrypted field is damaged: {error}")
        part, field = (FIELD, data) if is_text else (BYTES_FIELD, sealed)
        path = name_of(place)
        read = self._decrypted(sealed, part, lambda reader: reader.read_field(key, field, path, is_text))
        if read is None or read.value is None or is_text:
            return read
        return read._replace(value=b64encode(read.value))

    def _decrypted(self, field: bytes, part: int, read: "Callable[[ValueReader], bytes]") -> Decrypted | None:
        if not field.startswith(MARKER) and not has_lost_marker(field, part):
            return None
        from kproxy.encryption.batches import CannotDecrypt, ValueReader  # noqa: PLC0415 - few captures have any

        self._reader = self._reader or ValueReader(self, None)
        self._reader.begin()
        try:
            return Decrypted(read(self._reader), _key_name(field, part), None)
        except CannotDecrypt as error:
            return Decrypted(None, _key_name(field, part), str(error))

    def for_reading(self, envelope: Envelope) -> "ReadingCipher":
        """Return the cipher with the data key of a field of a record. Raises KeyServiceError."""
        if self._service is None:
            raise KeyRefused(NO_SERVICE)
        from kproxy.encryption.data_keys import Question  # noqa: PLC0415 - few captures have any

        question = Question.of(envelope)
        known, until = self._known.get(question, (None, 0.0))
        if known is None or until < self._monotonic():
            if len(self._known) >= MOST_KEYS:
                self._known.clear()
            known = self._asked(self._service, question)
            until = self._monotonic() + AWAY_S if isinstance(known, KeyServiceAway) else math.inf
            self._known[question] = known, until
        if isinstance(known, KeyServiceError):
            raise known.with_traceback(None)
        return known

    def _asked(self, service: KeyService, question: "Question") -> "ReadingCipher | KeyServiceError":
        try:
            return question.cipher(service.unwrap(question.key_name, question.wrapped))
        except KeyServiceError as error:
            return error


def _key_name(value: bytes, part: int) -> str | None:
    try:
        encoded = split(value)
        return None if encoded is None else read_envelope(encoded, part).key_name
    except Damaged:
        return None
