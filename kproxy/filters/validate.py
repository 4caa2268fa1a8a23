"""Validate: records that their schemas do not describe do not get into a topic.

Produce requests are held; so are their responses, if some partitions were refused. The ids that records begin with are collected
without objects for the records; a batch is taken apart only if a payload has to be read or something is wrong.

Copies of refused records go to a dead-letter topic in the same request: see dead_letters.py.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kproxy.errors import KproxyError, Malformed, UsageError
from kproxy.filters.contract import (
    Filter,
    Forward,
    Replace,
    Request,
    Response,
    Verdict,
)
from kproxy.filters.dead_letters import DeadLetters, Refused
from kproxy.filters.error_responses import RefusedPartition, add_refused, refuse_partitions
from kproxy.filters.fetched_records import PATIENCE_S
from kproxy.filters.large_records import LARGE, take_long
from kproxy.filters.matching import rules_by_topic
from kproxy.filters.turns import NotYet, retried
from kproxy.options import Options, Seconds, text
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records import Batch, OpenBatch, Record, read_batches
from kproxy.protocol.records.editing import change_records, read_batch
from kproxy.protocol.records.in_place import find_schema_ids
from kproxy.protocol.records.limits import DEFAULT_LIMITS
from kproxy.schemas.framings import schema_headers
from kproxy.schemas.store import Id, Schema, Schemas

MOST_AT_ONCE = 2 << 20  # bytes of records whose ids are found on the event loop
MOST_IDS = 100  # of a batch that is not taken apart
MOST_NAMED = 50_000  # records that a response names; a producer takes 10,000 (librdkafka) or 16 kB (Java) into a batch
MOST_SENTENCES = 1 << 20  # bytes of what a response says about them; beyond, records are named without
MOST_LOGGED = 1_000
LONGEST = 200  # characters of a problem
EVENTS = {"reject": "rejected", "dead_letter": "rejected", "mark": "marked", "report": "reported"}
DEAD_LETTER_APIS = (ApiKey.PRODUCE, ApiKey.METADATA)
REFUSED = ("reject", "dead_letter")

Depth = Literal["id", "payload"]


class ValidateRule(Options, frozen=True):
    """What is asked of the records of some topics."""

    topics: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)], text('Topics by name or pattern ("orders-*").')
    ] = ("*",)
    values: Annotated[
        Depth | None,
        text(
            "How far values are looked at. id: each names a schema that is known, and allowed. payload: it also is what its "
            "schema describes, and what a JSON Schema demands. null: not at all."
        ),
    ] = "id"
    keys: Annotated[Depth | None, text("The same for keys.")] = None
    subject: Annotated[
        str | None,
        text(
            'The subject under which a schema has to be registered; {topic} and {part} ("key" or "value") are replaced. '
            "null: any."
        ),
    ] = "{topic}-{part}"
    without_schema: Annotated[
        Literal["invalid", "pass"],
        text("Keys and values that name no schema, of topics without a schema of their own."),
    ] = "invalid"
    then: Annotated[
        Literal["reject", "dead_letter", "mark", "report"],
        text(
            "What becomes of a batch with an invalid record. reject: INVALID_RECORD for its partition. dead_letter: the same, "
            "and copies of its invalid records go to dead_letter_topic. mark: its invalid records get a header. report: nothing; "
            "it is counted and logged only."
        ),
    ] = "reject"
    dead_letter_topic: Annotated[
        Annotated[str, Meta(min_length=1, max_length=249)],
        text(
            "The topic of dead letters; {topic} is replaced. It has to exist, and clients need the right to write to it."
        ),
    ] = "{topic}-dead-letters"
    away: Annotated[
        Literal["pass", "invalid"],
        text("What records are whose schema cannot be had, as no registry has answered within wait."),
    ] = "pass"


class ValidateOptions(Options, frozen=True):
    """Options of validate."""

    rules: Annotated[
        Annotated[tuple[ValidateRule, ...], Meta(min_length=1)],
        text("The first rule that names a topic applies to it; other topics are not looked at."),
    ]
    wait: Annotated[Seconds, text("How long a request waits for schemas that have to be asked for.")] = 2.0
    header: Annotated[
        Annotated[str, Meta(min_length=1, max_length=255)],
        text("The header of marked records and dead letters; its value is the problem."),
    ] = "kproxy-invalid"


class Problem(NamedTuple):
    """Why a record is not valid."""

    kind: str  # without anything of the record: for counts and the log
    sentence: str  # for the client that sent it


@dataclass(slots=True)
class Job:
    """A partition of a request, and what is found in it."""

    topic: Any
    partition: Any
    name: str
    rule: ValidateRule
    problems: dict[int, Problem]  # by number of the record in the records field
    error: int = ErrorCode.INVALID_RECORD
    unchecked: str | None = None  # why some records passed without a look


class Validate(Filter):
    """Refuse, mark or report records that their schemas do not describe.

    Schemas are those of ``schemas`` in the configuration. The framings of Confluent, Apicurio, AWS Glue and Azure are known
    (kproxy help schemas). Null keys and values (tombstones) are valid. If a topic has a schema of its own there
    (``schemas.topics``), its payloads have to fit that one, framed or not.

    Of a request only the partitions with invalid records are refused, with INVALID_RECORD and, from version 8 of Produce on,
    which records they are (KIP-467): each of them, up to 50,000 in a response, with its problem in the first megabyte of it.
    If there are more, the message of the partition says how many. The other partitions go on. A topic id (Produce from
    version 13 on) whose name no Metadata response has said yet is refused with UNKNOWN_TOPIC_ID, after which the
    client asks for Metadata. A producer that waits for no response (acks=0) hears nothing.

    Dead letters keep key, value, headers and time of the record, and get headers: the problem, and its topic and partition. They
    travel in the request itself, so only to partitions that the same broker leads, which kproxy learns from Metadata: it adds
    the dead-letter topic to what clients ask about their topics, and takes it out of the response. Where no such partition is
    known, for Produce before version 3, and if the broker refuses a copy, the record is refused without one; so are records
    beyond the first 1,040,000 bytes of dead letters in a request, with what encrypt adds to each. That is counted, and the log
    says why.

    Only the first record with an unknown id waits for a registry, at most ``wait``; schemas are kept, and ids that are not there
    are remembered for a minute. A JSON Schema that may take exponential time is not used: its records are as those of ``away``.
    What was found is counted at /metrics and /filters of the admin port, by kind; the first of each kind, topic and client is
    logged, without contents.
    """

    name = "validate"
    requests: Collection[int] = (ApiKey.PRODUCE,)
    responses: Collection[int] = (ApiKey.PRODUCE,)
    answers: Collection[int] = (ApiKey.PRODUCE,)
    responses_to_kept = (ApiKey.PRODUCE,)  # those to which refused partitions are added
    names_topics = True
    reads_values = True
    required = True
    timeout = PATIENCE_S
    Options = ValidateOptions

    def __init__(self, options: ValidateOptions) -> None:
        self.options = options
        self._rules = rules_by_topic(options.rules)
        # For a topic id that is not known yet; None: no rule refuses anything
        self._strictest = next((rule for rule in options.rules if rule.then in REFUSED), None)
        self._logged: set[tuple[str, str, str | None]] = set()
        self._schemas = Schemas()
        self._dead_letters = DeadLetters(self.name, options.header)
        if any(rule.then == "dead_letter" for rule in options.rules):
            self.requests = self.responses = self.answers = DEAD_LETTER_APIS

    def on_start(self) -> None:
        """Open the sources of schemas. Raises UsageError if there are none."""
        self._schemas = self.runtime.schemas()
        for problem in self.problems_at_start(self._schemas.is_configured):
            raise UsageError(problem)

    def problems_at_start(self, has_schemas: bool) -> Iterator[str]:
        """Yield that it needs schemas, if there are none."""
        if not has_schemas:
            yield "validate needs schemas: name a registry, a folder or topics under schemas in the configuration"

    def on_request(self, request: Request) -> Verdict | Any:
        """Look at the records of the topics that have rules, and ask about their dead-letter topics."""
        if request.api_key == ApiKey.METADATA:
            return self._dead_letters.ask(request, self.dead_letter_topic, self.topic_names)
        jobs = list(self._jobs(request.message))
        if not jobs:
            return Forward()
        if not _take_long(jobs):
            try:
                for job in jobs:
                    self._look(job, has_time=False)
                if not self._copied(jobs):
                    return self._verdict(request, jobs)
            except NotYet:
                pass
        return self._later(request, jobs)

    async def _later(self, request: Request, jobs: list[Job]) -> Verdict:
        """Look at them in a thread, and wait for registries, while other connections go on."""
        until = self.runtime.monotonic() + self.options.wait

        left = list(reversed(jobs))

        async def look(is_late: bool) -> None:
            while left:
                await self.runtime.in_thread(partial(self._look, left[-1], has_time=True, is_late=is_late))
                left.pop()

        await retried(self.runtime, until, look)
        await self._dead_letters.put(request, self._copied(jobs), self.runtime, self.later)
        return self._verdict(request, jobs)

    def on_response(self, response: Response) -> Verdict:
        """Add the partitions that were refused to the broker's response."""
        if response.request.api_key == ApiKey.METADATA:
            return self._dead_letters.learn(response, self.runtime)
        self._dead_letters.take_out(response, self.runtime)
        return add_refused(response, self.name)

    def _jobs(self, message: Any) -> Iterator[Job]:
        for topic in message.topic_data:
            name = getattr(topic, "name", None) or self.topic_names.get(getattr(topic, "topic_id", ""))
            rule = self._strictest if name is None else self._rules[name]
            if rule is None:
                continue
            for partition in topic.partition_data:
                if partition.records:
                    error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.INVALID_RECORD
                    yield Job(topic, partition, name or "", rule, {}, error)

    def dead_letter_topic(self, topic: str) -> str | None:
        """Return where copies of invalid records of a topic go; None: there are none."""
        rule = self._rules[topic]
        return rule.dead_letter_topic.replace("{topic}", topic) if rule and rule.then == "dead_letter" else None

    # What is found

    def _look(self, job: Job, *, has_time: bool, is_late: bool = False) -> None:
        """Find the invalid records of a partition. Raises NotYet."""
        job.problems.clear()
        job.unchecked = None
        if job.error != ErrorCode.INVALID_RECORD:
            return
        batches = read_batches(job.partition.records)
        if batches.tail is not None:
            job.problems[0] = Problem("unreadable", "the batch cannot be read")
            return
        check = _Check(self._schemas, job, has_time, is_late)
        before = 0
        for batch in batches:
            try:
                before += check.look_at(batch, before)
            except Malformed as error:
                job.problems[before] = Problem("unreadable", str(error))
                return

    def _verdict(self, request: Request, jobs: list[Job]) -> Verdict:
        message: Any = request.message
        refused, marked, naming = [], False, _Naming()
        for job in jobs:
            if job.unchecked is not None:
                self._note(request, job, "unchecked", job.unchecked)
            if job.error != ErrorCode.INVALID_RECORD:
                refused.append(RefusedPartition(job.topic, job.partition, job.error))
            elif job.problems:
                for kind in {problem.kind for problem in job.problems.values()}:
                    self._note(request, job, EVENTS[job.rule.then], kind)
                if job.rule.then in REFUSED:
                    refused.append(naming.refused(job))
                elif job.rule.then == "mark":
                    marked |= self._mark(job)
        if not refused:
            return Replace(message) if marked else Forward()
        return refuse_partitions(request, refused, self.name)

    def _copied(self, jobs: list[Job]) -> list[Refused]:
        """Return the partitions with invalid records that are copied to dead-letter topics."""
        return [
            Refused(job.name, job.partition.index, job.partition.records, _sentences(job.problems), topic)
            for job in jobs
            if job.problems and (topic := self.dead_letter_topic(job.name)) is not None
        ]

    def _mark(self, job: Job) -> bool:
        """Add the header to the invalid records of a partition; return whether that changed it."""
        numbers = iter(range(1 << 31))

        def change(record: Record) -> bool:
            problem = job.problems.get(next(numbers))
            if problem is not None:
                record.headers.append((self.options.header, problem.sentence.encode()))
            return problem is not None

        marked = [change_records(batch, change) for batch in read_batches(job.partition.records)]
        if any(one is None for one in marked):  # broken, or too old for headers
            return False
        job.partition.records = b"".join(one for one in marked if one is not None)
        return True

    def _note(self, request: Request, job: Job, event: str, kind: str) -> None:
        """Count what was found, and log the first of its kind, topic and client."""
        self.runtime.shared_count(self.name, event, kind).add()
        seen = (kind, job.name, request.client_id)
        if seen not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(seen)
            place = f"topic {job.name}, partition {job.partition.index}, client {request.client_id}"
            self.runtime.warn(f"validate: records were {event}", f"{kind}: {place}")


