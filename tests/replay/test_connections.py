"""Connections to the new cluster: one for each recorded one, opened again where one breaks, closed after the last request."""

import asyncio

from kproxy.protocol import ApiKey
from kproxy.replay.plan import make_plan
from kproxy.replay.player import Player
from kproxy.replay.result import Outcome
from tests.support.replayed import RecordedBroker, before, recorded, replayed


def test_a_broker_that_closes_at_a_request_gets_the_others() -> None:
    recording = recorded(1)
    plan, result = replayed(recording, RecordedBroker(recording, close_at=ApiKey.PRODUCE))
    assert result.sent == len(plan.sent)
    [(api, why)] = result.troubles
    assert api == "Produce" and why.endswith("closed the connection")
    assert result.count(Outcome.SAME) == result.sent - 1


def test_each_recorded_connection_is_one() -> None:
    recording = recorded(1)
    plan, result = replayed(recording, RecordedBroker(recording))
    assert result.connections == len({one.connection for one in plan.sent})


def test_no_task_and_no_link_is_left() -> None:
    recording = recorded(1)

    async def work() -> set[str]:
        async with before(RecordedBroker(recording)) as cluster:
            own = asyncio.all_tasks()
            await Player(make_plan(recording, cluster)).play()
            await asyncio.sleep(0)  # until what was cancelled has ended
            # the broker's side of each connection ends by itself
            return {
                str(task) for task in asyncio.all_tasks() - own if "replay/link" in str(task) or "answer" in str(task)
            }

    assert asyncio.run(asyncio.wait_for(work(), 60)) == set()
