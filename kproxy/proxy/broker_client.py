"""Ask a broker a few things over a connection of kproxy's own: one request at a time, in versions that both sides know.

``discover`` asks a bootstrap broker for the brokers of its cluster before any client does: ApiVersions, then Metadata without
topics. ``explain_foreign_protocol`` names the setting that helps where the peer does not speak Kafka.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from struct import pack
from typing import Any

from kproxy.errors import DecodeError, LoginRefused, UpstreamError
from kproxy.filters.contract import Direction
from kproxy.protocol import (
    ApiKey,
    MessageStruct,
    known_message,
    message,
    read_response_header,
    request_header_version,
    response_header_version,
)
from kproxy.protocol.addresses import join_address, split_address
from kproxy.protocol.constants import uvarint
from kproxy.proxy.network.upstream import Upstream

CLIENT_ID = b"kproxy"
MOST_ANSWER = 16_777_216  # bytes
MOST_READ = 65_536  # bytes
SOFTWARE_FROM = 3  # version of ApiVersions (KIP-511)
Tags = tuple[tuple[int, bytes], ...]
CLOSED = "it closes the connection, as one that wants TLS (broker_tls) or a login (name addresses.node_ids) does"


class BrokerClient:
    """One connection to a broker. Methods raise EOFError or OSError where no response comes, DecodeError for a bad one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def versions(self) -> dict[int, int]:
        """Return the newest version of each API that the broker has, by API key (ApiVersions v0)."""
        response = await self.ask(ApiKey.API_VERSIONS, 0, "{}")
        return {api.api_key: api.max_version for api in response.api_keys}

    async def brokers(self, versions: dict[int, int]) -> list[tuple[int, str, int]]:
        """Return node id, host and port of each broker (Metadata); *versions* is what ``versions`` returned."""
        metadata = await self._metadata(versions, "[]")
        return [(broker.node_id, broker.host, broker.port) for broker in metadata.brokers]

    async def topics(self, versions: dict[int, int]) -> list[str]:
        """Return the names of all topics that the broker tells of (Metadata); EOFError if they take more than MOST_ANSWER."""
        metadata = await self._metadata(versions, "null" if versions.get(ApiKey.METADATA) else "[]")
        return [topic.name for topic in metadata.topics if topic.name]

    async def _metadata(self, versions: dict[int, int], topics: str) -> Any:
        version = min(versions.get(ApiKey.METADATA, 0), message("MetadataRequest").versions.highest)
        return await self.ask(ApiKey.METADATA, version, _metadata_request(version, topics))

    async def ask_unread(self, api_key: int, version: int, body: str) -> bytes:
        """Send a request; return the body of the response as it came, which may be an error of another version (KIP-511)."""
        frame = await self._exchange(encode_request(api_key, version, body))
        return frame[_body_start(api_key, version, frame) :]

    async def ask(self, api_key: int, version: int, body: str | MessageStruct) -> Any:
        """Send a request, given as Kafka's JSON or decoded; return the response."""
        return decode_response(api_key, version, await self._exchange(encode_request(api_key, version, body)))

    async def until_closed(self) -> None:
        """Send nothing and wait until the broker closes. Raises OSError where it does so by a reset or a TLS alert."""
        while await self._reader.read(MOST_READ):
            pass

    def certificate(self) -> bytes | None:
        """Return the broker's certificate (DER); None without TLS."""
        side = self._writer.get_extra_info("ssl_object")
        encoded: bytes | None = None if side is None else side.getpeercert(binary_form=True)
        return encoded

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Close the connection at once, without TLS's close_notify, which a slow broker could delay."""
        self._writer.transport.abort()

    async def _exchange(self, frame: bytes) -> bytes:
        """Send a request; return the response without its size field."""
        self._writer.write(frame)
        start = await self._reader.read(4)
        if not start:
            raise EOFError(CLOSED)
        start += await self._reader.readexactly(4 - len(start))
        size = int.from_bytes(start, "big", signed=True)
        if not 4 <= size <= MOST_ANSWER:
            raise EOFError(explain_foreign_protocol(start, Direction.RESPONSE) or f"an answer of {size} bytes")
        return await self._reader.readexactly(size)


def encode_request(api_key: int, version: int, body: str | MessageStruct) -> bytes:
    """Return the frame of a request of kproxy's own, given as Kafka's JSON or decoded. Its correlation id is its API key."""
    request = known_message(Direction.REQUEST, api_key)
    encoded = request.encode(version, request.from_json(version, body) if isinstance(body, str) else body)
    return frame_request(request_header(api_key, version, api_key, CLIENT_ID), encoded)


def request_header(api_key: int, version: int, correlation_id: int, client_id: bytes | None, tags: Tags = ()) -> bytes:
    """Return a request header, in the header version that belongs to the version of the API."""
    name = pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    start = pack(">hhi", api_key, version, correlation_id) + name
    if request_header_version(api_key, version) < 2:
        return start
    return start + uvarint(len(tags)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in tags)


def frame_request(header: bytes, body: bytes) -> bytes:
    """Return header and body with their size before them."""
    return pack(">i", len(header) + len(body)) + header + body


