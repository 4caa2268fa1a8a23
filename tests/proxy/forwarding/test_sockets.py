"""Two plain sockets: nothing is kept that the other side does not take, and every way a socket can fail ends in one close."""

import asyncio
import random
import resource
import socket
import struct

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Filter
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.support.links import Bench, Judge, Owner, request, response, run

CHUNK = 262_144


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def test_promise_5_a_client_that_does_not_read_256_mb_costs_less_than_two() -> None:
    async def work() -> None:
        bench = Bench()
        await bench.send(bench.client, request(1, 4, 1))
        await bench.settled()
        size = 256 << 20
        await bench.send(bench.broker, struct.pack(">ii", size, 1))
        piece = bytes(1 << 20)
        before = resident()
        sent = 0
        while True:
            try:
                sent += bench.broker.send(piece)
            except BlockingIOError:
                await bench.settled()
                try:
                    sent += bench.broker.send(piece)
                except BlockingIOError:
                    break
        assert bench.worker.buffered_bytes <= CHUNK
        assert resident() - before < 2_000_000
        assert sent < 8 << 20  # the sockets' own buffers

        async def rest() -> None:
            left = size - 4 - sent
            while left:
                await bench.send(bench.broker, piece[:left])
                left -= min(left, len(piece))

        sending = asyncio.ensure_future(rest())
        got = 0
        while got < size + 4:
            got += len(await bench.loop.sock_recv(bench.client, 1 << 20))
        await sending
        assert bench.worker.buffered_bytes == 0
        assert resident() - before < 4_000_000

    run(work)


def test_promise_5_a_broker_that_does_not_read_stops_the_client() -> None:
    async def work() -> None:
        bench = Bench()
        big = request(0, 9, 1, b"\0\0\xff\xff" + bytes(64_000_000))
        sending = asyncio.ensure_future(bench.send(bench.client, big))
        await bench.settled()
        assert not sending.done()
        assert bench.worker.buffered_bytes <= CHUNK
        await bench.send(bench.broker, response(99))  # the other direction is not held up by it
        assert await bench.receive(bench.client, 8) == response(99)
        assert await bench.receive(bench.broker, len(big)) == big
        await sending

    run(work)


