"""Encrypt: brokers get encrypted values or fields of them, by choice also record keys and headers; consumers get plain ones.

The format and what it protects are in kproxy.encryption. Produce, Fetch and ShareFetch are held (and Metadata, for the names of
topics by their ids), but not frames with one topic, if no rule names it. Other topics without a rule are not looked into.

    Produce     each batch of a topic with a rule is encrypted with the data key of its topic; without one, it is refused
    ShareFetch  its request acquires nothing while its group waits for a data key: see Encrypt
    Fetch       each batch is decrypted; a value that cannot be decrypted, and a plain one, become what the rule says
"""

import itertools
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from glob import escape
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta
from msgspec.json import encode

from kproxy.encryption.batches import CannotDecrypt, CannotEncrypt, Policy, ValueReader, decrypt_batch, encrypt_batch
from kproxy.encryption.data_keys import MOST_RECORDS, DataKeyLimits, DataKeys, KeyNotYet, Outage, SealKey, WritingKey
from kproxy.encryption.envelope import KEY, Envelope, added_behind
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
    PATIENCE_S,
    Changed,
    Withheld,
    at_once,
    change_fetched,
    give,
    in_turns,
    topic_name,
    withhold_unknown,
)
from kproxy.filters.large_records import TOO_LARGE, UNREADABLE
from kproxy.filters.turns import LOOK_S, NotYet, retried
from kproxy.options import OptionMistakes, Options, Problem, Seconds, Warn, quoted, text
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.found import RecordsField
from kproxy.protocol.records import Batch, Batches, Codec, Record, read_batches
from kproxy.protocol.records.editing import HEADER, TooLarge
from kproxy.protocol.records.in_place import FrameEdit
from kproxy.protocol.records.zstd_frames import most_content

TYPE_CHECKING = False
if TYPE_CHECKING:  # most workers need no schemas: 1 MB
    from kproxy.filters.encrypted_fields import RecordFields
    from kproxy.schemas.store import Schemas

T = TypeVar("T")
MOST_LOGGED = 1_000  # kinds of events, each of a topic
LOG_AGAIN_S = 600.0  # after which an event of the same kind and topic is logged again
OUTAGE_S = 60.0  # between two that are logged
AT_ONCE = 1_310_720  # bytes of values, and ...
RECORDS_AT_ONCE = 1_500  # ... records that are encrypted in about a millisecond
COMPRESSED = 80  # by which compressed records may grow; 16 KB of them are changed at once
SINCE_ZSTD = 2  # magic
MOST_BLOCKS = 16  # of a zstd frame that is changed at once: 10 of full size take AT_ONCE, and counting takes time, too
MOST_GROUPS = 10_000
MOST_MISSING = 8  # data keys that a share group waits for
MOST_WAIT_S = 20.0  # of ShareFetch, whatever it asks for: clients give a request up after 30
LAST_EPOCH = -1  # of a ShareFetch that closes its session, and fetches nothing
MAX_RECORDS_SINCE = 1  # version of ShareFetch
FIXED_GROWTH = 40  # bytes of an encrypted field: the nonce, the tag, and the envelope without names and data key
USUAL_WRAPPED = 256  # bytes of a wrapped data key, where it is not known yet: that of AWS KMS has 184
AWAY = "the key service has not answered in time"
SERVICE_AWAY = "encrypt: the key service is away"  # in the log
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
        return any(fnmatchcase(name, one) for one in self.headers)


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
            try:
                rule.key.format(topic="", cluster="")
            except (AttributeError, KeyError, IndexError, ValueError):
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
                if any(fnmatchcase(topic, one) for one in other.topics)
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


