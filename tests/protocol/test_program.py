"""The walk, and what a DecodeError says. The bytes are written by hand from Kafka's definitions, quoted where it matters."""

import pytest

from kproxy.errors import DecodeError, Malformed, TrailingBytes, Truncated
from kproxy.protocol import message
from kproxy.protocol.facts import facts
from kproxy.protocol.program import Program
from kproxy.protocol.secrets import secrecy
from kproxy.protocol.structs import struct_types
from tests.support.corpus import golden_lines
from tests.support.sampled import sampled
from tests.support.wire import Smallest, compact, made_message, newest_layout, short, uvarint

HELLO = compact(b"kproxy") + compact(b"1") + b"\0"  # ApiVersionsRequest v3: software name, version, no tags


def error_of(name: str, version: int, data: bytes, start: int = 0) -> DecodeError:
    """The error that every reader of the message gives alike."""
    layout = message(name)
    errors = []
    for read in (layout.decode, layout.to_json, layout.check):
        with pytest.raises(DecodeError) as caught:
            read(version, data, start)
        errors.append(caught.value)
    assert len({(type(e), str(e), e.path, e.position, e.needed, e.left) for e in errors}) == 1
    assert (errors[0].message, errors[0].version) == (name, version)
    return errors[0]


@pytest.mark.parametrize(
    ("name", "version", "data"),
    [
        ("ApiVersionsRequest", 0, b""),
        ("ApiVersionsRequest", 3, HELLO),
        ("MetadataRequest", 0, bytes(3) + b"\2" + short("a") + short("bc")),
        ("MetadataRequest", 1, b"\xff\xff\xff\xff"),
        ("ApiVersionsResponse", 3, b"\0\0\1" + bytes(4) + b"\1" + b"\1" + uvarint(8) + bytes(7) + b"\5"),
        ("DescribeTopicPartitionsRequest", 0, b"\1" + bytes(4) + b"\1" + compact(b"t") + bytes(4) + b"\0" + b"\0"),
    ],
)
def test_a_message_is_right_stops_where_it_should_and_says_when_it_is_short(
    name: str, version: int, data: bytes
) -> None:
    layout = message(name)
    assert layout.walk(version, b"\xaa" + data + b"next message", 1) == len(data)
    assert layout.check(version, data).version == version
    trailing = error_of(name, version, data + b"next")
    assert type(trailing) is TrailingBytes
    assert (trailing.position, trailing.needed, trailing.left, trailing.path) == (len(data), 0, 4, "")
    for cut in range(len(data)):
        short_one = error_of(name, version, data[:cut])
        assert isinstance(short_one, (Truncated, Malformed))
        assert short_one.position <= cut


@pytest.mark.parametrize(
    "name", sampled(["MetadataResponse", "ProduceRequest", "FetchResponse", "JoinGroupResponse"], ["MetadataResponse"])
)
def test_kafkas_own_bytes_are_refused_at_every_cut(name: str) -> None:
    for line in golden_lines("messages"):
        data = bytes.fromhex(line["hex"])
        if line["message"] == name and line["kind"] == "typical" and len(data) < 400:
            for cut in range(len(data)):
                error_of(name, line["version"], data[:cut])


# MetadataResponse v1: brokers, controllerId, topics of (errorCode, name, isInternal, partitions of (errorCode,
# partitionIndex, leaderId, replicaNodes, isrNodes))
TEN_NODES = (10).to_bytes(4, "big") + bytes(40)
METADATA = b"".join(
    [
        *(bytes(4), bytes(4), b"\0\0\0\1", b"\0\0", short("topic"), b"\0", b"\0\0\0\2"),
        *(b"\0\0", bytes(4), bytes(4), TEN_NODES, bytes(4)),
        *(b"\0\0", b"\0\0\0\1"),  # and then leaderId, of which two bytes follow
    ]
)


def test_an_error_says_which_field_of_which_element() -> None:
    error = error_of("MetadataResponse", 1, METADATA + b"\0\0")
    assert type(error) is Truncated
    assert error.path == "topics[0].partitions[1].leaderId"
    assert (error.position, error.needed, error.left) == (len(METADATA), 4, 2)
    assert str(error) == (
        f"MetadataResponse v1: topics[0].partitions[1].leaderId: needs 4 bytes, 2 left (at byte {len(METADATA)})"
    )


def test_positions_count_from_where_the_message_starts() -> None:
    assert error_of("MetadataResponse", 1, b"header" + METADATA + b"\0\0", 6).position == len(METADATA)


