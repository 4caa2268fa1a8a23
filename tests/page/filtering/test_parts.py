"""Conditions taken apart: at the connectives that are at their top, and nowhere else."""

from typing import Any

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.page.filtering.parts import Either, Every, Leaf, Not, Part, conjuncts, leaves, take_apart
from kproxy.page.filtering.tokens import tokens_of


def shown(part: Part) -> Any:
    if isinstance(part, Leaf):
        return part.text
    if isinstance(part, Not):
        return ("!", shown(part.part))
    return ("&&" if isinstance(part, Every) else "||", *map(shown, part.parts))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a", "a"),
        ("a && b || c", ("||", ("&&", "a", "b"), "c")),
        ("a && (b || c)", ("&&", "a", ("||", "b", "c"))),
        ("!a", "!a"),
        ("!(a && b)", ("!", ("&&", "a", "b"))),
        ("!!(a || b)", ("||", "a", "b")),
        ("!(a) == b", "!(a) == b"),
        ("(a) == (b)", "(a) == (b)"),
        ("((a))", "a"),
        ("a ? b : c && d", "a ? b : c && d"),
        ("(a ? b : c) && d", ("&&", "a ? b : c", "d")),
        ('x == "a && b" && y', ("&&", 'x == "a && b"', "y")),
        ("x == 'it\\'s || so' || y", ("||", "x == 'it\\'s || so'", "y")),
        ('x == """a " && b""" || y', ("||", 'x == """a " && b"""', "y")),
        ("l.exists(e, e && f) && y", ("&&", "l.exists(e, e && f)", "y")),
        ("a // && b\n && c", ("&&", "a", "c")),
        ("  a  &&  b  ", ("&&", "a", "b")),
        ("{'a && b': c}['x'] && d", ("&&", "{'a && b': c}['x']", "d")),
    ],
)
def test_where_it_is_taken_apart(condition: str, expected: Any) -> None:
    assert shown(take_apart(condition)) == expected


def test_leaves_and_conjuncts() -> None:
    part = take_apart("a && (b || !(c)) && (d && e)")
    assert [leaf.text for leaf in leaves(part)] == ["a", "b", "c", "d", "e"]
    assert [one.text for one in conjuncts(part)] == ["a", "b || !(c)", "d", "e"]


def truth(part: Part, values: dict[str, Any]) -> bool | None:
    """What SQL makes of a condition whose leaves CEL has answered; None for an error."""
    if isinstance(part, Leaf):
        try:
            value = cel.compile(part.text).execute(values)
        except (TypeError, LookupError, RuntimeError, ValueError):
            return None
        return value if isinstance(value, bool) else None
    if isinstance(part, Not):
        inner = truth(part.part, values)
        return None if inner is None else not inner
    found = [truth(one, values) for one in part.parts]
    decisive = isinstance(part, Either)
    return decisive if decisive in found else None if None in found else not decisive


CONDITIONS = st.recursive(
    st.sampled_from(["a", "b", "c == 1", "c > 1", "true", "false", "!a", "c", "a == b", '"&&" == d', "size(d) > 2"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" && ", "||"]), inner).map("".join),
        inner.map(lambda one: f"({one})"),
        inner.map(lambda one: f"!({one})"),
        st.tuples(inner, inner, inner).map(lambda three: f"(({three[0]}) ? {three[1]} : {three[2]})"),
    ),
    max_leaves=8,
)
VALUES = st.fixed_dictionaries(
    {
        "a": st.sampled_from([True, False, None]),
        "b": st.booleans(),
        "c": st.sampled_from([1, 2, 2.5, None]),
        "d": st.sampled_from(["&&", "", None]),
    }
)


@given(CONDITIONS, VALUES)
def test_the_parts_together_are_true_where_the_whole_is(condition: str, values: dict[str, Any]) -> None:
    try:
        whole = cel.compile(condition).execute(values)
    except (TypeError, LookupError, RuntimeError, ValueError):
        whole = None
    part = take_apart(condition)
    assert (truth(part, values) is True) == (whole is True), shown(part)
    assert "".join(token.text for token in tokens_of(condition)) == condition.replace(" ", "")
