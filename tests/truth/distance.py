"""A long way: what comes in at one interface leaves by the other so much later. ``distance.py ONE OTHER MILLISECONDS``.

The kernel's own means for that, netem, is a module that few machines of tests have.
"""

import selectors
import socket
import sys
import time
from collections import deque

VIRTIO_HEADER = (
    15  # PACKET_VNET_HDR: frames with what is left to do for them, as checksums, which the next interface does
)
SOL_PACKET, ALL, OWN, LARGEST = 263, 3, 4, 1 << 17


def attached(interface: str) -> socket.socket:
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(ALL))
    link.setsockopt(SOL_PACKET, VIRTIO_HEADER, 1)
    link.bind((interface, ALL))
    return link


def main(one: str, other: str, milliseconds: str) -> None:
    links = attached(one), attached(other)
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()
    with selectors.DefaultSelector() as selector:
        for link, way in (links, links[::-1]):
            selector.register(link, selectors.EVENT_READ, way)
        while True:
            for key, _ in selector.select(max(0, waiting[0][0] - time.monotonic()) if waiting else None):
                frame, (_, _, kind, *_) = key.fileobj.recvfrom(LARGEST)  # type: ignore[union-attr]
                if kind != OWN:
                    waiting.append((time.monotonic() + int(milliseconds) / 1000, key.data, frame))
            while waiting and waiting[0][0] <= time.monotonic():
                _, way, frame = waiting.popleft()
                try:
                    way.send(frame)
                except OSError:  # the host is gone
                    return


if __name__ == "__main__":
    main(*sys.argv[1:])
