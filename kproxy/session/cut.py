"""Cut: why a frame lacks its end."""

from enum import IntEnum


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
