"""Keys of an identity provider that are rolled over, and one that is away; a client of librdkafka with a token."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from joserfc import jwt
from joserfc.jwk import ECKey

from kproxy.config.structs import Addresses, Authentication, Tokens
from kproxy.errors import UsageError
from kproxy.proxy.tap.counted import Total
from kproxy.proxy.token_keys import AGAIN_S, OLD_S, TokenKeys
from tests.support.backend import listening
from tests.support.virtual_clusters import Broker, front

OLD, NEW = (ECKey.generate_key("P-256", {"kid": name}) for name in ("old", "new"))


def jwks(*keys: ECKey) -> bytes:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]}).encode()


class Provider:
    """An identity provider that only gives its keys."""

    def __init__(self) -> None:
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
        self.keys = jwks(OLD)
        self.came = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer % (len(self.keys), self.keys) if b"%" in self.answer else self.answer)
        await writer.drain()


@contextlib.asynccontextmanager
async def providing() -> AsyncIterator[tuple[Provider, str]]:
    provider = Provider()
    async with listening(provider.serve) as port:
        yield provider, f"http://127.0.0.1:{port}/keys"


async def test_keys_are_rolled_over_and_stay_while_the_provider_is_away() -> None:
    now = [1_000.0]
    async with providing() as (provider, url):
        tokens, kept = Tokens(issuer="i", audience=["a"], keys_url=url), {}
        shared: list[tuple[str, bytes]] = []
        keys = TokenKeys(tokens, "c", lambda *each: shared.append(each), kept, lambda: now[0])
        assert keys.current() is None
        first, second = await asyncio.gather(keys.refresh(), keys.refresh())
        assert first is second is keys.current() and provider.came == 1
        assert first is not None and first.find("old", "ES256") and not first.find("new", "ES256")
        provider.keys = jwks(OLD, NEW)
        assert await keys.refresh() is first and provider.came == 1  # asked for just now
        now[0] += AGAIN_S
        rolled = await keys.refresh()
        assert rolled is not None and rolled.find("new", "ES256") and provider.came == 2
        elsewhere = b"HTTP/1.1 302 Found\r\nLocation: " + url.encode() + b"\r\n\r\n"
        for answer in (elsewhere, b"HTTP/1.1 503 x\r\n\r\n", b"nothing\r\n"):
            now[0] += AGAIN_S
            provider.answer = answer
            assert await keys.refresh() is rolled
        assert provider.came == 5
        now[0] += OLD_S + 1
        provider.answer = Provider().answer
        assert keys.current() is rolled  # newer ones are asked for meanwhile
        await asyncio.sleep(0)
        again = await keys.refresh()
        assert again is not None and again is not rolled
        assert [at for at, _ in shared] == [url, url] and again.public == shared[-1][1]  # what has changed
        reloaded = TokenKeys(tokens, "c", lambda *_: None, kept, lambda: now[0])
        assert reloaded.current() is again
        other = TokenKeys(tokens, "c", lambda *_: None, {}, lambda: now[0])
        other.receive("http://another", jwks(OLD))
        assert other.current() is None
        other.receive(*shared[-1])
        known = other.current()
        assert (
            known is not None and known.find("new", "ES256") and json.loads(known.public) == json.loads(jwks(OLD, NEW))
        )


def test_keys_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    tokens = Tokens(issuer="i", audience=["a"], keys_file=str(file))
    with pytest.raises(UsageError, match="No such file"):
        TokenKeys(tokens, "c", lambda *_: None, {})
    file.write_bytes(jwks(OLD))
    keys = TokenKeys(tokens, "c", lambda *_: None, {})
    file.write_bytes(jwks(NEW))
    keys.reload()
    file.write_text("{}")
    with pytest.raises(UsageError, match="it is not a JWKS"):
        keys.reload()
    known = keys.current()
    assert known is not None and known.find("new", "ES256")


def with_token(address: str, key: ECKey, lifetime_s: float) -> list[str]:
    """What a client of librdkafka says that has a token of *key*."""

    def token(_: object) -> tuple[str, float]:
        ends_at = time.time() + lifetime_s
        claims = {"iss": "https://idp", "aud": "kafka", "sub": "alice", "exp": ends_at}
        return jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key), time.time() + 60

    errors: list[str] = []
    settings: dict[str, Any] = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", "log_level": 0}
    settings |= {
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": token,
        "error_cb": lambda error: errors.append(error.str()),
    }
    client = AdminClient(settings)
    client.poll(0.1)
    try:
        client.list_topics(timeout=5 if lifetime_s > 0 else 0.5)
    except KafkaException as error:
        client.poll(0.1)
        return [*errors, str(error)]
    return []


async def test_a_client_logs_in_with_a_token(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(jwks(OLD))
    tokens = Tokens(issuer="https://idp", audience=["kafka"], keys_file=str(file), clock_skew=1)
    authentication = Authentication(
        mechanisms=["OAUTHBEARER"], tokens=tokens, plain_without_tls=True, failure_delay=0.05
    )
    fixed = Addresses(mode="fixed")
    async with Broker() as broker, front(broker.address, addresses=fixed, authentication=authentication) as proxy:
        broker.brokers = [(0, "127.0.0.1", proxy.port)]
        assert await asyncio.to_thread(with_token, proxy.address, OLD, 60) == []
        assert proxy.total(Total.CLIENT_LOGINS_OK) >= 1
        assert "invalid_token" in " ".join(await asyncio.to_thread(with_token, proxy.address, OLD, -10))
        await proxy.until(lambda: not proxy.worker.links)
