"""`kproxy doctor` before real brokers: every listener by the right way and a wrong one, and their clock."""

import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kproxy.cli.doctor import FOUND
from kproxy.config.reading import read_config
from kproxy.doctor.examine import examine_through
from kproxy.doctor.findings import Finding, State
from kproxy.login.client_settings import Credentials, read_credentials
from tests.conftest import Require
from tests.interop.test_broker_logins import unsecured_token
from tests.support.corpus import ROOT
from tests.support.doctored import PATIENCE_S, config_of, findings, problems
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.kafka.security import Security
from tests.support.links import run
from tests.support.ports import free_ports

DAY_S = 86_400.0


def found_before(
    cluster: Cluster, folder: Path, listener: str, login: Credentials | None = None, **parts: Any
) -> list[Finding]:
    made: list[Finding] = []

    async def work() -> None:
        config = config_of(folder, cluster.bootstrap(listener)[0], **parts)
        made.extend(await findings(config, PATIENCE_S, login))

    run(work, 120)
    return made


def test_the_right_way(single: Cluster, tmp_path: Path) -> None:
    assert single.authority is not None
    found = found_before(single, tmp_path, "OPEN")
    assert problems(found) == []
    [clock] = [one for one in found if one.subject == "default: clock"]
    assert clock.state is State.GOOD  # broker and test have one clock
    assert any("is reached" in one.what for one in found)
    assert problems(found_before(single, tmp_path, "TLS", cluster_broker_tls={"ca": single.authority.ca})) == []
    found = found_before(single, tmp_path, "SASL_TLS", cluster_broker_tls={"ca": single.authority.ca})
    assert problems(found) == []
    [login] = [one for one in found if one.subject == "default: login"]
    [brokers] = [one for one in found if one.subject == "default: brokers"]
    assert brokers.state is State.NOTE and brokers.what.startswith("not examined") and "--command" in brokers.advice
    assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} <= set(
        login.what[:-1].partition("(")[2].split(", ")
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_after_a_login_addresses_and_clock_are_looked_at(single: Cluster, tmp_path: Path, mechanism: str) -> None:
    """Through kproxy too; the properties are those of Java's client."""
    properties = Security("SASL_SSL", mechanism).java()
    (tmp_path / "client.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    login = read_credentials(tmp_path / "client.properties")
    assert single.authority is not None
    tls = {"ca": single.authority.ca}
    found = found_before(single, tmp_path, "SASL_TLS", login, cluster_broker_tls=tls)
    assert problems(found) == []
    said = {one.subject: one for one in found}
    assert said["default: clock"].state is State.GOOD
    assert "reached at the address that it advertises" in said["default: brokers"].what
    wrong = dataclasses.replace(login, password="another")
    [problem] = problems(found_before(single, tmp_path, "SASL_TLS", wrong, cluster_broker_tls=tls))
    assert problem.startswith(
        f"default: the login that was given: the broker refuses the login of {USER} by {mechanism}"
    )


def test_a_login_through_kproxy(single: Cluster, tmp_path: Path) -> None:
    proxy = Proxy(tmp_path / "kproxy", [cluster(single.bootstrap("SASL"))])
    proxy.start()
    try:
        config = read_config(str(proxy.file))
        found: list[Finding] = []
        login = Credentials("SCRAM-SHA-512", USER, PASSWORD, needs_tls=False)

        async def work() -> None:
            for one in (None, login, dataclasses.replace(login, password="another")):
                found.extend([said async for said in examine_through(config, PATIENCE_S, one)])

        run(work, 120)
    finally:
        proxy.close()
    assert [one.state for one in found] == [State.NOTE, State.GOOD, State.PROBLEM]
    assert "to log in as it does" in found[0].advice
    assert "the broker answers at the address that kproxy advertises" in found[1].what
    assert f"the login fails through kproxy: the broker refuses the login of {USER} by SCRAM-SHA-512" in found[2].what


WRONG = {
    "passwords in the clear": ("SASL", {}, "PLAIN and OAUTHBEARER without TLS towards the brokers"),
    "TLS to a plain port": ("OPEN", {"cluster_broker_tls": {"verify": False}}, "it does not speak TLS"),
    "plain to a TLS port": ("TLS", {}, "it speaks TLS, and kproxy would not"),
    "an unknown authority": ("TLS", {"cluster_broker_tls": {}}, "signed by an unknown authority"),
    "a certificate is wanted": (
        "MUTUAL",
        {"cluster_broker_tls": {"verify": False}},
        "it wants a certificate of its clients",
    ),
}


@pytest.mark.parametrize(("listener", "parts", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_way(single: Cluster, tmp_path: Path, listener: str, parts: dict[str, Any], said: str) -> None:
    [problem, *_] = problems(found_before(single, tmp_path, listener, **parts))
    assert said in problem


def test_another_name_than_the_certificates(single: Cluster, tmp_path: Path) -> None:
    assert single.authority is not None
    tls = {"ca": single.authority.ca, "server_name": "kafka.example.com"}
    [problem] = problems(found_before(single, tmp_path, "TLS", cluster_broker_tls=tls))
    assert "its certificate is not for kafka.example.com; its names are: localhost" in problem


def test_a_controller(single: Cluster, tmp_path: Path) -> None:
    found: list[str] = []

    async def work() -> None:
        config = config_of(tmp_path, single.controllers().split(",")[0])
        found.extend(problems(await findings(config, PATIENCE_S)))

    run(work, 120)
    [problem] = found
    assert "controller's listener" in problem


@pytest.mark.parametrize(("off", "words"), [(DAY_S, "1.0 days behind"), (-DAY_S, "1.0 days ahead of")])
def test_a_clock_that_is_off_by_a_day(
    single: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: float, words: str
) -> None:
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + off)  # of this machine; the broker's is its own
    [problem] = problems(found_before(single, tmp_path, "OPEN"))
    assert f"the brokers' clock is {words} the clock of this machine" in problem


def doctor(*words: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run `kproxy doctor` as a person would, under a program that breaks something; exit status, and what it prints."""
    command = [*before, sys.executable, "-m", "kproxy", "doctor", "--listen", f"127.0.0.1:{free_ports(12)}", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("off", "words"), [("+1d", "1.0 days behind"), ("-1d", "1.0 days ahead of")])
def test_the_clock_of_this_machine_is_off(single: Cluster, require: Require, off: str, words: str) -> None:
    """All of the program sees the other time, by faketime."""
    program = shutil.which("faketime")
    require("faketime", program, "faketime is not installed")
    status, said = doctor(
        "--bootstrap", single.bootstrap("OPEN")[0], "--admin", "off", before=(str(program), "-f", off)
    )
    assert status == FOUND, said
    assert f"PROBLEM  default: clock: the brokers' clock is {words} the clock of this machine" in " ".join(
        said.split("\n")
    )


@pytest.mark.long
@pytest.mark.parametrize("server", ["nothing listens there", "it never answers"])
def test_name_servers_are_gone(require: Require, tmp_path: Path, server: str) -> None:
    """In a network and a mount namespace whose /etc/resolv.conf names a server that is of no use."""
    require("netns", os.geteuid() == 0 and shutil.which("unshare"), "needs root")
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", encoding="utf-8")
    silent = "import socket, subprocess, sys; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('127.0.0.1', 53)); "
    silent += "sys.exit(subprocess.call(sys.argv[1:]))"
    python = f"{sys.executable} -c {shlex.quote(silent)} " if server == "it never answers" else ""
    script = f'ip link set lo up && mount --bind {resolv} /etc/resolv.conf && exec {python}"$@"'
    before = ("unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    status, said = doctor("--bootstrap", "kafka.example.com:9092", "--admin", "off", "--timeout", "30", before=before)
    assert status == FOUND, said
    assert "kafka.example.com" in said
    assert "name server" in said, said


def test_the_login_that_is_configured(single: Cluster, tmp_path: Path) -> None:
    """At which step it fails: the place of the password, the mechanism, the brokers' answer, no login wanted."""
    (tmp_path / "right").write_text(PASSWORD)
    (tmp_path / "wrong").write_text("canary-secret")
    (tmp_path / "ended").write_text(unsecured_token(-300))
    (tmp_path / "lasts").write_text(unsecured_token(7_200))
    said: dict[tuple[str, str, str], list[str]] = {}
    for listener, mechanism, file in (
        ("SASL", "SCRAM-SHA-512", "right"),
        ("SASL", "SCRAM-SHA-512", "wrong"),
        ("PLAIN", "SCRAM-SHA-512", "right"),
        ("SASL", "OAUTHBEARER", "ended"),
        ("SASL", "OAUTHBEARER", "lasts"),
    ):
        login = {"mechanism": mechanism, "password": f"file:{tmp_path / file}", "cleartext": True}
        login |= {} if mechanism == "OAUTHBEARER" else {"username": USER}
        said[listener, mechanism, file] = problems(found_before(single, tmp_path, listener, cluster_login=login))
    right, wrong, unwanted, ended, lasts = said.values()
    assert right == []
    [refused] = wrong
    assert f"the login of kproxy: the broker refuses the login of {USER} by SCRAM-SHA-512: SASL_AUTH" in refused
    assert "canary-secret" not in refused
    assert any("the brokers want none" in one for one in unwanted)
    assert any("the token ended 5" in one for one in ended)
    assert lasts == []
