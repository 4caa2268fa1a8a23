"""Parameters: texts become what the defaults are, unknown names and wrong values are refused in a sentence."""

from collections.abc import Iterator

import pytest

from kproxy.analyses import library
from kproxy.analyses.analysis import Analysis, Header, Parameter, Value
from kproxy.analyses.duck import Database
from kproxy.analyses.parameters import bind, known_to
from kproxy.errors import UsageError
from tests.support.sampled import sampled
from tests.support.scenes import SCENES
from tests.support.scenes.crowd import crowd

BUILT_IN = library.load()
DEFAULTS: dict[str, Value] = {"whole": 3, "part": 0.5, "on": True, "word": "a", "any": None}
RANGES = {
    "share": Parameter(default=5, meaning="m", least=1, most=100),
    "below": Parameter(default=-3, meaning="m"),
}
ANALYSIS = Analysis(
    header=Header(
        id="a",
        title="A",
        severity="info",
        meaning="m",
        parameters={name: Parameter(default=value, meaning="m") for name, value in DEFAULTS.items()} | RANGES,
    ),
    sql="SELECT 1",
    path="a.sql",
)


def largest(analysis: Analysis) -> dict[str, int]:
    """The greatest that each parameter that is a whole number may be."""
    whole = {name: each for name, each in analysis.header.parameters.items() if type(each.default) is int}
    return {name: int(each.range[1]) for name, each in whole.items()}


def test_defaults_stand_where_nothing_is_given() -> None:
    assert bind(ANALYSIS, {}) == DEFAULTS | {"share": 5, "below": -3}


def test_texts_become_what_the_defaults_are() -> None:
    given = {"whole": "7", "part": "0.25", "on": "no", "word": "8", "any": "4.1"}
    assert bind(ANALYSIS, given) == {"whole": 7, "part": 0.25, "on": False, "word": "8", "any": "4.1"} | {
        "share": 5,
        "below": -3,
    }


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("whole", "7.5", "the parameter whole is a whole number, not '7.5'"),
        ("part", "x", "the parameter part is a number, not 'x'"),
        ("on", "maybe", "the parameter on is true or false, not 'maybe'"),
        ("whole", "-1", "the parameter whole is from 0 to 1,000,000,000,000, not -1"),
        ("whole", "9" * 30, f"the parameter whole is from 0 to 1,000,000,000,000, not {'9' * 30}"),
        ("part", "nan", "the parameter part is from 0 to 1,000,000,000,000, not nan"),
        ("share", "101", "the parameter share is from 1 to 100, not 101"),
        ("share", "0", "the parameter share is from 1 to 100, not 0"),
        ("below", "-4", "the parameter below is from -3 to 1,000,000,000,000, not -4"),
        ("wole", "1", "a has no parameter 'wole'; did you mean whole?"),
    ],
)
def test_wrong_ones_are_told(name: str, value: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        bind(ANALYSIS, {name: value})
    assert str(caught.value) == words


def test_those_of_other_analyses_are_left_out() -> None:
    assert known_to(ANALYSIS, {"whole": 1, "other": 2}) == {"whole": 1}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The rows of the crowd and of every scene, so that every product is computed."""
    rows = crowd()
    for scene in SCENES:
        scene.play(rows, True)
    with Database([rows.write(tmp_path_factory.mktemp("full") / "tables")], wanted=rows.tables) as database:
        yield database


WITH_NUMBERS = [name for name, analysis in BUILT_IN.items() if largest(analysis)]


@pytest.mark.parametrize("name", sampled(WITH_NUMBERS, WITH_NUMBERS[::12]))
def test_whole_numbers_do_not_overflow(name: str, full: Database) -> None:
    """Ten million seconds are more microseconds than 32 bits hold, and what is permitted fits 64."""
    most = largest(BUILT_IN[name])
    full.run(BUILT_IN[name], **{key: min(value, 10**7) for key, value in most.items()})
    full.run(BUILT_IN[name], **most)
