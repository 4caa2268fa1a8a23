"""Captures replayed to real brokers: librdkafka and Kafka's own tools say what has arrived there, and what has not."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kproxy.protocol import ApiKey
from kproxy.replay.recording import Recording
from tests.interop.clients import consumed
from tests.support.command import kproxy
from tests.support.kafka.brokers import PASSWORD, Cluster
from tests.support.kafka.fixtures import started
from tests.support.kafka.jars import NEWEST, run_tool
from tests.support.kafka.processes import eventually
from tests.support.kafka.security import Security
from tests.support.replayed import capture, recorded
from tests.support.sockets import end_offsets

PATIENCE_S = 60.0


@pytest.fixture
def fresh(kafka: None, tmp_path: Path) -> Iterator[Cluster]:
    """A broker of its own for a test."""
    cluster = started(tmp_path, NEWEST)
    yield cluster
    cluster.close()


def replay(cluster: Cluster, number: int, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Run `kproxy replay` of a sample capture; the exit status, and the object that it prints."""
    status = kproxy("replay", capture(number), "--to", cluster.open, "--format", "json", "--speed", "max", *words)
    return status, json.loads(capsys.readouterr().out)


def produced(recording: Recording) -> Iterator[tuple[str, int, bytes | None, bytes | None]]:
    """Topic, partition, key and value of each record in Produce requests, as aiokafka reads them."""
    for one in recording.requests:
        if one.api_key != ApiKey.PRODUCE:
            continue
        for topic in one.body().topic_data:
            name = topic.name or recording.names[topic.topic_id]
            for partition in topic.partition_data:
                read = MemoryRecords(partition.records)
                while read.has_next():
                    for record in read.next_batch():
                        yield name, partition.index, record.key, record.value


def committed(cluster: Cluster, group: str, topic: str, partitions: int) -> dict[int, int]:
    """The offsets of a group, as librdkafka's admin client lists them."""
    admin = AdminClient({"bootstrap.servers": cluster.open})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number) for number in range(partitions)])
    [future] = admin.list_consumer_group_offsets([asked]).values()
    return {one.partition: one.offset for one in future.result(PATIENCE_S).topic_partitions}


def commits(recording: Recording, group: str) -> dict[int, int]:
    """The last offsets that the capture commits."""
    found = {}
    for one in recording.requests:
        if one.api_key == ApiKey.OFFSET_COMMIT and (body := one.body()).group_id == group:
            found.update({p.partition_index: p.committed_offset for t in body.topics for p in t.partitions})
    return found


def listings(cluster: Cluster) -> list[str]:
    """What Kafka's own tools list: topics with their settings, ends of partitions, groups, transactional ids, ACLs."""
    bootstrap = ("--bootstrap-server", cluster.open)
    acls = "org.apache.kafka.tools.AclCommand" if cluster.release > "4" else "kafka.admin.AclCommand"
    tools = {
        "org.apache.kafka.tools.TopicCommand": ("--describe",),
        "org.apache.kafka.tools.GetOffsetShell": (),
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": ("--list",),
        "org.apache.kafka.tools.TransactionsCommand": ("list",),
        acls: ("--list",),
    }
    return [
        "\n".join(sorted(run_tool(cluster.release, tool, *bootstrap, *words).splitlines()))
        for tool, words in tools.items()
    ]


def differing(found: Any) -> set[tuple[str, str]]:
    """API and field of each difference."""
    return {(one["apiName"], one["path"]) for one in found["result"]["differences"]}


