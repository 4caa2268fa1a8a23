"""Idempotent load while sessions of both sides end every ten seconds, every secret is rotated and workers are killed.

Three producers: by SCRAM and by OAUTHBEARER through a cluster that logs in to the broker by SCRAM, with a password in OpenBao;
by SCRAM through one that logs in by OAUTHBEARER. At the end each record is there once, and a client that does not log in has got
no answer. KPROXY_ENDURANCE_S is how long, in seconds.
"""

import contextlib
import os
import signal
import socket
import threading
import time
from collections import Counter
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.conftest import Require
from tests.proxy.test_client_logins import write_users
from tests.support import openbao
from tests.support.identity_provider import AUDIENCE, IdentityProvider
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.fixtures import started
from tests.support.kafka.jars import NEWEST, run_tool
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.links import request
from tests.support.openbao import OpenBao
from tests.support.sockets import address, end_offsets

SECONDS = float(os.environ.get("KPROXY_ENDURANCE_S", "300"))
SESSION_S = 10
TOKEN_S = 200  # longer than the provider is away, so that clients have one
AWAY_S = min(60.0, SECONDS / 4)
PRODUCE, PARTITIONS = 0, 4
ELSEWHERE = "127.0.0.3"  # the stranger's address: its failures are not those of the others
pytestmark = [pytest.mark.long, pytest.mark.timeout(SECONDS + 600)]


class Load:
    """An idempotent producer in a thread; its values are its name and a number."""

    def __init__(self, name: str, topic: str, settings: dict[str, Any]) -> None:
        self.producer = Producer(
            {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 240_000, "log_level": 0, **settings}
        )
        self.sent = 0
        self.failed: list[str] = []
        self._name, self._topic = name, topic
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.producer.produce(self._topic, f"{self._name}-{self.sent}", on_delivery=self._delivered)
            self.sent += 1
            self.producer.poll(0.002)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self.failed.append(str(error))

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def end(self) -> Counter[str]:
        """Stop and flush; the values that were sent."""
        self.stop()
        assert self.producer.flush(240) == 0 and self.failed == []
        return Counter(f"{self._name}-{number}" for number in range(self.sent))


class Stranger:
    """A client that sends Produce and Metadata without a login, again and again; *answered*: to how many it got an answer."""

    def __init__(self, proxy: Proxy) -> None:
        self.tried = self.answered = 0
        self._where = address(proxy.bootstrap())
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        requests = [request(3, 1, 7, pack(">i", -1)), request(PRODUCE, 3, 8, pack(">hhii", -1, 1, 1_000, 0))]
        while not self._ends.wait(0.5):
            for frame in requests:
                try:
                    with socket.create_connection(self._where, 5, (ELSEWHERE, 0)) as client:
                        client.sendall(frame)
                        self.tried += 1
                        self.answered += bool(client.recv(100))
                except OSError:  # a worker was killed
                    pass

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()


def change_password(brokers: Cluster, user: str, password: str) -> None:
    words = f"--alter --entity-type users --entity-name {user} --add-config SCRAM-SHA-512=[password={password}]".split()
    run_tool(NEWEST, "kafka.admin.ConfigCommand", "--bootstrap-server", brokers.open, *words)


def replace(file: Path, text: str) -> None:
    beside = file.with_suffix(".new")
    beside.write_text(text)
    beside.rename(file)


def through(folder: Path, brokers: Cluster, provider: IdentityProvider, bao: OpenBao) -> Proxy:
    """A proxy with two workers whose clients log in by SCRAM or tokens, and that logs in by SCRAM, and by tokens."""
    write_users(folder / "users.json", scram="first", relay="first")
    bao.put("kafka/kproxy", password=PASSWORD)
    (folder / "vault-token").write_text(bao.token)
    (folder / "client-secret").write_text("first-client-secret")
    authentication = {
        "mechanisms": ["SCRAM-SHA-512", "OAUTHBEARER"],
        "users": str(folder / "users.json"),
        "tokens": {"issuer": provider.issuer, "audience": [AUDIENCE], "keys_url": provider.keys_url},
        "plain_without_tls": True,
        "session": SESSION_S,
    }
    vault = {"url": bao.url, "token": f"file:{folder / 'vault-token'}"}
    secret = "vault:kafka/kproxy#password"
    token = {"url": f"{provider.issuer}/token", "client_id": "k", "client_secret": f"file:{folder / 'client-secret'}"}
    logins = (
        {"mechanism": "SCRAM-SHA-512", "username": USER, "password": secret, "vault": vault},
        {"mechanism": "OAUTHBEARER", "token": {**token, "scope": AUDIENCE}, "cleartext": True},
    )
    served = [
        cluster(brokers.bootstrap("SASL"), name=login["mechanism"], authentication=authentication, login=login)
        for login in logins
    ]
    return Proxy(folder / "kproxy", served, workers=2).start()


