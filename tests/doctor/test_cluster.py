"""A cluster whose brokers advertise what cannot be reached, or kproxy itself; node ids; logins, clocks, and names.

tests/interop/test_doctor.py logs in to real brokers. In DNS, .invalid never resolves (RFC 6761).
"""

import asyncio
import os
import socket
import threading
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.structs import BrokerTls, Cluster, FilterUse
from kproxy.doctor.broker import Broker, Words
from kproxy.doctor.cluster import AT_A_TIME, Listening, advertised_hosts, examine_access, examine_names
from kproxy.doctor.findings import Finding, State, count, good, note, problem, warning
from kproxy.doctor.keys import examine_keys
from kproxy.encryption.services import KeyRefused, KeyServiceAway, loading
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.login.client_settings import Credentials
from kproxy.proxy.broker_client import BrokerClient
from tests.support.certificates import certificates
from tests.support.doctored import PATIENCE_S, broker, config_of, findings, login_broker, problems
from tests.support.encryption import GivenKeys, GivenService
from tests.support.links import on_loop, run
from tests.support.ports import free_ports

CLUSTER = Cluster(listen="127.0.0.1:19092", bootstrap=["kafka:9092"], broker_tls=BrokerTls())
SERVER = {"certificate": certificates().server.certificate, "key": certificates().server.key}


@on_loop
async def test_a_cluster_that_is_right(tmp_path: Path) -> None:
    async with broker() as port:
        found = await findings(config_of(tmp_path, f"localhost:{port}"))
        assert problems(found) == []
        assert any("the only one is reached at the address that it advertises" in one.what for one in found)


@on_loop
async def test_an_advertised_address_that_is_not_reached(tmp_path: Path) -> None:
    dead = free_ports(1)
    async with broker() as alive, broker([(1, "127.0.0.1", alive), (2, "127.0.0.1", dead)]) as port:
        [problem] = problems(await findings(config_of(tmp_path, f"127.0.0.1:{port}")))
        assert problem.startswith("default: broker 2: it advertises ")
        assert f"127.0.0.1:{dead}" in problem and "nothing listens" in problem


@pytest.mark.parametrize("port", [70_000, -1])
@on_loop
async def test_an_advertised_port_that_is_none(tmp_path: Path, port: int) -> None:
    async with broker([(7, "127.0.0.1", port)]) as bootstrap:
        said = problems(await findings(config_of(tmp_path, f"127.0.0.1:{bootstrap}")))
        assert f"default: broker 7: it advertises 127.0.0.1:{port}, which kproxy cannot use: {port} is no port" in said


@on_loop
async def test_a_broker_that_advertises_kproxy(tmp_path: Path) -> None:
    own = free_ports(1)
    async with broker([(1, "localhost", own)]) as port:
        config = config_of(tmp_path, f"127.0.0.1:{port}", cluster_listen=f"0.0.0.0:{own}")
        [problem] = problems(await findings(config))
        assert f"advertises localhost:{own}, where kproxy itself listens" in problem


@on_loop
async def test_a_bootstrap_that_is_kproxy(tmp_path: Path) -> None:
    own = free_ports(1)
    config = config_of(tmp_path, f"localhost:{own}", cluster_listen=f":{own}")
    assert problems(await findings(config)) == [
        f"default: localhost:{own}: kproxy itself listens there: it would connect to itself"
    ]


def test_only_addresses_of_this_machine_are_its_own(tmp_path: Path) -> None:
    listening = Listening(config_of(tmp_path, "kafka:9092", cluster_listen=":19092"))
    assert listening.is_own("127.0.0.1", 19_092) and listening.is_own("::1", 19_092)
    assert not listening.is_own("127.0.0.1", 19_999)
    assert not listening.is_own("192.0.2.77", 19_092)  # RFC 5737: nobody's
    assert not listening.is_own("kafka.invalid", 19_092)
    assert not listening.is_own("b" * 64 + ".test", 19_092)  # RFC 1035: a label has 63 characters at the most


