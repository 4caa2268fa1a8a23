"""Mask: hides fields of records from those that fetch them. The broker keeps the records as they are.

Only Fetch and ShareFetch are held (and Metadata, for the names of topics by their ids). The paths of the fields
(``$.card.number``, ``$.people[*]['e-mail']``, ``$.lines[0].*``) are combined into one automaton, which json_masks.pyx follows:

    $.name ['any name'] ["any name"]   the member of an object
    [0]                                an element of an array
    [*] .*                             every member of an object, every element of an array
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from kproxy.encryption.made_once import MadeOnce
from kproxy.errors import KproxyError
from kproxy.filters.contract import Direction, Edited, Filter, RequestFacts
from kproxy.filters.fetched_records import (
    MOST_GROWTH,
    PATIENCE_S,
    FieldChange,
    Withheld,
    are_changed_at_once,
    change_in_turns,
    given_out,
)
from kproxy.filters.json_masks import JsonMask
from kproxy.filters.large_records import LARGE, UNREADABLE, BatchCounts, limits_at_once
from kproxy.filters.matching import MOST_TOPICS, matches
from kproxy.filters.turns import NotYet
from kproxy.options import OptionMistakes, Options, Problem, text
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.found import RecordsField
from kproxy.protocol.records import Batch
from kproxy.protocol.records.editing import change_fields
from kproxy.protocol.records.in_place import CallingEditor, Editor, FrameEdit
from kproxy.schemas.formats import SchemaType
from kproxy.schemas.framings import reframed
from kproxy.schemas.store import MOST_SCHEMAS, SCHEMAS_S, Located, Schema, Schemas


class MaskRule(Options, frozen=True):
    """The fields that are hidden in some topics."""

    fields: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)],
        text("JSON paths of what is hidden: $.card.number, $.people[*].email, $['a name'], $.lines[0]."),
    ]
    topics: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)], text('Topics by name or pattern ("customers-*").')
    ] = ("*",)

    def __post_init__(self) -> None:
        problems = path_problems(self.fields)
        if problems:
            raise OptionMistakes(problems)


class MaskOptions(Options, frozen=True):
    """Options of mask."""

    rules: Annotated[
        Annotated[tuple[MaskRule, ...], Meta(min_length=1)], text("All rules that name a topic apply to it.")
    ]
    replace_by: Annotated[
        Literal["stars", "null", "removed"] | None,
        text(
            'What stands in place of a hidden value: the text "***", null (with or without quotes), or nothing: the member is '
            "removed."
        ),
    ] = "stars"
    other_values: Annotated[
        Literal["pass", "blank"],
        text(
            "Values that are no object or array of JSON (broken or cut off, too), of topics with rules: they become empty, "
            "or pass as they are, with all that is in them."
        ),
    ] = "blank"
    keys: Annotated[bool, text("Whether record keys that are JSON are masked as well; others are never changed.")] = (
        False
    )

    def __post_init__(self) -> None:
        try:
            # Together, as one topic may have all rules
            parse_paths(path for rule in self.rules for path in rule.fields)
        except ValueError as error:
            raise OptionMistakes([("rules", str(error))]) from None


REPLACEMENTS = {"stars": b'"***"', "null": b"null", None: b"null", "removed": None}


class Masks(NamedTuple):
    """How the records of a topic are masked."""

    values: Editor
    keys: Editor | None
    late: "Masks | None" = None  # the same, which waits for no schema; None: they never wait


class SchemaMask:
    """Hides fields of keys or values by the schema that they name; without a schema, as JSON. The framing stays.

    Args:
        schemas: the sources.
        topic, part: whose keys or values they are.
        states, stars: what is hidden, and whether a text becomes "***".
        json: for those without a schema, and for JSON Schema.
        blanks: what its schema does not describe, and what has no schema that is known, becomes empty.
        waits: whether it raises NotYet while a registry is asked.
    """

    def __init__(
        self,
        schemas: Schemas,
        topic: str | None,
        part: str,
        states: "list[State]",
        stars: bool,
        json: JsonMask,
        blanks: bool,
        waits: bool,
    ) -> None:
        self._schemas = schemas
        self._topic = topic
        self._part = part
        self._states = states
        self._stars = stars
        self._json = json
        self._blanks = blanks
        self._waits = waits
        self._hiding = MadeOnce(self._made_for, MOST_SCHEMAS)

    def __call__(self, data: bytes) -> bytes:
        """Return the key or value with its fields hidden; the same object if it stays. Raises NotYet."""
        located = self._schemas.locate(data, self._topic, self._part)
        if located is None:
            return self._without_schema(data)
        payload = located.payload
        hidden = None if located.schema is None else self._hidden(located, located.schema)
        if hidden is None and self._waits and self._schemas.is_asked(self._topic):
            raise NotYet
        if hidden is None:
            return b"" if self._blanks else data
        return data if hidden is payload else reframed(data, located.framed, hidden)

    def _without_schema(self, data: bytes) -> bytes:
        hidden = self._json.edited(data)
        return data if hidden is None else hidden

    def _hidden(self, located: Located, schema: Schema) -> bytes | None:
        """Return a payload with its fields hidden; None if its schema does not describe it, or cannot be used."""
        payload = located.payload
        if schema.type == SchemaType.JSON:
            return self._without_schema(payload)
        try:
            indexes, start = located.indexes()
            message = payload[start:]
            hidden = self._hiding[schema](message, indexes)
        except (KproxyError, ValueError, RecursionError):
            return None
        return hidden if hidden is None else payload if hidden is message else payload[:start] + hidden

    def _made_for(self, schema: Schema) -> Any:
        compiled: Any = self._schemas.compiled(schema)
        return compiled.hiding(self._states, self._stars)


class MaskRecords(Filter):
    """Hide fields of records, by JSON path, from those that fetch them.

    With ``schemas`` in the configuration, values that name a schema of Avro, Protobuf or JSON Schema are masked by it: a text
    becomes "***" with stars, any other value null where its type has it, else empty or zero; in Avro, all else stays as it was.
    Items of arrays and values of maps are not told apart there. A response waits up to 2 s for a schema that has to be asked for;
    values whose schema cannot be had, or does not describe them, are as ``other_values`` says.

    Where a path goes on in an object or array and JSON has something else, such as a text, all of that is hidden. null and
    empty objects and arrays stay. A value that is no object or array at all is as ``other_values`` says.

    Changed batches keep their codec, offsets, times, producer and flags, and get a valid CRC. Control batches, records without
    any of the fields, and the other parts of a value stay byte for byte.

    A batch that cannot be read, or that unpacks to more than 64 MiB or 1,000 times its size, is withheld, and so is everything
    behind it in its partition. If it is the first batch, the partition gets the error CORRUPT_MESSAGE. Such batches are counted
    at /metrics and /filters of the admin port, by reason, and the first of each is logged.

    A response is held until all of it is here, so clients get at most half of limits.held_frame_size at a time, whatever they ask
    for. A single batch that does not fit is withheld: its client gets UNKNOWN_SERVER_ERROR, and the log says why.

    The names of topics by id come from the Metadata responses that workers have seen. Where the rules do not name all topics
    ("*"), a consumer that fetches a topic before that, as after a restart of kproxy, gets UNKNOWN_TOPIC_ID and no records: it
    then asks for Metadata and fetches again.

    Each worker masks large responses in one thread, 256 KiB or one batch of each in turn. One that is not finished within 60 s is
    refused with UNKNOWN_SERVER_ERROR.
    """

    name = "mask"
    responses = answers = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
    names_topics = True
    reads_values = True
    required = True
    timeout = PATIENCE_S
    Options = MaskOptions

    def __init__(self, options: MaskOptions) -> None:
        self.options = options
        self._masks = MadeOnce(self._masks_of, MOST_TOPICS)
        self._same_for_all = all("*" in rule.topics for rule in options.rules)
        self.names_topics = not self._same_for_all
        self._schemas = Schemas()
        self._by_schema = False
        self._withheld = BatchCounts(self.name, "withheld", "neither they nor what is behind them is given out")

    def on_start(self) -> None:
        """Open the sources of schemas, if there are any."""
        self._schemas = self.runtime.schemas()
        self._by_schema = self._schemas.is_configured

    def on_records(
        self, direction: Direction, request: RequestFacts, frame: bytes, fields: Sequence[RecordsField]
    ) -> Edited | Awaitable[Edited]:
        """Mask the records of the topics that have rules, where they lie."""
        changes = list(self._changes(fields))
        edit = FrameEdit(frame, MOST_GROWTH)
        limits = None
        if not self._by_schema and sum(one.field.size for one in changes) <= LARGE:
            limits = limits_at_once(frame, [one.batches for one in changes], LARGE)
        if limits is not None and are_changed_at_once(edit, request, changes, limits):
            return given_out(edit.finish(), request, changes)
        return self._mask_in_turns(request, edit, changes)

    async def _mask_in_turns(self, request: RequestFacts, edit: FrameEdit, changes: list[FieldChange]) -> Edited:
        """Mask in a thread, in turns with other responses; by schemas as soon as a registry has answered."""
        until = self.runtime.monotonic() + SCHEMAS_S
        return given_out(await change_in_turns(self.runtime, until, edit, request, changes), request, changes)

    def _changes(self, fields: Sequence[RecordsField]) -> Iterator[FieldChange]:
        """Yield a change for each partition of a topic that has rules, or whose name is not known."""
        for field in fields:
            name = field.topic or self.topic_names.get(field.topic_id or "")
            masks = self._masks[name]
            if name is None and not self._same_for_all:
                yield FieldChange(field, ErrorCode.UNKNOWN_TOPIC_ID)
            elif masks is not None:
                yield Masking(field, masks, self._withhold)

    def _withhold(self, withheld: Withheld) -> None:
        self._withheld.add(self.runtime, withheld.reason)

    def wants_topic(self, topic: str) -> bool:
        """Return whether a rule names the topic."""
        return self._masks[topic] is not None

    def _masks_of(self, topic: str | None) -> Masks | None:
        """Return the masks of a topic; those of all rules if its name is not known."""
        rules = [rule for rule in self.options.rules if topic is None or matches(topic, rule.topics)]
        paths = [path for rule in rules for path in rule.fields]
        if not paths:
            return None
        states, replacement = parse_paths(paths), REPLACEMENTS[self.options.replace_by]
        values = JsonMask(states, replacement, self.options.other_values == "blank")
        keys = JsonMask(states, replacement) if self.options.keys else None
        if not self._by_schema:
            return Masks(values, keys)
        stars, blanks = replacement == REPLACEMENTS["stars"], self.options.other_values == "blank"

        def made(waits: bool, late: Masks | None) -> Masks:
            by_schema = partial(SchemaMask, self._schemas, topic, states=states, stars=stars, waits=waits)
            of_keys = None if keys is None else CallingEditor(by_schema("key", json=keys, blanks=False))
            return Masks(CallingEditor(by_schema("value", json=values, blanks=blanks)), of_keys, late)

        return made(True, made(False, None))


class Masking(FieldChange):
    """A partition of a response whose records are masked."""

    def __init__(self, field: RecordsField, masks: Masks, report: Callable[[Withheld], None]) -> None:
        super().__init__(field)
        self._masks = masks
        self._report = report

    def change(self, batch: Batch, edit: FrameEdit) -> bytes | Withheld:
        """Mask the values of a batch."""
        masked = change_fields(batch, self._masks.values, self._masks.keys, self.limits, into=edit)
        return Withheld(UNREADABLE) if masked is None else masked

    def report(self, withheld: Withheld) -> None:
        """Count and log it."""
        self._report(withheld)

    def on_not_yet(self, is_late: bool) -> None:
        """Do without schemas that have not come in time."""
        if is_late and self._masks.late is not None:
            self._masks = self._masks.late


EVERY = -1
LEAF = -1  # in place of a state: the value is at the end of a path
MOST_STATES = 10_000
STEP = re.compile(r"""\.([A-Za-z_$][\w$-]*)|\['([^']*)'\]|\["([^"]*)"\]|\[(\d{1,9})\]|(\[\*\]|\.\*)""")

