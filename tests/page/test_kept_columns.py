"""Columns kept in memory give the rows that the files give, and are bounded."""

from collections.abc import Iterator
from random import Random

import pytest

from kproxy.page.columns import COLUMNS, SHOWN
from kproxy.page.kept_columns import KeptColumns
from kproxy.page.tables import Tabled
from tests.support.exchange_tables import write_tables

COUNT = 3_000
EVERY = list(COLUMNS.values())
FAR = Random(5).sample(range(1, COUNT + 1), 60)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tabled]:
    folder = tmp_path_factory.mktemp("kept") / "tables"
    write_tables(folder, COUNT)
    with Tabled([folder, folder]) as found:  # two files: numbers go on in the second
        yield found


def test_rows_are_those_of_the_files(tables: Tabled) -> None:
    kept, tables.kept = tables.kept, None
    assert kept is not None
    numbers = [*FAR, 2 * COUNT, COUNT + 1, COUNT]
    expected = tables.look_up(numbers, EVERY)
    assert len({tuple(map(str, row)) for row in expected}) > len(numbers) / 2
    tables.kept = kept
    assert tables.look_up(numbers, EVERY) == expected
    kept.wait()
    assert kept.rows(numbers, EVERY) is not None
    assert tables.look_up(numbers, EVERY) == expected
    assert tables.look_up(numbers[:3], []) == [[]] * 3
    assert tables.look_up([2 * COUNT + 1], [COLUMNS["apiName"]]) == [[None]], "there is none"


def test_rows_that_are_near_each_other_are_from_memory_too(tables: Tabled) -> None:
    kept = KeptColumns(tables)
    assert kept.rows(range(10, 70), EVERY) is None
    kept.wait()
    assert kept.rows(range(10, 70), EVERY) is not None
    kept.close()


def test_it_may_be_closed_before_anything_is_read(tables: Tabled) -> None:
    kept = KeptColumns(tables)
    assert kept.rows(range(10, 70), EVERY) is None
    kept.close()
    assert kept.rows(range(10, 70), EVERY) is None


def test_what_is_too_large_is_not_kept(tables: Tabled) -> None:
    kept = KeptColumns(tables, most=100_000)
    shown = [COLUMNS[name] for name in SHOWN]
    assert kept.rows(FAR, shown) is None
    kept.wait()
    assert kept.rows(FAR, shown) is None
    assert kept.rows(FAR, [COLUMNS["number"]]) == [(number,) for number in FAR], "48 kB"
    kept.close()
    assert kept.rows(FAR, [COLUMNS["acks"]]) is None, "nothing is read any more"
