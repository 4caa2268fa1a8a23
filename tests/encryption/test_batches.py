"""Batches are encrypted as a second implementation of the format reads and writes them."""

import itertools
import os
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from kproxy.encryption.batches import CannotDecrypt, Policy, ValueReader, decrypt_batch, encrypt_batch
from kproxy.encryption.data_keys import DataKeys, Question, WritingKey
from kproxy.encryption.envelope import KEY, Envelope
from kproxy.encryption.services.contract import DataKey
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from kproxy.protocol.records.limits import DEFAULT_LIMITS, TooLarge
from tests.support.encryption import GivenKeys, decrypted, decrypted_key, encrypted, encrypted_key, parts_of, siv

VALUES = [b"", b"canary", None, b"x" * 3000]
KEYS = [None, b"", b"k", b"long key" * 40]


class KnownKeys(DataKeys):
    """Data keys that are there without waiting."""

    def __init__(self, service: GivenKeys) -> None:
        super().__init__(service)
        self._given = service

    def for_reading(self, envelope: Any) -> Any:
        return Question.of(envelope).cipher(self._given.unwrap(envelope.key_name, envelope.wrapped))


def field(records: list[Record], **batch: Any) -> bytes:
    return write_batches([RecordBatch(records, **batch)])


def reading(service: GivenKeys, topic: str = "orders", **options: Any) -> ValueReader:
    return ValueReader(KnownKeys(service), {topic}, **options)


def opened(data: bytes, reader: ValueReader, plain: Policy = "pass", unreadable: Policy = "fail") -> Any:
    """The records in *data* after decryption, as they are in one batch, and what was reported."""
    reports: list[tuple[str, int | None, Policy]] = []

    def report(error: CannotDecrypt, policy: Policy) -> None:
        reports.append((error.kind, error.offset, policy))

    made = [decrypt_batch(batch, reader, plain, unreadable, report) for batch in read_batches(data)]
    batches = read_records(b"".join(one for one in made if one is not None))
    assert None not in made
    batches[0].records = [record for batch in batches for record in batch.records]
    return batches[0], reports


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_another_implementation_reads_what_was_written_and_writes_what_is_read(magic: int, codec: Codec) -> None:
    if codec == Codec.ZSTD and magic < 2:
        return
    service = GivenKeys()
    made = service.new_data_key("kek")
    before = [Record(offset=at, timestamp=at, key=KEYS[at], value=VALUES[at]) for at in range(4)]
    producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 40, "attributes": 0x10} if magic == 2 else {}
    plain = field(before, magic=magic, codec=codec, **producer)
    key = WritingKey("kek", "orders", made)
    stored = b"".join(encrypt_batch(batch, key) or b"" for batch in read_batches(plain))
    headers = [(one.producer, one.attributes, one.base_timestamp, one.max_timestamp) for one in read_batches(plain)]
    assert [
        (one.producer, one.attributes, one.base_timestamp, one.max_timestamp) for one in read_batches(stored)
    ] == headers
    assert all(batch.crc_valid for batch in read_batches(stored))
    written = [record for batch in read_records(stored) for record in batch.records]
    assert b"canary" not in b"".join(record.value or b"" for record in written)
    assert [None if r.value is None else decrypted(r.value, made.plain, r.key) for r in written] == VALUES
    assert [r.key for r in written] == KEYS
    read, reports = opened(stored, reading(service))
    assert [(r.offset, r.value) for r in read.records] == list(enumerate(VALUES))
    assert reports == []

    about = {"name": "kek", "topic": "orders"}
    for at, record in enumerate(written):
        if record.value is not None:
            record.value = encrypted(b"by hand", made, key=record.key, nonce=at.to_bytes(12, "big"), **about)
    read, _ = opened(field(written, magic=magic, codec=codec), reading(service))
    assert [r.value for r in read.records] == [b"by hand", b"by hand", None, b"by hand"]


