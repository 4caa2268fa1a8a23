"""What is inside of a packet that is no TCP segment: a part of a datagram, a tunnel's packet, or nothing."""

from kproxy.capture.fragments import Fragments
from kproxy.capture.limits import Limits
from kproxy.capture.links import OUTCOME_NAMES
from kproxy.capture.packet import Packet
from kproxy.capture.tunnels import open_tunnel

NOT_IP, FRAGMENT, UDP, OTHER_PROTOCOL = (OUTCOME_NAMES[number] for number in (3, 4, 7, 8))


class Unwrapper:
    """What ``Flows`` asks for packets inside packets; one for each capture, because it holds IP fragments."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.fragments = Fragments(Limits() if limits is None else limits)

    @property
    def passed_over(self) -> dict[str, int]:
        """Packets that were taken and gave nothing, counted by why."""
        return self.fragments.passed_over

    def __call__(self, packet: Packet, what: str) -> list[Packet] | str:
        """The packets inside *packet*, none yet for a fragment, or what to count it by; *what* is of OUTCOME_NAMES."""
        if what == FRAGMENT:
            return self.fragments.receive(packet)
        if what in (NOT_IP, UDP, OTHER_PROTOCOL):
            return open_tunnel(packet, what)
        return what
