"""Every error that Kafka documents for an API, at every version: what Kafka's own classes and kafka-python read in the response.

The fault is on the second of three calls, so the first and the third must be as the broker answered them.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kproxy.protocol import ApiKey, message, response_header_version
from kproxy.protocol.error_codes import ErrorCode
from tests.conftest import Require
from tests.support.error_sources import DOCUMENTED, PAIRS, Sources
from tests.support.injected import Injected
from tests.support.kafka import jars
from tests.support.marked import VERSIONS, sample_request
from tests.support.messages import make
from tests.support.referees import kafka_python_decoded

REFEREE = Path(__file__).parents[2] / "support" / "kafka" / "ErrorCounts.java"
OF_NEW_VERSIONS = {("Metadata", "REBOOTSTRAP_REQUIRED"): 13}  # there is no place for it before (KIP-1102)


class Case(NamedTuple):
    api: str
    version: int
    error: str
    bodies: list[bytes]  # of the three responses


def cases() -> Iterator[Case]:
    for api, error in PAIRS:
        key = ApiKey[_constant(api)]
        for version in (version for of, version in VERSIONS if of == key):
            if version >= OF_NEW_VERSIONS.get((api, error), 0):
                yield Case(api, version, error, bodies(api, key, version, error))


def _constant(api: str) -> str:
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in api).lstrip("_")


def bodies(api: str, key: int, version: int, error: str) -> list[bytes]:
    """The bodies of three responses; the fault is on the second."""
    proxy = Injected({"api_name": api, "error": error, "call": 2, "name": "f"})
    if (api, error) == ("ApiVersions", "UNSUPPORTED_VERSION"):
        proxy.reply_version = 0
    for _ in range(3):
        if api == "Metadata":
            proxy.answers = [metadata()]
        try:
            proxy.ask(api, version, sample_request(key, version))
        except Exception:  # the two that are of the request's version
            if proxy.reply_version is None:
                raise
    assert (proxy.fired("f"), proxy.calls("f")) == (1, 3)
    return [frame[8 + response_header_version(key, version) :] for frame in proxy.frames]


def metadata() -> Any:
    """What a broker says of a topic."""
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "leader_id": 1}]}
    return make("MetadataResponse", brokers=[{"node_id": 1, "host": "b", "port": 9092}], topics=[topic])


@pytest.mark.slow
def test_the_errors_are_those_of_kafkas_sources(require: Require) -> None:
    require("kafka", shutil.which("mvn"), "Kafka's sources are fetched with Maven (mvn)")
    sources = Sources()
    found = {api: sources.documented(api) for api in DOCUMENTED}
    assert {api: set(errors.split()) for api, errors in DOCUMENTED.items()} == found


@pytest.mark.slow
def test_kafkas_own_classes_read_the_error_and_no_other_at_the_call_named(require: Require) -> None:
    require("kafka", jars.missing() is None, jars.missing() or "")
    all_cases = list(cases())
    lines = [f"{int(ApiKey[_constant(it.api)])} {it.version} {body.hex()}" for it in all_cases for body in it.bodies]
    command = jars.java(jars.NEWEST, str(REFEREE))
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    said = run.stdout.splitlines()
    assert len(said) == len(lines)
    wrong, judged = [], set()
    for number, case in enumerate(all_cases):
        before, failed, after = (_errors(line) for line in said[3 * number : 3 * number + 3])
        if before is None:  # a version that Kafka 4 does not know any more (KIP-896)
            continue
        if (
            case.api,
            case.error,
        ) in OF_NEW_VERSIONS and failed == set():  # MetadataResponse does not count its own error
            failed = {ErrorCode(message("MetadataResponse").decode(case.version, case.bodies[1]).error_code).name}  # type: ignore[attr-defined]
        judged.add((case.api, case.error))
        if before != set() or after != set() or failed != {case.error}:
            wrong.append((*case[:3], before, failed, after))
    assert wrong == []
    assert judged == set(PAIRS)


def _errors(line: str) -> set[str] | None:
    if line.startswith("exception"):
        return None
    return {word.partition("=")[0] for word in line.split()} - {"NONE"}


@pytest.mark.slow
def test_kafka_python_reads_the_error_and_no_other_at_the_call_named() -> None:
    judged = set()
    for case in cases():
        if case.api == "ApiVersions":
            continue  # with any error it reads version 0, which brokers answer with UNSUPPORTED_VERSION only (KIP-511)
        read = [kafka_python_decoded(f"{case.api}Response", case.version, body) for body in case.bodies]
        if read[0] is not None:
            judged.add((case.api, case.error))
            assert [_codes(one.to_dict()) - {0} for one in read] == [set(), {ErrorCode[case.error]}, set()], case[:3]
    assert len(judged) >= len(PAIRS) - 2


def _codes(value: Any) -> set[int]:
    """All error codes in a response, from kafka-python's own form of it in plain values."""
    if isinstance(value, list):
        return {code for one in value for code in _codes(one)}
    if not isinstance(value, dict):
        return set()
    codes = {code for name, code in value.items() if name == "error_code"}
    return codes | {code for one in value.values() for code in _codes(one)}
