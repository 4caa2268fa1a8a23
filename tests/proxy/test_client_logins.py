"""Clients that log in to kproxy: real ones, and those that send what they should not, before a broker of the test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from struct import pack
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kproxy.authentication.users import User, new_users_file, set_password
from kproxy.config import Addresses, Authentication
from kproxy.proxy.tap.counted import Total
from tests.support.links import request
from tests.support.virtual_clusters import Broker, Front, front

FIXED = Addresses(mode="fixed")
NAME, PASSWORD = "alice", "correct horse"
MECHANISMS: Any = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA = 18, 17, 36, 3
HANDSHAKE_PLAIN = request(SASL_HANDSHAKE, 1, 7, pack(">h", 5) + b"PLAIN")
DELAY_S = 0.05


def write_users(path: Path, **passwords: str) -> str:
    file = new_users_file()
    for name, password in passwords.items():
        file.users[name] = User()
        set_password(file.users[name], MECHANISMS, password, 4_096)
    path.write_bytes(msgspec.json.encode(file))
    return str(path)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_users(tmp_path_factory.mktemp("users") / "users.json", **{NAME: PASSWORD})


Serve = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Broker, Front]]]


@pytest.fixture
def serving(users: str) -> Serve:
    @contextlib.asynccontextmanager
    async def serve(**words: Any) -> AsyncIterator[tuple[Broker, Front]]:
        settings = {"mechanisms": MECHANISMS, "users": users, "plain_without_tls": True, "failure_delay": DELAY_S}
        authentication = Authentication(**settings | words)
        async with Broker() as broker, front(broker.address, addresses=FIXED, authentication=authentication) as proxy:
            broker.brokers = [(0, "127.0.0.1", proxy.port)]
            yield broker, proxy

    return serve


def librdkafka(address: str, mechanism: str, password: str) -> list[str]:
    errors: list[str] = []
    client = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": NAME,
            "sasl.password": password,
            "error_cb": lambda error: errors.append(error.str()),
            "log_level": 0,
        }
    )
    try:
        client.list_topics(timeout=5 if password == PASSWORD else 0.5)
    except KafkaException as error:
        client.poll(0.1)
        return [*errors, str(error)]
    return []


def kafka_python(address: str, mechanism: str, password: str) -> list[str]:
    from kafka import KafkaConsumer  # noqa: PLC0415 - its import warns
    from kafka.errors import KafkaError  # noqa: PLC0415

    words = {"sasl_plain_username": NAME, "sasl_plain_password": password, "sasl_mechanism": mechanism}
    try:
        client = KafkaConsumer(bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", **words)
        client.topics()
        client.close()
    except KafkaError as error:
        return [repr(error)]
    return []


@pytest.mark.filterwarnings("default")  # of kafka-python
@pytest.mark.parametrize("client", [librdkafka, kafka_python])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_client_logs_in_and_is_served(serving: Serve, client: Any, mechanism: str) -> None:
    async with serving() as (broker, proxy):
        assert await asyncio.to_thread(client, proxy.address, mechanism, PASSWORD) == []
        keys = {key for key, _ in broker.asked}
        assert METADATA in keys and not keys & {SASL_HANDSHAKE, SASL_AUTHENTICATE}
        assert proxy.total(Total.CLIENT_LOGINS_OK) >= 1
        await proxy.until(lambda: not proxy.worker.links)