def decode_response(api_key: int, version: int, frame: bytes) -> Any:
    """Decode a response, given without its size field. Raises DecodeError."""
    response = known_message(Direction.RESPONSE, api_key)
    start = _body_start(api_key, version, frame)
    # some software sends bytes after the response (librdkafka's mock cluster)
    trailing = response.check(version, frame, start, trailing=True).trailing
    return response.decode(version, frame, start, trailing=trailing)


def _metadata_request(version: int, topics: str) -> str:
    """Return a Metadata request that creates no topic (version 0 can only ask for all: "[]"; "null" does from 1 on)."""
    fields = [f'"topics": {topics}']
    if version >= 4:
        fields.append('"allowAutoTopicCreation": false')
    if 8 <= version <= 10:
        fields.append('"includeClusterAuthorizedOperations": false')
    if version >= 8:
        fields.append('"includeTopicAuthorizedOperations": false')
    return "{" + ", ".join(fields) + "}"


Broker = tuple[int, str, int]  # node id, host, port


class NotListed(UpstreamError):
    """A broker was reached, but does not list the brokers of the cluster."""


def _body_start(api_key: int, version: int, frame: bytes) -> int:
    return read_response_header(frame, response_header_version(api_key, version)).size


LogIn = Callable[[BrokerClient, str, dict[int, int]], Awaitable[object]]  # client, host, versions of the broker's APIs


async def discover(
    upstream: Upstream,
    tls: ssl.SSLContext | None,
    server_name: Callable[[str], str],
    log_in: LogIn | None = None,
) -> list[Broker]:
    """Return the brokers of the cluster; *server_name* returns the name that a host's certificate must have.

    Raises:
        UpstreamError: no bootstrap broker could be reached, or kproxy could not log in.
        NotListed: a broker was reached, but does not answer a client that has not logged in.
    """
    client, endpoint = await open_client(upstream, tls, server_name)
    try:
        versions = await client.versions()
        if log_in is not None:
            await log_in(client, split_address(endpoint)[0], versions)
        return await client.brokers(versions)
    except LoginRefused as error:
        raise UpstreamError(f"{endpoint}: {error}; {error.advice}") from error
    except (OSError, EOFError, DecodeError, asyncio.IncompleteReadError) as error:
        reason = str(error) or type(error).__name__
        raise NotListed(f"{endpoint} does not list the brokers: {reason}") from error
    finally:
        client.close()


async def open_client(
    upstream: Upstream,
    tls: ssl.SSLContext | None,
    server_name: Callable[[str], str],
    target: tuple[str, int] | None = None,
) -> tuple[BrokerClient, str]:
    """Connect to a broker, or to any bootstrap broker; return its address too. Raises UpstreamError."""
    if target is None:
        connected, endpoint = await upstream.connect_bootstrap()
    else:
        connected, endpoint = await upstream.connect(*target), join_address(*target)
    host, _ = split_address(endpoint)
    try:
        await asyncio.get_running_loop().sock_sendall(connected, upstream.own_proxy_header())
        options: dict[str, Any] = {"ssl": tls, "server_hostname": server_name(host)} if tls else {}
        reader, writer = await asyncio.open_connection(sock=connected, **options)
    except (OSError, ssl.SSLError) as error:
        connected.close()
        raise UpstreamError(f"{endpoint}: {error}") from error
    return BrokerClient(reader, writer), endpoint


async def ask_versions(
    upstream: Upstream,
    tls: ssl.SSLContext | None,
    server_name: Callable[[str], str],
    target: tuple[str, int] | None,
    version: int,
) -> bytes:
    """Return the body of a broker's response to ApiVersions. Raises UpstreamError."""
    client, endpoint = await open_client(upstream, tls, server_name, target)
    software = '{"clientSoftwareName": "kproxy", "clientSoftwareVersion": "1"}' if version >= SOFTWARE_FROM else "{}"
    try:
        return await client.ask_unread(ApiKey.API_VERSIONS, version, software)
    except (OSError, EOFError) as error:  # EOFError: asyncio.IncompleteReadError too
        raise UpstreamError(f"{endpoint} does not answer ApiVersions: {error}") from error
    finally:
        client.close()


SETTINGS = {
    ("tls", Direction.REQUEST): (
        "the client speaks TLS, and this listener does not: give it listener_tls, "
        "or the client security.protocol=PLAINTEXT or SASL_PLAINTEXT"
    ),
    ("tls", Direction.RESPONSE): "the broker speaks TLS: give the cluster broker_tls",
    ("proxy", Direction.REQUEST): "a PROXY header comes before the client's first request: set proxy_protocol",
}


def explain_foreign_protocol(start: bytes, direction: Direction) -> str | None:
    """Explain four bytes that stand where Kafka has the size of a frame; None if they are of no known protocol."""
    from kproxy.session.recognise import foreign_size  # noqa: PLC0415 - half a MB, for mistakes only

    foreign = foreign_size(start, direction)
    return SETTINGS.get((foreign.kind, direction), foreign.what) if foreign else None
