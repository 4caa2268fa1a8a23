"""kproxy: what mitmproxy is to HTTP and Wireshark is to packets, for the Kafka wire protocol.

Packages, each above those that import it (extract is apart); the docstring of each says what is in it, and where to add what.

    errors      all exceptions that kproxy raises, one tree
    protocol    what the bytes mean: facts, codec, headers, error codes, special values. No I/O, no clock
    session     one connection as a conversation: framing, pairing, SASL, topic ids, fetch sessions -> events. No I/O, no clock
    schemas     keys and values of records by their schemas: framings, Avro, Protobuf, JSON Schema, registries
    capture     files: pcap and pcapng, link layers, TCP reassembly, TLS with a key log
                -> the byte streams of both directions with their times
    output      events to text lines and trees, the decoded log (JSON lines), captures, tables, metrics
    filters     what can see and change traffic: the contract, the chain, the built-in filters. No I/O, no clock
    pipeline    the engine: byte streams to sessions to events to outputs; one Run, one Output; kproxy.read
    authentication  what clients prove to kproxy: logins that end at the proxy
    config      the configuration of `kproxy run`: the file, its types and its checks
    login       how kproxy logs in to a cluster itself, with credentials that a person gives
    proxy       sockets: workers that forward, the supervisor that starts them, the analyzer that reads the tap
    analyses    answers: analyses in SQL, run by DuckDB; reports
    spark       the same tables and analyses on Spark: a data source, jobs, streams
    replay      the requests of a capture, sent to another cluster; where its answers differ
    manual      the topics of `kproxy help`, as Markdown
    page        what was seen, in a browser: `kproxy open`, and live beside `kproxy run`
    doctor      what is wrong with a set-up
    cli         one module per command: decode, report, sql, open, replay, demo, api, run, check, doctor, filters, help, ...
    testing     for tests of programs that use Kafka: brokers that fail as the test says; a fixture of pytest
    extract     makes the facts file from Kafka's own jars; nothing imports it at run time

Imports go one way: errors <- protocol <- session | schemas <- capture | output | filters <- pipeline <- authentication
<- config | login <- proxy | analyses <- manual <- spark | page | replay | doctor <- cli | testing.

Where to add: a link type, capture; a codec of records, protocol.records; an event, session; an output or a source, pipeline; a
metric or a close cause, proxy.tap; a filter, filters; a setting, config; a command or an option, cli.

In a program of your own:

    import kproxy

    for event in kproxy.read("trace.pcapng"):
        if isinstance(event, kproxy.Exchange):
            ...

``import kproxy`` loads nothing else: ``read`` and the names of events are loaded when they are first used.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it; importing typing would take longer than all else here
if TYPE_CHECKING:
    from kproxy.errors import CaptureError, DecodeError, KproxyError, UsageError
    from kproxy.pipeline.reading import Reader, read
    from kproxy.schemas.settings import SchemaSources
    from kproxy.session import BadFrame, Event, Exchange, Gap, Note, NotKafka, SaslToken, Tls

__version__ = "0.1.0"
COLLECT_AFTER = (200_000, 20, 20)  # thresholds of gc: a decode makes many objects that die young, and nearly no cycles
__all__ = [
    "BadFrame",
    "CaptureError",
    "DecodeError",
    "Event",
    "Exchange",
    "Gap",
    "KproxyError",
    "NotKafka",
    "Note",
    "Reader",
    "SaslToken",
    "SchemaSources",
    "Tls",
    "UsageError",
    "read",
]

_ELSEWHERE = {
    "pipeline.reading": ("Reader", "read"),
    "schemas.settings": ("SchemaSources",),
    "errors": ("CaptureError", "DecodeError", "KproxyError", "UsageError"),
}


def __getattr__(name: str) -> object:
    """Load a public name when it is used first (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'kproxy' has no attribute {name!r}")
    module = next((where for where, names in _ELSEWHERE.items() if name in names), "session")
    found: object = getattr(import_module(f"kproxy.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