def reset(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


class TcpBench(Bench):
    """Over TCP, which alone has resets; *broker* and *client* are its far ends."""

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            one = socket.create_connection(listener.getsockname())
            return one, listener.accept()[0]


@pytest.mark.parametrize("who", ["client", "broker"])
@pytest.mark.parametrize("waiting", [False, True])
def test_a_reset_ends_the_connection_with_its_cause(who: str, waiting: bool) -> None:
    async def work() -> None:
        bench = TcpBench()
        if waiting:
            await bench.send(bench.client, request(3, 1, 1))
            await bench.settled()
        reset(getattr(bench, who))
        other = bench.broker if who == "client" else bench.client
        if who == "client" and waiting:
            await bench.settled()
            assert not bench.link.closed  # the broker is heard out: it may have been a produce
            await bench.send(bench.broker, response(1, bytes(100)))
        if who == "client" or waiting:
            await bench.rest(other)
        async with asyncio.timeout(10):
            await bench.owner.closed.wait()
        assert bench.owner.cause is (CloseCause.CLIENT_RESET if who == "client" else CloseCause.BROKER_RESET)

    run(work)


def test_a_client_that_is_gone_while_it_is_answered_is_noticed_by_writing() -> None:
    async def work() -> None:
        bench = TcpBench()
        await bench.send(bench.client, request(1, 4, 1) + request(1, 4, 2))
        await bench.settled()
        sending = asyncio.ensure_future(bench.send(bench.broker, response(1, bytes(30_000_000))))
        await bench.receive(bench.client, 100_000)
        reset(bench.client)
        await sending  # it is read to its end and thrown away
        await bench.send(bench.broker, response(2))
        async with asyncio.timeout(10):
            await bench.owner.closed.wait()
        assert bench.owner.cause is CloseCause.CLIENT_RESET
        assert bench.worker.buffered_bytes == 0

    run(work)


def test_promise_9_half_close_while_the_answer_does_not_fit() -> None:
    async def work() -> None:
        bench = Bench()
        await bench.send(bench.client, request(1, 4, 1))
        bench.client.shutdown(socket.SHUT_WR)
        await bench.settled()
        answer = response(1, random.Random(9).randbytes(20_000_000))
        sending = asyncio.ensure_future(bench.send(bench.broker, answer))
        await bench.settled()
        assert await bench.rest(bench.client) == answer
        await sending
        await bench.owner.closed.wait()
        assert bench.owner.cause is CloseCause.CLIENT_CLOSED

    run(work)


def test_the_broker_is_done_first_and_the_client_hears_all_of_it() -> None:
    async def work() -> None:
        bench = Bench()
        await bench.send(bench.client, request(1, 4, 1))
        await bench.settled()
        answer = response(1, bytes(5_000_000))
        sending = asyncio.ensure_future(bench.send(bench.broker, answer))
        assert await bench.receive(bench.client, 1_000) == answer[:1_000]
        await bench.receive(bench.client, len(answer) - 1_000)
        await sending
        bench.broker.shutdown(socket.SHUT_WR)
        assert await bench.rest(bench.client) == b""
        bench.client.close()
        await bench.owner.closed.wait()
        assert bench.owner.cause is CloseCause.BROKER_CLOSED

    run(work)


class Breaks(Filter):
    """Not what filters do: the owner itself fails."""

    responses = frozenset({3})


def test_what_an_owner_raises_closes_the_connection_and_never_reaches_the_loop() -> None:
    def judge(*_: object) -> bool:
        raise RuntimeError("a fault of kproxy's own")

    async def work() -> None:
        seen: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        bench = Bench(Owner(judge_response=judge), Chain([Breaks()]))
        await bench.send(bench.client, request(3, 1, 1))
        await bench.settled()
        await bench.send(bench.broker, response(1, bytes(100)))
        assert await bench.rest(bench.client) == b""
        assert bench.owner.cause is CloseCause.ERROR
        assert bench.owner.told == [("fault", 'RuntimeError("a fault of kproxy\'s own")')]
        assert seen == []

    run(work)


def test_a_client_that_takes_no_answers_of_filters_is_read_no_further() -> None:
    """Nothing of it goes to the broker, so that only this holds it up."""

    def judge(link: object, frame: bytes) -> bool:
        link.answer(response(int.from_bytes(frame[8:12], "big"), bytes(10_000)))  # type: ignore[attr-defined]
        return True

    class Asks(Filter):
        requests = frozenset({3})

    async def work() -> None:
        bench = Bench(Owner(judge_request=judge), Chain([Asks()]))
        flood = b"".join(request(3, 1, n) for n in range(20_000))  # 200 MB of answers
        sending = asyncio.ensure_future(bench.send(bench.client, flood))
        await bench.settled()
        assert bench.worker.buffered_bytes < 1_000_000
        for n in range(20_000):
            assert await bench.receive(bench.client, 10_008) == response(n, bytes(10_000))
        await sending
        assert bench.counters.total_of(Total.IN_FLIGHT) == 0

    run(work)


def test_attack_11_one_byte_a_segment_and_two_requests_in_one() -> None:
    """The bytes of Kroxylicious #513: two requests before the broker was connected."""

    async def work() -> None:
        bench = Bench(Judge(Chain(())))
        sent = request(18, 3, 0, b"\0\x05kafka\x061.0.0\0") + request(3, 9, 1, b"\0\1\1\0\0\0")
        for byte in sent:
            await bench.send(bench.client, bytes([byte]))
            await bench.settled()
        assert await bench.receive(bench.broker, len(sent)) == sent
        answers = response(0, bytes(40)) + response(1, bytes(60))
        for byte in answers:
            await bench.send(bench.broker, bytes([byte]))
            await bench.settled()
        assert await bench.receive(bench.client, len(answers)) == answers
        assert bench.link.frames_received == (2, 2)

    run(work)
