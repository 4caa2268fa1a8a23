"""What is inside the payloads of real captures, against what the clients and brokers themselves reported (captures/README.md)."""

import functools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kproxy.capture import open_capture, read_flows
from kproxy.output.bodies import Opener
from kproxy.output.exchange_line import read_bodies
from kproxy.output.jsonl import exchange_line
from kproxy.pipeline.flow_reader import FlowEvents
from kproxy.protocol.embedded.viewers import Viewers
from kproxy.session import Exchange

CAPTURES = Path(__file__).parents[2] / "captures"
MANIFEST = {
    entry["file"][:2]: entry
    for entry in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines())
}


@functools.cache
def rows(number: str, *, records: bool = False) -> list[dict[str, Any]]:
    """The decoded log of a capture, exchanges alone."""
    opener = Opener(Viewers() if records else None)
    found = []
    with open_capture(CAPTURES / MANIFEST[number]["file"]) as capture:
        for event in FlowEvents(read_flows(capture)):
            opener.learn(event)
            if isinstance(event, Exchange):
                found.append(json.loads(exchange_line(event, read_bodies(event, opener))))
    return found


def inside(number: str, api: str, where: str, *, records: bool = False) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(exchange, payload) of one API and side; none may be broken."""
    found = [(row, one) for row in rows(number, records=records) if row["apiName"] == api for one in row["embedded"]]
    assert not [one for _, one in found if "error" in one]
    return [(row, one["json"]) for row, one in found if one["in"] == where]


def test_a_rebalance_assigns_what_the_members_reported() -> None:
    """Capture 03: "member-1 gen 2 assigned [rebal-3, rebal-4, rebal-5]"."""
    reported = set()
    for event in MANIFEST["03"]["workload_report"][0]["events"]:
        found = re.search(r"(member-\d) gen (\d+) assigned \[(.*)\]", event)
        if found is not None:
            reported.add((found[1], int(found[2]), found[3]))
    decoded = set()
    for row, json_ in inside("03", "SyncGroup", "response"):
        names = [f"{t['topic']}-{p}" for t in json_["value"]["assignedPartitions"] for p in t["partitions"]]
        decoded.add((row["clientId"], row["request"]["generationId"], ", ".join(names)))
    assert decoded == reported
    assert len(decoded) == MANIFEST["03"]["expect"]["groups"]["g-range"]["assign_callbacks"] == 8


def test_a_leader_is_told_of_all_members_and_gives_to_all() -> None:
    largest = max(rows("03"), key=lambda row: len(row["embedded"]) if row["apiName"] == "JoinGroup" else 0)
    told = [one for one in largest["embedded"] if one["in"] == "response"]
    assert [one["path"] for one in told] == [f"members[{index}].metadata" for index in range(3)]
    assert all(one["json"]["value"]["topics"] == ["rebal"] for one in told)
    given = Counter(row["request"]["generationId"] for row, _ in inside("03", "SyncGroup", "request"))
    assert given == {1: 1, 2: 2, 3: 3, 4: 2}


@pytest.mark.parametrize("number", ["01", "06", "10"])
def test_every_partition_gets_as_many_records_as_the_producer_sent(number: str) -> None:
    produced: Counter[str] = Counter()
    for _, json_ in inside(number, "Produce", "request"):
        produced[f"{json_['topic']}-{json_['partition']}"] += json_["count"]
        assert all(batch["crcValid"] for batch in json_["batches"])
    assert produced == MANIFEST[number]["workload_report"]["produce"][0]["per_partition"]


@pytest.mark.parametrize(("number", "topic"), [("08", "t09c"), ("09", "t10b")])
def test_messages_in_compressed_wrappers_are_counted(number: str, topic: str) -> None:
    """Captures 08 and 09: formats 0 and 1, four times 80 records with four codecs."""
    fields = [json_ for _, json_ in inside(number, "Produce", "request")]
    assert sum(json_["count"] for json_ in fields if json_["topic"] == topic) == 320
    codecs = {batch["compression"] for json_ in fields for batch in json_["batches"]}
    assert codecs == {"none", "gzip", "snappy", "lz4"}
    assert {batch["magic"] for json_ in fields for batch in json_["batches"]} == {0 if number == "08" else 1}


def test_records_have_the_headers_that_the_producer_set() -> None:
    """Capture 01: "record headers trace-id and a null header"."""
    fields = [json_ for _, json_ in inside("01", "Produce", "request", records=True)]
    shown = [record for json_ in fields for record in json_["records"]]
    assert len(shown) == 200
    for record in shown:
        headers = {header["key"]: header["value"] for header in record["headers"]}
        assert "trace-id" in headers
        assert None in headers.values()


def test_transactions_end_with_the_markers_that_the_client_reported() -> None:
    """Capture 04: 3 commits, 2 aborts; markers are control batches in what is fetched."""
    markers = {
        (json_["partition"], record["offset"]): record["control"]["type"]
        for _, json_ in inside("04", "Fetch", "response")
        for record in json_.get("records", [])
    }
    by_kind = Counter(markers.values())
    assert set(by_kind) == {"COMMIT", "ABORT"}
    assert by_kind["COMMIT"] >= 3
    assert by_kind["ABORT"] >= 2


def test_scram_shows_the_user_and_not_the_secrets() -> None:
    """Capture 06: SCRAM-SHA-256 as alice on every connection."""
    asked = inside("06", "SaslAuthenticate", "request")
    assert Counter(json_.get("username") for _, json_ in asked) == {"alice": 5, None: 5}
    answers = [json_ for _, json_ in inside("06", "SaslAuthenticate", "response")]
    assert answers.count({"iterations": 4096}) == answers.count({}) == 5
    text = json.dumps(rows("06"))
    for secret in ("alice-throwaway", ",r=", "bixhbGljZQ"):
        assert secret not in text


def test_a_forwarded_request_its_principal_and_its_answer() -> None:
    """Capture 10: CreateTopics of topic fwd, made through a follower."""
    request, principal, address = (json_ for _, json_ in inside("10", "Envelope", "request"))
    (response,) = (json_ for _, json_ in inside("10", "Envelope", "response"))
    assert request["message"] == "CreateTopicsRequest"
    assert [topic["name"] for topic in request["value"]["topics"]] == ["fwd"]
    assert (principal["value"]["type"], principal["value"]["name"]) == ("User", "ANONYMOUS")
    assert address == "127.0.0.1"
    assert response["header"]["correlationId"] == request["header"]["correlationId"]
    # the controllers' log carries what the answer says was made
    records = [
        record["value"]
        for _, json_ in inside("10", "Fetch", "response")
        if json_["topic"] == "__cluster_metadata"
        for record in json_["records"]
    ]
    made = {(r["value"]["name"], r["value"]["topicId"]) for r in records if r["message"] == "TopicRecord"}
    assert made == {("fwd", response["value"]["topics"][0]["topicId"])}
    partitions = {r["value"]["partitionId"] for r in records if r["message"] == "PartitionRecord"}
    assert len(partitions) == request["value"]["topics"][0]["numPartitions"]
