"""The contracts of the tables that analyses are written against: type, unit and meaning of every column, and since when.

``since`` is the release of kproxy that first wrote the table or column. Each contract has a version: adding a column keeps it;
renaming or removing one, or changing its meaning, raises it. Files have the version in their metadata (``kproxy.contract``), and
the meaning of each column.

Types are Arrow's, as pyarrow prints them. Times are microseconds, because neither Spark nor DuckDB has a finer one with a
time zone. A time before 1900 or after 9999 is null, because Spark cannot read a column that has one. ``latency_ms`` is computed
from nanoseconds. "Null" without a reason means: not seen, or the version has no such field.

The tables of a decoded log equal those of the capture that the log was made from, except for columns with ``from_log``, for
records, which a log lacks, and for batches after the first 1,000 of a records field. A log made with a condition (--where) has
fewer exchanges, with other numbers. A log written by the proxy does not say how connections ended.

No table has credentials or values of configurations; bodies as JSON are written only on request.
"""

from dataclasses import dataclass

TIME = "timestamp[us, tz=UTC]"
TIME_MS = "timestamp[ms, tz=UTC]"
TEXTS = "list<string>"
FIRST = "0.1.0"  # the release with which contracts begin
FROM_CONNECTIONS = "connections.connection_id"


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = True
    since: str = FIRST
    from_log: str = ""  # its contents in tables of a decoded log, if they differ from those of the capture


@dataclass(frozen=True, slots=True)
class Table:
    """One table; ``row`` says what a row is."""

    name: str
    version: int
    row: str
    columns: tuple[Column, ...]
    optional: bool = False  # written only on request
    since: str = FIRST


def _always(name: str, kind: str, meaning: str, unit: str = "", *, from_log: str = "") -> Column:
    return Column(name, kind, meaning, unit, nullable=False, from_log=from_log)


