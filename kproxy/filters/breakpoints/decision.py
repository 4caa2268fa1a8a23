"""Stopped, Decision and Holder: the message that a person is asked about, the answer, and who holds it until then."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from kproxy.filters.contract import ConnectionFacts

Action = Literal["resume", "replace", "error", "drop", "close"]
Why = Literal[
    "",
    "time over",
    "client closed",
    "broker closed",
    "connection closed",
    "draining",
    "edits off",
    "cluster removed",
    "no page",
    "worker ended",
]
WHYS: tuple[Why, ...] = get_args(Why)
SENTENCES: dict[str, str] = {  # of each Why
    "": "it has ended",
    "time over": "its time was over, and it went on as it came",
    "client closed": "the client closed the connection",
    "broker closed": "the broker closed the connection",
    "connection closed": "its connection was closed",
    "draining": "kproxy is being stopped, and it went on as it came",
    "edits off": "the configuration does not allow breakpoints any more, and it went on as it came",
    "cluster removed": "its cluster is not in the configuration any more, and it went on as it came",
    "no page": "no page was open, and it went on as it came",
    "worker ended": "the process that held it has ended, and its connection with it",
}
DONE: dict[str, str] = {  # of each Action
    "resume": "let it go on as it came",
    "replace": "changed it",
    "error": "answered it with an error",
    "drop": "dropped it",
    "close": "closed its connection",
}
MOST_HOLD_S = 300.0  # that a message is stopped, however often its time is extended


@dataclass(frozen=True, slots=True)
class Stopped:
    """A message that matches a breakpoint."""

    connection: ConnectionFacts
    client_id: str | None
    direction: Literal["request", "response"]
    api_key: int
    api_version: int
    correlation_id: int
    body: bytes  # the message without its header, as Kafka encodes it
    condition: str  # of the breakpoint
    expects_response: bool  # False: a Produce with acks=0
    can_fail: bool  # it can be answered with an error


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a stopped message."""

    action: Action
    by: str = ""  # the address of the browser; "" if no person decided
    body: bytes = b""  # for action "replace"
    error: int = 0  # error code, for action "error"
    why: Why = ""  # why the stop ended, if no person decided


def how_it_ended(action: str, by: str, why: str) -> str:
    """Return how a stop ended, as a clause. The arguments are those of its Decision."""
    if by:
        return f"{by} {DONE.get(action, 'decided')}"
    return SENTENCES.get(why, SENTENCES[""])


class Holder(Protocol):
    """Holds stopped messages of one virtual cluster."""

    def hold(self, stopped: Stopped) -> Awaitable[Decision] | str:
        """Hold a message; the decision comes within MOST_HOLD_S.

        If it cannot be held, return why, in a word or two for counts.
        """

    def release(self, connection: int) -> None:
        """Release the stopped messages of a connection that was closed."""

    def give_up(self, condition: str, direction: str, why: str) -> None:
        """Log and show on the page that a condition is not evaluated any more, and why, in sentences."""

    def note(self, stopped: Stopped, decision: Decision, changed: list[str], refused: str) -> None:
        """Log what a person decided about a message.

        *refused*: why the message goes on as it came all the same; "" if it does not.
        """
