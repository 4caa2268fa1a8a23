"""Mask: fields of records are hidden from those that fetch them. The broker keeps them as they are.

Only Fetch and ShareFetch responses are held (and Metadata, for the names of topics by their ids).
"""

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

import msgspec

from kproxy.filters.contract import Filter, Forward, Replace, Response, Verdict
from kproxy.filters.json_masks import Mask, parse_paths
from kproxy.filters.options import Options, text
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records import Record, read_batches
from kproxy.protocol.records.rebatching import change_records


class MaskRule(Options, frozen=True):
    """What is hidden in which topics."""

    topics: Annotated[tuple[str, ...], text('Topics by name or pattern ("customers-*").')] = ("*",)
    fields: Annotated[
        tuple[str, ...],
        text("JSON paths of what is hidden: $.card.number, $.people[*].email, $['a name'], $.lines[0]."),
    ] = ()

    def __post_init__(self) -> None:
        parse_paths(self.fields)
        if not self.fields:
            raise ValueError("fields: it is empty: write at least one JSON path, as $.card.number")


class MaskOptions(Options, frozen=True):
    """Options of mask."""

    rules: Annotated[tuple[MaskRule, ...], text("All rules that name a topic apply to it.")]
    replace_by: Annotated[
        Literal["stars", "null", "removed"],
        text('What stands in place of a hidden value: the text "***", null, or nothing: the member is removed.'),
    ] = "stars"
    other_values: Annotated[
        Literal["pass", "blank"],
        text("Values that are no JSON, of topics with rules: they pass as they are, or become empty."),
    ] = "blank"
    keys: Annotated[bool, text("Whether record keys that are JSON are masked as well; others are never changed.")] = (
        False
    )


REPLACEMENTS = {"stars": b'"***"', "null": b"null", "removed": None}


class MaskRecords(Filter):
    """Hide fields of records, by JSON path, from those that fetch them.

    Changed batches keep their codec, offsets, times, producer and flags and get a right CRC; control batches and records that
    have none of the fields stay byte for byte. A batch that cannot be read is not given out: its partition has the error
    CORRUPT_MESSAGE. A response is held whole: limits.held_frame_size has to be at least the clients' fetch.max.bytes. Topics
    by id are known by the Metadata responses that this worker has seen; until then all rules apply.
    """

    name = "mask"
    responses = (ApiKey.FETCH, ApiKey.SHARE_FETCH)
    names_topics = True
    required = True
    Options = MaskOptions

    def __init__(self, options: MaskOptions) -> None:
        self.options = options
        self._masks: dict[str | None, Mask | None] = {}  # by topic
        self.corrupt = 0  # batches that were not given out

    def on_response(self, response: Response) -> Verdict:
        """Mask the records of the topics that have rules."""
        message: Any = response.message
        names: Any = self.runtime.kept.get("topic_names", {})
        changed = False
        for topic in message.responses:
            mask = self._mask_of(getattr(topic, "topic", None) or names.get(getattr(topic, "topic_id", "")))
            for partition in topic.partitions if mask is not None else ():
                records = partition.records
                if records and mask is not None:
                    partition.records = self._masked(records, mask)
                    if partition.records is None:
                        partition.records, partition.error_code = b"", ErrorCode.CORRUPT_MESSAGE
                    changed |= partition.records is not records
        return Replace(message) if changed else Forward()

    def _mask_of(self, topic: str | None) -> Mask | None:
        """The mask of a topic; that of all rules where its name is not known."""
        if topic not in self._masks:
            if len(self._masks) > 10_000:
                self._masks.clear()
            rules = [
                rule for rule in self.options.rules if topic is None or any(fnmatchcase(topic, p) for p in rule.topics)
            ]
            paths = [path for rule in rules for path in rule.fields]
            self._masks[topic] = Mask(parse_paths(paths), REPLACEMENTS[self.options.replace_by]) if paths else None
        return self._masks[topic]

    def _masked(self, records: bytes, mask: Mask) -> bytes | None:
        """The records field, masked; the same object if nothing is to be hidden. None: it cannot be given out."""
        batches = read_batches(records)
        parts = []
        for batch in batches:
            new = change_records(batch, lambda record: self._mask_record(record, mask))
            if new is None:
                self.corrupt += 1
                break
            parts.append(new)
        if not parts and batches:
            return None
        masked = b"".join(parts)  # what is behind the last whole batch is not given out
        return records if masked == records else masked

    def _mask_record(self, record: Record, mask: Mask) -> bool:
        changed = False
        if record.value:
            value = self._mask_value(record.value, mask)
            if value is not None:
                record.value, changed = value, True
        if self.options.keys and record.key:
            try:
                key = mask.apply(record.key)
            except (msgspec.DecodeError, UnicodeDecodeError):
                key = None
            if key is not None:
                record.key, changed = key, True
        return changed

    def _mask_value(self, value: bytes, mask: Mask) -> bytes | None:
        try:
            return mask.apply(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return b"" if self.options.other_values == "blank" else None
