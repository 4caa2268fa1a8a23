"""What becomes of held frames: the chain is asked, and what it says is done, at once or when it has made up its mind."""

import asyncio
from collections.abc import Awaitable

from kproxy.errors import DecodeError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Close, ConnectionFacts, Direction, Outcome, RequestFacts, Send, Want
from kproxy.filters.narrow_api_versions import NarrowApiVersions
from kproxy.protocol import ApiKey, read_request_header
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.owner import PairedRequest
from kproxy.proxy.logs import log
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.session.sasl import SaslPhase

BEHIND_CORRELATION_ID = 8
MOST_UNCHANGED = 64


class Verdicts:
    """Between links and a chain of filters. A link's owner is one of these, and more: see VirtualCluster."""

    def __init__(self, chain: Chain) -> None:
        self.judge_by(chain)
        self._thinking: set[asyncio.Task[None]] = set()

    def judge_by(self, chain: Chain) -> None:
        """Ask this chain from now on."""
        self.chain = chain
        self._unchanged: set[bytes] = set()  # ApiVersions responses, without size and correlation id

    def facts_of(self, link: Link) -> ConnectionFacts:
        """What filters may know of the connection."""
        raise TypeError("a virtual cluster knows")

    # Requests

    def on_request(self, link: Link, frame: bytes) -> bool:
        """Judge a whole request frame; False: the verdict comes later, and resumes the link."""
        return self._done(link, Direction.REQUEST, self.chain.on_request(self.facts_of(link), frame), frame)

    def on_response(self, link: Link, current: PairedRequest, frame: bytes) -> bool:
        """Judge a whole response frame; False: the verdict comes later, and resumes the link."""
        if current[0] == ApiKey.API_VERSIONS and frame[BEHIND_CORRELATION_ID:] in self._unchanged:
            link.forward_response(frame)
            return True
        outcome = self.chain.on_response(self.facts_of(link), _request_of(current), frame)
        if current[0] == ApiKey.API_VERSIONS and isinstance(outcome, Send) and outcome.frame == frame:
            self._note_unchanged(current[1], frame)
        return self._done(link, Direction.RESPONSE, outcome, frame)

    def _note_unchanged(self, api_version: int, frame: bytes) -> None:
        """Every connection begins with the same ApiVersions: what kproxy's own filter left as it was need not be read again."""
        filters = self.chain.filters_for(Direction.RESPONSE, ApiKey.API_VERSIONS, api_version)
        if len(filters) == 1 and isinstance(filters[0], NarrowApiVersions) and len(self._unchanged) < MOST_UNCHANGED:
            self._unchanged.add(frame[BEHIND_CORRELATION_ID:])

    def on_tail(self, link: Link, current: PairedRequest, tail: bytes) -> bytes:
        """The end of a response that was not held, as many bytes as it had."""
        changed = self.chain.on_tail(self.facts_of(link), _request_of(current), tail)
        if changed != tail:
            link.worker.counters.add(Total.REWRITTEN_FRAMES)
        return changed

    def on_too_large_to_hold(self, link: Link, side: int, api_key: int, api_version: int, size: int) -> Want:
        """Return what to do with a frame above limits.held_frame_size that a filter wants whole: PASS, TAIL or REFUSE."""
        direction = Direction(side)
        return self.chain.when_too_large_to_hold(direction, api_key, api_version)

    def _done(self, link: Link, side: int, outcome: Outcome | Awaitable[Outcome], frame: bytes) -> bool:
        if isinstance(outcome, Awaitable):
            task = asyncio.ensure_future(self._wait(link, side, outcome, frame))
            self._thinking.add(task)
            task.add_done_callback(self._thinking.discard)
            return False
        self._act(link, side, outcome, frame)
        return True

    async def _wait(self, link: Link, side: int, outcome: Awaitable[Outcome], frame: bytes) -> None:
        try:
            self._act(link, side, await outcome, frame)
            link.resume(side)
        except Exception as error:
            log("error", "a verdict could not be carried out", connection=link.number, reason=repr(error))
            link.close(CloseCause.ERROR)

    def _act(self, link: Link, side: int, outcome: Outcome, frame: bytes) -> None:
        match outcome:
            case Close(reason):
                log("info", "closed by a filter", connection=link.number, reason=reason)
                link.close(CloseCause.FILTER)
            case Answer(answer):
                if answer:  # empty: nothing is waited for
                    link.answer(answer)
            case _:
                if outcome.frame != frame:
                    link.worker.counters.add(Total.REWRITTEN_FRAMES)
                if side == Direction.REQUEST:
                    link.forward_request(outcome.frame, outcome.request)
                else:
                    link.forward_response(outcome.frame)

    # Raw SASL tokens

    def on_handshake(self, link: Link, frame: bytes) -> bool:
        """A SaslHandshake request; whether raw tokens follow."""
        phase: SaslPhase = link.sasl or SaslPhase()
        link.sasl = phase
        try:
            header = read_request_header(frame, 4)
        except DecodeError:
            return False
        phase.on_handshake(header.api_version, header.client_id)
        return phase.in_tokens

    def is_token(self, link: Link, frame: bytes) -> bool:
        """Whether a client's frame is a raw token; of a connection's first frame too, which may be GSSAPI's."""
        data = frame[4:]
        if link.sasl is None:
            link.sasl = SaslPhase()
            return bool(link.sasl.begins_with_token(data))
        if not link.sasl.ends_with(data):
            return True
        link.sasl.leave()
        return False


def _request_of(current: PairedRequest) -> RequestFacts:
    api_key, api_version, correlation_id, held = current
    return held or RequestFacts(api_key, api_version, correlation_id)
