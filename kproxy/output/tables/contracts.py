"""The contracts of the tables that analyses are written against: type, unit and meaning of every column, and since when.

``since`` is the release of kproxy that first wrote the table or column. Each contract has a version: adding a column keeps it;
renaming or removing one, or changing its meaning, raises it. Files have the version in their metadata (``kproxy.contract``), and
the meaning of each column.

Types are Arrow's, as pyarrow prints them. Times are microseconds, because neither Spark nor DuckDB has a finer one with a
time zone. Spark cannot read a column with a time before 1900 or after 9999: the former is null, the latter the end of 9999.
``latency_ms`` is computed from nanoseconds. "Null" without a reason means: not seen, or the version has no such field.

The tables of a decoded log equal those of the capture that the log was made from, except for columns with ``from_log``, for
records, which a log lacks, and for batches after the first 1,000 of a records field. A log made with a condition (--where) has
fewer exchanges, with other numbers. A log written by the proxy does not say how connections ended.

No table has credentials or values of configurations; bodies as JSON are written only on request.
"""

import re
from dataclasses import dataclass
from textwrap import dedent

FIRST = "0.1.0"  # the release with which contracts begin
TYPES = {  # short names in the tables below
    "time": "timestamp[us, tz=UTC]",
    "time_ms": "timestamp[ms, tz=UTC]",
    "texts": "list<string>",
    "headers": "list<struct<key: binary, value: binary, envelope: binary, problem: string>>",
}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = True
    since: str = FIRST
    from_log: str = ""  # its contents in tables of a decoded log, if they differ from those of the capture

    @property
    def explained(self) -> str:
        """The meaning, with the unit."""
        return f"{self.meaning} ({self.unit})" if self.unit else self.meaning


@dataclass(frozen=True, slots=True)
class Table:
    """One table; ``row`` says what a row is."""

    name: str
    version: int
    row: str
    columns: tuple[Column, ...]
    optional: bool = False  # written only on request
    since: str = FIRST

    def place(self, column: str) -> int:
        """Return the index of a column. Raises ValueError if there is none of that name."""
        return [each.name for each in self.columns].index(column)


_COLUMN = re.compile(r"(?P<name>\w+) +(?P<type>\S+?)(?P<always>!?) +(?P<meaning>.+?)(?: \((?P<unit>bytes|ms)\))?")


def _columns(text: str, since: str = FIRST) -> tuple[Column, ...]:
    """Read columns, one a line: name, type (with "!" if it is never null), meaning, perhaps with a unit in parentheses.

    Indented lines continue the meaning; after "log:" they say what tables of a decoded log have instead.
    """
    columns = []
    for line in re.sub(r"\n +", " ", dedent(text).strip()).split("\n"):
        described, _, from_log = line.partition(" log: ")
        match = _COLUMN.fullmatch(described)
        assert match is not None, line
        kind, always = TYPES.get(match["type"], match["type"]), bool(match["always"])
        columns.append(Column(match["name"], kind, match["meaning"], match["unit"] or "", not always, since, from_log))
    return tuple(columns)


def _described(part: str) -> tuple[Column, ...]:
    """Return what kproxy.schemas has of the key or value of a record."""
    return _columns(f"""
        {part}_json            string  {part} as its schema describes it, or JSON that needs none; fields named like a secret
                                       are withheld; null if it is neither
        {part}_schema_id       string  id of the schema in the {part} or in headers: a number, or a GUID, UUID or fingerprint
        {part}_subject         string  subject of the schema, where it is known
        {part}_schema_version  int32   version of the schema in its subject
        {part}_fits            bool    whether its schema describes the {part}; null where no schema was tried
        {part}_problem         string  what is wrong with the {part} or with its schema, or that no schema has this id
    """)


