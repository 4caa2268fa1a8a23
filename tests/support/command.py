"""The command line, run in this process: no start of an interpreter for each call."""

import pytest

from kproxy.cli import main


def kproxy(*words: object) -> int:
    """Run `kproxy WORDS`; the exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def decode(*words: object) -> int:
    """Run `kproxy decode WORDS`; the exit status."""
    return kproxy("decode", *words)
