"""Tests of kafka-python, franz-go and librdkafka pass through the proxy as they do without it: plain and encrypted; those of the
first two also for two tenants, and as a user that logs in to the proxy.

They make topics and groups of their own, of each protocol that the broker has; one that sees others' in a listing fails. Minutes:
`python -m pytest tests/interop/test_client_suites.py -m long`. kafka-python's come out of its sdist, which leaves one module out
that they import, ``test/service.py``: with a broker that runs already all it has to hold is two names. franz-go's come out of its
Go module, librdkafka's out of the crate rdkafka-sys: they are compiled, which takes minutes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Require
from tests.proxy.test_client_logins import write_users
from tests.support.kafka.brokers import PASSWORD, USER, Cluster
from tests.support.kafka.fixtures import DIRECT, started
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.proxies import Proxy
from tests.support.kafka.proxies import cluster as virtual_cluster
from tests.support.sockets import metadata

pytestmark = [pytest.mark.long, pytest.mark.skipif(DIRECT, reason="compares with and without")]
TENANTS = ("team-a", "team-b")
PATIENCE = 1_800  # seconds
KAFKA_PYTHON, FRANZ_GO, RDKAFKA_SYS = "3.0.12", "v1.22.2", "4.10.0"  # the last has librdkafka 2.12.1
SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port
    def open(self): ...
    def stop(self): ...
    def dump_logs(self): ...

class SpawnedService(ExternalService): ...
"""
# How kafka-python's tests reach the broker that runs already, and the same as a user: they know a name and a password
REACHED = "host=host, port=port, external=True)\n        params"
AS_USER = f"transport='SASL_PLAINTEXT', sasl_mechanism='SCRAM-SHA-256', {REACHED}"
LOGS_IN = "\tif saslScram != nil {\n\t\topts = append(opts, SASL(saslScram))\n\t}\n"
LARGE = "0011,0038,0042,0081"  # tests of librdkafka
RECORDS = 5_000  # of franz-go's pipelines (ETL); its own default is 500,000
ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) ", re.MULTILINE)
OUTCOMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
Outcomes = dict[str, str]  # "passed", "failed" or "skipped", by test; one that was not reached is missing


def fetch_kafka_python(folder: Path) -> Path:
    """Unpack the sdist; returns where its tests are run from."""
    words = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, f"kafka-python=={KAFKA_PYTHON}"]
    subprocess.run(command, check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    (archive,) = folder.glob("kafka_python-*.tar.gz")
    with tarfile.open(archive) as sources:
        sources.extractall(folder, filter="data")
    (root,) = (each for each in folder.glob("kafka_python-*") if each.is_dir())
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(SERVICE, encoding="utf-8")
    (root / "kafka-bin").mkdir()
    return root


def run_kafka_python(root: Path, bootstrap: str, *, as_user: bool = False) -> Outcomes:
    configuration = root / "test" / "integration" / "conftest.py"
    text = configuration.read_text(encoding="utf-8")
    assert text.count(REACHED) == 1
    if as_user:
        configuration.write_text(text.replace(REACHED, AS_USER), encoding="utf-8")
    report = root / "report.xml"
    own = {"KAFKA_URI": f"kafka://{bootstrap}", "KAFKA_VERSION": NEWEST, "KAFKA_ROOT": str(root / "kafka-bin")}
    plugins = ["-p", "no:cacheprovider", "-p", "no:randomly", "-q", f"--junit-xml={report}", "--ignore-glob=*ssl*"]
    timeout = ["--timeout=90", "--timeout-method=signal"]
    words = [sys.executable, "-m", "pytest", *plugins, *timeout, "test/integration"]
    environment = {**os.environ, **own, "PYTHONPATH": str(root)}
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert report.is_file(), done.stdout[-3_000:] + done.stderr[-3_000:]
    outcomes = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    report.unlink()
    return outcomes


def fetch_franz_go(folder: Path) -> Path:
    """Build the tests of the module; returns the program. With KGO_TEST_SCRAM all its clients log in, not those of one test."""
    (folder / "go.mod").write_text("module suite\n", encoding="utf-8")
    words = ["go", "mod", "download", "-json", f"github.com/twmb/franz-go@{FRANZ_GO}"]
    fetched = subprocess.run(words, cwd=folder, capture_output=True, check=True, timeout=PATIENCE)
    sources = folder / "franz-go"
    subprocess.run(["cp", "-r", "--no-preserve=mode", json.loads(fetched.stdout)["Dir"], str(sources)], check=True)
    helpers, ends = sources / "pkg" / "kgo" / "helpers_test.go", "\treturn opts\n"
    text = helpers.read_text(encoding="utf-8")
    assert text.count(ends) == 1
    helpers.write_text(text.replace(ends, LOGS_IN + ends), encoding="utf-8")
    program = folder / "kgo.test"
    subprocess.run(["go", "test", "-c", "-o", str(program), "./pkg/kgo"], cwd=sources, check=True, timeout=PATIENCE)
    return program


def run_franz_go(program: Path, bootstrap: str, *, as_user: bool = False) -> Outcomes:
    environment = {**os.environ, "KGO_SEEDS": bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS)}
    environment |= {"KGO_TEST_SCRAM": f"{USER}:{PASSWORD}"} if as_user else {}
    words = [str(program), "-test.v", f"-test.timeout={PATIENCE}s", "-test.count=1"]
    done = subprocess.run(
        words, cwd=program.parent, env=environment, capture_output=True, timeout=PATIENCE + 60, check=False
    )
    said = done.stdout.decode(errors="replace")
    outcomes = {name: OUTCOMES[outcome] for outcome, name in ENDED.findall(said)}
    assert outcomes, said[-3_000:] + done.stderr.decode(errors="replace")[-3_000:]
    return outcomes


