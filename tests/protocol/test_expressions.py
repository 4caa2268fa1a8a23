"""Expressions of CEL: what they give, and the sentence for each mistake."""

import pytest

from kproxy.protocol.expressions import Expression, Wrong, located


def test_a_value() -> None:
    expression = Expression('topics.exists(t, t.startsWith("a")) && clientId == "x"', ["topics", "clientId"], "when")
    assert expression.names == ["clientId", "topics"]
    assert expression.evaluate({"topics": ["b", "ab"], "clientId": "x"}) is True
    assert expression.evaluate({"topics": ["b"], "clientId": "x"}) is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (" ", "when is empty"),
        ("a ==", "is wrong at column 5: it ends too early"),
        ("a = 1", "is wrong at column 3: write == for ="),
        ("a <> 1", "write != for <>"),
        ("a == 1 and a == 2", "write && for and"),
        ("a == 1 OR a == 2", "write || for OR"),
        ("a == 1 || not a", "write ! for not"),
        ("clientId =~ 'x'", "write matches(text, pattern) for =~"),
        ("clientId == 'x", "is wrong at column 13: the text that begins with ' has no end"),
        (
            "a == 9223372036854775808",
            "column 6: 9223372036854775808 is beyond integers of 64 bits, which end at 9223372036854775807",
        ),
        ("a == 1 )", "is wrong at column 8: ) cannot be here"),
        ("clientid == 'x'", "nothing is called 'clientid' (column 1); did you mean clientId?"),
        (
            "clientId == shop-1",
            "nothing is called 'shop' (column 13); a text stands in quotes; kproxy help conditions lists ",
        ),
        ("a == 1 && (clientId == client)", "(column 24); a text stands in quotes; did you mean clientId?"),
        ("'client' == a || x.client == client", "nothing is called 'client' (column 30); a text stands in quotes; "),
        ("clientIds == 'x'", "nothing is called 'clientIds' (column 1); did you mean clientId?"),
        (
            "size(clientId) == 1 && clientId.startWith('x')",
            "there is no function 'startWith' in CEL; did you mean startsWith?",
        ),
    ],
)
def test_mistakes(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        Expression(text, ["clientId", "a"], "when")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a = 1", Wrong("write == for =", 3, 1)),
        ("a == 1 && clientid == 'x'", Wrong("nothing is called 'clientid'; did you mean clientId?", 11, 8)),
        ("clientId.startWith('x')", Wrong("there is no function 'startWith' in CEL; did you mean startsWith?", 10, 9)),
        ("a ==", Wrong("it ends too early", 5, 1)),
        ("", Wrong("is empty; give a condition, for instance 'apiKey == 3'", None, None)),
    ],
)
def test_what_is_wrong_is_said_without_the_text_and_with_its_place(text: str, wrong: Wrong) -> None:
    with pytest.raises(ValueError) as caught:
        Expression(text, ["clientId", "a"], "condition")
    assert located(str(caught.value), text, "condition") == wrong
