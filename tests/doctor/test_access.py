"""What is said of logins and of time. tests/interop/test_doctor.py logs in to real brokers."""

from typing import Any

from kproxy.config import BrokerTls, Cluster
from kproxy.doctor.access import examine_access
from kproxy.doctor.broker import Broker
from kproxy.doctor.findings import Finding, State
from kproxy.doctor.tls_words import Words

CLUSTER = Cluster(listen="127.0.0.1:19092", bootstrap=["kafka:9092"], broker_tls=BrokerTls())


def said_of(cluster: Cluster = CLUSTER, **found: Any) -> dict[str, Finding]:
    broker = Broker("kafka:9092", "kafka", 9_092, versions={3: 12, 18: 3}, **found)
    return {one.subject.removeprefix("default: "): one for one in examine_access(cluster, broker)}


def test_without_a_login_it_says_what_was_not_examined() -> None:
    said = said_of(wants_login=True, mechanisms=["SCRAM-SHA-512"])
    assert set(said) == {"login", "brokers", "node ids"}
    assert said["brokers"].what.startswith("not examined") and "--command-config" in said["brokers"].advice
    said = said_of(wants_login=True, mechanisms=["GSSAPI"])
    assert "logs in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 only" in said["brokers"].advice


def test_with_a_login() -> None:
    given = "the login that was given"
    said = said_of(wants_login=True, mechanisms=["PLAIN"], logged_in=True, clock_ahead_s=1.0)
    assert [said[name].state for name in ("login", given, "clock")] == [State.GOOD] * 3
    said = said_of(wants_login=True, mechanisms=["PLAIN"], login_failure=Words("refused", "correct it"))
    assert (said[given].state, said[given].what) == (State.PROBLEM, "refused")
    assert "clock" not in said and said["brokers"].state is State.NOTE


def test_passwords_in_the_clear() -> None:
    plain = Cluster(listen=":19092", bootstrap=["kafka:9092"])
    assert said_of(plain, wants_login=True, mechanisms=["PLAIN"])["login"].state is State.PROBLEM
    plain = Cluster(listen=":19092", bootstrap=["kafka:9092"], broker_tls=BrokerTls())
    assert said_of(plain, wants_login=True, mechanisms=["PLAIN"])["login"].state is State.WARNING
    assert said_of(plain, wants_login=True, mechanisms=["SCRAM-SHA-256"])["login"].state is State.GOOD


def test_a_clock_that_is_not_told() -> None:
    assert said_of()["clock"].what.startswith("not examined")
    assert "2.0 days behind" in said_of(clock_ahead_s=-2 * 86_400.0)["clock"].what