def test_values_that_become_smaller_are_compressed_before_they_are_encrypted() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    values = [b"as it is", b"again " * 500, os.urandom(500), b"", bytes(3_000_000)]
    plain = field([Record(offset=at, timestamp=at, key=KEYS[at % 4], value=value) for at, value in enumerate(values)])
    stored = encrypt_batch(read_batches(plain)[0], WritingKey("kek", "orders", made), packs=True)
    assert stored is not None
    written = [(record.key, record.value or b"") for record in read_records(stored)[0].records]
    # 3 MB of zeros become too small: what unpacks to more than 1,000 times its size is not decompressed
    assert [parts_of(value)["codec"] for _, value in written] == [0, 4, 0, 0, 0]
    assert [decrypted(value, made.plain, key) for key, value in written] == values
    assert len(written[1][1]) < 200
    read, reports = opened(stored, reading(service))
    assert ([record.value for record in read.records], reports) == (values, [])


def test_values_that_decompress_to_too_much_or_not_at_all_are_errors() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    about: dict[str, Any] = {"key": None, "name": "kek", "topic": "orders", "nonce": bytes(12)}
    whole = zstandard.compress(b"canary" * 100)
    for packed, codec, why in [
        (zstandard.compress(bytes(1 << 24)), 4, "over 1,000 times"),
        (whole[:-5], 4, "cannot be decompressed"),
        (b"canary", 4, "cannot be decompressed"),
        (whole, 1, "compressed by codec 1"),
    ]:
        value = encrypted(packed, made, codec=codec, **about)
        with pytest.raises(CannotDecrypt, match=why) as error:
            opened(field([Record(offset=5, timestamp=1, value=value)]), reading(service))
        assert (error.value.kind, error.value.offset) == ("damaged", 5)
    each = encrypted(zstandard.compress(os.urandom(4096) * 250), made, codec=4, **about)  # 1 MB of 4 KB
    data = field([Record(offset=at, timestamp=1, value=each) for at in range(70)])
    with pytest.raises(CannotDecrypt, match="the values of its batch decompress to too much"):
        opened(data, reading(service))


def test_a_reader_opens_only_what_the_keys_it_names_have_wrapped() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek-2")
    value = encrypted(b"v", made, key=None, name="kek-2", topic="orders", nonce=bytes(12))
    data = field([Record(offset=5, timestamp=1, value=value)])
    read, _ = opened(data, reading(service, key_names=["kek-1", "kek-[23]"]))
    assert [record.value for record in read.records] == [b"v"]
    with pytest.raises(CannotDecrypt, match="the key 'kek-2', and its rule names no such key") as error:
        opened(data, reading(service, key_names=["kek-1"]))
    assert error.value.kind == "key refused"
    assert service.calls == [("new", "kek-2"), ("unwrap", "kek-2")]


def test_every_bit_that_is_flipped_is_an_error_with_its_offset_and_never_plain_text() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    whole = encrypted(b"canary", made, key=b"k", name="kek", topic="orders", nonce=bytes(12))
    good = Record(offset=4, timestamp=1, key=b"k", value=whole)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        reader = reading(service, accepts_plain=False)
        with pytest.raises(CannotDecrypt) as error:
            opened(field([good, Record(offset=5, timestamp=1, key=b"k", value=bytes(flipped))]), reader, "fail")
        assert error.value.offset == 5
        assert "canary" not in str(error.value)
    moved = [Record(offset=5, timestamp=1, key=key, value=whole) for key in (b"K", None, b"")]
    for record in moved:  # to another record key
        with pytest.raises(CannotDecrypt, match="its record key was changed"):
            opened(field([record]), reading(service))
    with pytest.raises(CannotDecrypt, match="written to the topic 'orders'"):
        opened(field([good]), reading(service, "bills"))
    for size in range(4, len(whole)):
        with pytest.raises(CannotDecrypt):
            opened(field([Record(offset=5, timestamp=1, key=b"k", value=whole[:size])]), reading(service))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_policy_says_what_becomes_of_values_that_cannot_be_decrypted(codec: Codec) -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    whole = encrypted(b"good", made, key=None, name="kek", topic="orders", nonce=bytes(12))
    values = [whole, whole[:-1] + b"\0\0", b"plain", None, whole]
    data = field([Record(offset=at, timestamp=0, value=value) for at, value in enumerate(values)], codec=codec)
    read, reports = opened(data, reading(service), unreadable="skip")
    assert [(r.offset, r.value) for r in read.records] == [(0, b"good"), (2, b"plain"), (3, None), (4, b"good")]
    assert reports == [("damaged", 1, "skip")]
    assert read.last_offset == 4
    read, reports = opened(data, reading(service), unreadable="pass")
    assert [r.value for r in read.records] == [b"good", values[1], b"plain", None, b"good"]
    read, reports = opened(data, reading(service, accepts_plain=False), plain="skip", unreadable="skip")
    assert [r.offset for r in read.records] == [0, 3, 4]
    assert reports == [("damaged", 1, "skip"), ("plain", 2, "skip")]
    read, _ = opened(field([Record(offset=7, timestamp=0, value=b"p")]), reading(service, accepts_plain=False), "skip")
    assert (read.records, read.last_offset) == ([], 7)
    old = field([Record(offset=0, value=values[1])], magic=1)
    with pytest.raises(CannotDecrypt):  # the consumer would fetch the same offset for ever
        opened(old, reading(service), unreadable="skip")


