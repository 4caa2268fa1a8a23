"""Expressions of CEL: what they give, and the sentence for each mistake."""

import json
from itertools import islice

import pytest

from kproxy.output.jsonl import exchange_line
from kproxy.protocol.expressions import Expression, Wrong, check_types, located
from kproxy.protocol.vocabulary import VOCABULARY
from tests.support.corpus import golden_exchanges


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
        ("clientId == shop-1", "nothing is called 'shop' (column 13); a text stands in quotes; there are clientId, a"),
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


PYTHON_TYPES = {"number": (int, float), "text": str, "truth": bool, "texts": list, "objects": list, "object": dict}


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('apiKey == "3"', 'apiKey is a number and "3" is a text, which cannot be compared; write 3'),
        ("apiKey in ['3', '4']", "apiKey is a number and '3' is a text, which cannot be compared; write 3"),
        ('"3" == apiKey', "write 3"),
        ('!(apiVersion != "12") || true', "write 12"),
        ('true && latencyMs > "5.5"', "write 5.5"),
        ("clientId == 5", 'clientId is a text and 5 is a number, which cannot be compared; write "5"'),
        ("apiName == true", 'apiName is a text and true is true or false, which cannot be compared; write "true"'),
        ('expectsResponse == "false"', "expectsResponse is true or false and"),
        ('errors.exists(e, e.code == "16")', "code is a number"),
        ('errors.exists(e, e.name == "A" || e.name == 16)', "name is a text and 16"),
        ('apiKey == "three"', "cannot be compared"),
        (
            'topics == "orders"',
            'topics is a list of texts and "orders" is a text, which cannot be compared; write "orders" in topics',
        ),
        ('"NOT_COORDINATOR" in errors', 'write "NOT_COORDINATOR" in errorNames'),
        ("resources.exists(r, r.type == 2)", "type is a text and 2"),
        ("trailing == 3", "name a side, as in trailing.request > 0"),
        ('apiKey == 3 && size(topics) > "x"', 'size(topics) is a number and "x" is a text'),
        ("topics.size() == '3'", "topics.size() is a number and '3' is a text, which cannot be compared; write 3"),
        ("3 in groups", "groups is a text and 3 is a number"),
    ],
)
def test_what_cannot_be_compared(expression: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^where .* cannot be compared") as caught:
        check_types(expression, "where")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("errors", "errors"),
        ("errors && apiKey == 3", "errors"),
        ("apiKey == 3 || !(clientId)", "clientId"),
        ("((topics)) && true", "topics"),
        ("(latencyMs || true) && true", "latencyMs"),
        ("unanswered ? true : false", "unanswered"),
        ("size(topics) == 1 && apiKey", "apiKey"),
    ],
)
def test_what_is_never_true_or_false(expression: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf": {name} is [a-z ]+, not true or false; write "):
        check_types(expression, "where")


@pytest.mark.parametrize(
    "expression",
    [
        "expectsResponse && !(expectsResponse) || (expectsResponse)",
        "size(errors) > 0 && (errors).size() > 0 && !(errors == []) && (errors) != []",
        "topics.exists(errors, errors == clientId) || topics.exists(t, t == (clientId))",
        "(apiKey == 3 ? clientId : client) == broker && (apiKey) + 1 > 3",
        "'a' in topics || topics[0] == clientId && clientId == client",
        "-latencyMs < 0 && [clientId] == topics && has(request.errors) && request.errors",
        "apiKey == 3 && latencyMs > 5 && latencyMs < 0.5e3",
        'clientId == "5" && clientId != null',
        'string(apiKey) == "3"',
        'int(clientId) == 5 || "3" + string(apiKey) == "33"',
        'request.apiKey == "3"',
        'embedded.exists(e, e.code == "16")',
        'apiName == "apiKey == 3" || clientId == "a \\" 3 == apiKey"',
        "apiName.size() == 5 && client[0] == 3",
        'apiName == "a" + "b" && 3 + apiKey == 4',
        'apiKey in [3] && "a" in [clientId]',
        "apiKey + connection == 4",
        '"orders" in topics && groups == ["a"] && topics != []',
        'errors.map(e, e.code).exists(c, c == "x")',
        '(apiKey == 3 ? "a" : "b") == clientId',
        '"AAAAAAAAAAAAAAAAAAAAAQ" in topicNames',
        "request.topics.exists(topic, topic == 3)",
    ],
)
def test_what_may_be_equal(expression: str) -> None:
    check_types(expression, "where")


def test_the_types_are_those_of_the_decoded_log() -> None:
    rows = [json.loads(exchange_line(exchange)) for _, _, exchange in islice(golden_exchanges(), 200)]
    for name, value in (pair for row in rows for pair in row.items() if pair[1] is not None):
        assert isinstance(value, PYTHON_TYPES[VOCABULARY[name].type]), name
