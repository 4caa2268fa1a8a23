"""Operations as SQL: null and an error apart where CEL tells them apart, together where it does not."""

import pytest

from kproxy.page.filtering.operations import are_equal, distinct, known, whole
from kproxy.page.filtering.sql import condition_sql
from kproxy.page.filtering.syntax import Unknown
from kproxy.page.filtering.values import Value, of_literal
from tests.page.filtering.judged import Judge


@pytest.mark.parametrize(
    "condition",
    [
        "(responseSize == null ? 0 : responseSize) + requestSize > 500",
        "(unanswered != null ? unanswered : 'ok') == 'ok'",
        "(latencyMs > 1.0 ? requestSize : responseSize) > 100",
        "(apiKey > 1 ? clientId : null).startsWith('c')",
        "(apiKey == 1 ? clientId : null) == null",
        "int(clientId.matches('7') ? correlationId : 0) > 3",
        "timestamp(requestAt) + duration('1s') < timestamp(responseAt)",
        "timestamp(requestAt) - duration('1h30m') <= timestamp('2025-11-21T10:05:07.5Z')",
        "(timestamp(responseAt) - timestamp(requestAt)).getSeconds() > 0",
        "timestamp(requestAt).getSeconds() == 7 && timestamp(requestAt).getMilliseconds() == 123",
        "latencyMs + 1 > 5",
        "requestSize * 1.0 > 5.0 || requestSize > 100",
        "uint(requestSize) * 18446744073709551615u > 0u",
        "correlationId > 7u || correlationId == 18446744073709551615u",
        "-clientId == 'a' || !requestSize",
        "correlationId / 7 * 7 == correlationId && correlationId % -1 == 0",
    ],
)
def test_operations(judge: Judge, condition: str) -> None:
    assert list(judge.differences(condition)) == []


def test_where_null_and_an_error_must_be_told_apart() -> None:
    both = Value("x", "integer", nullable=True, fails=True)
    for refused in (lambda: are_equal(both, of_literal(1)), lambda: distinct(both), lambda: known(None)):
        with pytest.raises(Unknown):
            refused()
    with pytest.raises(Unknown):
        whole([Value("x", "integer", fails=True)], Value("y", "integer", nullable=True))
    assert condition_sql("(latencyMs > 1.0 ? requestSize : responseSize) == null") is None
