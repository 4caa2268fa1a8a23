"""Every command in README.md and the manual runs: on captures, one by one; around `kproxy run`, with mock brokers."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kproxy.manual import TOPICS, text
from tests.conftest import Require
from tests.support.command import kproxy
from tests.support.kafka.processes import eventually, spawn, stop, tail
from tests.support.ports import free_ports
from tests.support.sockets import create_topic

ROOT = Path(__file__).parents[1]
DOCUMENTS = (ROOT / "README.md").read_text(encoding="utf-8") + "\n".join(map(text, TOPICS))
FOUND = 4  # exit status of a report that found what was asked for
IN_BLOCKS = [
    *(line for block in re.findall(r"^```sh\n(.*?)^```", DOCUMENTS, re.M | re.S) for line in block.splitlines()),
    *re.findall(r"^    ((?:kproxy|kproxy-spark|tcpdump) .*)$", DOCUMENTS, re.M),
]
IN_TEXT = re.findall(
    r"`((?:PYTHONPATH=\. )?kproxy(?:-spark)? [^`]+|python -m [^`]+|tcpdump [^`]+|kubectl [^`]+)`", DOCUMENTS
)
PLACEHOLDER = re.compile(r"\b(COMMAND|NAME|TOPIC|FILE|SOURCE|DIR)\b")
INSTALLS = {
    ". .venv/bin/activate",
    "pip install -e '.[demo,report,sql]'",
}  # test_readme_walk.py
SPARK = {
    "kproxy-spark ingest -o tables 'captures/*.pcap*'",
    "kproxy-spark report --only rebalances --only map tables",
    "kproxy-spark --help",
}  # the same
DEMO = {"kproxy demo --seconds 20"}  # the same; tests/cli/test_demo.py runs a shorter one
LISTEN, BOOTSTRAP, ADMIN = ":19092", "localhost:9092", "localhost:9644"
RUN = "kproxy run --listen :19092 --bootstrap localhost:9092 --log kafka.jsonl"
BESIDE = {
    "kproxy doctor --listen :19092 --bootstrap localhost:9092",
    "kproxy decode kafka.jsonl",
    "kproxy report kafka.jsonl",
    "curl -s http://localhost:9644/metrics",
}
FAULT = 'kproxy run --listen :19092 --bootstrap localhost:9092 --fault "api_name=Produce error=NOT_LEADER_OR_FOLLOWER times=2"'
REPLAY = "kproxy replay captures/01-java-produce-consume-group.pcap --to localhost:9092"
OPEN = "kproxy open captures/04-transactions.pcap captures/03-classic-rebalance-range.pcap"
OWN_FILTER = {
    "kproxy check kproxy.yaml",
    "kproxy run -c kproxy.yaml",
    "PYTHONPATH=. kproxy run -c kproxy.yaml --reload-filters",
}
ELSEWHERE = {  # tests/deploy, tests/extract; benchmarks are for people; a capture of all interfaces needs root
    "kubectl apply -f deploy/kubernetes/sidecar.yaml",
    "python -m kproxy.extract",
    "tcpdump -i any -w trace.pcap tcp port 9092",
    "tcpdump -i any -U -w - tcp port 9092 | kproxy open -",
}
MENTIONED = {
    "kproxy run",
    "kproxy report",
    "kproxy-spark ingest",
    "kproxy decode --format parquet",
    "kproxy decode --follow kafka.jsonl",
    "kproxy doctor",
    "kproxy replay",
    "kproxy sql",
}  # no command to paste
UNTIL_ENDED = {  # by Ctrl-C; OPEN and RUN stand for them
    line for line in (*IN_BLOCKS, *IN_TEXT) if re.match(r"kproxy (open|run|demo)\b", line)
}
ALONE = sorted(
    {line for line in (*IN_BLOCKS, *IN_TEXT) if line.startswith("kproxy ") and not PLACEHOLDER.search(line)}
    - UNTIL_ENDED
    - {RUN, FAULT, REPLAY, OPEN, *BESIDE, *DEMO, *SPARK, *MENTIONED, *OWN_FILTER}
)


def test_no_command_is_left_out() -> None:
    covered = {
        RUN,
        FAULT,
        REPLAY,
        OPEN,
        *BESIDE,
        *OWN_FILTER,
        *ELSEWHERE,
        *INSTALLS,
        *SPARK,
        *DEMO,
        *MENTIONED,
        *UNTIL_ENDED,
        *ALONE,
    }
    others = {line for line in (*IN_BLOCKS, *IN_TEXT) if line not in covered and not PLACEHOLDER.search(line)}
    assert {line for line in others if not line.startswith("python -m tests.bench.")} == set()
    assert covered <= {*IN_BLOCKS, *IN_TEXT}
    assert len(ALONE) > 15


@pytest.mark.parametrize("name", sorted({line.split()[2] for line in IN_TEXT if "tests.bench." in line}))
def test_a_benchmark_that_is_named_is_there(name: str) -> None:
    assert (ROOT / f"{name.replace('.', '/')}.py").is_file()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the sample captures, in which the commands may write."""
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ALONE)
@pytest.mark.usefixtures("checkout")
def test_a_command_runs(command: str, require: Require, capsys: pytest.CaptureFixture[str]) -> None:
    if " report " in command or " sql " in command:
        pytest.importorskip("duckdb")
    status = kproxy(*shlex.split(command)[1:])
    shown = capsys.readouterr()
    assert status in (0, FOUND), shown.err
    assert shown.out or "-o " in command
    assert (status == FOUND) == ("--target 4.0" in command)


