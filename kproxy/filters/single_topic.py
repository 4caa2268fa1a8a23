"""The topic of a Produce request or Fetch response that has only one, by the first bytes of the frame.

These frames are large, and most have one topic. So a filter for some topics can let the others pass before the frame is held
(``Filter.wants_topic``). The topics of a frame that is held are found by kproxy.protocol.found.
"""

from base64 import urlsafe_b64decode
from typing import Any, NamedTuple

import msgspec

from kproxy.errors import DecodeError
from kproxy.filters.contract import Direction
from kproxy.protocol import (
    ApiKey,
    read_request_header,
    read_response_header,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.protocol.constants import SIZE_FIELD

AFTER_CORRELATION_ID = {Direction.REQUEST: 12, Direction.RESPONSE: 8}  # bytes from the beginning of a frame
MOST_RECENT = 8
BEGINNING = 1_024  # bytes of a frame that are read: a client id and a name of usual length
# The names of fields as Kafka's JSON has them: the array of topics, a topic's name
FIELDS = {
    (Direction.REQUEST, ApiKey.PRODUCE): ("topicData", "name"),
    (Direction.RESPONSE, ApiKey.FETCH): ("responses", "topic"),
}


class SingleTopic(NamedTuple):
    """The only topic of a frame: its name, or its id if the version has no name."""

    name: str | None
    topic_id: str


class RecentTopics:
    """Finds the only topic of a frame by ``single_topic``, or by the frames before: those of a connection begin alike."""

    def __init__(self) -> None:
        self._recent: dict[tuple[Direction, int, int], list[tuple[bytes, SingleTopic]]] = {}

    def find(self, direction: Direction, api_key: int, api_version: int, frame: bytes) -> SingleTopic | None:
        """Return what ``single_topic`` returns."""
        recent = self._recent.setdefault((direction, api_key, api_version), [])
        start = AFTER_CORRELATION_ID[direction]
        for bytes_up_to_topic, topic in recent:
            if frame.startswith(bytes_up_to_topic, start):
                return topic
        found = single_topic(direction, api_key, api_version, frame)
        if found is not None:
            raw = found.name.encode(errors="replace") if found.name else urlsafe_b64decode(f"{found.topic_id}==")
            at = frame.rfind(raw, start, BEGINNING)  # -1: the name is no UTF-8
            end = at + len(raw)
            # all that says so is before the end
            if at >= 0 and single_topic(direction, api_key, api_version, frame[:end]) == found:
                recent.insert(0, (frame[start:end], found))
                del recent[MOST_RECENT:]
        return found


def single_topic(direction: Direction, api_key: int, api_version: int, frame: bytes) -> SingleTopic | None:
    """Return the only topic of a frame, from its first bytes (8 at least).

    Returns None if the frame has no topic or several, or if these bytes end before its topic does.
    """
    names = FIELDS.get((direction, ApiKey(api_key))) if api_key in (ApiKey.PRODUCE, ApiKey.FETCH) else None
    message = request_message(api_key) if direction == Direction.REQUEST else response_message(api_key)
    if names is None or message is None or len(message.programs(api_version)) > 1:
        return None  # of two layouts, the receiver may read another
    of_topics, of_name = names
    start = frame[:BEGINNING]
    try:
        if direction == Direction.REQUEST:
            header = read_request_header(start, SIZE_FIELD).size
        else:
            header = read_response_header(start, response_header_version(api_key, api_version), SIZE_FIELD).size
        beginning = message.beginning(api_version, start, SIZE_FIELD + header)
        topics: list[dict[str, Any]] = msgspec.json.decode(beginning.json).get(of_topics) or []
    except (DecodeError, msgspec.DecodeError):
        return None
    if beginning.error is not None or len(topics) != 1 or beginning.counts.get(of_topics, 1) != 1:
        return None
    name, topic_id = topics[0].get(of_name), topics[0].get("topicId", "")
    return SingleTopic(name, topic_id) if name or topic_id else None
