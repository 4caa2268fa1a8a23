"""What sending a request over OTLP may lead to.

Which failures are retried is what the specification of OTLP says: of HTTP 429, 502, 503, 504; of gRPC the codes in
grpc_client.py; and whenever there was no connection or no answer.
"""

from dataclasses import dataclass
from typing import Literal

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.otlp import read_rejected

Signal = Literal["traces", "metrics"]
LARGEST_ANSWER = 65_536  # bytes: an answer has a number and a sentence
LONGEST_WAIT_S = 60.0  # that a collector may ask for


@dataclass(frozen=True, slots=True)
class Delivered:
    """The collector took it, but for so many items."""

    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """It is not taken, and will not be when it is sent again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """It may be taken later, at the earliest after so many seconds."""

    reason: str
    after: float = 0.0


Outcome = Delivered | Refused | Unavailable


def outcome_of_answer(answer: bytes) -> Outcome:
    """The outcome of a request that succeeded, by the body of the response: an Export…ServiceResponse."""
    try:
        return Delivered(read_rejected(answer))
    except DecodeError:
        return Refused("the answer is not that of a collector of OTLP")
