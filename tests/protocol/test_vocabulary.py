"""The vocabulary: what it lists can be used where it says so, and tables and options spell it in snake_case."""

import msgspec
import pytest

from kproxy.filters.conditions import MAKERS
from kproxy.filters.loading import filter_class, filter_names
from kproxy.filters.reference import options_of
from kproxy.output.jsonl import exchange_line
from kproxy.output.tables.contracts import EXCHANGES
from kproxy.output.where import CHEAP, ENTITIES, OF_CONNECTION
from kproxy.protocol.vocabulary import (
    ALIASES,
    ELEMENTS,
    OPTION_ALIASES,
    VOCABULARY,
    Scope,
    fields_in,
    snake_case,
    table_rows,
)
from tests.support.corpus import golden_exchanges


def test_fields_of_exchanges_are_those_of_the_decoded_log_and_those_made_from_it() -> None:
    _, _, exchange = next(iter(golden_exchanges()))
    of_lines = msgspec.json.decode(exchange_line(exchange)).keys()
    assert fields_in(Scope.LOG).keys() == {*of_lines, *OF_CONNECTION, *ENTITIES, "errorNames", "record"}
    assert CHEAP.keys() <= of_lines


def test_fields_of_requests_have_a_value() -> None:
    assert fields_in(Scope.REQUEST).keys() == {*MAKERS, "topic"}
    assert fields_in(Scope.RESPONSE).keys() - fields_in(Scope.REQUEST).keys() == {"response", "errors", "errorNames"}


def test_columns_of_exchanges_that_are_fields_have_their_names_in_snake_case() -> None:
    columns = {column.name for column in EXCHANGES.columns}
    same = {name for name in VOCABULARY if snake_case(name) in columns}
    assert {"apiKey", "apiName", "apiVersion", "clientId", "latencyMs", "requestSize", "topics", "groups"} <= same
    assert not {name for name in VOCABULARY if name.lower() in {c.replace("_", "") for c in columns}} - same


@pytest.mark.parametrize("name", filter_names())
def test_no_option_has_the_former_name_of_another(name: str) -> None:
    words = {option.name.rpartition(".")[2] for option in options_of(filter_class(name))}
    assert not words & OPTION_ALIASES.keys()


def test_the_reference_has_a_row_for_each_field() -> None:
    assert [name for name, *_ in table_rows()] == list(VOCABULARY)
    assert ("latencyMs", "number", VOCABULARY["latencyMs"].meaning, "log") in table_rows(Scope.LOG)
    assert {name for name in ELEMENTS if VOCABULARY[name].type == "objects"} == set(ELEMENTS)
    assert set(ALIASES.values()) <= VOCABULARY.keys()
