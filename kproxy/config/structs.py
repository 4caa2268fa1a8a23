"""The configuration as typed values; docstrings and ``text(...)`` are the descriptions in the JSON Schema.

A file may write Seconds as 10, 0.5, "500ms", "10s", "5m" or "1h", and a Size as 4096, "64KiB", "16MiB", "1GiB" or, in powers of
ten, "10MB". In memory both are numbers: seconds and bytes.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kproxy.encryption.services.vault import PATH, VaultServer
from kproxy.options import UNIT, Count, OtlpEndpoint, Rotated, Seconds, Size, text
from kproxy.protocol.constants import FRAME_LIMIT
from kproxy.schemas.settings import SchemaSources
from kproxy.secrets import REFERENCE, VAULT_REFERENCE

MOST_WORKERS = 256

Port = Annotated[int, Meta(ge=1, le=65_535)]


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of the configuration; an unknown name is a mistake."""


class ListenerTls(Struct, frozen=True):
    """TLS towards clients; files are PEM."""

    certificate: Annotated[str, text("File with the certificate that clients are shown, and its chain.")]
    key: Annotated[str, text("File with the private key of the certificate, without a password.")]
    client_ca: Annotated[str | None, text("File with the CAs that sign clients' certificates.")] = None
    client_auth: Annotated[
        Literal["none", "requested", "required"],
        text("Whether a client is asked for a certificate, or refused without one."),
    ] = "none"


class BrokerTls(Struct, frozen=True):
    """TLS towards brokers."""

    ca: Annotated[str | None, text("File with the CAs that sign brokers' certificates; null: the system's.")] = None
    certificate: Annotated[str | None, text("File with the certificate that brokers are shown; needs key.")] = None
    key: Annotated[str | None, text("File with the private key of the certificate, without a password.")] = None
    server_name: Annotated[
        str | None,
        text("Name sent to brokers (SNI) and expected in their certificates; null: the host of each broker."),
    ] = None
    verify: Annotated[bool, text("Whether brokers' certificates are verified. false is for tests.")] = True


class Tokens(Struct, frozen=True):
    """Which tokens of OAUTHBEARER are believed: signed ones (JWT) of one identity provider."""

    issuer: Annotated[str, Meta(min_length=1), text("The claim iss, exactly.")]
    audience: Annotated[
        list[str], Meta(min_length=1), text("The token has to be for one of these (claim aud): it names this cluster.")
    ]
    keys_url: Annotated[
        str | None, text("Where the identity provider has its public keys (JWKS): https, or http on this machine.")
    ] = None
    keys_file: Annotated[str | None, text("File with the public keys (JWKS), instead; read again when it changes.")] = (
        None
    )
    ca: Annotated[str | None, text("File with the CAs that sign the certificate at keys_url; null: the system's.")] = (
        None
    )
    scope: Annotated[list[str], text("Scopes that a token has to have (claim scope or scp), all of them.")] = []
    principal_claim: Annotated[str, Meta(min_length=1), text("The claim that names the principal.")] = "sub"
    groups_claim: Annotated[str | None, text("The claim with the groups of the principal; null: it has none.")] = None
    clock_skew: Annotated[Seconds, text("How far the clocks of both may differ.")] = 30.0


class Kerberos(Struct, frozen=True):
    """The service that clients of GSSAPI get tickets for, and their names. krb5.conf is that of this machine."""

    keytab: Annotated[
        str, text("File with the keys of the service for each name that clients connect to: kafka/kproxy.example.com.")
    ]
    service: Annotated[str, Meta(min_length=1), text("Name of the service: clients' sasl.kerberos.service.name.")] = (
        "kafka"
    )
    principal_rules: Annotated[
        str,
        text(
            "Rules that give a principal its short name, as sasl.kerberos.principal.to.local.rules of Kafka: "
            '"RULE:[1:$1@$0](.*@CORP)s/@.*//,DEFAULT". A client without a name by them is refused.'
        ),
    ] = "DEFAULT"


