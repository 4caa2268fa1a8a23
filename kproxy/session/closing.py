"""Who ended a connection, in words: the side that sent FIN or RST first, and what was in flight then."""

from kproxy.protocol import Direction

CAPTURE_ENDED = "the capture ended"
_SIDES = {Direction.REQUEST: "the client", Direction.RESPONSE: "the broker"}


def who_closed(by: Direction, *, reset: bool) -> str:
    """The words for the side whose direction is *by*, which sent RST (*reset*) or FIN."""
    return f"{_SIDES[by]} {'reset' if reset else 'closed'} the connection"


def before_response(ended: str) -> str:
    """Why a request has no response; *ended* as who_closed, or CAPTURE_ENDED."""
    return f"{ended} before the response"


def inside(ended: str, side: str) -> str:
    """Why a frame has no end; *side* is "request" or "response"."""
    return f"{ended} inside the {side}"
