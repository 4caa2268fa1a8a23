"""Encrypt and decrypt the values of whole batches; decide what becomes of values that cannot be decrypted."""

from collections.abc import Callable, Collection
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from zstandard import ZstdDecompressor, ZstdError, frame_content_size

from kproxy.encryption.data_keys import MOST_QUESTIONS, KeyNotYet, ReadingCipher, SealKey, WritingKey
from kproxy.encryption.editors import OpeningEditor
from kproxy.encryption.envelope import (
    BYTES_FIELD,
    FIELD,
    FIXED,
    HEADER,
    KEY,
    MARKER,
    NONCE,
    PARTS,
    VALUE,
    VERSION,
    Damaged,
    Envelope,
    added_behind,
    has_lost_marker,
    place_of,
    read_envelope,
    split,
)
from kproxy.encryption.fields import sealed_in
from kproxy.encryption.services.contract import KeyDestroyed, KeyRefused, KeyServiceAway, KeyServiceError
from kproxy.errors import KproxyError
from kproxy.protocol.records import Batch, Codec, Record
from kproxy.protocol.records.compression import FASTEST_ZSTD, ZSTD_OF_NOISE
from kproxy.protocol.records.editing import change_fields, change_records
from kproxy.protocol.records.in_place import CallingEditor, FrameEdit, HeaderEditor, RecordEditor, ValueEditor
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits, TooLarge

Policy = Literal["fail", "skip", "pass"]
Headers = list[tuple[str, bytes | None]]
EditFields = Callable[[bytes | None, bytes, Headers], bytes]  # record key and headers as they are there: value -> value
Kind = Literal[
    "damaged",
    "another topic",
    "key destroyed",
    "key refused",
    "key service away",
    "plain",
    "no schema",
    "registry away",
]
# Of one batch. kproxy writes each batch with one, but a mirror may put records of many hours into one; names of keys and wrapped
# data keys may also be made up, and the key service is asked for each
MOST_DATA_KEYS = 1_000
MOST_CIPHERS = 10_000  # that are kept from one batch to the next
SKIPPING_SINCE = 2  # magic: in older formats, an offset that is left out at the end would be fetched again and again
KINDS: tuple[tuple[type[KeyServiceError], Kind], ...] = (
    (KeyServiceAway, "key service away"),
    (KeyRefused, "key refused"),
    (KeyDestroyed, "key destroyed"),
)
Cipher = tuple[bytes, Envelope, ReadingCipher | None]  # an envelope as it stands, and what decrypts by it
NO_CIPHER: Cipher = (MARKER + b"\xff", Envelope("", "", b""), None)
FIRST_BYTES = MARKER + bytes((VERSION,))
WHAT = {
    VALUE: "the encrypted value",
    KEY: "the encrypted record key",
    HEADER: "the encrypted value of a header",
    FIELD: "an encrypted field",
    BYTES_FIELD: "an encrypted field",
}
PLAIN = {
    VALUE: "the value is not encrypted",
    KEY: "the record key is not encrypted",
    HEADER: "a header is not encrypted",
    FIELD: "a field is not encrypted",
    BYTES_FIELD: "a field is not encrypted",
}
NOUNS = {KEY: "the record key", HEADER: "the value of a header", FIELD: "a field", BYTES_FIELD: "a field"}
AWAY = ("key service away", "registry away")  # kinds after which clients try again, whatever the policy says


