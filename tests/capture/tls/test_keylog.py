"""The key log: what counts, what is passed over, and that it stays bounded (hostile input 30)."""

import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.capture.tls import KeyLog, KeyLogFile, keylog
from kproxy.capture.tls.keylog import MAX_ALTERNATIVES, Label
from kproxy.errors import UsageError
from tests.support.tls import Pair, Setup, log_of

RANDOM, OTHER = bytes(range(32)), bytes(range(1, 33))
MASTER = bytes(range(48))
LINE = b"CLIENT_RANDOM %b %b" % (RANDOM.hex().encode(), MASTER.hex().encode())


def test_what_openssl_writes_for_tls13_is_taken() -> None:
    pair = Pair().handshake()
    log = log_of(pair.keylog)
    assert log.lines == 4  # two of the handshake, two of application data; EXPORTER_SECRET is not needed
    assert log.passed_over == 0


def test_what_openssl_writes_for_tls12_is_taken() -> None:
    pair = Pair(Setup(ssl.TLSVersion.TLSv1_2)).handshake()
    (line,) = [line for line in pair.keylog.splitlines() if line.startswith(b"CLIENT_RANDOM")]
    client_random, master = (bytes.fromhex(word.decode()) for word in line.split()[1:])
    assert log_of(pair.keylog).secrets(Label.MASTER, client_random) == (master,)


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_a_line_may_be_cut_anywhere(size: int) -> None:
    text = b"# comment\r\n\r\n" + LINE + b"\r\n" + LINE.lower().replace(b"client_random", b"CLIENT_RANDOM") + b"\n"
    log = KeyLog()
    for at in range(0, len(text), size):
        log.feed(text[at : at + size])
    assert log.secrets(Label.MASTER, RANDOM) == (MASTER,)
    assert (log.lines, log.duplicates, log.passed_over) == (1, 1, 0)


@pytest.mark.parametrize(
    "line",
    [
        b"CLIENT_RANDOM",
        LINE[:-1],  # an odd number of digits
        LINE[:-2],  # a secret of 47 bytes
        LINE + b"00",
        LINE + b" more",
        LINE.replace(b"00", b"zz"),
        LINE.replace(b"CLIENT_RANDOM", b"CLIENT_RANDO"),
        b"CLIENT_TRAFFIC_SECRET_0 " + RANDOM.hex().encode() + b" " + b"ab" * 33,
        b"RSA 0011223344556677 " + MASTER.hex().encode(),
        b"\xff\xfe\x00garbage",
        b"CLIENT_RANDOM " + b"0" * 100_000 + b" 00",
    ],
    ids=lambda line: repr(line[:30]),
)
def test_what_is_wrong_is_counted_and_passed_over(line: bytes) -> None:
    log = log_of(line + b"\n" + LINE)
    assert log.passed_over == 1
    assert log.secrets(Label.MASTER, RANDOM) == (MASTER,)


def test_a_line_that_never_ends_is_not_kept() -> None:
    log = KeyLog()
    for _ in range(1000):
        log.feed(b"0" * 10_000)
    assert len(log._rest) <= keylog.MAX_LINE
    log.feed(b"\n" + LINE + b"\n")
    assert (log.passed_over, log.lines) == (1, 1)


def test_different_secrets_for_one_place_are_all_kept_up_to_a_few() -> None:
    lines = [LINE[:-2] + b"%02x" % number for number in range(20)]
    log = log_of(b"\n".join(lines))
    assert len(log.secrets(Label.MASTER, RANDOM)) == MAX_ALTERNATIVES
    assert log.duplicates == 20 - MAX_ALTERNATIVES


def test_the_oldest_secrets_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keylog, "MAX_SECRETS", 10)
    names = [number.to_bytes(32, "big") for number in range(25)]
    log = log_of(b"\n".join(b"CLIENT_RANDOM %b %b" % (name.hex().encode(), MASTER.hex().encode()) for name in names))
    assert (len(log), log.forgotten) == (10, 15)
    assert log.secrets(Label.MASTER, names[14]) == ()
    assert log.secrets(Label.MASTER, names[15]) == (MASTER,)


def test_a_log_that_grows_is_asked_again() -> None:
    parts = [b"", LINE[:50], LINE[50:] + b"\n", b""]
    log = KeyLog(lambda: parts.pop(0) if parts else b"")
    assert log.secrets(Label.MASTER, RANDOM) == ()
    assert log.secrets(Label.MASTER, RANDOM) == (MASTER,)
    assert parts == [b""]


def test_a_last_line_without_newline_counts() -> None:
    log = KeyLog()
    log.feed(LINE)
    assert log.secrets(Label.MASTER, RANDOM) == (MASTER,)
    assert log.secrets(Label.MASTER, OTHER) == ()
    assert log.secrets(Label.SESSION, RANDOM) == ()


def test_the_master_secret_of_a_session() -> None:
    log = log_of(b"RSA Session-ID:%b Master-Key:%b\n" % (b"ab" * 32, MASTER.hex().encode()))
    assert log.secrets(Label.SESSION, b"\xab" * 32) == (MASTER,)


@given(st.binary(max_size=2000))
def test_any_bytes_are_taken(data: bytes) -> None:
    log_of(data)
    log_of(b"CLIENT_RANDOM " + data)
    log_of(LINE + data)


def test_secrets_do_not_show() -> None:
    assert MASTER.hex() not in repr(log_of(LINE))


def test_what_is_written_later_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"one")
    file = KeyLogFile(path)
    assert file.more() == b"one"
    assert file.more() == b""
    with path.open("ab") as more:
        more.write(b"two")
    assert file.more() == b"two"
    file.close()


def test_a_large_one_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"x" * (3 << 20))
    file = KeyLogFile(path)
    assert [len(file.more()) for _ in range(4)] == [1 << 20, 1 << 20, 1 << 20, 0]
    file.close()


@pytest.mark.parametrize("name", ["missing", "."])
def test_one_that_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"^keylog .*: cannot be opened: "):
        KeyLogFile(tmp_path / name)
