"""Scenes (tests/support/canaries.py) through a running proxy: its client, and its broker."""

import contextlib

from tests.chaos.peers import Peer, Script, client
from tests.support.canaries import Scene
from tests.support.kafka.proxies import Proxy


def broker_of(shown: list[Scene]) -> Script:
    """Plays the broker's part of the scene that a client begins; what the client sends is not checked, only counted."""
    by_beginning = {scene.segments[0][1]: scene for scene in shown}

    def play(peer: Peer) -> None:
        scene = by_beginning[peer.frame()]
        for from_client, data in scene.segments[1:]:
            if from_client:
                peer.exactly(len(data))
            else:
                peer.send(data)
        peer.swallow()

    return play


def play(proxy: Proxy, scene: Scene) -> None:
    """Play the client's part; a proxy may close the connection at what it does not forward."""
    with client(proxy.bootstrap()) as one:
        one.socket.settimeout(5)
        with contextlib.suppress(OSError, EOFError):
            for from_client, data in scene.segments:
                if from_client:
                    one.send(data)
                else:
                    one.exactly(len(data))