def fetch_librdkafka(folder: Path) -> Path:
    """Compile the library and its tests, which takes minutes; returns their program."""
    (folder / "src").mkdir()
    (folder / "src" / "lib.rs").touch()
    package = f'[package]\nname = "suite"\nversion = "0.1.0"\n[dependencies]\nrdkafka-sys = "={RDKAFKA_SYS}"\n'
    (folder / "Cargo.toml").write_text(package, encoding="utf-8")
    sources = folder / "vendor" / "rdkafka-sys" / "librdkafka"
    tests = sources / "tests"
    without = ["--disable-syslog", "--disable-gssapi", "--disable-curl"]
    subprocess.run(["cargo", "vendor", "--quiet"], cwd=folder, check=True, timeout=PATIENCE, capture_output=True)
    for script in (*sources.glob("configure*"), *sources.glob("*.py"), *sources.glob("*.sh"), *tests.glob("*.sh")):
        script.chmod(0o755)  # as its own archive has them
    steps = (["./configure", *without], ["make", "-j2", "libs"], ["make", "-C", "tests", "build"])
    for step in steps:
        subprocess.run(step, cwd=sources, check=True, timeout=PATIENCE, capture_output=True)
    return tests / "test-runner"


def run_librdkafka(program: Path, bootstrap: str) -> Outcomes:
    """Run the tests that need a broker and no simulated network, without those that send a lot."""
    folder = program.parent
    (folder / "test.conf").write_text(f"bootstrap.servers={bootstrap}\n", encoding="utf-8")
    report = folder / "report.json"
    libraries = f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}"
    own = {"LD_LIBRARY_PATH": libraries, "TEST_REPORT": str(report), "TESTS_SKIP": LARGE, "CI": "true"}
    words = [str(program), "-L", "-E", "-K", "-Q", "-p4", "-V", "4.0.0"]
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **own}, capture_output=True, timeout=PATIENCE, check=False
    )
    assert report.is_file(), (done.stdout + done.stderr).decode(errors="replace")[-3_000:]
    states = {name: case["state"] for name, case in json.loads(report.read_text(encoding="utf-8"))["tests"].items()}
    report.unlink()
    return {name: state.lower() for name, state in states.items()}


@dataclass(frozen=True)
class Suite:
    """A client's tests, and the broker that they want."""

    fetch: Callable[[Path], Path]
    run: Callable[..., Outcomes]
    first: int  # node id
    settings: dict[str, str]
    passing: int  # so many at least pass, with Kafka 4.3.1 and no proxy between
    fails_for_tenants: frozenset[str] = frozenset()
    fails_encrypted: frozenset[str] = frozenset()


SUITES = {
    # Of its 65 tests 9 need a broker that logs in, and one an old broker: they are skipped
    "kafka-python": Suite(fetch_kafka_python, run_kafka_python, 0, {"num.partitions": "4"}, 53),
    "franz-go": Suite(
        fetch_franz_go,
        run_franz_go,
        1,
        {},
        91,  # 90 pass whatever the bootstrap address is
        # The first wants its sources beside it; the others look for __consumer_offsets, which is no tenant's
        frozenset(
            {
                "TestOptValuesCoversEveryOption",
                *("TestConsumeRegex", "TestConsumeRegexShareSkipsInternal", "Test848RegexBrokerResolves"),
            }
        ),
        # 3 MiB of zeros in one batch, which is compressed: values that shrink so much are not, if they are encrypted
        frozenset({"TestConsumeMaxDecompressBatchBytes"}),
    ),
    # Of 80, 7 fail: they want Kafka's tools, three brokers, or segments smaller than Kafka 4 allows
    "librdkafka": Suite(fetch_librdkafka, run_librdkafka, 1, {"num.partitions": "4"}, 70),
}
OF_EACH = pytest.mark.parametrize("suite", ["kafka-python", "franz-go"], indirect=True)


