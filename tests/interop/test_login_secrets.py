"""Secrets of logins on both sides are in nothing that kproxy writes or answers, nor in the memory of what writes it.

A worker has them while it needs them: a dump of its memory is as secret as they are.
"""

import json
import time
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.authentication.test_tokens import JWKS, signed
from tests.proxy.test_client_logins import write_users
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]
OF_OLGA, WRONG = "canary-of-the-password-of-olga", "canary-of-a-wrong-password"
PAGES = ("/config", "/metrics", "/connections", "/filters", "/readyz", "/")


def memory_of(pid: int) -> bytes:
    """What a core of the process would have: its writable memory."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, permissions = line.split()[:2]
            start, end = (int(one, 16) for one in where.split("-"))
            if permissions.startswith("rw") and "[v" not in line:
                memory.seek(start)
                try:
                    found.append(memory.read(end - start))
                except OSError:  # it has gone meanwhile
                    continue
    return b"".join(found)


def topics(proxy: Proxy, mechanism: str, password: str, timeout: float = 20) -> int:
    settings: dict[str, Any] = {"bootstrap.servers": proxy.bootstrap(), "security.protocol": "SASL_PLAINTEXT"}
    settings |= {"sasl.mechanism": mechanism, "log_level": 0}
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (password, time.time() + 300)
    else:
        settings |= {"sasl.username": "olga", "sasl.password": password}
    client = AdminClient(settings)
    client.poll(0)
    return len(client.list_topics(timeout=timeout).brokers)


def test_they_are_in_no_output(single: Cluster, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(JWKS))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "password").write_text(PASSWORD)
    ends_at = int(time.time()) + 300
    token, bad = (
        signed(claims={"iss": "https://idp", "aud": one, "sub": "tom", "exp": ends_at}) for one in ("kafka", "x")
    )
    authentication = {
        "mechanisms": ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"],
        "users": write_users(tmp_path / "users.json", olga=OF_OLGA),
        "tokens": {"issuer": "https://idp", "audience": ["kafka"], "keys_file": str(tmp_path / "keys.json")},
        "plain_without_tls": True,
    }
    secret = f"file:{tmp_path / 'secrets' / 'password'}"
    login = {"mechanism": "PLAIN", "username": USER, "password": secret, "cleartext": True}
    filters = [{"use": "audit", "with": {"file": {"path": str(tmp_path / "audit.jsonl")}}}]
    served = cluster(single.bootstrap("SASL"), authentication=authentication, login=login, filters=filters)
    analysis = {"log": {"path": str(tmp_path / "log.jsonl")}, "capture": {"path": str(tmp_path / "traffic.pcapng")}}
    proxy = Proxy(tmp_path / "proxy", [served], analysis=analysis).start()
    try:
        for mechanism, good, wrong in (
            ("PLAIN", OF_OLGA, WRONG),
            ("SCRAM-SHA-256", OF_OLGA, WRONG),
            ("OAUTHBEARER", token, bad),
        ):
            assert topics(proxy, mechanism, good) == 1
            with pytest.raises(KafkaException):
                topics(proxy, mechanism, wrong, 2)
        (tmp_path / "secrets" / "password").write_text("canary-of-another-password")
        with pytest.raises(KafkaException):  # the broker refuses kproxy
            topics(proxy, "SCRAM-SHA-256", OF_OLGA, 3)
        eventually(lambda: (tmp_path / "log.jsonl").read_bytes().count(b"SaslAuthenticate") >= 3, what="the log")
        memory = {"analyzer": memory_of(proxy.named("analyzer")[0]), "supervisor": memory_of(proxy.process.pid)}
        outputs = {page: proxy.get(page, but=(404, 503))[1].encode() for page in PAGES}
    finally:
        proxy.close()
    outputs |= {
        str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file.parent.name != "secrets"
    }
    assert b"olga" in memory["analyzer"]  # so it is the memory that was read
    assert any("audit" in name and b"olga" in data for name, data in outputs.items())
    assert any(name.endswith("pcapng") and b"olga" in data for name, data in outputs.items())
    signatures = [one.rpartition(".")[2] for one in (token, bad)]  # without it a token is of no use
    for canary in (OF_OLGA, WRONG, PASSWORD, "canary-of-another-password", *signatures):
        for spelling in (canary.encode(), b64encode(canary.encode()).rstrip(b"=")):
            assert [name for name, data in (outputs | memory).items() if spelling in data] == []
