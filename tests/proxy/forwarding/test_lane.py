"""Bytes out are bytes in, however they are cut; frames that are held, refused, or no frames at all."""

import asyncio
import contextlib
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from kproxy.filters.contract import Want
from kproxy.protocol import Direction, facts, message
from kproxy.proxy.forwarding.lane import TRANSITIONS, LaneState
from kproxy.proxy.tap.counted import CloseCause
from tests.proxy.forwarding.test_responses import big_response
from tests.support.links import (
    Bench,
    Limits,
    Owner,
    Turns,
    Wanting,
    close_all,
    links_beside,
    request,
    response,
    run,
    take,
)
from tests.support.messages import make, response_frame

FRAMES = 20_000


def random_frames(seed: int, count: int) -> tuple[list[bytes], list[bytes]]:
    """Requests of known and unknown APIs with nonsense for bodies, none of which goes unanswered, and their responses."""
    chance = random.Random(seed)
    known = [key for key in facts().apis if key not in (0, 17)]
    requests, responses = [], []
    for number in range(count):
        key = chance.choice(known) if chance.random() < 0.9 else chance.randrange(100, 32_000)
        body = chance.randbytes(int(chance.expovariate(1 / 200)) if chance.random() < 0.999 else 300_000)
        requests.append(request(key, chance.randrange(20), number, body))
        responses.append(response(number, chance.randbytes(int(chance.expovariate(1 / 300)))))
    return requests, responses


async def send_in_pieces(bench: Bench, end, data: bytes, seed: int, largest: int) -> None:
    chance = random.Random(seed)
    at = 0
    while at < len(data):
        size = chance.choice((1, 2, 3, 5, 7, 11, 13, 100, 1_000, largest)) if largest > 1 else 1
        await bench.send(end, data[at : at + size])
        at += size


@pytest.mark.parametrize(("seed", "largest", "count"), [(1, 70_000, FRAMES), (2, 65_536, FRAMES), (3, 1, 60)])
async def test_bytes_out_are_bytes_in_both_ways(seed, largest, count):
    requests, responses = random_frames(seed, count)
    sent, answered = b"".join(requests), b"".join(responses)
    bench = Bench(limits=Limits(in_flight=1 << 20))
    asking = asyncio.ensure_future(send_in_pieces(bench, bench.client, sent, seed, largest))
    assert await bench.receive(bench.broker, len(sent)) == sent
    await asking
    answering = asyncio.ensure_future(send_in_pieces(bench, bench.broker, answered, seed + 1, largest))
    assert await bench.receive(bench.client, len(answered)) == answered
    await answering
    assert bench.link.frames_received == (count, count)
    assert bench.link.in_flight_count == 0
    assert bench.owner.told == []
    counted = bench.counters.apis()
    assert sum(api.requests for api in counted) == sum(api.responses for api in counted) == count


async def test_a_client_that_sends_while_it_is_answered_gets_every_byte():
    requests, responses = random_frames(4, 5_000)
    bench = Bench()

    async def play_broker() -> None:
        for asked, answer in zip(requests, responses, strict=True):
            assert await bench.receive(bench.broker, len(asked)) == asked
            await bench.send(bench.broker, answer)

    playing = asyncio.ensure_future(play_broker())
    asking = asyncio.ensure_future(send_in_pieces(bench, bench.client, b"".join(requests), 5, 4_000))
    answered = b"".join(responses)
    assert await bench.receive(bench.client, len(answered)) == answered
    await asyncio.gather(playing, asking)


async def test_half_close_gives_every_answer_that_is_in_flight():
    bench = Bench()
    sent = b"".join(request(3, 1, n) for n in range(50))
    await bench.send(bench.client, sent)
    bench.client.shutdown(1)
    assert await bench.rest(bench.broker) == sent  # and its end
    answered = b"".join(response(n, b"x" * 1_000) for n in range(50))
    await bench.send(bench.broker, answered)
    assert await bench.rest(bench.client) == answered
    await bench.owner.closed.wait()
    assert bench.owner.cause is CloseCause.CLIENT_CLOSED


async def test_what_a_client_sends_to_a_broker_that_is_done_still_goes_there():
    bench = Bench()
    bench.broker.shutdown(1)
    assert await bench.rest(bench.client) == b""
    await bench.send(bench.client, request(3, 1, 1))
    assert await bench.receive(bench.broker, len(request(3, 1, 1))) == request(3, 1, 1)
    bench.client.shutdown(1)
    assert await bench.rest(bench.broker) == b""
    await bench.owner.closed.wait()
    assert bench.owner.cause is CloseCause.BROKER_CLOSED


