"""What filters do to messages is in the tap, with the exchange that it happened to: real filters, a real link, a real ring."""

import asyncio
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Close, Filter, Forward, Replace, Reply, Request, Response, Silence
from kproxy.session import Exchange
from tests.proxy.forwarding.test_phases import Analyzed, Described
from tests.support.frames import frame, heartbeat, heartbeat_answer
from tests.support.links import Bench, Judge, Limits

REBALANCE_IN_PROGRESS = 27


class Obeys(Filter):
    """Does to a Heartbeat what its group is called, at once or later; takes errors out of responses."""

    requests = responses = (12,)

    def __init__(self, later: bool) -> None:
        self._later = later

    def on_request(self, request: Request) -> Any:
        message: Any = request.message
        if message.group_id == "changed":
            message.member_id = "another"
        verdicts = {
            "passed": Forward(),
            "answered": Reply(request.new_response()),
            "dropped": Silence(),
            "closed": Close(""),
        }
        return self._given(verdicts.get(message.group_id, Replace(message)))

    def on_response(self, response: Response) -> Any:
        message: Any = response.message
        message.error_code = 0
        return self._given(Replace(message))

    def _given(self, verdict: Any) -> Any:
        async def come() -> Any:
            await asyncio.sleep(0)
            return verdict

        return come() if self._later else verdict


class Renames(Filter):
    requests = (12,)

    def on_request(self, request: Request) -> Any:
        message: Any = request.message
        if message.group_id != "changed":
            return Forward()
        message.member_id = "one more"
        return Replace(message)


class Waits(Filter):
    requests = (12,)

    async def on_request(self, request: Request) -> Any:
        await asyncio.Event().wait()


class Tapped(Judge):
    describe = Described.describe


@pytest.mark.parametrize("snaplen", [0, 20])
@pytest.mark.parametrize("later", [False, True])
async def test_the_exchange_says_what_each_filter_did(later: bool, snaplen: int) -> None:
    tap = Analyzed()
    chain = Chain([Obeys(later)], wait=asyncio.wait_for)
    bench = Bench(Tapped(chain), chain, tap=tap.writer, snaplen=snaplen)
    groups = ["passed", "changed", "equal", "answered", "changed"]
    sent = [heartbeat(number, group) for number, group in enumerate(groups)]
    await bench.send(bench.client, b"".join(sent))  # one chunk
    changed = len(sent[1]) + len("another") - len("m-1")
    await bench.receive(bench.broker, len(sent[0]) + len(sent[2]) + 2 * changed)
    errors = {0: 0, 1: 0, 2: REBALANCE_IN_PROGRESS, 4: REBALANCE_IN_PROGRESS}
    await bench.send(bench.broker, b"".join(heartbeat_answer(number, error) for number, error in errors.items()))
    await bench.receive(bench.client, len(groups) * len(heartbeat_answer(0)))
    await bench.send(bench.client, heartbeat(5, "dropped"))
    await bench.settled()
    bench.link.close(0)
    exchanges = tap.all()
    assert [exchange.edited for exchange in exchanges] == [
        [],
        ["request changed by Obeys"],
        ["response changed by Obeys"],
        ["answered by Obeys"],
        ["request changed by Obeys", "response changed by Obeys"],
        ["request dropped by Obeys"],
    ]
    for number, exchange in enumerate(
        exchanges[:5]
    ):  # as they were received, and as if nothing had been decided about them
        assert exchange.request is not None and exchange.response is not None
        assert exchange.request.wire_size == len(sent[number])
        assert exchange.request.data == sent[number][4 : snaplen or None]
        assert exchange.latency_ms is not None
    assert bench.worker.tapping is not None and bench.worker.tapping.faults == 0
    assert tap.writer.reserved_bytes == 0


async def test_a_request_that_waits_for_a_verdict_is_whole_when_its_client_has_left() -> None:
    tap = Analyzed()
    chain = Chain([Waits()])
    bench = Bench(Tapped(chain), chain, tap=tap.writer)
    await bench.send(bench.client, heartbeat(1, "changed"))
    await bench.settled()
    bench.link.close(0)
    (exchange,) = tap.all()
    assert isinstance(exchange, Exchange) and exchange.request is not None
    assert (exchange.request.data, exchange.request.cut) == (heartbeat(1, "changed")[4:], 0)
    assert tap.writer.reserved_bytes == 0


async def test_an_error_in_place_of_a_response_that_is_too_large_to_hold_is_marked() -> None:
    tap = Analyzed()
    chain = Chain([Obeys(later=False)], held_frame_size=100)
    bench = Bench(Tapped(chain), chain, Limits(held_frame_size=100), tap=tap.writer)
    await bench.send(bench.client, heartbeat(1, "passed"))
    await bench.settled()
    await bench.send(bench.broker, frame(bytes([0, 0, 0, 1]) + bytes(1_000)))
    assert await bench.rest(bench.client)
    await bench.settled()
    (exchange,) = tap.all()
    assert exchange.edited == ["response changed by Obeys"]


async def test_a_full_ring_has_all_that_two_filters_did_to_a_message_or_nothing_of_it() -> None:
    seen = set()
    for filling in range(59_500, 60_500, 20):
        tap = Analyzed(size=65_536)
        chain = Chain([Obeys(later=False), Renames()])
        bench = Bench(Tapped(chain), chain, tap=tap.writer)
        whole, rest = divmod(filling, 1_000)
        await bench.send(bench.client, b"".join(heartbeat(0, "." * size) for size in [*[1_000] * whole, rest]))
        await bench.settled()
        await bench.send(bench.client, heartbeat(1, "changed"))
        await bench.settled()
        bench.link.close(0)
        seen.add(tuple(tap.all()[-1].edited))
        bench.close()
    assert seen == {("request changed by Obeys", "request changed by Renames"), ()}
