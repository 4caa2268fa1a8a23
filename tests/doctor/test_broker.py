"""One broker, right or wrong in one way: what is found out, and the words for it."""

import asyncio

import pytest

from kproxy.config import BrokerTls, Cluster
from kproxy.doctor.broker import ask_broker
from tests.support.certificates import Pair, certificates
from tests.support.doctored import PATIENCE_S, broker, context
from tests.support.links import run
from tests.support.ports import free_ports


def before(port: int, tls: BrokerTls | None = None) -> Cluster:
    return Cluster(listen="127.0.0.1:1", bootstrap=[f"127.0.0.1:{port}"], broker_tls=tls)


def test_a_broker_that_answers() -> None:
    async def work() -> None:
        async with broker([(7, "kafka.test", 9_092)]) as port:
            found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
            assert found.failure is None
            assert found.brokers == [(7, "kafka.test", 9_092)]
            assert (found.wants_login, found.clock_ahead_s) == (False, None)

    run(work)


def test_a_broker_with_tls() -> None:
    async def work() -> None:
        async with broker(tls=context(certificates().server)) as port:
            found = await ask_broker(before(port, BrokerTls(ca=certificates().ca)), "127.0.0.1", port, PATIENCE_S)
            assert found.failure is None and found.brokers == [(0, "127.0.0.1", port)]

    run(work)


WRONG = {
    "expired": (certificates().expired, "its certificate has expired", "renew the broker's certificate"),
    "another name": (certificates().wrong_host, "is not for 127.0.0.1; its names are: elsewhere.test", "server_name"),
    "another authority": (certificates().stranger, "signed by an unknown authority", "set broker_tls.ca"),
}


@pytest.mark.parametrize(("pair", "what", "advice"), WRONG.values(), ids=WRONG)
def test_a_certificate_that_is_wrong(pair: Pair, what: str, advice: str) -> None:
    async def work() -> None:
        async with broker(tls=context(pair)) as port:
            found = await ask_broker(before(port, BrokerTls(ca=certificates().ca)), "127.0.0.1", port, PATIENCE_S)
            assert found.failure is not None
            assert what in found.failure.what and advice in found.failure.advice

    run(work)


def test_tls_to_a_plain_port() -> None:
    async def work() -> None:
        async with broker() as port:
            found = await ask_broker(before(port, BrokerTls(ca=certificates().ca)), "127.0.0.1", port, 2.0)
            assert found.failure is not None
            assert "does not speak TLS" in found.failure.what and "remove broker_tls" in found.failure.advice

    run(work)


def test_plain_to_a_tls_port() -> None:
    async def work() -> None:
        async with broker(tls=context(certificates().server)) as port:
            found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
            assert found.failure is not None
            assert found.failure.what == "it speaks TLS, and kproxy would not"
            assert "set broker_tls" in found.failure.advice

    run(work)


def test_nobody_listens() -> None:
    async def work() -> None:
        port = free_ports(1)
        found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
        assert found.failure is not None
        assert found.failure.what == "nothing listens on that port" and "correct the port" in found.failure.advice

    run(work)


def test_a_name_that_is_not_known() -> None:
    """RFC 6761: .invalid never resolves; without any name server the answer is another."""

    async def work() -> None:
        found = await ask_broker(before(1), "kafka.invalid", 9_092, PATIENCE_S)
        assert found.failure is not None and found.failure.what.startswith("the name ")
        assert "DNS" in found.failure.advice or "name server" in found.failure.advice

    run(work)


def test_a_peer_that_is_no_broker() -> None:
    async def work() -> None:
        async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(web, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
        assert found.failure is not None
        assert "does not answer as Kafka" in found.failure.what and "HTTP" in found.failure.what
        server.close()

    run(work)
