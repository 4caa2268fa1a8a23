"""Fetch: no sessions, and no more bytes than can be held where responses carry names.

A broker identifies a fetch session (KIP-227) by its id alone, an int32: any connection that sends the id continues the session.
Such a request names no topics, so a client could read those of another tenant. Therefore no client gets a session: a request
that asks for one is changed into one that does not (epoch -1), the broker answers with session 0, and the client lists its
partitions in every request, as librdkafka always does. A request with another session id gets FETCH_SESSION_ID_NOT_FOUND.

Up to version 12 responses carry names and are held completely: ``max_bytes`` is limited, so that they fit (fetch_sizes.py).
"""

from typing import Any

from kproxy.filters.fetch_sizes import limit
from kproxy.filters.topic_prefix.refusal import Refusal
from kproxy.protocol.error_codes import ErrorCode

NO_SESSION = 0
FULL_WITHOUT_SESSION = -1  # FetchMetadata.FINAL_EPOCH
SESSIONS_SINCE = 7
IDS_SINCE = 13


def request(message: Any, version: int, most_bytes: int) -> bool:
    """Make a Fetch request one without a session; return whether that changed it. Raises Refusal for one inside a session."""
    changed = False
    if version >= SESSIONS_SINCE:
        if message.session_id != NO_SESSION:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "there are no fetch sessions here")
        if message.session_epoch != FULL_WITHOUT_SESSION:
            message.session_epoch = FULL_WITHOUT_SESSION
            changed = True
    if version < IDS_SINCE:
        changed |= limit(message, version, most_bytes)
    return changed
