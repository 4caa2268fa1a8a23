"""`kproxy doctor` before real brokers: every listener by the right way and a wrong one, and their clock."""

import time
from pathlib import Path
from typing import Any

import pytest

from kproxy.doctor.findings import State
from tests.support.doctored import PATIENCE_S, config_of, findings, problems
from tests.support.kafka.brokers import Cluster
from tests.support.links import run

DAY_S = 86_400.0


def found_before(cluster: Cluster, folder: Path, listener: str, **parts: Any) -> list[Any]:
    made: list[Any] = []

    async def work() -> None:
        config = config_of(folder, cluster.bootstrap(listener)[0], **parts)
        made.extend(await findings(config, PATIENCE_S))

    run(work, 120)
    return made


def test_the_right_way(single: Cluster, tmp_path: Path) -> None:
    assert single.authority is not None
    found = found_before(single, tmp_path, "OPEN")
    assert problems(found) == []
    [clock] = [one for one in found if one.subject == "default: clock"]
    assert clock.state is State.GOOD  # broker and test have one clock
    assert any("are reached" in one.what for one in found)
    assert problems(found_before(single, tmp_path, "TLS", cluster_broker_tls={"ca": str(single.authority.ca)})) == []
    found = found_before(single, tmp_path, "SASL_TLS", cluster_broker_tls={"ca": str(single.authority.ca)})
    assert problems(found) == []
    [login] = [one for one in found if one.subject == "default: login"]
    assert {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"} <= set(
        login.what[:-1].partition("(")[2].split(", ")
    )


WRONG = {
    "passwords in the clear": ("SASL", {}, "PLAIN and OAUTHBEARER without TLS towards the brokers"),
    "TLS to a plain port": ("OPEN", {"cluster_broker_tls": {"verify": False}}, "it does not speak TLS"),
    "plain to a TLS port": ("TLS", {}, "it speaks TLS, and kproxy would not"),
    "an unknown authority": ("TLS", {"cluster_broker_tls": {}}, "signed by an unknown authority"),
    "a certificate is wanted": ("MUTUAL", {"cluster_broker_tls": {"verify": False}}, "certificate"),
}


@pytest.mark.parametrize(("listener", "parts", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_way(single: Cluster, tmp_path: Path, listener: str, parts: dict[str, Any], said: str) -> None:
    [problem, *_] = problems(found_before(single, tmp_path, listener, **parts))
    assert said in problem


def test_another_name_than_the_certificates(single: Cluster, tmp_path: Path) -> None:
    assert single.authority is not None
    tls = {"ca": str(single.authority.ca), "server_name": "kafka.example.com"}
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