class Authentication(Struct, frozen=True):
    """How clients log in to kproxy; nothing of a client reaches a broker before."""

    mechanisms: Annotated[
        list[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]],
        text(
            "The SASL mechanisms that clients may choose. PLAIN and OAUTHBEARER need listener_tls, or plain_without_tls."
        ),
    ] = []
    certificates: Annotated[
        str | None,
        text(
            "Rules that give a client the name of its TLS certificate, as ssl.principal.mapping.rules of Kafka: "
            '"RULE:^CN=(.*?),.*$/$1/L,DEFAULT". A client with such a name needs no SASL; null: certificates give no name.'
        ),
    ] = None
    users: Annotated[
        str | None, text("File of the users of PLAIN and SCRAM, made by `kproxy users`; read again when it changes.")
    ] = None
    tokens: Annotated[
        Tokens | None, text('The tokens of OAUTHBEARER. Needs: pip install "kproxy-kafka[identities]".')
    ] = None
    kerberos: Annotated[Kerberos | None, text('Kerberos of GSSAPI. Needs: pip install "kproxy-kafka[gssapi]".')] = None
    plain_without_tls: Annotated[
        bool,
        text(
            "Whether PLAIN and OAUTHBEARER are offered without listener_tls: secrets then cross the network unencrypted."
        ),
    ] = False
    session: Annotated[
        float,
        Meta(ge=0, le=31_536_000, extra_json_schema={UNIT: "seconds"}),
        text("A client has to log in again after so long (KIP-368); 0: only when its token ends."),
    ] = 0
    failure_delay: Annotated[
        Seconds, text("A failed login is answered so long after it came, whatever was wrong with it.")
    ] = 0.5
    failures_per_address: Annotated[
        Count,
        text(
            "Failed logins of an IP address; one is given back every second. Then its logins are refused unread. "
            "0: no limit, where clients come through a load balancer without proxy_protocol."
        ),
    ] = 50
    failures_per_user: Annotated[
        Count,
        text(
            "The same of a user. Then the user is refused from addresses where it has not logged in before; 0: no limit."
        ),
    ] = 100
    broker_users: Annotated[
        Literal["hide", "pass"],
        text(
            "Requests about the brokers' own users: SCRAM credentials, delegation tokens. hide: not offered and refused, as they "
            "say nothing about who may log in here. pass: forwarded."
        ),
    ] = "hide"


PRINCIPAL = "{principal}"
Username = Annotated[str, Meta(min_length=1, max_length=1_000)]
Secret = Annotated[str, Meta(extra_json_schema={"pattern": f"{REFERENCE}|{VAULT_REFERENCE}"})]
WHERE = (
    'Where it is: "file:PATH", read again at each login (a line end at its end does not count), "env:NAME", an environment '
    'variable, or "vault:PATH#FIELD", in login.vault. Never the secret itself.'
)


class Identity(Struct, frozen=True):
    """As whom kproxy logs in to brokers for one client."""

    username: Annotated[Username, text("Name of the user.")]
    password: Annotated[Secret, text(f"The password. {WHERE}")]


class TokenEndpoint(Struct, frozen=True):
    """The token endpoint of an identity provider (OAuth 2.0)."""

    url: Annotated[str, text("Its address, https.")]
    client_id: Annotated[str | None, text("Name of this client at the identity provider.")] = None
    client_secret: Annotated[Secret | None, text(f"Its secret, sent as HTTP Basic authentication. {WHERE}")] = None
    scope: Annotated[str | None, text("Scopes to ask for, with spaces between.")] = None
    audience: Annotated[str | None, text("For whom the token is.")] = None
    subject_token: Annotated[
        Secret | None,
        text(f"A token to exchange for that of the brokers (RFC 8693), as a service account's of Kubernetes. {WHERE}"),
    ] = None
    subject_token_type: Annotated[str | None, text("The type of subject_token, a URN of RFC 8693; null: a JWT.")] = None
    ca: Annotated[str | None, text("File with the CAs of the endpoint's certificate; null: the system's.")] = None


