"""Captures written as pcapng: what kproxy and tshark read in them, and what is in none of the anonymized ones."""

import base64
import gzip
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from kproxy.capture import open_capture, read_flows
from kproxy.capture.tls import KeyLog
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.pipeline.tls_flow import Secrets
from kproxy.protocol.records.editing import read_records
from kproxy.protocol.structs import Struct
from kproxy.session import Exchange, Frame
from tests.conftest import Require
from tests.support.command import decode

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
MANIFEST = [json.loads(line) for line in (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines()]
CANARY = 5  # bytes: shorter words are found by chance

# Keys of Kafka's JSON under which its own words stand; everything else must be gone
HARMLESS = {
    *("protocolType", "protocolName", "assignorName", "serverAssignor", "groupState", "groupType", "transactionState"),
    *("clientSoftwareName", "clientSoftwareVersion", "mechanism", "mechanisms", "entityType", "feature"),
    *("principalType", "ownerPrincipalType", "tokenRequesterPrincipalType", "documentation", "configurationKeys"),
    *("statesFilter", "typesFilter", "stateFilters"),
}
# Names of settings, features, quotas and assignors, where a "name" or "key" is not that of a topic
NAMES_OF_SETTINGS = {
    "DescribeConfigs",
    "IncrementalAlterConfigs",
    "AlterConfigs",
    "ApiVersions",
    "CreateTopics",
    "JoinGroup",
}
NAMES_OF_SETTINGS |= {"AlterClientQuotas", "DescribeClientQuotas"}
ANONYMOUS = (b"ANONYMOUS", b"AAAFVXNlcgpBTk9OWU1PVVMAAA==")  # by name, and as an Envelope's principal
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
KPROXY_WORDS = b"CreateTime group topic member leader records unanswered: the capture ended before the response"
NUMBER_OR_NONE = re.compile(r"-?\d*|true|false|\(withheld\)|__\w+|User:\*")
ID = re.compile(r"topicId|directory|directoryId|Ids?$|Uuid", re.IGNORECASE)
UUID = re.compile(r"[\w-]{22}")


def of_file(file: str) -> pytest.MarkDecorator:
    """Tests of one file run in one process, which writes and reads it once."""
    return pytest.mark.xdist_group(f"pcapng of {file}")


each_file = pytest.mark.parametrize("file", [pytest.param(e["file"], marks=of_file(e["file"])) for e in MANIFEST])
FOR_TSHARK = ("04-", "08-")  # in README's command
a_file_for_tshark = pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[of_file(file), *([] if file.startswith(FOR_TSHARK) else [pytest.mark.slow])])
        for file in (e["file"] for e in MANIFEST)
    ],
)


