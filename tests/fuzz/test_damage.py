"""The damage is real damage, and the same for the same seed."""

import random

from tests.support.corpus import damaged, golden_bodies


def test_damage_is_repeatable_and_mostly_changes_something() -> None:
    data = bytes(range(100))
    first = [damaged(random.Random(seed), data) for seed in range(200)]
    assert first == [damaged(random.Random(seed), data) for seed in range(200)]
    assert sum(other != data for other in first) > 190


def test_nothing_can_be_damaged_too() -> None:
    assert all(isinstance(damaged(random.Random(seed), b""), bytes) for seed in range(50))


def test_the_corpus_has_every_combination() -> None:
    # 722 (API, version, direction) combinations and 96 other messages: tests/golden/README.md.
    names = {(name, version) for name, version, _ in golden_bodies()}
    assert len({pair for pair in names if pair[0].endswith(("Request", "Response"))}) == 722
    assert len({name for name, _ in names}) == 2 * 93 + 96
