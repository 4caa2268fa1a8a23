"""Other protocols are called what they are, or nothing at all, and never Kafka: whole, begun late, and one side of them."""

import random
from collections.abc import Callable

import pytest

from kproxy.session import Event, NotKafka
from tests.support.foreign import PROTOCOLS, Said, segments_of
from tests.support.late_starts import events_of
from tests.support.sampled import sampled

Protocol = Callable[[random.Random], Said]
SEEDS, MANY_SEEDS = range(3), range(3, 60)


def kinds(events: list[Event]) -> set[str]:
    """What a capture of one connection is said to hold; every event must be about that."""
    assert all(isinstance(event, NotKafka) for event in events), events[:3]
    return {event.kind for event in events if isinstance(event, NotKafka)}


def check(protocol: Protocol, seed: int) -> None:
    chance = random.Random(seed)
    whole = segments_of(protocol(chance), chance, syn=True)
    assert kinds(events_of(whole)) <= PROTOCOLS[protocol]
    joined = segments_of(protocol(chance), chance, syn=False)
    allowed = {*PROTOCOLS[protocol], "unknown", "text", "tls"}
    for first in sorted(chance.sample(range(len(joined)), min(len(joined), 6))):
        late = joined[first:]
        assert kinds(events_of(late)) <= allowed
        within = late[0].cut(chance.randrange(len(late[0].tcp.payload)))
        assert kinds(events_of([within, *late[1:]])) <= allowed
        for side in (0, 1):
            # A server that numbers its answers as a broker does, and whose client is not there to tell
            also = {"one-sided"} if protocol.__name__ in ("zookeeper", "rpc") else set()
            assert kinds(events_of([one for one in late if one.tcp.side == side])) <= allowed | also


@pytest.mark.parametrize("seed", sampled(SEEDS, list(SEEDS)[:1]))
@pytest.mark.parametrize("protocol", sampled(PROTOCOLS, [*PROTOCOLS][::3]), ids=lambda protocol: protocol.__name__)
def test_another_protocol_is_never_taken_for_kafka(protocol: Protocol, seed: int) -> None:
    check(protocol, seed)


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_another_protocol_is_never_taken_for_kafka_whatever_the_seed(protocol: Protocol) -> None:
    for seed in MANY_SEEDS:
        check(protocol, seed)