@on_loop
async def test_node_ids_are_compared_with_the_clusters(tmp_path: Path) -> None:
    async with broker() as alive, broker([(1, "127.0.0.1", alive), (5, "127.0.0.1", alive)]) as port:
        first = free_ports(10)
        addresses = {"node_ids": [1, 2], "first_port": first}
        found = await findings(config_of(tmp_path, f"127.0.0.1:{port}", cluster_addresses=addresses))
        said = {one.state: one.what for one in found if one.subject == "default: node ids"}
        assert said[State.WARNING] == "addresses.node_ids lacks 5, which the cluster has"
        assert said[State.NOTE].startswith("addresses.node_ids has 2, ")


@on_loop
async def test_a_node_id_beyond_the_last_port(tmp_path: Path) -> None:
    async with broker() as alive, broker([(60_000, "127.0.0.1", alive)]) as port:
        config = config_of(tmp_path, f"127.0.0.1:{port}", cluster_addresses={"first_port": 20_000})
        [problem] = problems(await findings(config))
        assert "broker 60000 would get port 80000, above 65535" in problem


@on_loop
async def test_transparent_mode_knows_no_broker(tmp_path: Path) -> None:
    config = config_of(tmp_path, "x:1", cluster_bootstrap=[], cluster_addresses={"mode": "transparent"})
    assert problems(await findings(config)) == []


def said_of_access(cluster: Cluster = CLUSTER, **found: Any) -> dict[str, Finding]:
    broker = Broker("kafka:9092", "kafka", 9_092, versions={3: 12, 18: 3}, **found)
    return {one.subject.removeprefix("default: "): one for one in examine_access(cluster, broker)}


def test_without_a_login_it_says_what_was_not_examined() -> None:
    said = said_of_access(wants_login=True, mechanisms=["SCRAM-SHA-512"])
    assert set(said) == {"login", "brokers", "node ids"}
    assert said["brokers"].what.startswith("not examined") and "--command-config" in said["brokers"].advice
    said = said_of_access(wants_login=True, mechanisms=["OAUTHBEARER"])
    assert "logs in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI only" in said["brokers"].advice


def test_with_a_login() -> None:
    given = "the login that was given"
    said = said_of_access(wants_login=True, mechanisms=["PLAIN"], logged_in=True, clock_ahead_s=1.0)
    assert [said[name].state for name in ("login", given, "clock")] == [State.GOOD] * 3
    said = said_of_access(wants_login=True, mechanisms=["PLAIN"], login_failure=Words("refused", "correct it"))
    assert (said[given].state, said[given].what) == (State.PROBLEM, "refused")
    assert "clock" not in said and said["brokers"].state is State.NOTE


def test_passwords_in_the_clear() -> None:
    plain = Cluster(listen=":19092", bootstrap=["kafka:9092"])
    assert said_of_access(plain, wants_login=True, mechanisms=["PLAIN"])["login"].state is State.PROBLEM
    plain = Cluster(listen=":19092", bootstrap=["kafka:9092"], broker_tls=BrokerTls())
    assert said_of_access(plain, wants_login=True, mechanisms=["PLAIN"])["login"].state is State.WARNING
    assert said_of_access(plain, wants_login=True, mechanisms=["SCRAM-SHA-256"])["login"].state is State.GOOD


def test_a_clock_that_is_not_told() -> None:
    assert said_of_access()["clock"].what.startswith("not examined")
    assert "2.0 days behind" in said_of_access(clock_ahead_s=-2 * 86_400.0)["clock"].what


def said_of_names(
    folder: Path, addresses: dict[str, Any], nodes: Iterable[int] = (), tls: Any = SERVER
) -> list[Finding]:
    found: list[Finding] = []

    async def work() -> None:
        config = config_of(folder, "kafka.test:9092", cluster_listener_tls=tls, cluster_addresses=addresses)
        found.extend([one async for one in examine_names(config.clusters[0], nodes, PATIENCE_S)])

    run(work)
    return found


