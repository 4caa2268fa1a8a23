"""Run held frames through the filter chain and apply each verdict, now or when it is ready."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from kproxy.errors import DecodeError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import (
    Answer,
    Close,
    ConnectionFacts,
    Cut,
    Direction,
    Outcome,
    RequestFacts,
    Send,
    Silence,
    Want,
)
from kproxy.filters.narrow_api_versions import NarrowApiVersions
from kproxy.protocol import ApiKey, read_request_header
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.forwarding.owner import PairedRequest
from kproxy.proxy.logs import log
from kproxy.proxy.tap.counted import CloseCause, Total

if TYPE_CHECKING:
    from kproxy.proxy.client_logins import ClientLogins
    from kproxy.session.sasl import SaslPhase

AFTER_CORRELATION_ID = 8
MOST_UNCHANGED = 64


def _new_phase() -> "SaslPhase":
    from kproxy.session.sasl import SaslPhase  # noqa: PLC0415 - half a MB, for logins that pass through kproxy only

    return SaslPhase()


class FilterDispatch:
    """Runs held frames through a chain. The public methods for frames are those of LinkOwner (forwarding/owner.py).

    Args:
        chain: the filters.
        facts_of: returns what filters may know of a link's connection.
    """

    def __init__(self, chain: Chain, facts_of: Callable[[Link], ConnectionFacts]) -> None:
        self._facts_of = facts_of
        self._waiting: set[asyncio.Future[Any]] = set()  # verdicts that are not ready
        self.clients_log_in = True  # False: no raw SASL tokens reach the broker, as kproxy has logged in there
        self._muted: dict[int, float] = {}  # number of a link -> when it is read again, by the loop's clock
        self.logins: ClientLogins | None = None  # of clients, where kproxy authenticates them
        self.use_chain(chain)

    def use_chain(self, chain: Chain) -> None:
        """Use another chain from now on; awaited verdicts still come from the previous chain."""
        self.chain = chain
        self._unchanged: set[bytes] = set()  # ApiVersions responses, without size and correlation id

    def on_handshake(self, link: Link, frame: bytes) -> bool:
        """Note a SaslHandshake request; return whether raw SASL tokens follow it (session/sasl.py has the rules)."""
        if not self.clients_log_in:
            return False
        phase: SaslPhase = link.sasl or _new_phase()
        link.sasl = phase
        try:
            header = read_request_header(frame, 4)
        except DecodeError:
            return False
        phase.on_handshake(header.api_version, header.client_id)
        return phase.in_tokens

    def is_token(self, link: Link, frame: bytes) -> bool:
        """Return whether a frame is a raw SASL token. The first frame of a connection may be one too, of GSSAPI."""
        if not self.clients_log_in:
            return False
        data = frame[4:]
        was_in_tokens = link.sasl is not None and link.sasl.in_tokens
        if link.sasl is None:
            link.sasl = _new_phase()
            is_token = bool(link.sasl.begins_with_token(data))
        else:
            is_token = not link.sasl.ends_with(data)
            if not is_token:
                link.sasl.leave()
        if is_token or was_in_tokens:
            self.chain.on_token(self._facts_of(link), data if is_token else None)
        return is_token

    def on_request(self, link: Link, frame: bytes) -> bool:
        if link.silent and link.requests is not None and link.requests.discarding:
            return True
        if self.logins is not None and self.logins.is_login(link, frame):
            again = self.logins.authenticate_again(link, self._facts_of(link), frame)
            return self._apply_when_ready(link, Direction.REQUEST, again, frame)
        edits: list[str] = []
        outcome = self.chain.on_request(self._facts_of(link), frame, edits)
        return self._apply_when_ready(link, Direction.REQUEST, outcome, frame, edits)

    def on_response(self, link: Link, current: PairedRequest, frame: bytes) -> bool:
        if link.silent and link.responses is not None and link.responses.discarding:
            return True
        if current[0] == ApiKey.API_VERSIONS and frame[AFTER_CORRELATION_ID:] in self._unchanged:
            link.forward_response(frame)
            return True
        edits: list[str] = []
        outcome = self.chain.on_response(self._facts_of(link), _request_of(current), frame, edits)
        if current[0] == ApiKey.API_VERSIONS and isinstance(outcome, Send) and outcome.frame == frame:
            filters = self.chain.filters_for(Direction.RESPONSE, ApiKey.API_VERSIONS, current[1])
            # every connection begins with the same ApiVersions
            if (
                len(filters) == 1
                and isinstance(filters[0], NarrowApiVersions)
                and len(self._unchanged) < MOST_UNCHANGED
            ):
                self._unchanged.add(frame[AFTER_CORRELATION_ID:])
        return self._apply_when_ready(link, Direction.RESPONSE, outcome, frame, edits)

    def on_head(self, link: Link, current: PairedRequest, head: bytes) -> bytes | None:
        changed = self.chain.on_head(self._facts_of(link), _request_of(current), head)
        if changed != head:
            link.worker.counters.add(Total.REWRITTEN_FRAMES)
        return changed

    def on_tail(self, link: Link, current: PairedRequest, tail: bytes) -> bytes:
        changed = self.chain.on_tail(self._facts_of(link), _request_of(current), tail)
        if changed != tail:
            link.worker.counters.add(Total.REWRITTEN_FRAMES)
        return changed

    def on_beginning(self, link: Link, side: int, api_key: int, api_version: int, beginning: bytes) -> Want:
        return self.chain.wanted_of(Direction(side), api_key, api_version, beginning)

    def on_too_large_to_hold(self, link: Link, side: int, api_key: int, api_version: int, size: int) -> Want:
        frame = Direction(side), api_key, api_version
        want = self.chain.when_too_large_to_hold(*frame, size)
        if want is not Want.REFUSE:
            self.chain.note_too_large(self._facts_of(link), *frame, size)
            self._mute_if_requested(link)
        return want

    def on_large_refused(self, link: Link, current: PairedRequest) -> None:
        """Send the client an error in place of a response that is too large to be held, where its API has one."""
        if link.silent and link.responses is not None and link.responses.discarding:
            return
        edits: list[str] = []
        outcome = self.chain.refuse_large(self._facts_of(link), _request_of(current), edits)
        if isinstance(outcome, Send):
            self._note_edits(link, Direction.RESPONSE, edits)
            link.forward_response(outcome.frame)
        elif isinstance(outcome, Awaitable):  # let filters finish; for the client it is too late
            self._keep(asyncio.ensure_future(outcome))

    def _apply_when_ready(
        self,
        link: Link,
        side: int,
        outcome: Outcome | Awaitable[Outcome],
        frame: bytes,
        edits: Sequence[str] = (),
    ) -> bool:
        """Apply an outcome now and return True, or start to wait for it and return False."""
        if isinstance(outcome, Awaitable):
            self._keep(asyncio.ensure_future(self._wait(link, side, outcome, frame, edits)))
            return False
        self._apply(link, side, outcome, frame, edits)
        return True

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _wait(
        self, link: Link, side: int, outcome: Awaitable[Outcome], frame: bytes, edits: Sequence[str]
    ) -> None:
        try:
            self._apply(link, side, await outcome, frame, edits)
            link.resume(side)
        except Exception as error:
            log("error", "a verdict could not be applied", connection=link.number, reason=repr(error))
            link.close(CloseCause.ERROR)

    def _apply(self, link: Link, side: int, outcome: Outcome, frame: bytes, edits: Sequence[str]) -> None:
        self._note_edits(link, side, edits)
        match outcome:
            case Close(reason):
                log("info", "closed by a filter", connection=link.number, reason=reason)
                link.close(CloseCause.FILTER)
            case Answer(answer):
                if answer:  # empty: the client expects no response
                    link.answer(answer)
            case Cut(beginning):
                log("info", "closed by a filter", connection=link.number, reason="a response is cut")
                link.forward_response(beginning)
                link.close(CloseCause.FILTER)
            case Silence():
                log("info", "silenced by a filter", connection=link.number, direction=Direction(side).text)
                link.go_silent(side)
            case _:
                if outcome.frame != frame:
                    link.worker.counters.add(Total.REWRITTEN_FRAMES)
                if side == Direction.REQUEST:
                    link.forward_request(outcome.frame, outcome.request)
                else:
                    link.forward_response(outcome.frame)
        self._mute_if_requested(link)

    def _note_edits(self, link: Link, side: int, edits: Sequence[str]) -> None:
        if edits:
            link.note_edits(side, "\n".join(edits).encode(errors="replace"))

    def _mute_if_requested(self, link: Link) -> None:
        """Stop reading a client's requests for as long as a filter requires (ConnectionFacts.mute_s)."""
        if link.closed:
            return
        known = self._facts_of(link)
        if not known.mute_s:
            return
        seconds, known.mute_s = known.mute_s, 0.0
        until = asyncio.get_running_loop().time() + seconds
        if until > self._muted.get(link.number, 0.0):
            self._muted[link.number] = until
            link.mute()

            def unmute() -> None:
                if self._muted.get(link.number) == until:  # else the client was muted for longer meanwhile
                    del self._muted[link.number]
                    link.unmute()

            asyncio.get_running_loop().call_later(seconds, unmute)


def _request_of(current: PairedRequest) -> RequestFacts:
    api_key, api_version, correlation_id, held = current
    return held or RequestFacts(api_key, api_version, correlation_id)