CONNECTIONS = Table(
    "connections",
    1,
    "a TCP connection with traffic that is Kafka, may be Kafka, or certainly is not",
    _columns("""
        connection_id            string!   id of the connection in all tables; reading the same bytes again gives the same id
        connection               int64!    number of the connection in the decoded log of the same run
        capture                  string!   base name of the capture; of many files, the name of the first
                                           log: base name of the log
        client_address           string!   address of the side that opened the connection; IPv6 without brackets
        client_port              int32!    port of the client
        broker_address           string!   address of the other side
        broker_port              int32!    port of the broker
        first_seen_at            time      first byte of the first frame; without frames, when the protocol was recognised;
                                           without a byte, its first SYN
                                           log: of a response without request: its last byte
        last_seen_at             time      last byte of the last frame; without a byte, its last SYN
                                           log: of a request without response: its first byte
        client_software_name     string    name of the client's library, from ApiVersions v3 and later (KIP-511)
        client_software_version  string    version of that library
        client_ids               texts!    client ids in its requests, in the order of their first use; at most 16
        sasl_mechanism           string    mechanism in SaslHandshake; GSSAPI for a client of 0.9 that begins with its token
        user_name                string    who logged in to kproxy; else the user in a PLAIN or SCRAM login, successful or not
        tls_version              string    "TLS 1.3"; null without TLS
        tls_cipher_suite         string    IANA's name
        tls_server_name          string    host name that the client wants to reach (SNI)
        tls_client_certificate   string    subject of the client's certificate (RFC 4514)
        tls_decrypted            bool      whether the session keys were available; null without TLS
        requests                 int64!    requests seen
        responses                int64!    responses seen
        request_bytes            int64!    size of the requests seen, size fields included (bytes)
        response_bytes           int64!    size of the responses seen, size fields included (bytes)
        unanswered               int64!    requests whose response was due and did not come
        undecoded                int64!    exchanges in which something could not be read
        errors                   int64!    exchanges with an error code
        gaps                     int64!    places where bytes are missing, or were skipped until a plausible frame
        missing_bytes            int64!    data known to be missing (bytes)
        skipped_bytes            int64!    data that arrived and was skipped (bytes)
        bad_frames               int64!    frames that no peer would accept
        not_kafka                string    what the connection is if it is not Kafka in the clear: tls, http, ssh, unknown; at
                                           a usual port of Kafka, also connections without a byte: no answer (to two SYNs at
                                           least), refused (RST to a SYN), dropped (the broker ended it)
        closed_by                string    side that first closed or reset the connection: client or broker
                                           log: null, unless not_kafka is set
        closed_at                time      when closed_by closed or reset it
                                           log: null, unless not_kafka is set
        closed                   string    finished, reset, reused, evicted, or end of capture (on the page of a running proxy:
                                           the connection is open)
                                           log: end of capture
        syn_at                   time      the client's first SYN; null if the capture has none
                                           log: null, unless not_kafka is set
        syns                     int64     the client's SYNs: more than one if the first were not answered
                                           log: null, unless not_kafka is set
        syn_ack_at               time      the broker's SYN-ACK; null if the capture has none
                                           log: null, unless not_kafka is set
        tls_alerts               texts     TLS alerts that could be read, without close_notify: "client: fatal unknown_ca"; at
                                           most 8; null without TLS
    """),
)

