"""Plan and result as text and JSON; results of requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.replay.comparing import Difference
from kproxy.replay.effects import Verb
from kproxy.replay.explaining import SPOKEN
from kproxy.replay.left_out import LeftOut
from kproxy.replay.plan import Plan, make_plan
from kproxy.replay.recording import read_recording
from kproxy.replay.report import plan_lines, plan_object, result_lines, result_object
from kproxy.replay.result import MOST_EXAMPLES, Outcome, Result, which
from tests.replay.test_plan import cluster
from tests.support.replayed import RecordedBroker, capture, recorded, replayed
from tests.support.secrets_block import without_secrets


def planned(number: int) -> Plan:
    return make_plan(recorded(number), cluster())


def test_a_plan() -> None:
    lines = list(plan_lines(planned(1), dry=True))
    assert lines[0] == "23 requests on 5 connections, recorded over 3.15 s"
    assert "  would write  topic orders: 200 records, 36,778 bytes" in lines
    assert any("--create-topics creates them first" in line for line in lines)


def test_a_plan_that_is_carried_out() -> None:
    plan = planned(4)
    plan.create_topics = True
    lines = list(plan_lines(plan, dry=False))
    assert "  first create topic tx: 2 partitions, 1 replica" in lines
    assert any(line.startswith("  will write") for line in lines)
    assert (
        "  not sent     12 AddPartitionsToTxn, 2 ApiVersions, 5 WriteTxnMarkers: what brokers and controllers say to each other"
        in lines
    )


def test_why_there_is_nothing_to_send(tmp_path: Path) -> None:
    """TLS connections that lack the same are one line, whatever was sent on each."""
    bare = tmp_path / "bare.pcapng"
    bare.write_bytes(without_secrets(capture(7).read_bytes())[0])
    lines = "\n".join(plan_lines(make_plan(read_recording([bare]), cluster()), dry=True))
    assert "  nothing      no request was recorded" in lines
    assert lines.count("connection without Kafka") == 1
    assert "5 × connection without Kafka: tls: not decrypted" in lines and "--keylog FILE" in lines


def test_names_that_a_terminal_would_obey() -> None:
    plan = planned(1)
    plan.effects.note(Verb.WRITE, "topic \x1b[2J\u202e", records=1)
    assert all(line.isprintable() for line in plan_lines(plan, dry=True))


def result() -> Result:
    found = Result(sent=3, sent_bytes=1_500, connections=1, repeated=2)
    one = recorded(1).requests[0]
    found.note_difference(one, Difference("errorCode", "errorCode", "NONE", "NOT_COORDINATOR"))
    found.note_trouble(one, "no answer within 30 s")
    found.left_out[LeftOut.TIMES] = 7
    return found


def test_a_result() -> None:
    lines = list(result_lines(result(), 1.25))
    assert lines[0] == "sent 3 requests (1.5 KB) on 1 connection in 1.2 s"
    assert [line.strip() for line in lines[2:5]] == [
        f"differs      {SPOKEN}:",
        "ApiVersions errorCode: NONE recorded, NOT_COORDINATOR now (once)",
        "errorCode, request 1 (correlation id 0 of 127.0.0.1:59808)",
    ]
    assert "  no answer    ApiVersions: no answer within 30 s (once)" in lines
    assert "  not compared 7: times" in lines


def test_objects() -> None:
    plan, done = plan_object(planned(1)), result_object(result(), 1.25)
    json.dumps([plan, done])
    assert plan["requests"] == 23 and plan["missingTopics"] == {"orders": 3}
    assert {"verb": "write", "subject": "topic orders", "counts": {"records": 200, "bytes": 36_778}} in plan["effects"]
    [difference] = done["differences"]
    assert (difference["apiName"], difference["path"], difference["count"]) == ("ApiVersions", "errorCode", 1)
    assert done["notCompared"] == {"TIMES": {"why": "times", "fields": 7}}


def test_differences_of_a_kind_are_counted_together() -> None:
    result = Result()
    one = recorded(1).requests[0]
    for offset in range(10):
        result.note_difference(one, Difference("a.b", f"a[{offset}].b", "1", "2"))
    [kind] = result.differences.values()
    assert kind.count == 10 and len(kind.examples) == MOST_EXAMPLES
    assert kind.examples[0] == f"a[0].b, {which(one)}"
    assert result.differs


def test_kinds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.replay.result.MOST_KINDS", 5)
    result = Result()
    one = recorded(1).requests[0]
    for number in range(20):
        result.note_difference(one, Difference("a", "a", str(number), "x"))
        result.note_trouble(one, f"why {number}")
    assert len(result.differences) == len(result.troubles) == 6
    assert sum(kind.count for kind in result.differences.values()) == 20
    assert result.count(Outcome.NO_ANSWER) == 20


def test_a_request_is_named_as_it_is_found_in_the_capture() -> None:
    assert which(recorded(1).requests[0]) == "request 1 (correlation id 0 of 127.0.0.1:59808)"


def test_a_difference_is_told_with_its_place() -> None:
    def later(answer: bytes) -> bytes:
        decoded: Any = message("ProduceResponse").decode(13, answer)
        decoded.responses[0].partition_responses[0].base_offset = 99
        return message("ProduceResponse").encode(13, decoded)

    recording = recorded(1)
    _, result = replayed(recording, RecordedBroker(recording, change={ApiKey.PRODUCE: later}))
    assert result.count(Outcome.DIFFERENT) == 1
    [(api, path, old, new)] = result.differences
    assert (api, path, old, new) == ("Produce", "responses.partitionResponses.baseOffset", "0", "99")


def test_an_answer_that_was_not_recorded_is_compared_with_nothing() -> None:
    recording = recorded(1)
    broker = RecordedBroker(recording)
    produce = next(one for one in recording.requests if one.api_key == ApiKey.PRODUCE)
    produce.response = produce.answered_at = None
    plan, result = replayed(recording, broker)
    assert (result.count(Outcome.NOT_RECORDED), result.differs) == (1, False)
    assert result.count(Outcome.SAME) == len(plan.sent) - 1
