"""Which exchanges the live page gets whatever else is left out, and how many of them."""

import pytest

from kproxy.protocol import message
from kproxy.proxy.analyzer.rare_exchanges import AT_ONCE, PER_SECOND, RareExchanges, is_rare
from kproxy.session import Exchange
from tests.output.rewriting.test_rewriter import conversation
from tests.support.filtering import make, request_frame, response_frame
from tests.support.traffic import golden_exchanges


def heartbeat(asked: dict[str, object], answered: dict[str, object]) -> Exchange:
    """ConsumerGroupHeartbeat v0."""
    body = message("ConsumerGroupHeartbeatResponse").encode(0, make("ConsumerGroupHeartbeatResponse", **answered))
    frame = request_frame("ConsumerGroupHeartbeatRequest", 0, make("ConsumerGroupHeartbeatRequest", **asked))
    return conversation(frame, response_frame(68, 0, body))


def test_steps_of_groups_and_transactions_are_rare_and_fetches_are_not() -> None:
    """By the keys of Kafka's message definitions, in exchanges of which all fields are filled."""
    rare = {exchange.api_key: is_rare(exchange) for _, _, exchange in golden_exchanges()}
    assert {11, 13, 14, 22, 24, 25, 26, 28} <= {key for key, one in rare.items() if one}
    assert not any(rare[key] for key in (0, 1, 3, 8, 12))


@pytest.mark.parametrize(
    ("asked", "answered", "rare"),
    [
        ({"member_epoch": 0, "topic_partitions": []}, {"member_epoch": 1}, True),
        ({"member_epoch": -1}, {"member_epoch": -1}, True),
        ({"member_epoch": 7}, {"member_epoch": 7}, False),
        ({"member_epoch": 7}, {"member_epoch": 8}, True),
        ({"member_epoch": 7, "topic_partitions": []}, {"member_epoch": 7}, True),
    ],
    ids=["joins", "leaves", "is there", "another epoch", "says what it has"],
)
def test_a_heartbeat_of_kip_848_is_rare_where_it_changes_the_group(
    asked: dict[str, object], answered: dict[str, object], rare: bool
) -> None:
    assert is_rare(heartbeat(asked, answered)) is rare


def test_a_storm_of_them_is_bounded() -> None:
    now = 0.0
    rare = RareExchanges(lambda: now)
    assert sum(rare.may_go() for _ in range(10_000)) == AT_ONCE
    now += 2.0
    assert sum(rare.may_go() for _ in range(10_000)) == 2 * PER_SECOND
