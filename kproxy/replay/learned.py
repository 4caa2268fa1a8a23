"""Learned: what one replay knows about both clusters so far. Requests are rewritten with it, and answers add to it."""

from dataclasses import dataclass, field
from typing import Any

from kproxy.replay.assigned import Assigned
from kproxy.replay.fetch_sessions import FetchSessions
from kproxy.replay.fetched import Fetched
from kproxy.replay.generations import Generations
from kproxy.replay.identities import Identities
from kproxy.replay.plan import Plan
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.share_sessions import ShareSessions


@dataclass
class Learned:
    """What is known so far about both clusters."""

    plan: Plan
    _fetch_sessions: dict[ConnectionId, FetchSessions] = field(default_factory=dict)
    _share_sessions: dict[ConnectionId, ShareSessions] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._recorded_names = self.plan.recording.names
        self.identities = Identities(self._recorded_names, nodes=self.plan.nodes)
        self.generations = Generations(self.plan.sent)
        self.assigned = Assigned(self._recorded_name, self.name)
        self.fetched = Fetched(self._recorded_name, self.name, self.identities.offset)

    def fetch_sessions(self, recorded: Recorded) -> FetchSessions:
        """Return the fetch sessions of the request's connection."""
        return self._fetch_sessions.setdefault(recorded.connection, FetchSessions())

    def share_sessions(self, recorded: Recorded) -> ShareSessions:
        """Return the epochs of the share session of the request's connection."""
        return self._share_sessions.setdefault(recorded.connection, ShareSessions())

    def full_session(self, recorded: Recorded) -> Any:
        """Return the whole session of a Fetch, with the new cluster's offsets and ids, if requests before it are not sent."""
        if recorded.session is None:
            return None
        for one in recorded.session.partitions:
            name = self._recorded_name(one.topic)
            one.fetch_offset = self.identities.offset(one.fetch_offset, name, one.partition)
            one.topic = self.identities.uuids.get(one.topic, one.topic)
        return recorded.session

    def name(self, topic_id: str) -> str:
        """Return the topic with an id of the new cluster; the id if its topic is not known."""
        return self.names().get(topic_id, topic_id)

    def names(self) -> dict[str, str]:
        """Topic id of the new cluster -> topic."""
        names = self._recorded_names
        return {new: names[old] for old, new in self.identities.uuids.items() if old in names}

    def ids(self) -> dict[str, str]:
        """Topic -> topic id of the new cluster."""
        return {name: topic_id for topic_id, name in self.names().items()}

    def _recorded_name(self, topic_id: str) -> str:
        return self._recorded_names.get(topic_id, topic_id)
