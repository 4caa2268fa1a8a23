"""Rewriter: turns a recorded request into bytes for the new cluster, with its ids, sessions and version."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from kproxy.protocol import ApiKey
from kproxy.replay.learned import Learned
from kproxy.replay.recording import Recorded
from kproxy.replay.versions import Encoded, encode_at


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
        """Change a decoded request; return whether anything was changed."""
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
