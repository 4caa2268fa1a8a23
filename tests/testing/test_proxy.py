"""A proxy of a test, before librdkafka's mock cluster of three brokers. The client is librdkafka: what it says is asserted."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from kproxy.errors import KproxyError, UsageError
from kproxy.testing import Proxy, plugin
from kproxy.testing.proxy import free_ports
from tests.support.corpus import ROOT
from tests.support.kafka.processes import eventually, spawn, stop

PATIENCE_S = 60
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Bootstrap addresses of a mock cluster; it lives as long as its producer."""
    owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", **QUIET})
    yield ",".join(f"{broker.host}:{broker.port}" for broker in owner.list_topics(timeout=PATIENCE_S).brokers.values())
    del owner


@pytest.fixture(scope="module")
def proxy(cluster: str) -> Iterator[Proxy]:
    with Proxy(cluster) as running:
        yield running


def produce(proxy: Proxy, topic: str = "orders", count: int = 1, **settings: Any) -> list[int | None]:
    """Produce; the error code of each record, None for one that was acknowledged."""
    return produce_at(proxy.bootstrap, topic, count, **settings)


def produce_at(bootstrap: str, topic: str = "orders", count: int = 1, **settings: Any) -> list[int | None]:
    """Likewise at an address."""
    client = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 60_000, **QUIET, **settings})
    codes: list[int | None] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        codes.append(error.code() if error else None)

    for number in range(count):
        client.produce(topic, str(number).encode(), partition=0, on_delivery=delivered)
        assert client.flush(PATIENCE_S) == 0
    return codes


