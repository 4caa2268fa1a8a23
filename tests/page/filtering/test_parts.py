"""Conditions taken apart: at the connectives that are at their top, and nowhere else."""

from typing import Any

import cel
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.page.exporting import Selection
from kproxy.page.filtering.filter import Filter, FilterError
from kproxy.page.filtering.parts import Part, as_cel, conjuncts, leaves, searched_texts, take_apart, tokens_of
from kproxy.page.recorded import Recorded
from kproxy.page.work import Work


def shown(part: Part) -> Any:
    return (part.joint, *map(shown, part.parts)) if part.joint else part.text


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
    if not part.joint:
        try:
            value = cel.compile(part.text).execute(values)
        except (TypeError, LookupError, RuntimeError, ValueError):
            return None
        return value if isinstance(value, bool) else None
    found = [truth(one, values) for one in part.parts]
    if part.joint == "!":
        return None if found[0] is None else not found[0]
    decisive = part.joint == "||"
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


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a&&!b // what\n||c", ["a", "&&", "!", "b", "||", "c"]),
        (r"r'\' + '\''", [r"r'\'", "+", r"'\''"]),
        ("'''it's''' + \"\"\"a\"b\"\"\"", ["'''it's'''", "+", '"""a"b"""']),
        ("'//' == x", ["'//'", "==", "x"]),
        (".5+1e3-0x1Fu", [".5", "+", "1e3", "-", "0x1Fu"]),
        ("a[0].b", ["a", "[", "0", "]", ".", "b"]),
        ("'open", ["'", "open"]),
    ],
)
def test_tokens(condition: str, expected: list[str]) -> None:
    tokens = tokens_of(condition)
    assert [token.text for token in tokens] == expected
    assert all(condition[token.at :].startswith(token.text) for token in tokens)


def holding(store: Recorded, text: str) -> list[int]:
    """The numbers of the exchanges that have a text, by their rows as the page shows them."""
    names = ["apiName", "clientId", "client", "broker", "topics", "groups", "errorCodes", "principal"]
    names += ["unanswered", "undecoded"]
    rows = store.page(Work(), limit=500, columns=names).rows
    return [at for at, row in enumerate(rows, 1) if text.lower() in msgspec.json.encode(row).decode().lower()]


def test_text_finds_what_holds_it(store: Recorded) -> None:
    for text in ("group", "heartbeat", "MEMBER_ID_REQUIRED", "127.0.0.1", "rebalance", "t-range", "consumer-1", "none"):
        index = store.selected(Work(), text)
        assert index is not None and index.numbers.to_pylist() == holding(store, text), text


def test_text_is_joined_to_conditions_and_to_other_text(store: Recorded) -> None:
    for condition, expected in (
        ("heartbeat && latencyMs > 1", 'apiName == "Heartbeat" && latencyMs > 1'),
        ("latencyMs > 1 && heartbeat", 'apiName == "Heartbeat" && latencyMs > 1'),
        ("heartbeat 127.0.0.1", 'apiName == "Heartbeat"'),
        ('"Heartbeat" && (apiKey == 12 || apiKey == 1)', "apiKey == 12"),
    ):
        found, wanted = (store.selected(Work(), one) for one in (condition, expected))
        assert found is not None and wanted is not None
        assert found.numbers.to_pylist() == wanted.numbers.to_pylist() != []


def test_what_is_text() -> None:
    cases = {
        condition: []
        for condition in ("expectsResponse", 'apiName = "Fetch"', "orders || apiKey == 1", "true", "", "5")
    }
    cases |= {"orders": ["orders"], "client-a b": ["client-a", "b"], "latencyMss": ["latencyMss"]}
    for condition, texts in (cases | {'"a b" && apiKey == 1': ["a b"]}).items():
        assert searched_texts(condition) == texts
        assert (as_cel(condition) == condition) == (not texts)


def test_a_mistake_in_cel_stays_one() -> None:
    with pytest.raises(FilterError) as raised:
        Filter('apiName = "Fetch"')
    assert raised.value.column is not None


def test_commands_have_the_text_as_cel(store: Recorded) -> None:
    assert "clientId.matches" in Selection(store, "orders").command("jsonl")
