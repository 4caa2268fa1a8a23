"""Clients × what they log in to kproxy with × what kproxy logs in to the broker with, each pair by a load of its own.

The default of slow tests has each client with each of its mechanisms once, and each mechanism at the broker; all of them, and the
table, which is printed at the end:

    python -m pytest -q -s -n 0 -m '' tests/interop/test_login_matrix.py

A dash: not tried, as the wheel of librdkafka and franz-go in the program of tests/truth/go have no GSSAPI; that of sarama is as
of Kafka 0.9, without SaslHandshake, which brokers refuse from 4.0 on, and kproxy too.
"""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.authentication.test_tokens import JWKS, signed
from tests.conftest import Require
from tests.interop import clients
from tests.interop.clients import Client, Go, Java, KafkaPython, Librdkafka
from tests.interop.test_broker_logins import unsecured_token
from tests.interop.test_kerberos import BROKER, OWN, Tickets, jaas, realm
from tests.proxy.test_client_logins import write_users
from tests.support.certificates import Authority
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.fixtures import Entrance, started
from tests.support.kafka.jars import NEWEST, close_tools
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.security import Security
from tests.support.kerberos import Realm
from tests.support.sockets import end_offsets

__all__ = ["realm"]
COUNT = 20
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OF_CLIENTS = (*PASSWORDS, "OAUTHBEARER", "GSSAPI", "certificate")
OF_BROKERS = ("none", *OF_CLIENTS)
CANNOT = {("librdkafka", "GSSAPI"), ("franz-go", "GSSAPI"), ("sarama", "GSSAPI")}
OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKEN_FILES = "org.apache.kafka.sasl.oauthbearer.allowed"


class Tokens(Security):
    """A client with a token in a file."""

    file: Path

    def java(self) -> dict[str, str]:
        return {
            **super().java(),
            "sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self.file.as_uri(),
        }

    def librdkafka(self) -> dict[str, Any]:
        token = self.file.read_text(), time.time() + 3_600
        return {"security.protocol": self.protocol, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: token}

    def go(self) -> dict[str, str]:
        return super().go() | {"password": self.file.read_text()}


CLIENTS: tuple[Client | Go, ...] = (Java(), Librdkafka(), KafkaPython(), Go("franz-go"), Go("sarama"))
found: dict[tuple[str, str, str], str] = {}


def pairs() -> list[Any]:
    """All that clients can; those of one diagonal are slow, all others long."""
    return [
        pytest.param(client, own, theirs, id=f"{client.name}-{own}-{theirs}", marks=getattr(pytest.mark, kind))
        for which, client in enumerate(CLIENTS)
        for row, own in enumerate(OF_CLIENTS)
        for column, theirs in enumerate(OF_BROKERS)
        if (client.name, own) not in CANNOT
        for kind in ["slow" if (row + 2 * which) % len(OF_BROKERS) == column else "long"]
    ]


