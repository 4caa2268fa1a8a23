"""Encrypt: brokers get encrypted values or fields of them, by choice also record keys and headers; consumers get plain ones.

The format and what it protects are in kproxy.encryption. Produce, Fetch and ShareFetch are held (and Metadata, for the names of
topics by their ids), but not frames with one topic, if no rule names it. Other topics without a rule are not looked into.

    Produce     each batch of a topic with a rule is encrypted with the data key of its topic; without one, it is refused
    ShareFetch  its request acquires nothing while its group waits for a data key: see Encrypt
    Fetch       each batch is decrypted; a value that cannot be decrypted, and a plain one, become what the rule says
"""

import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property, partial
from glob import escape
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta
from msgspec.json import encode

from kproxy.encryption.batches import CannotDecrypt, CannotEncrypt, Policy, ValueReader, decrypt_batch, encrypt_batch
from kproxy.encryption.data_keys import (
    MOST_QUESTIONS,
    MOST_RECORDS,
    DataKeyLimits,
    DataKeys,
    KeyNotYet,
    Outage,
    SealKey,
    WritingKey,
)
from kproxy.encryption.envelope import KEY, Envelope, added_behind
from kproxy.encryption.made_once import MadeOnce
from kproxy.encryption.services import KeySettings, key_service
from kproxy.encryption.services.contract import (
    MOST_NAME,
    KeyDestroyed,
    KeyService,
    KeyServiceAway,
    KeyServiceError,
    try_key,
)
from kproxy.errors import UsageError
from kproxy.filters.contract import (
    Direction,
    Edited,
    Filter,
    Forward,
    Replace,
    Request,
    RequestFacts,
    Response,
    Verdict,
)
from kproxy.filters.error_responses import RefusedPartition, add_refused, refuse_partitions
from kproxy.filters.fetched_records import (
    MOST_GROWTH,
    PATIENCE_S,
    FieldChange,
    Withheld,
    are_changed_at_once,
    batches_in,
    change_in_turns,
    given_out,
    place_of,
)
from kproxy.filters.large_records import TOO_LARGE, UNREADABLE, TakesLong, limits_at_once
from kproxy.filters.matching import MOST_TOPICS, matches, rules_by_topic
from kproxy.filters.turns import LOOK_S, NotYet, retried
from kproxy.options import OptionMistakes, Options, Problem, Seconds, Warn, quoted, text
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.found import RecordsField
from kproxy.protocol.records import Batch, Batches, Record
from kproxy.protocol.records.in_place import FrameEdit
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits, NoRoom, TooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:  # most workers need no schemas: 1 MB
    from kproxy.filters.encrypted_fields import RecordFields
    from kproxy.schemas.store import Schemas

T = TypeVar("T")
KEY_TEMPLATE = re.compile(r"(?:[^{}]|\{topic\}|\{cluster\})*")
MOST_LOGGED = 1_000  # kinds of events, each of a topic
LOG_AGAIN_S = 600.0  # after which an event of the same kind and topic is logged again
OUTAGE_S = 60.0  # between two that are logged
AT_ONCE = 1_310_720  # bytes of values, and ...
RECORDS_AT_ONCE = 1_500  # ... records that are encrypted in about a millisecond
MOST_GROUPS = 10_000
MOST_MISSING = 8  # data keys that a share group waits for
MOST_WAIT_S = 20.0  # of ShareFetch, whatever it asks for: clients give a request up after 30
LAST_EPOCH = -1  # of a ShareFetch that closes its session, and fetches nothing
MAX_RECORDS_SINCE = 1  # version of ShareFetch
FIXED_GROWTH = 40  # bytes of an encrypted field: the nonce, the tag, and the envelope without names and data key
USUAL_WRAPPED = 256  # bytes of a wrapped data key, where it is not known yet: that of AWS KMS has 184
AWAY = "the key service has not answered in time"
SERVICE_AWAY = "encrypt: the key service is away"  # in the log
GROWS = (
    f"encrypted, the request would grow by over {MOST_GROWTH >> 20} MiB or beyond limits.frame_size: "
    "smaller batches, or larger values, fit"
)
REGISTRY_AWAY = "the schema registry has not answered in time"
# Errors of Fetch. Consumers try again after KAFKA_STORAGE_ERROR, and tell the application of the others
FETCH_ERRORS = {
    "key service away": ErrorCode.KAFKA_STORAGE_ERROR,
    "registry away": ErrorCode.KAFKA_STORAGE_ERROR,
    "key refused": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}


class RecordKeys(Options, frozen=True):
    """The data key that record keys of some topics are encrypted with. It stands, as equal record keys have to stay equal."""

    key: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MOST_NAME)],
        text("Name of the key of the key service that has wrapped it."),
    ]
    wrapped: Annotated[
        Annotated[str, Meta(min_length=1)],
        text("The wrapped data key, in base 64: kproxy keys FILE --record-keys KEY."),
    ]

    def __post_init__(self) -> None:
        try:
            b64decode(self.wrapped, validate=True)
        except ValueError:
            raise OptionMistakes([("wrapped", "this is not base 64")]) from None

    @property
    def wrapped_bytes(self) -> bytes:
        return b64decode(self.wrapped, validate=True)

    def envelope(self, topic: str) -> Envelope:
        """Return the envelope of the record keys of a topic."""
        return Envelope(self.key, topic, self.wrapped_bytes, part=KEY)


