"""The names that are told of conditions are those that conditions know."""

from kproxy.filters.breakpoints.breakpoint import OF_RESPONSES
from kproxy.filters.breakpoints.names import ELEMENTS, NAMES_OF_REQUESTS, NAMES_OF_RESPONSES
from kproxy.filters.conditions import NAMES


def test_each_name_of_a_condition_has_its_type_and_meaning() -> None:
    assert set(NAMES_OF_REQUESTS) == set(NAMES)
    assert set(NAMES_OF_RESPONSES) == {*NAMES, *OF_RESPONSES}
    assert {kind for kind, _ in NAMES_OF_RESPONSES.values()} == {"text", "number", "list", "object"}
    assert all(NAMES_OF_RESPONSES[name][0] == "list" for name in ELEMENTS)
