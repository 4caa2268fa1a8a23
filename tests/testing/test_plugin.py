"""The fixture, in a pytest of its own, as the tests of a program that uses Kafka have it."""

import contextlib
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kproxy.testing import plugin
from tests.support.corpus import ROOT
from tests.support.kafka.processes import eventually

TESTS = """
from confluent_kafka import Producer

def test_two_lines(kproxy_proxy):
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = owner.list_topics(timeout=60).brokers.values()
    proxy = kproxy_proxy(f"{broker.host}:{broker.port}")
    moved = proxy.fault(api_name="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    client = Producer({"bootstrap.servers": proxy.bootstrap, "log_level": 0})
    said = []
    client.produce("orders", b"x", on_delivery=lambda error, _: said.append(error))
    assert client.flush(60) == 0
    assert (said, moved.fired) == ([None], 2)
"""


def running_in(folder: str) -> list[str]:
    """The processes whose environment has this TMPDIR."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
    return found


def test_the_fixture_gives_a_cluster_with_faults_in_two_lines(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(TESTS, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kproxy.testing.plugin", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


ENDS = """
import signal, os
from confluent_kafka import Producer

def test_that_does_not_end(kproxy_proxy):
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (broker,) = owner.list_topics(timeout=60).brokers.values()
    proxy = kproxy_proxy(f"{broker.host}:{broker.port}")
    print("PROXY", proxy.bootstrap, flush=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    END
    signal.pause()
"""


@pytest.mark.parametrize(
    "how",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        pytest.param("os.kill(os.getpid(), signal.SIGINT)", marks=pytest.mark.long),
        pytest.param("os.kill(os.getpid(), signal.SIGTERM)", marks=pytest.mark.long),
        pytest.param("raise AssertionError", marks=pytest.mark.long),
    ],
)
def test_nothing_is_left_running_however_a_test_ends(tmp_path: Path, how: str) -> None:
    """An assertion that does not hold, Ctrl-C, kill -9 and kill."""
    (tmp_path / "test_program.py").write_text(ENDS.replace("END", how), encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "kproxy.testing.plugin", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["TMPDIR"] = str(tmp_path)  # by which its processes are known
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert "PROXY" in done.stdout, done.stdout + done.stderr
    assert done.returncode != 0
    eventually(lambda: not running_in(environment["TMPDIR"]), what="the proxy and its workers have ended")


@pytest.mark.long
def test_each_worker_of_xdist_has_proxies_of_its_own(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_program_{number}.py").write_text(TESTS, encoding="utf-8")
    plugins = [word for name in ("kproxy.testing.plugin", "xdist.plugin") for word in ("-p", name)]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins, "-n", "2", "."]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_XDIST")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_it_is_registered_under_a_name_that_pytest_looks_for() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    entry = EntryPoint("kproxy", "kproxy.testing.plugin", "pytest11")
    assert f'[project.entry-points.{entry.group}]\n{entry.name} = "{entry.value}"\n' in text
    assert entry.load() is plugin


def test_pytest_loads_nothing_of_kproxy_that_its_start_would_notice() -> None:
    code = "import sys, kproxy.testing.plugin; print(*[name for name in sys.modules if name.startswith('kproxy')])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kproxy", "kproxy.testing", "kproxy.testing.plugin"]


@pytest.mark.parametrize("name", ["Proxy", "InjectedFault"])
def test_the_package_gives_its_names_when_they_are_asked_for(name: str) -> None:
    import kproxy.testing  # noqa: PLC0415

    assert getattr(kproxy.testing, name).__module__ == "kproxy.testing.proxy"
    with pytest.raises(AttributeError):
        kproxy.testing.other  # noqa: B018
