"""How faults of filters are counted: by the method of Filter in which a fault happened, and by its kind.

raised        the filter raised an exception
timed_out     no verdict within Filter.timeout
unusable      what it returned is no verdict, or cannot be sent: it does not fit the version, or is too large
undecodable   kproxy could not decode the frame for it
too_large     the frame is larger than limits.held_frame_size, and the filter needs all of it
"""

from typing import Literal, TypeAlias

from kproxy.errors import DecodeError, EncodeError

Hook: TypeAlias = Literal[
    "on_request",
    "on_response",
    "wants_frame",
    "on_head",
    "on_tail",
    "on_too_large",
    "on_raw_login",
    "on_close",
    "on_start",
    "on_stop",
]
Kind: TypeAlias = Literal["raised", "timed_out", "unusable", "undecodable", "too_large"]


class Unusable(ValueError):
    """A filter returned something that cannot be used."""


def kind_of(fault: Exception) -> Kind:
    """Return the kind of an exception that was raised while a filter had a frame."""
    if isinstance(fault, DecodeError):
        return "undecodable"
    if isinstance(fault, Unusable | EncodeError):
        return "unusable"
    return "timed_out" if isinstance(fault, TimeoutError) else "raised"