class EncryptRule(Options, frozen=True):
    """How the records of some topics are encrypted."""

    topics: Annotated[Annotated[tuple[str, ...], Meta(min_length=1)], text('Topics by name or pattern ("orders-*").')]
    key: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MOST_NAME)],
        text(
            'Name of the key of the key service; {topic}, and {cluster}, the virtual cluster, are replaced ("kek-{topic}").'
        ),
    ]
    other_keys: Annotated[
        tuple[str, ...],
        text(
            "Other keys, by name or pattern, whose records are read as well: those that the rule named before. The key of the "
            "rule is one of them, also with the names in written_to. Records of no other key are opened."
        ),
    ] = ()
    record_keys: Annotated[
        RecordKeys | None,
        text(
            "Encrypts record keys as well. Equal keys of a topic stay equal, for compaction, so brokers see which records have "
            "the same key. After a change of this data key, compaction sees two keys in place of each. null: record keys stay "
            "plain. Encrypted ones are decrypted in any case."
        ),
    ] = None
    headers: Annotated[
        tuple[str, ...],
        text(
            'Headers whose values are encrypted as well, by name or pattern ("customer-*"); other headers, and the names of all, '
            "stay plain. Encrypted ones are decrypted whether they are named here or not."
        ),
    ] = ()
    fields: Annotated[
        tuple[str, ...],
        text(
            "Encrypts these fields of values in place of the values, by JSON path, as mask has them: $.card.number, "
            "$.people[*].email. In values of Avro and Protobuf by their schemas, else in JSON; texts and bytes only. Items of "
            "arrays and values of maps are not told apart in Avro and Protobuf. All else of the value stays plain. A field of "
            "another type is refused, and so is anything but an object or array where a path goes on in one. Encrypted fields "
            "are decrypted only while the rule names them. Empty: the values are encrypted."
        ),
    ] = ()
    other_values: Annotated[
        Literal["fail", "pass"],
        text(
            "What becomes of produced values in which fields cannot be found: without a known schema and no JSON, or by a "
            "schema of Avro or Protobuf that has no such field or does not describe the value. fail: their partition is "
            "refused. pass: they are written as they are, plain, counted."
        ),
    ] = "fail"
    compress: Annotated[
        Literal["zstd"] | None,
        text(
            "Whether values are compressed before they are encrypted, as encrypted bytes do not compress. Their sizes then tell "
            "something about their contents: not for values in which a stranger's text stands next to a secret. Values that "
            "become more than 64 times smaller stay as they are."
        ),
    ] = None
    writes: Annotated[
        Literal["encrypted", "plain"],
        text("plain: values are no longer encrypted, and those that are already encrypted are still decrypted."),
    ] = "encrypted"
    plain: Annotated[
        Policy,
        text(
            "What becomes of values that are not encrypted when they are fetched, of plain fields if the rule names them in "
            "place of values, and of record keys if record_keys is set. "
            "pass: they are given out. fail: the client gets an error. skip: they are left out, counted."
        ),
    ] = "pass"
    unreadable: Annotated[
        Policy,
        text(
            "The same for encrypted values, fields and record keys that cannot be decrypted: damaged, of another topic, their "
            "key was destroyed or refused, or a value's schema is not known. pass: they are given out encrypted. While the key "
            "service or a schema registry is away, clients get an error in any case."
        ),
    ] = "fail"
    written_to: Annotated[
        tuple[str, ...],
        text("Other topics, by name, whose encrypted records are copied to these without kproxy, as mirrors do."),
    ] = ()

    def __post_init__(self) -> None:
        if not self.fields:
            return
        from kproxy.filters.mask import parse_paths, path_problems  # noqa: PLC0415

        problems = path_problems(self.fields)
        if self.compress is not None:
            problems.append(("compress", "fields are not compressed: leave it out of a rule with fields"))
        if problems:
            raise OptionMistakes(problems)
        try:
            parse_paths(self.fields)
        except ValueError as error:
            raise OptionMistakes([("fields", str(error))]) from None

    @property
    def refuses_other_values(self) -> bool:
        """Whether values in which its fields are not found are refused."""
        return bool(self.fields) and self.other_values == "fail" and self.writes == "encrypted"

    def names_header(self, name: str) -> bool:
        """Return whether the values of headers of this name are encrypted."""
        return matches(name, self.headers)


class Tried(NamedTuple):
    """What a key service was asked for, to see whether it can do it.

    Attributes:
        path: of the data key among the options; "" for a new one.
        key_name: of the key that wraps it.
        done: what it has done, in words, if there is no *error*.
    """

    path: str
    key_name: str
    done: str
    error: KeyServiceError | None = None

    @classmethod
    def asking(cls, ask: Callable[[], object], path: str, key_name: str, done: str) -> "Tried":
        try:
            ask()
        except KeyServiceError as error:
            return cls(path, key_name, done, error)
        return cls(path, key_name, done)