def test_faults_come_and_go_while_it_runs_and_count_what_fired(proxy: Proxy) -> None:
    moved = proxy.fault(api_name="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    assert produce(proxy) == [None]
    assert (moved.fired, moved.calls) == (2, 3)
    refused = proxy.fault(api_name="Produce", topic="refused", error="INVALID_RECORD", name="refused")
    assert produce(proxy, "refused", count=2) == [87, 87]
    assert produce(proxy) == [None]
    assert (proxy.fired("refused"), refused.calls) == (2, 2)
    refused.remove()
    assert produce(proxy, "refused") == [None]
    proxy.clear()
    assert produce(proxy) == [None]
    assert (moved.fired, refused.fired, proxy.faults["refused"].fired) == (2, 2, 2)


def test_a_lost_connection_is_one_of_the_calls(proxy: Proxy) -> None:
    lost = proxy.fault(api_name="Produce", disconnect=True, call=2)
    cut = proxy.fault(api_name="Produce", truncate=9, skip=3, times=1)
    assert produce(proxy, count=4) == [None] * 4
    assert (lost.fired, cut.fired) == (1, 1)
    proxy.clear()


def test_a_response_that_never_comes_times_out_and_is_asked_for_again(proxy: Proxy) -> None:
    silent = proxy.fault("half_open_connection", api_name="Produce")
    assert produce(proxy, **{"socket.timeout.ms": 1_000, "request.timeout.ms": 1_000}) == [None]
    assert (silent.fired, silent.calls) == (1, 2)
    proxy.clear()


def test_the_same_seed_makes_the_same_calls_fail(proxy: Proxy) -> None:
    runs = []
    for _ in range(2):
        chance = proxy.fault(api_name="Produce", error="INVALID_RECORD", probability=0.5, seed=3)
        runs.append(produce(proxy, count=12))
        assert chance.fired == runs[-1].count(87)
        proxy.clear()
    assert runs[0] == runs[1]
    assert {None, 87} == set(runs[0])


def test_mistakes_of_options_are_said_where_they_are_made(proxy: Proxy) -> None:
    with pytest.raises(UsageError, match='there is no API "Product": did you mean Produce'):
        proxy.fault(api_name="Product", error="NONE")
    with pytest.raises(KproxyError, match="there is no fault 'none'"):
        proxy.fired("none")
    proxy.fault(api_name="EndTxn", delay=1, name="twice")
    with pytest.raises(KproxyError, match="there is a fault 'twice' already"):
        proxy.fault(api_name="EndTxn", delay=1, name="twice")
    proxy.clear()


def test_a_proxy_that_cannot_start_says_why_and_leaves_nothing(cluster: str) -> None:
    wrong = Proxy(cluster, addresses={"mode": "port"})
    with pytest.raises(KproxyError, match=r"port .* is where the admin server listens"):
        wrong.__enter__()
    assert wrong._process is None


@pytest.mark.parametrize(
    ("words", "options"),
    [
        pytest.param(
            "api_name=Produce error=INVALID_RECORD call=2,4",
            {"api_name": "Produce", "error": "INVALID_RECORD", "call": [2, 4]},
            marks=pytest.mark.slow,
        ),
        (
            "api_name=Produce error=INVALID_RECORD probability=0.5 seed=3",
            {"api_name": "Produce", "error": "INVALID_RECORD", "probability": 0.5, "seed": 3},
        ),
        pytest.param(
            "leader_moved error=INVALID_RECORD",
            {"scenario": "leader_moved", "error": "INVALID_RECORD"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_fixture_the_command_line_and_yaml_do_the_same(
    cluster: str, proxy: Proxy, tmp_path: Path, words: str, options: dict[str, Any]
) -> None:
    """Each of the three in front of the same brokers; the records that fail are the same."""
    brokers, port = cluster.split(","), free_ports(5)
    file = tmp_path / "kproxy.yaml"
    listed = {"use": "faults", "with": {"faults": [options]}}
    first = {"listen": f"127.0.0.1:{port}", "bootstrap": brokers, "filters": [listed]}
    file.write_text(json.dumps({"clusters": [{**first, "addresses": {"mode": "port", "first_port": port + 1}}]}))
    plain = {**first, "filters": [], "addresses": {"mode": "port", "first_port": port + 1}}
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({"clusters": [plain]}))
    fault = proxy.fault(**options)
    runs = [produce(proxy, count=6)]
    assert fault.fired == runs[0].count(87) > 0
    proxy.clear()
    for command in (["-c", str(file)], ["-c", str(other), "--fault", words]):
        with served(command, tmp_path) as log:
            assert "serving" in log
            runs.append(produce_at(f"127.0.0.1:{port}", count=6))
    assert runs[0] == runs[1] == runs[2]


@contextmanager
def served(words: list[str], folder: Path) -> Iterator[str]:
    """`kproxy run` with these words, once it serves; what it has logged."""
    log = folder / "log"
    log.write_text("")
    process = spawn([sys.executable, "-m", "kproxy", "run", *words, "--no-analysis", "--admin", "off"], log)
    try:
        eventually(lambda: "serving" in log.read_text(), what="kproxy serves")
        yield log.read_text()
    finally:
        stop(process, patience=20)


def test_without_a_broker_it_says_so_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(KproxyError, match=f"no Kafka broker is at {address}: Connection refused: start one"):
            Proxy(address).__enter__()


def test_it_ends_with_its_block(cluster: str) -> None:
    with Proxy(cluster) as running:
        assert running._process is not None
        pid = running._process.pid
        folder = running._file.parent
        assert "serving" in "".join(running.log())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not folder.exists()


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


def pytest_of_its_own(folder: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the tests in a folder, with the plugin, as a program that uses Kafka does."""
    plugins = ("-p", "no:cacheprovider", "-p", "kproxy.testing.plugin")
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *words, "."]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    own = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment}
    return subprocess.run(
        command, cwd=folder, env=inherited | own, capture_output=True, text=True, check=False, timeout=300
    )


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
    done = pytest_of_its_own(tmp_path, "-s", TMPDIR=str(tmp_path))  # by which its processes are known
    assert "PROXY" in done.stdout, done.stdout + done.stderr
    assert done.returncode != 0
    eventually(lambda: not running_in(str(tmp_path)), what="the proxy and its workers have ended")


@pytest.mark.long
def test_each_worker_of_xdist_has_proxies_of_its_own(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_program_{number}.py").write_text(TESTS, encoding="utf-8")
    done = pytest_of_its_own(tmp_path, "-p", "xdist.plugin", "-n", "2")
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
