"""Cases of a parametrized test of which README's command runs a few, and `.ci/run` all."""

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], quick: Iterable[Any]) -> list[Any]:
    """The cases; those that are not among *quick* carry the marker slow. Ids are made from the cases, as always."""
    kept = list(quick)
    return [case if case in kept else pytest.param(case, marks=pytest.mark.slow) for case in cases]
