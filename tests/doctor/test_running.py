"""A real `kproxy run` and what is said of it: alive, another configuration than the file, the way of its clients, its clock.

To whom a password goes: before what listens in place of a kproxy.
"""

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.config.reading import read_config
from kproxy.config.structs import Config
from kproxy.doctor.examine import examine_through
from kproxy.doctor.findings import Finding, State
from kproxy.doctor.machine import Running, examine_running, look_for
from kproxy.login.client_settings import Credentials
from tests.support.certificates import Pair, certificates
from tests.support.doctored import PATIENCE_S, broker, config_of, context, findings, login_broker, problems
from tests.support.links import on_loop, run
from tests.support.ports import free_ports

SERVER, OTHER = certificates().server, certificates().stranger
LOGINS = {  # needs TLS, listener_tls, the certificate that is shown, whether the password is sent
    "SASL_SSL, its certificate": (True, SERVER, SERVER, True),
    "SASL_SSL, another certificate": (True, SERVER, OTHER, False),
    "SASL_SSL, no TLS": (True, None, None, False),
    "SASL_PLAINTEXT, no TLS": (False, None, None, True),
    "SASL_PLAINTEXT, another certificate": (False, SERVER, OTHER, False),
}


@contextmanager
def kproxy_run(folder: Path, bootstrap: str, before: Sequence[str] = (), **parts: Any) -> Iterator[Path]:
    """A kproxy that starts, under the program *before*; gives its configuration. *parts*: of its cluster."""
    first = free_ports(12)
    file = folder / "kproxy.yaml"
    cluster = {"listen": f"127.0.0.1:{first}", "bootstrap": [bootstrap], "addresses": {"node_ids": [0]}, **parts}
    file.write_text(json.dumps({"admin": f"127.0.0.1:{first + 10}", "clusters": [cluster]}), encoding="utf-8")
    words = [*before, sys.executable, "-c", "from kproxy.cli import main; main()", "run", "-c", str(file)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield file
        finally:
            process.terminate()
            process.stderr.read()


async def until_ready(config: Config) -> None:
    """Until its admin server answers, its analyzer runs and it has reached the broker, which lives in this process."""
    assert config.admin is not None
    while True:
        running = await asyncio.to_thread(look_for, config.admin, PATIENCE_S)
        if running is not None and running.ready["ready"] and running.values.get("kproxy_analysis_up"):
            return
        await asyncio.sleep(0.05)


@on_loop
async def test_a_running_kproxy(tmp_path: Path) -> None:
    async with broker() as port:
        with kproxy_run(tmp_path, f"127.0.0.1:{port}") as file:
            config = read_config(str(file))
            await until_ready(config)
            assert problems(await findings(config)) == []
            found = {one.subject: one for one in await findings(config)}
            listen = config.clusters[0].listen
            assert "the broker answers" in found[f"default: clients at {listen}"].what
            assert found[f"kproxy at {config.admin}: analyzer"].state is State.GOOD
            assert "ports" not in found  # they are its own
            other = json.loads(file.read_text(encoding="utf-8"))
            other["clusters"][0]["bootstrap"].append("another.test:9092")
            changed = tmp_path / "other.yaml"
            changed.write_text(json.dumps(other), encoding="utf-8")
            said = problems(await findings(read_config(str(changed)), 5.0))
            assert any("another configuration than the file: another clusters[0].bootstrap" in one for one in said)


@pytest.mark.slow
@on_loop
async def test_the_limit_of_files_is_that_of_the_proxy(tmp_path: Path) -> None:
    """Not that of this process, which is higher; and its clock is compared."""
    async with broker() as port:
        limited = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh"]
        with kproxy_run(tmp_path, f"127.0.0.1:{port}", limited) as file:
            config = read_config(str(file))
            await until_ready(config)
            [problem] = problems(await findings(config))
            assert problem.startswith("open files: the limit of 256 is enough for about 96 clients")
            running = look_for(str(config.admin), PATIENCE_S)
            assert running is not None and running.clock_ahead_s is not None
            assert problem in problems(list(examine_running(running, None)))  # by its pages alone too


def test_nobody_at_the_admin_address() -> None:
    assert look_for(f"127.0.0.1:{free_ports(1)}", PATIENCE_S) is None


def made(**changes: Any) -> Running:
    values = {"kproxy_analysis_up": 1.0, "kproxy_requests_total": 100.0, "kproxy_open_files_limit": math.inf}
    config = {"analysis": {"enabled": True}, "limits": {"connections": 10_000}}
    plain = Running("127.0.0.1:1", {"ready": True}, config, values, "", 0.0)
    return plain._replace(**changes)


def states(running: Running) -> set[State]:
    return {one.state for one in examine_running(running, None)}


def test_what_the_pages_say() -> None:
    assert states(made()) == {State.GOOD}
    assert State.PROBLEM in states(made(ready={"ready": False, "reason": "no broker was reached"}))
    assert State.PROBLEM in states(made(clock_ahead_s=86_400.0))
    assert State.PROBLEM in states(made(values={"kproxy_analysis_up": 0.0}))
    assert State.WARNING in states(made(version="0.0.1"))
    assert State.WARNING in states(made(values={"kproxy_analysis_up": 1.0, "kproxy_exchanges_left_out_total": 5.0}))


def sni(pair: Pair, name: str) -> dict[str, Any]:
    tls = {"certificate": pair.certificate, "key": pair.key}
    return {"listener_tls": tls, "addresses": {"mode": "sni", "broker_name": name}}


def said_through(folder: Path, cluster: dict[str, Any]) -> dict[str, Finding]:
    found: list[Finding] = []

    async def work() -> None:
        async with broker() as alive, broker([(1, "127.0.0.1", alive), (2, "127.0.0.1", alive)]) as port:
            with kproxy_run(folder, f"127.0.0.1:{port}", **cluster) as file:
                config = read_config(str(file))
                await until_ready(config)
                found.extend(await findings(config, PATIENCE_S))

    run(work, 120)
    return {one.subject.partition(" at ")[0]: one for one in found}


@pytest.mark.slow
def test_names_lead_to_brokers_though_dns_does_not_have_them(tmp_path: Path) -> None:
    said = said_through(tmp_path, sni(certificates().server, "{node_id}.kafka.test"))
    assert said["default: names of brokers"].state is State.WARNING  # RFC 6761: .test is in no DNS
    assert said["default: certificate for clients"].what == "is for 1.kafka.test, 2.kafka.test"
    assert said["default: clients"].what == "all 2 brokers answer at the addresses that kproxy advertises"


@pytest.mark.slow
def test_a_certificate_for_other_names(tmp_path: Path) -> None:
    said = said_through(tmp_path, sni(certificates().wrong_host, "{node_id}.kafka.test"))
    assert said["default: clients"].state is State.PROBLEM
    assert "the certificate that is shown there is not for 1.kafka.test, 2.kafka.test" in said["default: clients"].what


@pytest.mark.parametrize(("needs_tls", "own", "shown", "sent"), LOGINS.values(), ids=LOGINS)
@on_loop
async def test_a_password_goes_only_to_the_kproxy_of_the_configuration(
    tmp_path: Path, needs_tls: bool, own: Pair | None, shown: Pair | None, sent: bool
) -> None:
    login = Credentials("PLAIN", "alice", "pencil", needs_tls)
    async with login_broker(shown and context(shown)) as one:
        tls = own and {"certificate": own.certificate, "key": own.key}
        where = {"cluster_listen": f"127.0.0.1:{one.port}", "cluster_listener_tls": tls}
        config = config_of(tmp_path, "kafka.test:9092", **where)
        [said] = [finding async for finding in examine_through(config, PATIENCE_S, login)]
        assert one.logins == ([b"\0alice\0pencil"] if sent else [])  # RFC 4616
        assert (said.state is State.GOOD) == sent
        assert sent or "the login was not tried" in said.what
        assert sent or ("listener_tls.certificate" if own else "SASL_SSL") in said.what


@pytest.mark.parametrize(
    ("host", "port"), [("b" * 64 + ".kafka.test", 9_092), ("127.0.0.1", 70_000), ("127.0.0.1", -1)]
)
@on_loop
async def test_an_address_that_cannot_be_one_is_a_finding(tmp_path: Path, host: str, port: int) -> None:
    """A label of DNS has 63 characters at the most (RFC 1035), a port 16 bits."""
    async with broker([(7, host, port)]) as listen:
        config = config_of(tmp_path, "kafka.test:9092", cluster_listen=f"127.0.0.1:{listen}")
        [said] = [finding async for finding in examine_through(config, PATIENCE_S)]
        assert said.state is State.PROBLEM
        assert f"kproxy advertises broker 7 at {host}:{port}, where this machine gets no answer" in said.what
