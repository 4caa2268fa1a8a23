"""Read Kafka's error codes from Kafka's own enum, with a small Java program run against each kafka-clients jar."""

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from kproxy.errors import UsageError

_PATIENCE = 120  # seconds; Java needs about two to compile and run one file


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One constant of org.apache.kafka.common.protocol.Errors."""

    code: int
    name: str
    retriable: bool  # its exception is a RetriableException
    refresh: bool  # ... and clients refresh their metadata before they retry (InvalidMetadataException and others)


def read_error_codes(jars: Iterable[Path], logging: Path) -> list[ErrorCode]:
    """Return the codes of all *jars* (kafka-clients, newest first; the newest one with a code describes it), ascending.

    *logging* is an slf4j-api jar, which the enum needs. Raises UsageError if Java cannot be run.
    """
    codes: dict[int, ErrorCode] = {}
    for jar in jars:
        for line in _run_java([jar, logging]).splitlines():
            error = parse_line(line)
            codes.setdefault(error.code, error)
    return [codes[code] for code in sorted(codes)]


def parse_line(line: str) -> ErrorCode:
    """Parse a line that ErrorCodes.java printed: ``3 UNKNOWN_TOPIC_OR_PARTITION retriable refresh``."""
    code, name, *flags = line.split()
    return ErrorCode(int(code), name, "retriable" in flags, "refresh" in flags)


def _run_java(class_path: list[Path]) -> str:
    with resources.as_file(resources.files("kproxy.extract").joinpath("ErrorCodes.java")) as source:
        command = ["java", "-cp", os.pathsep.join(map(str, class_path)), str(source)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=True
            )
        except FileNotFoundError as error:
            raise UsageError("error codes are read with Java: put a JDK's `java` (17 or newer) on the path") from error
        except subprocess.SubprocessError as error:
            raise UsageError(f"{' '.join(command)} failed: {getattr(error, 'stderr', None) or error}") from error
    return done.stdout
