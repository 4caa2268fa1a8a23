"""``--anonymize``: replace names, addresses, records and credentials, so that a capture can be attached to a bug report.

These stay, as bugs depend on them: APIs, versions, sizes, counts, offsets, error codes, times, ports, the numbers of nodes,
producers and partitions, topic ids, Kafka's own words (protocol types, assignors, states, mechanisms, internal topics),
names of settings and of client software. Every other string gets a pseudonym; bytes of
unknown meaning become zeros.
"""

import re
from ipaddress import ip_address

from msgspec.structs import replace

from kproxy.output.rewriting.internal_records import (
    INTERNAL_TOPICS,
    Payload,
    payload_of_key,
    payload_of_value,
    read_unsigned_varint,
)
from kproxy.output.rewriting.payload_texts import CONNECT, STREAMS, rewrite_texts
from kproxy.output.rewriting.pseudonyms import Pseudonyms
from kproxy.output.rewriting.rewriter import Context, Rewriter, Rewritten, Spot
from kproxy.output.rewriting.sticky_topics import rewrite_sticky
from kproxy.protocol import RequestHeader, message
from kproxy.protocol.records import Record, RecordBatch
from kproxy.protocol.structs import Struct
from kproxy.session import Connection, Exchange, Frame

# Fields that have only Kafka's own words (enums), or the name of client software (KIP-511)
KEPT = frozenset({
    *("groupState", "transactionState", "statesFilter", "stateFilters", "unknownStateFilters", "typesFilter"),
    *("groupType", "entityType", "principalType", "ownerPrincipalType", "tokenRequesterPrincipalType"),
    *("mechanism", "mechanisms", "feature", "requestedMetrics", "configurationKeys", "documentation"),
    *("clientSoftwareName", "clientSoftwareVersion"),
})  # fmt: skip
KEPT_IN = frozenset({
    # names of settings
    *(("AlterConfigsRequest", "name"), ("IncrementalAlterConfigsRequest", "name"), ("DescribeConfigsResponse", "name")),
    *(("CreateTopicsRequest", "name"), ("CreateTopicsResponse", "name"), ("ConfigRecord", "name")),
    # names of quotas
    *(("AlterClientQuotasRequest", "key"), ("DescribeClientQuotasResponse", "key"), ("ClientQuotaRecord", "key")),
    # names of features; "User"
    *(("ApiVersionsResponse", "name"), ("FeatureLevelRecord", "name"), ("DefaultPrincipalData", "type")),
})  # fmt: skip

# Fields that hold words of Kafka or of a plugin, and the words of Kafka, which are kept
NAMED_BY_PLUGINS = frozenset({"protocolType", "protocolName", "protocol", "serverAssignor", "assignorName", "name"})
KAFKA_WORDS = frozenset({
    *("consumer", "connect", "share", "streams"),
    *("range", "roundrobin", "sticky", "cooperative-sticky", "uniform", "simple"),
    *("default", "compatible", "sessioned", "stream"),
})  # fmt: skip

KAFKA_NAMES = INTERNAL_TOPICS | {"ANONYMOUS", "User:ANONYMOUS"}  # KafkaPrincipal.ANONYMOUS
NUMBERED = frozenset({"value", "resourceName"})  # fields whose numbers are kept: values of settings, names of brokers
NUMBER = re.compile(r"-?\d{1,20}|true|false")

# Bytes that hold a version (int16) and a message
PAYLOADS = {
    ("JoinGroupRequest", "metadata"): "ConsumerProtocolSubscription",
    ("JoinGroupResponse", "metadata"): "ConsumerProtocolSubscription",
    ("DescribeGroupsResponse", "memberMetadata"): "ConsumerProtocolSubscription",
    ("GroupMetadataValue", "subscription"): "ConsumerProtocolSubscription",
    ("SyncGroupRequest", "assignment"): "ConsumerProtocolAssignment",
    ("SyncGroupResponse", "assignment"): "ConsumerProtocolAssignment",
    ("DescribeGroupsResponse", "memberAssignment"): "ConsumerProtocolAssignment",
    ("GroupMetadataValue", "assignment"): "ConsumerProtocolAssignment",
    ("EnvelopeRequest", "requestPrincipal"): "DefaultPrincipalData",
}
VERSION_SIZE = 2
VOTERS = 6  # ControlRecordType.KRAFT_VOTERS, the only control record with names in it
CONTROL_TYPES = range(VOTERS)
FEW_BYTES = 4  # bytes after a message that are kept
CLIENT_ID_AT = 10  # in a request's header, behind its size