EXCHANGES = Table(
    "exchanges",
    1,
    "a request and its response; either may be missing",
    _columns("""
        connection_id            string!   connections.connection_id
        broker                   string    address and port of the broker: connections.broker_address and broker_port
        exchange                 int64!    number of the exchange in its connection, from 1, in the order of completion
        request_at               time      first byte of the request
        response_at              time      last byte of the response
        latency_ms               double    first byte of the request to last of the response; null if the response has no end (ms)
        request_in_proxy_ms      double    from the request's first byte received by kproxy to its last byte sent to the broker;
                                           this and the next two are null unless kproxy wrote the log while it forwarded (ms)
        broker_ms                double    from then to the response's first byte received by kproxy (ms)
        response_in_proxy_ms     double    from then to the response's last byte sent to the client (ms)
        api_key                  int16     number of the API; null for a response whose request was not seen
        api_name                 string    Kafka's name of the API; null if no known release has the API
        api_version              int16     version in the request header
        correlation_id           int32     correlation id in the headers
        client_id                string    client id in the request header
        request_size             int64     size of the request on the wire, size field included (bytes)
        response_size            int64     size of the response on the wire, size field included (bytes)
        expects_response         bool!     false for Produce with acks=0
        unanswered               string    why there is no response although one was due, in words
        undecoded                string    why something in the exchange could not be read, in words
        layout                   string    Kafka release whose layout was used, if the version was changed in place
        assumed_version          int16     newest known version, if it was used to read a newer one
        bodies                   string    why a body is incomplete, in words; columns from bodies are then null, while sizes
                                           and times are those of the wire
        request_trailing_bytes   int64     data after the message of the request; null if there is none (bytes)
        response_trailing_bytes  int64     data after the message of the response; null if there is none (bytes)
        edited                   texts!    what filters and breakpoints of kproxy run did: "request changed by mask"; columns from
                                           bodies are of the messages as client and broker sent them
        error_codes              list<int16>!  distinct error codes in the response other than 0, in their order
        error_name               string    Kafka's name of the first error code
        topics                   texts!    topics in the request and in the response (Metadata: in the request only); the id of
                                           a topic whose name was not seen
        partitions               int32     number of partitions under the topics of the request; if it has none, of the response
        groups                   texts!    groups in the request
        changed                  texts     what an administrator's request changes: permissions, quotas, users of SCRAM, names of
                                           settings (no values); at most 100; empty if it only asks whether it might
        group_id                 string    the first of groups
        transactional_id         string    the first transactional id in the request
        member_id                string    member id in the request; if empty, the one in the response
        group_instance_id        string    instance id of a static member (KIP-345)
        generation_id            int32     generation in the request; memberEpoch in APIs that have it (KIP-848)
        response_generation_id   int32     generation in the response; memberEpoch in APIs that have it
        protocol_type            string    consumer, connect, ...
        protocol_name            string    assignor that was chosen: in the response, else in the request
        protocols                texts     assignors that JoinGroup offers; server assignor of ConsumerGroupHeartbeat
        leader_id                string    member id of the group's leader (JoinGroup)
        members                  int32     number of members that the response names to the leader (JoinGroup), or that the
                                           request removes (LeaveGroup)
        session_timeout_ms       int32     JoinGroup (ms)
        rebalance_timeout_ms     int32     JoinGroup and the heartbeats of KIP-848; -1: unchanged (ms)
        reason                   string    why a member joins or leaves (KIP-800)
        producer_id              int64     producer id in the request; InitProducerId: in the response; Produce: see
                                           record_batches
        producer_epoch           int16     epoch of producer_id
        committed                bool      EndTxn: commit or abort
        acks                     int16     Produce; -1: all in-sync replicas
        timeout_ms               int32     time that the request allows the broker; InitProducerId: transaction timeout (ms)
        replica_id               int32     Fetch, ListOffsets: id of the follower that sent the request; -1: a consumer
        isolation_level          int8      0 read_uncommitted, 1 read_committed
        max_wait_ms              int32     Fetch, ShareFetch (ms)
        min_bytes                int32     Fetch, ShareFetch (bytes)
        max_bytes                int32     Fetch, ShareFetch (bytes)
        fetch_session_id         int32     Fetch: session id in the request; if 0, the one in the response (KIP-227)
        fetch_session_epoch      int32     Fetch: 0 for a full request, -1 for one without a session (KIP-227)
        throttle_time_ms         int32     how long the broker throttles the client because of a quota (ms)
        offered_versions         texts     ApiVersions: versions that the broker supports, one text per API: key, colon, lowest
                                           and highest version (3:0-13)
        described_topics         texts     Metadata, DescribeTopicPartitions: topics that the response describes without an
                                           error
        advertised               texts     Metadata, DescribeCluster: brokers in the response: node id, space, host, colon, port
                                           (2 kafka-2.example:9092); at most 1,000
        cluster_id               string    Metadata v2 and later, DescribeCluster: id of the cluster that answered
        record_batches           int32     number of record batches; null for an API that carries none
        records                  int64     number of records in the batches, control records included
        record_bytes             int64     size of the records fields, compressed as they came (bytes)
    """),
)

BODIES = _columns("""
    request_json   string  the request's body as Kafka's JSON, credentials withheld; of an incomplete body the complete fields;
                           written with --bodies
    response_json  string  the response's body in the same form
""")