def test_the_certificate_has_the_name_of_each_broker(tmp_path: Path) -> None:
    sni = {"mode": "sni", "broker_name": "{node_id}.kafka.test"}
    certificate, _ = said_of_names(tmp_path, sni, [7, 1])
    assert (certificate.state, certificate.what) == (State.GOOD, "is for 1.kafka.test, 7.kafka.test")
    sni["broker_name"] = "broker-{node_id}.kafka.example.com"
    certificate, _ = said_of_names(tmp_path, sni, [7])
    assert certificate.state is State.PROBLEM
    assert "it is not for broker-7.kafka.example.com" in certificate.what and "broker.test" in certificate.what
    addresses = {"advertise": "broker.test", "advertise_brokers": {"2": "elsewhere.test:443"}}
    certificate, _ = said_of_names(tmp_path, addresses, [1, 2])
    assert "it is not for elsewhere.test" in certificate.what


def test_names_that_dns_does_not_have(tmp_path: Path) -> None:
    sni = {"mode": "sni", "broker_name": "{node_id}.kproxy.invalid"}
    *_, names = said_of_names(tmp_path, sni, range(1, 8))
    assert names.state is State.WARNING
    assert names.what.startswith("1.kproxy.invalid, 2.kproxy.invalid, 3.kproxy.invalid, 4.kproxy.invalid")
    assert "and 2 more are not resolved here" in names.what and "*.kproxy.invalid" in names.advice
    [names] = said_of_names(tmp_path, {"advertise": "localhost"}, tls=None)
    assert (names.state, names.what) == (State.GOOD, "localhost resolves")


