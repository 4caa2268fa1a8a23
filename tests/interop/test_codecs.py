"""Every client produces with every codec and reads back what it wrote; the broker's disk says what arrived."""

import pytest

from tests.interop.clients import CLIENTS, Client, values
from tests.support.kafka.fixtures import Entrance
from tests.support.kafka.segments import CODECS, batches, record_count
from tests.support.kafka.wire import end_offsets

COUNT = 1_000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_what_was_acknowledged_is_stored_and_read(
    entrance: Entrance, client: Client, codec: str, topic_name: str
) -> None:
    topic = entrance.cluster.topic(topic_name)
    acknowledged = client.produce(entrance, topic, COUNT, compression_type=codec)
    stored = batches(entrance.cluster.brokers[1].folder / "data", topic)
    assert acknowledged == COUNT == record_count(stored)
    assert codec in (used := {batch.codec for batch in stored})
    assert used <= {codec, "none"}  # a client does not compress what would grow by it
    assert sum(end_offsets(entrance.cluster.open, topic).values()) == COUNT
    assert client.consume(entrance, topic, COUNT) == values(COUNT)
