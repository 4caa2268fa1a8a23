"""Many cases of one test: of which README's command runs a few and `.ci/run` all; or all in a loop, which costs less."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def sampled(cases: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """The cases; those that are not among *quick* carry the marker slow. A tuple is the values of several arguments."""
    kept = list(quick)
    return [
        case if case in kept else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


@contextmanager
def case(*about: object) -> Iterator[None]:
    """Of a loop: a failure inside says in which case it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {', '.join(map(repr, about))}")
        raise
