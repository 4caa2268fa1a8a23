"""Sentences about the end of a connection: which side sent FIN or RST first, and what that cut short."""

from kproxy.protocol import Direction

CAPTURE_ENDED = "the capture ended"
_SIDES = {Direction.REQUEST: "the client", Direction.RESPONSE: "the broker"}


def who_closed(by: Direction, *, reset: bool) -> str:
    """Return "the client closed the connection" or the like; the side that sends direction *by* sent RST (*reset*) or FIN."""
    return f"{_SIDES[by]} {'reset' if reset else 'closed'} the connection"


def before_response(ended: str) -> str:
    """Return why a request has no response; *ended* is from who_closed, or CAPTURE_ENDED."""
    return f"{ended} before the response"


def inside(ended: str, side: str) -> str:
    """Return why a frame lacks its end; *side* is "request" or "response"."""
    return f"{ended} inside the {side}"