@dataclass(slots=True)
class Job:
    """A partition of a Produce request whose records are encrypted."""

    topic: Any
    partition: Any  # of the message; or its RecordsField
    name: str | None  # of its topic; None: not known
    rule: EncryptRule
    key: WritingKey | None = None
    record_keys: SealKey | None = None
    fields: "RecordFields | None" = None
    passed: list[str] = field(default_factory=list)  # why values were written as they are
    records: bytes = b""  # when they are encrypted
    refused: tuple[int, str] | None = None


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
    broker has to leave room for that.

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
        self._rules: dict[str, EncryptRule | None] = {}
        self._logged: dict[tuple[str, str, str], float] = {}  # and when it may be logged again
        self._outage: Outage | None = None  # of the key service, as it was logged
        self._next_outage = 0.0  # when another one may be logged
        self._missing: dict[str, set[Envelope]] = {}  # by share group: the data keys that it waits for
        self._keys: DataKeys
        self._schemas: Schemas | None = None
        self._fields: dict[str, RecordFields] = {}
        # The topics and names of keys that values of a topic may have
        self._read_from: dict[str, tuple[set[str], list[str]]] = {}
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
                    rule = None if letters is None else self._rule_of(letters)
                    if rule is not None and rule.refuses_other_values:
                        yield (
                            f"values of {quoted(topic)} that validate refuses are written to {quoted(letters or '')}, and the "
                            "rule of encrypt for it names fields: values in which they are not found are refused there as well"
                        )

    def growth(self, topic: str) -> Callable[[Record], int] | None:
        """Return what says by how many bytes a record grows: exactly, as soon as the data key of its topic is known."""
        rule = self._rule_of(topic)
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
            rule = self._rule_of(topic)
            if rule is not None and rule.fields and rule.writes == "encrypted":
                found = RecordFields(schemas, topic, rule.fields, rule.other_values == "pass").problems()
                yield from (f"encrypt, topic {quoted(topic)}: {problem}" for problem in found)

    def _encrypts(self, topic: str) -> bool:
        rule = self._rule_of(topic)
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
        return self._rule_of(topic) is not None

    def _rule_of(self, topic: str) -> EncryptRule | None:
        if topic not in self._rules:
            if len(self._rules) > 10_000:
                self._rules.clear()
            rules = (rule for rule in self.options.rules if any(fnmatchcase(topic, one) for one in rule.topics))
            self._rules[topic] = next(rules, None)
        return self._rules[topic]

    def fields_of(self, topic: str, rule: EncryptRule) -> "RecordFields | None":
        """Return what encrypts and decrypts the fields that a rule names; None if it names none."""
        if not rule.fields or self._schemas is None:
            return None
        from kproxy.filters.encrypted_fields import RecordFields  # noqa: PLC0415

        if topic not in self._fields:
            if len(self._fields) > 10_000:
                self._fields.clear()
            self._fields[topic] = RecordFields(self._schemas, topic, rule.fields, rule.other_values == "pass")
        return self._fields[topic]

    def on_records(
        self, direction: Direction, request: RequestFacts, frame: bytes, fields: Sequence[RecordsField]
    ) -> bytes | None:
        """Encrypt or decrypt what takes no time, where nothing is refused or withheld."""
        edit = FrameEdit(frame)
        named = [(field, field.topic or self.topic_names.get(field.topic_id or "")) for field in fields]
        if direction == Direction.REQUEST:
            jobs = [job for field, name in named for job in self._job(None, field, name)]
            is_done = self._edit_requests(jobs, edit)
        else:
            is_done = all(name is not None for _, name in named) and self._edit_responses(named, edit)
        return edit.finish() if is_done else None

    def _edit_requests(self, jobs: list[Job], edit: FrameEdit) -> bool:
        if jobs:
            self._note_outage()
        if not self._have_keys(jobs) or _take_long(jobs):
            return False
        for job in jobs:
            _encrypt(job, edit)
        return not any(job.refused for job in jobs)

    def _edit_responses(self, named: list[tuple[RecordsField, str | None]], edit: FrameEdit) -> bool:
        rules = [(field, name or "", self._rule_of(name or "")) for field, name in named]
        readings = [Reading(self, name, field, rule) for field, name, rule in rules if rule is not None]
        if readings:
            self._note_outage()
        try:
            if _take_long(readings) or not all(reading.edit(edit) for reading in readings):
                return False
        except KeyNotYet:
            return False
        for reading in readings:
            reading.note(reading.partition.partition)
        return True

    # Produce

    def on_request(self, request: Request) -> Verdict | Any:
        """Encrypt the records of topics with rules; ShareFetch acquires nothing while its group waits for data keys."""
        if request.api_key == ApiKey.SHARE_FETCH:
            return self._on_share_fetch(request)
        jobs = list(self._jobs(request.message))
        if not jobs:
            return Forward()
        self._note_outage()
        if not self._have_keys(jobs) or _take_long(jobs):
            return self._encrypt_later(request, jobs)
        for job in jobs:
            _encrypt(job)
        return self._verdict(request, jobs)

    def _on_share_fetch(self, request: Request) -> Verdict | Any:
        """Let a request acquire no records while its group waits for data keys."""
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

    def note_missing(self, response: Response, missing: set[Envelope]) -> None:
        """Let the share group of a response, if it has one, wait for these data keys from now on."""
        group = response.request.kept.get(self.name)
        if response.request.api_key == ApiKey.SHARE_FETCH and group and missing:
            self._missing[group] = set([*missing, *self._missing.pop(group, ())][:MOST_MISSING])
            if len(self._missing) > MOST_GROUPS:
                del self._missing[next(iter(self._missing))]

    async def _encrypt_later(self, request: Request, jobs: list[Job]) -> Verdict:
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
        for job in jobs:
            await retried(self.runtime, until, partial(self._encrypt_in_thread, job))
        return self._verdict(request, jobs)

    async def _encrypt_in_thread(self, job: Job, is_late: bool) -> None:
        try:
            await self.runtime.in_thread(partial(_encrypt, job))
        except NotYet:
            if not is_late:
                raise
            job.refused = ErrorCode.NOT_ENOUGH_REPLICAS, REGISTRY_AWAY

    def _jobs(self, message: Any) -> Iterator[Job]:
        for topic in message.topic_data:
            name = getattr(topic, "name", None) or self.topic_names.get(getattr(topic, "topic_id", ""))
            yield from (job for one in topic.partition_data if one.records for job in self._job(topic, one, name))

    def _job(self, topic: Any, partition: Any, name: str | None) -> Iterator[Job]:
        """Yield the job that a partition with records is, if there is anything to do."""
        rule = self.options.rules[0] if name is None else self._rule_of(name)
        if rule is not None and (rule.writes != "plain" or name is None):
            yield Job(topic, partition, name, rule, fields=None if name is None else self.fields_of(name, rule))

    def _have_keys(self, jobs: list[Job]) -> bool:
        """Find the data keys of partitions; return False while the key service is asked for some. All are asked for at once."""
        return sum(self._has_key(job) for job in jobs) == len(jobs)

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

    def _verdict(self, request: Request, jobs: list[Job]) -> Verdict:
        refused = []
        for job in jobs:
            place = f"topic {job.name}, partition {job.partition.index}, client {request.client_id}"
            if job.refused is None:
                job.partition.records = job.records
                if job.passed:
                    self._note("passed", "no field", f"{job.passed[0]}: {place}", job.name or "", len(job.passed))
            else:
                error, why = job.refused
                refused.append(RefusedPartition(job.topic, job.partition, error, why))
                self._note("refused", ErrorCode(error).name, f"{why}: {place}", job.name or "")
        return refuse_partitions(request, refused, self.name) if refused else Replace(request.message)

    # Fetch

    def on_response(self, response: Response) -> Verdict | Any:
        """Decrypt the records of topics with rules; add the partitions that were refused to a response to Produce."""
        if response.request.api_key == ApiKey.PRODUCE:
            return add_refused(response, self.name)
        withheld = withhold_unknown(response.message, self.topic_names)
        readings = list(self._readings(response.message))
        if readings:
            self._note_outage()
        if _take_long(readings):
            return self._decrypt_later(response, readings, withheld)
        for number, reading in enumerate(readings):
            try:
                withheld |= reading.give(response, at_once(reading.steps(response)))
            except KeyNotYet:
                return self._decrypt_later(response, readings[number:], withheld)
        return Replace(response.message) if withheld else Forward()

    async def _decrypt_later(self, response: Response, readings: list["Reading"], changed: bool) -> Verdict:
        """Wait for the key service, and decrypt in a thread, in turns with other responses."""
        until = self.runtime.monotonic() + self.options.wait
        for reading in readings:
            made = await retried(self.runtime, until, partial(self._read, response, reading))
            changed |= reading.give(response, made)
        return Replace(response.message) if changed else Forward()

    async def _read(self, response: Response, reading: "Reading", is_late: bool) -> Changed:
        try:
            return await in_turns(reading.steps(response), self.runtime.in_thread)
        except KeyNotYet:
            self.note_missing(response, reading.missing)
            if is_late:
                if reading.waits_for_schema:
                    return reading.withhold(CannotDecrypt("registry away", REGISTRY_AWAY))
                return reading.withhold(CannotDecrypt("key service away", AWAY))
            raise NotYet from None

    def _readings(self, message: Any) -> Iterator["Reading"]:
        for topic in message.responses:
            name = topic_name(topic, self.topic_names)
            rule = None if name is None else self._rule_of(name)
            if name is not None and rule is not None:
                for one in topic.partitions:
                    if one.records:
                        yield Reading(self, name, one, rule)

    def reader(self, topic: str, rule: EncryptRule) -> ValueReader:
        """Return what decrypts the values of a topic."""
        if topic not in self._read_from:
            if len(self._read_from) > 10_000:
                self._read_from.clear()
            topics = {topic, *rule.written_to}
            key_names = [*(escape(self._key_name(rule, one)) for one in topics), *rule.other_keys]
            if rule.record_keys is not None:
                key_names.append(escape(rule.record_keys.key))
            self._read_from[topic] = topics, key_names
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

    def _key_name(self, rule: EncryptRule, topic: str) -> str:
        return rule.key.format(topic=topic, cluster=self.runtime.cluster)

    def _note(self, event: str, kind: str, sentence: str, topic: str, count: int = 1) -> None:
        """Count what happened, and log the first of its kind and topic."""
        self.runtime.shared_count(self.name, event, kind).add(count)
        now, key = self.runtime.monotonic(), (event, kind, topic)
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


