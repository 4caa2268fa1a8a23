"""Parameters: texts become what the defaults are, unknown names and wrong values are refused in a sentence."""

import pytest

from kproxy.analyses.analysis import Analysis, Header, Parameter, Value
from kproxy.analyses.parameters import bind, known_to
from kproxy.errors import UsageError

DEFAULTS: dict[str, Value] = {"whole": 3, "part": 0.5, "on": True, "word": "a", "any": None}
ANALYSIS = Analysis(
    header=Header(
        id="a",
        title="A",
        severity="info",
        meaning="m",
        parameters={name: Parameter(default=value, meaning="m") for name, value in DEFAULTS.items()},
    ),
    sql="SELECT 1",
    path="a.sql",
)


def test_defaults_stand_where_nothing_is_given() -> None:
    assert bind(ANALYSIS, {}) == DEFAULTS


def test_texts_become_what_the_defaults_are() -> None:
    given = {"whole": "7", "part": "0.25", "on": "no", "word": "8", "any": "4.1"}
    assert bind(ANALYSIS, given) == {"whole": 7, "part": 0.25, "on": False, "word": "8", "any": "4.1"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("whole", "7.5", "the parameter whole is a whole number, not '7.5'"),
        ("part", "x", "the parameter part is a number, not 'x'"),
        ("on", "maybe", "the parameter on is true or false, not 'maybe'"),
        ("wole", "1", "a has no parameter 'wole'; did you mean whole?"),
    ],
)
def test_wrong_ones_are_told(name: str, value: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        bind(ANALYSIS, {name: value})
    assert str(caught.value) == words


def test_those_of_other_analyses_are_left_out() -> None:
    assert known_to(ANALYSIS, {"whole": 1, "other": 2}) == {"whole": 1}