class VaultSecrets(VaultServer, frozen=True):
    """The key-value engine of Vault or OpenBao, where secrets of a login are: "vault:PATH#FIELD"."""

    mount: Annotated[str, Meta(pattern=f"^{PATH.pattern}$"), text("Where the engine is mounted.")] = "secret"
    engine: Annotated[Literal["v1", "v2"], text("The version of the engine.")] = "v2"


class Login(Struct, frozen=True):
    """What kproxy proves to brokers (SASL), for all its connections to them. Clients then do not log in to brokers."""

    mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"],
        text(
            'The SASL mechanism. AWS_MSK_IAM: OAUTHBEARER with a token of AWS; needs: pip install "kproxy-kafka[aws]". '
            'GSSAPI: Kerberos; needs: pip install "kproxy-kafka[gssapi]".'
        ),
    ]
    username: Annotated[
        Username | None,
        text(
            "Name of the user; of GSSAPI, the principal. {principal} in it stands for the name of the client, as kproxy has "
            "authenticated it."
        ),
    ] = None
    password: Annotated[
        Secret | None,
        text(
            "The password; of OAUTHBEARER, the token; of GSSAPI, the keytab, always a file. {principal} in it stands for the "
            f"name of the client. {WHERE}"
        ),
    ] = None
    principals: Annotated[
        dict[str, Identity],
        text("By the name of a client: as whom kproxy logs in for it. Others: username and password, or refused."),
    ] = {}
    token: Annotated[
        TokenEndpoint | None,
        text('OAUTHBEARER: where tokens are fetched. Needs: pip install "kproxy-kafka[identities]".'),
    ] = None
    extensions: Annotated[
        dict[str, str], text("OAUTHBEARER: SASL extensions that the brokers want, as logicalCluster (KIP-342).")
    ] = {}
    region: Annotated[str | None, text("AWS_MSK_IAM: the region of the cluster.")] = None
    service: Annotated[
        str | None, text("GSSAPI: name of the brokers' service (sasl.kerberos.service.name); null: kafka.")
    ] = None
    vault: Annotated[
        VaultSecrets | None,
        text('Where "vault:PATH#FIELD" leads. Needs: pip install "kproxy-kafka[vault]".'),
    ] = None
    cleartext: Annotated[
        bool, text("Whether a password (PLAIN) or a token may be sent without TLS. SCRAM does not send the password.")
    ] = False


class Addresses(Struct, frozen=True):
    """Which addresses of brokers are advertised to clients."""

    mode: Annotated[
        Literal["port", "sni", "transparent", "fixed"],
        text(
            "How a client's connection leads to a broker. port: a port for each broker. sni: one port, and a name for each "
            "broker in the TLS handshake. transparent: the address that the client had before the kernel redirected it, nothing "
            "is rewritten. fixed: always bootstrap, nothing is rewritten."
        ),
    ] = "port"
    advertise: Annotated[
        str | None,
        text(
            "Port mode: the host advertised to clients; with {node_id} in it each broker has its own, as "
            '"broker-{node_id}.kafka.example.com". null: the host that the client connected to.'
        ),
    ] = None
    advertise_port: Annotated[
        Port | None,
        text(
            "The port advertised to clients, where a load balancer or NodePort in front has another than kproxy listens on. Port "
            "mode: that of node 0, the node id is added; the same for all brokers if advertise has {node_id}. SNI mode: that of "
            "all brokers. null: the port on which kproxy serves the broker."
        ),
    ] = None
    advertise_brokers: Annotated[
        dict[str, str],
        text('Node id to the "host:port" advertised to clients for this broker, before all other rules.'),
    ] = {}
    first_port: Annotated[
        Port | None, text("Port mode: the port on which node 0 is served; null: the port of listen + 1.")
    ] = None
    node_ids: Annotated[
        list[int | str],
        text('Nodes whose ports are bound at the start, before any Metadata was received: 0, 1, "100-120".'),
    ] = []
    broker_name: Annotated[
        str | None, text('SNI mode: the name of each broker, as "broker-{node_id}.kafka.example.com".')
    ] = None
    allow_link_local: Annotated[
        bool, text("Whether a broker may have a link-local address (169.254.0.0/16, fe80::/10).")
    ] = False
    most_brokers: Annotated[int, Meta(ge=1, le=60_000), text("Brokers beyond this number are not served.")] = 1_000


