"""Clients without SASL, through kproxy, at brokers that want it: kproxy logs in."""

import base64
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.conftest import Require
from tests.interop.clients import consumed
from tests.support import openbao
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.fixtures import started
from tests.support.kafka.jars import NEWEST, run_tool
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.openbao import OpenBao

pytestmark = pytest.mark.slow


def unsecured_token(left_s: float = 300) -> str:
    """A JWT without a signature, as these brokers take it, that ends in so many seconds."""
    claims = {"sub": USER, "iat": time.time() - 600, "exp": time.time() + left_s}
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({"alg": "none"}, claims))
    return ".".join(part.rstrip("=") for part in parts) + "."


def through(single: Cluster, folder: Path, mechanism: str, listener: str = "SASL", bao: OpenBao | None = None) -> Proxy:
    """A proxy that logs in, with a secret in a file or in OpenBao."""
    (folder / "password").write_text(unsecured_token() if mechanism == "OAUTHBEARER" else PASSWORD)
    login: dict[str, Any] = {"mechanism": mechanism, "password": f"file:{folder / 'password'}"}
    login |= {} if mechanism == "OAUTHBEARER" else {"username": USER}
    if bao is not None:
        (folder / "vault-token").write_text(bao.token)
        vault = {"url": bao.url, "token": f"file:{folder / 'vault-token'}"}
        login |= {"password": "vault:kproxy#password", "vault": vault}
    assert single.authority is not None
    tls = {"broker_tls": {"ca": single.authority.ca}} if listener == "SASL_TLS" else {}
    login |= {"cleartext": not tls}
    return Proxy(folder / "kproxy", [cluster(single.bootstrap(listener), login=login, **tls)]).start()


@pytest.mark.parametrize(
    ("mechanism", "listener"),
    [("SCRAM-SHA-256", "SASL"), ("SCRAM-SHA-512", "SASL_TLS"), ("PLAIN", "SASL_TLS"), ("OAUTHBEARER", "SASL")],
)
def test_records_of_clients_without_sasl(
    single: Cluster, tmp_path: Path, topic_name: str, mechanism: str, listener: str
) -> None:
    topic = single.topic(topic_name, 2)
    proxy = through(single, tmp_path, mechanism, listener)
    try:
        producer = Producer({"bootstrap.servers": proxy.bootstrap(), "enable.idempotence": True})
        for number in range(100):
            producer.produce(topic, str(number), partition=number % 2)
        assert producer.flush(30) == 0
        consumer = Consumer(
            {"bootstrap.servers": proxy.bootstrap(), "group.id": topic, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([topic])
        values = {message.value() for message in consumer.consume(100, 30)}
        consumer.close()
        assert values == {str(number).encode() for number in range(100)}
        assert proxy.count("kproxy_broker_logins_total") >= 3
        assert proxy.count("kproxy_broker_login_failures_total") == 0
        for secret in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()):
            assert secret not in proxy.log.read_text() + proxy.get("/config")[1] + proxy.get("/metrics")[1]
    finally:
        proxy.close()


@pytest.mark.parametrize("in_vault", [False, True], ids=["file", "vault"])
def test_short_sessions_under_load_while_the_password_changes(
    kafka: None, tmp_path: Path, require: Require, in_vault: bool
) -> None:
    """Sessions of two seconds (KIP-368), an idempotent producer, and every secret rotated: no record is lost or there twice."""
    require("openbao", not in_vault or openbao.missing() is None, openbao.missing() or "")
    extra = {"connections.max.reauth.ms": "2000"}
    (tmp_path / "kafka").mkdir()
    brokers = started(tmp_path / "kafka", NEWEST, secure=True, extra=extra)
    bao = OpenBao(tmp_path).start() if in_vault else None
    if bao is not None:
        bao.put("kproxy", password=PASSWORD)
    proxy = through(brokers, tmp_path, "SCRAM-SHA-256", bao=bao)
    try:
        topic = brokers.topic("sessions", 2)
        failed: list[object] = []
        producer = Producer({"bootstrap.servers": proxy.bootstrap(), "enable.idempotence": True, "linger.ms": 2})
        sent = 0
        until = time.monotonic() + 12
        rotated_at = time.monotonic() + 4
        while time.monotonic() < until:
            producer.produce(
                topic,
                str(sent),
                partition=sent % 2,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            sent += 1
            producer.poll(0.001)
            if rotated_at and time.monotonic() > rotated_at:
                rotated_at = 0
                change = "SCRAM-SHA-256=[password=another-secret]"
                words = f"--alter --entity-type users --entity-name {USER} --add-config {change}".split()
                run_tool(NEWEST, "kafka.admin.ConfigCommand", "--bootstrap-server", brokers.open, *words)
                (tmp_path / "password").write_text("another-secret")
                if bao is not None:
                    bao.put("kproxy", password="another-secret")
        assert producer.flush(30) == 0 and failed == []
        values = Counter(value for _, _, _, value in consumed(brokers, topic))
        assert values == Counter(str(number).encode() for number in range(sent))
        assert proxy.count("kproxy_broker_logins_total") > 8
        said = proxy.log.read_text() + proxy.get("/config")[1]
        assert not [secret for secret in ("another-secret", OpenBao.token) if secret in said]
    finally:
        proxy.close()
        brokers.close()
        if bao is not None:
            bao.stop()
