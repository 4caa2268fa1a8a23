"""Where events go: keys for pseudonyms; what lines are made."""

from pathlib import Path

import pytest

from kproxy.cli.outputs import Format, anonymizer, renderer
from kproxy.errors import UsageError
from kproxy.output.jsonl import event_line


def test_a_key_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        anonymizer(tmp_path / "none")
    short = tmp_path / "short"
    short.write_bytes(b"x" * 15)
    with pytest.raises(UsageError, match="has 15 bytes; a key has at least 16"):
        anonymizer(short)


def test_json_lines_are_the_decoded_log() -> None:
    assert renderer(Format.JSONL, verbose=False, on_terminal=False) is event_line
