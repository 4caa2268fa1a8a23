# cython: language_level=3, nonecheck=True, cdivision=True
"""Make rows of exchanges and record batches from decoded bodies; also what the rows of other tables need.

    instant, record_instant   times in the range that file formats and their readers accept
    topic_of                  name and id of a topic
    read_body                 the body of a frame as an object, unless it is too large
    gather                    error codes, topics, groups, transactional ids, partitions anywhere in a body
    exchange_row              columns of exchanges that bodies do not change; body_columns: the others; top_fields: those of
                              them that are fields at the top of bodies
    records_fields            the records fields of Produce and Fetch; batch_rows: their rows of record_batches

Compiled because all of it runs for every exchange. Which fields are read is found once for each message and version, in
kproxy.output.tables.layouts.
"""

from collections.abc import Mapping
from typing import Any, TYPE_CHECKING  # no-cython-lint

from cpython.object cimport Py_TYPE, PyObject
from libc.stdint cimport int64_t

from kproxy.output.small_bodies cimport keep, small_body
from kproxy.protocol.records.batches cimport Batch
from kproxy.protocol.slots cimport slot, slot_offset
from kproxy.session.exchanges cimport Exchange, Frame, is_plain

from kproxy.errors import DecodeError
from kproxy.output.escaping import well_formed
from kproxy.output.tables import layouts
from kproxy.output.tables.layouts import Searched, TOP_FIELDS
from kproxy.protocol import ApiKey, Message
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.records import Batches, DEFAULT_LIMITS, read_batches
from kproxy.protocol.structs import MessageStruct, Struct, struct_types

if TYPE_CHECKING:
    from kproxy.output.from_jsonl import LoggedRecords

LARGEST: int = 16 * 1024 * 1024  # bytes of a body; as objects it can be many times its size
WITH_RECORDS: frozenset[str] = frozenset({"ProduceRequest", "FetchResponse", "ShareFetchResponse", "FetchSnapshotResponse"})
cdef int64_t LARGEST_OFFSET = 0x7FFFFFFFFFFFFFFF
cdef int METADATA = ApiKey.METADATA
cdef int FIND_COORDINATOR = ApiKey.FIND_COORDINATOR
cdef int TOPIC = layouts.Kind.TOPIC
cdef int GROUP = layouts.Kind.GROUP
cdef int VALUE = layouts.Form.VALUE
cdef int INNER = layouts.Form.INNER
cdef int FIRST = layouts.Form.FIRST
cdef int COUNT = layouts.Form.COUNT
cdef int NAMES = layouts.Form.NAMES
cdef int RANGES = layouts.Form.RANGES
cdef int DESCRIBED = layouts.Form.DESCRIBED
cdef Py_ssize_t TOP_FIELD_COUNT = len(TOP_FIELDS)
cdef str NO_TOPIC_ID = ZERO_UUID
cdef dict _api_names = {key: api.name for key, api in facts().apis.items()}

cdef enum:
    MOST_VALUES = 100_000  # values kept of each kind; a frame of 100 MiB could name tens of millions
    GROUP_KEY = 0  # CoordinatorType
    TRANSACTION_KEY = 1
    MOST_PROTOCOLS = 100  # assignors of a member in one row
    MOST_RANGES = 1_000  # APIs of a broker in one row


# Times

# From 1900 on calendars agree: one earlier time in a column, and Spark refuses to read the column (it asks which calendar is
# meant: SparkUpgradeException, spark.sql.parquet.datetimeRebaseModeInRead). The last year that SQL has is 9999.
cdef int64_t FIRST_US = -2_208_988_800_000_000
cdef int64_t LAST_US = 253_402_300_799_999_999

EARLIEST_US: int = FIRST_US
LATEST_US: int = LAST_US


cpdef object instant(int64_t at):  # type: (...) -> int | None
    """Return nanoseconds since the epoch as microseconds; None before 1900, which only a damaged capture has."""
    cdef int64_t us = at // 1000 - (1 if at % 1000 < 0 else 0)
    return us if us >= FIRST_US else None


