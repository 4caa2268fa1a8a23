"""Keys for pseudonyms."""

from pathlib import Path

import pytest

from kproxy.cli.anonymizing import anonymizer
from kproxy.errors import UsageError


def test_an_invalid_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        anonymizer(tmp_path / "none")
    short = tmp_path / "short"
    short.write_bytes(b"x" * 15)
    with pytest.raises(UsageError, match="has 15 bytes; a key has at least 16"):
        anonymizer(short)
