"""The names that a filter may use have a type and a meaning."""

from kproxy.output.where import CHEAP, COSTLY, ENTITIES
from kproxy.page.filtering.names import MEANINGS, NAMES


def test_all_names_of_exchanges_are_described() -> None:
    assert set(NAMES) == {*CHEAP, *COSTLY, *ENTITIES} == set(MEANINGS)
    assert NAMES["latencyMs"][0] == "number"
    assert NAMES["errors"][0] == "list"
