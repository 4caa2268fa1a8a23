"""Ask a broker a few things over a connection of kproxy's own: one request at a time, in versions that both sides know."""

import asyncio
from struct import pack
from typing import Any

from kproxy.filters.contract import Direction
from kproxy.protocol import (
    ApiKey,
    MessageStruct,
    message,
    request_header_version,
    request_message,
    response_header_version,
    response_message,
)
from kproxy.proxy.foreign_protocol import explain_foreign_protocol

CLIENT_ID = b"kproxy"
MOST_ANSWER = 16_777_216  # bytes
MOST_READ = 65_536  # bytes
CLOSED = "it closes the connection, as one that wants TLS (broker_tls) or a login (name addresses.node_ids) does"


class Asking:
    """One connection to a broker. Methods raise EOFError or OSError where no response comes, DecodeError for a bad one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def versions(self) -> dict[int, int]:
        """The newest version of each API that the broker has, by api_key (ApiVersions v0)."""
        response = await self.ask(ApiKey.API_VERSIONS, 0, "{}")
        return {api.api_key: api.max_version for api in response.api_keys}

    async def brokers(self, versions: dict[int, int]) -> list[tuple[int, str, int]]:
        """Node id, host and port of each broker, by Metadata; *versions*: what `versions` returned."""
        known = message("MetadataRequest").versions.highest
        version = min(versions.get(ApiKey.METADATA, 0), known)
        found = await self.ask(ApiKey.METADATA, version, _metadata_request(version))
        return [(broker.node_id, broker.host, broker.port) for broker in found.brokers]

    async def ask(self, api_key: int, version: int, body: str | MessageStruct) -> Any:
        """Send a request, given as Kafka's JSON or decoded; return the response."""
        request, response = request_message(api_key), response_message(api_key)
        assert request is not None and response is not None
        given = request.from_json(version, body) if isinstance(body, str) else body
        answer = await self._exchange(api_key, version, request.encode(version, given))
        # some software sends bytes after the response (librdkafka's mock cluster)
        trailing = response.check(version, answer, trailing=True).trailing
        return response.decode(version, answer, trailing=trailing)

    async def until_closed(self) -> None:
        """Wait for the end of the connection, without a request. Raises OSError for an end in disorder, as by a TLS alert."""
        while await self._reader.read(MOST_READ):
            pass

    def certificate(self) -> bytes | None:
        """Return the broker's certificate (DER); None without TLS."""
        side = self._writer.get_extra_info("ssl_object")
        encoded: bytes | None = None if side is None else side.getpeercert(binary_form=True)
        return encoded

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def abort(self) -> None:
        """Close the connection at once, without TLS's goodbye, for which a broker may let one wait."""
        self._writer.transport.abort()

    async def _exchange(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send a request; return the body of the response."""
        tags = b"\0" if request_header_version(api_key, version) > 1 else b""
        header = pack(">hhih", api_key, version, api_key, len(CLIENT_ID)) + CLIENT_ID + tags
        self._writer.write(pack(">i", len(header) + len(body)) + header + body)
        start = await self._reader.read(4)
        if not start:
            raise EOFError(CLOSED)
        start += await self._reader.readexactly(4 - len(start))
        explanation = explain_foreign_protocol(start, Direction.RESPONSE)
        if explanation:
            raise EOFError(explanation)
        size = int.from_bytes(start, "big", signed=True)
        if not 4 <= size <= MOST_ANSWER:
            raise EOFError(f"an answer of {size} bytes")
        answer = await self._reader.readexactly(size)
        return answer[4 + (1 if response_header_version(api_key, version) > 0 else 0) :]


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
