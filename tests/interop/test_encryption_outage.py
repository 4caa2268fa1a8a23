"""What a share group of a real broker gets while the key service is away, and afterwards."""

from pathlib import Path
from typing import Any

import pytest

from tests.interop.clients import Librdkafka, values
from tests.interop.conftest import Behind
from tests.interop.test_clients import begin_at_the_start
from tests.support.kafka.jars import NEWEST, java
from tests.support.kafka.processes import eventually, spawn, stop

COUNT = 20
REQUESTS = 12  # each of which would spend a delivery, of five

pytestmark = [pytest.mark.long, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


def test_an_outage_costs_each_record_one_delivery_at_most(
    behind: Behind, encrypting: dict[str, Any], topic_name: str, tmp_path: Path
) -> None:
    topic = behind.broker.topic(topic_name)
    assert Librdkafka().produce(behind(encrypting), topic, COUNT) == COUNT
    entrance = behind(encrypting)  # it has no data key yet
    proxy = entrance.proxy
    assert proxy is not None
    group = f"share-{topic}"
    begin_at_the_start(entrance, group)
    words = f"--alter --entity-type groups --entity-name {group} --add-config share.record.lock.duration.ms=15000"
    entrance.tool("kafka.admin.ConfigCommand", words)
    keys = tmp_path / "keys"
    keys.rename(tmp_path / "away")
    shown = tmp_path / "shown"
    words = f"--bootstrap-server {entrance.bootstrap} --topic {topic} --group {group} --max-messages {COUNT}"
    printed = "--formatter-property print.delivery=true --timeout-ms 60000"
    tool = java(NEWEST, "org.apache.kafka.tools.consumer.ConsoleShareConsumer", *words.split(), *printed.split())
    process = spawn(tool, shown)

    def failed() -> float:
        return proxy.count("kproxy_filter_events_total", 'event="failed"', 'name="key service away"')

    def asked() -> float:
        return proxy.count("kproxy_requests_total", 'api="ShareFetch"')

    try:
        eventually(failed, what="records were withheld")
        before = asked()
        eventually(lambda: asked() > before + REQUESTS, what="the group goes on asking")
        assert failed() == 1
        (tmp_path / "away").rename(keys)
        assert process.wait(90) == 0
    finally:
        stop(process)
    lines = [line.split("\t") for line in shown.read_text().splitlines() if line.startswith("Delivery")]
    assert sorted((line[-1].encode() for line in lines), key=int) == values(COUNT)
    assert {line[0] for line in lines} <= {"Delivery:1", "Delivery:2"}
