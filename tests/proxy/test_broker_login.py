"""Logins of kproxy's own at brokers, between the requests of clients: before the first, and again before a session ends."""

import asyncio
import itertools
from pathlib import Path
from struct import pack, unpack_from

import pytest

from kproxy.config.structs import Addresses, Authentication, Login
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import log_in
from kproxy.proxy.broker_client import BrokerClient
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.proxy.test_client_logins import write_users
from tests.support.backend import answer_to, frame_from, listening
from tests.support.links import request, response
from tests.support.virtual_clusters import Broker, Front, ask, front

HEARTBEAT, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 12, 17, 18, 36
ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED = 34, 58
FIXED = Addresses(mode="fixed")
SECRET = "canary-pencil"
GRACE = 5  # the broker of these tests ends sessions later than it says: the machine may be busy


class SaslBroker(Broker):
    """Wants PLAIN, as KafkaChannel does: before a login only ApiVersions, and no other request after a session has ended."""

    def __init__(self, lifetime_ms: int = 0, password: str = SECRET) -> None:
        super().__init__()
        self.lifetime_ms = lifetime_ms
        self.password = password
        self.logins: list[bytes] = []
        self.slow = asyncio.Event()  # no request but those of logins is answered before
        self.slow.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        until = 0.0
        while True:
            frame = await frame_from(reader)
            key, version, _, client_id = unpack_from(">hhih", frame)
            now = asyncio.get_running_loop().time()
            if key == API_VERSIONS:
                offered = ((API_VERSIONS, 3), (SASL_HANDSHAKE, 1), (SASL_AUTHENTICATE, 1), (HEARTBEAT, 4))
                answer = pack(">hi", 0, len(offered)) + b"".join(pack(">hhh", api, 0, most) for api, most in offered)
            elif key == SASL_HANDSHAKE:
                answer = pack(">hih5s", 0, 1, 5, b"PLAIN")
            elif key == SASL_AUTHENTICATE:
                token = frame[14 + client_id :]
                self.logins.append(token)
                until = now + (self.lifetime_ms * GRACE / 1_000 or 1e9)
                answer = pack(">hhiq", 0, -1, 0, self.lifetime_ms)
                if token != f"\0kproxy\0{self.password}".encode():
                    text = f"no {token!r}".encode()
                    answer, until = pack(">hh", SASL_AUTHENTICATION_FAILED, len(text)) + text + bytes(12), 0.0
            elif now > until:
                break  # a request without a login, or after the session
            else:
                await self.slow.wait()
                answer = frame[8:]
            self.asked.append((key, version))
            writer.write(answer_to(frame, answer))
            await writer.drain()


@pytest.fixture
def login(tmp_path: Path) -> Login:
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    return Login(mechanism="PLAIN", username="kproxy", password=f"file:{file}", cleartext=True)


async def beat(proxy: Front) -> bytes:
    reader, writer = await proxy.connect()
    try:
        return await ask(reader, writer, request(HEARTBEAT, 0, 7))
    finally:
        writer.close()


async def test_a_client_without_sasl_is_served_by_a_broker_that_wants_it(login: Login) -> None:
    async with SaslBroker() as broker, front(broker.address, addresses=FIXED, login=login) as proxy:
        for _ in range(2):
            assert await beat(proxy) == response(7, b"\0\1t")
        assert broker.logins == [f"\0kproxy\0{SECRET}".encode()] * 2
        keys = [key for key, _ in broker.asked]
        # the versions of a broker's APIs are asked for once
        shaken = [SASL_HANDSHAKE, SASL_AUTHENTICATE, HEARTBEAT]
        assert keys == [API_VERSIONS, *shaken, *shaken]
        assert proxy.total(Total.BROKER_LOGINS_OK) == 2


async def test_clients_that_log_in_get_the_error_of_a_listener_without_sasl(login: Login) -> None:
    async with SaslBroker() as broker, front(broker.address, addresses=FIXED, login=login) as proxy:
        reader, writer = await proxy.connect()
        for version, key, body in ((0, SASL_HANDSHAKE, b"\0\5PLAIN"), (1, SASL_HANDSHAKE, b"\0\5PLAIN")):
            answer = await ask(reader, writer, request(key, version, 3, body))
            assert answer == response(3, pack(">hi", ILLEGAL_SASL_STATE, 0))
        answer = await ask(reader, writer, request(SASL_AUTHENTICATE, 0, 4, b"\0\0\0\1x"))
        assert answer[8:10] == pack(">h", ILLEGAL_SASL_STATE)
        assert await ask(reader, writer, request(HEARTBEAT, 0, 5)) == response(5, b"\0\1t")
        assert len(broker.logins) == 1
        writer.close()


