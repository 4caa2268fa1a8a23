"""Kerberos on both sides of kproxy: clients with tickets for kproxy, and kproxy with a ticket for a Java broker."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Require
from tests.interop.clients import Aiokafka, Client, Java, KafkaPython, values
from tests.support import kerberos
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance, started
from tests.support.kafka.jars import NEWEST, close_tools
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.kafka.security import Security
from tests.support.kerberos import NAME, Realm
from tests.support.sockets import end_offsets

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # of kafka-python
COUNT = 200
BROKER = "kafka/127.0.0.2"  # as its gates are addressed
OWN = ("kafka/localhost", "kafka/127.0.0.1")  # of kproxy: Java looks up the name of the address, others do not
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


def jaas(principal: str, keytab: str) -> str:
    return f'{MODULE} keyTab="{keytab}" principal="{principal}@{NAME}";'


class Tickets(Security):
    """A client with a keytab; kafka-python and aiokafka find it by KRB5_CLIENT_KTNAME."""

    keytab = ""

    def java(self) -> dict[str, str]:
        login = {"sasl.kerberos.service.name": "kafka", "sasl.jaas.config": jaas("alice", self.keytab)}
        return {**super().java(), **login}

    def kafka_python(self) -> dict[str, Any]:
        words = {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "kafka"}
        return {"security_protocol": self.protocol, **words}

    def aiokafka(self) -> dict[str, Any]:
        return self.kafka_python()


@pytest.fixture(scope="module")
def realm(require: Require, kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    reason = kerberos.missing()
    require("kerberos", reason is None, reason or "")
    with pytest.MonkeyPatch.context() as patch, kerberos.running(tmp_path_factory.mktemp("kdc") / "realm") as made:
        close_tools()  # those that run know no realm
        for name, value in made.environment.items():
            patch.setenv(name, value)
        Tickets.keytab = made.keytab("alice")
        patch.setenv("KRB5_CLIENT_KTNAME", Tickets.keytab)
        patch.setenv("KRB5CCNAME", f"FILE:{made.folder}/tickets")
        patch.setenv("JAVA_TOOL_OPTIONS", made.java_options[0])
        yield made
        close_tools()


@pytest.fixture(scope="module")
def brokers(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker whose listener SASL wants Kerberos."""
    extra = {
        "listener.name.sasl.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.sasl.gssapi.sasl.jaas.config": jaas(BROKER, realm.keytab(BROKER)),
        "sasl.kerberos.service.name": "kafka",
        "super.users": "User:ANONYMOUS;User:kproxy",
        "allow.everyone.if.no.acl.found": "false",
        "connections.max.reauth.ms": "4000",
    }
    made = started(tmp_path_factory.mktemp("kafka"), NEWEST, secure=True, extra=extra)
    yield made
    made.close()


@pytest.fixture(scope="module")
def proxy(brokers: Cluster, realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    authentication = {"mechanisms": ["GSSAPI"], "kerberos": {"keytab": realm.keytab(*OWN)}, "session": 3}
    login = {"mechanism": "GSSAPI", "username": "kproxy", "password": f"file:{realm.keytab('kproxy')}"}
    served = virtual_cluster(brokers.bootstrap("SASL"), authentication=authentication, login=login)
    made = Proxy(tmp_path_factory.mktemp("proxy"), [served])
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize("client", [Java(), KafkaPython(), Aiokafka()], ids=lambda client: client.name)
def test_there_and_back(brokers: Cluster, proxy: Proxy, client: Client, topic_name: str) -> None:
    """The broker lets in the user kproxy only, and kproxy those with a ticket."""
    entrance = Entrance(brokers, proxy.bootstrap(), Tickets("SASL_PLAINTEXT", "GSSAPI"), proxy)
    brokers.topic(topic_name)
    before = proxy.count("kproxy_client_logins_total", "ok")
    assert client.produce(entrance, topic_name, COUNT) == COUNT
    assert end_offsets(brokers.open, topic_name) == {0: COUNT}
    assert client.consume(entrance, topic_name, COUNT) == values(COUNT)
    assert proxy.count("kproxy_client_logins_total", "ok") >= before + 2
    assert proxy.count("kproxy_broker_login_failures_total") == 0
    eventually(lambda: proxy.count("kproxy_principal_requests_total", "alice") > 0, what="her requests are counted")


def test_the_broker_itself_lets_alice_write_nothing(brokers: Cluster, topic_name: str) -> None:
    """So what she writes above, the user of kproxy has written."""
    entrance = Entrance(brokers, brokers.bootstrap("SASL")[0], Tickets("SASL_PLAINTEXT", "GSSAPI"))
    brokers.topic(topic_name)
    assert Java().produce(entrance, topic_name, 1) == 0
    assert end_offsets(brokers.open, topic_name) == {0: 0}
