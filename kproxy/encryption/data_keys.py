"""Which data keys records are written with, and the data keys of records that are read.

The key service is asked in threads, never by the caller: what is not known yet raises KeyNotYet, and the caller looks again a
moment later, as with schemas. The states of a data key, for writing and reading alike:

    fresh    it is used
    old      its age or its number of records has been reached: it is used while the service is asked for another (or for the
             same again, when it is read with), for at most DataKeyLimits.away_s: a service that is away stops nobody at once
    gone     it is not used; the service's error is raised, or KeyNotYet while it is asked

That a key was destroyed, or is refused now, shows when the service is asked: a fresh data key is used for reading and writing
until it is old, and is gone with that answer. So for up to DataKeyLimits.age_s after a key was destroyed its records are still
read, and new ones written; only a new process asks at once. After an error the service is not asked for the same again for
PAUSE_S while it is away, REFUSED_S if it refuses the key, and LASTING_S after any other error. At most MOST_QUESTIONS are asked
at a time, and the MOST_KEYS data keys and errors that were used last are kept: topics and data keys may be made up.
"""

import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from zstandard import ZstdCompressor

from kproxy.encryption.editors import SealingEditor
from kproxy.encryption.envelope import BYTES_FIELD, FIELD, HEADER, KEY, NONCE, TAG, Envelope, place_of
from kproxy.encryption.made_once import MadeOnce
from kproxy.encryption.services.contract import (
    DataKey,
    KeyDestroyed,
    KeyRefused,
    KeyService,
    KeyServiceAway,
    KeyServiceError,
    check_name,
)
from kproxy.protocol.records.compression import FASTEST_ZSTD, Codec
from kproxy.protocol.records.limits import DEFAULT_LIMITS

MOST_KEYS = 10_000
SMALLEST_PACKED = 64  # bytes; smaller values hardly become smaller
# Of a value to what is written for it. Mirrors may put any values into one batch: up to Kafka's default message.max.bytes,
# it decompresses to no more than the values of a batch may
MOST_RATIO = DEFAULT_LIMITS.decompressed // (1 << 20)
MOST_QUESTIONS = 8
PAUSE_S, REFUSED_S, LASTING_S = 1.0, 10.0, 60.0  # rights are given sooner than a destroyed key comes back
MOST_RECORDS = 1 << 32  # of a data key, and MOST_BLOCKS: bounds of the cipher, whatever the options say
MOST_BLOCKS = 1 << 32  # of 16 bytes
SIV_KEY_SIZE = 64  # bytes: two keys of AES-256

Seal = Callable[[bytes | None, bytes], bytes]  # record key, value -> encrypted value
SealKey = Callable[[bytes], bytes]  # record key -> encrypted record key
ReadingCipher = AESGCM | AESSIV  # of values and headers; of record keys
SealHeader = Callable[[bytes | None, bytes, bytes], bytes]  # record key, header name, its value -> encrypted value
# Record key, path of the field, its text in UTF-8 or its bytes, whether it is a text -> what is encrypted
SealField = Callable[[bytes | None, bytes, bytes, bool], bytes]


class KeyNotYet(Exception):
    """The key service has to answer first."""


@dataclass(frozen=True)
class DataKeyLimits:
    """How long data keys are used."""

    records: int = 1 << 24  # written with one
    age_s: float = 3600.0  # after which another is written with, and a known one is unwrapped again
    away_s: float = 3600.0  # how much longer, while the service is away


