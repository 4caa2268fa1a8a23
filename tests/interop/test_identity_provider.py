"""Java, librdkafka and franz-go have tokens of an identity provider and log in to kproxy with them; the broker wants no login."""

import os
import shutil
import signal
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from tests.conftest import Require
from tests.interop.clients import Client, Java, Librdkafka, values
from tests.interop.test_client_logins import produced_by_franz_go
from tests.support.identity_provider import AUDIENCE, IdentityProvider
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST, close_tools
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import Security
from tests.support.sockets import end_offsets

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]
COUNT = 200
OAUTH = "org.apache.kafka.common.security.oauthbearer"


class Tokens(Security):
    """A client that gets its tokens by client credentials."""

    endpoint = ""
    provider: IdentityProvider

    def java(self) -> dict[str, str]:
        module = f"{OAUTH}.OAuthBearerLoginModule required"
        return {
            **super().java(),
            "sasl.jaas.config": f'{module} clientId="client" clientSecret="secret" scope="{AUDIENCE}";',
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self.endpoint,
        }

    def librdkafka(self) -> dict[str, object]:
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "client",
            "sasl.oauthbearer.client.secret": "secret",
            "sasl.oauthbearer.scope": AUDIENCE,
            "sasl.oauthbearer.token.endpoint.url": self.endpoint,
        }

    def go(self) -> dict[str, str]:
        return super().go() | {"password": self.provider.token()[0]}


@pytest.fixture(scope="module")
def proxy(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("tokens")
    provider = IdentityProvider(folder, "alice", 300).start()
    Tokens.provider = provider
    Tokens.endpoint = f"{provider.issuer}/token"
    tokens = {"issuer": provider.issuer, "audience": [AUDIENCE], "keys_url": provider.keys_url}
    authentication = {"mechanisms": ["OAUTHBEARER"], "tokens": tokens, "plain_without_tls": True, "session": 2}
    made = Proxy(folder / "proxy", [virtual_cluster(single.bootstrap("PLAIN"), authentication=authentication)])
    with pytest.MonkeyPatch.context() as patch:
        close_tools()  # those that run may fetch no tokens
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={Tokens.endpoint}")
        made.start()
        yield made
        close_tools()
    made.close()
    provider.stop()


@pytest.mark.parametrize("client", [Java(), Librdkafka()], ids=lambda client: client.name)
def test_there_and_back(single: Cluster, proxy: Proxy, client: Client, topic_name: str) -> None:
    entrance = Entrance(single, proxy.bootstrap(), Tokens("SASL_PLAINTEXT", "OAUTHBEARER"), proxy)
    single.topic(topic_name)
    before = proxy.count("kproxy_client_logins_total", "ok")
    assert client.produce(entrance, topic_name, COUNT) == COUNT
    assert end_offsets(single.open, topic_name) == {0: COUNT}
    assert client.consume(entrance, topic_name, COUNT) == values(COUNT)
    assert proxy.count("kproxy_client_logins_total", "ok") >= before + 2
    assert "eyJ" not in proxy.log.read_text()


def test_franz_go(single: Cluster, proxy: Proxy, topic_name: str, require: Require) -> None:
    require("go", shutil.which("go"), "there is no Go")
    single.topic(topic_name)
    produced_by_franz_go(single, proxy, topic_name, Tokens("SASL_PLAINTEXT", "OAUTHBEARER"))


def test_a_worker_that_is_started_while_the_provider_is_away(proxy: Proxy) -> None:
    """It has the keys that the worker before it was told."""
    provider = Tokens.provider
    token, lifetime_s = provider.token()
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}

    def topics() -> int:
        ends_at = time.time() + lifetime_s
        client = AdminClient({"bootstrap.servers": proxy.bootstrap(), **login, "oauth_cb": lambda _: (token, ends_at)})
        client.poll(0)  # asks for the token
        return len(client.list_topics(timeout=20).topics)

    assert topics() > 0
    provider.stop()
    try:
        before = proxy.workers()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(set(proxy.workers()) - set(before)) == len(before), what="workers are started again")
        assert topics() > 0
    finally:
        provider.start()
