"""The tables: every column of each, with its type, its unit and what it means. What analyses are written against.

A contract has a version. A column that is added does not change it; one that is renamed, removed, or comes to mean or hold
something else makes it one higher. Files carry the version in their metadata (``kproxy.contract``), columns their meaning.

Types are Arrow's, as pyarrow prints them. Times are microseconds, because neither Spark nor DuckDB has a finer one with a
time zone; one before 1900 or after 9999 is null, because Spark reads no column that has one; ``latency_ms`` is computed
from nanoseconds. "Null" without more means: not seen, or the version has no such field.
Not here: credentials, and values of configurations, which are in no table; bodies as JSON only where they are asked for.
"""

from dataclasses import dataclass

TIME = "timestamp[us, tz=UTC]"
TIME_MS = "timestamp[ms, tz=UTC]"
TEXTS = "list<string>"
FROM_CONNECTIONS = "connections.connection_id"


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One table; ``row`` says what a row is."""

    name: str
    version: int
    row: str
    columns: tuple[Column, ...]
    optional: bool = False  # written only when asked for


def _always(name: str, kind: str, meaning: str, unit: str = "") -> Column:
    return Column(name, kind, meaning, unit, nullable=False)


CONNECTIONS = Table(
    "connections",
    1,
    "a TCP connection on which something was seen that is Kafka, may have been, or certainly is not",
    (
        _always(
            "connection_id", "string", "what the other tables know it by; the same whenever the same bytes are read"
        ),
        _always("connection", "int64", "its number in the decoded log of the same run"),
        _always("capture", "string", "base name of the capture"),
        _always("client_address", "string", "who opened the connection; an IPv6 address without brackets"),
        _always("client_port", "int32", "its port"),
        _always("broker_address", "string", "the other side"),
        _always("broker_port", "int32", "its port"),
        Column("first_seen_at", TIME, "first byte of the first frame"),
        Column("last_seen_at", TIME, "last byte of the last frame"),
        Column("client_software_name", "string", "as ApiVersions v3 and later names it (KIP-511)"),
        Column("client_software_version", "string", "likewise"),
        _always("client_ids", TEXTS, "client ids of its requests, at most 16, in the order in which they came"),
        Column(
            "sasl_mechanism",
            "string",
            "as SaslHandshake names it; GSSAPI for a client of 0.9 that begins with its token",
        ),
        Column("user_name", "string", "the user that PLAIN or SCRAM named, whether it was let in or not"),
        Column("tls_version", "string", '"TLS 1.3"; null in the clear'),
        Column("tls_cipher_suite", "string", "IANA's name"),
        Column("tls_server_name", "string", "SNI: whom the client wants to talk to"),
        Column("tls_client_certificate", "string", "its subject (RFC 4514)"),
        Column("tls_decrypted", "bool", "whether the keys were there; null in the clear"),
        _always("requests", "int64", "requests seen"),
        _always("responses", "int64", "responses seen"),
        _always("request_bytes", "int64", "of the requests seen, size fields included", "bytes"),
        _always("response_bytes", "int64", "of the responses seen, size fields included", "bytes"),
        _always("unanswered", "int64", "requests without the response that was due"),
        _always("undecoded", "int64", "exchanges in which something could not be read"),
        _always("errors", "int64", "exchanges with an error code"),
        _always("gaps", "int64", "places where bytes are missing, or were passed over until a plausible frame"),
        _always("missing_bytes", "int64", "known to be missing", "bytes"),
        _always("skipped_bytes", "int64", "that came and were passed over", "bytes"),
        _always("bad_frames", "int64", "frames that no peer would accept"),
        Column("not_kafka", "string", "tls, http, ssh, unknown: what it is instead of Kafka in the clear; else null"),
        Column("closed_by", "string", "client or broker: who closed or reset it first"),
        Column("closed", "string", "finished, reset, reused, evicted, or end of capture"),
    ),
)

EXCHANGES = Table(
    "exchanges",
    1,
    "a request and its response; either may be missing",
    (
        # who, when, what
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("exchange", "int64", "which one of its connection, from 1, in the order in which they were complete"),
        Column("request_at", TIME, "first byte of the request"),
        Column("response_at", TIME, "last byte of the response"),
        Column("latency_ms", "double", "from one to the other; null where the response has no end", "ms"),
        Column("api_key", "int16", "null for a response whose request was not seen"),
        Column("api_name", "string", "Kafka's name of the API; null for one that no known release has"),
        Column("api_version", "int16", "as the request header has it"),
        Column("correlation_id", "int32", "as the headers have it"),
        Column("client_id", "string", "as the request header has it"),
        Column("request_size", "int64", "on the wire, size field included", "bytes"),
        Column("response_size", "int64", "likewise", "bytes"),
        _always("expects_response", "bool", "false for Produce with acks=0"),
        Column("unanswered", "string", "why there is no response although one was due, in words"),
        Column("undecoded", "string", "why something in it could not be read, in words"),
        Column("layout", "string", "the release of an older layout, where a version was changed in place"),
        Column("assumed_version", "int16", "the newest known version, where a newer one was read as it"),
        Column(
            "bodies",
            "string",
            "why a body is not here to its end, in words; what bodies hold is then null, sizes and times are those of the wire",
        ),
        Column("request_trailing_bytes", "int64", "after the request's message, where there are any", "bytes"),
        Column("response_trailing_bytes", "int64", "after the response's message, likewise", "bytes"),
        # what both bodies hold, anywhere in them
        _always(
            "error_codes", "list<int16>", "the different error codes in the response that are not 0, in their order"
        ),
        Column("error_name", "string", "Kafka's name of the first of them"),
        _always(
            "topics",
            TEXTS,
            "topics in the request and in the response (Metadata: in the request only); a topic's id "
            "where its name was not seen",
        ),
        Column("partitions", "int32", "partitions under the topics of the request; of the response where it has none"),
        _always("groups", TEXTS, "groups in the request"),
        Column("group_id", "string", "the first of groups"),
        Column("transactional_id", "string", "the first one in the request"),
        # fields of the request and the response, at their top
        Column("member_id", "string", "the request's; the one that the response gives where that is empty"),
        Column("group_instance_id", "string", "of a static member (KIP-345)"),
        Column("generation_id", "int32", "of the request; memberEpoch where the API has that (KIP-848)"),
        Column("response_generation_id", "int32", "of the response; likewise"),
        Column("protocol_type", "string", "consumer, connect, ..."),
        Column("protocol_name", "string", "the assignor chosen: of the response, else of the request"),
        Column(
            "protocols", TEXTS, "the assignors that JoinGroup offers, the server assignor of ConsumerGroupHeartbeat"
        ),
        Column("leader_id", "string", "member id of the group's leader (JoinGroup)"),
        Column(
            "members",
            "int32",
            "members that the response tells the leader (JoinGroup), that the request removes (LeaveGroup)",
        ),
        Column("session_timeout_ms", "int32", "JoinGroup", "ms"),
        Column("rebalance_timeout_ms", "int32", "JoinGroup and the heartbeats of KIP-848; -1: unchanged", "ms"),
        Column("reason", "string", "why a member joins or leaves (KIP-800)"),
        Column("producer_id", "int64", "the request's, the response's of InitProducerId; Produce: see record_batches"),
        Column("producer_epoch", "int16", "likewise"),
        Column("committed", "bool", "EndTxn: commit or abort"),
        Column("acks", "int16", "Produce; -1: all in-sync replicas"),
        Column("timeout_ms", "int32", "how long the broker may take, of the APIs that say it", "ms"),
        Column("replica_id", "int32", "Fetch, ListOffsets: the follower that asks; -1: a consumer"),
        Column("isolation_level", "int8", "0 read_uncommitted, 1 read_committed"),
        Column("max_wait_ms", "int32", "Fetch, ShareFetch", "ms"),
        Column("min_bytes", "int32", "Fetch, ShareFetch", "bytes"),
        Column("max_bytes", "int32", "Fetch, ShareFetch", "bytes"),
        Column(
            "fetch_session_id",
            "int32",
            "Fetch: the request's; the one that the response gives where that is 0 (KIP-227)",
        ),
        Column("fetch_session_epoch", "int32", "Fetch: 0 for a full request, -1 for one without a session (KIP-227)"),
        Column("throttle_time_ms", "int32", "how long the broker held the client back by quota", "ms"),
        # what its records fields hold
        Column("record_batches", "int32", "batches in it; null for an API that carries none"),
        Column("records", "int64", "records in them; control records included"),
        Column("record_bytes", "int64", "of the records fields, compressed as they came", "bytes"),
    ),
)

BODIES = (
    Column(
        "request_json",
        "string",
        "the request's body as Kafka's JSON, of a cut one the fields that are whole; credentials withheld; asked for by --bodies",
    ),
    Column("response_json", "string", "the response's, likewise"),
)

RECORD_BATCHES = Table(
    "record_batches",
    1,
    "a record batch in a Produce request, or in a Fetch, ShareFetch or FetchSnapshot response; a message of magic 0 or 1 is "
    "a batch, and so is a wrapper of compressed ones; a rest that is no batch has a row with its error and its size",
    (
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("exchange", "int64", "exchanges.exchange"),
        Column("at", TIME, "when it was sent: exchanges.request_at of produce, exchanges.response_at of fetch"),
        _always("direction", "string", "produce or fetch"),
        Column("topic", "string", "null where only the id was seen"),
        Column("topic_id", "string", "Kafka's text form, 22 characters; null in versions that carry names"),
        _always("partition", "int32", "its number"),
        Column("error_code", "int16", "of the partition in the response"),
        Column(
            "appended_offset",
            "int64",
            "produce: the offset that the broker gave its first record; null for none or an error",
        ),
        Column(
            "base_offset",
            "int64",
            "as in the batch: of its first record; 0 in a request; null: a wrapper's is not in its header",
        ),
        Column("last_offset", "int64", "as in the batch"),
        Column("count", "int64", "records in it"),
        _always("size", "int64", "as it came, header included", "bytes"),
        Column("codec", "string", "none, gzip, snappy, lz4, zstd; null for a number that is none of them"),
        Column("magic", "int8", "format: 0, 1 or 2"),
        Column("timestamp_type", "string", "CreateTime, LogAppendTime, or NoTimestampType for magic 0"),
        Column("base_timestamp", TIME_MS, "of its first record; magic 2"),
        Column("max_timestamp", TIME_MS, "the latest in it"),
        Column("partition_leader_epoch", "int32", "as the leader wrote it; -1 from producers"),
        Column("producer_id", "int64", "-1: not idempotent"),
        Column("producer_epoch", "int16", "likewise"),
        Column("base_sequence", "int32", "likewise"),
        Column("is_transactional", "bool", "magic 2"),
        Column("is_control", "bool", "whether its records are the broker's (markers of transactions, ...)"),
        Column("crc_valid", "bool", "whether the checksum is right"),
        Column("error", "string", "what is wrong with it, in words; of its records too where they were asked for"),
    ),
)

RECORDS = Table(
    "records",
    1,
    "a record of a batch that is no control batch and can be read",
    (
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("exchange", "int64", "exchanges.exchange"),
        _always("direction", "string", "as in record_batches"),
        Column("topic", "string", "as in record_batches"),
        Column("topic_id", "string", "as in record_batches"),
        _always("partition", "int32", "its number"),
        _always("offset", "int64", "as in the batch; produce: counted from 0, see record_batches.appended_offset"),
        Column("timestamp", TIME_MS, "null for none (magic 0)"),
        Column("key", "binary", "null: none"),
        Column("value", "binary", "null: none (a tombstone)"),
        _always(
            "headers",
            "list<struct<key: binary, value: binary>>",
            "in their order; keys are UTF-8 from every sane client",
        ),
    ),
    optional=True,
)

OFFSETS = Table(
    "offsets",
    1,
    "what an exchange says of the offsets of one partition",
    (
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("exchange", "int64", "exchanges.exchange"),
        Column("at", TIME, "when it was known: exchanges.response_at; exchanges.request_at where no response was seen"),
        _always(
            "kind",
            "string",
            "fetch: offset is where a Fetch reads on; commit: what OffsetCommit or TxnOffsetCommit asks for; committed: what "
            "OffsetFetch was told, -1 for none; list: what ListOffsets was told, -1 for none",
        ),
        Column("client_id", "string", "exchanges.client_id"),
        Column("group_id", "string", "null for fetch and list: they do not name it"),
        Column("replica_id", "int32", "fetch and list: the follower that asks; -1: a consumer"),
        Column("topic", "string", "null where only the id was seen"),
        Column("topic_id", "string", "Kafka's text form, 22 characters; null in versions that carry names"),
        _always("partition", "int32", "its number"),
        Column(
            "offset", "int64", "see kind; null for a Fetch inside a session that left it out as unchanged (KIP-227)"
        ),
        Column("high_watermark", "int64", "fetch: of the response; -1: unknown"),
        Column("last_stable_offset", "int64", "likewise"),
        Column("log_start_offset", "int64", "likewise"),
        Column(
            "asked_timestamp_ms",
            "int64",
            "list: the time asked for, -1 latest, -2 earliest, ... (ListOffsetsRequest)",
            "ms",
        ),
        Column("error_code", "int16", "of the partition in the response"),
    ),
)

TABLES = {table.name: table for table in (CONNECTIONS, EXCHANGES, RECORD_BATCHES, OFFSETS, RECORDS)}