class WritingKey:
    """A data key that encrypts: made by this process, and used by no other."""

    def __init__(self, key_name: str, topic: str, data_key: DataKey) -> None:
        self._envelope = Envelope(key_name, topic, data_key.wrapped).encoded()
        self._envelope_of_packed = Envelope(key_name, topic, data_key.wrapped, Codec.ZSTD).encoded()
        self._envelope_of_header = Envelope(key_name, topic, data_key.wrapped, part=HEADER).encoded()
        self._envelopes_of_fields = {
            is_text: Envelope(key_name, topic, data_key.wrapped, part=FIELD if is_text else BYTES_FIELD).encoded()
            for is_text in (True, False)
        }
        self._aes = AESGCM(data_key.plain)
        self._numbers = itertools.count()
        self._blocks: dict[int, list[int]] = {}  # one number for each thread, as += in two threads loses some
        self.records = 0

    @property
    def growth(self) -> int:
        """How many bytes a field has more when it is encrypted."""
        return len(self._envelope) + NONCE + TAG

    @property
    def blocks(self) -> int:
        """How many blocks of 16 bytes the cipher made, one more for each tag."""
        return sum(number for (number,) in list(self._blocks.values()))

    def packing(self) -> Seal:
        """Return what encrypts the values of one batch, in one thread; those that zstd makes smaller are compressed before."""
        salt = os.urandom(4)
        return self._packing(self._sealing(self._envelope, salt), self._sealing(self._envelope_of_packed, salt))

    @contextmanager
    def sealing_values(self) -> Iterator[SealingEditor]:
        """Return what encrypts the values of one batch that are not compressed before, in one thread."""
        editor = SealingEditor(self._aes.encrypt_into, self._envelope, os.urandom(4), self._numbers)
        try:
            yield editor
        finally:
            self.records = max(self.records, editor.number + 1)
            self._blocks.setdefault(threading.get_ident(), [0])[0] += editor.blocks

    def sealing_headers(self, named: Callable[[bytes], bool]) -> SealHeader:
        """Return what encrypts the values of the headers of one batch that are *named* so, in one thread."""
        salt = os.urandom(4)

        def made(name: bytes) -> Seal | None:
            return self._sealing(self._envelope_of_header, salt, place_of(name)) if named(name) else None

        seals = MadeOnce(made)

        def seal(key: bytes | None, name: bytes, value: bytes) -> bytes:
            by_name = seals[name]
            return value if by_name is None else by_name(key, value)

        return seal

    def sealing_fields(self) -> SealField:
        """Return what encrypts fields of the values of one batch, in one thread."""
        salt = os.urandom(4)

        def made(place: tuple[bytes, bool]) -> Seal:
            path, is_text = place
            return self._sealing(self._envelopes_of_fields[is_text], salt, place_of(path))

        seals = MadeOnce(made)
        return lambda key, path, data, is_text: seals[path, is_text](key, data)

    def _sealing(self, envelope: bytes, salt: bytes, place: bytes = b"") -> Seal:
        numbers, encrypt = self._numbers, self._aes.encrypt
        blocks = self._blocks.setdefault(threading.get_ident(), [0])
        begin = envelope + place  # of the associated data

        def seal(key: bytes | None, value: bytes) -> bytes:
            number = next(numbers)  # one step, in any thread
            self.records = number + 1
            blocks[0] += (len(value) + 15 >> 4) + 1
            nonce = salt + number.to_bytes(8, "big")
            bound = begin + b"\0" if key is None else b"".join((begin, b"\1", key))
            return b"".join((envelope, nonce, encrypt(nonce, value, bound)))

        return seal

    def _packing(self, seal: Seal, seal_packed: Seal) -> Seal:
        """Return what encrypts a value, and compresses it before if that makes it smaller, but not beyond MOST_RATIO."""
        pack = ZstdCompressor(level=FASTEST_ZSTD).compress
        added = len(self._envelope_of_packed) + NONCE + TAG

        def pack_and_seal(key: bytes | None, value: bytes) -> bytes:
            if len(value) < SMALLEST_PACKED:
                return seal(key, value)
            packed = pack(value)
            if len(packed) >= len(value) or len(value) > (len(packed) + added) * MOST_RATIO:
                return seal(key, value)
            return seal_packed(key, packed)

        return pack_and_seal


class Question(NamedTuple):
    """What the key service is asked for: a new data key of a topic, or a wrapped one's plain bytes."""

    key_name: str
    topic: str = ""  # of a new data key, and of record keys, whose cipher depends on the topic
    wrapped: bytes = b""
    is_for_keys: bool = False

    @classmethod
    def of(cls, envelope: Envelope) -> "Question":
        """Return what is asked for to read fields with an envelope."""
        is_for_keys = envelope.part == KEY
        return cls(envelope.key_name, envelope.topic if is_for_keys else "", envelope.wrapped, is_for_keys)

    def cipher(self, data_key: bytes) -> ReadingCipher:
        """Return what the fields are read with."""
        if not self.is_for_keys:
            return AESGCM(data_key)
        info = b"kproxy record keys of " + self.topic.encode()
        return AESSIV(HKDF(SHA512(), SIV_KEY_SIZE, None, info).derive(data_key))


class Outage(NamedTuple):
    """Since when the key service is away (seconds of the clock of DataKeys), and its last error."""

    since: float
    error: KeyServiceAway


@dataclass(slots=True)
class Held:
    """A data key, and until when it is fresh and may be used."""

    key: WritingKey | ReadingCipher
    fresh_until: float
    used_until: float


