"""Rules, limits and lines about clients that have logged in to kproxy, and the APIs of the broker's own users."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic, ScramMechanism

from kproxy.authentication.users import UsersFile
from tests.authentication.test_tokens import JWKS, signed
from tests.proxy.test_client_logins import write_users
from tests.support.kafka.brokers import USER, Cluster
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]
WHEN = 'apiName == "CreateTopics" && !("ops" in principalGroups) && !(has(claims.tenant) && claims.tenant == "a")'
RATE, REQUESTS = 1, 4  # of bob in a second; and how many are made
NAMES = ("olga", "bob", "tom", "eve")


@pytest.fixture(scope="module")
def proxy(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Its first cluster hides the broker's users, its second passes them."""
    folder = tmp_path_factory.mktemp("rules")
    users = Path(write_users(folder / "users.json", olga="o", bob="b"))
    file = msgspec.json.decode(users.read_bytes(), type=UsersFile)
    file.users["olga"].groups = ["ops"]
    users.write_bytes(msgspec.json.encode(file))
    (folder / "keys.json").write_text(json.dumps(JWKS))
    authentication = {
        "mechanisms": ["SCRAM-SHA-256", "OAUTHBEARER"],
        "users": str(users),
        "tokens": {"issuer": "https://idp", "audience": ["kafka"], "keys_file": str(folder / "keys.json")},
        "plain_without_tls": True,
    }
    filters = [
        {"use": "audit", "with": {"file": {"path": str(folder / "audit.jsonl")}}},
        {"use": "deny", "with": {"rules": [{"when": WHEN}]}},
        {"use": "throttle", "with": {"limits": [{"by": "principal", "match": "bob", "requests": RATE}]}},
    ]
    served = [
        cluster(single.bootstrap("PLAIN"), name=name, authentication={**authentication, "broker_users": name}, **more)
        for name, more in (("hide", {"filters": filters}), ("pass", {}))
    ]
    made = Proxy(folder / "proxy", served)
    made.start()
    yield made
    made.close()


def admin(proxy: Proxy, name: str, number: int = 0) -> AdminClient:
    """A client: olga and bob by password, tom and eve by tokens, tom's with the claim tenant."""
    words: dict[str, Any] = {"bootstrap.servers": proxy.bootstrap(number), "security.protocol": "SASL_PLAINTEXT"}
    if name in ("olga", "bob"):
        words |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": name, "sasl.password": name[0]}
    else:
        ends = int(time.time()) + 600
        claims = {"iss": "https://idp", "aud": "kafka", "sub": name, "exp": ends, "tenant": "ab"[name == "eve"]}
        words |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (signed(claims=claims), float(ends))}
    client = AdminClient(words)
    client.poll(0)  # asks for the token
    return client


def test_rules_by_group_and_claim_limits_by_principal(proxy: Proxy, topic_name: str) -> None:
    outcomes, took = {}, {}
    for name in NAMES:
        client = admin(proxy, name)  # it ends with its last reference
        [made] = client.create_topics([NewTopic(f"{topic_name}-{name}", 1)], request_timeout=20).values()
        try:
            made.result()
            outcomes[name] = None
        except KafkaException as error:
            outcomes[name] = error.args[0].code()
        began = time.monotonic()
        for _ in range(REQUESTS):
            client.list_topics(timeout=30)
        took[name] = time.monotonic() - began
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert outcomes == {"olga": None, "bob": refused, "tom": None, "eve": refused}
    eventually(
        lambda: all(proxy.count("kproxy_principal_requests_total", f'"{name}"') > 0 for name in NAMES), what="counts"
    )
    assert took["bob"] > (REQUESTS - 1) / RATE - 0.5 > took["olga"]
    audited = proxy.file.parent.parent / "audit-0.jsonl"
    lines = [
        json.loads(line) for file in audited.parent.glob("audit-*.jsonl") for line in file.read_text().splitlines()
    ]
    found = {(line["principal"], line["mechanism"]) for line in lines if line.get("api") == "CreateTopics"}
    assert found == {
        ("olga", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-256"), ("tom", "OAUTHBEARER"), ("eve", "OAUTHBEARER"),
    }  # fmt: skip


def test_the_brokers_own_users(proxy: Proxy) -> None:
    """Hidden from clients, which then do not ask; passed by an explicit word."""
    hiding, passing = admin(proxy, "olga"), admin(proxy, "olga", 1)
    with pytest.raises(KafkaException) as hidden:
        hiding.describe_user_scram_credentials([USER], request_timeout=10)[USER].result()
    assert hidden.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
    found = passing.describe_user_scram_credentials([USER], request_timeout=20)[USER].result()
    assert {one.mechanism for one in found.scram_credential_infos} == {
        ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512,
    }  # fmt: skip
