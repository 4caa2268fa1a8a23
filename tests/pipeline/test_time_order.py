"""Sorting what does not fit into memory."""

import random

import pytest

from kproxy.pipeline.time_order import TimeOrder


@pytest.mark.parametrize("run", [1, 500, 5_000, 10_000_000])
def test_items_come_back_by_their_keys_whatever_the_memory(run: int) -> None:
    chance = random.Random(4)
    items = [(chance.randbytes(3), chance.randbytes(chance.randrange(40))) for _ in range(1_000)]
    with TimeOrder(run=run) as order:
        for key, item in items:
            order.add(key, item)
        assert list(order) == [item for _, item in sorted(items, key=lambda pair: pair[0])]


def test_items_larger_than_a_block_survive() -> None:
    large = [bytes([at]) * 700_000 for at in range(3)]
    with TimeOrder(run=1) as order:
        for item in reversed(large):
            order.add(item[:1], item)
        assert list(order) == large


def test_nothing_gives_nothing() -> None:
    with TimeOrder() as order:
        assert list(order) == []
