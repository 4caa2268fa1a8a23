"""Bytes to records, with gaps and damage."""

from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls.ciphers import SUITES
from kproxy.capture.tls.records import MAX_BODY, Budget, Candidate, Epoch, Epochs, Half, Record, RecordBuffer, plausible
from kproxy.protocol import Direction
from kproxy.session.events import TlsTraffic


def record(body: bytes, kind: int = 23) -> bytes:
    return bytes((kind, 3, 3)) + len(body).to_bytes(2, "big") + body


def read(buffer: RecordBuffer, data: bytes) -> list[bytes]:
    buffer.push(data)
    found = []
    while (got := buffer.next()) is not None:
        found.append(got.body)
    return found


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
        found = buffer.candidate(ended=False)
        while found != Record(record(b"next")[:5], b"next"):
            if found is not None:
                assert not buffer.followed(found)
            buffer.reject()
            found = buffer.candidate(ended=False)
        assert buffer.followed(found)
        buffer.accept(found)
        assert read(buffer, b"") == [b"after"]
        assert not buffer.searching


def test_hunting_holds_no_more_than_a_record() -> None:
    buffer = RecordBuffer()
    buffer.gap(None)
    for _ in range(100):
        buffer.push(b"\0" * 10_000)
        assert buffer.candidate(ended=False) is None
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
        while buffer.searching and (candidate := buffer.candidate(ended=False)) is not None:
            if buffer.followed(candidate):
                buffer.accept(candidate)
            else:
                buffer.reject()


class Lock:
    """Opens a record that names its sequence number, and counts how often it was asked."""

    def __init__(self, key: int, *, counts: bool = False) -> None:
        self.key = key
        self.counts = counts
        self.tries = 0

    def open(self, record: Record, sequence: int, /) -> tuple[int, bytes] | None:
        self.tries += 1
        right = record.body[:9] == bytes((self.key,)) + sequence.to_bytes(8, "big")
        return (23, record.body[9:]) if right else None

    def counter(self, record: Record, /) -> int | None:
        return int.from_bytes(record.body[1:9], "big") + 1000 if self.counts else None


def sealed(key: int, sequence: int, data: bytes = b"") -> Record:
    return Record(b"\x17\x03\x03\0\0", bytes((key,)) + sequence.to_bytes(8, "big") + data)


def epoch(*locks: Lock) -> Epoch:
    return Epoch("application data", "SECRET", lambda: [Candidate(lock, bytes(32), SUITES[0x1301]) for lock in locks])


def epochs(*later: Epoch) -> Epochs:
    found = Epochs()
    found.upcoming = list(later)
    return found


def test_of_several_secrets_the_right_one_is_kept() -> None:
    wrong, right = Lock(1), Lock(2)
    keys = epochs(epoch(wrong, right))
    for sequence in range(10):
        opened = keys.open(sealed(2, sequence), Budget())
        assert opened is not None
        assert opened.moved == (sequence == 0)
    assert (wrong.tries, right.tries) == (1, 10)


def test_without_a_gap_no_other_sequence_number_is_tried() -> None:
    lock = Lock(1)
    keys = epochs(epoch(lock))
    assert keys.open(sealed(1, 1), Budget()) is None
    assert lock.tries == 1


def test_after_a_gap_the_next_ones_are_tried_and_the_missing_ones_counted() -> None:
    keys = epochs(epoch(Lock(1)))
    keys.open(sealed(1, 0), Budget())
    keys.miss(10)
    opened = keys.open(sealed(1, 8), Budget())
    assert opened is not None
    assert opened.skipped == 7
    assert keys.ahead == 0
    assert keys.open(sealed(1, 9), Budget()) is not None


def test_a_counter_on_the_record_finds_it_at_once_however_far() -> None:
    lock = Lock(1, counts=True)
    keys = epochs(epoch(lock))
    keys.open(sealed(1, 0), Budget())
    keys.miss(1)
    opened = keys.open(sealed(1, 5_000_000), Budget())
    assert opened is not None
    assert opened.skipped == 4_999_999
    assert lock.tries == 2


def test_a_damaged_record_does_not_cost_the_ones_after_it() -> None:
    keys = epochs(epoch(Lock(1)))
    keys.open(sealed(1, 0), Budget())
    assert keys.open(sealed(9, 1), Budget()) is None
    assert keys.open(sealed(1, 2), Budget()) is not None


def test_what_is_tried_in_vain_is_bounded() -> None:
    lock = Lock(1)
    keys = epochs(epoch(lock))
    keys.open(sealed(1, 0), Budget())
    budget = Budget(left=100_000)
    for _ in range(50):
        keys.miss(100_000)
        assert keys.open(sealed(9, 0, bytes(1000)), budget) is None
    assert lock.tries < 100_000 // 1000 + 60
    budget.add(1000)
    assert keys.open(sealed(1, 1), budget) is not None, "the next in order is always tried"


def test_a_later_epoch_may_begin_unannounced() -> None:
    first, second = epoch(Lock(1)), epoch(Lock(2))
    keys = epochs(first, second)
    opened = keys.open(sealed(2, 0), Budget())
    assert opened is not None
    assert opened.moved
    assert keys.current is second
    assert keys.upcoming == []


def test_tls12_has_no_key_updates_to_look_for() -> None:
    suite = SUITES[0xC027]  # AES-CBC: its keys would not even have the right size
    keys = epochs(Epoch("application data", "CLIENT_RANDOM", lambda: [Candidate(Lock(1), bytes(48), suite)]))
    keys.open(sealed(1, 0), Budget())
    keys.miss(3)
    assert keys.open(sealed(9, 0), Budget()) is None
    assert keys.current is not None
    assert keys.current.after_update() is None


def test_keys_that_come_later_are_found_later() -> None:
    log: list[Candidate] = []
    keys = epochs(Epoch("application data", "SECRET", lambda: log))
    assert keys.open(sealed(1, 0), Budget()) is None
    log.append(Candidate(Lock(1), bytes(32), SUITES[0x1301]))
    assert keys.open(sealed(1, 0), Budget()) is not None


def new_half() -> Half:
    return Half(Direction.REQUEST, TlsTraffic(), Budget())


def test_what_is_protected() -> None:
    half = new_half()
    hello, data, alert = (Record(bytes((kind, 3, 3, 0, 1)), b"x") for kind in (22, 23, 21))
    assert [half.is_protected(one) for one in (hello, data, alert)] == [False, True, False]
    half.epochs.current = epoch(Lock(1))  # TLS 1.2 after ChangeCipherSpec
    assert [half.is_protected(one) for one in (hello, data, alert)] == [True, True, True]
    half.tls13 = True
    assert [half.is_protected(one) for one in (hello, data, alert)] == [False, True, False]


def test_without_keys_a_record_that_another_follows_is_found_again() -> None:
    half = new_half()
    half.gap(None)
    half.buffer.push(b"rest of something" + record(b"a" * 40) + record(b"b" * 40))
    assert [found.body for found, opened in half.records()] == [b"a" * 40, b"b" * 40]
    assert half.lost


def test_with_keys_only_what_opens_is_found() -> None:
    half = new_half()
    half.tls13 = True
    half.epochs.current = epoch(Lock(1))
    half.gap(1000)
    false = record(b"f" * 20)
    true = record(bytes((1,)) + (3).to_bytes(8, "big") + b"text")
    half.buffer.push(false + true)
    (found,) = list(half.records())
    assert found[1] is not None
    assert (found[1].data, found[1].skipped) == (b"text", 3)