class FilterUse(Struct, frozen=True):
    """One filter: its class and its settings."""

    use: Annotated[str, text('"package.module:Class", or the name of an entry point of the group kproxy.filters.')]
    with_: Annotated[dict[str, Any], text("The arguments of the class, by name.")] = msgspec.field(
        default_factory=dict, name="with"
    )


class Cluster(Struct, frozen=True):
    """A virtual cluster: one bootstrap address of kproxy in front of the brokers of one Kafka cluster."""

    listen: Annotated[
        str,
        text(
            'The bootstrap address for clients, "host:port". ":port": all IPv6 and IPv4 addresses. "0.0.0.0:port": all IPv4 '
            'addresses. "[::]:port": all IPv6 addresses, and IPv4 too unless net.ipv6.bindv6only is set.'
        ),
    ]
    bootstrap: Annotated[list[str], text('Brokers of the cluster, "host:port"; empty only in transparent mode.')] = []
    name: Annotated[
        str,
        Meta(min_length=1, max_length=100, pattern="^[A-Za-z0-9_-][A-Za-z0-9._-]*$"),
        text("Name of the cluster in logs and outputs; each has its own."),
    ] = "default"
    addresses: Annotated[Addresses, text("Which addresses of brokers are advertised to clients.")] = Addresses()
    listener_tls: Annotated[ListenerTls | None, text("TLS towards clients; null: plain.")] = None
    broker_tls: Annotated[BrokerTls | None, text("TLS towards brokers; null: plain.")] = None
    authentication: Annotated[
        Authentication | None,
        text("How clients log in to kproxy; null: they do not, and logins at brokers pass through."),
    ] = None
    login: Annotated[
        Login | None, text("What kproxy proves to brokers (SASL); null: clients log in to brokers through kproxy.")
    ] = None
    proxy_protocol: Annotated[
        bool, text("Whether connections of clients begin with a PROXY header (v1 or v2), from a load balancer.")
    ] = False
    send_proxy_protocol: Annotated[
        Literal["v1", "v2"] | None,
        text("Version of the PROXY header that connections to brokers begin with; null: none."),
    ] = None
    through: Annotated[
        str | None,
        text(
            'The proxy on the way to brokers: "socks5://host:port" or "http://host:port", with user:password@ if needed.'
        ),
    ] = None
    filters: Annotated[
        list[FilterUse], text("Filters that see or change traffic, in the order in which they see requests.")
    ] = []


NEARLY_ALL = 0.9  # of limits.connections: where files are enough for fewer clients, kproxy says so


class Limits(Struct, frozen=True):
    """Limits: of clients, over all workers together; of single frames; of memory, in each worker. Sizes in bytes."""

    connections: Annotated[int, Meta(ge=1, le=10_000_000), text("Clients connected at a time, over all workers.")] = (
        10_000
    )
    connections_per_address: Annotated[
        Count, text("Clients connected at a time from one IP address, over all workers; 0: no limit but connections.")
    ] = 0
    connections_per_second: Annotated[Count, text("Clients accepted in a second, over all workers; 0: no limit.")] = 0
    frame_size: Annotated[Size, text("Largest frame; a larger one closes its connection.")] = FRAME_LIMIT
    # sasl.server.max.receive.size
    unauthenticated_frame_size: Annotated[Size, text("Largest frame of a client that has yet to log in (SASL).")] = (
        524_288
    )
    held_frame_size: Annotated[Size, text("Largest frame that is held whole for a filter.")] = 16_777_216
    memory: Annotated[
        Size,
        text(
            "Memory of all buffers in each worker (so that all together may use workers times as much), and 64 KiB for each "
            "connection. Above 0.90 of it the worker's tap pauses, above 0.98 the worker accepts no client, at 1.0 frames that "
            "are held wait, and the connection with most may be closed (memory)."
        ),
    ] = 536_870_912


