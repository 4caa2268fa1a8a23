"""Lists as SQL: items in their order, the first that decides, errors before it."""

import pytest

from kproxy.page.filtering.lists import Listed, among, kept_texts, quantified_texts, same, size
from kproxy.page.filtering.sql import condition_sql
from kproxy.page.filtering.values import Value, of_literal
from tests.page.filtering.judged import Judge


@pytest.mark.parametrize(
    "condition",
    [
        *(
            f"[requestSize, correlationId].{macro}(n, n % 100 == 7)"
            for macro in ("exists", "all", "exists_one", "existsOne")
        ),
        *(f"[requestSize, 1, correlationId].{macro}(n, 12 / n > 1)" for macro in ("exists", "all", "exists_one")),
        *(f"[7 / requestSize, 1].{macro}(n, n == 1)" for macro in ("exists", "all", "exists_one")),
        *(f"[].{macro}(n, n == 1)" for macro in ("exists", "all", "exists_one")),
        "[clientId, client, null].exists(x, x == null)",
        "[clientId, principal].exists(x, x != null && x.startsWith('c'))",
        "['a', 'c'].exists(p, clientId.startsWith(p)) || ['^c', '1$'].all(p, clientId.matches(p))",
        "[requestSize, responseSize].exists(n, [2, 3].exists(m, n % m == 0))",
        "[requestSize, responseSize].map(n, n * 2).exists(n, n > 1000)",
        "[1, 2].map(n, requestSize / n) == [requestSize, requestSize / 2]",
        "size([requestSize, responseSize, 3].filter(n, n % 2 == 1)) == 2",
        "size([requestSize, 1 / requestSize]) == 2",
        "[requestSize, 1].size() == 2",
        "correlationId in [requestSize, 7u, 512.0, null, 1]",
        "correlationId in [1 / requestSize, correlationId]",
        "[correlationId] == [requestSize] || [correlationId] != [null]",
        "[correlationId, requestSize][1] == 512 || [7 / apiKey, 2][1] == 2",
        "[requestAt, responseAt].exists(t, timestamp(t).getMinutes() == 5)",
        "[requestAt, responseAt].all(t, t > '2025')",
        *(f"topics.{macro}(t, t == clientId || latencyMs > 5.0)" for macro in ("exists", "all")),
        *(f"topics.{macro}(t, t in groups)" for macro in ("exists", "all")),
        "topics.filter(t, t.contains('c')).size() > 1",
        "(topics + groups).exists(t, t.endsWith('7'))",
        "size(topics + groups) > 2",
    ],
)
def test_lists(judge: Judge, condition: str) -> None:
    assert list(judge.differences(condition)) == []


def test_what_is_a_list_of_another_kind() -> None:
    one, text, failing = of_literal(1), Value("t", "texts"), Value("c", "truth", fails=True)
    filtered = Listed((one,), (of_literal(True),))
    assert among(one, filtered) is None
    assert same(filtered, Listed((one,))) is None
    assert size(filtered).sql == "(CAST(true AS BIGINT))"
    assert kept_texts(text, "v", failing) is None
    assert quantified_texts("exists_one", text, "v", failing) is None


def test_one_macro_in_another_does_not_grow_without_end() -> None:
    nested = "true"
    for depth in range(8):
        nested = f"[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(i{depth}, {nested})"
    assert condition_sql(nested) is None