class Reading:
    """A partition of a response whose records are decrypted."""

    def __init__(self, filter_: Encrypt, topic: str, partition: Any, rule: EncryptRule) -> None:
        self.partition = partition
        self._filter = filter_
        self._topic = topic
        self.rule = rule
        self._reader = filter_.reader(topic, rule)
        self.missing = self._reader.missing
        self.fields = filter_.fields_of(topic, rule)
        self.waits_for_schema = False
        self._reports: list[tuple[CannotDecrypt, str]] = []
        self._made: list[bytes | Withheld] = []  # of the first batches

    def steps(self, response: Response) -> Any:
        """Decrypt its batches, some at a time. Raises KeyNotYet, and is to be called again then: it goes on where it was."""
        numbers = itertools.count()
        return change_fetched(
            self.partition.records,
            response.request,
            lambda batch: self._batch(next(numbers), batch),
            lambda withheld: None,
        )

    def _batch(self, number: int, batch: Batch) -> bytes | Withheld:
        if number == len(self._made):
            reports: list[tuple[CannotDecrypt, str]] = []
            self._made.append(self._decrypted(batch, reports))
            self._reports += reports
        return self._made[number]

    def _decrypted(
        self, batch: Batch, reports: list[tuple[CannotDecrypt, str]], into: FrameEdit | None = None
    ) -> bytes | Withheld:
        def report(error: CannotDecrypt, policy: Policy) -> None:
            reports.append((error, "skipped" if policy == "skip" else "passed"))

        rule = self.rule
        self.waits_for_schema = False
        fields = None if self.fields is None else self.fields.decrypting(self._reader, self._wait_for_schema)
        try:
            plain = decrypt_batch(batch, self._reader, rule.plain, rule.unreadable, report, fields, into)
        except TooLarge:
            return Withheld(TOO_LARGE)
        except CannotDecrypt as error:
            reports.append((error, "failed"))
            return Withheld(error.kind, FETCH_ERRORS.get(error.kind, ErrorCode.CORRUPT_MESSAGE))
        return Withheld(UNREADABLE) if plain is None else plain

    def _wait_for_schema(self) -> None:
        self.waits_for_schema = True

    def edit(self, edit: FrameEdit) -> bool:
        """Decrypt its records where they lie; return whether that can be done, and nothing is withheld. Raises KeyNotYet."""
        batches = _batches(self.partition)
        if not batches:
            return False
        edit.begin(self.partition)
        for batch in batches:
            plain = self._decrypted(batch, self._reports, edit)
            if isinstance(plain, Withheld):
                return False
            if plain:
                edit.put(batch, plain)
        edit.end(batches[-1].position + batches[-1].size)  # what follows the last complete batch is left out
        return True

    def note(self, partition: int) -> None:
        """Log and count what could not be decrypted."""
        for error, event in self._reports:
            self._filter.note_value(error, event, self._topic, partition)

    def withhold(self, error: CannotDecrypt) -> Changed:
        """Return what its client gets in place of its records."""
        self._reports = [(error, "failed")]
        return Changed(b"", error=FETCH_ERRORS.get(error.kind, ErrorCode.CORRUPT_MESSAGE))

    def give(self, response: Response, changed: Changed) -> bool:
        """Put the records into the response; return whether it differs now. Log and count what could not be decrypted."""
        self._filter.note_missing(response, self.missing)
        self.note(self.partition.partition_index)
        return give(response, self.partition, changed)