class Timeouts(Struct, frozen=True):
    """Timeouts of connections, and of the end, in seconds."""

    connect: Annotated[Seconds, text("To connect to a broker.")] = 5.0
    first_request: Annotated[
        Seconds, text("From accept to the first whole request header, the TLS handshake included.")
    ] = 30.0
    frame: Annotated[Seconds, text("Without progress inside a frame.")] = 60.0
    # more than a broker's connections.max.idle.ms
    idle: Annotated[Seconds, text("Without any byte; should be more than the brokers' connections.max.idle.ms.")] = (
        720.0
    )
    half_closed: Annotated[Seconds, text("Without any byte, after one side has ended its direction.")] = 60.0
    drain: Annotated[Seconds, text("After SIGTERM, until the requests in flight are answered.")] = 30.0


class Analysis(Struct, frozen=True):
    """The tap, and what the analyzer writes from it."""

    enabled: Annotated[bool, text("Whether traffic is analyzed; false: forward only. Changed by a restart alone.")] = (
        True
    )
    ring_size: Annotated[
        Size, text("Shared memory between each worker and the analyzer, 64KiB to 1GiB. Changed by a restart alone.")
    ] = 4_194_304
    snaplen: Annotated[
        int,
        Meta(ge=0, le=1 << 48, extra_json_schema={UNIT: "bytes"}),
        text("Bytes of each frame that are analyzed; 0: all."),
    ] = 0
    apis: Annotated[list[str], text("Names of the APIs to analyze; empty: all.")] = msgspec.field(
        default_factory=list, name="api_name"
    )
    sample: Annotated[float, Meta(ge=0, le=1), text("Share of the connections that is analyzed.")] = 1.0
    log: Annotated[Rotated | None, text("The decoded log, JSON lines; null: none.")] = None
    records: Annotated[
        bool,
        text(
            "Whether the decoded log has keys, values and headers of records, by their schemas where schemas has them."
        ),
    ] = False
    capture: Annotated[Rotated | None, text("A capture of the decrypted traffic, pcapng; null: none.")] = None


class Metrics(Struct, frozen=True):
    """Series of /metrics by names from traffic: client ids, client software, topics, groups."""

    series: Annotated[
        int,
        Meta(ge=1, le=1_000),
        text(
            "Series of each metric, at most. Names that send most keep one of their own; all others share the name __other__."
        ),
    ] = 1_000
    idle: Annotated[Seconds, text("A name that sent nothing for so long has no series any more.")] = 3_600.0


class Traces(OtlpEndpoint, frozen=True):
    """Exchanges as spans of OpenTelemetry, exported by the analyzer."""

    sample: Annotated[
        float,
        Meta(ge=0, le=1),
        text(
            "Share of the exchanges that are exported. A Produce request whose records carry a trace context (traceparent, b3) "
            "is exported if the client has sampled that trace."
        ),
    ] = 0.01
    apis: Annotated[
        list[str], text("Names of the APIs whose exchanges are exported; empty: all that are analyzed.")
    ] = msgspec.field(default_factory=list, name="api_name")
    service_name: Annotated[str, Meta(min_length=1, max_length=255), text("service.name of the spans.")] = "kproxy"


class Spill(Struct, frozen=True):
    """Where the page keeps older exchanges: on disk."""

    directory: Annotated[
        str,
        text(
            "Directory for files without a name, which are gone when the page's process ends, however it does. They hold "
            "what clients sent and got, credentials withheld."
        ),
    ]
    most_size: Annotated[
        Size, text("Bytes of these files; then the oldest exchanges leave, and when the disk is full.")
    ] = 4 * 1024 * 1024 * 1024


