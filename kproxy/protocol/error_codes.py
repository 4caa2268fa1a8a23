"""Error codes: name and retriability come from the facts, meaning and advice from error_meanings.txt, in kproxy's words.

Not here: which fields of a message are error codes (any that is named errorCode or ends in ErrorCode).
"""

import functools
from dataclasses import dataclass
from importlib import resources

from kproxy.protocol.facts import facts


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One error code of the protocol (org.apache.kafka.common.protocol.Errors)."""

    code: int  # int16 on the wire
    name: str  # Kafka's: NOT_LEADER_OR_FOLLOWER
    retriable: bool  # whether Kafka's exception for it is a RetriableException
    meaning: str  # one sentence
    then: str  # what a client is expected to do next: one clause


@functools.cache
def error_codes() -> dict[int, ErrorCode]:
    """All known error codes by number, ascending."""
    meanings = _read_meanings()
    unknown = ("", "")
    return {
        fact.code: ErrorCode(fact.code, fact.name, fact.retriable, *meanings.get(fact.code, unknown))
        for fact in facts().errors
    }


@functools.lru_cache(maxsize=4096)  # the codes come from the wire: at most 65,536 of them
def error_code(code: int) -> ErrorCode:
    """The error code of that number; one that no known release defines is called UNKNOWN_<code>."""
    known = error_codes().get(code)
    if known is not None:
        return known
    return ErrorCode(
        code, f"UNKNOWN_{code}", False, "No release known to kproxy has this code.", "treat as UNKNOWN_SERVER_ERROR"
    )


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return error_code(code).name


def _read_meanings() -> dict[int, tuple[str, str]]:
    """code -> (meaning, then), from error_meanings.txt."""
    text = resources.files("kproxy.protocol").joinpath("error_meanings.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {int(code): (meaning, then) for code, _name, meaning, then in rows}