@pytest.fixture(scope="module")
def broker(require: Callable[..., None]) -> Iterator[str]:
    """A mock broker's address."""
    try:
        from confluent_kafka import Producer  # noqa: PLC0415 - an extra
    except ImportError:
        require("demo", False, "confluent-kafka is not installed")
    owner = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    (found,) = owner.list_topics(timeout=60).brokers.values()
    yield f"{found.host}:{found.port}"


class Running:
    """`kproxy run` as a command of the README starts it, but for its ports."""

    def __init__(self, command: str, broker: str, folder: Path) -> None:
        self.folder, self.broker = folder, broker
        self.listen = f"127.0.0.1:{free_ports(8)}"
        self.admin = f"127.0.0.1:{free_ports()}"
        self.log = folder / "said.log"
        self.process = spawn(
            self.words(command), self.log, environment={"PYTHONPATH": f"{ROOT}:{folder}"}, folder=folder
        )

    def words(self, command: str) -> list[str]:
        """A command as a list, with this proxy's ports and our Python."""
        here = {LISTEN: self.listen, BOOTSTRAP: self.broker}
        _, name, *words = (here.get(word, word) for word in shlex.split(command) if word != "PYTHONPATH=.")
        admin = ["--admin", self.admin] if name in ("run", "doctor") else []
        return [sys.executable, "-m", "kproxy", name, *words, *admin]

    def do(self, command: str) -> str:
        """What a command beside it prints."""
        if command.startswith("curl"):
            return self.get("/metrics")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            self.words(command), cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(f"{path}: {error.read().decode()}") from None


@contextmanager
def running(command: str, broker: str, folder: Path) -> Iterator[Running]:
    """It has reached the broker when the block begins."""
    proxy = Running(command, broker, folder)
    try:
        eventually(lambda: proxy.get("/readyz"), what=f"/readyz: {tail(proxy.log)}")
        yield proxy
    finally:
        stop(proxy.process, patience=60)


