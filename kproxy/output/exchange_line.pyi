"""One exchange as a line of the decoded log."""

from kproxy.output.bodies import Bodies
from kproxy.session import Exchange

def exchange_line(exchange: Exchange, bodies: Bodies | None = None) -> bytes:
    """One exchange as a line of the decoded log, with its newline; UTF-8."""

def has_errors(response: bytes | None) -> bool:
    """Whether a response's JSON has an error code that is not 0."""