def test_no_nonce_is_used_twice_by_workers_and_restarts() -> None:
    used: dict[tuple[bytes, bytes], int] = {}
    service = GivenKeys()
    plain = field([Record(offset=at, timestamp=0, value=b"v") for at in range(500)])
    (batch,) = read_batches(plain)
    for _, _ in itertools.product(range(4), range(3)):  # workers, starts
        key = WritingKey("kek", "orders", service.new_data_key("kek"))
        for _ in range(4):
            stored = encrypt_batch(batch, key)
            assert stored is not None
            for record in read_records(stored)[0].records:
                assert record.value is not None
                parts = parts_of(record.value)
                used[parts["wrapped"], parts["nonce"]] = used.get((parts["wrapped"], parts["nonce"]), 0) + 1
    assert len(used) == 4 * 3 * 4 * 500
    copies = [WritingKey("kek", "orders", DataKey(bytes(32), b"w")) for _ in range(2)]  # memory of a process, copied
    nonces = set()
    for copy in copies:
        with copy.sealing_values() as editor:
            nonces.add(parts_of(editor.edited(b"v") or b"")["nonce"])
    assert len(nonces) == 2


def test_a_value_is_decrypted_whatever_the_one_before_was() -> None:
    """Most are decrypted by the cipher of the one before: not with another envelope, key or bit."""
    service = GivenKeys()
    one, other = service.new_data_key("kek"), service.new_data_key("kek")
    about: Any = {"name": "kek", "topic": "orders", "nonce": bytes(12)}
    values = [
        encrypted(b"a canary", one, key=b"k", **about),
        encrypted(b"", one, key=b"k", **about),
        encrypted(b"another", other, key=b"k", **about),
        b"plain",
        encrypted(b"a canary", one, key=b"k", **about),
        encrypted(b"a canary", one, key=b"k", **about),
    ]
    keyless = encrypted(b"keyless", one, key=None, **about)
    records = [Record(offset=at, timestamp=1, key=b"k", value=value) for at, value in enumerate(values)]
    records.append(Record(offset=len(values), timestamp=1, value=keyless))
    plain = [record.value for record in opened(field(records), reading(service))[0].records]
    assert plain == [b"a canary", b"", b"another", b"plain", b"a canary", b"a canary", b"keyless"]
    whole = values[-1]
    for at in range(4, len(whole)):
        records[5].value = whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :]
        with pytest.raises(CannotDecrypt) as error:
            opened(field(records), reading(service))
        assert error.value.offset == 5
    for at in range(4, len(whole)):
        records[5].value = whole[:at]
        with pytest.raises(CannotDecrypt) as error:
            opened(field(records), reading(service))
        assert error.value.offset == 5
    records[5] = Record(offset=5, timestamp=1, key=b"l", value=whole)
    with pytest.raises(CannotDecrypt):
        opened(field(records), reading(service))