Path = tuple[str | int, ...]  # names, indexes, EVERY


class State(NamedTuple):
    """A state of the automaton, at an object or array: for each of its values the number of the next state, or LEAF."""

    names: dict[str, int]
    indexes: dict[int, int]
    every: int | None  # for all other names and indexes; None: nothing is looked for in them


def parse_path(path: str) -> Path:
    """Return the steps of a path. Raises ValueError."""
    at = 1
    steps: list[str | int] = []
    while path.startswith("$") and at < len(path):
        match = STEP.match(path, at)
        if match is None:
            break
        name, quoted, doubly, index, every = match.groups()
        steps.append(
            EVERY if every else int(index) if index else next(n for n in (name, quoted, doubly) if n is not None)
        )
        at = match.end()
    if not steps or at < len(path):
        raise ValueError(f"{path!r} is no JSON path: write $.name, $.list[*].name, $['a name'], $.list[0]")
    return tuple(steps)


def path_problems(fields: Sequence[str]) -> list[Problem]:
    """Return what is wrong with the paths of an option ``fields``."""
    problems = []
    for number, path in enumerate(fields):
        try:
            parse_path(path)
        except ValueError as error:
            problems.append((f"fields[{number}]", str(error)))
    return problems


def parse_paths(paths: Iterable[str]) -> list[State]:
    """Return the states of an automaton that finds the values at all paths; the first is the initial one. Raises ValueError."""
    begin = frozenset(map(parse_path, paths))
    numbers = {begin: 0}
    states: list[State] = []
    open_states = [begin]
    for left in open_states:  # what is left of the paths in a state; it grows meanwhile
        steps = {path[0] for path in left}
        leads = {step: _number(_behind(left, step), numbers) for step in sorted(steps, key=str)}
        names = {step: number for step, number in leads.items() if isinstance(step, str)}
        indexes = {step: number for step, number in leads.items() if isinstance(step, int) and step != EVERY}
        states.append(State(names, indexes, leads.get(EVERY)))
        open_states += list(numbers)[len(open_states) :]
    return states


def _behind(paths: frozenset[Path], step: str | int) -> frozenset[Path]:
    """Return what remains of the paths after a step."""
    return frozenset(path[1:] for path in paths if path[0] in (step, EVERY))


def _number(left: frozenset[Path], numbers: dict[frozenset[Path], int]) -> int:
    if () in left:  # the whole value; longer paths are in it
        return LEAF
    if len(numbers) >= MOST_STATES:
        raise ValueError(
            f"the paths have more than {MOST_STATES:,} combinations of names and wildcards: write fewer wildcards"
        )
    return numbers.setdefault(left, len(numbers))
