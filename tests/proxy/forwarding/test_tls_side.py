"""TLS on either leg and on both, over real sockets: every byte of big transfers, and every way they end."""

import asyncio
import contextlib
import gc
import json
import logging
import random
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kproxy.config.structs import Addresses, BrokerTls, Limits, ListenerTls, Timeouts
from kproxy.proxy.forwarding.tls_side import TlsSide
from kproxy.proxy.link_opening import open_record
from kproxy.proxy.network.tls import broker_context, listener_context
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.support.backend import Serve, listening
from tests.support.certificates import certificates
from tests.support.links import request, run
from tests.support.virtual_clusters import Broker, Front, ask, front

OF_CLIENT = BrokerTls(ca=certificates().ca)  # as clients trust us
LISTENER = ListenerTls(certificate=certificates().server.certificate, key=certificates().server.key)
MUTUAL = ListenerTls(
    certificate=LISTENER.certificate, key=LISTENER.key, client_ca=certificates().ca, client_auth="required"
)
BROKER = BrokerTls(ca=certificates().ca)
FIXED = Addresses(mode="fixed")  # no broker is asked which others there are
LEGS = {
    "client": {"listener_tls": LISTENER},
    "broker": {"broker_tls": BROKER},
    "both": {"listener_tls": LISTENER, "broker_tls": BROKER},
}


def of_broker(words: dict[str, Any]) -> ssl.SSLContext | None:
    return listener_context(LISTENER) if "broker_tls" in words else None


@contextlib.asynccontextmanager
async def proxied(broker: Broker | Serve, words: dict[str, Any], **more: Any) -> AsyncIterator[Front]:
    """A proxy with the TLS legs of *words*, before a broker."""
    serve = broker.serve if isinstance(broker, Broker) else broker
    async with listening(serve, of_broker(words)) as port, front(f"localhost:{port}", **words, **more) as proxy:
        if isinstance(broker, Broker):
            broker.port = port
        yield proxy


async def come(proxy: Front, words: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if "listener_tls" not in words:
        return await proxy.connect(limit=1 << 22)
    return await proxy.connect(ssl=broker_context(OF_CLIENT), server_hostname="localhost", limit=1 << 22)


@pytest.mark.parametrize("words", LEGS.values(), ids=LEGS)
async def test_big_frames_pass_both_ways_whole(words: dict[str, Any]) -> None:
    async with proxied(Broker(), words) as proxy:
        reader, writer = await come(proxy, words)
        chance = random.Random(3)
        for number, size in enumerate((0, 1, 16_384, 300_000, 6_000_000)):
            sent = request(12, 0, number, chance.randbytes(size))
            answer = await ask(reader, writer, sent)
            assert answer[4:] == sent[8:12] + sent[12:]
        assert proxy.causes == {}
        writer.close()
        await proxy.until(lambda: not proxy.worker.links)
        assert proxy.causes == {CloseCause.CLIENT_CLOSED: 1}
        assert proxy.total(Total.TLS_HANDSHAKES_OK_CLIENT) == ("listener_tls" in words)
        assert proxy.total(Total.TLS_HANDSHAKES_OK_BROKER) >= ("broker_tls" in words)


@pytest.mark.parametrize("words", LEGS.values(), ids=LEGS)
async def test_many_small_frames_in_one_segment_right_after_the_handshake(words: dict[str, Any]) -> None:
    """The first of them are there before the broker is connected."""
    async with proxied(Broker(), words) as proxy:
        reader, writer = await come(proxy, words)
        frames = [request(12, 0, n, bytes(n % 50)) for n in range(3_000)]
        writer.write(b"".join(frames))
        for frame in frames:
            got = await reader.readexactly(len(frame) - 4)
            assert got == len(got[4:]).to_bytes(4, "big") + frame[8:]
        writer.close()
        await proxy.until(lambda: not proxy.worker.links)


@pytest.mark.parametrize("words", LEGS.values(), ids=LEGS)
async def test_promise_5_a_client_that_reads_slowly_stops_the_broker(words: dict[str, Any]) -> None:
    size = 40_000_000
    written = 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readexactly(14)
        writer.write((size + 4).to_bytes(4, "big") + b"\0\0\0\1")
        for _ in range(size // 100_000):
            writer.write(bytes(100_000))
            await writer.drain()
            written += 100_000
        await reader.read()

    async with proxied(pour, words, addresses=FIXED) as proxy:
        reader, writer = await come(proxy, words)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request(12, 0, 1)[:14] + bytes(1))
        before = -1
        while before != written or not written:
            before = written
            await asyncio.sleep(0.1)
        assert written < 20_000_000
        assert proxy.worker.buffered_bytes < 2_000_000
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await reader.readexactly(size + 8)) == size + 8
        assert proxy.worker.buffered_bytes == 0
        writer.close()
        await proxy.until(lambda: not proxy.worker.links)


