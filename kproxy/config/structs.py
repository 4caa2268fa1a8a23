"""The configuration as typed values; the docstring of each struct is its description in the JSON Schema.

A file may write Seconds as 10, 0.5, "500ms", "10s", "5m" or "1h", and a Size as 4096, "64KiB", "16MiB", "1GiB" or, in powers of
ten, "10MB". In memory both are numbers: seconds and bytes.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kproxy.protocol.frames import FRAME_LIMIT

UNIT = "x-unit"  # marks a number that may be written with a unit, for schema.py and convert.py

MOST_WORKERS = 256

Seconds = Annotated[float, Meta(gt=0, le=31_536_000, extra_json_schema={UNIT: "seconds"})]
Size = Annotated[int, Meta(ge=1, le=1 << 48, extra_json_schema={UNIT: "bytes"})]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Port = Annotated[int, Meta(ge=1, le=65_535)]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of the configuration; an unknown name is a mistake."""


class ListenerTls(Struct, frozen=True):
    """TLS towards clients; files are PEM."""

    certificate: str
    key: str
    client_ca: str | None = None
    client_auth: Literal["none", "requested", "required"] = "none"


class BrokerTls(Struct, frozen=True):
    """TLS towards brokers."""

    ca: str | None = None  # None: the system's
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None  # for SNI and verification; None: the broker's host
    verify: bool = True


class Addresses(Struct, frozen=True):
    """Which addresses of brokers are advertised to clients."""

    mode: Literal["port", "sni", "transparent", "fixed"] = "port"
    advertise: str | None = None  # host to advertise; None: the one the client connected to
    first_port: Port | None = None  # port mode: the port of node 0; None: the listening port + 1
    node_ids: list[int | str] = []  # bound at the start, before any Metadata was received: 0, 1, "100-120"
    broker_name: str | None = None  # SNI mode: "broker-{node_id}.kafka.example.com"
    allow_link_local: bool = False
    most_brokers: Annotated[int, Meta(ge=1, le=60_000)] = 1_000


class FilterUse(Struct, frozen=True):
    """One filter: its class and its settings."""

    use: str  # "package.module:Class", or the name of an entry point
    with_: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class Cluster(Struct, frozen=True):
    """A virtual cluster: one bootstrap address of kproxy in front of the brokers of one Kafka cluster."""

    listen: str
    bootstrap: list[str] = []  # may be empty only in transparent mode
    name: Annotated[str, Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$")] = "default"
    addresses: Addresses = Addresses()
    listener_tls: ListenerTls | None = None
    broker_tls: BrokerTls | None = None
    proxy_protocol: bool = False  # connections of clients begin with a PROXY header
    send_proxy_protocol: Literal["v1", "v2"] | None = None
    through: str | None = None  # socks5://... or http://...: the proxy that connections to brokers go through
    filters: list[FilterUse] = []


class Limits(Struct, frozen=True):
    """Limits of all workers together; sizes in bytes."""

    connections: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    connections_per_address: Count = 0  # 0: no limit but connections
    connections_per_second: Count = 0  # 0: no limit
    frame_size: Size = FRAME_LIMIT
    unauthenticated_frame_size: Size = 524_288  # sasl.server.max.receive.size
    held_frame_size: Size = 16_777_216  # largest frame that is held whole for a filter
    memory: Size = 536_870_912  # of buffers, a soft bound: at 0.90 the tap pauses, at 0.98 no client is accepted


class Timeouts(Struct, frozen=True):
    """Timeouts of connections, and of the end, in seconds."""

    connect: Seconds = 5.0
    first_request: Seconds = 30.0  # from accept to the first whole request header, including the TLS handshake
    frame: Seconds = 60.0  # without progress inside a frame
    idle: Seconds = 720.0  # more than a broker's connections.max.idle.ms
    half_closed: Seconds = 60.0  # idle, after one side has ended its direction
    drain: Seconds = 30.0  # after SIGTERM, until the requests in flight are answered


class Rotated(Struct, frozen=True):
    """A file that is rotated by size and age; older parts get numbers."""

    path: str
    most_size: Size = 100 * 1024 * 1024
    most_age: Seconds = 3_600.0
    keep: Annotated[int, Meta(ge=1, le=100_000)] = 10  # number of parts, including the one being written


class Analysis(Struct, frozen=True):
    """The tap, and what the analyzer writes from it."""

    enabled: bool = True
    ring_size: Size = 4_194_304
    snaplen: Annotated[int, Meta(ge=0, le=1 << 48, extra_json_schema={UNIT: "bytes"})] = (
        0  # bytes of each frame that are tapped; 0: all
    )
    apis: list[str] = []  # names of APIs to analyze; empty: all
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0  # share of the connections that is analyzed
    log: Rotated | None = None
    capture: Rotated | None = None


class Config(Struct, frozen=True):
    """The whole configuration."""

    clusters: Annotated[list[Cluster], Meta(min_length=1, max_length=1_000)]
    admin: str | None = "127.0.0.1:9644"  # null or off: no admin server
    # Host names that the admin server answers to, besides localhost and IP addresses; requests with another Host are refused
    admin_hosts: list[str] = []
    workers: Annotated[int, Meta(ge=1, le=MOST_WORKERS)] = 1
    outlive: bool = False  # when stopped, serve until no client is connected: for a sidecar
    logs: Literal["auto", "json", "text"] = "auto"  # on standard error; auto: text on a terminal
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    analysis: Analysis = Analysis()
