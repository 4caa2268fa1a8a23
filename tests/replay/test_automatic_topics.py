"""Topics that brokers create by themselves, and those that are there already."""

from typing import Any

import pytest

from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types
from kproxy.replay.automatic_topics import AutomaticTopics
from kproxy.replay.effects import Effects, Verb


def created(api_key: int, body: Any, *there: str) -> list[str]:
    """What is said to be created."""
    found, effects = AutomaticTopics(), Effects()
    found.add(api_key, body)
    found.note(effects, there)
    assert {verb for verb, _ in effects.found} <= {Verb.CREATE}
    return [subject for _, subject in effects.found]


def metadata(**fields: Any) -> Any:
    types = struct_types("MetadataRequest")
    return types["MetadataRequest"](topics=[types["MetadataRequestTopic"](name="a")], **fields)


def test_by_metadata() -> None:
    assert created(ApiKey.METADATA, metadata()) == ["topic a, where auto.create.topics.enable is true, by Metadata"]
    assert created(ApiKey.METADATA, metadata(), "a") == []
    assert created(ApiKey.METADATA, metadata(allow_auto_topic_creation=False)) == []
    assert created(ApiKey.METADATA, struct_types("MetadataRequest")["MetadataRequest"](topics=None)) == []  # of all


@pytest.mark.parametrize(
    ("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state"), (2, "__share_group_state")]
)
def test_by_find_coordinator(key_type: int, topic: str) -> None:
    body = struct_types("FindCoordinatorRequest")["FindCoordinatorRequest"](key="g", key_type=key_type)
    assert created(ApiKey.FIND_COORDINATOR, body) == [f"topic {topic}, by FindCoordinator"]
    assert created(ApiKey.FIND_COORDINATOR, body, topic) == []


def test_by_a_streams_group() -> None:
    types = struct_types("StreamsGroupHeartbeatRequest")
    sub = types["Subtopology"](
        repartition_source_topics=[types["TopicInfo"](name="g-repartition")],
        state_changelog_topics=[types["TopicInfo"](name="g-changelog")],
        source_topics=["input"],  # which is the application's own
    )
    body = types["StreamsGroupHeartbeatRequest"](group_id="g", topology=types["Topology"](subtopologies=[sub]))
    by = ", internal of streams group g, by StreamsGroupHeartbeat"
    assert created(ApiKey.STREAMS_GROUP_HEARTBEAT, body) == [f"topic g-repartition{by}", f"topic g-changelog{by}"]
    without = types["StreamsGroupHeartbeatRequest"](group_id="g", topology=None)
    assert created(ApiKey.STREAMS_GROUP_HEARTBEAT, without) == []
