"""Describe a link: its addresses as text, the tap's OPEN record, its row at /connections."""

import msgspec

from kproxy.protocol import facts
from kproxy.protocol.addresses import join_address
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.messages import Connection
from kproxy.proxy.network.socket_addresses import from_sockaddr
from kproxy.proxy.tap.tapped import Opened


def client_of(link: Link) -> str:
    """Return the client's address; with PROXY protocol the one in the header."""
    return link.facts.client if link.facts is not None else join_address(*from_sockaddr(link.peer))


def broker_of(link: Link) -> str:
    """Return the broker's address; empty while it is not known."""
    return join_address(*link.target) if link.target else ""


def listener_of(link: Link) -> str:
    """Return the address that the client connected to."""
    return join_address(*from_sockaddr(link.local_address()))


def open_record(link: Link, cluster: str, from_start: bool) -> bytes:
    """Return the body of the tap's OPEN record."""
    tls = None if link.facts is None else link.facts.tls
    return msgspec.json.encode(Opened(link.number, cluster, client_of(link), broker_of(link), from_start, True, tls))


def connection_row(link: Link, cluster: str, now: int, worker: int) -> Connection:
    """Return the link as /connections shows it; *now* in ns of the monotonic clock."""
    requests, responses = link.frames_received
    received, sent = link.bytes_received
    api = facts().apis.get(link.last_request)
    return Connection(
        worker=worker,
        number=link.number,
        cluster=cluster,
        client=client_of(link),
        broker=broker_of(link),
        node_id=link.node_id,
        age_s=round((now - link.opened_at) / 1e9, 3),
        idle_s=round((now - link.last_at) / 1e9, 3),
        requests=requests,
        responses=responses,
        request_bytes=received,
        response_bytes=sent,
        in_flight=link.in_flight_count,
        last_api=api.name if api else None,
        tls=bool(link.tls and link.tls[0]),
    )