class _Check:
    """Looks at the records of one partition."""

    def __init__(self, schemas: Schemas, job: Job, has_time: bool, is_late: bool) -> None:
        self._schemas = schemas
        self._job = job
        self._has_time = has_time
        self._is_late = is_late
        self._depths = {part: depth for part, depth in (("key", job.rule.keys), ("value", job.rule.values)) if depth}
        # By id: what accepts the payloads of an allowed schema; None where only the id is looked at
        self._readers: dict[str, dict[int, Any]] = {part: {} for part in self._depths}
        self._of_topic = {part: schemas.chosen.get((job.name, part)) for part in self._depths}

    def look_at(self, batch: Batch, before: int) -> int:
        """Find the invalid records of a batch, numbered from *before* on; return how many it has. Raises NotYet, Malformed."""
        opened = batch.open(DEFAULT_LIMITS)
        if opened.skipped is not None or not batch.crc_valid:
            raise Malformed(opened.skipped or "the CRC of the batch is wrong")
        if batch.is_control or all(self._are_valid(opened, part) for part in self._depths):
            return batch.count or 0
        if not self._has_time and len(self._job.partition.records) > LARGE:  # objects for all its records
            raise NotYet
        read = read_batch(opened)
        if read.error is not None:
            raise Malformed(read.error)
        for number, record in enumerate(read.records, before):
            problem = self._problem(record)
            if problem is not None:
                self._job.problems[number] = problem
        return len(read.records)

    def _are_valid(self, opened: OpenBatch, part: str) -> bool:
        """Return whether all keys or values are valid, as far as that can be said without objects for them."""
        if self._of_topic[part] is not None:
            return False
        known, is_deep = self._readers[part], self._depths[part] == "payload"
        about = tuple(map(str.encode, schema_headers(part))), part == "key", MOST_IDS
        if known:
            ids, other = find_schema_ids(opened, *about, known if is_deep else None)
            if other < 0 and ids.keys() <= known.keys():
                return True
        ids, other = find_schema_ids(opened, *about)
        for schema_id in ids.keys() - known.keys() if other < 0 else ():
            schema = self._schemas.find(schema_id, self._job.name)
            problem = self._problem_of_schema(schema, schema_id, part)
            reader = self._reader(schema) if is_deep else None
            if problem is not None or (is_deep and reader is None):
                return False
            known[schema_id] = reader
        return other < 0 and (not is_deep or find_schema_ids(opened, *about, known)[1] < 0)

    def _reader(self, schema: Schema | None) -> Any:
        """Return what accepts payloads of a schema without objects; None: there is none, or not yet."""
        if schema is None or not self._schemas.is_compiled(schema):
            return None
        try:
            return getattr(self._schemas.compiled(schema), "walk", None)
        except KproxyError:
            return None

    def _problem(self, record: Record) -> Problem | None:
        for part, depth in self._depths.items():
            data = record.key if part == "key" else record.value
            if data is None:
                continue
            problem = self._problem_of(data, part, depth, record)
            if problem is not None:
                return problem._replace(sentence=f"{part}: {problem.sentence}"[:LONGEST])
        return None

    def _problem_of(self, data: bytes, part: str, depth: Depth, record: Record) -> Problem | None:
        located = self._schemas.locate(data, self._job.name, part, record.headers)
        if located is None:
            is_allowed = self._job.rule.without_schema == "pass"
            return None if is_allowed else Problem("without schema", "it names no schema")
        schema = located.schema
        if self._of_topic[part] is None and located.framed is not None:
            problem = self._problem_of_schema(schema, located.framed.id, part)
            if schema is None or problem is not None or depth == "id":
                return problem
        assert schema is not None
        try:
            if not (self._has_time or self._schemas.is_compiled(schema)):
                raise NotYet
            if not self._schemas.compiled(schema).is_bounded:
                return self._unchecked("schema that may take exponential time", schema.id)
            broken = self._schemas.read(located)[1]
        except (KproxyError, RecursionError) as error:
            if self._schemas.is_asked(self._job.name) and not self._is_late:  # for what the schema refers to
                raise NotYet from error
            return Problem("payload", str(error) or "it is too deep")
        return Problem("payload", "; ".join(broken)) if broken else None

    def _problem_of_schema(self, schema: Schema | None, schema_id: Id, part: str) -> Problem | None:
        """Return why a schema is not allowed; None if it is, or the record passes without it. Raises NotYet."""
        topic, rule = self._job.name, self._job.rule
        if schema is None:
            if self._schemas.is_asked(topic) and not self._is_late:
                raise NotYet
            if (why := self._schemas.away(topic)) is not None:
                return self._unchecked("registry away", schema_id, why)
            return Problem("unknown id", f"no schema with the id {schema_id} is known")
        subject = rule.subject and rule.subject.replace("{topic}", topic).replace("{part}", part)
        if subject is not None and not schema.is_of(subject):
            return Problem("another subject", f"the schema {schema_id} is not registered under {subject}")
        return None

    def _unchecked(self, kind: str, schema_id: Id | None, why: str = "") -> Problem | None:
        """Return the problem of a record that cannot be looked at; None if such records pass."""
        if self._job.rule.away == "pass":
            self._job.unchecked = kind
            return None
        return Problem(kind, f"the schema {schema_id} cannot be used: {why or kind}")