def _take_long(parts: Sequence[Job | Reading]) -> bool:
    """Return whether encrypting or decrypting the records of these partitions takes more than about a millisecond.

    What takes less costs less on the event loop than in a thread, with its two changes of threads.
    """
    if any(part.fields or part.rule.compress for part in parts):
        return True
    if sum(_size(part.partition) for part in parts) > AT_ONCE:
        return True
    batches = [batch for part in parts for batch in _batches(part.partition)]
    # A client may have written a count below 0
    if sum(max(batch.count or 1, 1) for batch in batches) > RECORDS_AT_ONCE:
        return True
    return sum(map(_most_plain, batches)) > AT_ONCE


def _size(partition: Any) -> int:
    return partition.size if isinstance(partition, RecordsField) else len(partition.records)


def _batches(partition: Any) -> Batches:
    if isinstance(partition, RecordsField):
        return read_batches(partition.message, start=partition.start, end=partition.start + partition.size)
    return read_batches(partition.records)


def _most_plain(batch: Batch) -> int:
    """Return how many bytes the records of a batch take at most, or usually where that is not known before."""
    if batch.codec == Codec.NONE:
        return batch.size
    if batch.codec == Codec.ZSTD and batch.magic == SINCE_ZSTD:
        most = most_content(
            memoryview(batch.data)[batch.position + HEADER.size : batch.position + batch.size], MOST_BLOCKS
        )
        return AT_ONCE + 1 if most is None else most  # several frames, which no producer writes, may take anything
    return batch.size * COMPRESSED


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