cpdef object record_instant(int64_t at):  # type: (...) -> int | None
    """Return the timestamp of a record; None for -1 (no timestamp) and before 1900; the last of 9999 for what is later."""
    if at == -1 or at < FIRST_US // 1000:
        return None
    return min(at, LAST_US // 1000)


# Topics

cpdef tuple topic_of(
    name: str | None, topic_id: str | None, names: Mapping[str, str],
):  # type: (...) -> tuple[str | None, str | None]
    """Return the name and id of a topic, None for what is not known. *names*: the names that the traffic has shown for ids."""
    if topic_id is not None and topic_id == NO_TOPIC_ID:
        topic_id = None
    if not name and topic_id is not None:
        name = names.get(topic_id)
    if not name:
        return None, topic_id
    return name if (<str?>name).isascii() else well_formed(name), topic_id


# Fields of objects

cdef class Slot:
    """A field of the instances of one message class."""

    cdef readonly str name
    cdef Py_ssize_t offset  # of the slot in an instance
    cdef PyObject *owner  # the class whose instances have it there; classes of messages live as long as the process

    def __init__(self, type owner not None, str name not None):
        self.name = name
        self.owner = <PyObject *>owner
        self.offset = slot_offset(getattr(owner, name))
        if self.offset < 0:
            raise TypeError(f"{owner.__name__}.{name} is no slot")

    cdef object of(self, object struct):
        """Return its value in *struct*, by getattr if that is of another class or has not set it."""
        cdef PyObject *value
        if <PyObject *>Py_TYPE(struct) == self.owner:
            value = slot(struct, self.offset)[0]
            if value != NULL:
                return <object>value
        return getattr(struct, self.name)


cdef class Found:
    """Distinct values, in the order in which they first occur."""

    def __init__(self, dict error_codes: dict[int, None] | None = None):
        self.error_codes = {} if error_codes is None else error_codes
        self.topics = {}
        self.topic_ids = {}
        self.groups = {}
        self.transactional_ids = {}

    cdef dict into(self, int kind):
        return self.topics if kind == TOPIC else self.groups if kind == GROUP else self.transactional_ids


cdef class Plan:
    """The fields of a struct at a version that are searched: a layouts.Searched, as slots."""

    cdef tuple error_codes  # Slots
    cdef tuple names  # (Slot, layouts.Kind, whether it is an array)
    cdef Slot topic_id
    cdef Slot partitions
    cdef tuple children  # (Slot, whether it is an array, Plan)

    def __init__(self, searched: Searched):
        cls = searched.cls
        self.error_codes = tuple([Slot(cls, name) for name in searched.error_codes])
        self.names = tuple([(Slot(cls, name), int(kind), is_array) for name, kind, is_array in searched.names])
        self.topic_id = None if searched.topic_id is None else Slot(cls, searched.topic_id)
        self.partitions = None if searched.partitions is None else Slot(cls, searched.partitions)
        self.children = tuple([(Slot(cls, name), is_array, Plan(inner)) for name, is_array, inner in searched.children])


cdef class Getter:
    """How a message at a version has the value of a column: a layouts.TopField, with its slot."""

    cdef Py_ssize_t column
    cdef int form
    cdef Slot slot
    cdef str inner
    cdef tuple nothing

    def __init__(self, cls, field):
        self.column, self.form, self.nothing = field.column, field.form, field.nothing
        self.slot, self.inner = Slot(cls, field.attribute), field.inner

    cdef object of(self, object struct):
        value = self.slot.of(struct)
        if self.form == VALUE:
            return value
        if self.form == INNER:
            return getattr(value, self.inner)
        if self.form == FIRST:
            return getattr(value[0], self.inner) if value else None
        if self.form == COUNT:
            return len(value or ())
        if self.form == NAMES:
            return [each.name or "" for each in (value or ())[:MOST_PROTOCOLS]]
        if self.form == RANGES:
            return [f"{each.api_key}:{each.min_version}-{each.max_version}" for each in (value or ())[:MOST_RANGES]]
        if self.form == DESCRIBED:
            return [each.name for each in (value or ())[:MOST_VALUES] if each.name and not each.error_code]
        return [value or ""]


cpdef int gather(Plan plan, struct: Struct, Found found) except -1:  # type: (...) -> None
    """Add what *struct*, decoded at the plan's version, holds."""
    cdef Slot field
    cdef bint named
    for field in plan.error_codes:
        code = field.of(struct)
        if code:
            found.error_codes[code] = None
    named = gather_names(plan.names, struct, found) if plan.names else False
    if plan.topic_id is not None and not named:  # a topic with both is known by its name
        topic_id = plan.topic_id.of(struct)
        if topic_id is not None and len(found.topic_ids) < MOST_VALUES and topic_id != NO_TOPIC_ID:
            found.topic_ids[topic_id] = None
    if plan.partitions is not None:
        found.partitions += len(plan.partitions.of(struct) or ())
    return gather_below(plan, struct, found) if plan.children else 0


cdef int gather_below(Plan plan, object struct, Found found) except -1:
    cdef tuple child
    cdef Slot field
    cdef Plan inner
    for child in plan.children:
        field, inner = child[0], child[2]
        below = field.of(struct)
        if below is None:
            continue
        if child[1]:
            for each in <list?>below:
                gather(inner, each, found)
        else:
            gather(inner, below, found)
    return 0


cdef bint gather_names(tuple names, object struct, Found found) except -1:
    """Add the names in a struct; return whether one of them is a topic's."""
    cdef bint is_topic = False
    cdef tuple name
    cdef Slot field
    cdef dict into
    for name in names:
        field = name[0]
        value = field.of(struct)
        into = found.into(name[1])
        if not value or len(into) >= MOST_VALUES:
            continue
        if name[2]:
            into.update(dict.fromkeys([each for each in value[:MOST_VALUES] if each is not None]))
        else:
            into[value] = None
            is_topic |= <int>name[1] == TOPIC
    return is_topic


# Bodies

cdef class Form:
    """What is the same for all bodies of a message at a version."""

    cdef str name
    cdef Plan plan
    cdef tuple getters  # of a request, or of a response; None until they are needed

    def __init__(self, message, int version):
        self.name = message.name
        self.plan = Plan(layouts.searched_fields(message.name, version))


cdef class Body:
    """A decoded body: a message at a version, and the object."""

    def __init__(self, message: Message, int version, struct: MessageStruct):
        self.form = form_of(message, version)
        self.name = message.name
        self.message = message
        self.version = version
        self.struct = struct

    def gather(self, Found found not None) -> None:
        """Add what the body holds to *found*."""
        gather((<Form>self.form).plan, self.struct, found)


cdef dict _forms = {}  # at most one for each version of each message
cdef dict _known = {}  # small_body -> what read_body returns


cdef Form form_of(object message, int version):
    cdef tuple asked = (message, version)
    found = _forms.get(asked)
    if found is None:
        found = _forms[asked] = Form(message, version)
    return found


cpdef tuple read_body(Frame frame: Frame | None):  # type: (...) -> tuple[Body | None, str | None]
    """Return (Body, None), or (None, why it cannot be read); (None, None) without a frame, or for one that is not read."""
    cdef Body body
    cdef tuple same
    if frame is None or frame.unread:
        return None, None
    message = frame.message
    if frame.cut_code and type(frame) is not Frame:
        return None, None  # a decoded log has no message where no field is whole
    if message is None or frame.error is not None:
        return None, str(frame.error) if frame.error is not None else "nothing is known about its layout"
    if frame.cut:
        return None, None
    if type(frame) is not Frame:
        return _read_logged(frame, message)
    if len(frame.data) > LARGEST and message.name not in WITH_RECORDS:
        return None, f"{message.name} has {len(frame.data):,} bytes: one of more than {LARGEST:,} is not taken apart"
    try:
        same = small_body(frame)
        known = None if same is None else _known.get(same)
        if known is not None:
            return known
        body = Body(message, frame.body_version, frame.decode())
    except DecodeError as error:
        return None, str(error)
    body.is_kept = same is not None
    return keep(_known, same, (body, None)) if body.is_kept else (body, None)


cdef tuple _read_logged(Frame frame, object message):
    """Do what read_body does, for a frame whose body is made from the JSON of a decoded log."""
    if frame.wire_size > LARGEST and message.name not in WITH_RECORDS:
        return None, f"{message.name} has {frame.size:,} bytes: one of more than {LARGEST:,} is not taken apart"
    try:
        return Body(message, frame.json_version, frame.decode()), None
    except DecodeError as error:
        return None, str(error)


# Exchanges

cpdef tuple exchange_row(Exchange exchange, undecoded: str | None):  # type: (...) -> tuple[Any, ...]
    """Return the columns of exchanges from request_at to edited, which bodies do not change.

    *undecoded*: why a body could not be read, where the exchange itself does not say.
    """
    cdef Frame request = exchange.request
    cdef Frame response = exchange.response
    layout = assumed = None
    if request is not None:
        layout, assumed = request.layout, request.assumed_version
    if response is not None:
        layout = layout or response.layout
        assumed = response.assumed_version if assumed is None else assumed
    return (
        None if request is None else instant(request.started_at),
        None if response is None else instant(response.ended_at),
        exchange.latency_ms,
        None if request is None or request.sent_at <= 0 else exchange.request_in_proxy_ms,
        None if request is None or request.sent_at <= 0 else exchange.broker_ms,
        None if response is None or response.sent_at <= 0 else exchange.response_in_proxy_ms,
        exchange.api_key,
        _api_names.get(exchange.api_key),
        exchange.api_version,
        correlation_id(exchange.correlation_id),
        exchange.client_id,
        None if request is None else len(request.data) + request.absent + 4,
        None if response is None else len(response.data) + response.absent + 4,
        exchange.expects_response,
        exchange.unanswered,
        exchange.undecoded or undecoded,
        layout,
        assumed,
        exchange.bodies if is_cut(request) or is_cut(response) else None,
        None if request is None else request.trailing or None,
        None if response is None else response.trailing or None,
        [] if is_plain(request) and is_plain(response) else exchange.edited,
    )


cpdef tuple body_columns(
    Body request: Body | None, Body response: Body | None, Found found, names: Mapping[str, str],
):  # type: (...) -> tuple[Any, ...]
    """Return the columns of exchanges from error_codes to cluster_id.

    *found*: what gather_bodies returns for the bodies; *names*: of topic ids.
    """
    cdef list codes = list(found.error_codes)
    cdef list groups = list(found.groups)
    return (
        codes,
        error_name(codes[0]) if codes else None,
        topic_labels(found, names),
        found.partitions or None,
        groups,
        groups[0] if groups else None,
        next(iter(found.transactional_ids)) if found.transactional_ids else None,
        *top_fields(request, response),
    )


cdef inline object correlation_id(number):
    """Return None for a value that no header can have, as a line of a decoded log may."""
    return number if number is None or -(1 << 31) <= number < 1 << 31 else None


cdef inline bint is_cut(Frame frame) noexcept:
    return frame is not None and frame.cut_code != 0


cpdef Found gather_bodies(Exchange exchange, Body request: Body | None, Body response: Body | None):
    """Return what both bodies of an exchange hold, as far as the table has columns for it."""
    cdef Found found = Found()
    cdef Found answered
    if request is not None:
        gather((<Form>request.form).plan, request.struct, found)
        found.error_codes.clear()  # a few requests repeat the error code of another response
        if exchange.api_key == FIND_COORDINATOR:
            _coordinator_keys(request.struct, found)
    if response is not None:
        answered = Found(found.error_codes)
        gather((<Form>response.form).plan, response.struct, answered)
        if exchange.api_key != METADATA:  # a client may request all topics, so those in the response do not show what it uses
            found.topics.update(answered.topics)
            found.topic_ids.update(answered.topic_ids)
        found.partitions = found.partitions or answered.partitions
    return found


cpdef list topic_labels(Found found, names: Mapping[str, str]):  # type: (...) -> list[str]
    """Return the names of topics, or their ids if the traffic has not shown the names."""
    if not found.topic_ids:
        return list(found.topics)
    named = dict.fromkeys(found.topics)
    for topic_id in found.topic_ids:
        named[names.get(topic_id, topic_id)] = None
    return list(named)


cpdef list top_fields(Body request: Body | None, Body response: Body | None):  # type: (...) -> list[Any]
    """Return the values of TOP_FIELDS."""
    cdef list values = [None] * TOP_FIELD_COUNT
    cdef Getter getter
    if request is not None:
        for getter in getters(request, False):
            values[getter.column] = getter.of(request.struct)
    if response is not None:
        for getter in getters(response, True):
            if values[getter.column] in getter.nothing:
                values[getter.column] = getter.of(response.struct)
    return values


cdef tuple getters(Body body, bint in_response):
    cdef Form form = <Form>body.form
    if form.getters is None:
        cls = struct_types(form.name)[form.name]
        fields = layouts.top_fields(form.name, body.version, in_response=in_response)
        form.getters = tuple([Getter(cls, field) for field in fields])
    return form.getters


cdef int _coordinator_keys(request, Found found) except -1:
    """Add the groups or transactional ids of FindCoordinator, which has both in one field (several since KIP-699)."""
    into = {GROUP_KEY: found.groups, TRANSACTION_KEY: found.transactional_ids}.get(request.key_type)
    if into is not None:
        into.update(dict.fromkeys([request.key] if request.key else [each for each in request.coordinator_keys or () if each is not None]))
    return 0


# Record batches

cdef class RecordsField:
    """One records field: a partition of a Produce request or of a Fetch response."""

    def __init__(
        self, str direction, topic: str | None, topic_id: str | None, int partition, error_code: int | None,
        appended_offset: int | None, data: bytes | LoggedRecords, bint unaligned=False,
    ):
        self.direction = direction
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.appended_offset = appended_offset
        self.data = data
        self.unaligned = unaligned

    def batches(self) -> Batches:
        """Return its batches."""
        return read_batches(self.data, unaligned=self.unaligned)


cpdef list records_fields(
    Body request: Body | None, Body response: Body | None, names: Mapping[str, str],
):  # type: (...) -> list[RecordsField] | None
    """Return the records fields of an exchange; None for an API that has none."""
    cdef FetchSlots fetched
    if request is not None and request.name == "ProduceRequest":
        return _produced(request.struct, None if response is None else response.struct, names)
    fetched = None if response is None else FETCHED.get(response.name)
    return None if fetched is None else _fetched(response.struct, fetched, names)


cdef Slot _slot(str message, str struct, str name):
    return Slot(struct_types(message)[struct], name)


cdef class FetchSlots:
    """Where the records fields are in the struct of a message that fetches."""

    cdef Slot topics
    cdef Slot name  # None if topics have only ids
    cdef Slot topic_id  # None if topics have no ids
    cdef Slot partitions
    cdef Slot index
    cdef Slot error_code
    cdef Slot records
    cdef bint unaligned

    def __init__(self, str message, str topics, str topic, str name, str partition, str index, str records):
        has_id = "topic_id" in struct_types(message)[topic].by_attribute
        self.topics = _slot(message, message, topics)
        self.name = None if name is None else _slot(message, topic, name)
        self.topic_id = _slot(message, topic, "topic_id") if has_id else None
        self.partitions = _slot(message, topic, "partitions")
        self.index = _slot(message, partition, index)
        self.error_code = _slot(message, partition, "error_code")
        self.records = _slot(message, partition, records)
        self.unaligned = records == "unaligned_records"


cdef dict FETCHED = {
    message: FetchSlots(message, *slots)
    for message, slots in {
        "FetchResponse": ("responses", "FetchableTopicResponse", "topic", "PartitionData", "partition_index", "records"),
        "ShareFetchResponse": ("responses", "ShareFetchableTopicResponse", None, "PartitionData", "partition_index", "records"),
        "FetchSnapshotResponse": ("topics", "TopicSnapshot", "name", "PartitionSnapshot", "index", "unaligned_records"),
    }.items()
}
cdef Slot TOPIC_DATA = _slot("ProduceRequest", "ProduceRequest", "topic_data")
cdef Slot TOPIC_NAME = _slot("ProduceRequest", "TopicProduceData", "name")
cdef Slot TOPIC_ID = _slot("ProduceRequest", "TopicProduceData", "topic_id")
cdef Slot PARTITION_DATA = _slot("ProduceRequest", "TopicProduceData", "partition_data")
cdef Slot INDEX = _slot("ProduceRequest", "PartitionProduceData", "index")
cdef Slot RECORDS = _slot("ProduceRequest", "PartitionProduceData", "records")
cdef Slot RESPONSES = _slot("ProduceResponse", "ProduceResponse", "responses")
cdef Slot ANSWERED_TOPIC = _slot("ProduceResponse", "TopicProduceResponse", "name")
cdef Slot ANSWERED_ID = _slot("ProduceResponse", "TopicProduceResponse", "topic_id")
cdef Slot ANSWERS = _slot("ProduceResponse", "TopicProduceResponse", "partition_responses")
cdef Slot ANSWERED_INDEX = _slot("ProduceResponse", "PartitionProduceResponse", "index")
cdef Slot ERROR_CODE = _slot("ProduceResponse", "PartitionProduceResponse", "error_code")
cdef Slot BASE_OFFSET = _slot("ProduceResponse", "PartitionProduceResponse", "base_offset")


cdef list _produced(request, response, names):
    cdef dict answers = _answers(response)
    cdef list fields = []
    for topic in TOPIC_DATA.of(request) or ():
        sent_name, sent_id = TOPIC_NAME.of(topic), TOPIC_ID.of(topic)
        name, topic_id = topic_of(sent_name, sent_id, names)
        for partition in PARTITION_DATA.of(topic) or ():
            index = INDEX.of(partition)
            answer = answers.get((sent_name, sent_id, index))
            error = offset = None
            if answer is not None:
                error, offset = ERROR_CODE.of(answer), BASE_OFFSET.of(answer)
                if error or offset < 0:
                    offset = None
            data = RECORDS.of(partition) or b""
            fields.append(new_field("produce", name, topic_id, index, error, offset, data, False))
    return fields


cdef dict _answers(response):
    cdef dict answers = {}
    if response is None:
        return answers
    for topic in RESPONSES.of(response) or ():
        name, topic_id = ANSWERED_TOPIC.of(topic), ANSWERED_ID.of(topic)
        for partition in ANSWERS.of(topic) or ():
            answers[name, topic_id, ANSWERED_INDEX.of(partition)] = partition
    return answers


cdef list _fetched(response, FetchSlots slots, names):
    cdef list fields = []
    for topic in slots.topics.of(response) or ():
        sent_name = None if slots.name is None else slots.name.of(topic)
        sent_id = None if slots.topic_id is None else slots.topic_id.of(topic)
        name, topic_id = topic_of(sent_name, sent_id, names)
        for partition in slots.partitions.of(topic) or ():
            number, error, data = slots.index.of(partition), slots.error_code.of(partition), slots.records.of(partition)
            fields.append(new_field("fetch", name, topic_id, number, error, None, data or b"", slots.unaligned))
    return fields


cdef RecordsField new_field(
    str direction, topic, topic_id, int partition, error_code, appended_offset, data, bint unaligned
):
    cdef RecordsField field = RecordsField.__new__(RecordsField)
    field.direction = direction
    field.topic = topic
    field.topic_id = topic_id
    field.partition = partition
    field.error_code = error_code
    field.appended_offset = appended_offset
    field.data = data
    field.unaligned = unaligned
    return field


cpdef list batch_rows(
    RecordsField field, batches: Batches, problems: Mapping[int, str] | None,
):  # type: (...) -> list[tuple[Any, ...]]
    """Return rows of record_batches from column ``direction`` on. *problems*: of records, by the position of their batch."""
    cdef list rows = []
    cdef tuple where = (field.direction, field.topic, field.topic_id, field.partition, field.error_code)
    cdef int64_t spent = 0
    cdef Batch batch
    cdef tuple header
    offset = field.appended_offset
    for batch in batches:
        count = None
        if batch.magic < 2:
            count, unpacked = _count(batch, spent)
            spent += unpacked
        header = _header(batch, count)
        count = header[2]
        problem = problems.get(batch.position) if problems else None
        rows.append(where + (offset,) + header + (problem,))  # concatenated, as unpacking would first make a list of each row
        if offset is not None:
            offset = None if count is None or not 0 <= count <= LARGEST_OFFSET - offset else offset + count
    tail = batches.tail
    if tail is not None and tail.kind == "error":
        rows.append((*where, None, None, None, None, tail.size, *NO_HEADER, tail.reason))
    return rows


cdef tuple _count(Batch message, int64_t spent):
    """Count the records in a message of magic 0 or 1, whose header does not tell; return also how many bytes were unpacked."""
    if not message.is_wrapper:
        return 1, 0
    opened = message.open(DEFAULT_LIMITS.after(spent))
    readable = opened.error is None and opened.skipped is None
    return opened.claimed if readable else None, opened.unpacked_size


cdef tuple _header(Batch batch, count):
    """Return the columns from base_offset to crc_valid."""
    cdef tuple described
    if batch.magic == 2:
        described = batch.described()
        return (
            described[0],
            described[1],
            described[2],
            batch.size,
            described[3],
            batch.magic,
            described[4],
            record_instant(described[5]),
            record_instant(described[6]),
            described[7],
            described[8],
            described[9],
            described[10],
            described[11],
            described[12],
            batch.has_valid_crc(),
        )
    return (
        batch.base_offset,
        batch.last_offset,
        count,
        batch.size,
        batch.compression,
        batch.magic,
        batch.timestamp_type,
        None,
        record_instant(batch.max_timestamp) if batch.magic else None,
        *NO_PRODUCER,
        batch.has_valid_crc(),
    )


cdef tuple NO_PRODUCER = (None,) * 6  # from partition_leader_epoch to is_control
cdef tuple NO_HEADER = (None,) * 12  # from codec to crc_valid