async def test_the_broker_hears_all_of_a_client_that_is_gone():
    bench = Bench()
    produce = message("ProduceRequest")
    wish = produce.from_json(3, '{"transactionalId": null, "acks": 0, "timeoutMs": 1, "topicData": []}')
    sent = b"".join(request(0, 3, n, produce.encode(3, wish)) for n in range(2_000))
    await bench.send(bench.client, sent)
    bench.client.close()
    assert await bench.rest(bench.broker) == sent
    await bench.owner.closed.wait()


async def test_attack_10_a_response_before_any_request_passes():
    bench = Bench()
    await bench.send(bench.broker, response(5, b"early"))
    assert await bench.receive(bench.client, 13) == response(5, b"early")
    assert ("mispaired",) in bench.owner.told


async def test_a_policy_closes_a_connection_whose_frames_are_lost():
    bench = Bench(Owner(strict=True))
    await bench.send(bench.broker, response(5, b"early"))
    assert await bench.rest(bench.client) == b""
    assert bench.owner.cause is CloseCause.BAD_FRAME


async def test_a_held_frame_goes_nowhere_before_it_is_judged_and_the_next_ones_wait():
    waiting = []
    owner = Owner(judge_request=lambda link, frame: bool(waiting.append(frame)))
    bench = Bench(owner, Wanting(3, Direction.REQUEST))
    first, held, last = request(18, 0, 1), request(3, 1, 2, b"body"), request(12, 0, 3)
    await bench.send(bench.client, first + held + last)
    assert await bench.receive(bench.broker, len(first)) == first
    assert waiting == [held]
    assert bench.worker.buffered_bytes == len(held) + len(last)
    changed = request(3, 1, 2, b"another body")
    bench.link.forward_request(changed)
    bench.link.resume(0)
    assert await bench.receive(bench.broker, len(changed + last)) == changed + last
    assert bench.worker.buffered_bytes == 0


async def test_an_answer_waits_its_turn():
    def judge(link, frame):
        link.answer(response(2, b"from here"))
        return True

    bench = Bench(Owner(judge_request=judge), Wanting(3, Direction.REQUEST))
    first, held, last = request(18, 0, 1), request(3, 1, 2), request(12, 0, 3)
    await bench.send(bench.client, first + held + last)
    assert await bench.receive(bench.broker, len(first + last)) == first + last
    await bench.send(bench.broker, response(1, b"one") + response(3, b"three"))
    expected = response(1, b"one") + response(2, b"from here") + response(3, b"three")
    assert await bench.receive(bench.client, len(expected)) == expected


async def test_memory_of_a_held_frame_is_what_has_come_of_it():
    bench = Bench(chain=Wanting(3, Direction.REQUEST))
    big = request(3, 1, 2, bytes(10_000_000))
    await bench.send(bench.client, big[:5_000])
    await asyncio.sleep(0)  # the loop reads it in this turn or the next
    while bench.link.bytes_received[0] < 5_000:
        await asyncio.sleep(0)
    assert bench.worker.buffered_bytes == 8_192


@pytest.mark.parametrize("strict", [False, True])
async def test_a_frame_too_big_to_be_held_passes_unseen_or_closes(strict):
    bench = Bench(Owner(strict=strict), Wanting(3, Direction.REQUEST), Limits(held_frame_size=1_000))
    big = request(3, 1, 2, bytes(2_000))
    await bench.send(bench.client, big)
    if strict:
        assert await bench.rest(bench.broker) == b""
        assert bench.owner.cause is CloseCause.FRAME_TOO_BIG
    else:
        assert await bench.receive(bench.broker, len(big)) == big


async def test_a_peer_that_does_not_read_stops_the_other():
    bench = Bench()
    await bench.send(bench.client, request(1, 4, 1))
    answer = response(1, bytes(64_000_000))
    sending = asyncio.ensure_future(bench.send(bench.broker, answer))
    before = -1
    while bench.link.bytes_received[1] != before or before < 1:
        before = bench.link.bytes_received[1]
        for _ in range(50):
            await asyncio.sleep(0)
    assert not sending.done()
    assert bench.worker.buffered_bytes <= 262_144
    assert await bench.receive(bench.client, len(answer)) == answer
    await sending
    assert bench.worker.buffered_bytes == 0


