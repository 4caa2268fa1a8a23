"""Administration by Kafka's own tools through the proxy; what came of it is asked of the broker past the proxy."""

import json
import re
import uuid

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.clients import CLIENTS
from tests.support.kafka.brokers import CLUSTER_ID
from tests.support.kafka.fixtures import DIRECT, Entrance
from tests.support.kafka.jars import NEWEST, run_tool
from tests.support.kafka.processes import eventually
from tests.support.sockets import end_offsets, metadata

_PARTS = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def retention(bootstrap: str, topic: str) -> str:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    straight = admin(bootstrap)
    return str(straight.describe_configs([resource])[resource].result(30)["retention.ms"].value)


def partitions(entrance: Entrance, topic: str) -> int:
    """How many the broker knows of: what the controller has confirmed reaches it a moment later."""
    return len(metadata(entrance.cluster.open, [topic]).leaders)


def is_gone(entrance: Entrance, topic: str) -> bool:
    return (topic, 0) not in metadata(entrance.cluster.open).leaders


def test_topics_are_created_described_altered_and_deleted(entrance: Entrance, topic_name: str) -> None:
    topic, main = topic_name, "TopicCommand"
    entrance.tool(main, f"--create --topic {topic} --partitions 3 --config retention.ms=123456")
    eventually(lambda: retention(entrance.cluster.open, topic) == "123456", what="the broker has the config")
    described = entrance.tool(main, f"--describe --topic {topic}")
    assert re.findall(r"Partition: (\d)\s+Leader: (\d)", described) == [("0", "1"), ("1", "1"), ("2", "1")]
    entrance.tool(main, f"--alter --topic {topic} --partitions 5")
    eventually(lambda: partitions(entrance, topic) == 5, what="the broker has five partitions")
    entrance.tool(main, f"--delete --topic {topic}")
    eventually(lambda: is_gone(entrance, topic), what="the topic is gone")


def test_librdkafka_creates_grows_and_deletes(entrance: Entrance, topic_name: str) -> None:
    through = admin(entrance.bootstrap)
    through.create_topics([NewTopic(topic_name, 2, 1)])[topic_name].result(30)
    through.create_partitions([NewPartitions(topic_name, 4)])[topic_name].result(30)
    eventually(lambda: partitions(entrance, topic_name) == 4, what="the broker has four partitions")
    through.delete_topics([topic_name])[topic_name].result(30)
    eventually(lambda: is_gone(entrance, topic_name), what="the topic is gone")


def test_configs_are_altered(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    named = f"--entity-type topics --entity-name {topic}"
    entrance.tool("kafka.admin.ConfigCommand", f"--alter {named} --add-config retention.ms=777")
    eventually(lambda: retention(entrance.cluster.open, topic) == "777", what="the broker has the config")
    assert "retention.ms=777" in entrance.tool("kafka.admin.ConfigCommand", f"--describe {named}")


def test_acls_are_added_and_removed(entrance: Entrance, topic_name: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic_name,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    named = AclBindingFilter(*(getattr(binding, part) for part in _PARTS))
    through, straight = admin(entrance.bootstrap), admin(entrance.cluster.open)
    through.create_acls([binding])[binding].result(30)
    eventually(lambda: straight.describe_acls(named).result(30) == [binding], what="the broker has the ACL")
    assert through.describe_acls(named).result(30) == [binding]
    assert through.delete_acls([named])[named].result(30) == [binding]
    eventually(lambda: straight.describe_acls(named).result(30) == [], what="the ACL is gone")


def test_acls_by_kafkas_tool(entrance: Entrance, topic_name: str) -> None:
    main = "AclCommand" if entrance.release >= "4" else "kafka.admin.AclCommand"
    entrance.tool(main, f"--add --allow-principal User:eve --operation Write --topic {topic_name}")

    def listed() -> str:
        return entrance.tool(main, f"--list --topic {topic_name}")

    eventually(lambda: "principal=User:eve" in listed(), what="the broker has the ACL")
    entrance.tool(main, f"--remove --force --topic {topic_name}")
    eventually(lambda: "User:eve" not in listed(), what="the ACL is gone")


def test_log_dirs_are_described(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name, 2)
    printed = entrance.tool("LogDirsCommand", f"--describe --topic-list {topic}")
    found = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    (broker,) = found["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["logDir"] == str(entrance.cluster.brokers[1].folder / "data")
    assert sorted(each["partition"] for each in directory["partitions"]) == [f"{topic}-0", f"{topic}-1"]


def test_the_cluster_describes_itself(entrance: Entrance) -> None:
    words = ("cluster-id", "--bootstrap-server", entrance.bootstrap)
    assert CLUSTER_ID in run_tool(entrance.release, "org.apache.kafka.tools.ClusterTool", *words)
    through = admin(entrance.bootstrap)
    found = through.describe_cluster(request_timeout=30).result(30)
    assert found.cluster_id == CLUSTER_ID
    assert [node.id for node in found.nodes] == [1]
    assert DIRECT or {f"{node.host}:{node.port}" for node in found.nodes} & set(entrance.cluster.bootstrap()) == set()


def test_the_quorum_is_described(entrance: Entrance) -> None:
    printed = entrance.tool("MetadataQuorumCommand", "describe --status")
    assert re.search(r"LeaderId:\s+1\b", printed), printed
    rows = entrance.tool("MetadataQuorumCommand", "describe --replication").splitlines()
    assert rows[1].split()[0] == "1"
    assert rows[1].split()[-1] == "Leader"


def test_records_are_deleted(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert CLIENTS[1].produce(entrance, topic, 100) == 100
    printed = entrance.tool("GetOffsetShell", f"--topic {topic} --time -1")
    assert printed.split() == [f"{topic}:0:100"]
    through = admin(entrance.bootstrap)
    (done,) = through.delete_records([TopicPartition(topic, 0, 40)]).values()
    assert done.result(30).low_watermark == 40
    assert entrance.tool("GetOffsetShell", f"--topic {topic} --time -2").split() == [f"{topic}:0:40"]
    assert end_offsets(entrance.cluster.open, topic) == {0: 100}


def test_offsets_of_a_group_are_reset(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert CLIENTS[1].produce(entrance, topic, 50) == 50
    group = f"group-{uuid.uuid4().hex}"
    main = "consumer.group.ConsumerGroupCommand"
    entrance.tool(main, f"--reset-offsets --group {group} --topic {topic} --to-offset 20 --execute")
    read = CLIENTS[1].consume(entrance, topic, 30, group_id=group)
    assert read == [str(number).encode() for number in range(20, 50)]
    entrance.tool(main, f"--delete --group {group}")
    assert group not in entrance.tool(main, "--list")


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_features_and_api_versions_are_listed(entrance: Entrance) -> None:
    features = entrance.tool("FeatureCommand", "describe")
    assert re.search(r"share\.version\s.*FinalizedVersionLevel: 1", features), features
    apis = entrance.tool("BrokerApiVersionsCommand", "")
    straight = entrance.tool("BrokerApiVersionsCommand", "", past=True)
    assert apis.split("\n")[1:] == straight.split("\n")[1:], "all lines but the first, which has the address"