async def test_sessions_are_renewed_without_a_request_lost(login: Login) -> None:
    """Under a client that always has requests in flight; the broker would close the connection at one too late."""
    async with SaslBroker(lifetime_ms=80) as broker, front(broker.address, addresses=FIXED, login=login) as proxy:
        reader, writer = await proxy.connect()
        sent = 0

        async def send() -> None:
            nonlocal sent
            while len(broker.logins) < 6:
                writer.write(request(HEARTBEAT, 0, sent, bytes(40_000)))
                sent += 1
                await writer.drain()
                await asyncio.sleep(0)

        sending = asyncio.ensure_future(send())
        for number in itertools.count():
            if sending.done() and number == sent:
                break
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert int.from_bytes((await reader.readexactly(size))[:4], "big") == number
        assert (broker.came, sent > 12) == (1, True)
        writer.close()


async def test_an_idle_session_is_renewed_while_a_request_waits_for_its_answer(login: Login) -> None:
    async with SaslBroker(lifetime_ms=60) as broker, front(broker.address, addresses=FIXED, login=login) as proxy:
        reader, writer = await proxy.connect()
        assert await ask(reader, writer, request(HEARTBEAT, 0, 1)) == response(1, b"\0\1t")
        await proxy.until(lambda: len(broker.logins) == 2)  # nothing is sent
        broker.slow.clear()
        writer.write(request(HEARTBEAT, 0, 2))
        await proxy.until(lambda: {link.in_flight_count for link in proxy.worker.links} == {2})  # the handshake is sent
        writer.write(request(HEARTBEAT, 0, 3))
        broker.slow.set()
        assert await reader.readexactly(22) == response(2, b"\0\1t") + response(3, b"\0\1t")
        assert broker.came == 1
        writer.close()


async def test_a_changed_file_counts_at_the_next_login(login: Login, caplog: pytest.LogCaptureFixture) -> None:
    """And the broker's error, in which this one repeats the whole token, is logged without the password."""
    async with SaslBroker(password="another") as broker, front(broker.address, addresses=FIXED, login=login) as proxy:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await beat(proxy)
        await proxy.until(lambda: proxy.causes == {CloseCause.BROKER_LOGIN: 1})
        said = " ".join(str(record.__dict__) for record in caplog.records)
        assert "the broker refuses the login of kproxy by PLAIN: SASL_AUTHENTICATION_FAILED (no " in said
        assert SECRET not in said
        Path(login.password.removeprefix("file:")).write_text("another")
        assert await beat(proxy) == response(7, b"\0\1t")
        assert len(broker.logins) == 2 and proxy.total(Total.BROKER_LOGINS_FAILED) == 1


async def test_a_broker_that_closes_ends_the_login(login: Login) -> None:
    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)

    async with listening(close) as port, front(f"127.0.0.1:{port}", addresses=FIXED, login=login) as proxy:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await beat(proxy)
        await proxy.until(lambda: proxy.causes == {CloseCause.BROKER_LOGIN: 1})


async def test_who_has_logged_in_to_kproxy_is_logged_in_to_the_broker(tmp_path: Path) -> None:
    """SCRAM from the client, PLAIN to the broker, with a password of its own for each name."""
    users = tmp_path / "users.json"
    write_users(users, alice="of-client")
    (tmp_path / "alice").write_text(SECRET)
    login = Login(mechanism="PLAIN", username="kproxy", password=f"file:{tmp_path}/{{principal}}", cleartext=True)
    known = Authentication(mechanisms=["SCRAM-SHA-256"], users=str(users))
    async with (
        SaslBroker() as broker,
        front(broker.address, addresses=FIXED, login=login, authentication=known) as proxy,
    ):
        reader, writer = await proxy.connect()
        client = BrokerClient(reader, writer)
        credentials = Credentials("SCRAM-SHA-256", "alice", "of-client")
        await log_in(client.ask, credentials, "127.0.0.1", asyncio.to_thread, await client.versions())
        assert broker.logins == []  # kproxy connects for the client only now
        assert await ask(reader, writer, request(HEARTBEAT, 0, 5)) == response(5, b"\0\1t")
        assert broker.logins == [f"\0kproxy\0{SECRET}".encode()]
        client.close()
