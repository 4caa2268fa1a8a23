"""How frames and connections end: Cut says why a frame lacks its end; sentences say who closed a connection."""

from enum import IntEnum

from kproxy.protocol import Direction


class Cut(IntEnum):
    """Why a frame lacks its end; WHOLE, for a complete frame, is false.

    The size field and the bytes up to the cut are known. So a cut frame has its size on the wire and its times, and is paired
    like any other; only its body cannot be read to the end.
    """

    WHOLE = 0
    SNAPLEN = 1  # the capture recorded only the first bytes of each packet (tcpdump -s)
    MISSING = 2  # segments are not in the capture
    LEFT_OUT = 3  # the analyzer lagged behind, so the proxy gave it only the beginning
    RESET = 4  # the connection ended, by RST or FIN, before the frame's end was sent
    CAPTURE_ENDED = 5  # the rest may have been sent after the last packet of the capture

    @property
    def text(self) -> str:
        """The reason in words."""
        return _TEXTS[self]


_TEXTS = {
    Cut.WHOLE: "",
    Cut.SNAPLEN: "cut by the capture's snaplen",
    Cut.MISSING: "missing in the capture",
    Cut.LEFT_OUT: "left out: the analyzer was behind",
    Cut.RESET: "the connection ended inside it",
    Cut.CAPTURE_ENDED: "the capture ended inside it",
}

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
