"""Limits of open files, full disks, ports in use, and certificates that clients are shown."""

import errno
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.doctor.findings import Finding, State
from kproxy.doctor.machine import examine_machine, examine_open_files
from kproxy.proxy.network import listening
from tests.conftest import Require
from tests.support import namespaces
from tests.support.certificates import certificates
from tests.support.doctored import config_of, problems


def examined(folder: Path, **parts: Any) -> list[Finding]:
    return list(examine_machine(config_of(folder, "kafka.test:9092", **parts), running=False))


def test_a_limit_of_256_files(tmp_path: Path) -> None:
    script = (
        "import sys; from kproxy.cli import main; main(['doctor', '--listen', ':19092', '--bootstrap', '127.0.0.1:1'])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 4
    assert "PROBLEM  open files: the limit of 256 is enough for about 96 clients" in done.stdout


def test_few_clients_need_few_files(tmp_path: Path) -> None:
    files = examined(tmp_path, limits={"connections": 10})[0]
    assert (files.subject, files.state) == ("open files", State.GOOD)


@pytest.mark.parametrize(
    ("limit", "state", "what"),
    [
        (20_064, State.GOOD, "20,064 allowed, 20,064 needed for 10,000 clients"),
        (20_000, State.NOTE, "the limit of 20,000 is enough for about 9,968 clients"),
        (18_000, State.WARNING, "the limit of 18,000 is enough for about 8,968 clients"),
        (1_000, State.PROBLEM, "the limit of 1,000 is enough for about 468 clients"),
        (resource.RLIM_INFINITY, State.GOOD, "any number allowed"),
    ],
)
def test_a_limit_below_the_need_is_not_ok(limit: int, state: State, what: str) -> None:
    """Each client takes two files, and kproxy itself 64."""
    found = examine_open_files(10_000, limit)
    assert found.state is state and found.what.startswith(what)


def test_a_full_disk(require: Require, tmp_path: Path) -> None:
    require("netns", namespaces.can_mount(), "file systems cannot be mounted here")
    with namespaces.small_disk(tmp_path / "disk", 1 << 20) as folder:
        log = {"log": {"path": str(folder / "kafka.jsonl"), "most_size": "100KiB", "keep": 2}}
        assert problems(examined(tmp_path, analysis=log)) == []
        filler = namespaces.fill(folder)
        [problem] = problems(examined(tmp_path, analysis=log))
        assert "nothing can be written to" in problem and "No space left on device" in problem
        filler.unlink()
        audit = [{"use": "audit", "with": {"file": {"path": str(folder / "audit.jsonl"), "most_size": "1GiB"}}}]
        [problem] = problems(examined(tmp_path, cluster_filters=audit))
        assert "are free in" in problem


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [problem] = problems(examined(tmp_path, cluster_listen=f"127.0.0.1:{port}"))
        assert problem == f"ports: 127.0.0.1:{port} cannot be listened on: Address already in use"
        [problem] = problems(examined(tmp_path, admin=f"127.0.0.1:{port}"))
        assert problem == f"ports: 127.0.0.1:{port} cannot be listened on: Address already in use"


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    """RFC 5737: 192.0.2.0/24 is nobody's."""
    for parts in ({"cluster_listen": "192.0.2.77:19092"}, {"admin": "192.0.2.77:9644"}):
        [ports] = [one for one in examined(tmp_path, **parts) if one.subject == "ports"]
        assert ports.what.endswith("cannot be listened on: Cannot assign requested address")
        assert "no address of this machine" in ports.advice and "another kproxy" not in ports.advice


def test_a_port_that_only_the_system_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As bind(2) fails for who may not: EACCES; the tests may run as root, who may."""

    def bind(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(listening, "unbound_socket", bind)
    [ports] = [one for one in examined(tmp_path, cluster_listen=":443") if one.subject == "ports"]
    assert "CAP_NET_BIND_SERVICE" in ports.advice and "another kproxy" not in ports.advice


def test_the_certificate_for_clients(tmp_path: Path) -> None:
    expired = certificates().expired
    tls = {"certificate": expired.certificate, "key": expired.key}
    [problem] = problems(examined(tmp_path, cluster_listener_tls=tls))
    assert "has expired" in problem