def loads(proxy: Proxy, topic: str, provider: IdentityProvider) -> dict[str, Load]:
    base = {"bootstrap.servers": proxy.bootstrap(), "security.protocol": "SASL_PLAINTEXT"}

    def fetch(_: str) -> tuple[str, float]:
        token, lifetime_s = provider.token()
        return token, time.time() + lifetime_s

    words = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "scram", "sasl.password": "first"}
    bearer = Load("bearer", topic, {**base, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": fetch})
    relayed = {**base, **words, "sasl.username": "relay", "bootstrap.servers": proxy.bootstrap(1)}
    return {"scram": Load("scram", topic, {**base, **words}), "bearer": bearer, "relay": Load("relay", topic, relayed)}


def kill(proxy: Proxy, worker: int) -> None:
    """Kill a worker, and wait for the one in its place."""
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: len(now := proxy.workers()) == 2 and worker not in now, what="the worker is started again")


def rotate_all(
    folder: Path, proxy: Proxy, brokers: Cluster, provider: IdentityProvider, bao: OpenBao, made: dict[str, Load]
) -> int:
    """Rotate every secret, stop the provider for a while, and kill a worker every 20 seconds; return how many."""
    begun, killed = time.monotonic(), 0

    def until(share: float) -> None:
        nonlocal killed
        while time.monotonic() < begun + share * SECONDS:
            if time.monotonic() > begun + 20 * (killed + 1):
                kill(proxy, proxy.workers()[killed % 2])
                killed += 1
            time.sleep(0.2)

    until(0.15)
    change_password(brokers, USER, "second-of-kproxy")  # kproxy's own at the broker
    bao.put("kafka/kproxy", password="second-of-kproxy")
    replace(folder / "client-secret", "second-client-secret")
    until(0.3)
    write_users(folder / "users.new", scram="second", relay="second")  # the clients' at kproxy
    (folder / "users.new").rename(folder / "users.json")
    for name in ("scram", "relay"):
        made[name].producer.set_sasl_credentials(name, "second")
    bao.stop()  # what kproxy knows serves on, but a worker that is started waits for it
    until(0.35)
    bao.start()
    bao.put("kafka/kproxy", password="second-of-kproxy")
    until(0.4)
    provider.stop()
    until(0.4 + AWAY_S / SECONDS)
    provider.start()  # with another key
    until(1)
    return killed


def values_of(brokers: Cluster, topic: str) -> Counter[str]:
    """What is in the topic."""
    consumer = Consumer({"bootstrap.servers": brokers.open, "group.id": "all", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: Counter[str] = Counter()
    ends = sum(end_offsets(brokers.open, topic).values())
    patience = time.monotonic() + 120
    while sum(got.values()) < ends and time.monotonic() < patience:
        got.update((message.value() or b"").decode() for message in consumer.consume(5_000, 5) if not message.error())
    consumer.close()
    return got


def tokens_at_the_broker(provider: IdentityProvider, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Settings by which a broker believes the tokens of the provider, and asks for its keys often."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.keys_url}"
    patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {allowed}")
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    return {
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": handler,
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "5000",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }


def test_no_record_is_lost_or_there_twice(
    kafka: None, require: Require, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("openbao", openbao.missing() is None, openbao.missing() or "")
    (tmp_path / "kafka").mkdir()
    with contextlib.ExitStack() as stack:
        provider = IdentityProvider(tmp_path, "bearer", TOKEN_S).start()
        stack.callback(provider.stop)
        bao = OpenBao(tmp_path).start()
        stack.callback(bao.stop)
        extra = {"connections.max.reauth.ms": str(SESSION_S * 1_000), **tokens_at_the_broker(provider, monkeypatch)}
        brokers = started(tmp_path / "kafka", NEWEST, secure=True, extra=extra)
        stack.callback(brokers.close)
        proxy = through(tmp_path, brokers, provider, bao)
        stack.callback(proxy.close)
        topic = brokers.topic("endured", PARTITIONS)
        made = loads(proxy, topic, provider)
        stranger = Stranger(proxy)
        for each in (*made.values(), stranger):
            stack.callback(each.stop)
        killed = rotate_all(tmp_path, proxy, brokers, provider, bao, made)
        sent = sum((each.end() for each in made.values()), Counter[str]())
        stranger.stop()
        got = values_of(brokers, topic)
        logins = [proxy.count(f"kproxy_{side}_logins_total") for side in ("client", "broker")]
        repeated = proxy.count("kproxy_client_logins_total", "repeated")
        counts = ", ".join(f"{name} {each.sent}" for name, each in made.items())
        print(f"{counts}; {killed} kills, {stranger.tried} without a login, logins {logins}, again {repeated}")
        assert got == sent
        assert stranger.tried > SECONDS / 5 and stranger.answered == 0
        assert killed >= SECONDS // 30 and min(logins) > SECONDS / SESSION_S
        for secret in ("second-of-kproxy", PASSWORD, "eyJ", bao.token, "client-secret"):
            assert secret not in proxy.log.read_text()
