"""Ask a bootstrap broker for the brokers of its cluster, before any client does: ApiVersions, then Metadata without topics."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.protocol.addresses import split_address
from kproxy.proxy.asking import Asking
from kproxy.proxy.network.upstream import Upstream

Broker = tuple[int, str, int]  # node id, host, port


class NotListed(UpstreamError):
    """A broker was connected to, but does not say which brokers there are."""


async def discover(upstream: Upstream, tls: ssl.SSLContext | None, server_name: Callable[[str], str]) -> list[Broker]:
    """Return the brokers of the cluster; *server_name* returns the name that a host's certificate must have.

    Raises:
        UpstreamError: no bootstrap broker could be reached.
        NotListed: one was, and does not answer a client that has not logged in.
    """
    connected, endpoint = await upstream.connect_bootstrap()
    host, _ = split_address(endpoint)
    try:
        await asyncio.get_running_loop().sock_sendall(connected, upstream.own_proxy_header())
        options: dict[str, Any] = {"ssl": tls, "server_hostname": server_name(host)} if tls else {}
        reader, writer = await asyncio.open_connection(sock=connected, **options)
    except (OSError, ssl.SSLError) as error:
        connected.close()
        raise UpstreamError(f"{endpoint}: {error}") from error
    asking = Asking(reader, writer)
    try:
        return await asking.brokers(await asking.versions())
    except (OSError, EOFError, DecodeError, asyncio.IncompleteReadError) as error:
        reason = str(error) or type(error).__name__
        raise NotListed(f"{endpoint} does not list the brokers: {reason}") from error
    finally:
        asking.close()
