"""The tables of a lane, against the chain and the facts that they are made of."""

import random

import pytest

from kproxy.filters.addresses import responses_with_addresses, tail_start
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Direction, Filter, Want
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import facts, message
from kproxy.proxy.forwarding.plan import Plan, stop_of

SIDES = {0: Direction.REQUEST, 1: Direction.RESPONSE}
ABOVE = 31  # a version that no API has


class Sees(Filter):
    requests = frozenset({0, 3, 36})
    responses = frozenset({1, 3})


class MustSee(Sees):
    required = True


CHAINS = {
    "none": Chain(()),
    "addresses": Chain([RewriteAddresses()]),
    "observer": Chain([Sees()]),
    "required": Chain([MustSee(), RewriteAddresses()]),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_every_api_at_every_version_is_treated_as_the_chain_says(chain: Chain) -> None:
    plan = Plan(chain)
    for side, direction in SIDES.items():
        for key, api in facts().apis.items():
            for version in message(f"{api.name}Request").versions:
                assert plan.wanted(side, key, version) is chain.wanted(direction, key, version), (key, version)
            assert plan.wanted(side, key, ABOVE) is chain.unknown(direction, key)
            assert plan.wanted(side, key, -1) is chain.unknown(direction, key)


def test_some_are_held_and_some_refused() -> None:
    plan = Plan(CHAINS["required"])
    assert plan.wanted(1, 3, 12) is Want.HOLD
    assert plan.wanted(1, 1, 17) is Want.HOLD
    assert plan.wanted(0, 3, ABOVE) is Want.REFUSE
    assert plan.wanted(1, 18, ABOVE) is Want.HOLD  # what it offers could not be narrowed


def test_keys_that_nobody_knows_pass_in_every_plan() -> None:
    chance = random.Random(1)
    for chain in CHAINS.values():
        plan = Plan(chain)
        for key in (-32_768, -1, 127, 128, 129, 32_767, *(chance.randrange(200, 32_767) for _ in range(100))):
            assert plan.wanted(0, key, 0) is Want.PASS
            assert plan.wanted(1, key, 0) is Want.PASS


def test_the_end_of_a_response_is_looked_at_where_the_addresses_are() -> None:
    plan = Plan(CHAINS["addresses"])
    for key, api in facts().apis.items():
        for version in message(f"{api.name}Response").versions:
            expected = None
            if responses_with_addresses().get((key, version)) is Want.TAIL:
                expected = stop_of(message(f"{api.name}Response").programs(version)[0], tail_start(key, version))
            assert plan.tail_step(key, version) == expected, (api.name, version)
    assert Plan().tail_step(1, 16) is None


@pytest.mark.parametrize(("tapped", "snaplen", "selective"), [(None, 0, False), ({3}, 0, True), (None, 64, True)])
def test_what_the_tap_gets(tapped: set[int] | None, snaplen: int, selective: bool) -> None:
    plan = Plan(None, tapped, snaplen)
    assert (plan.selective, plan.snaplen) == (selective, snaplen)
    for key in facts().apis:
        assert plan.is_tapped(key, 0) is (tapped is None or key in tapped)
        assert plan.is_tapped(key, ABOVE) is (tapped is None or key in tapped)
    assert plan.is_tapped(30_000, 0) is (tapped is None)