def _encrypt(job: Job, edit: FrameEdit | None = None) -> None:
    """Encrypt the records of a partition; with *edit*, of its RecordsField. Raises NotYet while a registry is asked."""
    if job.key is None or job.refused is not None:
        return
    batches = _batches(job.partition)
    if edit is not None:
        edit.begin(job.partition)
    encrypted = []
    job.passed.clear()
    for batch in batches:
        if batch.is_control:  # it would stay as it is
            job.refused = ErrorCode.INVALID_RECORD, "clients write no control records"
            return
        try:
            made = _encrypted(batch, job, job.key, edit)
        except TooLarge:
            job.refused = ErrorCode.MESSAGE_TOO_LARGE, f"the records {TOO_LARGE}"
            return
        except CannotEncrypt as error:
            job.refused = ErrorCode.NOT_ENOUGH_REPLICAS if error.is_away else ErrorCode.POLICY_VIOLATION, str(error)
            return
        if made is None:
            break
        if made and edit is not None:
            edit.put(batch, made)
        encrypted.append(made)
    if batches.tail is not None or len(encrypted) < len(batches):
        job.refused = ErrorCode.CORRUPT_MESSAGE, f"the records {UNREADABLE}"
        return
    if edit is None:
        job.records = b"".join(encrypted)
    else:
        edit.end(batches[-1].position + batches[-1].size)


def _encrypted(batch: Batch, job: Job, key: WritingKey, into: FrameEdit | None) -> bytes | None:
    """Return a batch with all encrypted that its rule names; None if it cannot be read."""
    return encrypt_batch(
        batch,
        key,
        packs=job.rule.compress is not None,
        record_keys=job.record_keys,
        headers=_named_headers(job.rule),
        fields=None if job.fields is None else job.fields.encrypting(key, job.passed.append),
        into=into,
    )
