"""Connections to the new cluster: for each recorded connection, one to each node that its requests go to.

A connection is opened at its first request and closed after its last. If it breaks, the next request opens it again.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey
from kproxy.protocol.structs import struct_types
from kproxy.replay.cluster import Cluster
from kproxy.replay.link import Link, LinkClosed, is_answered
from kproxy.replay.recording import ConnectionId, Recorded
from kproxy.replay.result import Result
from kproxy.replay.rewriting import Ready
from kproxy.replay.routing import Router


@dataclass(eq=False, slots=True)
class Way:
    """The link from one recorded connection to one node of the new cluster."""

    node: int | None = None
    link: Link | None = None
    unconfirmed: bool = False  # a request without an answer was sent, which may not have been processed yet

    def abort(self, why: str) -> None:
        """Close its link at once, if there is one."""
        if self.link is not None:
            self.link.abort(why)


class Connections:
    """The connections of one replay; ``close`` them in the end.

    Args:
        cluster, router: where requests go.
        requests: all that will be sent.
        result: counts the connections that are opened.
    """

    def __init__(self, cluster: Cluster, router: Router, requests: Iterable[Recorded], result: Result) -> None:
        self._cluster = cluster
        self._router = router
        self._result = result
        self._ways: dict[ConnectionId, dict[int | None, Way]] = {}
        self._unconfirmed: dict[ConnectionId, list[Way]] = {}
        self._left = Counter(one.connection for one in requests)  # requests that are still to be sent

    def take(self, recorded: Recorded) -> None:
        """Note that a request is about to be sent, so that its connection is closed after the last one."""
        self._left[recorded.connection] -= 1

    async def way(self, recorded: Recorded, body: Any) -> Way:
        """Return where to send a request whose ids were replaced. Raises UpstreamError."""
        node = await self._router.node(recorded, body)
        return self._ways.setdefault(recorded.connection, {}).setdefault(node, Way(node))

    async def send(self, way: Way, recorded: Recorded, ready: Ready) -> "asyncio.Future[bytes] | None":
        """Send a request. Raises UpstreamError, LinkClosed.

        Returns a future of the frame of its answer; None if no answer will come.
        """
        if way.link is None or way.link.closed is not None:
            way.link = await self._cluster.open(way.node)
            self._result.connections += 1
        header = recorded.request.header
        name = recorded.client_id
        future = await way.link.send(
            recorded.api_key,
            ready.encoded.version,
            ready.encoded.body,
            client_id=None if name is None else name.encode("utf-8", "surrogateescape"),
            tags=header.unknown_tags if header is not None else (),
            answered=is_answered(recorded.api_key, ready.body),
        )
        if future is None:
            way.unconfirmed = True
            self._unconfirmed.setdefault(recorded.connection, []).append(way)
        return future

    async def confirm(self, but: ConnectionId | None = None) -> None:
        """Wait until requests without answers were processed, as requests on other connections may depend on them.

        A broker processes the requests of a connection in order: when it answers one, it has processed those before it.
        """
        for way in [one for connection, ways in self._unconfirmed.items() if connection != but for one in ways]:
            way.unconfirmed = False
            if way.link is None or self._cluster.versions is None:
                continue
            try:
                await way.link.ask(ApiKey.API_VERSIONS, 0, struct_types("ApiVersionsRequest")["ApiVersionsRequest"]())
            except (LinkClosed, DecodeError) as error:
                self._result.notes[f"after Produce with acks=0: {error}"] += 1
        self._unconfirmed = {one: ways for one, ways in self._unconfirmed.items() if one == but}

    def close_if_done(self, connection: ConnectionId) -> None:
        """Close the links of a recorded connection that has no requests left."""
        ways = self._ways.get(connection, {}).values()
        if self._left[connection] or any(way.unconfirmed or (way.link and way.link.in_flight) for way in ways):
            return
        for way in ways:
            way.abort("its last request was answered")
        self._ways.pop(connection, None)

    def close(self) -> None:
        """Close all links at once."""
        for way in (way for ways in self._ways.values() for way in ways.values()):
            way.abort("the replay has ended")


async def answer_within(way: Way, future: "asyncio.Future[bytes]", seconds: float) -> bytes:
    """Return the frame of an answer. If it does not come in time, close the link and raise LinkClosed."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(future)
    except TimeoutError:
        why = f"no answer within {seconds:g} s"
        way.abort(why)
        raise LinkClosed(why) from None