@pytest.mark.parametrize("magic", [1, 2])
def test_a_batch_that_could_not_be_unpacked_again_is_not_written(magic: int) -> None:
    key = WritingKey("kek", "orders", GivenKeys().new_data_key("kek"))
    (batch,) = read_batches(field([Record(value=b"v")] * 500, codec=Codec.LZ4, magic=magic))
    for most in (20_000, 200_000):
        limits = replace(DEFAULT_LIMITS, decompressed=most)
        with pytest.raises(TooLarge) if most == 20_000 else nullcontext():
            assert encrypt_batch(batch, key, limits=limits) is not None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_changed_marker_is_no_plain_value(codec: Codec) -> None:
    """All that a marker says is also said by what follows it."""
    service = GivenKeys()
    about: Any = {"name": "kek", "topic": "orders", "nonce": bytes(12)}
    whole = encrypted(b"a canary", service.new_data_key("kek"), key=b"k", **about)
    for bit in range(32):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        data = field([Record(offset=5, timestamp=1, key=b"k", value=bytes(changed))], codec=codec)
        with pytest.raises(CannotDecrypt, match="its marker was changed") as error:
            opened(data, reading(service))
        assert error.value.offset == 5
    plain = [b"\0\0\0\1\1\0" + bytes(60), b"\0\0\0\1\1\0\0\x0e\1k\1t\0\0" + bytes(28), b"\6orders", whole[4:]]
    read, reports = opened(field([Record(offset=at, value=value) for at, value in enumerate(plain)]), reading(service))
    assert ([record.value for record in read.records], reports) == (plain, [])