class CannotDecrypt(KproxyError):
    """A value or record key that cannot be decrypted. The message is one sentence without its contents; *kind* is for counts."""

    def __init__(self, kind: Kind, sentence: str, offset: int | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.offset = offset


class CannotEncrypt(KproxyError):
    """A batch whose fields cannot be encrypted. The message is one sentence without contents.

    *is_away*: as a schema cannot be had now, so that it may be tried again.
    """

    def __init__(self, sentence: str, *, is_away: bool) -> None:
        super().__init__(sentence)
        self.is_away = is_away


class ReadingKeys(Protocol):
    """Where the data keys of records are: DataKeys of the filter, or OutputKeys."""

    def for_reading(self, envelope: Envelope) -> ReadingCipher:
        """Return the cipher with the data key of a field of a record. Raises KeyNotYet, KeyServiceError."""


class ValueReader:
    """Decrypts the values and record keys of a topic. It keeps the ciphers that it has used, those of one batch all (``begin``).

    Args:
        keys: the data keys.
        topics: names of the topic, as values carry it: its own, and those whose values are copied to it; None: any.
        key_names: patterns of the keys that may have wrapped their data keys; None: any.
        accepts_plain: whether plain values are returned as they are.
        record_keys: whether record keys have to be encrypted, where plain values are not accepted.
        headers: whether a header of this name has to be encrypted, where plain values are not accepted; None: none has to.
        values: whether values have to be encrypted, where plain ones are not accepted; not where their fields are.
    """

    def __init__(
        self,
        keys: ReadingKeys,
        topics: Collection[str] | None,
        key_names: Collection[str] | None = None,
        *,
        accepts_plain: bool = True,
        record_keys: bool = False,
        headers: Callable[[bytes], bool] | None = None,
        values: bool = True,
    ) -> None:
        self._keys = keys
        self._topics = topics
        self._key_names = key_names
        self._decompressor: ZstdDecompressor | None = None
        self._limits = DEFAULT_LIMITS
        self.left = 0  # bytes that compressed values may still unpack to: begin sets it
        self.accepts_plain = accepts_plain
        self._record_keys = record_keys
        self._named = headers
        self._values = values
        self._ciphers: dict[tuple[int, bytes], Cipher] = {}  # by part: an envelope is that of one
        self._last = [NO_CIPHER] * len(PARTS)  # by part: of the field before
        self._opened: tuple[bytes | None, bytes] = None, b""  # the last record key: encrypted, plain
        self._failed: dict[bytes, tuple[Kind, str]] = {}  # what stays as it is while the key service answers
        self.waits = False  # values were returned as they were, as the key service has to answer first
        # Of the batch: those whose data keys the key service has not given (yet)
        self.missing: dict[bytes, Envelope] = {}
        self._data_keys: set[bytes] = set()  # of the batch, as envelopes have them
        self._refuses_all = False

    def begin(self, limits: Limits = DEFAULT_LIMITS, *, refuses_all: bool = False) -> None:
        """Begin another batch, or the same again: its compressed values may unpack to as much as the records of a batch.

        Values that unpack to more are damaged; with other *limits*, TooLarge is raised.

        *refuses_all*: whether nothing is decrypted, as the batch ``has_too_many`` data keys.
        """
        self._limits = limits
        self.left = limits.decompressed
        self.waits = False
        self.missing.clear()
        self._data_keys.clear()
        self._refuses_all = refuses_all
        self._last = [NO_CIPHER] * len(PARTS)
        self._opened = None, b""
        if len(self._ciphers) + len(self._failed) > MOST_CIPHERS:
            self._ciphers.clear()
            self._failed.clear()

    @property
    def has_too_many(self) -> bool:
        """Whether the batch has too many data keys; the key service was asked for few of them."""
        return len(self._data_keys) > MOST_DATA_KEYS

    def has_answers(self) -> bool:
        """Return whether the key service has answered for all that the batch has waited for; it is asked for the next ones."""
        missing, self.missing, self.waits = self.missing, {}, False
        for encoded, envelope in missing.items():
            if len(self.missing) >= MOST_QUESTIONS:
                self.missing[encoded] = envelope
                continue
            try:
                self._cipher(encoded, envelope.part)
            except KeyNotYet:
                self.waits = True
            except CannotDecrypt as error:
                if error.kind in AWAY:
                    return True
        return not self.waits

    def may_be_in(self, batch: Batch) -> bool:
        """Return whether there may be encrypted values in a plain batch: a marker, or the name of a topic as in an envelope."""
        place = batch.position, batch.position + batch.size
        return any(batch.data.find(one, *place) >= 0 for one in (MARKER, *map(str.encode, self._topics or ())))

    def header_editor(self) -> HeaderEditor:
        """Return what decrypts headers."""
        is_each_read = self._named is not None and not self.accepts_plain
        return HeaderEditor(lambda key, name, value: self.read(key, value, name), None if is_each_read else FIRST_BYTES)

    def key_editor(self) -> CallingEditor:
        """Return what decrypts record keys."""
        is_each_read = self._record_keys and not self.accepts_plain
        return CallingEditor(self.read_key, None if is_each_read else FIRST_BYTES)

    def read_key(self, key: bytes) -> bytes:
        """Return the plain record key; the same object if it is plain, or if ``waits`` is not 0. Raises CannotDecrypt."""
        if key == self._opened[0]:
            return self._opened[1]
        known = self._last[KEY]
        if not key.startswith(known[0]):
            other = self._other(key, KEY)
            if other is None:
                return key
            self._last[KEY] = known = other
        if self.waits:
            return key
        envelope, cipher, siv = known
        assert isinstance(siv, AESSIV)
        _check_size(key, envelope, KEY)
        try:
            plain = siv.decrypt(key[len(envelope) :], [envelope])
        except InvalidTag:
            raise CannotDecrypt(
                "damaged", f"{WHAT[KEY]}, written with the key {cipher.key_name!r}, was changed"
            ) from None
        self._opened = key, plain
        return plain

    def read(self, key: bytes | None, value: bytes, header: bytes | None = None) -> bytes:
        """Return the plain value; the same object if it is plain, or if ``waits`` is not 0. Raises CannotDecrypt.

        Args:
            key: of its record, as it is stored.
            value: of the record, or of its header *header*.
        """
        return self._read(key, value, VALUE if header is None else HEADER, header)

    def cipher_of_values(self) -> tuple[bytes, Callable[..., object]] | None:
        """Return the envelope of the last value, and what decrypts others with it into a buffer; None: ``read`` has to."""
        encoded, envelope, gcm = self._last[VALUE]
        if self.waits or envelope.codec != Codec.NONE or not isinstance(gcm, AESGCM):
            return None
        return encoded, gcm.decrypt_into

    def reading_with(self, fields: EditFields) -> EditFields:
        """Return what reads a value, and then decrypts its fields."""

        is_each_read = self._values and not self.accepts_plain

        def read(key: bytes | None, value: bytes, headers: Headers) -> bytes:
            if not (is_each_read or value[4:5] == FIRST_BYTES[4:] or value.startswith(MARKER)):  # nearly always
                return fields(key, value, headers)
            plain = self._read(key, value, VALUE, None)
            return plain if self.waits else fields(key, plain, headers)

        return read

    def read_field(self, key: bytes | None, field: bytes, path: bytes, is_text: bool) -> bytes:
        """Return a plain field of a value; the same object if it is plain, or if ``waits`` is not 0. Raises CannotDecrypt.

        Args:
            key: of its record, as it is stored.
            field: the text in UTF-8, or the bytes.
            path: kproxy.encryption.fields.name_of its place.
            is_text: which of both it is.
        """
        if not is_text:
            return self._read(key, field, BYTES_FIELD, path)
        try:
            sealed = sealed_in(field)
        except Damaged as error:
            raise CannotDecrypt("damaged", f"{WHAT[FIELD]} is damaged: {error}") from None
        if sealed is None:
            if not self.accepts_plain:
                raise CannotDecrypt("plain", PLAIN[FIELD])
            return field
        plain = self._read(key, sealed, FIELD, path)
        return field if plain is sealed else plain

    def _read(self, key: bytes | None, value: bytes, part: int, name: bytes | None) -> bytes:
        known = self._last[part]
        if not value.startswith(known[0]):
            other = self._other(value, part, name)
            if other is None:
                return value
            self._last[part] = known = other
        if key is not None and key.startswith(MARKER):
            key = self.read_key(key)
        if self.waits:
            return value
        envelope, cipher, gcm = known
        assert isinstance(gcm, AESGCM)
        _check_size(value, envelope, part)
        end = len(envelope)
        nonce_end = end + NONCE
        place = envelope if name is None else envelope + place_of(name)
        bound = place + b"\0" if key is None else b"".join((place, b"\1", key))
        try:
            plain = gcm.decrypt(value[end:nonce_end], value[nonce_end:], bound)
        except InvalidTag:
            raise CannotDecrypt(
                "damaged",
                f"{WHAT[part]}, written with the key {cipher.key_name!r}, or its record key was changed",
            ) from None
        return plain if cipher.codec == Codec.NONE else self._unpacked(plain)

    def _other(self, value: bytes, part: int, name: bytes | None = None) -> Cipher | None:
        """Return what decrypts a field; None if it is plain, or the key service has to answer. Raises CannotDecrypt."""
        if value[: len(MARKER)] != MARKER:
            if has_lost_marker(value, part):
                raise CannotDecrypt("damaged", f"{WHAT[part]} is damaged: its marker was changed")
            if not self.accepts_plain and self._has_to_be_encrypted(part, name):
                raise CannotDecrypt("plain", PLAIN[part])
            return None
        try:
            envelope = split(value) or b""
            self._data_keys.add(envelope[FIXED:])
            if self._refuses_all:
                raise Damaged(f"its batch takes more than {MOST_DATA_KEYS:,} data keys")
            if self.has_too_many:
                self.waits = True
                return None
            if self.waits and envelope in self.missing:
                return envelope, self.missing[envelope], None
            return self._ciphers.get((part, envelope)) or self._cipher(envelope, part)
        except Damaged as error:
            raise CannotDecrypt("damaged", f"{WHAT[part]} is damaged: {error}") from None
        except KeyNotYet:
            self.waits = True
            return envelope, self.missing[envelope], None

    def _has_to_be_encrypted(self, part: int, name: bytes | None) -> bool:
        if part == HEADER:
            return name is not None and self._named is not None and self._named(name)
        return self._values if part == VALUE else self._record_keys if part == KEY else True

    def _unpacked(self, packed: bytes) -> bytes:
        try:
            size = frame_content_size(packed)  # -1: the frame does not say it
            if size > DEFAULT_LIMITS.allowed(len(packed)):
                raise ZstdError(DEFAULT_LIMITS.exceeded(len(packed)))
            if size > self.left and self._limits is not DEFAULT_LIMITS:
                raise TooLarge
            if size > self.left:
                raise ZstdError("the values of its batch decompress to too much")
            if self._decompressor is None:
                self._decompressor = ZstdDecompressor()
            plain = self._decompressor.decompress(packed, max_output_size=1, allow_extra_data=False)
        except ZstdError as error:
            raise CannotDecrypt("damaged", f"the value opens, but cannot be decompressed: {error}") from None
        self.left -= len(plain)
        return plain

    def _cipher(self, encoded: bytes, part: int) -> Cipher:
        """Return what decrypts the values with an envelope. Raises CannotDecrypt, Damaged, KeyNotYet."""
        envelope = read_envelope(encoded, part)
        noun = NOUNS.get(part, "the value")
        if encoded in self._failed:
            raise CannotDecrypt(*self._failed[encoded])
        if self._topics is not None and envelope.topic not in self._topics:
            raise CannotDecrypt("another topic", f"{noun} was written to the topic {envelope.topic!r}")
        name = envelope.key_name
        if self._key_names is not None and not any(fnmatchcase(name, one) for one in self._key_names):
            raise CannotDecrypt(
                "key refused",
                f"{noun} takes the key {name!r}, and its rule names no such key; other_keys is for those that it named before",
            )
        try:
            if len(self.missing) >= MOST_QUESTIONS:  # the others are asked for when it is known how many there are
                raise KeyNotYet
            cipher = encoded, envelope, self._keys.for_reading(envelope)
        except KeyNotYet:
            self.missing[encoded] = envelope
            raise
        except KeyServiceError as error:
            kind: Kind = next((kind for class_, kind in KINDS if isinstance(error, class_)), "damaged")
            why = kind, f"{noun} takes the key {name!r}: {error}"
            if isinstance(error, KeyServiceAway):
                self.missing[encoded] = envelope
            else:
                self._failed[encoded] = why
            raise CannotDecrypt(*why) from None
        self._ciphers[part, encoded] = cipher
        return cipher


def _check_size(field: bytes, envelope: bytes, part: int) -> None:
    """Raise CannotDecrypt if a field is too short for what has to follow its envelope."""
    if len(field) < len(envelope) + added_behind(part):
        raise CannotDecrypt("damaged", f"{WHAT[part]} is damaged: it is shorter than it says")


def encrypt_batch(
    batch: Batch,
    key: WritingKey,
    *,
    packs: bool = False,
    record_keys: SealKey | None = None,
    headers: Callable[[bytes], bool] | None = None,
    fields: EditFields | None = None,
    into: FrameEdit | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes | None:
    """Return a batch with its values encrypted; None if it cannot be read. Raises TooLarge, and what *fields* raises.

    Args:
        batch: of any format; control batches stay as they are.
        key: the data key.
        packs: whether values are compressed before.
        record_keys: encrypts record keys; None: they stay plain.
        headers: whether the values of the headers of a name are encrypted as well; None: those of no name are.
        fields: encrypts the fields of a value, in place of values: returns the same object if there are none.
        into: as that of change_fields.
        limits: what the batch may decompress to, before and after; more records than fit if each grows are not looked at.

    The batch keeps its codec: consumers get it so, and envelopes are alike. zstd looks for nothing else in encrypted bytes.
    """
    limits = replace(limits, records=min(limits.records, limits.decompressed // key.growth))  # more cannot fit
    of_headers = None if headers is None else HeaderEditor(key.sealing_headers(headers))
    of_keys = None if record_keys is None else CallingEditor(record_keys)
    change = partial(
        change_fields,
        batch,
        keys=of_keys,
        limits=limits,
        headers=of_headers,
        zstd_level=ZSTD_OF_NOISE,
        into=into,
        most=limits.decompressed,
    )
    if fields is not None:
        return change(RecordEditor(fields))
    if packs:
        return change(ValueEditor(key.packing()))
    with key.sealing_values() as editor:
        return change(editor)


Report = Callable[[CannotDecrypt, Policy], None]


def decrypt_batch(
    batch: Batch,
    reader: ValueReader,
    plain: Policy,
    unreadable: Policy,
    report: Report,
    fields: EditFields | None = None,
    into: FrameEdit | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> bytes | None:
    """Return a batch with its values and record keys decrypted; None if it cannot be read.

    The batch keeps its codec. zstd works at level 1: for a text that becomes a third, level 3 takes a third more of all the
    time, and saves 2 % of the bytes.

    Args:
        batch: of any format; control batches stay as they are.
        reader: decrypts its values.
        plain, unreadable: what becomes of plain values that it does not accept, and of values that cannot be decrypted.
        report: called with each value that is skipped or passes for one of them.
        fields: decrypts the fields of a value that is plain by then; raises CannotDecrypt, KeyNotYet.
        into: as that of change_fields.
        limits: what the batch, and its compressed values, may decompress to.

    Raises CannotDecrypt for the first value that fails, KeyNotYet if the key service has to answer first, TooLarge. After
    KeyNotYet, the same batch has to follow: it is read again when the key service has answered for all its data keys.
    """
    if reader.waits and not reader.has_answers():
        raise KeyNotYet
    reader.begin(limits)
    before = None if into is None else into.state()
    if fields is None and reader.accepts_plain and batch.codec == Codec.NONE and not reader.may_be_in(batch):
        return None if not batch.crc_valid else batch.raw if into is None else b""
    read_value = None if fields is None else reader.reading_with(fields)
    try:
        changed = change_fields(
            batch,
            OpeningEditor(reader.read, reader.cipher_of_values) if read_value is None else RecordEditor(read_value),
            reader.key_editor(),
            limits,
            headers=reader.header_editor(),
            zstd_level=FASTEST_ZSTD,
            into=into,
        )
        if reader.waits and into is not None and before is not None:
            into.go_back(before)
        if not reader.has_too_many:
            return _answered(changed, reader)
    except CannotDecrypt:
        pass

    reports: list[tuple[CannotDecrypt, Policy]] = []

    def change(record: Record) -> bool | None:
        before = [record.key, record.value, *(value for _, value in record.headers)]
        names = [None, None, *(name.encode("utf-8", "surrogateescape") for name, _ in record.headers)]
        after = list(before)
        of_key = ""  # why the record key does not open: values that are bound to it do not, either
        for at, (name, data) in enumerate(zip(names, before, strict=True)):
            try:
                if data is not None:
                    if at == 1 and read_value is not None:
                        after[at] = read_value(record.key, data, record.headers)
                    else:
                        after[at] = reader.read(record.key, data, name) if at > 0 else reader.read_key(data)
            except CannotDecrypt as error:
                error.offset = record.offset
                policy: Policy = "fail" if error.kind in AWAY else plain if error.kind == "plain" else unreadable
                if policy == "fail" or (policy == "skip" and batch.magic < SKIPPING_SINCE):
                    raise
                if str(error) != of_key:
                    reports.append((error, policy))
                if policy == "skip":
                    return None
                of_key = str(error) if at == 0 else of_key
        record.key, record.value, *values = after
        record.headers = [(name, value) for (name, _), value in zip(record.headers, values, strict=True)]
        return any(one is not other for one, other in zip(after, before, strict=True))

    # Once more, record by record: which one is it, and what does the policy say
    reader.begin(limits, refuses_all=reader.has_too_many)
    changed = change_records(batch, change, limits)
    if reader.has_too_many and reader.waits:  # the first that failed had hidden it
        reader.begin(limits, refuses_all=True)
        reports.clear()
        changed = change_records(batch, change, limits)
    for one in reports:
        report(*one)
    return _answered(changed, reader)


def _answered(changed: bytes | None, reader: ValueReader) -> bytes | None:
    if reader.waits:
        raise KeyNotYet
    return changed
