"""Limits of a session."""

from msgspec import Struct

from kproxy.protocol.constants import FRAME_LIMIT, TOKEN_LIMIT


class Limits(Struct, frozen=True):
    """The most that one connection may use; sizes in bytes."""

    frame_size: int = FRAME_LIMIT
    unauthenticated_frame_size: int = TOKEN_LIMIT
    in_flight: int = 10_000  # unanswered requests
    in_flight_size: int = 268_435_456  # of the frames of those requests; one of the largest size always fits
    fetch_partitions: int = 100_000  # partitions of one fetch session