RECORD_BATCHES = Table(
    "record_batches",
    2,
    "a record batch in a Produce request, or in a Fetch, ShareFetch or FetchSnapshot response; a message of magic 0 or 1 counts "
    "as a batch, also one that wraps compressed messages; trailing bytes that are no batch have a row with their error and size",
    _columns("""
        connection_id            string!   connections.connection_id
        broker                   string    exchanges.broker
        exchange                 int64!    exchanges.exchange
        seen_at                  time      when it was sent: exchanges.request_at of produce, exchanges.response_at of fetch
        direction                string!   produce or fetch
        topic                    string    name of the topic; null if only the id was seen
        topic_id                 string    id of the topic, Kafka's text of 22 characters; null in versions with names
        partition                int32!    number of the partition
        error_code               int16     error code of the partition in the response
        appended_offset          int64     produce: offset that the broker gave its first record; null for none or an error
                                           log: null after a batch whose count is null
        base_offset              int64     offset of its first record, from the batch; 0 in a request; null for a wrapper, whose
                                           header does not have it
        last_offset              int64     offset of its last record, from the batch
        count                    int64     number of records
                                           log: null for compressed messages of magic 0 or 1, if a field has several
        size                     int64!    size as it came, header included (bytes)
        codec                    string    none, gzip, snappy, lz4, zstd; null for an unknown number
        magic                    int8      format: 0, 1 or 2
        timestamp_type           string    CreateTime, LogAppendTime, or NoTimestampType for magic 0
        base_timestamp           time_ms   timestamp of its first record; magic 2
                                           log: null
        max_timestamp            time_ms   latest timestamp in it
        partition_leader_epoch   int32     epoch written by the leader; -1 from producers
        producer_id              int64     -1: not idempotent
        producer_epoch           int16     -1: not idempotent
        base_sequence            int32     -1: not idempotent
        is_transactional         bool      magic 2
        is_control               bool      whether its records are the broker's (markers of transactions, ...)
        crc_valid                bool      whether the checksum is right
        error                    string    what is wrong with it, in words; with --records also what is wrong with its records
    """),
)

RECORDS = Table(
    "records",
    2,
    "a record of a batch that can be read and is no control batch",
    _columns("""
        connection_id     string!   connections.connection_id
        broker            string    exchanges.broker
        exchange          int64!    exchanges.exchange
        direction         string!   produce or fetch
        topic             string    record_batches.topic
        topic_id          string    record_batches.topic_id
        partition         int32!    number of the partition
        partition_offset  int64!    offset in the batch; produce: counted from 0, see record_batches.appended_offset
        timestamp         time_ms   timestamp of the record; null for none (magic 0)
        key               binary    key of the record; null: none
        value             binary    value of the record; null: none (a tombstone)
        headers           headers!  headers in their order; keys are UTF-8 from every sane client; envelope: as value_envelope;
                                    problem: why an encrypted one does not open
    """)
    + _described("key")
    + _described("value")
    + _columns("""
        key_envelope    binary  of an encrypted key, decrypted or not: what it begins with, up to the wrapped data key
                                (kproxy.encryption); empty if it is damaged; null for a plain key
        value_envelope  binary  the same of a value, or of its first encrypted field
    """),
    optional=True,
)

OFFSETS = Table(
    "offsets",
    2,
    "an offset of one partition in an exchange",
    _columns("""
        connection_id       string!  connections.connection_id
        broker              string   exchanges.broker
        exchange            int64!   exchanges.exchange
        seen_at             time     when it was known: exchanges.response_at; without a response, exchanges.request_at
        kind                string!  fetch: where a Fetch continues to read; commit: offset in OffsetCommit or
                                     TxnOffsetCommit; committed: offset in the response to OffsetFetch, -1 for none; list:
                                     offset in the response to ListOffsets, -1 for none
        client_id           string   exchanges.client_id
        group_id            string   group; null for fetch and list, which do not name it
        replica_id          int32    fetch and list: id of the follower that sent the request; -1: a consumer
        topic               string   name of the topic; null if only the id was seen
        topic_id            string   id of the topic, Kafka's text of 22 characters; null in versions with names
        partition           int32!   number of the partition
        partition_offset    int64    see kind; null for a Fetch within a session that omits the partition as unchanged (KIP-227)
        high_watermark      int64    fetch: high watermark in the response; -1: unknown
        last_stable_offset  int64    fetch: last stable offset in the response; -1: unknown
        log_start_offset    int64    fetch: log start offset in the response; -1: unknown
        asked_timestamp_ms  int64    list: requested time, -1 latest, -2 earliest, ... (ListOffsetsRequest) (ms)
        error_code          int16    error code of the partition in the response
    """),
)