class DataKeys:
    """The data keys of one process. Its methods may be called in any thread, and never wait.

    Args:
        service: makes and unwraps data keys (``key_service``); called in threads of its own.
        limits: how long data keys are used.
        monotonic: seconds of a clock that never goes back.

    Attributes:
        outage: not None from a KeyServiceAway until the service answers again, for any key: for the log.
    """

    def __init__(
        self,
        service: KeyService,
        limits: DataKeyLimits = DataKeyLimits(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._limits = limits
        self._monotonic = monotonic
        self._held: OrderedDict[Question, Held] = OrderedDict()
        self._asked: set[Question] = set()
        self._errors: OrderedDict[Question, tuple[KeyServiceError, float]] = OrderedDict()
        self._lock = threading.Lock()
        self.outage: Outage | None = None

    def for_writing(self, topic: str, key_name: str) -> WritingKey:
        """Return the data key that records of a topic are encrypted with. Raises KeyNotYet, KeyServiceError."""
        check_name(topic, "a topic")  # a client may write to any
        check_name(key_name)
        key = self._find(Question(key_name, topic))
        assert isinstance(key, WritingKey)
        return key

    def for_record_keys(self, envelope: Envelope) -> SealKey:
        """Return what encrypts record keys, which get this envelope. Raises KeyNotYet, KeyServiceError."""
        check_name(envelope.key_name)
        cipher = self.for_reading(envelope)
        assert isinstance(cipher, AESSIV)
        encoded, encrypt = envelope.encoded(), cipher.encrypt
        return lambda key: encoded + encrypt(key, [encoded])

    def for_reading(self, envelope: Envelope) -> ReadingCipher:
        """Return the cipher with the data key of a field of a record. Raises KeyNotYet, KeyServiceError."""
        key = self._find(Question.of(envelope))
        assert isinstance(key, ReadingCipher)
        return key

    def is_missing(self, envelope: Envelope) -> bool:
        """Return whether the key service has not answered for the data key of a record. It is asked from time to time."""
        try:
            self.for_reading(envelope)
        except (KeyNotYet, KeyServiceAway):
            return True
        except KeyServiceError:
            pass  # it will not give the key: the policy of the rule decides what becomes of the record
        return False

    def take_over(self, other: "DataKeys") -> None:
        """Use the data keys of another object of this process as well, which asks the same service: they count on together."""
        with other._lock:
            self._held.update(other._held)

    def close(self) -> None:
        """Forget all data keys, and close the service."""
        with self._lock:
            self._held.clear()
        self._service.close()

    def _find(self, question: Question) -> WritingKey | ReadingCipher:
        now = self._monotonic()
        with self._lock:
            held = self._held.get(question)
            if held is not None:
                self._held.move_to_end(question)
            if held is not None and now < held.fresh_until and not self._is_used_up(held, self._limits.records):
                return held.key
            error = self._ask(question, now)
            if isinstance(error, KeyRefused | KeyDestroyed):
                self._held.pop(question, None)
            elif held is not None and now < held.used_until and not self._is_used_up(held, MOST_RECORDS):
                return held.key
        raise KeyNotYet if error is None else error.with_traceback(None)

    def _is_used_up(self, held: Held, most: int) -> bool:
        key = held.key
        return isinstance(key, WritingKey) and (key.records >= most or key.blocks >= MOST_BLOCKS)

    def _ask(self, question: Question, now: float) -> KeyServiceError | None:
        """Ask the service in a thread; return its last error, if that is so recent that it is not asked again."""
        error, until = self._errors.get(question, (None, 0.0))
        if now < until:
            return error
        if question not in self._asked and len(self._asked) < MOST_QUESTIONS:
            self._asked.add(question)
            threading.Thread(target=self._answer, args=(question,), daemon=True).start()
        return None

    def _answer(self, question: Question) -> None:
        """Ask the service, and keep its answer; in a thread of its own."""
        try:
            if question.wrapped:
                plain = self._service.unwrap(question.key_name, question.wrapped)
                data_key = DataKey(plain, question.wrapped)
            else:
                data_key = self._service.new_data_key(question.key_name)
            asked = question if question.wrapped else Question(question.key_name, wrapped=data_key.wrapped)
            kept: dict[Question, WritingKey | ReadingCipher] = {asked: asked.cipher(data_key.plain)}
            if not question.wrapped:
                kept[question] = WritingKey(question.key_name, question.topic, data_key)
        except KeyServiceError as error:
            self._keep_error(question, error)
        except Exception as error:  # so that the question is not asked for ever
            self._keep_error(question, KeyServiceAway(f"the key service failed ({type(error).__name__})"))
        else:
            self._keep(question, kept)

    def _keep(self, question: Question, kept: dict[Question, WritingKey | ReadingCipher]) -> None:
        now, limits = self._monotonic(), self._limits
        with self._lock:
            self.outage = None
            self._asked.discard(question)
            self._errors.pop(question, None)
            for each, key in kept.items():
                self._held[each] = Held(key, now + limits.age_s, now + limits.age_s + limits.away_s)
            while len(self._held) > MOST_KEYS:
                self._held.popitem(last=False)

    def _keep_error(self, question: Question, error: KeyServiceError) -> None:
        now = self._monotonic()
        away = error if isinstance(error, KeyServiceAway) else None
        pause = PAUSE_S if away else REFUSED_S if isinstance(error, KeyRefused) else LASTING_S
        with self._lock:
            self.outage = Outage(self.outage.since if self.outage else now, away) if away else None
            self._asked.discard(question)
            self._errors[question] = error, now + pause
            self._errors.move_to_end(question)
            if len(self._errors) > MOST_KEYS:
                self._errors.popitem(last=False)
