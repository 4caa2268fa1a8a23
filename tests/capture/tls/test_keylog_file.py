"""A key log that is written while it is read."""

from pathlib import Path

import pytest

from kproxy.capture.tls import KeyLogFile
from kproxy.errors import UsageError


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