GROUP_EVENTS = Table(
    "group_events",
    2,
    "an event of one group in an exchange: joins, syncs, leaves, and other requests that change something or fail; a heartbeat "
    "or a commit that succeeds and changes nothing has no row, a LeaveGroup has a row for each member that leaves, a SyncGroup "
    "of the leader has one more row for each member",
    _columns("""
        connection_id          string!  connections.connection_id
        broker                 string   exchanges.broker
        exchange               int64!   exchanges.exchange
        request_at             time     exchanges.request_at
        seen_at                time     when it was known: exchanges.response_at; without a response, exchanges.request_at
        group_type             string   protocol of the request: classic (JoinGroup, SyncGroup), consumer (KIP-848), share
                                        (KIP-932), streams (KIP-1071); null for commit, coordinator and delete, which all of
                                        them use
        group_id               string!  the group
        event                  string!  join: a member wants to join (JoinGroup; a heartbeat of epoch 0); sync: a member
                                        requests its assignment (SyncGroup); assign: the assignment of one member in the
                                        leader's SyncGroup; leave: a member leaves (LeaveGroup; epoch -1, or -2 of a static
                                        member that will return); heartbeat: one that failed, or that requests or brings a
                                        change; commit: OffsetCommit or TxnOffsetCommit that was refused; coordinator:
                                        FindCoordinator; delete: DeleteGroups
        client_id              string   exchanges.client_id
        member_id              string   member id in the request; if empty, in the response; assign, leave: the member concerned
        group_instance_id      string   instance id of a static member (KIP-345)
        generation             int32    generation id or member epoch in the request; join: the last generation in which the
                                        member owned partitions (ConsumerProtocolSubscription v2 and later); null for none
        response_generation    int32    generation id or member epoch in the response; null for none
        session_timeout_ms     int32    join of classic groups (ms)
        rebalance_timeout_ms   int32    max.poll.interval.ms of Java's consumer; null if unchanged (ms)
        heartbeat_interval_ms  int32    interval that the broker wants; heartbeats of KIP-848, KIP-932 and KIP-1071 (ms)
        protocol_type          string   classic groups: consumer, connect, ...
        protocol               string   assignor that was chosen; consumer: server assignor that the member requests
        protocols              texts    assignors that a join offers, at most 100
        leader_id              string   join: member id of the group's leader; assign: of the member that assigned
        is_leader              bool     join: whether the response makes the member the leader; sync: whether it assigns
        members                texts    join: the members that the response names to the leader; sync of a leader: those that it
                                        assigns to; leave: all members in the request; null for other rows
        subscribed_topics      texts    join: topics in the first protocol's ConsumerProtocolSubscription; heartbeat: topics in
                                        the request, also of share groups; streams: source topics of the topology; null if
                                        unchanged, or if none can be read
        subscribed_regex       string   consumer: pattern of topics (KIP-848); null for none or unchanged
        assignment             texts    sync, assign: ConsumerProtocolAssignment as topic-partition; heartbeat: assignment in
                                        the response; streams: active tasks as subtopology-partition; a topic's id if its name
                                        was not seen; null if unchanged, or if it cannot be read
        owned                  texts    partitions that the member says it owns, as in assignment: join with
                                        ConsumerProtocolSubscription v1 and later, heartbeat in its request
        coordinator            string   coordinator: host:port in the response
        coordinator_id         int32    coordinator: broker id in the response
        error_code             int16    error code in the response for this member or group; null without a response
        error_name             string   Kafka's name of the error code; NONE for 0
        reason                 string   why the member joins or leaves, in its own words (KIP-800); else the broker's
                                        errorMessage
    """),
)

