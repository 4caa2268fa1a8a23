"""``--anonymize``: replace names, addresses, records and credentials, so that a capture can be attached to a bug report.

These stay, as bugs depend on them: APIs, versions, sizes, counts, offsets, error codes, times, ports, the numbers of nodes,
producers and partitions, topic ids, Kafka's own words (protocol types, assignors, states, mechanisms, internal topics),
names of settings and of client software. Every other string gets a pseudonym; bytes of unknown meaning become zeros.

A pseudonym is keyed BLAKE2b (RFC 7693) of the text, spread over a harmless alphabet: it has as many bytes, reveals nothing
without the key, and is the same for the same text everywhere, also in other roles (a topic, a resource, a key), so that things
that belong together can be recognised. Different texts get different pseudonyms, if there are enough of that length. The numbers
of an IPv4 address keep their digit counts, so that the address has one pseudonym in packets and in text. Payloads of Streams and
Connect keep their layout: kproxy.protocol.embedded notes where their texts are.

Keys and values of records whose schema is known keep their layout, too: each value in them gets a substitute of its kind, so that
the same schema describes them. Names of fields, null, true and false stay; numbers keep their sign and count of digits.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from hashlib import blake2b, shake_128
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, TypeAlias

from msgspec.structs import replace

from kproxy.errors import DecodeError, KproxyError
from kproxy.output.rewriting.records import Payload, payload_of_key, payload_of_value
from kproxy.output.rewriting.rewriter import Context, Rewriter, Rewritten, Spot
from kproxy.protocol import RequestHeader, message
from kproxy.protocol.addresses import IPAddress, join_address, parse_ip, split_address
from kproxy.protocol.constants import INTERNAL_TOPICS, NOT_APPENDED
from kproxy.protocol.embedded import group
from kproxy.protocol.embedded.reader import Reader, Texts
from kproxy.protocol.embedded.viewers import Content
from kproxy.protocol.records import Record
from kproxy.protocol.records.editing import RecordBatch
from kproxy.protocol.structs import Struct
from kproxy.schemas.framings import Framing
from kproxy.schemas.store import TOPICS_OF_REGISTRIES, Located, Schemas
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
GENERATION_SIZE = 4  # of a consumer group
VOTERS = 6  # ControlRecordType.KRAFT_VOTERS, the only control record with names in it
CONTROL_TYPES = range(VOTERS)
FEW_BYTES = 4  # bytes after a message that are kept
CLIENT_ID_AT = 10  # in a request's header, after its size
ENDPOINT = re.compile(r"(https?://)?([^/:@]+)(:\d{1,5}/?)")  # a worker's URL; application.server of Streams

Open: TypeAlias = Callable[..., Any]

# Pseudonyms
KEY_SIZE = 32
REMEMBERED = 200_000  # texts whose pseudonyms certainly differ; two of further texts may, very rarely, be equal
TRIES = 50
UNIQUE_LOCAL = b"\xfd"  # RFC 4193: IPv6 addresses without a public owner
ALPHABET = b"abcdefghijklmnopqrstuvwxyz234567"  # legal in names of topics, hosts and groups alike
LETTERS = bytes(ALPHABET[value % len(ALPHABET)] for value in range(256))
IPV4 = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}")
PRINCIPAL = "User:"  # KafkaPrincipal.USER_TYPE


class Pseudonyms:
    """Makes the pseudonyms of one key.

    Args:
        key: any bytes; anyone who has it can test guesses of the originals.
    """

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(key, digest_size=KEY_SIZE).digest()
        self._known: dict[str, str] = {}
        self._taken: set[str] = set()

    def text(self, text: str) -> str:
        """Return the pseudonym of a name, of as many bytes of UTF-8; "", "*" and the type of a principal stay."""
        if text in ("", "*"):
            return text
        if text.startswith(PRINCIPAL):
            return PRINCIPAL + self.text(text.removeprefix(PRINCIPAL))
        if text[0] == "/" and IPV4.fullmatch(text, 1):  # InetAddress.toString
            return "/" + self.text(text[1:])
        known = self._known.get(text)
        return self._remember(text) if known is None else known

    def data(self, data: bytes) -> bytes:
        """Return letters and digits in place of bytes such as a record's key, as many as there are bytes."""
        seed = blake2b(data, key=self._key, digest_size=32).digest()
        return shake_128(seed).digest(len(data)).translate(LETTERS)

    def address(self, address: IPAddress) -> IPAddress:
        if address.version == 4:
            return IPv4Address(self.text(str(address)))
        return IPv6Address(UNIQUE_LOCAL + blake2b(address.packed, key=self._key, digest_size=15).digest())

    def endpoint(self, endpoint: str) -> str:
        """Return "address:port" with the pseudonym of the address and the same port."""
        host, port = split_address(endpoint)
        address = parse_ip(host)
        if address is None:
            raise ValueError(f"{endpoint} does not begin with an IP address")
        return join_address(str(self.address(address)), port)

    def number(self, text: str, count: int) -> int:
        """Return a number from 0 on, less than *count*, for a text."""
        seed = blake2b(text.encode("utf-8", "surrogateescape"), key=self._key, digest_size=32).digest()
        return int.from_bytes(shake_128(seed).digest((count.bit_length() + 7) // 8 + 8), "big") % count

    def _remember(self, text: str) -> str:
        make = _ipv4 if IPV4.fullmatch(text) else _letters
        size = len(text.encode("utf-8", "surrogateescape"))
        for attempt in range(TRIES):
            seed = blake2b(b"%d %b" % (attempt, text.encode("utf-8", "surrogateescape")), key=self._key).digest()
            pseudonym = make(seed, text, size)
            if pseudonym != text and pseudonym not in self._taken:
                break
        if len(self._known) < REMEMBERED:
            self._known[text] = pseudonym
            self._taken.add(pseudonym)
        return pseudonym


class ValuePseudonyms:
    """Makes the pseudonyms of values in keys and values of records (kproxy.schemas.formats.Substitutes)."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self.text = pseudonyms.text
        self.data = pseudonyms.data
        self._number = pseudonyms.number

    def whole(self, number: int, low: int, high: int) -> int:
        """Return a number with as many digits and the same sign, as far as the limits allow."""
        digits = len(str(abs(number)))
        smallest, largest = 10 ** (digits - 1) if digits > 1 else 0, 10**digits - 1
        if number < 0:
            smallest, largest = -largest, -max(smallest, 1)
        smallest, largest = max(smallest, low), min(largest, high)
        return smallest + self._number(str(number), largest - smallest + 1)

    def real(self, number: float) -> float:
        """Return a number with as many digits, and the decimal point at the same place. Zero, NaN and infinities stay."""
        sign, digits, exponent = Decimal(repr(number)).as_tuple()
        if not isinstance(exponent, int) or not any(digits):
            return number
        count = len(digits)
        other = self.whole(int("".join(map(str, digits))), 1, 10**count - 1)
        return float(f"{'-' if sign else ''}{other}e{exponent}")

    def one_of(self, value: Any, values: Sequence[Any]) -> Any:
        """Return one of some values."""
        return values[self._number(f"{value} of {values}", len(values))]


def _letters(seed: bytes, _text: str, size: int) -> str:
    return shake_128(seed).digest(size).translate(LETTERS).decode()


def _ipv4(seed: bytes, text: str, _size: int) -> str:
    """Return an address whose numbers have as many digits as before, none zero; it is a host's address, not a multicast one."""
    parts = (_number(seed[2 * at], len(part), 223 if at == 0 else 254) for at, part in enumerate(text.split(".")))
    return ".".join(map(str, parts))


def _number(value: int, digits: int, most: int) -> int:
    lowest: int = 10 ** (digits - 1)
    return lowest + value % (min(int(10**digits) - 1, most) - lowest + 1)


class Anonymizer(Rewriter):
    """Rewrites exchanges with the pseudonyms of one key; credentials are blanked.

    Args:
        pseudonyms: those of the key.
        schemas: of keys and values, besides those in the traffic.
    """

    def __init__(self, pseudonyms: Pseudonyms, schemas: Schemas | None = None) -> None:
        self._pseudonyms = pseudonyms
        self._substitutes = ValuePseudonyms(pseudonyms)
        self._schemas = schemas or Schemas()

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
            if written is None and known in CONNECT:  # Connect puts its payloads in the same fields as consumers
                written = rewrite_texts(CONNECT[known], value, self._name)
            return written or bytes(len(value))
        if place == ("EnvelopeRequest", "clientHostAddress") and len(value) in (4, 16):
            return self._pseudonyms.address(ip_address(value)).packed
        if place[1] == "userData":
            rewritten = (rewrite_texts(open_data, value, self._name) for open_data in USER_DATA.get(spot.message, ()))
            return next((data for data in rewritten if data), bytes(len(value)))
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
            kept: set[str | None] = set()
        else:
            if topic in TOPICS_OF_REGISTRIES:
                self._learn(record, topic, batch)
            record.value, of_value = self._contents(value, topic, "value", record)
            record.key, of_key = self._contents(key, topic, "key", record)
            kept = {of_value, of_key}
        record.headers = [
            (name, data) if name in kept else (self._name(name), data and self._pseudonyms.data(data))
            for name, data in record.headers
        ]

    def _learn(self, record: Record, topic: str | None, batch: RecordBatch) -> None:
        offset = None if batch.partition_leader_epoch == NOT_APPENDED else record.offset
        for part, data in (("key", record.key), ("value", record.value)):
            if data is not None:
                self._schemas.learn(data, Content(topic, part, offset=offset))

    def _contents(
        self, data: bytes | None, topic: str | None, part: str, record: Record
    ) -> tuple[bytes | None, str | None]:
        """Return the pseudonym of a key or value, and the name of the header that has to stay, as it names the schema."""
        located = None if not data else self._schemas.locate(data, topic, part, record.headers)
        if located is not None and located.schema is not None and not _names_host(located):
            try:
                substituted = self._schemas.substituted(located, self._substitutes)
                return substituted, None if located.framed is None else located.framed.header
            except (KproxyError, ValueError, ArithmeticError, LookupError, TypeError, RecursionError):
                pass
        return data and self._pseudonyms.data(data), None

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


def _names_host(located: Located) -> bool:
    """Return whether a URL with a host in it, or another attribute of an event, would stay."""
    framed = located.framed
    return framed is not None and (framed.framing is Framing.CLOUDEVENTS or framed.in_event)


def _without_tags(header: bytes, start: int) -> bytes:
    """Return the header with zeros in its tagged fields, which begin at *start*."""
    written = bytearray(header)
    reader = Reader("header", header, start)
    for _ in range(reader.uvarint()):
        reader.uvarint()
        size = reader.uvarint()
        written[reader.position : reader.position + size] = bytes(size)
        reader.take(size)
    return bytes(written)


def rewrite_texts(open_payload: Open, data: bytes, name: Callable[[str], str]) -> bytes | None:
    """Replace each text in a payload by what *name* returns for it; in endpoints only the host. None for an unreadable payload.

    Args:
        open_payload: raises DecodeError, and notes in *texts* where texts are.
        data: the payload.
        name: returns a replacement with as many bytes of UTF-8.
    """
    texts: Texts = []
    try:
        open_payload(data, texts=texts)
    except DecodeError:
        return None
    written = bytearray(data)
    for start, end, encoding in texts:
        text = data[start:end].decode(encoding, "replace")
        replaced = _replaced(text, name).encode(encoding)
        # as many bytes, unless the text is not plain UTF-8
        written[start:end] = replaced if len(replaced) == end - start else b"x" * (end - start)
    return bytes(written)


def _replaced(text: str, name: Callable[[str], str]) -> str:
    endpoint = ENDPOINT.fullmatch(text)
    return name(text) if endpoint is None else f"{endpoint[1] or ''}{name(endpoint[2])}{endpoint[3]}"


def _open_sticky(data: bytes, texts: Texts) -> None:
    """Note the topics in the user data of a sticky assignor: topics with partitions, perhaps a generation; or that alone."""
    reader = Reader("user data of a sticky assignor", data, texts=texts)
    if len(data) > GENERATION_SIZE:
        reader.array(2 + 4, lambda: (reader.string(), reader.int32s()))
    if reader.left:
        reader.int32()
    reader.end()


# Payloads of Streams, Connect and assignors, by the message that holds them
USER_DATA: dict[str, tuple[Open, ...]] = {
    "ConsumerProtocolSubscription": (_open_sticky, group.open_subscription_info),
    "ConsumerProtocolAssignment": (group.open_assignment_info,),
}
CONNECT: dict[str, Open] = {
    "ConsumerProtocolSubscription": partial(group.open_connect_metadata, protocol=None),
    "ConsumerProtocolAssignment": group.open_connect_assignment,
}