HEADERS = [("secret", b"a canary"), ("trace", b"00-1"), ("secret", None), ("secret", b""), ("s\udcff", b"x" * 300)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_headers_that_are_named_are_encrypted_and_read(codec: Codec) -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    before = [Record(offset=at, timestamp=at, key=KEYS[at], value=VALUES[at], headers=HEADERS[at:]) for at in range(4)]
    (batch,) = read_batches(field(before, codec=codec, producer_id=7))
    key = WritingKey("kek", "orders", made)
    stored = encrypt_batch(batch, key, headers=lambda name: name.startswith(b"s"))
    assert stored is not None
    written = read_records(stored)[0].records
    assert b"canary" not in b"".join(value or b"" for record in written for _, value in record.headers)
    for record, plain in zip(written, before, strict=True):
        assert [name for name, _ in record.headers] == [name for name, _ in plain.headers]
        opened_here = [
            value
            if value is None or name == "trace"
            else decrypted(value, made.plain, record.key, name.encode(errors="surrogateescape"))
            for name, value in record.headers
        ]
        assert opened_here == [value for _, value in plain.headers]
    read, reports = opened(stored, reading(service))  # whatever its rule names now
    assert ([(r.offset, r.value, r.headers) for r in read.records], reports) == (
        [(r.offset, r.value, r.headers) for r in before],
        [],
    )
    for record in written:
        record.headers = [
            (
                "secret",
                encrypted(
                    b"by hand", made, key=record.key, header=b"secret", name="kek", topic="orders", nonce=bytes(12)
                ),
            )
        ]
    read, _ = opened(field(written, codec=codec), reading(service))
    assert {value for record in read.records for _, value in record.headers} == {b"by hand"}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_every_bit_of_a_header_that_is_flipped_is_an_error(codec: Codec) -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    about: Any = {"name": "kek", "topic": "orders", "nonce": bytes(12)}
    whole = encrypted(b"canary", made, key=b"k", header=b"h", **about)
    value = encrypted(b"canary", made, key=b"k", **about)

    def stored(*headers: tuple[str, bytes], key: bytes = b"k") -> bytes:
        good = Record(offset=4, timestamp=1, key=b"k", value=value, headers=[("h", whole)])
        return field([good, Record(offset=5, timestamp=1, key=key, headers=headers)], codec=codec)

    def flipped(bit: int) -> bytes:
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    assert opened(stored(("h", whole)), reading(service))[0].records[1].headers == [("h", b"canary")]
    # one changed bit, a shorter value, another name, another record key, a value as a header
    others = [stored(("h", flipped(bit))) for bit in range(8 * len(whole))]
    others += [stored(("h", whole[:size])) for size in range(4, len(whole))]
    others += [stored(("g", whole)), stored(("h", whole), key=b"K"), stored(("h", value))]
    for data in others:
        with pytest.raises(CannotDecrypt) as error:
            opened(data, reading(service))
        assert error.value.offset == 5
        assert "canary" not in str(error.value)
    moved = Record(offset=5, timestamp=1, key=b"k", value=whole)
    with pytest.raises(CannotDecrypt, match="where a value"):
        opened(field([moved], codec=codec), reading(service))


def test_a_policy_says_what_becomes_of_headers() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    about: Any = {"key": None, "name": "kek", "topic": "orders", "nonce": bytes(12)}
    whole, good = encrypted(b"h", made, header=b"h", **about), encrypted(b"v", made, **about)
    lists = [[("h", whole)], [("h", whole[:-1])], [("h", b"plain")], [("g", b"plain")]]
    records = [Record(offset=at, timestamp=0, value=good, headers=each) for at, each in enumerate(lists)]
    data = field(records)
    read, reports = opened(data, reading(service), unreadable="pass")
    assert [(r.value, r.headers) for r in read.records] == [
        (b"v", [("h", b"h")]),
        *((b"v", each) for each in lists[1:]),
    ]
    assert reports == [("damaged", 1, "pass")]
    strict = reading(service, accepts_plain=False, headers=lambda name: name == b"h")
    read, reports = opened(data, strict, plain="skip", unreadable="skip")
    assert [r.offset for r in read.records] == [0, 3]
    assert reports == [("damaged", 1, "skip"), ("plain", 2, "skip")]


def test_both_implementations_have_the_cipher_of_rfc_5297() -> None:
    """Appendix A.1."""
    key = bytes.fromhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    bound, plain = bytes(range(0x10, 0x28)), bytes.fromhex("112233445566778899aabbccddee")
    told = "85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c"
    assert b"".join(siv(key, bound, plain)).hex() == AESSIV(key).encrypt(plain, [bound]).hex() == told


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_another_implementation_reads_record_keys_and_writes_the_same_bytes(magic: int, codec: Codec) -> None:
    service = GivenKeys()
    made, of_keys = service.new_data_key("kek"), service.new_data_key("kek-k")
    plain_keys = [*KEYS, b"k", b"\xc3KPE is a key"]
    before = [Record(offset=at, timestamp=at, key=key, value=VALUES[at % 4]) for at, key in enumerate(plain_keys)]
    if magic == 2:
        before[2].headers = [("secret", b"a canary")]
    seal_key = KnownKeys(service).for_record_keys(Envelope("kek-k", "orders", of_keys.wrapped, part=KEY))
    writing = WritingKey("kek", "orders", made)
    stored = b"".join(
        encrypt_batch(batch, writing, record_keys=seal_key, headers=lambda name: True) or b""
        for batch in read_batches(field(before, magic=magic, codec=codec))
    )
    written = [record for batch in read_records(stored) for record in batch.records]
    own = [None if key is None else encrypted_key(key, of_keys, name="kek-k", topic="orders") for key in plain_keys]
    assert [record.key for record in written] == own
    assert [None if key is None else decrypted_key(key, of_keys.plain) for key in own] == plain_keys
    assert [r.value and decrypted(r.value, made.plain, k) for r, k in zip(written, plain_keys, strict=True)][1:4] == [
        b"canary",  # it is bound to the plain key
        None,
        b"x" * 3000,
    ]
    other = encrypted_key(b"k", of_keys, name="kek-k", topic="bills")
    assert other[-17:] != (own[2] or b"")[-17:]  # a topic has its own
    for reader in (reading(service), reading(service, record_keys=True, accepts_plain=False)):
        read, reports = opened(stored, reader)
        assert ([(r.offset, r.key, r.value, r.headers) for r in read.records], reports) == (
            [(r.offset, r.key, r.value, r.headers) for r in before],
            [],
        )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_every_bit_of_a_record_key_that_is_flipped_is_an_error(codec: Codec) -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    about: dict[str, Any] = {"name": "kek", "topic": "orders"}
    whole = encrypted_key(b"a canary", made, **about)
    value = encrypted(b"canary", made, key=b"a canary", nonce=bytes(12), **about)

    def stored(key: bytes | None, value: bytes | None = None) -> bytes:
        good = Record(offset=4, timestamp=1, key=whole)
        return field([good, Record(offset=5, timestamp=1, key=key, value=value)], codec=codec)

    assert [r.key for r in opened(stored(whole, value), reading(service))[0].records] == [b"a canary"] * 2
    flipped = (
        bytes(byte ^ (at == bit // 8) << bit % 8 for at, byte in enumerate(whole)) for bit in range(8 * len(whole))
    )
    sizes = (whole[:6] + size.to_bytes(2, "big") + whole[8:] for size in (0, 7, 0xFFFF, len(whole) - 15))
    for changed in (*flipped, *sizes, *(whole[:size] for size in range(4, len(whole)))):
        for its_value in (None, value):  # a tombstone as well
            with pytest.raises(CannotDecrypt) as error:
                opened(stored(changed, its_value), reading(service))
            assert error.value.offset == 5
            assert "canary" not in str(error.value)
    packed = bytearray(whole)
    packed[5] |= 0x40
    for key, why in [
        (encrypted_key(b"k", made, name="kek", topic="bills"), "the record key was written to the topic 'bills'"),
        (encrypted_key(b"k", DataKey(bytes(32), b"w"), **about), "the record key takes the key 'kek': the key has not"),
        (encrypted(b"k", made, key=None, nonce=bytes(12), **about), "part 0 of a record, where a record key"),
        (bytes(packed), "a record key is not compressed"),
        (encrypted_key(b"another", made, **about), "the encrypted value, .* or its record key was changed"),
    ]:
        with pytest.raises(CannotDecrypt, match=why):
            opened(stored(key, value), reading(service))
    with pytest.raises(CannotDecrypt, match="the record key is not encrypted"):
        opened(stored(b"k", None), reading(service, accepts_plain=False, record_keys=True), "fail")


def test_a_value_as_a_record_key_and_a_record_key_as_a_value_do_not_open_although_their_data_keys_are_known() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    about: dict[str, Any] = {"name": "kek", "topic": "orders"}
    key, value = encrypted_key(b"k", made, **about), encrypted(b"good", made, key=b"k", nonce=bytes(12), **about)
    good = Record(offset=0, timestamp=0, key=key, value=value)
    for swapped, why in [
        (Record(offset=1, timestamp=0, key=value), "part 0 of a record, where a record key"),
        (Record(offset=1, timestamp=0, value=key), "part 1 of a record, where a value"),
        (Record(offset=1, timestamp=0, headers=[("h", key)]), "part 1 of a record, where the value of a header"),
    ]:
        with pytest.raises(CannotDecrypt, match=why):
            opened(field([good, swapped], magic=2), reading(service))


def test_a_policy_says_what_becomes_of_record_keys_that_cannot_be_decrypted() -> None:
    service = GivenKeys()
    made = service.new_data_key("kek")
    about: dict[str, Any] = {"name": "kek", "topic": "orders"}
    value = encrypted(b"good", made, key=b"k", nonce=bytes(12), **about)
    keys = [encrypted_key(b"k", made, **about), encrypted_key(b"k", made, **about)[:-1], b"k", None]
    values = [value, value, value, None]
    data = field([Record(offset=at, timestamp=0, key=keys[at], value=values[at]) for at in range(4)])
    read, reports = opened(data, reading(service), unreadable="skip")
    assert [(r.offset, r.key, r.value) for r in read.records] == [
        (0, b"k", b"good"),
        (2, b"k", b"good"),
        (3, None, None),
    ]
    assert reports == [("damaged", 1, "skip")]
    read, reports = opened(data, reading(service), unreadable="pass")
    assert [(r.key, r.value) for r in read.records[:2]] == [(b"k", b"good"), (keys[1], value)]
    assert reports == [("damaged", 1, "pass")]  # once, though the value does not open without its key, either
    strict = reading(service, accepts_plain=False, record_keys=True)
    read, reports = opened(data, strict, plain="skip", unreadable="skip")
    assert [r.offset for r in read.records] == [0, 3]
    assert reports == [("damaged", 1, "skip"), ("plain", 2, "skip")]