class Page(Struct, frozen=True):
    """The page in the browser, at the address of admin."""

    edits: Annotated[
        bool,
        text(
            "Whether a person who has the address of the page may set breakpoints in it: stop requests and responses, "
            "change them, answer them with an error, or drop them. For tests: it changes what clients see."
        ),
    ] = False
    records: Annotated[
        bool,
        text(
            "Whether the page shows keys, values and headers of records. Without it they are withheld, from stopped messages "
            "and from exported packets too. Taken when the page's process starts."
        ),
    ] = False
    hold: Annotated[
        Annotated[float, Meta(gt=0, le=300, extra_json_schema={UNIT: "seconds"})],
        text(
            "A message that is stopped goes on by itself after so long. Its connection waits; in the page more time can "
            "be asked for."
        ),
    ] = 5.0
    most_stops: Annotated[
        int, Meta(ge=1, le=10_000), text("Messages stopped at a time in each worker; others pass.")
    ] = 1_000
    most_stopped_size: Annotated[Size, text("Bytes of all messages stopped at a time in each worker; others pass.")] = (
        67_108_864
    )
    away: Annotated[
        Seconds, text("Breakpoints are removed when no page has asked for what is stopped for so long.")
    ] = 30.0
    past: Annotated[
        Annotated[int, Meta(ge=0, le=1_073_741_824, extra_json_schema={UNIT: "bytes"})],
        text(
            "Bytes of the last exchanges that are kept, from the first request on, for a page that no browser has opened yet; a "
            "quarter of them is for groups and transactions. Only where the page's packages are installed. 0: none."
        ),
    ] = 4_194_304
    memory: Annotated[
        Size,
        text(
            "Memory for exchanges while a browser is there, at least 16MiB; then the oldest leave, or go to spill. Like spill, "
            "taken when the page's process starts: with the first browser."
        ),
    ] = 268_435_456
    spill: Annotated[Spill | None, text("Where exchanges go that do not fit into memory; without it they leave.")] = (
        None
    )


class Config(Struct, frozen=True):
    """The whole configuration."""

    clusters: Annotated[list[Cluster], Meta(min_length=1, max_length=1_000), text("The virtual clusters.")]
    admin: Annotated[
        str | None,
        text("Address of the admin server (/metrics, /healthz, /readyz, /connections, /config); null or off: none."),
    ] = "127.0.0.1:9644"
    admin_hosts: Annotated[
        list[str],
        text(
            "Host names that the admin server answers to, besides localhost and IP addresses; requests with another Host are "
            "refused."
        ),
    ] = []
    workers: Annotated[int, Meta(ge=1, le=MOST_WORKERS), text("Processes that forward; they share the ports.")] = 1
    outlive: Annotated[bool, text("When stopped, serve until no client is connected: for a sidecar.")] = False
    logs: Annotated[
        Literal["auto", "json", "text"], text("Style of the log on standard error; auto: text on a terminal.")
    ] = "auto"
    limits: Annotated[Limits, text("Limits: of clients over all workers together, of memory in each worker.")] = (
        Limits()
    )
    timeouts: Annotated[Timeouts, text("Timeouts of connections, and of the end.")] = Timeouts()
    analysis: Annotated[Analysis, text("The tap, and what the analyzer writes from it.")] = Analysis()
    metrics: Annotated[Metrics, text("Series of /metrics by names from traffic.")] = Metrics()
    schemas: Annotated[
        SchemaSources,
        text(
            "Where schemas of keys and values come from: for the page (taken when its process starts), the decoded log, and "
            'filters. Needs: pip install "kproxy-kafka[schemas]".'
        ),
    ] = SchemaSources()
    page: Annotated[Page, text("The page in the browser, at the address of admin.")] = Page()
    traces: Annotated[
        Traces | None,
        text('Exchanges as spans, exported over OTLP; null: none. Needs: pip install "kproxy-kafka[otlp]".'),
    ] = None
