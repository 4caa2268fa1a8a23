"""Topics that brokers create by themselves when a request needs them and the cluster lacks them.

Metadata              creates a topic that it names, with allowAutoTopicCreation or before that version, if the brokers'
                      auto.create.topics.enable is true, which is the default (KafkaApis.handleTopicMetadataRequest)
FindCoordinator       creates the internal topic in which coordinators of that kind keep their state (KafkaApis.getCoordinator)
StreamsGroupHeartbeat  creates the internal topics of the topology that it carries (KIP-1071)
"""

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.replay.effects import Effects, Verb

MOST_NAMES = 100_000
# Key type of FindCoordinator -> topic (FindCoordinatorRequest.CoordinatorType)
OF_COORDINATORS = {0: "__consumer_offsets", 1: "__transaction_state", 2: "__share_group_state"}
BY_METADATA = ", where auto.create.topics.enable is true, by Metadata"
BY_FIND_COORDINATOR = ", by FindCoordinator"


@dataclass
class AutomaticTopics:
    """The topics that a number of requests would have brokers create."""

    _asked: Counter[tuple[str, str]] = field(default_factory=Counter)  # topic, by what -> requests

    def add(self, api_key: int, body: Any) -> None:
        """Add the topics that a decoded request would have created."""
        for one in _asked(api_key, body):
            if one in self._asked or len(self._asked) < MOST_NAMES:
                self._asked[one] += 1

    def note(self, effects: Effects, there: Container[str]) -> None:
        """Note as created those of the topics that the cluster does not have."""
        for (topic, by), count in self._asked.items():
            if topic not in there:
                effects.note(Verb.CREATE, f"topic {topic}{by}", requests=count)


def _asked(api_key: int, body: Any) -> Iterator[tuple[str, str]]:
    if api_key == ApiKey.METADATA and body.topics and body.allow_auto_topic_creation:
        yield from ((topic.name, BY_METADATA) for topic in body.topics if topic.name)
    elif api_key == ApiKey.FIND_COORDINATOR and body.key_type in OF_COORDINATORS:
        yield OF_COORDINATORS[body.key_type], BY_FIND_COORDINATOR
    elif api_key == ApiKey.STREAMS_GROUP_HEARTBEAT and body.topology is not None:
        by = f", internal of streams group {body.group_id}, by StreamsGroupHeartbeat"
        for one in body.topology.subtopologies:
            yield from ((topic.name, by) for topic in (*one.repartition_source_topics, *one.state_changelog_topics))