class Anonymizer(Rewriter):
    """Rewrites exchanges with the pseudonyms of one key; credentials are blanked."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._pseudonyms = pseudonyms

    def exchange(self, exchange: Exchange) -> Rewritten:
        """See Rewriter. Also replaces what the exchange itself holds: addresses, client id, names of topics."""
        done = super().exchange(exchange)
        written = done.exchange
        written.connection = self.connection(exchange.connection)
        written.client_id = exchange.client_id and self._name(exchange.client_id)
        written.topic_names = {topic_id: self._name(name) for topic_id, name in exchange.topic_names.items()}
        written.fetch_sessions = None
        return done

    def connection(self, connection: Connection) -> Connection:
        """Return the connection with pseudonyms for its addresses."""
        client, broker = map(self._pseudonyms.endpoint, (connection.client, connection.broker))
        return replace(connection, client=client, broker=broker, tls=None)

    def wants(self, frame: Frame) -> bool:
        """See Rewriter. Every frame is rewritten."""
        return True

    def keeps_unread(self, api_key: int | None) -> bool:
        """See Rewriter. No unread body is kept."""
        return False

    def header(self, frame: Frame) -> bytes:
        """See Rewriter. The client id is replaced, and unknown tagged fields are blanked."""
        header = super().header(frame)
        known = frame.header
        if known is None:
            return header
        start = 4  # after the correlation id of a response
        if isinstance(known, RequestHeader):
            size = len((known.client_id or "").encode("utf-8", "surrogateescape"))
            start = CLIENT_ID_AT + size
            header = header[:CLIENT_ID_AT] + self._name(known.client_id or "").encode() + header[start:]
        return _without_tags(header, start) if known.unknown_tags else header

    def text(self, spot: Spot, struct: Struct, value: str) -> str:
        """Return a pseudonym, or the value itself if it is known to be harmless."""
        name = spot.field.json_name
        if spot.field.entity is None:
            if name in KEPT or (spot.message, name) in KEPT_IN:
                return value
            if name in NAMED_BY_PLUGINS and value in KAFKA_WORDS:
                return value
            if name in NUMBERED and NUMBER.fullmatch(value):
                return value
        return self._name(value)

    def trailing(self, frame: Frame, data: bytes) -> bytes:
        """See Rewriter. A few bytes, as some clients leave behind, are kept; more could hold a name, and become zeros."""
        return super().trailing(frame, data) if len(data) <= FEW_BYTES else bytes(len(data))

    def data(self, spot: Spot, value: bytes, context: Context) -> bytes:
        """Rewrite payloads of known kinds; blank all others."""
        place = spot.message, spot.field.json_name
        known = PAYLOADS.get(place)
        if known is not None and len(value) >= VERSION_SIZE:
            version = int.from_bytes(value[:VERSION_SIZE], "big")
            written = self.payload(Payload(message(known), version, VERSION_SIZE), value)
            if written is None and known in CONNECT:
                written = rewrite_texts(CONNECT[known], value, self._name)
            return written or bytes(len(value))
        if place == ("EnvelopeRequest", "clientHostAddress") and len(value) in (4, 16):
            return self._pseudonyms.address(ip_address(value)).packed
        if place[1] == "userData" and spot.message in STREAMS:
            sticky = rewrite_sticky(value, self._name) if spot.message == "ConsumerProtocolSubscription" else None
            return sticky or rewrite_texts(STREAMS[spot.message], value, self._name) or bytes(len(value))
        return bytes(len(value))

    def user(self, name: bytes) -> bytes:
        """Return the pseudonym that the user has everywhere."""
        return self._name(name.decode("utf-8", "surrogateescape")).encode()

    def tagged(self, of: str, data: bytes) -> bytes:
        """Return zeros: the layout of an unknown tagged field is not known."""
        return bytes(len(data))

    def record(self, record: Record, batch: RecordBatch, topic: str | None) -> None:
        """Replace key, value and headers by pseudonyms; rewrite records of Kafka's own topics field by field."""
        if batch.is_control:
            self._control_record(record)
            return
        key, value = record.key, record.value
        if topic in INTERNAL_TOPICS:
            if value is not None:
                record.value = self.payload(payload_of_value(topic, key, value), value) or self._pseudonyms.data(value)
            if key is not None:
                record.key = self.payload(payload_of_key(topic, key), key) or self._pseudonyms.data(key)
        else:
            record.value = value and self._pseudonyms.data(value)
            record.key = key and self._pseudonyms.data(key)
        record.headers = [(self._name(name), data and self._pseudonyms.data(data)) for name, data in record.headers]

    def _control_record(self, record: Record) -> None:
        kind = int.from_bytes((record.key or b"")[2:4], "big")
        value = record.value
        if value is None or kind in CONTROL_TYPES:
            return
        version = int.from_bytes(value[:VERSION_SIZE], "big")
        voters = Payload(message("VotersRecord"), version, 0) if kind == VOTERS else None
        record.value = self.payload(voters, value) or bytes(len(value))

    def _name(self, name: str) -> str:
        return name if name in KAFKA_NAMES else self._pseudonyms.text(name)


def _without_tags(header: bytes, start: int) -> bytes:
    """Return the header with zeros in its tagged fields, which begin at *start*."""
    written = bytearray(header)
    count, position = read_unsigned_varint(header, start)
    for _ in range(count):
        _, position = read_unsigned_varint(header, position)
        size, position = read_unsigned_varint(header, position)
        written[position : position + size] = bytes(size)
        position += size
    return bytes(written)