def test_a_dry_run_changes_nothing(single: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    single.topic("kept", 2)
    before = listings(single)
    for number in (1, 4, 5):
        status, found = replay(single, number, capsys, "--create-topics")
        assert (status, found["dryRun"]) == (0, True) and found["plan"]["effects"]
    assert listings(single) == before


def test_records_and_offsets(single: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    recording = recorded(1)
    status, found = replay(single, 1, capsys, "--create-topics", "--yes")
    told = {api for api, _ in differing(found)}
    assert told <= {"ApiVersions"}
    assert status == (4 if told else 0)  # brokers of another release, or with another listener, speak other versions
    assert not found["result"]["noAnswer"]
    sent = Counter(produced(recording))
    assert sum(sent.values()) == 200  # captures/README.md
    assert Counter(consumed(single, "orders")) == sent
    assert committed(single, "orders-group", "orders", 3) == commits(recording, "orders-group")


def test_transactions(single: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = replay(single, 4, capsys, "--create-topics", "--yes")
    assert not found["result"]["noAnswer"]
    if single.release < "4":  # such transactions need clients and brokers of 4.0 on
        unsent = {(one["apiName"], one["requests"]) for one in found["plan"]["notSent"] if "KIP-890" in one["reason"]}
        assert unsent == {("Produce", 51), ("EndTxn", 6)}
        return
    committed = {"isolation.level": "read_committed"}  # markers are written behind the answers to EndTxn
    eventually(lambda: len(consumed(single, "tx", **committed)) == 30, what="30 records, as captures/README.md says")
    every = list(produced(recorded(4)))
    assert Counter(consumed(single, "tx", **{"isolation.level": "read_uncommitted"})) <= Counter(every)


def transactions(cluster: Cluster) -> dict[str, str]:
    """State of each transactional id that has one, as Kafka's own tool lists them."""
    listed = run_tool(
        cluster.release, "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", cluster.open, "list"
    )
    rows = [line.split() for line in listed.splitlines()[1:]]
    return {row[0]: row[-1] for row in rows if row}


def test_interrupted_in_a_transaction_it_says_that_it_is_open(single: Cluster) -> None:
    """At once, though the request that would end it is minutes away; Kafka's own tool says the same."""
    if single.release < "4":  # see test_transactions
        return
    requests = [one for one in recorded(4).requests if one.api_key in (ApiKey.PRODUCE, ApiKey.END_TXN)]
    first, last = (requests[place].correlation_id for place in (0, -1))
    where = f'correlationId in [{first}, {last}] && apiName in ["Produce", "EndTxn"]'
    words = (
        "replay",
        capture(4),
        "--to",
        single.open,
        "--create-topics",
        "--yes",
        "--speed",
        "0.001",
        "--where",
        where,
    )
    command = [sys.executable, "-m", "kproxy", *map(str, words)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                eventually(
                    lambda: sum(end_offsets(single.open, "tx").values()), what="a record"
                )  # Kafka's tool is dear
                eventually(lambda: transactions(single).get("tx-1") == "Ongoing", what="a transaction has begun")
                assert process.poll() is None
                process.send_signal(signal.SIGINT)
                printed, _ = process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()
        assert process.returncode == 130 and "interrupted after 1 request " in printed
        assert "  left open  " in printed  # "perhaps" where the answer to Produce had not come yet
        assert "the transaction of tx-1, which its coordinator aborts" in printed
        assert transactions(single)["tx-1"] == "Ongoing"
    finally:  # the cluster is others', too
        Producer({"bootstrap.servers": single.open, "transactional.id": "tx-1"}).init_transactions(PATIENCE_S)
        admin = AdminClient({"bootstrap.servers": single.open})
        admin.delete_topics(["tx"])["tx"].result(PATIENCE_S)


def test_over_tls(single: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert single.authority is not None
    bootstrap = single.bootstrap("TLS")[0]
    words = ("--to", bootstrap, "--tls-ca", single.authority.ca, "--format", "json")
    reading = 'apiName == "Metadata" || apiName == "ApiVersions"'
    status = kproxy("replay", capture(1), *words, "--yes", "--speed", "max", "--where", reading)
    found = json.loads(capsys.readouterr().out)
    assert status in (0, 4) and found["result"]["sent"] == 8 and not found["result"]["noAnswer"]
    assert kproxy("replay", capture(1), "--to", bootstrap, "--tls", "--format", "json") == 1  # an unknown authority
    assert "certificate verify failed" in capsys.readouterr().err


# What differs on a fresh broker of the release that was recorded, and why. {}: nothing does
OTHER_SETTINGS = {  # the recorded broker was configured otherwise, and had topics, groups and quotas from before the capture
    *(("CreateTopics", "topics.configs.value"), ("CreateTopics", "topics.configs.configSource")),
    *(("Metadata", "topics"), ("Metadata", "topics.partitions"), ("ListGroups", "groups")),
    *(("DescribeConfigs", f"results.configs.{name}") for name in ("value", "configSource")),
    *(("DescribeConfigs", f"results.configs.synonyms.{name}") for name in ("value", "source")),
    *(("DescribeConfigs", "results.configs"), ("DescribeConfigs", "results.configs.synonyms")),
    *(("ListConfigResources", "configResources"), ("DescribeClientQuotas", "entries")),
    (
        "DescribeTransactions",
        "transactionStates.errorCode",
    ),  # of an id that no coordinator knows: another partition of the log
    ("DescribeQuorum", "topics.partitions.highWatermark"),
    ("AddRaftVoter", "errorCode"),  # refused in both; the recorded controller tried to reach the voter first
}
TELEMETRY = {("ApiVersions", "apiKeys")}  # the recorded broker had a reporter of clients' metrics
FROM_BEFORE = {  # records from before the capture, which no request brings
    *(("OffsetForLeaderEpoch", "topics.partitions.endOffset"), ("Fetch", "responses.partitions.errorCode")),
    ("Fetch", "responses.partitions.records"),
}
JOINED_BEFORE = {  # members whose JoinGroup is not in the capture
    *((api, "errorCode") for api in ("Heartbeat", "SyncGroup", "JoinGroup")),
    *(("OffsetCommit", "topics.partitions.errorCode"), ("OffsetFetch", "groups.topics.partitions.committedOffset")),
    ("LeaveGroup", "members.errorCode"),
}
KEEPS_ITS_RECORDS = (1, 2, 6, 10, 11)  # of the others, transactions abort, or topics are deleted
EXPLAINED = {
    1: set[tuple[str, str]](),
    2: TELEMETRY,
    3: TELEMETRY | FROM_BEFORE,
    4: TELEMETRY,
    5: OTHER_SETTINGS,
    6: TELEMETRY,
    7: TELEMETRY,
    10: FROM_BEFORE
    | OTHER_SETTINGS
    | {("ApiVersions", "apiKeys.maxVersion"), ("CreateTopics", "topics.replicationFactor")},
    11: TELEMETRY,
    12: TELEMETRY | FROM_BEFORE | JOINED_BEFORE,
}


@pytest.mark.long
@pytest.mark.parametrize("number", EXPLAINED)
def test_a_fresh_broker_answers_as_recorded(fresh: Cluster, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """All differences are listed here with their reasons; every request that is sent gets an answer."""
    status, found = replay(fresh, number, capsys, "--create-topics", "--yes")
    sent = Counter(produced(recorded(number))) if number in KEEPS_ITS_RECORDS else Counter()
    read = Counter(record for topic in {record[0] for record in sent} for record in consumed(fresh, topic))
    outcomes = sum(map(Counter, found["result"]["outcomes"].values()), Counter[str]())
    print(
        f"{capture(number).name}: {found['result']['sent']} sent; {dict(outcomes)}; differ: {sorted(differing(found))}"
    )
    assert read == sent
    assert not found["result"]["noAnswer"] and not found["result"]["notSent"]
    assert differing(found) <= EXPLAINED[number]
    assert [one for one in found["result"]["differences"] if one["why"] is None] == []
    assert status == (4 if differing(found) else 0)


@pytest.mark.long
def test_a_capture_is_replayed_twice_to_one_cluster(fresh: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The second time the logs have records already: offsets move by as many, so the consumer reads what was just written."""
    for _ in range(2):
        _, found = replay(fresh, 1, capsys, "--create-topics", "--yes")
    offsets = committed(fresh, "orders-group", "orders", 3)
    assert differing(found) <= {("OffsetFetch", "groups.topics.partitions.committedOffset")}  # of the first time
    assert offsets == {partition: 2 * offset for partition, offset in commits(recorded(1), "orders-group").items()}
    assert sum(offsets.values()) == 400  # captures/README.md


@pytest.mark.long
def test_members_that_do_not_leave_are_told(fresh: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a selection without LeaveGroup; the broker's group has the same members."""
    _, found = replay(fresh, 1, capsys, "--create-topics", "--yes", "--where", 'apiName != "LeaveGroup"')
    admin = AdminClient({"bootstrap.servers": fresh.open})
    groups = {one["groupId"] for one in found["result"]["leftOpen"]["members"]}
    described = [future.result(PATIENCE_S) for future in admin.describe_consumer_groups(list(groups)).values()]
    members = {(group.group_id, member.member_id) for group in described for member in group.members}
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    told = found["result"]["leftOpen"]["members"]
    assert {(one["groupId"], one["memberId"]) for one in told} == members != set()
    assert all(one["certain"] for one in told)
    created = {one["subject"] for one in found["plan"]["effects"] if one["verb"] == "create"}
    assert "topic __consumer_offsets, by FindCoordinator" in created and "__consumer_offsets" in topics


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 4])
def test_three_brokers_answer_as_one_did(three: Cluster, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = replay(three, number, capsys, "--create-topics", "--yes")
    assert differing(found) <= TELEMETRY and not found["result"]["noAnswer"]


@pytest.mark.long
@pytest.mark.parametrize("number", [8, 9])
def test_records_of_old_formats(fresh: Cluster, number: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests of Kafka 0.9 and 0.10, to a broker that takes no such versions and formats any more."""
    _, found = replay(fresh, number, capsys, "--create-topics", "--yes")
    [topic] = recorded(number).topics
    read = consumed(fresh, topic)
    assert {api for api, _ in differing(found)} <= {"ApiVersions"} and not found["result"]["noAnswer"]
    assert len(read) == 4 * 80  # captures/README.md


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_to_brokers_that_want_a_login(
    single: Cluster, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that Kafka's own tools log in with; and one over TLS, whose password is in the environment."""
    assert single.authority is not None
    tls = mechanism != "PLAIN"
    security = Security("SASL_SSL" if tls else "SASL_PLAINTEXT", mechanism, Path(single.authority.ca) if tls else None)
    settings = "".join(f"{name}={value}\n" for name, value in security.java().items())
    file = tmp_path / "client.properties"
    file.write_text(settings)
    bootstrap = single.bootstrap("SASL_TLS" if tls else "SASL")[0]
    if not tls:
        tool = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, "--list")
        run_tool(single.release, *tool, "--command-config", str(file))
    monkeypatch.setenv("REPLAY_PASSWORD", PASSWORD)
    file.write_text(settings.replace(PASSWORD, "${env:REPLAY_PASSWORD}") if tls else settings)
    reading = 'apiName == "Metadata" || apiName == "ApiVersions"'
    words = ("--to", bootstrap, "--format", "json", "--yes", "--speed", "max", "--where", reading)
    status = kproxy("replay", capture(1), *words, "--command-config", str(file))
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert status in (0, 4) and found["result"]["sent"] == 8 and not found["result"]["noAnswer"]
    file.write_text(settings.replace(PASSWORD, "bobs-guess"))
    assert kproxy("replay", capture(1), *words, "--command-config", str(file)) == 1
    refused = capsys.readouterr()
    assert "SASL_AUTHENTICATION_FAILED" in refused.err and refused.out == ""
    for text in (printed.out, printed.err, refused.err):
        assert PASSWORD not in text and "bobs-guess" not in text