TOPIC_ACTIVITY = Table(
    "topic_activity",
    1,
    "what one connection produced to or fetched from a partition in one minute. A minute of a partition can have several "
    "rows, for instance if traffic comes out of order or memory is short: add them up",
    _columns("""
        minute           time     beginning of the minute of record_batches.seen_at
        topic            string   name of the topic; null if only the id was seen
        topic_id         string   id of the topic, Kafka's text of 22 characters; null in versions with names
        partition        int32!   number of the partition
        client_id        string   exchanges.client_id
        connection_id    string!  connections.connection_id
        broker           string   exchanges.broker
        direction        string!  produce or fetch
        exchanges        int64!   exchanges with records for the partition
        batches          int64!   number of record batches
        records          int64!   number of records, as far as the headers of batches say; control records included
        bytes            int64!   size of the records fields, compressed as they came (bytes)
        refused_records  int64!   records that the broker answered with an error code
    """),
)

ERRORS = Table(
    "errors",
    2,
    "an error code of a resource anywhere in a response; the same code for another partition has its own row",
    _columns("""
        connection_id  string!  connections.connection_id
        broker         string   exchanges.broker
        exchange       int64!   exchanges.exchange
        seen_at        time     exchanges.response_at
        api_key        int16    exchanges.api_key
        api_name       string   exchanges.api_name
        client_id      string   exchanges.client_id
        error_code     int16!   never 0
        error_name     string   Kafka's name of the error code
        message        string   first 500 characters of the broker's errorMessage, if it sends one
        resource_type  string!  kind of resource that the code is about: topic, group, transactional_id, broker, or none; if the
                                response names nothing, the group or the transactional id of the request
        resource       string   name of the resource; the id of a topic whose name was not seen; null for none
        partition      int32    partition of the topic; null if the code is not about a partition
        count          int64!   how often the response has this code for this resource
    """),
)

PARTITION_STATES = Table(
    "partition_states",
    1,
    "who leads a partition and where its replicas are, in a response to Metadata or DescribeTopicPartitions, or the new leader "
    "in one that refuses a Fetch, ShareFetch or Produce, if that differs from what the connection saw last; a connection that "
    "sees more than 10,000 partitions, or several that see more than 200,000, may have a row again without a change",
    _columns("""
        connection_id     string!      connections.connection_id
        broker            string       exchanges.broker
        exchange          int64!       exchanges.exchange
        seen_at           time         exchanges.response_at
        api_key           int16        exchanges.api_key
        topic             string       name of the topic; null if only the id was seen
        topic_id          string       id of the topic, Kafka's text of 22 characters; null in versions without ids
        partition         int32!       number of the partition
        error_code        int16!       error code of the partition; 5 (LEADER_NOT_AVAILABLE): it has no leader
        leader_id         int32        broker id of the leader; null for none
        leader_epoch      int32        epoch of the leader; null in versions without it
        replicas          list<int32>  broker ids of the replicas, the preferred leader first; this and the next two are null in a
                                       response that refuses
        in_sync_replicas  list<int32>  broker ids of the replicas in sync
        offline_replicas  list<int32>  broker ids of the replicas whose brokers or disks are away; null in Metadata before v5
    """),
)

SHARE_DELIVERIES = Table(
    "share_deliveries",
    1,
    "records that a share group got (KIP-932), or what its member answered about them, in ShareFetch and ShareAcknowledge: each "
    "range of offsets with the same count or the same answer, at most 10,000 of an exchange",
    _columns("""
        connection_id    string!  connections.connection_id
        broker           string   exchanges.broker
        exchange         int64!   exchanges.exchange
        seen_at          time     exchanges.response_at; of answers exchanges.request_at
        event            string!  acquired: the member got them; its answers: accept, release (deliver them again), reject (give
                                  them up), renew (it needs longer), gap (there is no record)
        client_id        string   exchanges.client_id
        group_id         string   the share group
        member_id        string   the member
        topic            string   name of the topic; null if only the id was seen
        topic_id         string   id of the topic
        partition        int32!   number of the partition
        first_offset     int64!   of the range
        last_offset      int64!   of the range
        delivery_count   int16    acquired: how often they were delivered, this time included
        error_code       int16    answers: error code of the partition for them; null without a response
    """),
)

TABLES = {
    table.name: table
    for table in (
        CONNECTIONS, EXCHANGES, RECORD_BATCHES, OFFSETS, GROUP_EVENTS, TOPIC_ACTIVITY, ERRORS, PARTITION_STATES,
        SHARE_DELIVERIES, RECORDS,
    )
}  # fmt: skip
