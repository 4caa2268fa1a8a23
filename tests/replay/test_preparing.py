"""What is learned and asked for before the first request; topics are created by a real broker in tests/interop."""

import asyncio

import pytest

from kproxy.errors import UpstreamError
from kproxy.replay.identities import Identities
from kproxy.replay.plan import make_plan
from kproxy.replay.preparing import learn_topic_ids, prepare
from tests.support.replayed import RecordedBroker, before, recorded


def test_topics_of_the_same_name_are_the_same() -> None:
    async def work() -> None:
        recording = recorded(1)
        async with before(RecordedBroker(recording)) as cluster:
            identities = Identities()
            learn_topic_ids(make_plan(recording, cluster), identities)
            [topic_id] = recording.names
            assert identities.uuids == {topic_id: topic_id}  # the broker has the recorded one

    asyncio.run(work())


def test_a_broker_that_gives_no_producer_id() -> None:
    async def work() -> None:
        recording = recorded(1)
        async with before(RecordedBroker(recording)) as cluster:
            cluster.patience = 0.5
            plan = make_plan(recorded(1, where='apiName == "Produce"'), cluster)
            with pytest.raises(UpstreamError, match="before the first request: "):
                await prepare(plan, Identities())

    asyncio.run(work())
