"""The configuration as typed values; what is written at each becomes the description in its JSON Schema.

Where the type is Seconds a file may say 10, 0.5, "500ms", "10s", "5m" or "1h"; where it is Size, 4096, "64KiB", "16MiB", "1GiB"
or, in powers of ten, "10MB". In memory they are numbers: seconds and bytes.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

UNIT = "x-unit"  # mark of a number that may be written with a unit; schema.py and convert.py look for it

MOST_WORKERS = 256

Seconds = Annotated[float, Meta(gt=0, le=31_536_000, extra_json_schema={UNIT: "seconds"})]
Size = Annotated[int, Meta(ge=1, le=1 << 48, extra_json_schema={UNIT: "bytes"})]
Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Port = Annotated[int, Meta(ge=1, le=65_535)]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of the configuration: a name that is not known is a mistake."""


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
    """Which addresses clients are told."""

    mode: Literal["port", "sni", "transparent", "fixed"] = "port"
    advertise: str | None = None  # host that clients are told; None: the one they came to
    first_port: Port | None = None  # of port mode: of node 0; None: the listening port + 1
    node_ids: list[int | str] = []  # bound before anything is known of the cluster: 0, 1, "100-120"
    broker_name: str | None = None  # of SNI mode: "broker-{node_id}.kafka.example.com"
    allow_link_local: bool = False
    most_brokers: Annotated[int, Meta(ge=1, le=60_000)] = 1_000


class FilterUse(Struct, frozen=True):
    """One filter: what it is and what it is made with."""

    use: str  # dotted path "package.module:Class" or an entry point's name
    with_: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class Cluster(Struct, frozen=True):
    """A virtual cluster: one bootstrap address of ours in front of the brokers of one Kafka cluster."""

    listen: str
    bootstrap: list[str] = []  # may be empty in transparent mode alone
    name: Annotated[str, Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$")] = "default"
    addresses: Addresses = Addresses()
    listener_tls: ListenerTls | None = None
    broker_tls: BrokerTls | None = None
    proxy_protocol: bool = False  # clients' side: connections begin with a PROXY header
    send_proxy_protocol: Literal["v1", "v2"] | None = None
    through: str | None = None  # socks5://... or http://...: how brokers are reached
    filters: list[FilterUse] = []


class Limits(Struct, frozen=True):
    """What all workers together take; sizes in bytes."""

    connections: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    connections_per_address: Count = 0  # 0: as many as all
    connections_per_second: Count = 0  # 0: no limit
    frame_size: Size = 104_857_600  # socket.request.max.bytes of a broker
    unauthenticated_frame_size: Size = 524_288  # sasl.server.max.receive.size
    held_frame_size: Size = 16_777_216  # of frames that a filter wants held whole
    memory: Size = 536_870_912  # buffers, softly: at 0.90 the tap pauses, at 0.98 no client is accepted


class Timeouts(Struct, frozen=True):
    """Seconds."""

    connect: Seconds = 5.0
    first_request: Seconds = 30.0  # from accept to the first whole request header, the TLS handshake included
    frame: Seconds = 60.0  # without progress inside a frame
    idle: Seconds = 720.0  # more than a broker's connections.max.idle.ms
    half_closed: Seconds = 60.0  # idle, after one side has sent its end
    drain: Seconds = 30.0


class Rotated(Struct, frozen=True):
    """A file that is begun anew when it is big or old enough; the parts before get numbers."""

    path: str
    most_size: Size = 104_857_600
    most_age: Seconds = 3_600.0
    keep: Annotated[int, Meta(ge=1, le=100_000)] = 10  # parts, the one being written included


class Analysis(Struct, frozen=True):
    """The tap and what is made of it."""

    enabled: bool = True
    ring_size: Size = 4_194_304
    snaplen: Annotated[int, Meta(ge=0, le=1 << 48, extra_json_schema={UNIT: "bytes"})] = (
        0  # of a frame are tapped; 0: all
    )
    apis: list[str] = []  # names; empty: all
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0  # share of connections
    log: Rotated | None = None
    capture: Rotated | None = None


class Config(Struct, frozen=True):
    """All of it."""

    clusters: Annotated[list[Cluster], Meta(min_length=1, max_length=1_000)]
    admin: str | None = "127.0.0.1:9644"  # null or off: none
    # Names under which it is asked, beside localhost and any IP address; others are refused
    admin_hosts: list[str] = []
    workers: Annotated[int, Meta(ge=1, le=MOST_WORKERS)] = 1
    outlive: bool = False  # asked to stop, serve on until no client is connected: for a sidecar
    logs: Literal["auto", "json", "text"] = "auto"  # on standard error; auto: text on a terminal
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    analysis: Analysis = Analysis()
