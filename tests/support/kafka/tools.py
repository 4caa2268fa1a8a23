"""Apache Kafka's own command-line tools."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.kafka.jars import java

_PATIENCE = 120


@contextmanager
def properties_file(properties: Mapping[str, str]) -> Iterator[str]:
    """A file of Java properties, for as long as the block lasts."""
    with tempfile.NamedTemporaryFile("w", suffix=".properties", encoding="utf-8") as file:
        file.write("".join(f"{key}={value}\n" for key, value in properties.items()))
        file.flush()
        yield file.name


def run_tool(release: str, main: str, *words: str, expect: int | None = 0, given: str | None = None) -> str:
    """Run a tool and return what it printed. Raises AssertionError with all of it when its status is not *expect*."""
    done = subprocess.run(
        java(release, main, *words), input=given, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    assert expect in {None, done.returncode}, f"{main} {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def events(printed: str) -> list[dict[str, Any]]:
    """What a Verifiable... tool said, a JSON object a line."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def config_option(release: str, before: str) -> str:
    """The option for a properties file: --command-config since 4.2 (KIP-1147), *before* it another name."""
    return "--command-config" if release >= "4.2" else before
