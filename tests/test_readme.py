"""README.md and the manual: .ci/run runs README's two commands, examples print what is shown, and what is named exists."""

import doctest
import html
import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kproxy as library
from kproxy import protocol
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, ConnectionFacts, Send
from kproxy.manual import TOPICS, text
from kproxy.pipeline.reading import read
from kproxy.protocol import message
from tests.conftest import Require
from tests.support.command import kproxy
from tests.support.kafka.processes import eventually, spawn, stop, tail
from tests.support.ports import free_ports
from tests.support.sampled import sampled
from tests.support.sockets import create_topic
from tests.support.tables import MANIFEST

ROOT = Path(__file__).parents[1]
FOUND = 4  # exit status of a report that found what was asked for
LONGEST = 160  # lines
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = README + "\n".join(map(text, TOPICS))
PICTURE = ROOT / "deploy" / "release" / "terminal.svg"
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
PROMPT = re.compile(r"^\$ (.+)$", re.MULTILINE)
EXAMPLE = re.compile(r"^\$ (kproxy .+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)


def printed(command: str) -> str:
    program = f"{shlex.quote(sys.executable)} -c 'from kproxy.cli import main; main()'"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)  # README shows what is printed without
    shell = f'kproxy() {{ {program} "$@"; }}\n{command}'
    with tempfile.TemporaryDirectory(prefix="kproxy-readme-") as folder:
        (Path(folder) / "captures").symlink_to(ROOT / "captures")
        words = ["bash", "-c", shell]
        run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert run.returncode in (0, FOUND), run.stderr
    return run.stdout


def test_the_first_command_installs_and_does_the_main_job_and_the_second_passes_the_tests() -> None:
    first, second, *_ = PROMPT.findall(README)
    assert EXAMPLE.findall(README)
    assert "pip install -e . " in first
    assert first.endswith("kproxy decode captures/01-java-produce-consume-group.pcap")
    assert "pip install -e '.[test]' " in second
    assert second.endswith("python -m pytest")


def test_ci_runs_the_two_commands_word_for_word() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert '''bash -euo pipefail -c "$(readme_command 1)"''' in script
    assert '''run_tests bash -euo pipefail -c "$(readme_command 2)"''' in script
    function = next(line for line in script.splitlines() if line.startswith("readme_command() "))
    for number, command in enumerate(PROMPT.findall(README)[:2], start=1):
        shell = f"{function}\nreadme_command {number}"
        run = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        assert run.stdout == command + "\n"


@pytest.mark.parametrize(("command", "shown"), EXAMPLE.findall(README), ids=lambda shown: shown[:60])
def test_an_example_prints_what_is_shown(command: str, shown: str) -> None:
    parts = [re.escape(part) for part in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    assert re.fullmatch("(?:.*\n)+".join(parts), printed(command)), printed(command)


def test_the_rebalances_in_the_picture_are_those_that_the_members_reported() -> None:
    shown = html.unescape(re.sub(r"<[^>]*>", "", PICTURE.read_text(encoding="utf-8"))).replace("\xa0", " ")
    (expected,) = (entry["expect"]["groups"]["g-range"] for entry in MANIFEST if entry["file"].startswith("03-"))
    assert re.findall(r"g-range +(\d+)  (?:joined|left)", shown) == [str(n) for n in expected["generations_seen"]]


def test_it_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) <= LONGEST


def test_the_frames_that_tshark_calls_malformed_are_counted_in_the_manifest() -> None:
    made = [entry["tshark_4_0_17"] for entry in MANIFEST if entry.get("tshark_4_0_17")]
    frames, malformed = (sum(each[name] for each in made) for name in ("kafka_frames", "malformed_frames"))
    assert f"of the {frames:,} Kafka frames in `captures`, tshark 4.0.17 calls {malformed} malformed" in " ".join(
        DOCUMENTS.split()
    )


def test_the_picture_is_what_kproxy_gives_today(require: Require) -> None:
    require("report", importlib.util.find_spec("duckdb"), "duckdb is not installed")
    words = [sys.executable, "deploy/release/readme.py", "--check"]
    run = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, ""), run.stdout


