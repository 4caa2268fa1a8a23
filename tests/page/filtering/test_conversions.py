"""Conversions as SQL give what CEL gives, also at the edges of types."""

import pytest

from kproxy.page.filtering.conversions import converted
from kproxy.page.filtering.values import Value, of_literal
from tests.page.filtering.judged import Judge


@pytest.mark.parametrize(
    "condition",
    [
        "string(1e22) == '10000000000000000000000' && string(1.2345e-5) == '0.000012345'",
        "string(-0.0) == '-0' && string(3.0) == '3' && string(0.0 / -0.0) == 'NaN'",
        "string(latencyMs).startsWith('1') || string(latencyMs).endsWith('5')",
        "size(string(latencyMs)) > 8",
        "size(string(latencyMs * 1e300 * 1e300)) == 3",
        "string(latencyMs / latencyMs) == 'NaN'",
        "uint(requestSize) > 7u",
        "uint(latencyMs) % 2u == 1u",
        "string(uint(requestSize)) == '512'",
        "int(uint(requestSize) + 9223372036854775807u) > 0",
        "double(uint(requestSize)) > 5.0",
        "int(latencyMs * 1000.0) % 7 == 3",
        "int(clientId) > 5 || clientId == null",
        "string(timestamp(requestAt)).contains('.123')",
        "string(timestamp(requestAt)) == '2025-11-21T10:05:07.500+00:00'",
        "size(string(timestamp(responseAt))) == 25",
        "dyn(requestSize) == null || dyn(requestSize) > 5",
        "int(expectsResponse) == 1",
        "string(expectsResponse) == 'true'",
        "double(timestamp(requestAt)) > 1.0",
    ],
)
def test_conversions(judge: Judge, condition: str) -> None:
    assert list(judge.differences(condition)) == []


def test_what_is_converted_otherwise() -> None:
    assert converted("bytes", of_literal("a")) is None
    assert converted("double", of_literal("1.5")) is None
    assert converted("timestamp", of_literal("yesterday")) is None
    assert converted("string", Value("1", "span")) is None
    assert converted("string", Value("x" * 500, "number")) is None, "what is long would be written many times"