async def test_drain_answers_what_is_in_flight_and_begins_nothing():
    bench = Bench()
    sent = request(3, 1, 1)
    await bench.send(bench.client, sent)
    assert await bench.receive(bench.broker, len(sent)) == sent
    bench.link.drain()
    await bench.send(bench.client, request(3, 1, 2))
    await bench.send(bench.broker, response(1, b"answer"))
    assert await bench.rest(bench.client) == response(1, b"answer")
    assert await bench.rest(bench.broker) == b""
    assert bench.owner.cause is CloseCause.DRAIN


@pytest.mark.parametrize("direction", list(Direction))
async def test_held_frames_that_take_long_leave_other_connections_their_turns(direction: Direction) -> None:
    turns_at_frames: list[int] = []

    def judge(link, *about):
        take(0.003)
        turns_at_frames.append(turns.count)
        link.forward_request(about[0]) if direction == Direction.REQUEST else link.forward_response(about[-1])
        return True

    bench = Bench(Owner(judge_request=judge, judge_response=judge), Wanting(3, direction))
    turns = Turns()
    sent, answered = b"".join(request(3, 1, n) for n in range(20)), b"".join(response(n, b"x") for n in range(20))
    await bench.send(bench.client, sent)
    assert await bench.receive(bench.broker, len(sent)) == sent
    await bench.send(bench.broker, answered)
    assert await bench.receive(bench.client, len(answered)) == answered
    turns.stop()
    assert len(turns_at_frames) == len(set(turns_at_frames)) == 20
    assert bench.worker.buffered_bytes == 0


async def test_an_end_behind_frames_that_wait_for_their_turn_comes_after_them() -> None:
    def judge(link, frame):
        take(0.003)
        link.forward_request(frame)
        return True

    bench = Bench(Owner(judge_request=judge), Wanting(3, Direction.REQUEST))
    sent = b"".join(request(3, 1, n) for n in range(5))
    await bench.send(bench.client, sent)
    bench.client.shutdown(1)
    assert await bench.rest(bench.broker) == sent


async def test_a_link_that_is_closed_while_it_waits_for_its_turn() -> None:
    def judge(link, frame):
        take(0.003)
        asyncio.get_running_loop().call_soon(link.close, CloseCause.IDLE)
        return True

    bench = Bench(Owner(judge_request=judge), Wanting(3, Direction.REQUEST))
    await bench.send(bench.client, request(3, 1, 1) * 5)
    await bench.owner.closed.wait()
    bench.link.forget()
    for _ in range(5):
        await asyncio.sleep(0)
    assert bench.worker.buffered_bytes == 0
    assert bench.owner.told == []


# The memory budget


def test_promise_6_frames_that_are_held_stay_within_the_budget_and_some_of_them_always_end() -> None:
    budget, size, count = 4_000_000, 1_000_000, 12
    frame = request(3, 1, 2, bytes(size))

    async def work() -> None:
        bench = Bench(chain=Wanting(3, Direction.REQUEST))
        worker, most, stop = bench.worker, 0, False
        worker.memory_budget = budget
        links = links_beside(bench, count)

        async def watch() -> None:
            nonlocal most
            while not stop:
                most = max(most, worker.buffered_bytes)
                await asyncio.sleep(0)

        async def send(client: Any) -> None:
            with contextlib.suppress(OSError):
                for at in range(0, len(frame), 10_000):  # all of them at the same pace
                    await bench.send(client, frame[at : at + 10_000])
                    await asyncio.sleep(0)

        async def receive(broker: Any) -> bool:
            return await bench.receive(broker, len(frame)) == frame

        watching = asyncio.ensure_future(watch())
        sending = [asyncio.ensure_future(send(client)) for _, client, _ in links]
        receiving = [asyncio.ensure_future(receive(broker)) for _, _, broker in links]
        now = time.monotonic_ns()
        while not all(waiting.done() for waiting in receiving):
            await bench.settled()
            now += 2_000_000_000  # as if time had passed
            worker.look_after_starved(now)
        passed = sum(waiting.result() for waiting in receiving)
        closed = [about for about in bench.owner.told if about[0] == "out of memory"]
        assert passed + len(closed) == count
        assert passed >= budget // size - 1
        assert closed
        assert max(size for _, _, size in closed) <= len(frame)
        assert most <= budget + count * 65_536
        stop = True
        await asyncio.gather(watching, *sending)
        assert worker.buffered_bytes == 0
        close_all(links)

    run(work)


