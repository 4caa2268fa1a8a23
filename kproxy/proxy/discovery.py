"""Ask a bootstrap broker for the brokers of its cluster, before any client does: ApiVersions, then Metadata without topics."""

import asyncio
import ssl
from collections.abc import Callable
from struct import pack
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.filters.contract import Direction
from kproxy.protocol import ApiKey, message, request_header_version, response_header_version
from kproxy.protocol.addresses import split_address
from kproxy.proxy.foreign_protocol import explain_foreign_protocol
from kproxy.proxy.network.upstream import Upstream

CLIENT_ID = b"kproxy"
MOST_ANSWER = 16_777_216  # bytes
CLOSED = "it closes the connection, as one that wants TLS (broker_tls) or a login (name addresses.node_ids) does"
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
    try:
        return await _ask(reader, writer)
    except (OSError, EOFError, DecodeError, asyncio.IncompleteReadError) as error:
        reason = str(error) or type(error).__name__
        raise NotListed(f"{endpoint} does not list the brokers: {reason}") from error
    finally:
        writer.close()


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Broker]:
    versions = _decoded("ApiVersionsResponse", 0, await _exchange(reader, writer, ApiKey.API_VERSIONS, 0, b""))
    offered = next((api for api in versions.api_keys if api.api_key == ApiKey.METADATA), None)
    known = message("MetadataRequest").versions.highest
    version = 0 if offered is None else min(offered.max_version, known)
    request = message("MetadataRequest")
    asked = request.from_json(version, _metadata_request(version))
    answer = await _exchange(reader, writer, ApiKey.METADATA, version, request.encode(version, asked))
    found = _decoded("MetadataResponse", version, answer)
    return [(broker.node_id, broker.host, broker.port) for broker in found.brokers]


def _decoded(name: str, version: int, answer: bytes) -> Any:
    """Decode a response; some software sends bytes after it (librdkafka's mock cluster)."""
    response = message(name)
    return response.decode(version, answer, trailing=response.check(version, answer, trailing=True).trailing)


def _metadata_request(version: int) -> str:
    """A Metadata request for no topic (version 0: for all, as it has no other way), that creates none."""
    fields = ['"topics": []']
    if version >= 4:
        fields.append('"allowAutoTopicCreation": false')
    if 8 <= version <= 10:
        fields.append('"includeClusterAuthorizedOperations": false')
    if version >= 8:
        fields.append('"includeTopicAuthorizedOperations": false')
    return "{" + ", ".join(fields) + "}"


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, api_key: int, version: int, body: bytes
) -> bytes:
    """Send a request; return the body of the response."""
    tags = b"\0" if request_header_version(api_key, version) > 1 else b""
    header = pack(">hhih", api_key, version, api_key, len(CLIENT_ID)) + CLIENT_ID + tags
    writer.write(pack(">i", len(header) + len(body)) + header + body)
    start = await reader.read(4)
    if not start:
        raise EOFError(CLOSED)
    start += await reader.readexactly(4 - len(start))
    explanation = explain_foreign_protocol(start, Direction.RESPONSE)
    if explanation:
        raise EOFError(explanation)
    size = int.from_bytes(start, "big", signed=True)
    if not 4 <= size <= MOST_ANSWER:
        raise EOFError(f"an answer of {size} bytes")
    answer = await reader.readexactly(size)
    return answer[4 + (1 if response_header_version(api_key, version) > 0 else 0) :]
