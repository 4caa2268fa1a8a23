"""One direction: what is protected, and how records are found again without keys."""

from kproxy.capture.tls.epochs import Budget
from kproxy.capture.tls.half import Half
from kproxy.capture.tls.records import Record
from kproxy.protocol import Direction
from kproxy.session.tls_facts import TlsTraffic
from tests.capture.tls.test_epochs import Lock, epoch


def new_half() -> Half:
    return Half(Direction.REQUEST, TlsTraffic(), Budget())


def record(kind: int, body: bytes) -> bytes:
    return bytes((kind, 3, 3)) + len(body).to_bytes(2, "big") + body


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
    half.buffer.push(b"rest of something" + record(23, b"a" * 40) + record(23, b"b" * 40))
    assert [found.body for found, opened in half.records()] == [b"a" * 40, b"b" * 40]
    assert half.lost


def test_with_keys_only_what_opens_is_found() -> None:
    half = new_half()
    half.tls13 = True
    half.epochs.current = epoch(Lock(1))
    half.gap(1000)
    false = record(23, b"f" * 20)
    true = record(23, bytes((1,)) + (3).to_bytes(8, "big") + b"text")
    half.buffer.push(false + true)
    (found,) = list(half.records())
    assert found[1] is not None
    assert (found[1].data, found[1].skipped) == (b"text", 3)
