"""kproxy logs in by AWS_MSK_IAM at a broker that checks the signatures of tokens, as it does those of Amazon's Java client."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import started
from tests.support.kafka.jars import NEWEST, fetch, folder_of, java, properties_file
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.sockets import end_offsets

USER, SECRET, REGION = "AKIDEXAMPLE", "canary-of-the-secret-key", "eu-north-1"
AMAZONS = "software.amazon.msk", "aws-msk-iam-auth", "2.3.2"
HANDLER = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": USER, "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": REGION}
COUNT = 50


@pytest.fixture(scope="module")
def brokers(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    handler = "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class"
    extra = {handler: "IamBroker$Verifier", "iam.user": USER, "iam.secret": SECRET, "iam.region": REGION}
    source = str(Path(__file__).with_name("IamBroker.java"))
    made = started(tmp_path_factory.mktemp("kafka"), NEWEST, secure=True, extra=extra, main=source)
    yield made
    made.close()


def through(brokers: Cluster, folder: Path, secret: str, patch: pytest.MonkeyPatch) -> Proxy:
    for name, value in {**ENVIRONMENT, "AWS_SECRET_ACCESS_KEY": secret}.items():
        patch.setenv(name, value)
    login = {"mechanism": "AWS_MSK_IAM", "region": REGION, "cleartext": True}
    proxy = Proxy(folder / "kproxy", [cluster(brokers.bootstrap("SASL"), login=login)])
    return proxy.start(reaches_brokers=secret == SECRET)


@pytest.mark.slow
def test_a_broker_takes_its_tokens(brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = brokers.topic("signed")
    proxy = through(brokers, tmp_path, SECRET, monkeypatch)
    try:
        producer = Producer({"bootstrap.servers": proxy.bootstrap()})
        for number in range(COUNT):
            producer.produce(topic, str(number))
        assert producer.flush(30) == 0 and end_offsets(brokers.open, topic) == {0: COUNT}
        assert proxy.count("kproxy_broker_logins_total") > 0 == proxy.count("kproxy_broker_login_failures_total")
        said = proxy.log.read_text() + proxy.get("/config")[1] + proxy.get("/metrics")[1]
        assert not [one for one in (SECRET, "X-Amz", USER) if one in said]
    finally:
        proxy.close()


@pytest.mark.slow
def test_it_does_not_take_those_of_another_key(
    brokers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = through(brokers, tmp_path, "another-secret-key", monkeypatch)
    try:
        with pytest.raises(KafkaException, match="_TRANSPORT"):
            AdminClient({"bootstrap.servers": proxy.bootstrap(), "log_level": 0}).list_topics(timeout=3)
        assert proxy.count("kproxy_broker_login_failures_total") > 0 == proxy.count("kproxy_broker_logins_total")
        assert "another-secret-key" not in proxy.log.read_text()
    finally:
        proxy.close()


@pytest.mark.long
def test_it_takes_those_of_amazons_own_client(brokers: Cluster) -> None:
    """So it checks what Amazon's client signs."""
    jars = folder_of("-".join(AMAZONS[1:]))
    if not jars.is_dir():
        fetch(jars, [AMAZONS])
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": HANDLER,
    }
    for secret, is_taken in ((SECRET, True), ("another-secret-key", False)):
        with properties_file(properties) as file:
            where = ["--bootstrap-server", brokers.bootstrap("SASL")[0], "--command-config", file]
            words = java(NEWEST, "org.apache.kafka.tools.TopicCommand", *where, "--list")
            words[words.index("-cp") + 1] += f":{jars}/*"
            environment = {**os.environ, **ENVIRONMENT, "AWS_SECRET_ACCESS_KEY": secret}
            done = subprocess.run(words, env=environment, capture_output=True, timeout=120, check=False)
        assert (done.returncode == 0) is is_taken, done.stdout + done.stderr