@pytest.fixture(params=SUITES)
def suite(request: pytest.FixtureRequest, require: Require) -> Suite:
    program = {"franz-go": "go", "librdkafka": "cargo"}.get(request.param)
    if program is not None:
        require(program, shutil.which(program), f"there is no {program}")
    return SUITES[request.param]


@pytest.fixture
def broker(kafka: None, suite: Suite, tmp_path: Path) -> Iterator[Cluster]:
    """Connections go to it without the gates of the other tests, which take a few at a time; these tests open thousands."""
    extra = {"auto.create.topics.enable": "true", "group.min.session.timeout.ms": "1000", **suite.settings}
    cluster = started(tmp_path, NEWEST, first=suite.first, extra=extra)
    yield cluster
    cluster.close()


def fetched(suite: Suite, folder: Path) -> Path:
    folder.mkdir()
    return suite.fetch(folder)


def with_outcome(outcomes: Outcomes, wanted: str) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome == wanted}


@pytest.mark.parametrize("encrypts", [False, True], ids=["no filter", "encrypt"])
def test_no_test_fails_that_passes_direct(
    broker: Cluster,
    suite: Suite,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    encrypting: dict[str, Any],
    encrypts: bool,
) -> None:
    program = fetched(suite, tmp_path / "suite")
    encrypting["with"]["rules"][0] |= {"compress": "zstd", "headers": ["*"]}
    filters = [encrypting] if encrypts else []
    proxy = Proxy(tmp_path / "proxy", [virtual_cluster([broker.open], filters=filters)])
    try:
        straight = suite.run(program, broker.open)
        through = suite.run(program, proxy.start().bootstrap())
    finally:
        proxy.close()
    passing = with_outcome(straight, "passed")
    record_property("not passing direct", sorted(set(straight) - passing))
    assert len(passing) >= suite.passing, straight
    lost = passing - with_outcome(through, "passed") - (suite.fails_encrypted if encrypts else frozenset())
    assert {name: through.get(name) for name in lost} == {}


@OF_EACH
def test_no_test_fails_of_a_user_that_logs_in(broker: Cluster, suite: Suite, tmp_path: Path) -> None:
    program = fetched(suite, tmp_path / "suite")
    users = write_users(tmp_path / "users.json", **{USER: PASSWORD})
    authentication = {"mechanisms": ["SCRAM-SHA-256"], "users": users, "session": 10, "broker_users": "pass"}
    proxy = Proxy(tmp_path / "proxy", [virtual_cluster([broker.open], authentication=authentication)])
    try:
        straight = suite.run(program, broker.open)
        through = suite.run(program, proxy.start().bootstrap(), as_user=True)
        logins = proxy.count("kproxy_client_logins_total", "ok"), proxy.count("kproxy_client_logins_total", "failed")
    finally:
        proxy.close()
    passing = with_outcome(straight, "passed")
    print(f"{len(passing)} pass direct, {len(with_outcome(through, 'passed'))} as a user; logins {logins}")
    assert len(passing) >= suite.passing, straight
    assert {name: through.get(name) for name in passing - with_outcome(through, "passed")} == {}
    assert logins[0] > len(passing) and logins[1] == 0


@OF_EACH
def test_two_tenants_run_it_at_once_and_see_nothing_of_each_other(
    broker: Cluster, suite: Suite, tmp_path: Path
) -> None:
    clusters = [
        virtual_cluster([broker.open], name=name, filters=[{"use": "topic_prefix", "with": {"prefix": f"{name}."}}])
        for name in TENANTS
    ]
    proxy = Proxy(tmp_path / "proxy", clusters)
    programs = [fetched(suite, tmp_path / name) for name in TENANTS]
    try:
        proxy.start()
        with ThreadPoolExecutor(len(TENANTS)) as threads:
            results = list(threads.map(suite.run, programs, [proxy.bootstrap(at) for at in range(len(TENANTS))]))
        names = {name for name, _ in metadata(broker.open).leaders}
    finally:
        proxy.close()
    for outcomes in results:
        assert with_outcome(outcomes, "failed") <= suite.fails_for_tenants
        assert len(with_outcome(outcomes, "passed")) >= suite.passing
    assert {name.split(".")[0] for name in names if not name.startswith("__")} == set(TENANTS)
