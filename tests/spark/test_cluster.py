"""spark-submit on a standalone cluster of two workers, whose Python is another environment, sent to them as an archive."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.split_captures import decoded, differences, rowset
from tests.support.traffic import CAPTURES

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


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and two workers, each a process; the master's URL."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark_home()), "SPARK_DAEMON_MEMORY": "256m"}
    deploy = [str(spark_home() / "bin" / "spark-class")]
    with ExitStack() as stack:

        def begin(name: str, *words: str) -> subprocess.Popen[str]:
            command = [*deploy, f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *words]
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
            work = str(tmp_path / f"worker-{number}")
            worker = begin(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work, url
            )
            assert worker.stderr is not None
            next(line for line in worker.stderr if "Successfully registered with master" in line)
        yield url


def test_executors_run_the_archive(require: object, archive: Path, master: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": "./environment/bin/python"}
    environment |= {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
    }  # of the driver alone: workers have their own
    settings = (
        "spark.executor.memory=1g",
        "spark.driver.memory=1g",
        "spark.executorEnv.PYTHONPATH=",
        "spark.ui.enabled=false",
    )
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, "--archives", f"{archive}#environment"]
    command += [word for setting in settings for word in ("--conf", setting)]
    job = [str(ROOT / "deploy" / "spark" / "job.py"), "ingest", "--records", "--split-from", "0", "--parts", "5"]
    done = subprocess.run(
        [*command, *job, "-o", str(tmp_path / "out"), str(CAPTURE)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert differences(decoded(CAPTURE, tmp_path, "--records"), rowset(tmp_path / "out")) == {}
    executors = list(tmp_path.glob("worker-*/app-*/*/environment"))
    assert len({path.parents[2] for path in executors}) == WORKERS  # both took part, each with the archive unpacked
