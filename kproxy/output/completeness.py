"""Completeness: which part of an exchange's bodies is missing, and why, and how many bytes follow a message.

A body may be cut by a capture's snaplen, by a gap, by the end of the connection, or because the analyzer was behind. The fields
before the cut are shown as usual, then how much is missing. Bytes after a message are counted, because peers skip them.
"""

from collections.abc import Mapping

import msgspec

from kproxy.protocol import Beginning
from kproxy.protocol.frames import SIZE_FIELD
from kproxy.session import Exchange, Frame

_encode = msgspec.json.Encoder().encode


def read_beginning(frame: Frame) -> Beginning:
    """Read the fields before the cut of a body, credentials withheld; none if the version is newer than the facts."""
    if frame.message is None or frame.assumed_version is not None:
        return Beginning(b"{}")
    return frame.message.beginning(frame.body_version, frame.data, frame.body_start, withhold=True)


def frames_of(exchange: Exchange) -> list[tuple[str, Frame]]:
    """Return ("request", frame) and ("response", frame), without those that are missing."""
    both = (("request", exchange.request), ("response", exchange.response))
    return [(side, frame) for side, frame in both if frame is not None]


def trailing_of(exchange: Exchange) -> dict[str, int]:
    """Return how many bytes come after the message of each side; sides without any are left out."""
    return {side: frame.trailing for side, frame in frames_of(exchange) if frame.trailing}


def completeness_json(exchange: Exchange, beginnings: Mapping[str, Beginning]) -> bytes:
    """Return the last fields of a line of the decoded log: bodies, trailing and missing, with a comma before each.

    *beginnings*: what was read of the bodies that are cut, by side.
    """
    missing = {side: one.missing for side, one in beginnings.items()}
    fields = {"bodies": exchange.bodies, "trailing": trailing_of(exchange) or None, "missing": missing or None}
    return b"," + _encode(fields)[1:-1]


def trailing_words(size: int) -> str:
    """Say how many bytes come after a message."""
    return f"{size:,} byte{'' if size == 1 else 's'} after the message"


def why_cut(exchange: Exchange) -> dict[str, str]:
    """Return why bodies are cut, in words, by side."""
    cut = [side for side, frame in frames_of(exchange) if frame.cut]
    words = exchange.bodies or ""
    if len(cut) == 2 and words.startswith("request: "):
        request, _, response = words.removeprefix("request: ").partition("; response: ")
        return {"request": request, "response": response}
    return dict.fromkeys(cut, words)


def notes(exchange: Exchange) -> str:
    """Return the end of a line of text: which sides are cut and why, and how many bytes come after their messages."""
    if _is_plain(exchange.request) and _is_plain(exchange.response):
        return ""
    why = why_cut(exchange)
    words = []
    for side, frame in frames_of(exchange):
        if frame.cut:
            words.append(f"{side}: {why[side]}{share_here(frame)}")
        if frame.trailing:
            words.append(f"{side}: {trailing_words(frame.trailing)}")
    return "  ".join(words)


def _is_plain(frame: Frame | None) -> bool:
    return frame is None or not (frame.cut or frame.trailing)


def share_here(frame: Frame) -> str:
    """Say how much of a cut frame was captured; "" if that is not known, as for a decoded log."""
    return f", {len(frame.data) + SIZE_FIELD:,} of {frame.wire_size:,} bytes are here" if frame.data else ""


def lists_all(beginning: Beginning | None) -> bool:
    """Return whether every element of every array in a cut body was at least begun, so that only records can be missing."""
    if beginning is None or beginning.missing is None:
        return True
    path = beginning.missing
    if not path.endswith(("ecords", "_taggedFields")) or (not beginning.counts and "[" in path):
        return False
    return all(path.startswith(f"{array}[{count - 1}]") for array, count in beginning.counts.items())
