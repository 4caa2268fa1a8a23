"""Transports of OTLP: what each must do, what sending may lead to, and the choice of one.

The specification of OTLP says which failures are retried: HTTP 429, 502, 503 and 504; the gRPC codes in grpc_client.py; and every
request for which there was no connection or no answer.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from kproxy.errors import DecodeError, UsageError
from kproxy.options import OtlpEndpoint, target_of
from kproxy.protocol.addresses import join_address

Signal = Literal["traces", "metrics"]
LARGEST_ANSWER = 65_536  # bytes: an answer has a number and a sentence
LONGEST_WAIT_S = 60.0  # that a collector may ask for


@dataclass(frozen=True, slots=True)
class Delivered:
    """The collector took it, except for so many items."""

    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """The collector does not take it, and would not if it were sent again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The collector may take it later, after at least *after* seconds."""

    reason: str
    after: float = 0.0


Outcome = Delivered | Refused | Unavailable


def outcome_of_answer(answer: bytes) -> Outcome:
    """Return the outcome of a request that succeeded; *answer* is the body of its response, an Export…ServiceResponse."""
    from kproxy.protocol.embedded.telemetry import read_rejected  # noqa: PLC0415 - compression, 4 MB in each worker

    try:
        return Delivered(read_rejected(answer))
    except DecodeError:
        return Refused("the answer is not that of a collector of OTLP")


class Transport(Protocol):
    """Sends requests of one service of OTLP. One at a time, in one event loop."""

    async def send(self, body: bytes) -> Outcome:
        """Send a request; return in bounded time. Reasons have nothing that the endpoint's options keep secret."""

    def close(self) -> None:
        """Close the connection."""


def transport_to(endpoint: OtlpEndpoint, signal: Signal) -> Transport:
    """Return the transport that an endpoint asks for. Raises UsageError: the file with the CAs, or grpcio, is missing."""
    headers = {name.lower(): value for name, value in endpoint.headers.items()}
    authorities = None if endpoint.ca is None else _read(endpoint.ca)
    if endpoint.protocol == "grpc":
        return _grpc(endpoint, signal, headers, authorities)
    from kproxy.proxy.otlp.http_client import HttpClient  # noqa: PLC0415

    target = target_of(endpoint)
    context = _context(endpoint, authorities) if target.tls else None
    path = f"{target.path}/v1/{signal}"
    return HttpClient(target.host, target.port, path, headers, context=context, timeout=endpoint.timeout)


def _grpc(endpoint: OtlpEndpoint, signal: Signal, headers: Mapping[str, str], authorities: bytes | None) -> Transport:
    try:
        from kproxy.proxy.otlp.grpc_client import GrpcClient  # noqa: PLC0415 - 21 MB
    except ImportError:
        raise UsageError('OTLP over gRPC needs: pip install "kproxy-kafka[otlp]"') from None
    target = target_of(endpoint)
    address = join_address(target.host, target.port)
    return GrpcClient(address, signal, headers, tls=target.tls, authorities=authorities, timeout=endpoint.timeout)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - workers do without pathlib
            return opened.read()
    except OSError as error:
        raise UsageError(f"{file!r}: {error.strerror}") from None


def _context(endpoint: OtlpEndpoint, authorities: bytes | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(
            cadata=None if authorities is None else authorities.decode("ascii", "replace")
        )
    except ssl.SSLError:
        raise UsageError(f"{endpoint.ca!r} does not contain a certificate in PEM") from None
