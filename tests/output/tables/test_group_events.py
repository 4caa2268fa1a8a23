"""Rows of group_events against what clients and brokers said themselves."""

import re
from collections import Counter
from typing import Any

import pytest

from kproxy.protocol.error_codes import ErrorCode
from tests.support import tables
from tests.support.tables import MANIFEST, broker_log, exchange_of, query, tables_of

CLASSIC = "03-classic-rebalance-range.pcap"
ASSIGNED = re.compile(r"t\+\d+ms (\S+) gen (\d+) assigned \[(.*)\]")


def test_assignments_are_what_the_members_were_called_with() -> None:
    entry = next(entry for entry in MANIFEST if entry["file"] == CLASSIC)
    said = filter(None, map(ASSIGNED.fullmatch, entry["workload_report"][0]["events"]))
    expected = sorted((found[1], int(found[2]), found[3].split(", ")) for found in said)
    for event in ("sync", "assign"):
        rows = query(
            tables_of(CLASSIC),
            "with names as (select distinct member_id, client_id from group_events where event = 'join') "
            f"select n.client_id, generation, assignment from group_events join names n using (member_id) "
            f"where event = '{event}' and error_code = 0 order by all",
        )
        assert rows == expected


@pytest.mark.parametrize("name", ["01-java-produce-consume-group.pcap", CLASSIC, "07-tls13-dsb.pcapng"])
def test_joins_syncs_and_leaves_are_what_the_broker_logged(name: str) -> None:
    apis = {11: "join", 13: "leave", 14: "sync"}
    expected = Counter(
        (apis[key], row["request"]["groupId"], _member(row), row["request"].get("sessionTimeoutMs"), _reason(row))
        for row in broker_log(name)
        if (key := row["requestHeader"]["requestApiKey"]) in apis
    )
    rows = query(
        tables_of(name),
        "select event, group_id, member_id, session_timeout_ms, reason from group_events "
        f"where event in {tuple(apis.values())}",
    )
    assert Counter(rows) == expected
    assert expected


def _member(row: dict[str, Any]) -> str:
    request = row["request"]
    members = request.get("members") or [request]
    return str(members[0]["memberId"] or row["response"]["memberId"])


def _reason(row: dict[str, Any]) -> str | None:
    request = row["request"]
    members = request.get("members") or [request]
    return members[0].get("reason") or None


def test_failed_heartbeats_are_what_the_broker_logged() -> None:
    expected = sorted(
        (row["requestHeader"]["clientId"], row["request"]["generationId"], row["response"]["errorCode"])
        for row in broker_log(CLASSIC)
        if row["requestHeader"]["requestApiKey"] == 12 and row["response"]["errorCode"]
    )
    rows = query(
        tables_of(CLASSIC), "select client_id, generation, error_code from group_events where event = 'heartbeat'"
    )
    assert sorted(rows) == expected
    assert expected


def test_kip_848_members_own_what_they_were_given() -> None:
    rows = query(
        tables_of("02-librdkafka-codecs-kip848.pcap"),
        "select event, generation, response_generation, assignment, owned from group_events "
        "where group_type = 'consumer' order by exchange",
    )
    given = ["rdtx-0", "rdtx-1"]
    assert rows == [("join", 0, 2, given, []), ("heartbeat", 2, 2, None, given), ("leave", -1, -1, None, None)]


# By hand


def rows_of(name: str, version: int, request: dict[str, Any], response: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an exchange whose bodies have these fields, as dicts."""
    return tables.rows_of(exchange_of(name, version, request, response), "group_events")


def test_a_heartbeat_without_news_has_no_row() -> None:
    nothing = {"topic_partitions": None, "subscribed_topic_names": None, "rebalance_timeout_ms": -1}
    request = {"group_id": "g", "member_id": "m", "member_epoch": 5, "subscribed_topic_regex": None, **nothing}
    same = {"member_epoch": 5, "assignment": None}
    assert rows_of("ConsumerGroupHeartbeat", 1, request, same) == []
    assert rows_of("Heartbeat", 4, {"group_id": "g", "member_id": "m"}, {}) == []
    newer = rows_of("ConsumerGroupHeartbeat", 1, request, {**same, "member_epoch": 6})
    assert [(row["event"], row["generation"], row["response_generation"]) for row in newer] == [("heartbeat", 5, 6)]


@pytest.mark.parametrize(("epoch", "event"), [(0, "join"), (-1, "leave"), (-2, "leave")])
@pytest.mark.parametrize("group_type", ["Consumer", "Share", "Streams"])
def test_epochs_that_mean_join_and_leave(group_type: str, epoch: int, event: str) -> None:
    (row,) = rows_of(f"{group_type}GroupHeartbeat", 0 if group_type != "Share" else 1, {"member_epoch": epoch}, {})
    assert (row["group_type"], row["event"], row["generation"]) == (group_type.lower(), event, epoch)


def test_each_member_that_leaves_has_a_row_with_its_own_error() -> None:
    rows = rows_of(
        "LeaveGroup",
        5,
        {"group_id": "g", "members": [{"member_id": "a", "reason": "r"}, {"group_instance_id": "i"}]},
        {"members": [{"member_id": "a"}, {"group_instance_id": "i", "error_code": ErrorCode.UNKNOWN_MEMBER_ID}]},
    )
    assert [(row["member_id"], row["group_instance_id"], row["error_name"], row["reason"]) for row in rows] == [
        ("a", None, "NONE", "r"),
        ("", "i", "UNKNOWN_MEMBER_ID", None),
    ]


def test_bytes_that_are_no_subscription_leave_the_join_without_topics() -> None:
    request = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"\xff\xff\0"}]}
    (row,) = rows_of("JoinGroup", 9, request, {"leader": "m", "member_id": "m", "generation_id": 3})
    assert (row["subscribed_topics"], row["protocols"], row["response_generation"]) == (None, ["range"], 3)
    assert row["is_leader"] is True


def test_tasks_of_streams_groups() -> None:
    active = [{"subtopology_id": "0", "partitions": [0, 2]}]
    (row,) = rows_of("StreamsGroupHeartbeat", 0, {"member_epoch": 2}, {"member_epoch": 2, "active_tasks": active})
    assert (row["event"], row["assignment"]) == ("heartbeat", ["0-0", "0-2"])
