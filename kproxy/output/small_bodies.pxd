# cython: language_level=3
"""Small bodies: clients and brokers send many again and again, so what is made of one is kept for those that equal it.

Inline, for each module that keeps something: all do it under these conditions, within these bounds.
"""

from kproxy.session.exchanges cimport Frame


cdef enum:
    MOST_KEPT = 1024  # bodies: a few MB, if each is as long as it may be
    LONGEST_KEPT = 1024  # bytes of a body


cdef inline tuple small_body(Frame frame):
    """Return what equal bodies have in common, their layout and bytes; None for a body of which nothing is kept.

    Nothing is kept of large bodies, of those with credentials or with bytes behind them, and of lines of a decoded log. Needs a
    message; raises DecodeError.
    """
    if type(frame) is not Frame or frame.trailing or len(frame.data) - frame.body_start > LONGEST_KEPT:
        return None
    return None if frame.layout_program().holds_secrets else (frame.program, frame.data[frame.body_start:])


cdef inline object keep(dict kept, tuple key, object value):
    """Keep what was made of a small body, or of several, and return it."""
    if len(kept) >= MOST_KEPT:
        kept.clear()
    kept[key] = value
    return value