def test_the_library_does_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = [block for block in PYTHON.findall(DOCUMENTS) if block.startswith(">>>")]
    assert len(blocks) == 1
    for block in blocks:
        session = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL).run(session)
        assert results.attempted >= 2
        assert results.failed == 0


@pytest.mark.parametrize(("name", "answered"), [("internal-a", {"internal-a": 44}), ("orders", None)])
def test_the_filter_does_what_it_says(name: str, answered: dict[str, int] | None) -> None:
    (block,) = (block for block in PYTHON.findall(DOCUMENTS) if "class DenyTopics" in block)
    defined: dict[str, Any] = {}
    exec(block, defined)
    wish = {"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    create = message("CreateTopicsRequest")
    body = create.encode(5, create.from_json(5, json.dumps({"topics": [wish], "timeoutMs": 1, "validateOnly": False})))
    header = struct.pack(">hhih", 19, 5, 7, 1) + b"x\0"
    frame = struct.pack(">i", len(header + body)) + header + body
    outcome = Chain([defined["DenyTopics"]("internal-")]).on_request(ConnectionFacts(1, "c", "", "", ""), frame)
    if answered is None:
        assert outcome == Send(frame)
    else:
        assert isinstance(outcome, Answer)
        response = message("CreateTopicsResponse").decode(5, outcome.frame, 9)
        assert {topic.name: topic.error_code for topic in response.topics} == answered


def test_files_that_are_named_exist() -> None:
    named = re.findall(r"(?<![\w/.])(?:kproxy|tests|captures|deploy|dashboards|\.ci)/[\w./-]*[\w]", DOCUMENTS)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_promise_and_attack_that_a_test_names_is_in_the_list() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    promises, attacks = (set(re.findall(r"^\| (\d+) \|", part, re.MULTILINE)) for part in text.split("## Attacks"))
    names = [
        name
        for module in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def test_(\w+)\(", module.read_text(encoding="utf-8"))
    ]
    assert {number for name in names for number in re.findall(r"promise_(\d+)_", name)} <= promises
    assert {number for name in names for number in re.findall(r"attack_(\d+)_", name)} <= attacks


DOCSTRINGS = {read: {"kproxy": library}, protocol: {"message": protocol.message}}


@pytest.mark.parametrize("shown", DOCSTRINGS, ids=lambda shown: shown.__name__)
def test_an_example_in_a_docstring_prints_what_is_shown(shown: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = shown.__doc__ or ""
    session = doctest.DocTestParser().get_doctest(text, dict(DOCSTRINGS[shown]), "docstring", None, 0)
    assert len(session.examples) >= 4
    results = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(session)
    assert results.failed == 0


IN_BLOCKS = [
    *(line for block in re.findall(r"^```sh\n(.*?)^```", DOCUMENTS, re.M | re.S) for line in block.splitlines()),
    *re.findall(r"^    ((?:kproxy|kproxy-spark|tcpdump) .*)$", DOCUMENTS, re.M),
]
IN_TEXT = re.findall(
    r"`((?:PYTHONPATH=\. )?kproxy(?:-spark)? [^`]+|python -m [^`]+|tcpdump [^`]+|kubectl [^`]+)`", DOCUMENTS
)
PLACEHOLDER = re.compile(r"\b(COMMAND|NAME|TOPIC|FILE|SOURCE|DIR)\b")
INSTALLS = {". .venv/bin/activate", "pip install -e '.[demo,report,sql]'"}  # test_the_readme_to_the_letter
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
    "kproxy decode",
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
    elsewhere = {*ELSEWHERE, *INSTALLS, *SPARK, *DEMO, *MENTIONED, *UNTIL_ENDED}
    covered = {RUN, FAULT, REPLAY, OPEN, *BESIDE, *OWN_FILTER, *ALONE, *elsewhere}
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


@pytest.mark.parametrize("command", sampled(ALONE, [one for one in ALONE if " report " not in one or " -o " in one]))
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
    (filter_,) = (block for block in PYTHON.findall(DOCUMENTS) if "class DenyTopics" in block)
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
    (test,) = (block for block in PYTHON.findall(DOCUMENTS) if "kproxy_proxy" in block)
    program = re.sub(r"^    \.\.\..*$", "    produce(proxy.bootstrap, 'readme-fixture', 1)", test, flags=re.MULTILINE)
    module = f"from tests.test_readme import produce\n\n{program}".replace(BOOTSTRAP, broker)
    (tmp_path / "test_program.py").write_text(module, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "kproxy.testing.plugin", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


FIRST = PROMPT.findall(README)[0]
BLOCKS = [
    block for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL) if " --fault " not in block
]  # with a fault: tests/test_readme.py
SPARK_WALK = ["pip install -e '.[spark]'", *re.findall(r"^    (kproxy-spark .+)$", text("spark"), re.MULTILINE)]
PORTS = (9092, 19092, 9644)
WALK_S = 3_000  # compilation and downloads on a busy machine
# A cluster at localhost:9092 of the newcomer's own: the mock brokers of the extra `demo`, until its standard input ends.
CLUSTER = """
import sys
from confluent_kafka import Producer

settings = {"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0}
owner = Producer(settings)
(broker,) = owner.list_topics(timeout=60).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""
PRODUCE = """
import sys
from confluent_kafka import Producer

client = Producer({"bootstrap.servers": sys.argv[1], "log_level": 0})
client.produce("walk", b"x")
sys.exit(client.flush(120))
"""


def script(folder: Path) -> str:
    """All of it as one shell script; `kproxy run` goes on beside the block after it until that has ended."""
    lines = ["set -euo pipefail", FIRST]
    for block in [*BLOCKS, "\n".join(SPARK_WALK)]:
        if not block.startswith("kproxy run "):
            lines.append(block)
            continue
        lines.append(
            f"coproc CLUSTER {{ exec python {folder / 'cluster.py'}; }}\n"
            "read -r broker <&${CLUSTER[0]}\n"
            f"{block.strip().replace('localhost:9092', '$broker')} &\n"
            "proxy=$!\n"
            "until curl -sf http://localhost:9644/readyz; do kill -0 $proxy; sleep 1; done\n"
            f"python {folder / 'produce.py'} localhost:19092\n"
            "until grep -q Produce kafka.jsonl; do sleep 1; done"
        )
    after = next(number for number, line in enumerate(lines) if line.startswith("kproxy doctor"))
    lines[after] = lines[after].replace("localhost:9092", "$broker")
    lines.insert(after + 1, "kill $proxy; wait $proxy; exec {CLUSTER[1]}>&-; wait")
    return "\n".join(lines)


@pytest.mark.long
def test_the_readme_to_the_letter(require: Require, tmp_path: Path) -> None:
    require("java", shutil.which("java"), "no Java runtime")
    for port in PORTS:
        with socket.socket() as tried:
            if not tried.connect_ex(("127.0.0.1", port)):
                pytest.skip(f"something else listens on port {port}")
    checkout = tmp_path / "kproxy"
    subprocess.run(["git", "-c", "safe.directory=*", "clone", "-q", ROOT, checkout], check=True)
    (tmp_path / "cluster.py").write_text(CLUSTER, encoding="utf-8")
    (tmp_path / "produce.py").write_text(PRODUCE, encoding="utf-8")
    environment = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = ["bash", "-c", script(tmp_path)]
    run = subprocess.run(
        words, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=WALK_S
    )
    assert run.returncode == 0, run.stdout[-4_000:] + run.stderr[-4_000:]
    assert re.search(r" Produce v\d+ .*  walk-\d", run.stdout), (
        "the decoded log has what was produced through the proxy"
    )
    assert " problem" not in run.stdout.partition("ok       kproxy at")[2].partition("no problems")[0]
    assert {"report.html", "for-a-bug-report.pcapng", "tables"} <= {path.name for path in checkout.iterdir()}
    assert "What made groups rebalance" in run.stdout
