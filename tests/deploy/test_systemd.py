"""The unit for systemd: what `systemd-analyze` says of it, and kproxy under it."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from kproxy.config.reading import parse_config
from kproxy.proxy.broker_client import BrokerClient
from tests.conftest import Require
from tests.deploy.tools import DEPLOY, passes, tool
from tests.doctor.test_running import until_ready
from tests.support import systemd
from tests.support.doctored import broker
from tests.support.kafka.processes import eventually
from tests.support.links import run
from tests.support.ports import free_ports

UNIT = DEPLOY / "systemd" / "kproxy.service"
MOST_EXPOSURE = 2.0  # of 10; systemd's own services have 2 to 9


def test_the_unit_has_no_mistakes(require: Require, tmp_path: Path) -> None:
    analyze = tool(require, "systemd-analyze")
    installed = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("/opt/kproxy/bin/kproxy") == 3
    installed.write_text(text.replace("/opt/kproxy/bin/kproxy", sys.executable), encoding="utf-8")
    assert passes(analyze, "verify", "--man=no", installed) == ""


def test_little_is_left_open(require: Require) -> None:
    analyze = tool(require, "systemd-analyze")
    said = passes(analyze, "security", "--offline=true", "--no-pager", UNIT)
    [exposure] = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert float(exposure) <= MOST_EXPOSURE


# Of /proc/PID/status: no capability, no new privilege, a filter of system calls.
RESTRICTED = {"CapEff": "0+", "CapBnd": "0+", "NoNewPrivs": "1", "Seccomp": "2"}


@pytest.mark.long
def test_it_forwards_under_the_restrictions_of_the_unit(require: Require, tmp_path: Path) -> None:
    """Started, asked, reloaded and stopped by a real systemd: what the unit allows is enough, and it is in force."""
    require("netns", systemd.available(), "no systemd, or not root")
    port = free_ports(12)

    async def work() -> None:
        async with broker() as upstream:
            cluster = (
                f"{{listen: '127.0.0.1:{port}', bootstrap: ['127.0.0.1:{upstream}'], addresses: {{node_ids: [0]}}}}"
            )
            text = f"admin: '127.0.0.1:{port + 10}'\nclusters: [{cluster}]\n"
            log = "analysis: {log: {path: /var/log/kproxy/kafka.jsonl}}\n"
            with systemd.started(UNIT.read_text(encoding="utf-8"), text + log, tmp_path) as manager:
                await until_ready(parse_config(text, "kproxy.yaml"))
                asking = BrokerClient(*await asyncio.open_connection("127.0.0.1", port))
                assert await asking.brokers(await asking.versions()) == [(0, "127.0.0.1", port + 1)]
                asking.close()
                await asyncio.to_thread(rest_of_its_life, manager)

    run(work, 240)


def rest_of_its_life(manager: systemd.Manager) -> None:
    """After it has forwarded."""
    log = "/var/log/private/kproxy/kafka.jsonl"
    eventually(lambda: '"apiName":"Metadata"' in manager.read(log), what="Metadata in the decoded log")
    status = manager.read(f"/proc/{manager.ask('show', 'kproxy', '-p', 'MainPID', '--value').strip()}/status")
    for name, value in RESTRICTED.items():
        assert re.search(rf"^{name}:\s+{value}$", status, re.MULTILINE), status
    manager.ask("reload", "kproxy")
    eventually(
        lambda: "the configuration was taken" in manager.read(systemd.LOG), what="the configuration is read again"
    )
    manager.ask("stop", "kproxy")
    ended = manager.ask("show", "kproxy", "-p", "Result", "-p", "ExecMainStatus", "-p", "NRestarts")
    assert set(ended.split()) == {"Result=success", "ExecMainStatus=0", "NRestarts=0"}