async def test_small_frames_are_held_though_the_budget_is_used_up() -> None:
    """So that connections can begin, and say who they are."""
    bench = Bench(chain=Wanting(3, Direction.REQUEST))
    bench.worker.memory_budget = 10_000
    links = links_beside(bench, 1)
    hoarder, client, _ = links[0]
    await bench.send(client, request(3, 1, 1, bytes(50_000))[:40_000])
    await bench.settled()
    assert bench.worker.buffered_bytes >= 10_000
    small = request(3, 1, 2, bytes(3_000))
    await bench.send(bench.client, small[:2_000])
    await bench.settled()
    await bench.send(bench.client, small[2_000:])
    assert await bench.receive(bench.broker, len(small)) == small
    assert not hoarder.closed
    close_all(links)


async def test_what_filters_have_counts_as_buffered_until_they_have_decided() -> None:
    waiting = []
    owner = Owner(judge_request=lambda link, frame: bool(waiting.append(frame)))
    bench = Bench(owner, Wanting(3, Direction.REQUEST))
    held, first = request(3, 1, 2, bytes(30_000)), request(18, 0, 1)
    await bench.send(bench.client, first)
    assert await bench.receive(bench.broker, len(first)) == first
    await bench.send(bench.client, held)
    await bench.settled()
    assert bench.worker.buffered_bytes == len(held)
    bench.link.answer(response(2, bytes(5_000)))  # its turn comes after the first response
    bench.link.resume(0)
    assert bench.worker.buffered_bytes == len(response(2, bytes(5_000)))
    await bench.send(bench.broker, response(1))
    await bench.receive(bench.client, len(response(1) + response(2, bytes(5_000))))
    assert bench.worker.buffered_bytes == 0


# The machine: each of its transitions is taken, no other is, and its table is what the docstring says

SOURCE = (Path(__file__).parents[3] / "kproxy/proxy/forwarding/lane.pyx").read_text("utf-8")
ALL_TRANSITIONS = {(from_, to) for from_, targets in TRANSITIONS.items() for to in targets}


class Machine(Wanting):
    """A chain that holds Metadata whole, in both directions, the tail of Fetch responses, the head of DescribeCluster's."""

    def wanted(self, direction: Direction, api_key: int, api_version: int) -> Want:
        if api_key == 3:
            return Want.HOLD
        parts = {1: Want.TAIL, 60: Want.HEAD}
        return parts.get(api_key, Want.PASS) if direction == Direction.RESPONSE else Want.PASS


PASSES, HELD = request(18, 0, 7, bytes(20)), request(3, 1, 7, bytes(20))
FETCH, FETCHED = request(1, 17, 7, bytes(40)), big_response(1, 17, 3_000, 1)
FIRST_ADDRESS = FETCHED.index(b"kafka-7") - 20
Piece = tuple[str, bytes]  # who sends, "client" or "broker", and what
DESCRIBE = request(60, 0, 7, bytes(20))
CLUSTER = {"broker_id": 7, "host": "kafka-7", "port": 9092}
CLUSTER_BODY = message("DescribeClusterResponse").encode(0, make("DescribeClusterResponse", brokers=[CLUSTER]))
DESCRIBED, DESCRIBED_AND_MORE = response_frame(60, 0, CLUSTER_BODY), response_frame(60, 0, CLUSTER_BODY + b"more")
BETWEEN, CUT, HOLD, TAIL, LOST, HEAD = LaneState
WALKS: dict[tuple[LaneState, LaneState], tuple[Direction, list[Piece]]] = {
    (BETWEEN, CUT): (Direction.REQUEST, [("client", PASSES[:15])]),
    (CUT, BETWEEN): (Direction.REQUEST, [("client", PASSES)]),
    (BETWEEN, HOLD): (Direction.REQUEST, [("client", HELD[:15])]),
    (HOLD, BETWEEN): (Direction.REQUEST, [("client", HELD)]),
    (BETWEEN, LOST): (Direction.RESPONSE, [("broker", response(7))]),
    (CUT, LOST): (Direction.REQUEST, [("client", PASSES[:15]), ("broker", response(8)), ("client", PASSES[15:])]),
    (HOLD, LOST): (Direction.REQUEST, [("client", HELD[:15]), ("broker", response(8)), ("client", HELD[15:])]),
    (CUT, HOLD): (Direction.RESPONSE, [("client", FETCH), ("broker", FETCHED)]),
    (CUT, TAIL): (
        Direction.RESPONSE,
        [("client", FETCH), ("broker", FETCHED[:100]), ("broker", FETCHED[100 : FIRST_ADDRESS + 30])],
    ),
    (TAIL, BETWEEN): (
        Direction.RESPONSE,
        [
            ("client", FETCH),
            ("broker", FETCHED[:100]),
            ("broker", FETCHED[100 : FIRST_ADDRESS + 30]),
            ("broker", FETCHED[FIRST_ADDRESS + 30 :]),
        ],
    ),
    (BETWEEN, HEAD): (Direction.RESPONSE, [("client", DESCRIBE), ("broker", DESCRIBED[:15])]),
    (HEAD, CUT): (Direction.RESPONSE, [("client", DESCRIBE), ("broker", DESCRIBED[:15]), ("broker", DESCRIBED[15:-2])]),
    (HEAD, BETWEEN): (Direction.RESPONSE, [("client", DESCRIBE), ("broker", response(7, b"short"))]),
}