class Written(dict[tuple[str, str], Path]):
    """(file, "clear" or "anonymous") -> the pcapng file that kproxy writes of it, written when first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._key = folder / "key"
        self._key.write_bytes(bytes(range(32)))

    def __missing__(self, key: tuple[str, str]) -> Path:
        file, kind = key
        options = ["--anonymize-key", self._key] if kind == "anonymous" else []
        path = self._folder / f"{file}.{kind}.pcapng"
        assert decode("--format", "pcapng", "-q", *options, "-o", path, CAPTURES / file) == 0
        self[key] = path
        return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    folder = tmp_path_factory.mktemp("pcapng")
    yield Written(folder)
    json_lines.cache_clear()
    rows.cache_clear()
    shutil.rmtree(folder)


@lru_cache(maxsize=3)
def json_lines(path: Path) -> str:
    """What `kproxy decode --format jsonl` prints of a capture."""
    with tempfile.TemporaryDirectory(prefix="kproxy-pcapng-") as folder:
        output = Path(folder) / "lines.jsonl"
        assert decode("--format", "jsonl", "-q", "-o", output, path) == 0
        return output.read_text(encoding="utf-8")


@lru_cache(maxsize=3)  # a capture and the two that are written of it
def rows(path: Path) -> list[dict[str, Any]]:
    """The exchanges, in an order that does not depend on how ties in time are broken."""
    lines = [json.loads(line) for line in json_lines(path).splitlines()]
    found = [{**line, "connection": 0} for line in lines if line["event"] == "exchange"]
    return sorted(
        found, key=lambda row: (row["requestAt"] or "", row["responseAt"] or "", json.dumps(row["requestHeader"]))
    )


@each_file
def test_the_clear_capture_says_what_the_original_says(file: str, written: Written) -> None:
    original = rows(CAPTURES / file)
    assert len(original) > 20
    assert rows(written[file, "clear"]) == original


def shape(value: Any) -> Any:
    """Kafka's JSON with every string as its length in bytes; sizes of records may change."""
    if isinstance(value, dict):
        return {name: "size" if name.endswith("SizeInBytes") else shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return len(value.encode()) if isinstance(value, str) else value


@each_file
def test_the_anonymous_capture_has_the_shape_of_the_original(file: str, written: Written) -> None:
    kept = ("apiKey", "apiVersion", "correlationId", "requestAt", "responseAt", "latencyMs", "errors", "undecoded")
    kept += ("unanswered", "expectsResponse", "layout", "assumedVersion")
    before, after = rows(CAPTURES / file), rows(written[file, "anonymous"])
    assert [[row[name] for name in kept] for row in after] == [[row[name] for name in kept] for row in before]
    assert [shape(row["request"]) for row in after] == [shape(row["request"]) for row in before]
    assert [shape(row["response"]) for row in after] == [shape(row["response"]) for row in before]
    assert all(row["undecoded"] is None for row in after)


def exchanges(path: Path) -> Iterator[Exchange]:
    with open_capture(path) as capture:
        secrets = Secrets(None)
        secrets.read_from(capture)
        for event in FlowEvents(read_flows(capture), keylog=KeyLog(secrets.more)):
            if isinstance(event, Exchange):
                yield event


def records_fields(frame: Frame | None) -> Iterator[tuple[str | None, bytes]]:
    """Topic id and records."""
    if frame is not None and frame.message is not None and not frame.cut:
        body: Any = frame.message.decode(frame.body_version, frame.data, frame.body_start)
        waiting = [(None, body)]
        while waiting:
            topic_id, value = waiting.pop()
            topic_id = getattr(value, "topic_id", topic_id)
            for field in value.fields:
                inner = getattr(value, field.attribute)
                if field.is_array:
                    waiting += [(topic_id, item) for item in inner or () if isinstance(item, Struct)]
                if field.type == "records" and inner:
                    yield topic_id, inner


def batches(path: Path, *, metadata: bool = True) -> list[Any]:
    found = []
    for exchange in exchanges(path):
        for frame in (exchange.request, exchange.response):
            for topic_id, data in records_fields(frame):
                found += read_records(data) if metadata or topic_id != METADATA_TOPIC_ID else []
    return found


def contents(path: Path) -> set[bytes]:
    """Keys, values and headers of all records but control records and those of the metadata topic, whose names are replaced
    one by one: what else is in them stays."""
    found: set[bytes] = set()
    for batch in batches(path, metadata=False):
        for record in [] if batch.is_control else batch.records:
            headers = [part for name, value in record.headers for part in (name.encode(), value)]
            found |= {part for part in (record.key, record.value, *headers) if part}
    return found


@each_file
def test_anonymous_records_are_as_many_at_the_same_offsets(file: str, written: Written) -> None:
    def facts(path: Path) -> Counter[Any]:
        return Counter(
            (
                *(
                    batch.magic,
                    batch.codec,
                    batch.producer_id,
                    batch.base_sequence,
                    batch.error,
                    batch.source.crc_valid,
                ),
                *((r.offset, r.timestamp, r.key and len(r.key), r.value and len(r.value)) for r in batch.records),
            )
            for batch in batches(path)
        )

    assert facts(written[file, "anonymous"]) == facts(CAPTURES / file)


def words(value: Any, api: str, key: str = "") -> Iterator[str]:
    """Strings of Kafka's JSON that --anonymize has to replace."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from words(inner, api, name)
    elif isinstance(value, list):
        for inner in value:
            yield from words(inner, api, key)
    elif isinstance(value, str) and not is_harmless(value, api, key):
        yield value


def is_harmless(value: str, api: str, key: str) -> bool:
    if key in HARMLESS or (key in ("name", "key") and api in NAMES_OF_SETTINGS):
        return True
    return bool(NUMBER_OR_NONE.fullmatch(value) or (ID.search(key) and UUID.fullmatch(value)))


def said_by_others(entry: dict[str, Any]) -> Iterator[str]:
    """Names from the manifest and from the broker's log."""
    yield from entry.get("client_ids", {})
    expected = entry.get("expect", {})
    yield from expected.get("records_produced_acked", {})
    for name in expected.get("records_consumed_by_group_and_topic", {}):
        yield from name.split("/")
    log = CAPTURES / "broker-log" / f"{entry['file'].split('.pcap')[0]}.jsonl.gz"
    if log.exists():
        with gzip.open(log, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield str(json.loads(line).get("principal", "")).removeprefix("User:")


def strings(value: Any) -> Iterator[str]:
    """All strings and all names in JSON."""
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)
    elif isinstance(value, str):
        yield value


def named(path: Path) -> set[str]:
    found: set[str] = set()
    for row in rows(path):
        found |= {
            *words(row["request"], row["apiName"]),
            *words(row["response"], row["apiName"]),
            row["clientId"] or "",
        }
    return found


class Haystack:
    """Bytes in which thousands of needles are looked for: one whose start occurs nowhere needs no search."""

    START = 4  # bytes: as long as the shortest needle, the base64 of a canary

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._starts = {data[at : at + self.START] for at in range(len(data))}

    def __contains__(self, needle: bytes) -> bool:
        assert len(needle) >= self.START
        return needle[: self.START] in self._starts and needle in self._data


def test_a_haystack_has_what_its_bytes_have() -> None:
    data = b"one needle, one other"
    haystack = Haystack(data)
    assert all(data[start:end] in haystack for start in range(len(data)) for end in range(start + 4, len(data) + 1))
    assert all(needle not in haystack for needle in (b"one noodle", b"needles", b"other!"))


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, marks=of_file(entry["file"]), id=entry["file"]) for entry in MANIFEST]
)
def test_nothing_that_names_somebody_is_left(entry: dict[str, Any], written: Written) -> None:
    original, anonymous = CAPTURES / entry["file"], written[entry["file"], "anonymous"]
    names = {name.encode() for name in {*said_by_others(entry), *named(original)}} | contents(original)
    names = {name for name in names if len(name) >= CANARY and name not in ANONYMOUS}
    assert not names & {name.encode() for name in named(anonymous)}
    assert not names & contents(anonymous)
    innocent = "\n".join(word for row in rows(original) for word in strings(row) if word.encode() not in names).encode()
    innocent += KPROXY_WORDS
    canaries = {name for name in names if name not in innocent}
    assert len(canaries) > 20
    data = Haystack(anonymous.read_bytes())
    text = Haystack(json_lines(anonymous).encode())
    for canary in canaries:
        for form in (canary, base64.b64encode(canary)[: len(canary) * 4 // 3 - 2], canary.hex().encode()):
            assert form not in data, f"{canary!r} is in the file"
            assert form not in text, f"{canary!r} is in what kproxy reads in it"


def tshark(path: Path, ports: set[int], *words: str) -> list[list[str]]:
    decode_as = [word for port in sorted(ports) for word in ("-d", f"tcp.port=={port},kafka")]
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    run = subprocess.run(
        ["tshark", "-r", str(path), *decode_as, *checks, "-T", "fields", *words],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return [line.split("\t") for line in run.stdout.splitlines()]


@pytest.mark.parametrize("kind", ["clear", "anonymous"])
@a_file_for_tshark
def test_tshark_reads_it(file: str, kind: str, written: Written, require: Require) -> None:
    require("tshark", shutil.which("tshark"), "")
    path = written[file, kind]
    known = rows(path)
    ports = {int(row["broker"].rpartition(":")[2]) for row in known}
    fields = ["-e", "tcp.srcport", "-e", "kafka.api_key", "-e", "kafka.correlation_id", "-e", "frame.comment"]
    seen = tshark(path, ports, *fields)
    sent = [row for row in seen if int(row[0]) not in ports and row[1]]
    requests = Counter(pair for row in sent for pair in zip(row[1].split(","), row[2].split(","), strict=True))
    assert requests == Counter((str(row["apiKey"]), str(row["correlationId"])) for row in known if row["requestSize"])
    comments = [row[3] for row in seen if row[3]]
    assert len(comments) >= len(known)
    bad = "tcp.checksum.status == 0 || ip.checksum.status == 0 || tcp.analysis.retransmission || tcp.analysis.out_of_order"
    assert tshark(path, ports, "-Y", bad, "-e", "frame.number") == []
