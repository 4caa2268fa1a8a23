"""Unwrapper: find the packets inside a packet without a TCP segment, in IP fragments or a tunnel."""

from kproxy.capture.fragments import Fragments
from kproxy.capture.limits import Limits
from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.packet import Packet
from kproxy.capture.tunnels import open_tunnel

NOT_IP, FRAGMENT, UDP, OTHER_PROTOCOL = (OUTCOME_NAMES[number] for number in (3, 4, 7, 8))


class Unwrapper:
    """Called by ``Flows`` for packets without a TCP segment; each capture needs its own, as it holds IP fragments."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.fragments = Fragments(Limits() if limits is None else limits)

    @property
    def passed_over(self) -> dict[str, int]:
        """Number of fragments without a complete datagram, by reason (see Fragments)."""
        return self.fragments.passed_over

    def __call__(self, packet: Packet, what: str) -> list[Packet] | str:
        """Return the packets inside *packet* (none yet for a fragment), or a name to count it by; *what* is its outcome."""
        if what == FRAGMENT:
            return self.fragments.receive(packet)
        if what in (NOT_IP, UDP, OTHER_PROTOCOL):
            return open_tunnel(packet, what)
        return what
