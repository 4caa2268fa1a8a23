"""Repeating: which requests are sent again after an answer, as their clients would do, and what is changed in them.

A request is sent again if the new coordinator or leader is not ready and the recorded one was; if a member has to join as a new
one; and if a heartbeat or a share fetch has not yet returned what the recorded one did. Produce is sent again only if nothing was
appended, and meanwhile nothing else is sent, so that records keep their order.
"""

import asyncio
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.replay.assigned import HEARTBEATS, go_on
from kproxy.replay.comparing import NOT_READY, error_codes_of
from kproxy.replay.joining import join_anew, learns_of_rebalance_later
from kproxy.replay.learned import Learned
from kproxy.replay.recording import Recorded
from kproxy.replay.rewriting import Ready, encoded_again
from kproxy.replay.routing import Router
from kproxy.replay.share_sessions import acquires_later

RETRY_S = 0.1
REBALANCE_S = 1.0  # how long the new coordinator may take to tell a member's Heartbeats that the group rebalances
RETRIES_S = 10.0  # for one request whose recorded answer was ready


class Repeating:
    """Decides for one replay. *timeout*: seconds for each answer; no request is sent again for longer."""

    def __init__(self, learned: Learned, router: Router, timeout: float) -> None:
        self.produced: set[int] = set()  # numbers of the Produce requests that are being sent again
        self._learned = learned
        self._router = router
        self._most = min(RETRIES_S, timeout)
        # Error codes that remained after a request was sent again for the full time
        self._in_vain: set[int] = set()

    async def again(self, recorded: Recorded, ready: Ready, answer: Any, seconds: float) -> Ready | None:
        """Return the request to send again, when it is time to; None: the answer is the one to compare.

        *seconds*: since the request was first sent. Raises UpstreamError.
        """
        if recorded.api_key == ApiKey.JOIN_GROUP and await self._joins_again(recorded, ready.body, answer):
            return encoded_again(recorded, ready)
        if self._is_late(recorded, answer, seconds):
            return None
        if learns_of_rebalance_later(recorded, answer) and seconds < REBALANCE_S:
            await asyncio.sleep(RETRY_S)
            return ready
        if self._goes_on(recorded, ready.body, answer):
            await asyncio.sleep(RETRY_S)
            return encoded_again(recorded, ready)
        if self._is_to_be_ready(recorded, answer):
            return await self._when_ready(recorded, ready)
        return None

    def note_end(self, recorded: Recorded) -> None:
        """Note that a request is finished in any way."""
        self.produced.discard(recorded.number)

    def _is_late(self, recorded: Recorded, answer: Any, seconds: float) -> bool:
        """Return whether a request was sent again for long enough.

        If trying again for the full time did not help once, requests with the same errors are tried for a shorter time.
        """
        errors = NOT_READY.intersection(error_codes_of(answer))
        patience = RETRY_S * 5 if errors and errors <= self._in_vain else RETRIES_S
        if seconds < min(patience, self._most):
            return False
        if self._is_to_be_ready(recorded, answer):
            self._in_vain |= errors
        return True

    def _goes_on(self, recorded: Recorded, body: Any, answer: Any) -> bool:
        """Change a request that got less than the recorded one into the next one of its client; return whether it was changed."""
        if recorded.api_key in HEARTBEATS and not self._learned.assigned.is_as_recorded(recorded, answer):
            go_on(body, answer)
            return True
        if acquires_later(recorded, body, answer):
            self._learned.share_sessions(recorded).ask_again(body)
            return True
        return False

    async def _joins_again(self, recorded: Recorded, body: Any, answer: Any) -> bool:
        """Change a JoinGroup that was answered, if its member has to send it again; return whether it has."""
        if join_anew(recorded, body, answer, self._learned.identities):
            return True
        if await self._learned.generations.is_settled(recorded, answer, self._most):
            return False
        body.member_id = answer.member_id
        return True

    def _is_to_be_ready(self, recorded: Recorded, answer: Any) -> bool:
        """Return whether the new cluster was not ready for a request that the recorded one was ready for."""
        not_ready = NOT_READY.intersection(error_codes_of(answer))
        if not not_ready:
            return False
        if recorded.api_key == ApiKey.PRODUCE and not not_ready.issuperset(error_codes_of(answer)):
            return False  # a part of it was appended
        old = recorded.answer()
        return old is not None and not not_ready.intersection(error_codes_of(old))

    async def _when_ready(self, recorded: Recorded, ready: Ready) -> Ready | None:
        """Wait, and look up leaders and coordinators again; None: it cannot be sent again, as its fetch session was ended."""
        if recorded.api_key == ApiKey.PRODUCE:
            self.produced.add(recorded.number)  # what follows must not be appended before it
        await asyncio.sleep(RETRY_S)
        await self._router.renew(recorded.api_key, ready.body)
        if recorded.api_key != ApiKey.FETCH or ready.body.session_epoch <= 0:
            return ready
        return encoded_again(recorded, ready) if self._learned.fetch_sessions(recorded).again(ready.body) else None
