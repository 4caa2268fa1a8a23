"""Through a real `kproxy run` in sni mode, as a client; in port mode: test_running.py; with logins: tests/interop.

To whom a password goes: before what listens in place of a kproxy.
"""

from pathlib import Path
from typing import Any

import pytest

from kproxy.config.reading import read_config
from kproxy.doctor.findings import Finding, State
from kproxy.doctor.through import examine_through
from kproxy.login.client_settings import Credentials
from tests.doctor.test_running import kproxy_run, until_ready
from tests.support.certificates import Pair, certificates
from tests.support.doctored import PATIENCE_S, broker, config_of, context, findings, login_broker
from tests.support.links import run


def sni(pair: Pair, name: str) -> dict[str, Any]:
    tls = {"certificate": pair.certificate, "key": pair.key}
    return {"listener_tls": tls, "addresses": {"mode": "sni", "broker_name": name}}


def said_of(folder: Path, cluster: dict[str, Any]) -> dict[str, Finding]:
    found: list[Finding] = []

    async def work() -> None:
        async with broker() as alive, broker([(1, "127.0.0.1", alive), (2, "127.0.0.1", alive)]) as port:
            with kproxy_run(folder, f"127.0.0.1:{port}", **cluster) as file:
                config = read_config(str(file))
                await until_ready(config)
                found.extend(await findings(config, PATIENCE_S))

    run(work, 120)
    return {one.subject.partition(" at ")[0]: one for one in found}


def test_names_lead_to_brokers_though_dns_does_not_have_them(tmp_path: Path) -> None:
    said = said_of(tmp_path, sni(certificates().server, "{node_id}.kafka.test"))
    assert said["default: names of brokers"].state is State.WARNING  # RFC 6761: .test is in no DNS
    assert said["default: certificate for clients"].what == "is for 1.kafka.test, 2.kafka.test"
    assert said["default: clients"].what == "all 2 brokers answer at the addresses that kproxy advertises"


def test_a_certificate_for_other_names(tmp_path: Path) -> None:
    said = said_of(tmp_path, sni(certificates().wrong_host, "{node_id}.kafka.test"))
    assert said["default: clients"].state is State.PROBLEM
    assert "the certificate that is shown there is not for 1.kafka.test, 2.kafka.test" in said["default: clients"].what


SERVER, OTHER = certificates().server, certificates().stranger
LOGINS = {  # needs TLS, listener_tls, the certificate that is shown, whether the password is sent
    "SASL_SSL, its certificate": (True, SERVER, SERVER, True),
    "SASL_SSL, another certificate": (True, SERVER, OTHER, False),
    "SASL_SSL, no TLS": (True, None, None, False),
    "SASL_PLAINTEXT, no TLS": (False, None, None, True),
    "SASL_PLAINTEXT, another certificate": (False, SERVER, OTHER, False),
}


@pytest.mark.parametrize(("needs_tls", "own", "shown", "sent"), LOGINS.values(), ids=LOGINS)
def test_a_password_goes_only_to_the_kproxy_of_the_configuration(
    tmp_path: Path, needs_tls: bool, own: Pair | None, shown: Pair | None, sent: bool
) -> None:
    login = Credentials("PLAIN", "alice", "pencil", needs_tls)

    async def work() -> None:
        async with login_broker(shown and context(shown)) as one:
            tls = own and {"certificate": own.certificate, "key": own.key}
            where = {"cluster_listen": f"127.0.0.1:{one.port}", "cluster_listener_tls": tls}
            config = config_of(tmp_path, "kafka.test:9092", **where)
            [said] = [finding async for finding in examine_through(config, PATIENCE_S, login)]
            assert one.logins == ([b"\0alice\0pencil"] if sent else [])  # RFC 4616
            assert (said.state is State.GOOD) == sent
            assert sent or "the login was not tried" in said.what
            assert sent or ("listener_tls.certificate" if own else "SASL_SSL") in said.what

    run(work)


@pytest.mark.parametrize(
    ("host", "port"), [("b" * 64 + ".kafka.test", 9_092), ("127.0.0.1", 70_000), ("127.0.0.1", -1)]
)
def test_an_address_that_cannot_be_one_is_a_finding(tmp_path: Path, host: str, port: int) -> None:
    """A label of DNS has 63 characters at the most (RFC 1035), a port 16 bits."""

    async def work() -> None:
        async with broker([(7, host, port)]) as listen:
            config = config_of(tmp_path, "kafka.test:9092", cluster_listen=f"127.0.0.1:{listen}")
            [said] = [finding async for finding in examine_through(config, PATIENCE_S)]
            assert said.state is State.PROBLEM
            assert f"kproxy advertises broker 7 at {host}:{port}, where this machine gets no answer" in said.what

    run(work)
