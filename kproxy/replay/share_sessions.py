"""Share sessions (KIP-932): their epochs at the new broker, and ShareFetch that is sent again until it gets records.

A broker that has just learned of a share group acquires nothing at first, so a client asks again; the recorded broker may have
been quicker. Each request of a session has the next epoch, so after a repeated request all epochs differ from the recorded ones.
"""

from dataclasses import dataclass
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.replay.recording import Recorded

INITIAL, FINAL = 0, -1
LAST = 0x7FFFFFFF  # after it comes 1 (ShareRequestMetadata.nextEpoch)


@dataclass(slots=True)
class ShareSessions:
    """The share session of one recorded connection: a member has one with each broker."""

    epoch: int = 1  # of the next request

    def translate(self, body: Any) -> bool:
        """Put the new broker's epoch into a ShareFetch or ShareAcknowledge; return whether that changed it."""
        recorded = body.share_session_epoch
        if recorded in (INITIAL, FINAL):
            self.epoch = 1
            return False
        body.share_session_epoch = self.epoch
        self.epoch = 1 if self.epoch >= LAST else self.epoch + 1
        return bool(body.share_session_epoch != recorded)

    def ask_again(self, body: Any) -> None:
        """Turn a ShareFetch that was answered into the next one: what it named is in the session now, and acknowledged."""
        body.topics, body.forgotten_topics_data = [], []
        body.share_session_epoch = LAST  # any of a session that goes on
        self.translate(body)


def acquires_later(recorded: Recorded, sent: Any, answer: Any) -> bool:
    """Return whether a ShareFetch got no records and the recorded one got some."""
    if recorded.api_key != ApiKey.SHARE_FETCH or sent.share_session_epoch == FINAL:
        return False
    old = recorded.answer()
    return old is not None and bool(_acquired(old)) and not answer.error_code and not _acquired(answer, errors=True)


def _acquired(answer: Any, *, errors: bool = False) -> int:
    """Count ranges of acquired records; with *errors*, partitions that were refused count as well."""
    partitions = [one for topic in answer.responses for one in topic.partitions]
    return sum(len(one.acquired_records) + (errors and bool(one.error_code)) for one in partitions)
