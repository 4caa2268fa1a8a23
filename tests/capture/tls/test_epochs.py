"""Which keys and which sequence number: what is tried, and how much of it."""

from kproxy.capture.tls.epochs import Budget, Candidate, Epoch, Epochs
from kproxy.capture.tls.records import Record
from kproxy.capture.tls.suites import SUITES


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


def record(key: int, sequence: int, data: bytes = b"") -> Record:
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
        opened = keys.open(record(2, sequence), Budget())
        assert opened is not None
        assert opened.moved == (sequence == 0)
    assert (wrong.tries, right.tries) == (1, 10)


def test_without_a_gap_no_other_sequence_number_is_tried() -> None:
    lock = Lock(1)
    keys = epochs(epoch(lock))
    assert keys.open(record(1, 1), Budget()) is None
    assert lock.tries == 1


def test_after_a_gap_the_next_ones_are_tried_and_the_missing_ones_counted() -> None:
    keys = epochs(epoch(Lock(1)))
    keys.open(record(1, 0), Budget())
    keys.miss(10)
    opened = keys.open(record(1, 8), Budget())
    assert opened is not None
    assert opened.skipped == 7
    assert keys.ahead == 0
    assert keys.open(record(1, 9), Budget()) is not None


def test_a_counter_on_the_record_finds_it_at_once_however_far() -> None:
    lock = Lock(1, counts=True)
    keys = epochs(epoch(lock))
    keys.open(record(1, 0), Budget())
    keys.miss(1)
    opened = keys.open(record(1, 5_000_000), Budget())
    assert opened is not None
    assert opened.skipped == 4_999_999
    assert lock.tries == 2


def test_a_damaged_record_does_not_cost_the_ones_after_it() -> None:
    keys = epochs(epoch(Lock(1)))
    keys.open(record(1, 0), Budget())
    assert keys.open(record(9, 1), Budget()) is None
    assert keys.open(record(1, 2), Budget()) is not None


def test_what_is_tried_in_vain_is_bounded() -> None:
    lock = Lock(1)
    keys = epochs(epoch(lock))
    keys.open(record(1, 0), Budget())
    budget = Budget(left=100_000)
    for _ in range(50):
        keys.miss(100_000)
        assert keys.open(record(9, 0, bytes(1000)), budget) is None
    assert lock.tries < 100_000 // 1000 + 60
    budget.add(1000)
    assert keys.open(record(1, 1), budget) is not None, "the next in order is always tried"


def test_a_later_epoch_may_begin_unannounced() -> None:
    first, second = epoch(Lock(1)), epoch(Lock(2))
    keys = epochs(first, second)
    opened = keys.open(record(2, 0), Budget())
    assert opened is not None
    assert opened.moved
    assert keys.current is second
    assert keys.upcoming == []


def test_tls12_has_no_key_updates_to_look_for() -> None:
    suite = SUITES[0xC027]  # AES-CBC: its keys would not even have the right size
    keys = epochs(Epoch("application data", "CLIENT_RANDOM", lambda: [Candidate(Lock(1), bytes(48), suite)]))
    keys.open(record(1, 0), Budget())
    keys.miss(3)
    assert keys.open(record(9, 0), Budget()) is None
    assert keys.current is not None
    assert keys.current.after_update() is None


def test_keys_that_come_later_are_found_later() -> None:
    log: list[Candidate] = []
    keys = epochs(Epoch("application data", "SECRET", lambda: log))
    assert keys.open(record(1, 0), Budget()) is None
    log.append(Candidate(Lock(1), bytes(32), SUITES[0x1301]))
    assert keys.open(record(1, 0), Budget()) is not None