def test_each_fault_is_named() -> None:
    """The class, and where, and how much was needed and left."""
    for name, version, data, fault in [
        # five topic names of at least two bytes each in four bytes
        ("MetadataRequest", 0, b"\0\0\0\5" + bytes(4), (Malformed, "topics", 4, 5, 4)),
        ("MetadataRequest", 0, b"\x7f\xff\xff\xff", (Malformed, "topics", 4, 2**31 - 1, 0)),
        ("MetadataRequest", 0, b"\xff\xff\xff\xff", (Malformed, "topics", 4, None, None)),  # nullable from version 1
        ("MetadataRequest", 0, b"\0\0\0\1\xff\xff", (Malformed, "topics[0].name", 6, None, None)),
        (
            "MetadataRequest",
            0,
            b"\0\0\0\1\xff\xfe",
            (Malformed, "topics[0].name", 6, None, None),
        ),  # any negative is null
        ("ApiVersionsRequest", 3, b"\0", (Malformed, "clientSoftwareName", 1, None, None)),
        ("ApiVersionsRequest", 3, b"\xff\xff\xff\xff\xff\1", (Malformed, "clientSoftwareName", 0, None, None)),
        ("ApiVersionsRequest", 3, b"\x80\x80", (Truncated, "clientSoftwareName", 0, 3, 2)),
        ("ApiVersionsRequest", 3, b"\5abc", (Truncated, "clientSoftwareName", 1, 4, 3)),
        # Kafka allows no string above 32,767 bytes, compact or not
        ("ApiVersionsRequest", 3, uvarint(32769) + bytes(40000), (Malformed, "clientSoftwareName", 3, 32768, 40000)),
        ("ApiVersionsRequest", 3, HELLO[:-1] + b"\2\0", (Malformed, "", 10, 2, 1)),  # two tags in one byte
        ("ApiVersionsRequest", 3, HELLO[:-1] + b"\1\0\3ab", (Truncated, "", 12, 3, 2)),
        ("ApiVersionsRequest", 3, HELLO[:-1] + b"\1\xff\xff\xff\xff\xff\1", (Malformed, "", 10, None, None)),
        # a known tag: finalizedFeaturesEpoch (1) is an int64
        (
            "ApiVersionsResponse",
            3,
            b"\0\0\1" + bytes(4) + b"\1\1\7" + bytes(9),
            (Truncated, "finalizedFeaturesEpoch", 10, 8, 7),
        ),
        (
            "ApiVersionsResponse",
            3,
            b"\0\0\1" + bytes(4) + b"\1\1\x09" + bytes(9),
            (Malformed, "finalizedFeaturesEpoch", 18, 9, 1),
        ),
        (
            "ApiVersionsResponse",
            3,
            b"\0\0\1" + bytes(4) + b"\1\0\7\2\4abc\0\0",
            (Truncated, "supportedFeatures[0].maxVersion", 17, 2, 0),
        ),
        ("ApiVersionsResponse", 3, b"\0\0\1" + bytes(4) + b"\1\0\1\3", (Malformed, "supportedFeatures", 11, 2, 0)),
    ]:
        error = error_of(name, version, data)
        assert (type(error), error.path, error.position, error.needed, error.left) == fault, (name, data)


def test_negative_sizes_are_null_where_null_is_allowed() -> None:
    """Java: a length below zero is null, whatever it is."""
    produce = message("ProduceRequest")  # v3: transactionalId, acks, timeoutMs, topicData
    for size in (b"\xff\xff", b"\xff\xfe", b"\x80\0"):
        assert produce.decode(3, size + b"\0\1" + bytes(8)).transactional_id is None
    quotas = message("DescribeClientQuotasResponse")  # v0: throttleTimeMs, errorCode, errorMessage, entries
    assert quotas.decode(0, bytes(6) + b"\0\0" + b"\x80\0\0\0").entries is None


def test_a_bool_is_true_unless_it_is_zero() -> None:
    for mark, truth in ((0, False), (1, True), (2, True), (255, True)):
        assert message("MetadataRequest").decode(4, bytes(4) + bytes([mark])).allow_auto_topic_creation is truth


def test_overlong_varints_of_five_bytes_are_read() -> None:
    assert message("ApiVersionsRequest").decode(3, b"\x82\x80\x80\x80\0a" + HELLO[-3:]).client_software_name == "a"


def test_a_nullable_struct_is_null_when_its_int8_is_negative() -> None:
    """KIP-893. DescribeTopicPartitionsRequest v0: topics, responsePartitionLimit, cursor."""
    for mark in range(256):
        cursor = compact(b"t") + b"\0\0\0\7\0"
        data = b"\1" + bytes(4) + bytes([mark]) + (b"" if mark > 127 else cursor) + b"\0"
        found = message("DescribeTopicPartitionsRequest").decode(0, data).cursor
        assert found is None if mark > 127 else found.partition_index == 7, mark


