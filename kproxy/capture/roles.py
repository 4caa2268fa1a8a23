"""Guess which endpoint of a flow is the server if its SYN was not captured; the consumer can correct the guess."""

from kproxy.protocol.addresses import KAFKA_PORTS

MAX_ENDPOINTS = 65_536


class Endpoints:
    """What the flows of a capture have shown about endpoints; an endpoint is address and port, as bytes."""

    def __init__(self) -> None:
        self._flows: dict[bytes, int] = {}
        self._servers: set[bytes] = set()

    def count(self, key: bytes) -> None:
        """Count a new flow between the two endpoints in *key*."""
        half = len(key) // 2
        for end in (key[:half], key[half:]):
            if end in self._flows or len(self._flows) < MAX_ENDPOINTS:
                self._flows[end] = self._flows.get(end, 0) + 1

    def accepted(self, key: bytes, client_side: int) -> None:
        """Note a handshake: the client is the first (0) or the second (1) endpoint in *key*."""
        half = len(key) // 2
        if len(self._servers) < MAX_ENDPOINTS:
            self._servers.add(key[:half] if client_side else key[half:])

    def guess_client(self, key: bytes) -> int:
        """Return 0 or 1: the endpoint in *key* that looks less like a server.

        The server is the endpoint that accepted another connection; otherwise the one with a usual Kafka port; otherwise the
        one with more flows; otherwise the one with the lower port.
        """
        half = len(key) // 2
        return 1 if self._evidence(key[:half]) > self._evidence(key[half:]) else 0

    def _evidence(self, end: bytes) -> tuple[bool, bool, int, int]:
        port = int.from_bytes(end[-2:], "big")
        return end in self._servers, port in KAFKA_PORTS, self._flows.get(end, 0), -port
