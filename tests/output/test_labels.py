"""Labels made of any name: whole as long as Kafka's names are, else told apart by a digest."""

import json

import pytest

from kproxy.output.labels import LONGEST_NAME, MOST_BYTES, label_of


@pytest.mark.parametrize("kind", ["x", "\u00e9", "\U0001f9ea", '"', "\\", "\0", "\n", "\u202e", "\udcff", "\U000e0001"])
@pytest.mark.parametrize("size", [20, LONGEST_NAME - 1, LONGEST_NAME, 5_000])
def test_names_that_begin_alike_are_series_of_their_own_and_no_label_is_large(kind: str, size: int) -> None:
    names = [kind * size + end for end in ("", "a", "b")]
    labels = [label_of(name) for name in names]
    assert len(set(labels)) == len(names)
    assert all(shown.isprintable() for shown in labels)
    assert max(len(json.dumps(shown, ensure_ascii=False).encode()) for shown in labels) <= MOST_BYTES + len('""')


def test_a_name_as_long_as_kafka_allows_is_a_label_whole() -> None:
    name = "billing.invoices-v2_" * 12 + "123456789"
    assert len(name) == 249 and label_of(name) == name
    assert label_of("a name of two words") == "a name of two words"
