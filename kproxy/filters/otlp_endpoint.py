"""OtlpEndpoint: where something is exported to over OTLP, as traces of the configuration and the filter telemetry name it."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

import msgspec

from kproxy.filters.options import Options, Problem, Seconds, text
from kproxy.filters.units import quoted
from kproxy.protocol.addresses import MOST_PORT

URL = re.compile(
    r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})((?:/[A-Za-z0-9._~%!$&'()*+,;=:-]*)*)", re.ASCII
)
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)  # token of RFC 9110
VALUE = re.compile(r"[\t\x20-\x7e]{0,8000}", re.ASCII)
TAKEN = frozenset(("host", "content-length", "content-type", "transfer-encoding", "connection"))  # set by kproxy
MOST_HEADERS = 50
EXAMPLE = 'write "http://collector:4318"'


class OtlpEndpoint(Options, frozen=True):
    """An OpenTelemetry collector, or a backend that takes OTLP."""

    otlp: Annotated[
        str,
        text(
            "The collector: http://host:port, or https://. Its port is mostly 4318 for http/protobuf and 4317 for grpc. A path "
            "stays before that of OTLP (/v1/traces, /v1/metrics)."
        ),
    ]
    protocol: Annotated[
        Literal["http/protobuf", "grpc"], text('How OTLP is carried. grpc needs: pip install "kproxy-kafka[otlp]".')
    ] = "http/protobuf"
    headers: Annotated[
        dict[str, str],
        text("Headers of each request, such as authorization; withheld wherever kproxy shows its options."),
    ] = msgspec.field(default_factory=dict)
    ca: Annotated[str | None, text("File with the CAs that sign the collector's certificate; null: the system's.")] = (
        None
    )
    timeout: Annotated[Seconds, text("How long one request may take, from connecting to the end of the answer.")] = 10.0


def endpoint_problems(endpoint: OtlpEndpoint) -> Iterator[Problem]:
    """Yield what types do not express: (path below the endpoint, message). No message contains the value of a header."""
    try:
        target_of(endpoint)
    except ValueError as error:
        yield "otlp", str(error)
    if endpoint.ca is not None and endpoint.otlp.startswith("http://"):
        yield "ca", "it has no effect with http://: write https:// or leave it out"
    if len(endpoint.headers) > MOST_HEADERS:
        yield "headers", f"at most {MOST_HEADERS} headers are sent"
    for name, value in endpoint.headers.items():
        if not NAME.fullmatch(name):
            yield "headers", f"{quoted(name)} is not the name of a header"
        elif name.lower() in TAKEN:
            yield f"headers.{name}", "kproxy sets this header itself: leave it out"
        elif endpoint.protocol == "grpc" and name.lower().startswith("grpc-"):
            yield f"headers.{name}", "names that begin with grpc- are gRPC's own: leave it out"
        elif not VALUE.fullmatch(value):
            yield f"headers.{name}", "its value has to be printable ASCII, of at most 8,000 characters"


class Target(NamedTuple):
    """The parts of the URL."""

    tls: bool
    host: str  # without brackets
    port: int
    path: str  # "" or "/…", without a slash at its end


def target_of(endpoint: OtlpEndpoint) -> Target:
    """The parts of the URL. Raises ValueError that says what to write; the URL is not repeated, as it may have a password."""
    url = endpoint.otlp
    match = URL.fullmatch(url)
    if match is not None and 0 < int(match[3]) <= MOST_PORT:
        if endpoint.protocol == "grpc" and match[4].strip("/"):
            raise ValueError("grpc has no path: leave it out")
        return Target(match[1] == "https", match[2].strip("[]"), int(match[3]), match[4].rstrip("/"))
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"it is not the URL of a collector: {EXAMPLE}")
    if "@" in url:
        raise ValueError("it has a user or password in it: send them with headers (authorization)")
    if "?" in url or "#" in url:
        raise ValueError("it has to end after the path: leave out what begins with ? or #")
    raise ValueError(f"it is not http(s)://host:port: {EXAMPLE}, or port 4317 for grpc")
