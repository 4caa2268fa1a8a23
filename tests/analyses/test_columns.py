"""Headers say what every column of a result means."""

from collections.abc import Iterator

import pytest

from kproxy.analyses import library
from kproxy.analyses.columns import MEANINGS
from kproxy.analyses.duck import Database

ANALYSES = library.load()


@pytest.fixture(scope="module")
def nothing() -> Iterator[Database]:
    """Tables without a row."""
    with Database([]) as database:
        yield database


@pytest.mark.parametrize("name", ANALYSES)
def test_the_header_has_the_columns_of_the_result_and_says_what_they_mean(name: str, nothing: Database) -> None:
    analysis = ANALYSES[name]
    assert sorted(analysis.header.columns) == sorted(nothing.run(analysis).schema.names)
    assert [column for column, meaning in analysis.columns.items() if not meaning] == []


@pytest.mark.parametrize("name", ANALYSES)
def test_times_and_sizes_have_their_unit(name: str) -> None:
    units = {"_ms": ("millisecond", "bucket_ms"), "_micros": ("microsecond",), "_bytes": ("byte", "size")}
    for column, meaning in ANALYSES[name].columns.items():
        for suffix, words in units.items():
            if column.endswith(suffix):
                assert any(word in f"{column} {meaning}" for word in words), f"{column}: {meaning}"


def test_no_common_meaning_is_left_over() -> None:
    assert set(MEANINGS) <= {column for analysis in ANALYSES.values() for column in analysis.header.columns}
