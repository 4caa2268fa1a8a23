"""Message: one message of Kafka's at all its versions, and how its bytes are read and written."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, field

from kproxy.errors import DecodeError, EncodeError, UnknownVersion
from kproxy.protocol import json_sink, object_codec
from kproxy.protocol.facts import Layout, facts
from kproxy.protocol.from_json import read_json, read_shown
from kproxy.protocol.program import Program
from kproxy.protocol.secrets import secrecy
from kproxy.protocol.structs import MessageStruct, struct_types
from kproxy.protocol.versions import OPEN, Versions

T = TypeVar("T")


class Fit(Struct, frozen=True):
    """Which layout fitted some bytes."""

    version: int  # the version whose layout it is
    release: str | None  # the Kafka release of an older layout of a version changed in place; None: the newest
    assumed: bool  # the version asked for is newer than the facts, and this one fitted it exactly
    trailing: int = 0  # bytes after the message; 0 unless they were allowed
    nulls: bool = False  # strings or bytes are null that may not be; only where that was allowed


class Beginning(Struct, frozen=True):
    """The fields of a message whose end is not here."""

    json: bytes  # Kafka's JSON of those that are whole; an array on the way to the one that is not has fewer elements
    missing: str | None = ""  # the path of the first one that is not whole; "": none is known; None: all are here
    counts: dict[str, int] = field(default_factory=dict)  # path of an array that is not whole -> its elements in all
    needed: int = 0  # bytes, or elements, that the missing field says it has
    here: int = 0  # bytes of it
    error: DecodeError | None = None  # what is wrong with the bytes there, where it is not that they end


class Message:
    """One message at all its versions; get it by ``message(name)``.

    Every reading method takes the bytes and the start of the message in them; the message must end where they end
    (not for ``walk``). Any bytes result in a value or a DecodeError. Where a version has two layouts in history the one
    that fills the bytes exactly is used, newest first; a version above the facts is read as the newest known one,
    if that fills the bytes exactly.

    Real software sends bytes after a message, and what reads it ignores them. ``check`` accepts them when told to, and
    says how many there are; the methods that read take that number as *trailing*, and so read what was checked. Likewise
    *nulls*: librdkafka's mock cluster sends null for strings and bytes that the version does not allow to be null.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.layouts: tuple[Layout, ...] = facts().layouts(name)
        newest = self.layouts[0]
        self.api_key = newest.api_key
        self.versions = Versions.union(layout.versions for layout in self.layouts)
        self.flexible_versions = newest.flexible
        self._programs: dict[int, tuple[Program, ...]] = {}
        self._nulls: dict[int, Program] = {}
        self._fits: dict[int, Fit] = {}  # of the first program of each version: the result of nearly every check

    def __repr__(self) -> str:
        return f"<Message {self.name} v{self.versions}>"

    # The defaults of keyword-only parameters are looked up at each call: that would be a fifth of what a small message costs.

    def decode(
        self, version: int, data: bytes, start: int = 0, trailing: int = 0, nulls: bool = False
    ) -> MessageStruct:
        """The message as an object. Raises DecodeError."""
        programs = self.programs(version)
        if nulls:
            programs = self._with_nulls(version, programs)
        decoded: MessageStruct
        if len(programs) == 1:
            decoded = object_codec.decode(programs[0], data, start, trailing)
            return decoded
        decoded, program = _first_that_fits(programs, lambda p: object_codec.decode(p, data, start, trailing))
        if program.release != programs[0].release:
            decoded.layout = program.release
        return decoded

    def to_json(
        self,
        version: int,
        data: bytes,
        start: int = 0,
        withhold: bool = False,
        trailing: int = 0,
        nulls: bool = False,
    ) -> bytes:
        """Kafka's JSON of the message, UTF-8; with *withhold*, credentials in it are "(withheld)". Raises DecodeError."""
        programs = self.programs(version)
        if nulls:
            programs = self._with_nulls(version, programs)
        if len(programs) == 1:
            return json_sink.to_json(programs[0], data, start, withhold, trailing)
        return _first_that_fits(programs, lambda p: json_sink.to_json(p, data, start, withhold, trailing))[0]

    def walk(self, version: int, data: bytes, start: int = 0) -> int:
        """Bytes that the message takes; there may be more behind it. Raises DecodeError."""
        programs = self.programs(version)
        if len(programs) > 1:
            for program in programs:
                if program.check(data, start) is None:
                    return len(data) - start
        return programs[0].walk(data, start)

    def check(self, version: int, data: bytes, start: int = 0, trailing: bool = False, nulls: bool = False) -> Fit:
        """Which layout the bytes have. Raises DecodeError when none fits.

        With *trailing*, bytes may follow the message: where no layout fits exactly, the one that leaves the fewest over does,
        and its Fit counts them. Not at a version above the facts: what is left over there is most likely a new field.
        With *nulls*, where that is not so either, the newest layout fits exactly with strings and bytes that are null.
        """
        programs = self.programs(version)
        first = programs[0]
        error = first.check(data, start)
        if error is None:
            return self._fits.get(version) or Fit(first.version, None, first.version != version)
        for program in programs[1:]:
            if program.check(data, start) is None:
                return Fit(program.version, program.release, program.version != version)
        if first.version != version:
            raise error
        if trailing:
            try:
                return _longest_fit(programs, data, start)
            except DecodeError:
                pass
        if nulls and self._with_nulls(version, programs)[-1].check(data, start) is None:
            return Fit(version, None, False, 0, nulls=True)
        raise error

    def _with_nulls(self, version: int, programs: tuple[Program, ...]) -> tuple[Program, ...]:
        """The programs, and the newest layout with null allowed for all strings and bytes."""
        if version not in self.versions:
            return programs
        found = self._nulls.get(version)
        if found is None:
            layout = next(layout for layout in self.layouts if version in layout.versions)
            found = self._nulls[version] = Program(layout, version, struct_types(self.name), secrecy, nulls=True)
        return *programs, found

    def beginning(self, version: int, data: bytes, start: int = 0, *, withhold: bool = False) -> Beginning:
        """The fields of a message of which *data* is only the beginning, from *start* on. Never raises.

        Of a version changed in place it is the newest layout that has no fault up to there. Nothing is read at a version that
        the facts do not have: what fits nowhere else to its end cannot be told from what does.
        """
        nothing = Beginning(b"{}")
        if version not in self.versions:
            return nothing
        programs = self._with_nulls(version, self.programs(version))
        first: Beginning | None = None
        for program in programs:
            found = self._beginning(program, data, start, withhold)
            if found.error is None:
                return found
            first = first or found
        return first or nothing

    def _beginning(self, program: Program, data: bytes, start: int, withhold: bool) -> Beginning:
        json, path, counts, needed, here, fault = json_sink.beginning(program, data, min(start, len(data)), withhold)
        if fault is None:
            return Beginning(json, path, counts, needed, here)
        (kind, reason), position = fault
        error = kind(reason, message=self.name, version=program.version, path=path or "", position=position)
        return Beginning(json, path, counts, needed, here, error)

    def peek(self, version: int, name: str, data: bytes, start: int = 0) -> int:
        """The integer in the top-level field *name* (``"acks"``), without reading what follows it.

        Raises DecodeError; KeyError for a field the version does not have, or that is tagged or no number.
        """
        return self.programs(version)[0].peek(name, data, start)

    def encode(self, version: int, value: MessageStruct) -> bytes:
        """The bytes of an object at a version. Raises EncodeError."""
        if version not in self.versions:
            raise EncodeError(f"{self.name} has no version {version}, only {self.versions}")
        programs = self.programs(version)
        program = next((p for p in programs if p.release == getattr(value, "layout", None)), programs[0])
        return object_codec.encode(program, value)

    def from_json(self, version: int, text: str | bytes) -> MessageStruct:
        """The object that Kafka's JSON describes. Raises EncodeError with the path of what is wrong in it."""
        if version not in self.versions:
            raise EncodeError(f"{self.name} has no version {version}, only {self.versions}")
        first, *older = (layout for layout in self.layouts if version in layout.versions)
        types = struct_types(self.name)
        try:
            return read_json(first, version, text, types)
        except EncodeError:
            for layout in older:
                with contextlib.suppress(EncodeError):
                    value = read_json(layout, version, text, types)
                    value.layout = layout.release
                    return value
            raise

    def from_shown(self, version: int, text: str | bytes, records: Callable[[str, int], Any]) -> MessageStruct:
        """The object that a decoded log shows; *records* makes the values of records fields. Raises EncodeError."""
        if version not in self.versions:
            raise EncodeError(f"{self.name} has no version {version}, only {self.versions}")
        layout = next(layout for layout in self.layouts if version in layout.versions)
        return read_shown(layout, version, text, struct_types(self.name), records)

    def programs(self, version: int) -> tuple[Program, ...]:
        """The programs for that version, newest layout first; never empty. Raises UnknownVersion."""
        found = self._programs.get(version)
        return self._compile(version) if found is None else found

    def _compile(self, version: int) -> tuple[Program, ...]:
        if version not in self.versions:
            if not self.versions.highest < version <= OPEN:
                raise UnknownVersion(f"only versions {self.versions} are known", message=self.name, version=version)
            return self.programs(self.versions.highest)  # not cached by its number, which the sender chooses
        types = struct_types(self.name)
        layouts = (layout for layout in self.layouts if version in layout.versions)
        found = self._programs[version] = tuple(Program(layout, version, types, secrecy) for layout in layouts)
        self._fits[version] = Fit(found[0].version, None, False)
        return found


