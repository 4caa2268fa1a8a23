"""What one connection may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take; sizes in bytes."""

    frame_size: int = 104_857_600  # socket.request.max.bytes of a broker
    unauthenticated_frame_size: int = 524_288  # sasl.server.max.receive.size of a broker
    in_flight: int = 10_000  # requests
    in_flight_size: int = 268_435_456  # of their frames together; one frame of the largest size always fits
    fetch_partitions: int = 100_000  # of one fetch session