@pytest.fixture(scope="module")
def brokers(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that takes each mechanism; tokens without a signature, as Kafka's own handler does."""
    extra = {
        "listener.name.sasl.sasl.enabled.mechanisms": ",".join((*PASSWORDS, "OAUTHBEARER", "GSSAPI")),
        "listener.name.sasl.gssapi.sasl.jaas.config": jaas(BROKER, realm.keytab(BROKER)),
        "sasl.kerberos.service.name": "kafka",
    }
    made = started(tmp_path_factory.mktemp("kafka"), NEWEST, secure=True, extra=extra)
    yield made
    made.close()


def logins(folder: Path, brokers: Cluster, realm: Realm) -> dict[str, dict[str, Any]]:
    """Settings of a virtual cluster by how kproxy logs in to the broker."""
    assert brokers.authority is not None
    certificate, key = brokers.authority.issue_for("kproxy")
    (folder / "password").write_text(PASSWORD)
    (folder / "unsecured").write_text(unsecured_token())
    found: dict[str, dict[str, Any]] = {"none": {}}
    for name in PASSWORDS:
        found[name] = {"mechanism": name, "username": USER, "password": f"file:{folder}/password", "cleartext": True}
    found["OAUTHBEARER"] = {"mechanism": "OAUTHBEARER", "password": f"file:{folder}/unsecured", "cleartext": True}
    found["GSSAPI"] = {"mechanism": "GSSAPI", "username": "kproxy", "password": f"file:{realm.keytab('kproxy')}"}
    made = {name: {"login": login} if login else {} for name, login in found.items()}
    tls = {"ca": brokers.authority.ca, "certificate": str(certificate), "key": str(key)}
    return {**made, "certificate": {"broker_tls": tls}}


@pytest.fixture(scope="module")
def entrances(
    brokers: Cluster, realm: Realm, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Entrance]]:
    """kproxy with two virtual clusters for each way to log in to the broker: with passwords and tokens, with certificates."""
    folder = tmp_path_factory.mktemp("proxy")
    Tokens.file = folder / "token.jwt"
    claims = {
        "iss": "https://idp",
        "aud": "kafka",
        "sub": USER,
        "iat": int(time.time()),
        "exp": int(time.time()) + 3_600,
    }
    Tokens.file.write_text(signed(claims=claims))
    (folder / "keys.json").write_text(json.dumps(JWKS))
    own = Authority("proxy", folder / "pki")
    server, client = own.issue_for("kproxy"), own.issue_for("client")
    authentication = {
        "mechanisms": [*PASSWORDS, "OAUTHBEARER", "GSSAPI"],
        "users": write_users(folder / "users.json", **{USER: PASSWORD}),
        "tokens": {"issuer": "https://idp", "audience": ["kafka"], "keys_file": str(folder / "keys.json")},
        "kerberos": {"keytab": realm.keytab(*OWN)},
        "plain_without_tls": True,
    }
    tls = {"certificate": str(server[0]), "key": str(server[1]), "client_ca": own.ca, "client_auth": "required"}
    served = []
    for number, (theirs, words) in enumerate(logins(folder, brokers, realm).items()):
        where = brokers.bootstrap({"none": "PLAIN", "certificate": "MUTUAL"}.get(theirs, "SASL"))
        by_certificate = {"listener_tls": tls, "authentication": {"certificates": "RULE:^CN=(.*?)$/$1/,DEFAULT"}}
        served.append(cluster(where, name=f"in-{number}", authentication=authentication, **words))
        served.append(cluster(where, name=f"tls-{number}", **by_certificate, **words))
    proxy = Proxy(folder / "kproxy", served)

    def entrance(own_mechanism: str, theirs: str) -> Entrance:
        by_certificate = own_mechanism == "certificate"
        kind = {"OAUTHBEARER": Tokens, "GSSAPI": Tickets}.get(own_mechanism, Security)
        security = (
            Security("SSL", None, Path(own.ca), *client) if by_certificate else kind("SASL_PLAINTEXT", own_mechanism)
        )
        return Entrance(brokers, proxy.bootstrap(2 * OF_BROKERS.index(theirs) + by_certificate), security, proxy)

    with pytest.MonkeyPatch.context() as patch:
        close_tools()  # those that run may read no token
        allowed = f"-D{TOKEN_FILES}.urls={Tokens.file.as_uri()} -D{TOKEN_FILES}.files={Tokens.file}"
        patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ['JAVA_TOOL_OPTIONS']} {allowed}")
        patch.setattr(clients.KafkaPythonTokens, "token", lambda _: Tokens.file.read_text())
        proxy.start()
        yield entrance
        close_tools()
    proxy.close()
    print(table())


def table() -> str:
    """What was found: a row for each client and its mechanism, a column for each of the broker."""
    lines = [" " * 27 + "".join(f"{name:<15}" for name in OF_BROKERS)]
    for client in CLIENTS:
        for own in OF_CLIENTS:
            missing = "-" if (client.name, own) in CANNOT else ""
            cells = (found.get((client.name, own, theirs), missing) for theirs in OF_BROKERS)
            lines.append(f"{client.name:<13}{own:<14}" + "".join(f"{cell:<15}" for cell in cells))
    return "\n" + "\n".join(lines)


@pytest.mark.filterwarnings("default")  # of kafka-python
@pytest.mark.parametrize(("client", "own", "theirs"), pairs())
def test_records_arrive(
    brokers: Cluster,
    entrances: Callable[[str, str], Entrance],
    client: Client,
    own: str,
    theirs: str,
    topic_name: str,
    require: Require,
) -> None:
    if isinstance(client, Go):
        require("go", shutil.which("go"), "there is no Go")
    entrance = entrances(own, theirs)
    assert entrance.proxy is not None
    before = entrance.proxy.count("kproxy_client_logins_total", "ok")
    found[client.name, own, theirs] = "fails"
    brokers.topic(topic_name)
    acknowledged = client.produce(entrance, topic_name, COUNT)
    assert acknowledged >= COUNT and end_offsets(brokers.open, topic_name) == {0: acknowledged}
    assert entrance.proxy.count("kproxy_client_logins_total", "ok") > before
    assert entrance.proxy.count("kproxy_broker_login_failures_total") == 0
    found[client.name, own, theirs] = "ok"
