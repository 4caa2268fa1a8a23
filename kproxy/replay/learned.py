"""Learned: what one replay knows of both clusters. Rewriter turns requests into the new cluster's with it; Answers adds to it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, Direction, known_message
from kproxy.replay.comparing import HEARTBEATS, Assigned, Comparison, Fetched, compare
from kproxy.replay.groups import Generations
from kproxy.replay.identities import Identities, Place, learn_ids
from kproxy.replay.plan import Plan
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.result import Outcome, Result
from kproxy.replay.sessions import FetchSessions, ShareSessions
from kproxy.replay.versions import FIRST_OF_SEVERAL, OF_ANSWERS, Encoded, encode_at, name_topics, several

Pair = tuple[Any, Any]  # recorded, now


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


class Ready(NamedTuple):
    """A request for the new cluster."""

    body: Any  # decoded, its ids replaced
    encoded: Encoded


@dataclass
class Rewriter:
    """Rewrites the requests of one replay.

    *notes*: changes that people would not expect, in words, with how often they were made.
    """

    learned: Learned
    notes: Counter[str]

    def rewrite(self, recorded: Recorded) -> Ready:
        """Replace what the new cluster assigns itself, and encode the request again if anything changed.

        Raises Unsendable, DecodeError, EncodeError.
        """
        frame = recorded.request
        assert frame.message is not None
        body = recorded.body()
        version = self.learned.plan.cluster.version(recorded.api_key, recorded.api_version)
        changed = self._replace(recorded, frame.message.name, body)
        if version != recorded.api_version:
            return Ready(body, encode_at(frame.message, version, body, self.learned.names(), self.learned.ids()))
        if not changed:
            return Ready(body, Encoded(version, frame.data[frame.body_start :]))
        trailing = frame.data[len(frame.data) - frame.trailing :] if frame.trailing else b""
        return Ready(body, Encoded(version, frame.message.encode(version, body) + trailing))

    def _replace(self, recorded: Recorded, message: str, body: Any) -> bool:
        learned = self.learned
        changed = recorded.api_key == ApiKey.SYNC_GROUP and learned.generations.assign(body)
        changed |= learned.identities.translate(message, body)
        if recorded.api_key == ApiKey.FETCH:
            changed |= learned.fetch_sessions(recorded).translate(body, learned.full_session(recorded))
        if recorded.api_key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
            changed |= learned.share_sessions(recorded).translate(body)
        if recorded.api_key == ApiKey.CREATE_TOPICS:
            changed |= self._lower_replication(recorded, body)
        return changed

    def _lower_replication(self, recorded: Recorded, body: Any) -> bool:
        """Ask for as many replicas as the new cluster has brokers, if a request wants more.

        Topics that the recorded cluster refused stay as they are: it may have lacked brokers for them."""
        most = len(self.learned.plan.cluster.nodes)
        answer: Any = None if recorded.response is None else recorded.response.decode()
        refused = {topic.name for topic in answer.topics if topic.error_code} if answer is not None else set()
        lowered = [topic for topic in body.topics if topic.replication_factor > most > 0 and topic.name not in refused]
        for topic in lowered:
            self.notes[f"topic {topic.name}: {topic.replication_factor} replicas, lowered to {most}"] += 1
            topic.replication_factor = most
        return bool(lowered)


def encoded_again(recorded: Recorded, ready: Ready) -> Ready:
    """Encode a request whose decoded body was changed after it was answered."""
    message = recorded.request.message
    assert message is not None
    return Ready(ready.body, Encoded(ready.encoded.version, message.encode(ready.encoded.version, ready.body)))


@dataclass
class Answers:
    """Learns ids from the answers of one replay, and compares them with the recorded ones."""

    learned: Learned
    result: Result

    def take(self, recorded: Recorded, ready: Ready, answer: Any) -> None:
        """Learn from a decoded answer, and note where it differs from the recorded one."""
        response, old = recorded.response, recorded.answer()
        if response is None or old is None:
            self.result.note(recorded, Outcome.NOT_RECORDED)
            return
        try:
            request = recorded.body()
        except DecodeError:
            self.result.note(recorded, Outcome.NOT_RECORDED)
            return
        versions = (response.body_version, ready.encoded.version)
        if versions[0] != versions[1]:
            versions = self._in_one_form(recorded, (request, ready.body), (old, answer), versions)
        comparison = self._compared(recorded, request, (old, answer), versions)
        if recorded.api_key in HEARTBEATS:
            other = self.learned.assigned.difference(recorded, answer)
            comparison.differences += [other] if other is not None else []
        self._note(recorded, comparison)

    def finish(self) -> None:
        """Compare the records that were read, which are compared over all answers together."""
        for connection, difference in self.learned.fetched.differences():
            self.result.note_fetched(connection, difference)
        if self.learned.fetched.is_full:
            self.result.notes["more records were read than are compared"] += 1

    def _compared(self, recorded: Recorded, request: Any, answers: Pair, versions: tuple[int, int]) -> Comparison:
        learned = self.learned
        message = known_message(Direction.RESPONSE, recorded.api_key)
        place = learned.identities.place(request, Place())
        learn_ids(learned.identities, message.name, *answers, place)
        if recorded.api_key == ApiKey.JOIN_GROUP:
            learned.generations.note_leader(recorded, *answers)
        if recorded.api_key == ApiKey.FETCH:
            learned.fetch_sessions(recorded).learn(request, *answers)
            return learned.fetched.add(recorded.connection, *answers)
        return compare(message.name, *answers, versions, learned.identities, place)

    def _in_one_form(
        self, recorded: Recorded, requests: Pair, answers: Pair, versions: tuple[int, int]
    ) -> tuple[int, int]:
        """Make answers of two versions comparable; return the versions to compare them as."""
        for names, answer in zip((self.learned.plan.recording.names, self.learned.names()), answers, strict=True):
            name_topics(answer, names)
        if recorded.api_key not in OF_ANSWERS:
            return versions
        for request, answer, version in zip(requests, answers, versions, strict=True):
            several(recorded.api_key, request, answer, version)
        newest = max(*versions, FIRST_OF_SEVERAL[recorded.api_key])
        return newest, newest

    def _note(self, recorded: Recorded, comparison: Comparison) -> None:
        self.result.left_out.update(comparison.left_out)
        self.result.note(recorded, Outcome.DIFFERENT if comparison.differences else Outcome.SAME)
        for difference in comparison.differences:
            self.result.note_difference(recorded, difference)
