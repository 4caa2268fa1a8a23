"""Bytes to records, with gaps and damage."""

from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls.records import MAX_BODY, Record, RecordBuffer, plausible


def record(body: bytes, kind: int = 23) -> bytes:
    return bytes((kind, 3, 3)) + len(body).to_bytes(2, "big") + body


def read(buffer: RecordBuffer, data: bytes) -> list[bytes]:
    buffer.push(data)
    found = []
    while (got := buffer.next()) is not None:
        found.append(got.body)
    return found


BODIES = [b"one", b"", b"three" * 1000, b"x"]
STREAM = b"".join(record(body) for body in (b"one", b"three" * 1000, b"x"))


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=10))
def test_records_come_out_whatever_the_chunks(cuts: list[int]) -> None:
    buffer, found, at, turn = RecordBuffer(), [], 0, 0
    while at < len(STREAM):
        size = cuts[turn % len(cuts)]
        found += read(buffer, STREAM[at : at + size])
        at, turn = at + size, turn + 1
    assert found == [b"one", b"three" * 1000, b"x"]
    assert buffer.held == buffer.skipped_bytes == 0


def test_what_is_no_header_is_noticed() -> None:
    for header in (
        b"GET / HTTP",
        b"\x17\x02\x03\x00\x05",
        b"\x13\x03\x03\x00\x05",
        b"\x17\x03\x03\xff\xff",
        b"\x17\x03\x03\0\0",
    ):
        buffer = RecordBuffer()
        assert read(buffer, record(b"one") + header) == [b"one"]
        assert buffer.broken
        assert buffer.searching
        assert not plausible(header)
    assert plausible(b"\x17\x03\x03" + MAX_BODY.to_bytes(2, "big"))


def test_a_gap_within_a_record_leaves_its_end_known() -> None:
    buffer = RecordBuffer()
    whole = record(b"a" * 100)
    assert read(buffer, whole[:50]) == []
    assert buffer.missing == 55
    assert buffer.gap(30)
    assert read(buffer, whole[80:] + record(b"next")) == [b"next"]


def test_a_gap_to_the_very_end_of_a_record() -> None:
    buffer = RecordBuffer()
    read(buffer, record(b"a" * 100)[:50])
    assert buffer.gap(55)
    assert read(buffer, record(b"next")) == [b"next"]


def test_a_second_gap_within_the_same_record() -> None:
    buffer = RecordBuffer()
    read(buffer, record(b"a" * 100)[:50])
    assert buffer.gap(10)
    buffer.push(b"a" * 10)
    assert buffer.missing == 35
    assert buffer.gap(35)
    assert read(buffer, record(b"next")) == [b"next"]


def test_after_any_other_gap_candidates_are_looked_for() -> None:
    for size in (None, 56, 1000):
        buffer = RecordBuffer()
        read(buffer, record(b"a" * 100)[:50])
        assert not buffer.gap(size)
        rest = b"rest \x17\x03\x03 of a record" + record(b"next") + record(b"after")
        assert read(buffer, rest) == []
        found = buffer.candidate()
        while found != Record(record(b"next")[:5], b"next"):
            if found is not None:
                assert not buffer.followed(found)
            buffer.reject()
            found = buffer.candidate()
        assert buffer.followed(found)
        buffer.accept(found)
        assert read(buffer, b"") == [b"after"]
        assert not buffer.searching


def test_hunting_holds_no_more_than_a_record() -> None:
    buffer = RecordBuffer()
    buffer.gap(None)
    for _ in range(100):
        buffer.push(b"\0" * 10_000)
        assert buffer.candidate() is None
    assert buffer.held <= 2
    assert buffer.skipped_bytes >= 999_998


@given(st.lists(st.one_of(st.binary(max_size=200), st.none(), st.integers(0, 300)), max_size=20))
def test_anything_is_taken(steps: list[bytes | int | None]) -> None:
    buffer = RecordBuffer()
    for step in steps:
        if isinstance(step, bytes):
            buffer.push(step)
        else:
            buffer.gap(step)
        while (found := buffer.next()) is not None:
            assert len(found.body) <= MAX_BODY
        while buffer.searching and (candidate := buffer.candidate()) is not None:
            if buffer.followed(candidate):
                buffer.accept(candidate)
            else:
                buffer.reject()
