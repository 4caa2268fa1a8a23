"""The jars that the facts come from: how to fetch them, and to read definitions and error codes.

Error codes come from Kafka's own enum, with ErrorCodes.java run against each kafka-clients jar.
"""

import os
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import escape

from kproxy.errors import UsageError
from kproxy.extract.definitions import Message, parse_message

NEWEST = "4.3.1"  # describes every version that it can read
LAST_WITH_ZOOKEEPER = "3.9.2"  # for the versions that 4.0 removed, and for stored records
# Older releases are read only for requests and responses whose layouts were later changed in place:
#   3.7.2  ConsumerGroupDescribe response 0 (changed in 3.8)
#   3.6.2  ConsumerGroupHeartbeat 0 (3.7)
#   2.7.2  EndQuorumEpoch request 0 (2.8)
RELEASES = (NEWEST, LAST_WITH_ZOOKEEPER, "3.7.2", "3.6.2", "2.7.2")

_BROKER_MODULES = (
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-storage",
    "kafka-transaction-coordinator",
)
_PATIENCE = 900  # seconds; enough for a first download over a slow network


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact, by its Maven coordinates."""

    group: str
    module: str
    release: str

    @property
    def file(self) -> str:
        return f"{self.module}-{self.release}.jar"


KAFKA = "org.apache.kafka"
LOGGING = Jar("org.slf4j", "slf4j-api", "1.7.36")  # kafka-clients' Errors does not load without it
CLIENTS = tuple(Jar(KAFKA, "kafka-clients", release) for release in RELEASES)
BROKERS = (
    *(Jar(KAFKA, module, release) for release in (NEWEST, LAST_WITH_ZOOKEEPER) for module in _BROKER_MODULES),
    Jar(KAFKA, "kafka-share-coordinator", NEWEST),  # published since 4.0
)
# The last patch of each minor release whose versions differ from "0 to the newest of its time": KIP-896 removed the oldest in
# 4.0, and from 3.5 on the newest may be unstable, which brokers do not offer.
SPOKEN = (NEWEST, "4.2.2", "4.1.2", "4.0.2", LAST_WITH_ZOOKEEPER, "3.8.1", "3.7.2", "3.6.2", "3.5.2")
VERSIONS_ONLY = tuple(Jar(KAFKA, "kafka-clients", release) for release in SPOKEN if release not in RELEASES)


def read_definitions(folder: Path) -> list[Message]:
    """Return the messages of all jars in *folder*. Raises UsageError for a jar that is missing or has no definitions."""
    messages = (message for jar in (*CLIENTS, *BROKERS) for message in _read_jar(folder / jar.file, jar))
    return [message for message in messages if message.is_api or message.release in {NEWEST, LAST_WITH_ZOOKEEPER}]


def read_spoken(folder: Path) -> dict[str, list[Message]]:
    """Return the requests of each release in SPOKEN, by api key. Raises UsageError as ``read_definitions`` does."""
    jars = {jar.release: jar for jar in (*CLIENTS, *VERSIONS_ONLY)}
    return {
        release: sorted(
            (found for found in _read_jar(folder / jars[release].file, jars[release]) if found.type == "request"),
            key=lambda message: message.number or 0,
        )
        for release in SPOKEN
    }


def _read_jar(path: Path, jar: Jar) -> Iterator[Message]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(".json"))
            texts = {name: archive.read(name).decode("utf-8") for name in names}
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if not texts:
        raise UsageError(f"{path} holds no message definitions (.json): is it the jar of {jar.module}?")
    for name, text in texts.items():
        try:
            yield parse_message(text, module=jar.module, release=jar.release)
        except (ValueError, KeyError) as error:
            raise UsageError(f"{path}: {name} is not a definition that can be read: {error!r}") from error


def fetch(folder: Path, *, offline: bool = False) -> None:
    """Let Maven copy all jars into *folder*, from its local repository or the configured ones.

    With *offline*, only from its local repository. Raises UsageError if Maven cannot be run or does not find them.
    """
    project = folder / "pom.xml"
    project.write_text(_project((LOGGING, *CLIENTS, *VERSIONS_ONLY, *BROKERS), folder), encoding="utf-8")
    command = ["mvn", "-q", "-B", *(["-o"] if offline else []), "-f", str(project), "dependency:copy"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False)
    except FileNotFoundError as error:
        raise UsageError("jars are fetched with Maven: put `mvn` on the path, or name a folder with --jars") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"Maven took more than {_PATIENCE} s; name a folder with the jars: --jars") from error
    if done.returncode:
        raise UsageError(f"Maven could not fetch the jars: {(done.stdout + done.stderr).strip()}")


def _project(jars: tuple[Jar, ...], folder: Path) -> str:
    """Return a Maven project that only copies these jars to *folder*."""
    items = "".join(
        f"<artifactItem><groupId>{jar.group}</groupId><artifactId>{jar.module}</artifactId>"
        f"<version>{jar.release}</version></artifactItem>"
        for jar in jars
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kproxy</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        "<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId><configuration>"
        f"<outputDirectory>{escape(str(folder))}</outputDirectory><artifactItems>{items}</artifactItems>"
        "</configuration></plugin></plugins></build></project>\n"
    )


_JAVA_PATIENCE = 120  # seconds; Java needs about two to compile and run one file


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One constant of org.apache.kafka.common.protocol.Errors."""

    code: int
    name: str
    retriable: bool  # its exception is a RetriableException


def read_error_codes(jars: Iterable[Path], logging: Path) -> list[ErrorCode]:
    """Return the codes of all *jars* (kafka-clients, newest first; the newest one with a code describes it), ascending.

    *logging* is an slf4j-api jar, which the enum needs. Raises UsageError if Java cannot be run.
    """
    codes: dict[int, ErrorCode] = {}
    for jar in jars:
        for line in _run_java([jar, logging]).splitlines():
            code, name, *flags = line.split()  # as ErrorCodes.java prints: 3 UNKNOWN_TOPIC_OR_PARTITION retriable
            codes.setdefault(int(code), ErrorCode(int(code), name, "retriable" in flags))
    return [codes[code] for code in sorted(codes)]


def _run_java(class_path: list[Path]) -> str:
    with resources.as_file(resources.files("kproxy.extract").joinpath("ErrorCodes.java")) as source:
        command = ["java", "-cp", os.pathsep.join(map(str, class_path)), str(source)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_JAVA_PATIENCE, check=True
            )
        except FileNotFoundError as error:
            raise UsageError("error codes are read with Java: put a JDK's `java` (17 or newer) on the path") from error
        except subprocess.SubprocessError as error:
            raise UsageError(f"{' '.join(command)} failed: {getattr(error, 'stderr', None) or error}") from error
    return done.stdout