@pytest.mark.parametrize("words", LEGS.values(), ids=LEGS)
async def test_the_broker_closes_first_and_the_client_hears_of_it(words: dict[str, Any]) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(15)
        writer.write(b"\0\0\0\5\0\0\0\1x")

    async with proxied(leave, words, addresses=FIXED) as proxy:
        reader, writer = await come(proxy, words)
        writer.write(request(12, 0, 1))
        assert await reader.read() == b"\0\0\0\5\0\0\0\1x"
        writer.close()
        await proxy.until(lambda: not proxy.worker.links)
        assert set(proxy.causes) == {CloseCause.BROKER_CLOSED}


@pytest.mark.parametrize("words", LEGS.values(), ids=LEGS)
async def test_promise_10_what_a_client_sent_before_it_left_reaches_the_broker(words: dict[str, Any]) -> None:
    got = bytearray()
    ended = asyncio.Event()

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            got.extend(data)
        ended.set()

    async with proxied(collect, words, addresses=FIXED) as proxy:
        _, writer = await come(proxy, words)
        sent = b"".join(request(0, 3, n, b"\xff\xff\0\0" + bytes(3_000)) for n in range(1_000))  # acks=0
        writer.write(sent)
        await writer.drain()
        writer.close()
        await ended.wait()
        assert bytes(got) == sent
        await proxy.until(lambda: not proxy.worker.links)


async def test_half_close_of_a_plain_client_before_a_broker_over_tls_is_answered() -> None:
    words = LEGS["broker"]
    async with proxied(Broker(), words) as proxy:
        reader, writer = await come(proxy, words)
        sent = request(12, 0, 1, bytes(2_000_000))
        writer.write(sent)
        writer.write_eof()
        assert len(await reader.read()) == len(sent) - 4
        writer.close()
        await proxy.until(lambda: not proxy.worker.links)
        assert proxy.causes == {CloseCause.CLIENT_CLOSED: 1}


@pytest.mark.parametrize("end", ["close_notify", "FIN", "close_notify and FIN"])
@pytest.mark.parametrize("words", [LEGS["client"], LEGS["both"]], ids=["client", "both"])
def test_promise_9_half_close_over_tls_gives_every_answer_that_is_in_flight(words: dict[str, Any], end: str) -> None:
    """With ssl's own sockets, as asyncio ends both directions with one close_notify."""
    frames = [request(12, 0, n, bytes(30_000)) for n in range(100)]

    def converse(port: int) -> bytes:
        with socket.create_connection(("localhost", port)) as plain:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            side = broker_context(OF_CLIENT).wrap_bio(incoming, outgoing, server_hostname="localhost")

            def flush() -> None:
                if data := outgoing.read():
                    plain.sendall(data)

            def until_done(call: Any) -> Any:
                while True:
                    try:
                        result = call()
                    except ssl.SSLWantReadError:
                        flush()
                        received = plain.recv(65_536)
                        incoming.write(received) if received else incoming.write_eof()
                        continue
                    flush()
                    return result

            until_done(side.do_handshake)
            for frame in frames:
                until_done(lambda frame=frame: side.write(frame))
            if "close_notify" in end:
                with pytest.raises(ssl.SSLWantReadError):
                    side.unwrap()
                flush()
            if "FIN" in end:
                plain.shutdown(socket.SHUT_WR)
            got = bytearray()
            with contextlib.suppress(ssl.SSLZeroReturnError, ssl.SSLEOFError):
                while piece := until_done(lambda: side.read(65_536)):
                    got += piece
            return bytes(got)

    async def work() -> None:
        async with proxied(Broker(), words) as proxy:
            got = await asyncio.to_thread(converse, proxy.port)
            assert got == b"".join(len(frame[8:]).to_bytes(4, "big") + frame[8:] for frame in frames)
            await proxy.until(lambda: not proxy.worker.links)
            assert proxy.causes == {CloseCause.CLIENT_CLOSED: 1}
            assert proxy.worker.buffered_bytes == 0

    run(work)


async def come_with_a_small_window(
    proxy: Front, words: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect so that the kernel takes little of what is not read."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", proxy.port))
    options: dict[str, Any] = (
        {"ssl": broker_context(OF_CLIENT), "server_hostname": "localhost"} if "listener_tls" in words else {}
    )
    return await asyncio.open_connection(sock=plain, limit=1 << 14, **options)