def produce(bootstrap: str, topic: str, records: int, **settings: object) -> list[object]:
    """Produce; the error of each record, None where it was acknowledged."""
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra

    client = Producer({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    said: list[object] = []
    for _ in range(records):
        client.produce(topic, b"x", on_delivery=lambda error, _: said.append(error))
    assert client.flush(120) == 0
    return said


def test_a_proxy_and_what_is_beside_it(broker: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    with running(RUN, broker, tmp_path) as proxy:
        assert produce(proxy.listen, "readme-orders", 10) == [None] * 10
        log = tmp_path / "kafka.jsonl"
        eventually(lambda: '"apiName":"Produce"' in log.read_text(encoding="utf-8"), what="Produce in the log")
        shown = {command: proxy.do(command) for command in sorted(BESIDE)}
    assert re.search(r" Produce v\d+ .* readme-orders-\d", shown["kproxy decode kafka.jsonl"])
    assert "readme-orders" in shown["kproxy report kafka.jsonl"]
    assert 'api="Produce"' in shown["curl -s http://localhost:9644/metrics"]
    assert "no problems" in shown["kproxy doctor --listen :19092 --bootstrap localhost:9092"]


def test_a_fault_on_the_command_line(broker: str, tmp_path: Path) -> None:
    with running(FAULT, broker, tmp_path) as proxy:
        assert produce(proxy.listen, "readme-faults", 1) == [None]
        (fired,) = (each for each in json.loads(proxy.get("/filters"))["counts"] if each["event"] == "fired")
        assert fired["count"] == 2


@pytest.mark.usefixtures("checkout")
def test_a_replay_says_what_it_would_do(broker: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy(*shlex.split(REPLAY.replace(BOOTSTRAP, broker))[1:]) == 0
    assert "nothing was sent" in capsys.readouterr().out.lower()


def test_a_capture_in_the_browser(checkout: Path) -> None:
    pytest.importorskip("duckdb")
    words = [sys.executable, "-m", "kproxy", *shlex.split(OPEN)[1:], "--no-browser"]
    process = spawn(words, checkout / "said.log", environment={"PYTHONPATH": str(ROOT)}, folder=checkout)
    try:
        found = eventually(lambda: re.search(r"http://\S+token=\S+", tail(checkout / "said.log")), what="its address")
        assert found is not None
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(found[0], timeout=60) as page:
            assert "kproxy" in page.read().decode()
    finally:
        stop(process, patience=60)


def test_the_filter_of_ones_own_in_its_configuration(broker: str, tmp_path: Path) -> None:
    (filter_,) = (
        block for block in re.findall(r"```python\n(.*?)```", DOCUMENTS, re.DOTALL) if "class DenyTopics" in block
    )
    (config,) = (block for block in re.findall(r"```yaml\n(.*?)```", DOCUMENTS, re.DOTALL) if "DenyTopics" in block)
    (tmp_path / "my_filters.py").write_text(filter_, encoding="utf-8")
    listen = f"127.0.0.1:{free_ports(8)}"
    here = config.replace(f"listen: {LISTEN}", f"listen: {listen}").replace(BOOTSTRAP, broker)
    (tmp_path / "kproxy.yaml").write_text(here, encoding="utf-8")
    run, check, _ = sorted(OWN_FILTER)
    words = [sys.executable, "-m", "kproxy", *shlex.split(check)[1:]]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    refused = pytest.raises(AssertionError, match="CreateTopics internal-a: internal- is reserved")
    with running(run, broker, tmp_path), refused:
        create_topic(listen, "internal-a", [[1]])


def test_the_fixture_of_pytest(broker: str, tmp_path: Path) -> None:
    (test,) = (block for block in re.findall(r"```python\n(.*?)```", DOCUMENTS, re.DOTALL) if "kproxy_proxy" in block)
    program = re.sub(r"^    \.\.\..*$", "    produce(proxy.bootstrap, 'readme-fixture', 1)", test, flags=re.MULTILINE)
    module = f"from tests.test_readme_commands import produce\n\n{program}".replace(BOOTSTRAP, broker)
    (tmp_path / "test_program.py").write_text(module, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kproxy.testing.plugin", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