class EncryptOptions(Options, frozen=True):
    """Options of encrypt."""

    keys: Annotated[KeySettings, text("The key service that wraps data keys.")]
    rules: Annotated[
        Annotated[tuple[EncryptRule, ...], Meta(min_length=1)],
        text("The first rule that names a topic applies to it; other topics are not looked at."),
    ]
    wait: Annotated[Seconds, text("How long a request or response waits for the key service.")] = 2.0
    data_key_records: Annotated[
        int, Meta(ge=1, le=MOST_RECORDS), text("Records after which a topic gets another data key, in each worker.")
    ] = DataKeyLimits.records
    data_key_age: Annotated[
        Seconds,
        text("Age at which a topic gets another data key, and at which one that is read with is unwrapped again."),
    ] = DataKeyLimits.age_s
    while_away: Annotated[
        Seconds, text("How much longer data keys are used while the key service is away; then nothing is written.")
    ] = DataKeyLimits.away_s

    def __post_init__(self) -> None:
        problems = []
        for number, rule in enumerate(self.rules):
            if not KEY_TEMPLATE.fullmatch(rule.key):
                problems.append(
                    (f"rules[{number}].key", "only {topic} and {cluster} are replaced in the name of a key")
                )
            problems += [
                (
                    f"rules[{number}].topics",
                    f"rules[{before}] has {quoted(topic)} already, so this rule never applies to it",
                )
                for topic in rule.topics
                for before, other in enumerate(self.rules[:number])
                if matches(topic, other.topics)
            ][:1]
        if problems:
            raise OptionMistakes(problems)

    def problems_here(self) -> Iterator[Problem]:
        """Yield why a key set does not open, and which keys that rules name it does not have; no network is asked."""
        service = self.keys.on_this_machine()
        if service is None:
            return
        try:
            service.list_keys()
        except KeyServiceError as error:
            yield "keys.with", str(error)
            return
        written = self.names_of_keys()
        for number, rule in enumerate(self.rules):
            try:
                if rule.writes == "encrypted" and rule.key in written:
                    service.describe_key(rule.key)
            except KeyDestroyed as error:
                yield f"rules[{number}].key", f"{error}: kproxy keys FILE --make {rule.key}, or name another one"
        yield from ((one.path, str(one.error)) for one in self.try_record_keys(service) if one.error is not None)

    def problems_elsewhere(self, warn: Warn) -> Iterator[Problem]:
        """Yield which data keys of record keys the key service does not unwrap; without them, nothing is read or written.

        Those of values are not asked for, as a kproxy in front of consumers may have no right to make any.
        """
        if not any(rule.record_keys for rule in self.rules) or self.keys.on_this_machine() is not None:
            return
        with closing(key_service(self.keys)) as service:
            for one in self.try_record_keys(service):
                if isinstance(one.error, KeyServiceAway):
                    warn(SERVICE_AWAY, f"{one.error}; records with encrypted keys wait for it")
                elif one.error is not None:
                    yield one.path, str(one.error)

    def try_keys(self, service: KeyService, cluster: str) -> Iterator[Tried]:
        """Have a data key made and unwrapped by each key that rules write with, then do ``try_record_keys``."""
        for name in self.names_of_keys(cluster):
            made = Tried.asking(partial(try_key, service, name), "", name, "a data key was made and unwrapped")
            yield made
            if isinstance(made.error, KeyServiceAway):
                return
        yield from self.try_record_keys(service)

    def try_record_keys(self, service: KeyService) -> Iterator[Tried]:
        """Have the data keys of record keys unwrapped, each once. After a KeyServiceAway the service is not asked again."""
        paths: dict[RecordKeys, str] = {}
        for number, rule in enumerate(self.rules):
            if rule.record_keys is not None:
                paths.setdefault(rule.record_keys, f"rules[{number}].record_keys")
        for one, path in paths.items():
            unwrap = partial(service.unwrap, one.key, one.wrapped_bytes)
            unwrapped = Tried.asking(unwrap, path, one.key, "the data key of record keys was unwrapped")
            yield unwrapped
            if isinstance(unwrapped.error, KeyServiceAway):
                return

    def names_of_keys(self, cluster: str | None = None) -> list[str]:
        """Return the keys that rules write with, each once; not those whose name depends on the topic.

        *cluster*: the virtual cluster; without one, names that depend on it are left out as well.
        """
        unknown = "\0"
        names = (
            rule.key.format(topic=unknown, cluster=unknown if cluster is None else cluster)
            for rule in self.rules
            if rule.writes == "encrypted"
        )
        return list(dict.fromkeys(name for name in names if unknown not in name))

    def names_by_topic(self) -> list[str]:
        """Return the templates of the names of keys that depend on the topic, of rules that write, each once."""
        rules = (rule for rule in self.rules if rule.writes == "encrypted")
        return list(dict.fromkeys(rule.key for rule in rules if rule.key.format(topic="\0", cluster="").count("\0")))


@dataclass
class Job:
    """A partition of a Produce request whose records are encrypted."""

    field: RecordsField
    name: str | None  # of its topic; None: not known
    rule: EncryptRule
    key: WritingKey | None = None
    record_keys: SealKey | None = None
    fields: "RecordFields | None" = None
    passed: list[str] = dataclass_field(default_factory=list)  # why values were written as they are
    done: int | None = None  # batches that are encrypted; None: not begun
    refused: tuple[int, str] | None = None

    @cached_property
    def batches(self) -> Batches:
        return batches_in(self.field)


