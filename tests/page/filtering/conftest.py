"""Fixtures of the tests of conditions as SQL."""

from collections.abc import Iterator

import pytest

from tests.page.filtering.judged import Judge


@pytest.fixture(scope="package")
def judge() -> Iterator[Judge]:
    """Rows that conditions as SQL and CEL itself are asked about."""
    found = Judge()
    yield found
    found.close()
