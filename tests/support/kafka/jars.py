"""Apache Kafka's own broker and tools: the jars of a release, fetched once by Maven."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

NEWEST = "4.3.1"
LAST_WITH_ZOOKEEPER = "3.9.2"
RELEASES = (NEWEST, LAST_WITH_ZOOKEEPER)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_PATIENCE = 900  # seconds, for a first download over a slow line
_ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", None),
    ("org.apache.kafka", "kafka-tools", None),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_CONNECT = (("org.apache.kafka", "connect-runtime", None), ("org.apache.kafka", "connect-file", None))
_STREAMS = ("org.apache.kafka", "kafka-streams", None)  # apart: RocksDB comes with it, larger than all the rest


def _folder() -> Path:
    """Where jars are kept: KPROXY_KAFKA_JARS, or a directory in the user's cache."""
    named = os.environ.get("KPROXY_KAFKA_JARS")
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache_home / "kproxy" / "kafka"


def missing() -> str | None:
    """Why brokers cannot be run here; None when they can."""
    if not shutil.which("java"):
        return "brokers need java"
    if not shutil.which("mvn") and not all((_folder() / release).is_dir() for release in RELEASES):
        return "Kafka's jars are fetched with Maven (mvn)"
    return None


def folder_of(name: str) -> Path:
    """Where the jars of that name are kept, whether they are there or not."""
    return _folder() / name


def fetch(kept: Path, artifacts: Sequence[tuple[str, str, str]]) -> None:
    """Have Maven put artifacts (group, name, version) and what they need into the directory *kept*."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{module}</artifactId><version>{version}</version></dependency>"
        for group, module, version in artifacts
    )
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        project = Path(name) / "pom.xml"
        project.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>kproxy</groupId>'
            f"<artifactId>broker</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>\n",
            encoding="utf-8",
        )
        fetched = Path(name) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(project), COPY, f"-DoutputDirectory={fetched}"]
        subprocess.run(command, check=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL)
        for binding in fetched.glob("slf4j-reload4j-*.jar"):  # 3.9 brings another one than slf4j-simple
            binding.unlink()
        try:
            fetched.rename(kept)  # whole or not at all, even if another process does the same
        except OSError:
            if not kept.is_dir():
                raise


@cache
def jars(release: str, *, streams: bool = False, connect: bool = False) -> Path:
    """The directory with all that `java -cp 'DIRECTORY/*'` needs of *release*, with Kafka Streams or Connect if asked for."""
    kept = folder_of(f"{release}{'-streams' if streams else '-connect' if connect else ''}")
    more = (_STREAMS,) if streams else _CONNECT if connect else ()
    if not kept.is_dir():
        fetch(kept, [(group, module, version or release) for group, module, version in (*_ARTIFACTS, *more)])
    return kept


def java(
    release: str,
    main: str,
    *words: str,
    heap: str = "192m",
    options: Sequence[str] = (),
    streams: bool = False,
    connect: bool = False,
) -> list[str]:
    """The command that runs class *main* of *release*, or a source file; *options* are those of Java itself.

    With *streams* or *connect*, Kafka Streams or Kafka Connect is there too.
    """
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", f"-Xmx{heap}"]
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [
        "java",
        *quick,
        *options,
        logging,
        "-cp",
        f"{jars(release, streams=streams, connect=connect)}/*",
        main,
        *words,
    ]
