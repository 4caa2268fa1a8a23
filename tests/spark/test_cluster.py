"""spark-submit on a standalone cluster of two workers, whose Python is another environment, sent to them as an archive."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.corpus import CAPTURES
from tests.support.split_captures import decoded, differences, rowset

Require = Callable[[str, object, str], None]
ROOT = Path(__file__).parents[2]
CAPTURE = CAPTURES / "10-kraft-interbroker.pcap"
WORKERS = 2
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with kproxy, its extensions and what they need, and nothing of this one, as README.md packs it."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--copies", folder / "env"], check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], "pyarrow"]
    pip = [folder / "env" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *needed], check=True)
    [packages] = (folder / "env" / "lib").glob("python*/site-packages")
    shutil.copytree(ROOT / "kproxy", packages / "kproxy", ignore=shutil.ignore_patterns("__pycache__", "*.pyx"))
    with tarfile.open(folder / "kproxy.tar.gz", "w:gz", compresslevel=1) as packed:
        packed.add(folder / "env", ".")
    shutil.rmtree(folder / "env")
    return folder / "kproxy.tar.gz"


def spark_home() -> Path:
    import pyspark  # noqa: PLC0415 - an extra

    return Path(pyspark.__file__).parent


def apart(folder: Path) -> list[str]:
    """Words that run a program for which *folder* is an empty disk of its own."""
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder)]


def may_be_apart(folder: Path) -> bool:
    try:
        return subprocess.run([*apart(folder), "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


@contextmanager
def cluster(tmp_path: Path, own_disks: Path | None = None) -> Iterator[str]:
    """A master and two workers, each a process; the master's URL. *own_disks*: a folder that is another to each worker."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark_home()), "SPARK_DAEMON_MEMORY": "256m"}
    deploy = [str(spark_home() / "bin" / "spark-class")]
    with ExitStack() as stack:

        def begin(name: str, *words: str) -> subprocess.Popen[str]:
            command = [*deploy, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *words]
            if own_disks is not None and name.startswith("worker."):
                command = [*apart(own_disks), *command]
            process = subprocess.Popen(
                command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
            )
            stack.enter_context(process)  # waits, and closes its pipe
            stack.callback(process.kill)
            return process

        process = begin("master.Master", "--port", "0", "--webui-port", "0")
        assert process.stderr is not None
        url = next(found[0] for line in process.stderr if (found := re.search(r"spark://127\.0\.0\.1:\d+", line)))
        for number in range(WORKERS):
            work = str((own_disks or tmp_path) / f"worker-{number}")
            worker = begin(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work, url
            )
            assert worker.stderr is not None
            next(line for line in worker.stderr if "Successfully registered with master" in line)
        yield url


def submit(master: str, archive: Path, *words: str, settings: Sequence[str] = (), **variables: str) -> str:
    """Run deploy/spark/job.py on the cluster as README.md has it; what it told."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": "./environment/bin/python"}
    environment |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }  # of the driver alone: workers have their own
    settings = (
        *settings,
        "spark.executor.memory=1g",
        "spark.driver.memory=1g",
        "spark.executorEnv.PYTHONPATH=",
        "spark.ui.enabled=false",
    )
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, "--archives", f"{archive}#environment"]
    command += [word for setting in settings for word in ("--conf", setting)]
    done = subprocess.run(
        [*command, str(ROOT / "deploy" / "spark" / "job.py"), *words],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout + done.stderr


def test_executors_run_the_archive(require: object, archive: Path, tmp_path: Path) -> None:
    words = ["ingest", "--records", "--split-from", "0", "--parts", "5", "-o", str(tmp_path / "out"), str(CAPTURE)]
    with cluster(tmp_path) as master:
        submit(master, archive, *words)
        executors = list(tmp_path.glob("worker-*/app-*/*/environment"))
    assert differences(decoded(CAPTURE, tmp_path, "--records"), rowset(tmp_path / "out")) == {}
    assert len({path.parents[2] for path in executors}) == WORKERS  # both took part, each with the archive unpacked


def test_executors_without_a_disk_in_common_shuffle_through_spark(
    require: Require, archive: Path, tmp_path: Path
) -> None:
    """What the driver and the executors have in common stands for an object store: it is reached through Hadoop alone."""
    (own := tmp_path / "own").mkdir()
    (common := tmp_path / "common").mkdir()
    require("netns", may_be_apart(own), "needs root, to mount disks")
    shutil.copy(CAPTURE, common)
    link = f"spark.hadoop.fs.viewfs.mounttable.common.link./data=file://{common}"
    words = ["ingest", "--records", "--split-from", "0", "--parts", "5", "-o", "viewfs://common/data/out"]
    with cluster(tmp_path, own) as master:
        disks = {"TMPDIR": str(own), "SPARK_LOCAL_DIRS": str(own)}
        told = submit(master, archive, *words, str(common / CAPTURE.name), settings=[link], **disks)
    assert "1 file read" in told
    assert "in one piece" not in told
    assert differences(decoded(CAPTURE, tmp_path, "--records"), rowset(common / "out")) == {}