class Encrypt(Filter):
    """Encrypt record values on their way to brokers, and decrypt them on their way to consumers.

    Values of topics with a rule are encrypted with AES-256-GCM; each record carries its data key, wrapped by the key that the
    rule names. Headers that the rule names are encrypted in the same way, and record keys with AES-256-SIV if it has a data key
    for them; others stay plain. Clients choose the partition by the plain key. Null values (tombstones), null keys, control
    records, offsets, timestamps and producer ids stay as they are, so compaction, transactions and idempotent producers work on.

    A rule with ``fields`` encrypts these in place of values: a text becomes base 64, bytes become the encrypted ones, and the
    value stays one of its schema (``schemas`` in the configuration; JSON needs none). All else of the value stays plain, and can
    tell much of what is hidden. Each field grows as a value does, a text by a third more. Fields of another type (numbers, enums,
    fixed, dates, keys of maps) are refused: by kproxy check and at the start if the schema is in a file, else with
    POLICY_VIOLATION. So are values in which the fields are not found, unless ``other_values`` says pass. A request or response
    waits up to ``wait`` for a schema that a registry has to be asked for; then producers and consumers get the errors after which
    they try again. A share group that waits for a schema acquires records again meanwhile, which counts as a delivery.

    Plain and encrypted records may be in one topic. A record grows by 40 bytes, the names of the topic and of the key, and the
    wrapped data key, by as much for each encrypted header, and by 12 bytes less for its encrypted key: message.max.bytes of the
    broker has to leave room for that. A request grows by at most 64 MiB and not beyond limits.frame_size, a batch
    before it is compressed by at most 64 MiB: a partition beyond that is refused with MESSAGE_TOO_LARGE, after which Java's
    producer splits its batch. A response that would grow by more ends before that, and the consumer asks for the rest.

    Without a data key nothing is written: the partition gets NOT_ENOUGH_REPLICAS, after which producers try again, if the key
    service is away, and POLICY_VIOLATION if it refuses the key or does not have it any more. After that one producers do not try
    again: it takes a person to give the right or the key back, and until delivery.timeout.ms (2 minutes) no application would
    hear of it. Java's producer shows the sentence that comes with it, which names the key; with TOPIC_AUTHORIZATION_FAILED it
    would show none, and people would look into the ACLs of the brokers. A producer that waits for no response (acks=0) hears
    nothing, and its records are lost. A topic id (Produce from version 13 on) whose name no Metadata response has said yet is
    refused with UNKNOWN_TOPIC_ID, after which the client asks for Metadata.

    A consumer gets KAFKA_STORAGE_ERROR and tries again while the key service is away, TOPIC_AUTHORIZATION_FAILED for a key that
    is refused, and CORRUPT_MESSAGE for all else that cannot be decrypted: the log says the offset and why. Records of the
    formats 0 and 1 cannot be skipped: there, skip is as fail. A response has to fit into half of limits.held_frame_size, as
    with mask.

    A broker counts a record as delivered when ShareFetch acquires it, and gives up after group.share.delivery.count.limit (5)
    deliveries (KIP-932). So from the moment that records of a share group wait for a data key, ShareFetch requests of that
    group acquire no others until the key service has answered for this data key: each waits as long as its max_wait_ms allows,
    and then goes to the broker with max_records 0. Its acknowledgements count; a request that has some, or closes the session,
    does not wait. What was acquired before has cost a delivery. Each worker learns this by itself. Version 0 of ShareFetch, of
    a preview in Kafka 4.0, has no max_records: its requests are forwarded.

    List it after all filters that read values: mask, validate, deny by record. Dead letters of validate are encrypted if a rule
    names their topic; kproxy check warns if none does.
    """

    name = "encrypt"
    requests = (ApiKey.PRODUCE, ApiKey.SHARE_FETCH)
    responses = answers = (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH)
    responses_to_kept = (ApiKey.PRODUCE,)  # those to which refused partitions are added
    uses_requests = False
    names_topics = True
    encrypts_records = True
    required = True
    timeout = PATIENCE_S
    Options = EncryptOptions

    def __init__(self, options: EncryptOptions) -> None:
        self.options = options
        self._rules = rules_by_topic(options.rules)
        self._logged: dict[tuple[str, str, str], float] = {}  # and when it may be logged again
        self._outage: Outage | None = None  # of the key service, as it was logged
        self._next_outage = 0.0  # when another one may be logged
        self._missing: dict[str, set[Envelope]] = {}  # by share group: the data keys that it waits for
        self._keys: DataKeys
        self._schemas: Schemas | None = None
        self.fields = MadeOnce(self._fields_of, MOST_TOPICS)  # of each topic
        self._read_from = MadeOnce(self._sources_of, MOST_TOPICS)
        self.checks_schemas = any(rule.fields for rule in options.rules)

    def warnings(self, before: Sequence[Filter]) -> Iterator[str]:
        """Yield which dead letters of encrypted topics are written in plain text; a pattern stands for the topics it names."""
        from kproxy.filters.validate import Validate  # noqa: PLC0415 - most workers need no schemas

        for other in before:
            if isinstance(other, Validate):
                rules = [rule.topics for rule in self.options.rules] + [rule.topics for rule in other.options.rules]
                for topic in dict.fromkeys(chain.from_iterable(rules)):
                    letters = other.dead_letter_topic(topic)
                    if letters is not None and self._encrypts(topic) and not self._encrypts(letters):
                        yield (
                            f"values of {quoted(topic)} that validate refuses are written to {quoted(letters)} in plain text: "
                            "no rule of encrypt names it"
                        )
                    rule = None if letters is None else self._rules[letters]
                    if rule is not None and rule.refuses_other_values:
                        yield (
                            f"values of {quoted(topic)} that validate refuses are written to {quoted(letters or '')}, and the "
                            "rule of encrypt for it names fields: values in which they are not found are refused there as well"
                        )

    def growth(self, topic: str) -> Callable[[Record], int] | None:
        """Return what says by how many bytes a record grows: exactly, as soon as the data key of its topic is known."""
        rule = self._rules[topic]
        if rule is None or not self._encrypts(topic):
            return None
        key_name = self._key_name(rule, topic)
        try:
            each = self._keys.for_writing(topic, key_name).growth
        except (KeyNotYet, KeyServiceError):  # it is asked for now
            each = FIXED_GROWTH + len(key_name.encode()) + len(topic.encode()) + USUAL_WRAPPED
        of_key = 0 if rule.record_keys is None else len(rule.record_keys.envelope(topic).encoded()) + added_behind(KEY)

        def growth(record: Record) -> int:
            of_headers = each * sum(rule.names_header(name) for name, _ in record.headers)
            of_value = each
            if rule.fields:  # at most, if each path leads to one field
                of_value = (each * 4 // 3 + 4) * len(rule.fields) + len(record.value or b"") // 3
            return of_value + of_headers + (0 if record.key is None else of_key)

        return growth

    def problems_with_schemas(self, schemas: "Schemas") -> Iterator[str]:
        """Yield which fields cannot be encrypted, by the schemas at hand."""
        from kproxy.filters.encrypted_fields import RecordFields, topics_at_hand  # noqa: PLC0415

        for topic in topics_at_hand(schemas):
            rule = self._rules[topic]
            if rule is not None and rule.fields and rule.writes == "encrypted":
                found = RecordFields(schemas, topic, rule.fields, rule.other_values == "pass").problems()
                yield from (f"encrypt, topic {quoted(topic)}: {problem}" for problem in found)

    def _encrypts(self, topic: str) -> bool:
        rule = self._rules[topic]
        return rule is not None and rule.writes == "encrypted"

    def on_start(self) -> None:
        """Open the key service. Raises UsageError."""
        options = self.options
        limits = DataKeyLimits(options.data_key_records, options.data_key_age, options.while_away)
        if self.checks_schemas:
            self._schemas = schemas = self.runtime.schemas()
            for problem in self.problems_with_schemas(schemas):
                raise UsageError(problem)
        self._keys = DataKeys(key_service(options.keys), limits, self.runtime.monotonic)
        kept = self.runtime.kept.setdefault(self.name, {})  # a reload keeps data keys: the key service may be away
        place = encode(options.keys)
        self._before = kept.get(place)
        if self._before is not None:
            self._keys.take_over(self._before)
        kept[place] = self._keys

    def on_stop(self) -> None:
        """Forget the data keys."""
        kept, place = self.runtime.kept[self.name], encode(self.options.keys)
        if kept[place] is self._keys:  # nothing follows: kproxy ends, or goes on with what was there before
            kept[place] = self._before
        self._keys.close()

    def wants_topic(self, topic: str) -> bool:
        """Return whether a rule names the topic."""
        return self._rules[topic] is not None

    def _fields_of(self, topic: str) -> "RecordFields | None":
        """Return what encrypts and decrypts the fields that the rule of a topic names; None if it names none."""
        rule = self._rules[topic]
        if rule is None or not rule.fields or self._schemas is None:
            return None
        from kproxy.filters.encrypted_fields import RecordFields  # noqa: PLC0415

        return RecordFields(self._schemas, topic, rule.fields, rule.other_values == "pass")

    def on_records(
        self, direction: Direction, request: RequestFacts, frame: bytes, fields: Sequence[RecordsField]
    ) -> Edited | Awaitable[Edited]:
        """Encrypt the records of topics with rules, or decrypt them, where they lie."""
        named = [(field, field.topic or self.topic_names.get(field.topic_id or "")) for field in fields]
        if direction == Direction.REQUEST:
            return self._encrypt(request, frame, [job for field, name in named for job in self._job(field, name)])
        return self._decrypt(
            request, frame, [one for field, name in named for one in self._change(request, field, name)]
        )

    # Produce

    def _encrypt(self, request: RequestFacts, frame: bytes, jobs: list[Job]) -> Edited | Awaitable[Edited]:
        if not jobs:
            return Edited(frame)
        self._note_outage()
        limits = _limits_at_once(frame, jobs) if self._have_keys(jobs) else None
        if limits is not None:
            edit = FrameEdit(frame, self._room(frame, AT_ONCE))
            try:
                for job in jobs:
                    _encrypt_field(job, edit, limits)
                return self._encrypted(request, edit.finish(), jobs)
            except TakesLong:
                for job in jobs:
                    job.done = None
        return self._encrypt_later(request, frame, jobs)

    def on_request(self, request: Request) -> Verdict | Any:
        """Let a ShareFetch request acquire no records while its group waits for data keys."""
        message: Any = request.message
        group = request.kept[self.name] = message.group_id or ""
        is_last = message.share_session_epoch == LAST_EPOCH
        if is_last or request.api_version < MAX_RECORDS_SINCE or not self._waits(group):
            return Forward()
        if any(one.acknowledgement_batches for topic in message.topics for one in topic.partitions):
            return _without_records(message)
        return self._when_answered(message, group)

    async def _when_answered(self, message: Any, group: str) -> Verdict:
        until = self.runtime.monotonic() + min(max(0, message.max_wait_ms) / 1_000, MOST_WAIT_S)
        while self._waits(group):
            if self.runtime.monotonic() >= until:
                return _without_records(message)
            await self.runtime.sleep(LOOK_S * 10)
        return Forward()

    def _waits(self, group: str) -> bool:
        """Return whether a share group waits for data keys, and forget those that it waits for no longer."""
        missing = {one for one in self._missing.pop(group, ()) if self._keys.is_missing(one)}
        if missing:
            self._missing[group] = missing
        return bool(missing)

    def note_missing(self, request: RequestFacts, missing: Collection[Envelope]) -> None:
        """Let the share group of a response, if it has one, wait for these data keys from now on."""
        group = request.kept.get(self.name)
        if request.api_key == ApiKey.SHARE_FETCH and group and missing:
            self._missing[group] = set([*missing, *self._missing.pop(group, ())][:MOST_MISSING])
            if len(self._missing) > MOST_GROUPS:
                del self._missing[next(iter(self._missing))]

    async def _encrypt_later(self, request: RequestFacts, frame: bytes, jobs: list[Job]) -> Edited:
        """Wait for the key service, and encrypt in a thread, while other connections go on."""

        async def find_keys(is_late: bool) -> None:
            if self._have_keys(jobs):
                return
            if not is_late:
                raise NotYet
            for job in jobs:
                if job.key is None and job.refused is None:
                    job.refused = ErrorCode.NOT_ENOUGH_REPLICAS, AWAY

        until = self.runtime.monotonic() + self.options.wait
        await retried(self.runtime, until, find_keys)
        edit = FrameEdit(frame, self._room(frame, MOST_GROWTH))
        for job in jobs:
            await retried(self.runtime, until, partial(self._encrypt_in_thread, job, edit))
        return self._encrypted(request, await self.runtime.in_thread(edit.finish), jobs)

    def _room(self, frame: bytes, most: int) -> int:
        """Return by how much a request may grow: the broker, too, refuses what is larger than limits.frame_size."""
        return max(0, min(most, self.most_frame_size + SIZE_FIELD - len(frame)))

    async def _encrypt_in_thread(self, job: Job, edit: FrameEdit, is_late: bool) -> None:
        try:
            await self.runtime.in_thread(partial(_encrypt_field, job, edit))
        except NotYet:
            if not is_late:
                raise
            job.refused = ErrorCode.NOT_ENOUGH_REPLICAS, REGISTRY_AWAY
            _encrypt_field(job, edit)

    def _job(self, field: RecordsField, name: str | None) -> Iterator[Job]:
        """Yield the job that a partition is, if there is anything to do."""
        rule = self.options.rules[0] if name is None else self._rules[name]
        if rule is not None and (rule.writes != "plain" or name is None):
            yield Job(field, name, rule, fields=None if name is None else self.fields[name])

    def _have_keys(self, jobs: list[Job]) -> bool:
        """Find the data keys of partitions; return False while the key service is asked for some, several at once."""
        unknown: set[str | None] = set()
        for job in jobs:
            if job.name not in unknown and not self._has_key(job):
                unknown.add(job.name)
                if len(unknown) == MOST_QUESTIONS:
                    break
        return not unknown

    def _has_key(self, job: Job) -> bool:
        """Find the data key of a partition; return False while the key service is asked for it."""
        if job.key is not None or job.refused is not None:
            return True
        if job.name is None:
            job.refused = ErrorCode.UNKNOWN_TOPIC_ID, "the name of the topic is not known yet"
            return True
        try:
            key = _if_known(partial(self._keys.for_writing, job.name, self._key_name(job.rule, job.name)))
            if job.rule.record_keys is not None:
                envelope = job.rule.record_keys.envelope(job.name)
                job.record_keys = _if_known(partial(self._keys.for_record_keys, envelope))
                if job.record_keys is None:
                    return False
            job.key = key
        except KeyServiceError as error:
            is_away = isinstance(error, KeyServiceAway)
            job.refused = ErrorCode.NOT_ENOUGH_REPLICAS if is_away else ErrorCode.POLICY_VIOLATION, str(error)
        return job.key is not None or job.refused is not None

    def _encrypted(self, request: RequestFacts, frame: bytes, jobs: list[Job]) -> Edited:
        """Log and count what was refused, or passed; return the verdict on the request."""
        refused = {}
        for job in jobs:
            place = f"topic {job.name}, partition {job.field.partition}, client {request.client_id}"
            if job.refused is not None:
                error, why = job.refused
                refused[place_of(job.field.topic, job.field.topic_id, job.field.partition)] = job.refused
                self._note("refused", ErrorCode(error).name, f"{why}: {place}", job.name or "")
            elif job.passed:
                self._note("passed", "no field", f"{job.passed[0]}: {place}", job.name or "", len(job.passed))
        return Edited(frame, partial(self._refuse, refused) if refused else None)

    def _refuse(self, refused: Mapping[tuple[str, int], tuple[int, str]], request: Request) -> Verdict:
        """Remove partitions from a Produce request, whose records the frame does not have any more."""
        message: Any = request.message
        removed = []
        for topic in message.topic_data:
            name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
            for partition in topic.partition_data:
                why = refused.get(place_of(name, topic_id, partition.index))
                if why is not None:
                    removed.append(RefusedPartition(topic, partition, *why))
        return refuse_partitions(request, removed, self.name)

    # Fetch

    def on_response(self, response: Response) -> Verdict | Any:
        """Add the partitions that were refused to a response to Produce."""
        return add_refused(response, self.name)

    def _change(self, request: RequestFacts, field: RecordsField, name: str | None) -> Iterator[FieldChange]:
        """Yield the change of a partition, if its topic has a rule or no known name."""
        rule = None if name is None else self._rules[name]
        if name is None:
            yield FieldChange(field, ErrorCode.UNKNOWN_TOPIC_ID)
        elif rule is not None:
            yield Reading(self, request, name, field, rule)

    def _decrypt(self, request: RequestFacts, frame: bytes, changes: list[FieldChange]) -> Edited | Awaitable[Edited]:
        if not changes:
            return Edited(frame)
        self._note_outage()
        edit = FrameEdit(frame, MOST_GROWTH)
        limits = _limits_at_once(frame, [one for one in changes if isinstance(one, Reading)])
        if limits is not None and are_changed_at_once(edit, request, changes, limits):
            return self._decrypted(request, edit.finish(), changes)
        return self._decrypt_later(request, edit, changes)

    async def _decrypt_later(self, request: RequestFacts, edit: FrameEdit, changes: list[FieldChange]) -> Edited:
        """Wait for the key service, and decrypt in a thread, in turns with other responses."""
        until = self.runtime.monotonic() + self.options.wait
        return self._decrypted(request, await change_in_turns(self.runtime, until, edit, request, changes), changes)

    def _decrypted(self, request: RequestFacts, frame: bytes, changes: list[FieldChange]) -> Edited:
        """Log and count what could not be decrypted; return the verdict on the response."""
        for change in changes:
            if isinstance(change, Reading):
                change.note()
        return given_out(frame, request, changes)

    def reader(self, topic: str, rule: EncryptRule) -> ValueReader:
        """Return what decrypts the values of a topic."""
        topics, key_names = self._read_from[topic]
        return ValueReader(
            self._keys,
            topics,
            key_names,
            accepts_plain=rule.plain == "pass",
            record_keys=rule.record_keys is not None,
            headers=_named_headers(rule),
            values=not rule.fields,
        )

    def _sources_of(self, topic: str) -> tuple[set[str], list[str]]:
        """Return the topics and names of keys that values of a topic with a rule may have."""
        rule = self._rules[topic]
        assert rule is not None
        topics = {topic, *rule.written_to}
        key_names = [*(escape(self._key_name(rule, one)) for one in topics), *rule.other_keys]
        if rule.record_keys is not None:
            key_names.append(escape(rule.record_keys.key))
        return topics, key_names

    def _key_name(self, rule: EncryptRule, topic: str) -> str:
        return rule.key.format(topic=topic, cluster=self.runtime.cluster)

    def _note(self, event: str, kind: str, sentence: str, topic: str, count: int = 1) -> None:
        """Count what happened, and log the first of its kind and topic."""
        self.runtime.shared_count(self.name, event, kind).add(count)
        now, key = self.runtime.monotonic(), (event, kind, topic)
        if len(self._logged) >= MOST_LOGGED and key not in self._logged:  # a client may make up topics
            self._logged = {one: until for one, until in self._logged.items() if until > now}
        if now >= self._logged.get(key, now) and (key in self._logged or len(self._logged) < MOST_LOGGED):
            self._logged[key] = now + LOG_AGAIN_S
            self.runtime.warn(f"encrypt: {event} ({kind})", sentence)

    def _note_outage(self) -> None:
        """Log and count that the key service is away, and log that it answers again: data keys hide both for a while."""
        now, outage, logged = self.runtime.monotonic(), self._keys.outage, self._outage
        if logged is not None and (outage is None or outage.since != logged.since):
            self._outage = None
            self.runtime.warn("encrypt: the key service answers again", f"it was away for {now - logged.since:.0f} s")
        if outage is not None and self._outage is None and now >= self._next_outage:
            self._outage, self._next_outage = outage, now + OUTAGE_S
            self.runtime.shared_count(self.name, "outage", "key service away").add(1)
            goes_on = f"data keys in use go on for at most {self.options.while_away:g} s"
            self.runtime.warn(SERVICE_AWAY, f"{outage.error}; {goes_on}")

    def note_value(self, error: CannotDecrypt, event: str, topic: str, partition: int) -> None:
        """Count a value that could not be decrypted, and log the first."""
        place = f"topic {topic}, partition {partition}"
        at = "" if error.offset is None else f", offset {error.offset}"
        self._note(event, error.kind, f"{error}: {place}{at}", topic)


class Reading(FieldChange):
    """A partition of a response whose records are decrypted."""

    def __init__(
        self, filter_: Encrypt, request: RequestFacts, topic: str, field: RecordsField, rule: EncryptRule
    ) -> None:
        super().__init__(field)
        self._filter = filter_
        self._request = request
        self._topic = topic
        self.rule = rule
        self._reader = filter_.reader(topic, rule)
        self.fields = filter_.fields[topic]
        self._waits_for_schema = False
        self._reports: list[tuple[CannotDecrypt, str]] = []

    def change(self, batch: Batch, edit: FrameEdit) -> bytes | Withheld:
        """Decrypt a batch. Raises NotYet, TakesLong."""
        reports: list[tuple[CannotDecrypt, str]] = []

        def report(error: CannotDecrypt, policy: Policy) -> None:
            reports.append((error, "skipped" if policy == "skip" else "passed"))

        rule = self.rule
        self._waits_for_schema = False
        fields = None if self.fields is None else self.fields.decrypting(self._reader, self._wait_for_schema)
        try:
            plain = decrypt_batch(
                batch, self._reader, rule.plain, rule.unreadable, report, fields, into=edit, limits=self.limits
            )
        except KeyNotYet:
            raise NotYet from None
        except CannotDecrypt as error:
            return self._failed(error)
        self._reports += reports
        return Withheld(UNREADABLE) if plain is None else plain

    def report(self, withheld: Withheld) -> None:
        """Note why records cannot be read."""
        if withheld.reason in (TOO_LARGE, UNREADABLE):
            self._failed(CannotDecrypt("damaged", f"the records {withheld.reason}", self.next_offset))

    def _failed(self, error: CannotDecrypt) -> Withheld:
        self._reports.append((error, "failed"))
        return Withheld(error.kind, FETCH_ERRORS.get(error.kind, ErrorCode.CORRUPT_MESSAGE))

    def _wait_for_schema(self) -> None:
        self._waits_for_schema = True

    def on_not_yet(self, is_late: bool) -> None:
        """Let a share group wait for the data keys; give nothing else out if it is late."""
        self._filter.note_missing(self._request, self._reader.missing.values())
        if is_late and self._waits_for_schema:
            self.withhold(self._failed(CannotDecrypt("registry away", REGISTRY_AWAY)))
        elif is_late:
            self.withhold(self._failed(CannotDecrypt("key service away", AWAY)))

    def note(self) -> None:
        """Log and count what could not be decrypted."""
        self._filter.note_missing(self._request, self._reader.missing.values())
        for error, event in self._reports:
            self._filter.note_value(error, event, self._topic, self.field.partition)


def _limits_at_once(frame: bytes, parts: Sequence[Job | Reading]) -> Limits | None:
    """Return the limits under which the records of these partitions take about a millisecond; None: they take longer.

    What takes less costs less on the event loop than in a thread, with its two changes of threads.
    """
    if sum(part.field.size for part in parts) > AT_ONCE or any(part.fields or part.rule.compress for part in parts):
        return None
    # A client may have written a count below 0
    if sum(max(batch.count or 1, 1) for part in parts for batch in part.batches) > RECORDS_AT_ONCE:
        return None
    return limits_at_once(frame, [part.batches for part in parts], AT_ONCE)


def _if_known(data_key: Callable[[], T]) -> T | None:
    """Return a data key; None while the key service is asked for it. Raises KeyServiceError."""
    try:
        return data_key()
    except KeyNotYet:
        return None


def _without_records(message: Any) -> Replace:
    """Let a ShareFetch request acquire nothing; what it acknowledges counts."""
    message.max_records = 0
    return Replace(message)


def _named_headers(rule: EncryptRule) -> Callable[[bytes], bool] | None:
    """Return whether a rule names a header; None if it names none."""
    if not rule.headers:
        return None
    return lambda name: rule.names_header(name.decode("utf-8", "surrogateescape"))


def _encrypt_field(job: Job, edit: FrameEdit, limits: Limits = DEFAULT_LIMITS) -> None:
    """Encrypt the records of a partition where they lie; with other limits, TakesLong is raised for what goes beyond them.

    Raises NotYet while a registry is asked. Called again, it goes on with the same batch.
    """
    if job.done is None:
        edit.begin(job.field)
        job.done = 0
    while job.refused is None and job.done < len(job.batches):
        job.refused = _refusal(job, job.batches[job.done], edit, limits)
        job.done += 1
    if job.refused is None and (job.batches.tail is not None or not job.batches):
        job.refused = ErrorCode.CORRUPT_MESSAGE, f"the records {UNREADABLE}"
    if job.refused is not None:
        edit.empty()
    else:
        edit.end(job.field.start + job.field.size)


def _refusal(job: Job, batch: Batch, edit: FrameEdit, limits: Limits) -> tuple[int, str] | None:
    """Encrypt a batch; return why its partition is refused, if it is."""
    assert job.key is not None
    if batch.is_control:  # it would stay as it is
        return ErrorCode.INVALID_RECORD, "clients write no control records"
    passed: list[str] = []
    try:
        made = encrypt_batch(
            batch,
            job.key,
            packs=job.rule.compress is not None,
            record_keys=job.record_keys,
            headers=_named_headers(job.rule),
            fields=None if job.fields is None else job.fields.encrypting(job.key, passed.append),
            into=edit,
            limits=limits,
        )
        if made:
            edit.put(batch, made)
    except TooLarge as error:
        if limits is not DEFAULT_LIMITS:
            raise TakesLong from None
        return ErrorCode.MESSAGE_TOO_LARGE, GROWS if isinstance(error, NoRoom) else f"the records {TOO_LARGE}"
    except CannotEncrypt as error:
        return ErrorCode.NOT_ENOUGH_REPLICAS if error.is_away else ErrorCode.POLICY_VIOLATION, str(error)
    if made is None:
        return ErrorCode.CORRUPT_MESSAGE, f"the records {UNREADABLE}"
    job.passed += passed
    return None