@pytest.mark.parametrize("words", [{}, LEGS["both"]], ids=["none", "both"])
async def test_promise_6_clients_that_do_not_read_stay_within_the_memory_budget(words: dict[str, Any]) -> None:
    """And all of them are served once they read: those that came late, too."""
    budget, size, clients = 400_000, 4_000_000, 20  # without a budget, their buffers take 1.7 MB
    answer = (size + 4).to_bytes(4, "big") + b"\0\0\0\1" + bytes(size)

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readexactly(15)
            writer.write(answer)
            await writer.drain()

    async with proxied(pour, words, limits=Limits(memory=budget), addresses=FIXED) as proxy:
        most, quiet = 0, 0
        proxy.worker.memory_budget = budget
        came = [await come_with_a_small_window(proxy, words) for _ in range(clients)]
        for _, writer in came:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request(12, 0, 1))
        before: object = None
        while quiet < 300:
            now = proxy.total(Total.BYTES_RESPONSE), proxy.worker.buffered_bytes
            quiet = quiet + 1 if now == before and now[0] else 0
            before = now
            most = max(most, now[1])
            await asyncio.sleep(0.001)
        assert budget // 4 < most <= 2 * budget
        for _, writer in came:
            writer.transport.resume_reading()  # type: ignore[attr-defined]
        for reader, _ in came:
            assert await reader.readexactly(len(answer)) == answer
        assert proxy.causes == {}
        for _, writer in came:
            writer.close()
        await proxy.until(lambda: not proxy.worker.links)


async def test_a_client_over_tls_that_vanishes_is_no_fault() -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    words = LEGS["both"]
    async with proxied(Broker(), words) as proxy:
        for _ in range(20):
            reader, writer = await come(proxy, words)
            await ask(reader, writer, request(12, 0, 1))
            writer.transport.abort()
        await proxy.until(lambda: not proxy.worker.links)
        assert set(proxy.causes) <= {CloseCause.CLIENT_RESET, CloseCause.CLIENT_CLOSED}
    assert faults == []


async def test_mutual_tls_names_the_principal_and_refuses_who_has_none() -> None:
    async with Broker() as broker, front(broker.address, listener_tls=MUTUAL) as proxy:
        alice = certificates().client
        context = broker_context(BrokerTls(ca=certificates().ca, certificate=alice.certificate, key=alice.key))
        reader, writer = await proxy.connect(ssl=context, server_hostname="localhost")
        await ask(reader, writer, request(12, 0, 1))
        link = next(iter(proxy.worker.links))
        assert link.facts.principal == "CN=alice,OU=orders,O=kproxy tests"
        told = json.loads(open_record(link, "orders", True))["tls"]
        assert (told["version"], told["certificate"]) == ("TLS 1.3", link.facts.principal)
        assert link.facts.listener == proxy.address
        writer.close()
        nobody = socket.create_connection(("127.0.0.1", proxy.port))
        nobody.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(nobody, b"GET / HTTP/1.1\r\n\r\n")
        await proxy.until(lambda: not proxy.worker.links)
        assert proxy.causes == {CloseCause.CLIENT_CLOSED: 1, CloseCause.TLS_CLIENT: 1}
        assert proxy.total(Total.TLS_HANDSHAKES_FAILED_CLIENT) == 1
        nobody.close()


def test_a_broker_whose_certificate_is_not_believed_is_not_talked_to(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        broker = Broker()
        wrong = certificates().wrong_host
        context = listener_context(ListenerTls(certificate=wrong.certificate, key=wrong.key))
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)  # the broker's, whom we refuse
        async with (
            listening(broker.serve, context) as broker.port,
            front(f"localhost:{broker.port}", addresses=FIXED, broker_tls=BROKER) as proxy,
        ):
            reader, writer = await proxy.connect()
            assert await reader.read() == b""
            assert proxy.causes == {CloseCause.TLS_BROKER: 1}
            assert proxy.total(Total.TLS_HANDSHAKES_FAILED_BROKER) == 1
            writer.close()

    with caplog.at_level(logging.WARNING, "kproxy"):
        run(work)
    assert "closed before it began" in [record.getMessage() for record in caplog.records]


async def test_promise_7_a_handshake_that_never_comes_ends() -> None:
    quick = Timeouts(first_request=0.2, connect=5)
    async with front("127.0.0.1:1", addresses=FIXED, listener_tls=LISTENER, timeouts=quick) as proxy:
        reader, writer = await proxy.connect()
        assert await reader.read() == b""
        await proxy.until(lambda: not proxy.worker.links)
        assert set(proxy.causes) <= {CloseCause.TLS_CLIENT, CloseCause.FIRST_REQUEST_TIMEOUT}
        writer.close()


def sides_alive() -> int:
    return sum(isinstance(found, TlsSide) for found in gc.get_objects())


async def test_a_closed_connection_is_not_kept_by_what_its_sides_know_of_each_other() -> None:
    """Reference counts alone must free it: the collector comes seldom, and is told to leave what was there at the start."""
    words = LEGS["client"]
    async with Broker() as broker, front(f"localhost:{broker.port}", **words) as proxy:
        before = sides_alive()
        reader, writer = await come(proxy, words)
        await ask(reader, writer, request(12, 0, 1))
        assert sides_alive() == before + 1
        gc.disable()
        try:
            writer.close()
            await proxy.until(lambda: not proxy.worker.links)
            while proxy.worker.closed_links:
                proxy.worker.closed_links.pop().forget()
            await proxy.until(lambda: sides_alive() == before)
        finally:
            gc.enable()
