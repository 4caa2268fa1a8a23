"""Values of bounded length."""

import json

from kproxy.filters.bounded_lines import LONGEST_NAME, shortened, that_fit


def test_text_is_cut_and_made_whole() -> None:
    assert shortened("orders") == "orders"
    assert shortened("é" * 5_000) == "é" * LONGEST_NAME
    assert shortened("a\udcffb") == "a\ufffdb"
    assert shortened("\ud83d\ude00") == "\U0001f600"  # two halves are one character
    assert (shortened(None), shortened(7)) == (None, 7)


def test_the_first_values_that_fit() -> None:
    values = ["\x1b" * 10] * 5  # 62 bytes each as JSON
    assert len(that_fit(values, 200)) == 3
    assert that_fit(values, 10) == []
    assert len(json.dumps(that_fit(values, 400)).encode()) <= 400