def _longest_fit(programs: tuple[Program, ...], data: bytes, start: int) -> Fit:
    """The layout that the most bytes belong to; the newest of those that are equal. Raises the newest one's DecodeError."""
    best: Fit | None = None
    first_error: DecodeError | None = None
    for program in programs:
        try:
            left = len(data) - start - program.walk(data, start)
        except DecodeError as error:
            first_error = first_error or error
            continue
        if best is None or left < best.trailing:
            best = Fit(program.version, None if program is programs[0] else program.release, False, left)
    if best is None:
        assert first_error is not None
        raise first_error
    return best


def _first_that_fits(programs: tuple[Program, ...], read: Callable[[Program], T]) -> tuple[T, Program]:
    """The result of *read* for the first program that fits; the first program's error when none does."""
    first: DecodeError | None = None
    for program in programs:
        try:
            return read(program), program
        except DecodeError as error:
            first = first or error
    assert first is not None
    raise first


@functools.cache
def message(name: str) -> Message:
    """The message of that name ("FetchRequest", "OffsetCommitValue"). Raises KeyError."""
    return Message(name)


@functools.cache
def request_message(api_key: int) -> Message | None:
    """The request of an API; None for a key that the facts do not know."""
    api = facts().apis.get(api_key)
    return message(f"{api.name}Request") if api else None


@functools.cache
def response_message(api_key: int) -> Message | None:
    """The response of an API; None for a key that the facts do not know."""
    api = facts().apis.get(api_key)
    return message(f"{api.name}Response") if api else None