def _take_long(jobs: list[Job]) -> bool:
    """Return whether looking at the records takes more than a millisecond; ids alone are found in a third of one for 1 MB."""
    fields = [job.partition.records for job in jobs]
    if any("payload" in (job.rule.keys, job.rule.values) for job in jobs) or sum(map(len, fields)) > MOST_AT_ONCE:
        return take_long(fields)
    return any(batch.codec for field in fields for batch in read_batches(field)) and take_long(fields)


def _sentences(problems: Mapping[int, Problem]) -> dict[int, str]:
    return {number: problem.sentence for number, problem in problems.items()}


class _Naming:
    """Names the invalid records of the partitions of one response, within its bounds.

    Producers take records that are not named for valid ones, and send them again.
    """

    def __init__(self) -> None:
        self._records, self._bytes = MOST_NAMED, MOST_SENTENCES

    def refused(self, job: Job) -> RefusedPartition:
        errors: dict[int, str | None] = {}
        for number in sorted(job.problems)[: self._records]:
            sentence = job.problems[number].sentence
            self._bytes -= len(sentence.encode())
            errors[number] = sentence if self._bytes >= 0 else None
        self._records -= len(errors)
        unnamed = len(job.problems) - len(errors)
        more = f"; {unnamed:,} more invalid records are not named" if unnamed else ""
        why = f"a record is not what its schema describes{more}"
        return RefusedPartition(job.topic, job.partition, ErrorCode.INVALID_RECORD, why, errors)
