"""Java's admin client asks kproxy about the brokers' own users: SCRAM credentials and delegation tokens, hidden and passed."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from tests.proxy.test_client_logins import write_users
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.fixtures import started
from tests.support.kafka.jars import NEWEST, properties_file, run_tool
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.security import Security

pytestmark = pytest.mark.slow
HIDING, PASSING = 0, 1
CONFIGS, TOKENS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools.DelegationTokenCommand"
OF_EVE = "--entity-type users --entity-name eve"
OF_USER = f"--describe --owner-principal User:{USER}"  # of Kafka's tool "current user" means: of nobody
NOT_OFFERED = "UnsupportedVersionException"


@pytest.fixture(scope="module")
def brokers(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    extra = {"delegation.token.secret.key": "canary-of-the-master-key"}
    made = started(tmp_path_factory.mktemp("kafka"), NEWEST, secure=True, extra=extra)
    yield made
    made.close()


@pytest.fixture(scope="module")
def proxy(brokers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Clients log in to it by SCRAM, and it to the broker: there it is the broker's user that makes and asks."""
    folder = tmp_path_factory.mktemp("users")
    (folder / "password").write_text(PASSWORD)
    users = write_users(folder / "users.json", **{USER: PASSWORD})
    login = {"mechanism": "SCRAM-SHA-512", "username": USER, "password": f"file:{folder / 'password'}"}
    served = []
    for broker_users in ("hide", "pass"):
        authentication = {"mechanisms": ["SCRAM-SHA-256"], "users": users, "broker_users": broker_users}
        at = brokers.bootstrap("SASL")
        served.append(cluster(at, name=broker_users, authentication=authentication, login=login))
    made = Proxy(folder / "proxy", served).start()
    yield made
    made.close()


def ask(proxy: Proxy, number: int, tool: str, words: str) -> str:
    """What a tool of Kafka prints. Raises AssertionError with what it complains of."""
    with properties_file(Security("SASL_PLAINTEXT", "SCRAM-SHA-256").java()) as file:
        where = ["--bootstrap-server", proxy.bootstrap(number), "--command-config", file]
        return run_tool(NEWEST, tool, *where, *words.split())


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (CONFIGS, f"--describe {OF_EVE}"),
        (CONFIGS, f"--alter {OF_EVE} --add-config SCRAM-SHA-256=[password=of-eve]"),
        (TOKENS, "--create --max-life-time-period -1"),
        (TOKENS, "--describe"),
        (TOKENS, "--renew --renew-time-period -1 --hmac AAAA"),
        (TOKENS, "--expire --expiry-time-period -1 --hmac AAAA"),
    ],
)
def test_they_are_not_offered(proxy: Proxy, tool: str, words: str) -> None:
    with pytest.raises(AssertionError, match=NOT_OFFERED):
        ask(proxy, HIDING, tool, words)


def test_credentials_are_altered_and_described_where_they_are_passed(brokers: Cluster, proxy: Proxy) -> None:
    ask(proxy, PASSING, CONFIGS, f"--alter {OF_EVE} --add-config SCRAM-SHA-256=[password=of-eve]")
    assert "SCRAM-SHA-256=iterations=4096" in ask(proxy, PASSING, CONFIGS, f"--describe {OF_EVE}")
    login = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "eve", "sasl.password": "of-eve"}
    where = {"bootstrap.servers": brokers.bootstrap("SASL")[0], "security.protocol": "SASL_PLAINTEXT"}
    assert AdminClient({**where, **login}).list_topics(timeout=20).brokers  # the broker knows her now
    where["bootstrap.servers"] = proxy.bootstrap(PASSING)
    stranger = AdminClient({**where, **login, "log_level": 0})
    with pytest.raises(Exception, match="_TRANSPORT"):  # kproxy does not
        stranger.list_topics(timeout=2)


def test_tokens_are_made_renewed_described_and_ended_where_they_are_passed(proxy: Proxy) -> None:
    made = ask(proxy, PASSING, TOKENS, "--create --max-life-time-period -1")
    row = next(line for line in made.splitlines() if f"User:{USER}" in line).split()
    token_id, hmac = row[0], row[1]
    eventually(lambda: token_id in ask(proxy, PASSING, TOKENS, OF_USER), what="the broker shows it")
    ask(proxy, PASSING, TOKENS, f"--renew --renew-time-period -1 --hmac {hmac}")
    ask(proxy, PASSING, TOKENS, f"--expire --expiry-time-period -1 --hmac {hmac}")
    eventually(lambda: token_id not in ask(proxy, PASSING, TOKENS, OF_USER), what="the broker has ended it")
    assert hmac not in proxy.log.read_text()