CONNECTIONS = Table(
    "connections",
    1,
    "a TCP connection on which something was seen that is Kafka, may have been, or certainly is not",
    (
        _always(
            "connection_id", "string", "what the other tables know it by; the same whenever the same bytes are read"
        ),
        _always("connection", "int64", "its number in the decoded log of the same run"),
        _always("capture", "string", "base name of the capture", from_log="base name of the log"),
        _always("client_address", "string", "who opened the connection; an IPv6 address without brackets"),
        _always("client_port", "int32", "its port"),
        _always("broker_address", "string", "the other side"),
        _always("broker_port", "int32", "its port"),
        Column(
            "first_seen_at",
            TIME,
            "first byte of the first frame",
            from_log="of a response without request: its last byte",
        ),
        Column(
            "last_seen_at",
            TIME,
            "last byte of the last frame",
            from_log="of a request without response: its first byte",
        ),
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
        Column("closed_by", "string", "client or broker: who closed or reset it first", from_log="null"),
        Column("closed_at", TIME, "when closed_by closed or reset it", from_log="null"),
        Column(
            "closed",
            "string",
            "finished, reset, reused, evicted, or end of capture (in the page of a running proxy: it is open)",
            from_log="end of capture",
        ),
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
        Column(
            "request_in_proxy_ms",
            "double",
            "from the request's first byte received by kproxy to its last one sent to the broker; this and the next two are null "
            "unless kproxy wrote the log while it forwarded",
            "ms",
        ),
        Column("broker_ms", "double", "from there to the response's first byte received by kproxy", "ms"),
        Column("response_in_proxy_ms", "double", "from there to the response's last byte sent to the client", "ms"),
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
        Column(
            "timeout_ms",
            "int32",
            "how long the broker may take, of the APIs that say it; InitProducerId: transactions",
            "ms",
        ),
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
        Column(
            "offered_versions",
            TEXTS,
            "ApiVersions: the versions that the broker takes, a text for each API: key, colon, least and greatest (3:0-13)",
        ),
        Column(
            "described_topics",
            TEXTS,
            "Metadata, DescribeTopicPartitions: the topics that the response describes without an error",
        ),
        Column("cluster_id", "string", "Metadata v2 and later, DescribeCluster: the id of the cluster that answered"),
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
            from_log="null behind a batch whose count is null",
        ),
        Column(
            "base_offset",
            "int64",
            "as in the batch: of its first record; 0 in a request; null: a wrapper's is not in its header",
        ),
        Column("last_offset", "int64", "as in the batch"),
        Column(
            "count",
            "int64",
            "records in it",
            from_log="null for compressed messages of magic 0 or 1 where there are several in one field",
        ),
        _always("size", "int64", "as it came, header included", "bytes"),
        Column("codec", "string", "none, gzip, snappy, lz4, zstd; null for a number that is none of them"),
        Column("magic", "int8", "format: 0, 1 or 2"),
        Column("timestamp_type", "string", "CreateTime, LogAppendTime, or NoTimestampType for magic 0"),
        Column("base_timestamp", TIME_MS, "of its first record; magic 2", from_log="null"),
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

GROUP_EVENTS = Table(
    "group_events",
    1,
    "what an exchange says of one group: joins, syncs, leaves, and what changes or fails otherwise; a heartbeat or a commit "
    "that succeeds and changes nothing has no row, a LeaveGroup has one for each member that leaves, a SyncGroup of the "
    "leader one more for each member",
    (
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("exchange", "int64", "exchanges.exchange"),
        Column("request_at", TIME, "exchanges.request_at"),
        Column("at", TIME, "when it was known: exchanges.response_at; exchanges.request_at where no response was seen"),
        Column(
            "group_type",
            "string",
            "classic (JoinGroup, SyncGroup), consumer (KIP-848), share (KIP-932), streams (KIP-1071): the protocol of the "
            "request; null for commit, coordinator and delete, which all of them use",
        ),
        _always("group_id", "string", "the group"),
        _always(
            "event",
            "string",
            "join: a member asks to be let in (JoinGroup; a heartbeat of epoch 0); sync: a member asks for its assignment "
            "(SyncGroup); assign: what the leader's SyncGroup gives to one member; leave: a member is gone (LeaveGroup; epoch "
            "-1, or -2 of a static member that will be back); heartbeat: one that failed, or that asks for or brings a change; "
            "commit: OffsetCommit or TxnOffsetCommit refused; coordinator: FindCoordinator; delete: DeleteGroups",
        ),
        Column("client_id", "string", "exchanges.client_id"),
        Column(
            "member_id",
            "string",
            "the request's; the response's where that is empty; assign, leave: the member that it is about",
        ),
        Column("group_instance_id", "string", "of a static member (KIP-345)"),
        Column(
            "generation",
            "int32",
            "of the request: generation id, or member epoch; join: the generation that the member says it owned last "
            "(ConsumerProtocolSubscription v2 and later); null for none",
        ),
        Column("response_generation", "int32", "of the response: generation id, or member epoch; null for none"),
        Column("session_timeout_ms", "int32", "join of classic groups", "ms"),
        Column("rebalance_timeout_ms", "int32", "max.poll.interval.ms of Java's consumer; null for unchanged", "ms"),
        Column("heartbeat_interval_ms", "int32", "that the broker asks for; heartbeats of KIP-848 and its kin", "ms"),
        Column("protocol_type", "string", "consumer, connect, ...; of classic groups"),
        Column("protocol", "string", "the assignor that was chosen; consumer: the server's assignor that is asked for"),
        Column("protocols", TEXTS, "the assignors that a join offers, at most 100"),
        Column("leader_id", "string", "join: member id of the group's leader; assign: of the member that assigned"),
        Column("is_leader", "bool", "join: whether the response says that the member leads; sync: whether it assigns"),
        Column(
            "members",
            TEXTS,
            "join: the members, as the response tells the leader; sync of a leader: those that it assigns to; leave: all that "
            "the request names; null for other rows",
        ),
        Column(
            "subscribed_topics",
            TEXTS,
            "join: of the first protocol's ConsumerProtocolSubscription; heartbeat: as it names them, of share groups too; "
            "streams: source topics of the topology; null for unchanged, or none that can be read",
        ),
        Column("subscribed_regex", "string", "consumer: the pattern of topics (KIP-848); null for none or unchanged"),
        Column(
            "assignment",
            TEXTS,
            "sync, assign: ConsumerProtocolAssignment as topic-partition; heartbeat: what the response gives; streams: active "
            "tasks as subtopology-partition; a topic's id where its name was not seen; null for unchanged, or where it cannot be "
            "read",
        ),
        Column(
            "owned",
            TEXTS,
            "what the member says that it owns, likewise: join by ConsumerProtocolSubscription v1 and later, heartbeat in its "
            "request",
        ),
        Column("coordinator", "string", "coordinator: host:port that the response names"),
        Column("coordinator_id", "int32", "coordinator: broker id of it"),
        Column("error_code", "int16", "of the response, for this member or group; null without a response"),
        Column("error_name", "string", "Kafka's name of it; NONE for 0"),
        Column(
            "reason", "string", "why the member joins or leaves, as it says (KIP-800); else the broker's errorMessage"
        ),
    ),
)

TOPIC_ACTIVITY = Table(
    "topic_activity",
    1,
    "what one connection produced to or fetched from a partition in one minute. One minute of a partition can have several "
    "rows, as where traffic comes out of order or memory is short: readers sum",
    (
        Column("minute", TIME, "its beginning; of record_batches.at"),
        Column("topic", "string", "null where only the id was seen"),
        Column("topic_id", "string", "Kafka's text form, 22 characters; null in versions that carry names"),
        _always("partition", "int32", "its number"),
        Column("client_id", "string", "exchanges.client_id"),
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("direction", "string", "produce or fetch"),
        _always("exchanges", "int64", "in which the partition had records"),
        _always("batches", "int64", "record batches"),
        _always("records", "int64", "records in them, as far as their headers say; control records included"),
        _always("bytes", "int64", "of the records fields, compressed as they came", "bytes"),
        _always("refused_records", "int64", "of records, those that the broker answered with an error code"),
    ),
)

ERRORS = Table(
    "errors",
    1,
    "an error code that a response has for a resource, wherever in it; the same code for other partitions has rows of its own",
    (
        _always("connection_id", "string", FROM_CONNECTIONS),
        _always("exchange", "int64", "exchanges.exchange"),
        Column("at", TIME, "exchanges.response_at"),
        Column("api_key", "int16", "exchanges.api_key"),
        Column("api_name", "string", "exchanges.api_name"),
        Column("client_id", "string", "exchanges.client_id"),
        _always("error_code", "int16", "never 0"),
        Column("error_name", "string", "Kafka's name of it"),
        Column("message", "string", "the broker's errorMessage, where it sends one; its first 500 characters"),
        _always(
            "resource_type",
            "string",
            "topic, group, transactional_id, broker, or none: what the response has the code for; in a response that names "
            "nothing, the group or the transactional id of the request",
        ),
        Column("resource", "string", "its name; a topic's id where its name was not seen; null for none"),
        Column("partition", "int32", "of the topic; null where the code is not a partition's"),
        _always("count", "int64", "how often the response has it so"),
    ),
)

TABLES = {
    table.name: table
    for table in (
        CONNECTIONS,
        EXCHANGES,
        RECORD_BATCHES,
        OFFSETS,
        GROUP_EVENTS,
        TOPIC_ACTIVITY,
        ERRORS,
        RECORDS,
    )
}
