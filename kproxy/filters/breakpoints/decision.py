"""What is asked of a person, and what is answered: Stopped, Decision, and the Holder between them."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol

from kproxy.filters.contract import ConnectionFacts

Action = Literal["resume", "replace", "error", "drop", "close"]
MOST_HOLD_S = 300.0  # that a message is stopped, however often its time is extended


@dataclass(frozen=True, slots=True)
class Stopped:
    """A message that a breakpoint has met."""

    connection: ConnectionFacts
    client_id: str | None
    direction: Literal["request", "response"]
    api_key: int
    api_version: int
    correlation_id: int
    body: bytes  # the message without its header, as Kafka encodes it
    condition: str  # of the breakpoint
    expects_response: bool  # False: a Produce with acks=0
    can_fail: bool  # whether it can be answered with an error


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of it."""

    action: Action
    by: str = ""  # the address of the browser; "" when the time to decide was over
    body: bytes = b""  # of replace
    error: int = 0  # code, of error


class Holder(Protocol):
    """Holds stopped messages of one virtual cluster."""

    def hold(self, stopped: Stopped) -> Awaitable[Decision] | str:
        """Hold a message; the decision comes within MOST_HOLD_S. Or why it cannot be held, in a word or two for counts."""

    def release(self, connection: int) -> None:
        """Forget what is stopped of a connection, which is closed."""

    def note(self, stopped: Stopped, decision: Decision, changed: list[str], refused: str) -> None:
        """Log what becomes of a message by a person's decision; *refused*: why it goes on as it came all the same."""
