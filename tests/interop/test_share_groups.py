"""Share groups (KIP-932), which Kafka has since 4.2."""

import pytest

from tests.interop.clients import CLIENTS, values
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.tools import events, run_tool
from tests.support.kafka.wire import end_offsets

COUNT = 1_000


def begin_at_the_start(entrance: Entrance, group: str) -> None:
    run_tool(
        entrance.release,
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", entrance.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest"),
    )


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_a_share_group_reads_what_there_is(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert CLIENTS[1].produce(entrance, topic, COUNT) == COUNT
    assert end_offsets(entrance.cluster.open, topic) == {0: COUNT}
    group = f"share-{topic}"
    begin_at_the_start(entrance, group)
    printed = run_tool(
        entrance.release,
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", entrance.bootstrap, "--topic", topic, "--group", group),
        *("--max-messages", str(COUNT), "--timeout-ms", "30000"),
    )
    assert sorted(printed.encode().split(), key=int) == values(COUNT)


@pytest.mark.parametrize("single", [NEWEST], indirect=True)
def test_every_record_is_acknowledged_once(entrance: Entrance, topic_name: str) -> None:
    topic = entrance.cluster.topic(topic_name)
    assert CLIENTS[1].produce(entrance, topic, COUNT) == COUNT
    printed = run_tool(
        entrance.release,
        "org.apache.kafka.tools.VerifiableShareConsumer",
        *("--bootstrap-server", entrance.bootstrap, "--topic", topic, "--group-id", f"share-{topic}"),
        *("--max-messages", str(COUNT), "--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
    )
    acknowledged = [each for each in events(printed) if each["name"] == "offsets_acknowledged"]
    assert sum(each["count"] for each in acknowledged) == COUNT