def test_names_are_looked_up_at_the_same_time_however_few_processors_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lookup ends before all of them have begun."""
    all_began = threading.Barrier(AT_A_TIME)

    def look_up(*_: Any, **__: Any) -> list[Any]:
        all_began.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # of which asyncio's own number of threads is made
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    sni = {"mode": "sni", "broker_name": "{node_id}.kafka.test"}
    config = config_of(tmp_path, "127.0.0.1:9092", cluster_listener_tls=SERVER, cluster_addresses=sni)

    async def work() -> Finding:
        *_, names = [one async for one in examine_names(config.clusters[0], range(AT_A_TIME), PATIENCE_S)]
        return names

    names = asyncio.run(work())  # as kproxy doctor does; uvloop has other threads
    assert (names.state, names.what[:12]) == (State.GOOD, "0.kafka.test")


def test_where_clients_are_told_what_they_connected_to(tmp_path: Path) -> None:
    assert said_of_names(tmp_path, {}, [1, 2]) == []
    assert said_of_names(tmp_path, {"advertise": "127.0.0.1"}, [1, 2], tls=None) == []
    config = config_of(tmp_path, "kafka.test:9092", cluster_addresses={"mode": "fixed"})
    assert advertised_hosts(config.clusters[0], [1]) == []


@on_loop
async def test_it_says_first_whether_kproxy_runs(tmp_path: Path) -> None:
    async with broker() as port:
        found = await findings(config_of(tmp_path, f"127.0.0.1:{port}"))
        assert found[0].subject == "kproxy" and "none runs here" in found[0].what
        assert [one.subject for one in found if one.subject.startswith("default: 127")] == [
            f"default: 127.0.0.1:{port}"
        ]


@pytest.mark.parametrize("named", ["encrypt", "kproxy.filters.encrypt:Encrypt"])
def test_it_has_the_key_service_make_a_data_key(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
    keys = GivenService.keys = GivenKeys()
    names = ("kek", "{cluster}-kek", "kek-{topic}", "kek")
    rules: list[dict[str, Any]] = [{"topics": [f"t{at}"], "key": name} for at, name in enumerate(names)] + [
        {"topics": ["t"], "key": "old", "writes": "plain"}
    ]
    wrapped = b64encode(keys.new_data_key("kek-k").wrapped).decode()
    rules[0]["record_keys"] = {"key": "kek-k", "wrapped": wrapped}
    use = FilterUse(use=named, with_={"keys": {"use": "given"}, "rules": rules})
    cluster = Cluster(name="c", listen=":1", bootstrap=["b:1"], filters=[use])

    async def found() -> list[Finding]:
        return [one async for one in examine_keys(cluster)]

    by_topic, *tried = asyncio.run(found())
    assert (by_topic.state, by_topic.subject) == (State.NOTE, "c: key kek-{topic} of given")
    assert "--check KEY" in by_topic.advice
    subjects = ["c: key kek of given", "c: key c-kek of given", "c: key kek-k of given"]
    assert [(one.state, one.subject) for one in tried] == [(State.GOOD, one) for one in subjects]
    keys.error = KeyRefused("no right to use it")
    assert [(one.state, one.what) for one in asyncio.run(found())[1:]] == [(State.PROBLEM, "no right to use it")] * 3
    keys.error = KeyServiceAway("it does not answer")
    assert [one.what for one in asyncio.run(found())[1:]] == ["it does not answer"], "it is not asked again"


@pytest.mark.parametrize(("mode", "is_said"), [(0o644, True), (0o640, False)])
@on_loop
async def test_a_secret_of_the_key_service_that_everybody_can_read(tmp_path: Path, mode: int, is_said: bool) -> None:
    seal = tmp_path / "seal"
    seal.write_bytes(bytes(32))
    seal.chmod(mode)
    KeySet(KeySetOptions(path=str(tmp_path / "keys"), key_file=str(seal))).make("kek")
    keys = {"use": "file", "with": {"path": str(tmp_path / "keys"), "key_file": str(seal)}}
    use = FilterUse(use="encrypt", with_={"keys": keys, "rules": [{"topics": ["t"], "key": "kek"}]})
    cluster = Cluster(name="c", listen=":1", bootstrap=["b:1"], filters=[use])
    warned = [one.subject async for one in examine_keys(cluster) if one.state is State.WARNING]
    assert warned == [f"c: {seal}"] * is_said


@on_loop
async def test_topics_of_rules_are_compared_with_those_of_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(loading.BUILT_IN, "given", "tests.support.encryption:GivenService")
    GivenService.keys = GivenKeys()
    rules = [{"topics": ["orders", "pay-*"], "key": "k-{topic}"}, {"topics": ["order", "bil-*"], "key": "k"}]
    use = {"use": "encrypt", "with": {"keys": {"use": "given"}, "rules": rules}}
    subject = "default: topics of filters[0]"

    async def silent(*_: object) -> list[str]:
        raise TimeoutError

    async with broker(topics=["orders", "pay-1", "bill-1"]) as port:
        found = await findings(config_of(tmp_path, f"127.0.0.1:{port}", cluster_filters=[use]))
        about = [one for one in found if one.subject.startswith(subject)]
        assert [(one.state, one.subject, one.what) for one in about] == [
            (State.WARNING, f"{subject}, rules[1]", 'the broker tells of no topic "order"'),
            (State.WARNING, f"{subject}, rules[1]", 'the broker tells of no topic "bil-*"'),
        ]
        assert about[0].advice.startswith('did you mean "orders"? ')
    use["with"] = {"keys": {"use": "given"}, "rules": rules[:1]}
    async with broker(topics=["orders", "pay-1"]) as port, login_broker() as closed:
        found = await findings(config_of(tmp_path, f"127.0.0.1:{port}", cluster_filters=[use]))
        assert good(subject, "the cluster has them") in found
        assert [one.subject for one in found if "key k" in one.subject] == [
            "default: key k-orders of given",
            "default: key k-pay-1 of given",
        ]
        config = config_of(tmp_path, f"127.0.0.1:{closed.port}", cluster_filters=[use])
        (said,) = [one for one in await findings(config) if one.subject == subject]
        assert (said.state, said.what[-36:]) == (State.NOTE, "brokers tell them only after a login")
        login = Credentials("PLAIN", "alice", "pencil", needs_tls=False)
        (said,) = [one for one in await findings(config, login=login) if one.subject.startswith(subject)]
        assert said.what == 'the broker tells of no topic "pay-*"'
        monkeypatch.setattr(BrokerClient, "topics", silent)
        config = config_of(tmp_path, f"127.0.0.1:{port}", cluster_filters=[use])
        (said,) = [one for one in await findings(config) if one.subject == subject]
        assert said.what.endswith("those of the cluster: no answer in time")


def test_states_are_counted() -> None:
    found = [good("a", "b"), note("a", "b"), warning("a", "b", "c"), problem("a", "b", "c"), problem("d", "e")]
    assert [count(found, state) for state in State] == [1, 1, 1, 2]
    assert found[2].advice == "c"
