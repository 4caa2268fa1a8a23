"""What `kproxy run` is told: the configuration file and its command-line twin, as typed values."""

from typing import Any, Literal

import msgspec


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of the configuration: a name that is not known is a mistake."""


class ListenerTls(Struct):
    """TLS towards clients; files are PEM."""

    certificate: str
    key: str
    client_ca: str | None = None
    client_auth: Literal["none", "requested", "required"] = "none"


class BrokerTls(Struct):
    """TLS towards brokers."""

    ca: str | None = None  # None: the system's
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None  # for SNI and verification; None: the broker's host
    verify: bool = True


class Addresses(Struct):
    """Which addresses clients are told."""

    mode: Literal["port", "sni", "transparent", "fixed"] = "port"
    advertise: str | None = None  # host that clients are told; None: the one they came to
    first_port: int | None = None  # of port mode: of node 0; None: the listening port + 1
    node_ids: list[int | str] = []  # bound before anything is known of the cluster: 0, 1, "100-120"
    broker_name: str | None = None  # of SNI mode: "broker-{node_id}.kafka.example.com"
    allow_link_local: bool = False
    most_brokers: int = 1_000


class FilterUse(Struct):
    """One filter: what it is and what it is made with."""

    use: str  # dotted path "package.module:Class" or an entry point's name
    with_: dict[str, Any] = msgspec.field(default_factory=dict, name="with")


class Cluster(Struct):
    """A virtual cluster: one bootstrap address of ours in front of the brokers of one Kafka cluster."""

    listen: str
    bootstrap: list[str] = []  # may be empty in transparent mode alone
    name: str = "default"
    addresses: Addresses = Addresses()
    listener_tls: ListenerTls | None = None
    broker_tls: BrokerTls | None = None
    proxy_protocol: bool = False  # clients' side: connections begin with a PROXY header
    send_proxy_protocol: Literal["v1", "v2"] | None = None
    through: str | None = None  # socks5://... or http://...: how brokers are reached
    filters: list[FilterUse] = []


class Limits(Struct):
    """What all workers together take; sizes in bytes."""

    connections: int = 10_000
    connections_per_address: int = 0  # 0: as many as all
    connections_per_second: int = 0  # 0: no limit
    frame_size: int = 104_857_600  # socket.request.max.bytes of a broker
    unauthenticated_frame_size: int = 524_288  # sasl.server.max.receive.size
    held_frame_size: int = 16_777_216  # of frames that a filter wants whole
    memory: int = 536_870_912  # buffers of a worker; at 0.90 the tap pauses, at 0.98 nothing is accepted


class Timeouts(Struct):
    """Seconds."""

    connect: float = 5.0
    first_request: float = 30.0  # from accept to the first whole request header, the TLS handshake included
    frame: float = 60.0  # without progress inside a frame
    idle: float = 720.0  # more than a broker's connections.max.idle.ms
    half_closed: float = 60.0
    drain: float = 30.0


class Rotated(Struct):
    """A file that is begun anew when it is big or old enough; the parts before get numbers."""

    path: str
    most_size: int = 104_857_600
    most_age: float = 3_600.0  # seconds
    keep: int = 10  # parts, the one being written included


class Analysis(Struct):
    """The tap and what is made of it."""

    enabled: bool = True
    ring_size: int = 8_388_608
    snaplen: int = 0  # bytes of a frame that are tapped; 0: all
    apis: list[str] = []  # names; empty: all
    sample: float = 1.0  # share of connections
    log: Rotated | None = None
    capture: Rotated | None = None


class Config(Struct):
    """All of it."""

    clusters: list[Cluster]
    admin: str | None = "127.0.0.1:9644"
    workers: int = 1
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    analysis: Analysis = Analysis()