def test_every_reader_refuses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = message("ApiVersionsRequest")
    for call in (layout.walk, layout.check, layout.decode, layout.to_json):
        for wrong in (None, "text", bytearray(b"\0")):
            with pytest.raises(TypeError):
                call(3, wrong)
        for start in (-1, 99):
            with pytest.raises(IndexError):
                call(3, HELLO, start)
    with pytest.raises(TypeError):
        layout.peek(3, "acks", None)
    with pytest.raises(TypeError):
        Program.__new__(Program)


def test_every_version_of_every_message_is_compiled() -> None:
    combinations = [(name, version) for name in facts().messages() for version in message(name).versions]
    assert len(combinations) > 722
    for name, version in combinations:
        assert {p.version for p in message(name).programs(version)} == {version}


def test_no_element_of_an_array_takes_no_bytes() -> None:
    """Otherwise a count of 2^31 in four bytes would be a long loop for nothing (Wireshark's issue 17811)."""
    for name in facts().messages():
        for layout in facts().layouts(name):
            for version in layout.versions:
                bare = Smallest(layout, version)
                fields = list(layout.fields)
                while fields:
                    field = fields.pop()
                    present = version in field.versions
                    assert not (field.is_array and present) or bare.single(field)
                    fields += field.fields if present else ()


def test_an_element_of_nothing_cannot_run_free(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = made_message(
        monkeypatch,
        "message OddRequest type=request api=3 module=m release=4.3.1 versions=0 flexible=none\n"
        "  Things []Thing 0+\n    Later int8 1+\n",
    )
    with pytest.raises(Malformed):
        odd.decode(0, b"\x7f\xff\xff\xff")
    assert odd.decode(0, bytes(4)).things == []


@pytest.mark.parametrize("numbers", [range(33), [5, 5]])
def test_more_tags_than_fit_or_one_given_twice_are_not_compiled(
    monkeypatch: pytest.MonkeyPatch, numbers: "range | list[int]"
) -> None:
    head = f"message Tags{len(numbers)}Request type=request api=3 module=m release=4.3.1 versions=0 flexible=0+\n"
    fields = "".join(f"  F{i} int8 0+ tag={tag} tagged=0+\n" for i, tag in enumerate(numbers))
    with pytest.raises(ValueError):
        made_message(monkeypatch, head + fields).programs(0)


def test_thirty_two_tags_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    head = "message FullRequest type=request api=3 module=m release=4.3.1 versions=0 flexible=0+\n"
    fields = "".join(f"  F{i} int8 0+ tag={i} tagged=0+\n" for i in range(32))
    full = made_message(monkeypatch, head + fields)
    data = b"\x20" + b"".join(bytes([i, 1, i + 1]) for i in range(32))
    assert full.encode(0, full.decode(0, data)) == data
    expected = "{" + ",".join(f'"f{i}":{i + 1}' for i in range(32)) + "}"
    assert full.to_json(0, data).decode() == expected


def test_a_program_is_made_of_one_layout() -> None:
    layout = newest_layout("ApiVersionsRequest", 3)
    program = Program(layout, 3, struct_types("ApiVersionsRequest"), secrecy)
    assert (program.message, program.version, program.release) == ("ApiVersionsRequest", 3, layout.release)
    assert program.walk(HELLO) == len(HELLO)
    assert program.check(HELLO) is None


@pytest.mark.parametrize("version", range(14))
def test_acks_can_be_peeked_at_in_every_produce_request(version: int) -> None:
    layout = message("ProduceRequest")
    seen = set()
    for line in golden_lines("messages"):
        if line["message"] == "ProduceRequest" and line["version"] == version:
            data = bytes.fromhex(line["hex"])
            seen.add(layout.peek(version, "acks", b"ab" + data + b"more", 2))
            assert layout.peek(version, "acks", data) == layout.decode(version, data).acks == line["json"]["acks"]
    assert len(seen) > 1


def test_peek_says_when_it_cannot() -> None:
    layout = message("ProduceRequest")
    with pytest.raises(KeyError):
        layout.peek(2, "transactionalId", bytes(10))
    with pytest.raises(DecodeError):
        layout.peek(3, "acks", b"\xff\xff\0")
    assert message("RegisterBrokerRecord").peek(0, "brokerId", b"\x80\0\0\0") == -(2**31)