def taken(bench: Bench) -> set[tuple[LaneState, LaneState]]:
    assert bench.link.requests is not None and bench.link.responses is not None
    return bench.link.requests.transitions_taken | bench.link.responses.transitions_taken


def test_the_docstring_has_the_transitions_of_the_table() -> None:
    written = re.findall(r"^    (\w+) +-> (\w+) ", SOURCE.partition('"""\n\nfrom')[0], re.M)
    assert sorted(written) == sorted((from_.name, to.name) for from_, to in ALL_TRANSITIONS)


@pytest.mark.parametrize("transition", ALL_TRANSITIONS, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
async def test_each_transition_is_taken(transition: tuple[LaneState, LaneState]) -> None:
    direction, pieces = WALKS[transition]
    bench = Bench(chain=Machine(3))
    lane = bench.link.responses if direction == Direction.RESPONSE else bench.link.requests
    seen: list[set[tuple[LaneState, LaneState]]] = [set()]
    for who, data in pieces:
        await bench.send(bench.client if who == "client" else bench.broker, data)
        await bench.settled()
        seen.append(lane.transitions_taken)
    assert transition in seen[-1]
    if transition[1] != LOST:
        assert transition not in seen[-2]  # by the last piece
    assert not any(what == "fault" for what, *_ in bench.owner.told)
    sent = [b"".join(data for who, data in pieces if who == source) for source in ("client", "broker")]
    if lane.lane_state in (BETWEEN, LOST):
        assert await bench.receive(bench.broker, len(sent[0])) == sent[0]
        assert await bench.receive(bench.client, len(sent[1])) == sent[1]


def exchanges(chance: random.Random) -> list[tuple[bytes, bytes]]:
    made = []
    for _ in range(chance.randrange(1, 12)):
        key = chance.choice((18, 3, 1, 60))
        if key == 60:
            made.append((DESCRIBE, chance.choice((DESCRIBED, DESCRIBED_AND_MORE, response(7, b"short")))))
        elif key == 1:
            made.append((FETCH, big_response(1, 17, chance.choice((0, 50, 5_000)), chance.randrange(100))))
        else:
            made.append((request(key, 1, 7, chance.randbytes(30)), response(7, chance.randbytes(60))))
    return made


def test_random_traffic_takes_all_transitions_and_no_other() -> None:
    found: set[tuple[LaneState, LaneState]] = set()

    async def converse(seed: int) -> None:
        chance = random.Random(seed)
        bench = Bench(chain=Machine(3))
        made = exchanges(chance)
        sent, answered = (b"".join(frames) for frames in zip(*made, strict=True))
        extra = chance.choice((PASSES, HELD))
        sent += extra[: chance.randrange(len(extra))]  # the last request is not complete
        answered += response(9, b"to nothing") if chance.random() < 0.5 else b""
        got = []
        for source, sink, data in ((bench.client, bench.broker, sent), (bench.broker, bench.client, answered)):
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 5, 25))))
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                await bench.send(source, data[start:end])
                await bench.settled()
            with contextlib.suppress(BlockingIOError):
                while piece := sink.recv(1 << 20):
                    got.append((sink, piece))
        assert not any(what == "fault" for what, *_ in bench.owner.told)
        passed = {
            sink: b"".join(piece for where, piece in got if where is sink) for sink in (bench.broker, bench.client)
        }
        assert sent.startswith(passed[bench.broker])
        assert passed[bench.client] == answered
        found.update(taken(bench))

    async def work() -> None:
        for seed in range(60):
            await converse(seed)

    run(work)
    assert found == ALL_TRANSITIONS
