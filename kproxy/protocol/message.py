"""Message: one Kafka message at all its versions; reads and writes its bytes."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, field

from kproxy.errors import DecodeError, EncodeError, UnknownVersion
from kproxy.protocol import json_sink, object_codec
from kproxy.protocol.direction import Direction
from kproxy.protocol.facts import Layout, facts
from kproxy.protocol.from_json import read_json, read_shown
from kproxy.protocol.program import Program
from kproxy.protocol.secrets import secrecy
from kproxy.protocol.structs import MessageStruct, struct_types
from kproxy.protocol.versions import OPEN

T = TypeVar("T")


class Fit(Struct, frozen=True):
    """The layout that fits some bytes."""

    version: int  # the layout's version
    release: str | None  # the Kafka release of an older layout of a version changed in place; None: the newest
    assumed: bool  # the requested version is newer than the facts, and this layout fits exactly
    trailing: int = 0  # bytes after the message; 0 unless allowed
    nulls: bool = False  # strings or bytes are null although their definition forbids it; only if allowed


class Beginning(Struct, frozen=True):
    """The complete fields of a message without its end."""

    json: bytes  # Kafka's JSON of the complete fields; incomplete arrays have fewer elements
    missing: str | None = ""  # path of the first incomplete field; "": unknown; None: all fields are complete
    counts: dict[str, int] = field(default_factory=dict)  # path of an incomplete array -> its number of elements
    needed: int = 0  # bytes, or elements, of the missing field according to its size
    here: int = 0  # bytes of the missing field that are present
    error: DecodeError | None = None  # why the bytes there are malformed; None if they are only cut


class Message:
    """One message at all its versions; get it with ``message(name)``.

    Every reading method takes the bytes and the start of the message in them. The message must end where they end (except for
    ``walk``). Any bytes give a value or a DecodeError. If a version had two layouts, the newest one that fits exactly is used. A
    version above the facts is read as the newest known one, if that fits exactly.

    Real software sends bytes after a message, and receivers ignore them. ``check`` can accept such bytes and returns their
    number, which the other methods take as *trailing*. The same holds for *nulls*: librdkafka's mock cluster sends null for
    strings and bytes that must not be null in the version. ``decode`` gives empty ones for them, ``to_json`` says null.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions = facts().versions(name)
        self.flexible_versions = facts().flexible(name)
        self._programs: dict[int, tuple[Program, ...]] = {}
        self._nulls: dict[int, Program] = {}
        self._fits: dict[int, Fit] = {}  # the Fit of each version's first program, the result of nearly every check

    def __repr__(self) -> str:
        return f"<Message {self.name} v{self.versions}>"

    @functools.cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts, newest first. They are read when first used: a proxy needs those of few messages."""
        return facts().layouts(self.name)

    @property
    def api_key(self) -> int | None:
        """The API, of a request or response."""
        return self.layouts[0].api_key

    # Not keyword-only: looking up such defaults would take a fifth of the time for a small message.

    def decode(
        self, version: int, data: bytes, start: int = 0, trailing: int = 0, nulls: bool = False
    ) -> MessageStruct:
        """Decode the message to an object. Raises DecodeError."""
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
        """Return Kafka's JSON of the message, UTF-8; with *withhold*, credentials in it are "(withheld)". Raises DecodeError."""
        programs = self.programs(version)
        if nulls:
            programs = self._with_nulls(version, programs)
        if len(programs) == 1:
            return json_sink.to_json(programs[0], data, start, withhold, trailing)
        return _first_that_fits(programs, lambda p: json_sink.to_json(p, data, start, withhold, trailing))[0]

    def walk(self, version: int, data: bytes, start: int = 0) -> int:
        """Return the size of the message, which other bytes may follow. Raises DecodeError."""
        programs = self.programs(version)
        if len(programs) > 1:
            for program in programs:
                if program.check(data, start) is None:
                    return len(data) - start
        return programs[0].walk(data, start)

    def check(self, version: int, data: bytes, start: int = 0, trailing: bool = False, nulls: bool = False) -> Fit:
        """Return the layout that fits the bytes. Raises DecodeError if none does.

        With *trailing*, bytes may follow the message: if no layout fits exactly, the one that leaves the fewest bytes is used,
        and its Fit counts them. Not at a version above the facts, where bytes left over are most likely a new field.
        With *nulls*, if that fails, too, the newest layout is tried with null allowed for strings and bytes.
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

    def program_of(self, version: int, fit: Fit) -> Program:
        """Return the program that reads the layout which ``check`` found for that version."""
        programs = self.programs(version)
        if fit.nulls:
            return self._with_nulls(version, programs)[-1]
        return next((program for program in programs if program.release == fit.release), programs[0])

    def lenient_program(self, version: int) -> Program:
        """Return the newest layout of a version, with null allowed for all strings and bytes, to read a body without its end."""
        return self._with_nulls(version, self.programs(version))[-1]

    def _with_nulls(self, version: int, programs: tuple[Program, ...]) -> tuple[Program, ...]:
        """Return the programs, and the newest layout with null allowed for all strings and bytes."""
        if version not in self.versions:
            return programs
        program = self._nulls.get(version)
        if program is None:
            layout = next(layout for layout in self.layouts if version in layout.versions)
            program = self._nulls[version] = Program(layout, version, struct_types(self.name), secrecy, nulls=True)
        return *programs, program

    def beginning(self, version: int, data: bytes, start: int = 0, *, withhold: bool = False) -> Beginning:
        """Return the complete fields of a message whose beginning is *data* from *start* on. Never raises.

        For a version changed in place, the newest layout that fits so far is used. Nothing is read at a version above the facts:
        only a complete message can show that the newest known layout fits.
        """
        nothing = Beginning(b"{}")
        if version not in self.versions:
            return nothing
        programs = self._with_nulls(version, self.programs(version))
        first: Beginning | None = None
        for program in programs:
            beginning = self._beginning(program, data, start, withhold)
            if beginning.error is None:
                return beginning
            first = first or beginning
        return first or nothing

    def _beginning(self, program: Program, data: bytes, start: int, withhold: bool) -> Beginning:
        json, path, counts, needed, present, fault = json_sink.beginning(program, data, min(start, len(data)), withhold)
        if fault is None:
            return Beginning(json, path, counts, needed, present)
        (kind, reason), position = fault
        error = kind(reason, message=self.name, version=program.version, path=path or "", position=position)
        return Beginning(json, path, counts, needed, present, error)

    def peek(self, version: int, name: str, data: bytes, start: int = 0) -> int:
        """Return the integer in the top-level field *name* (``"acks"``), without reading the fields behind it.

        Raises DecodeError, and KeyError for a field that the version lacks, or that is tagged or not an integer.
        """
        return self.programs(version)[0].peek(name, data, start)

    def encode(self, version: int, value: MessageStruct, header: bytes | None = None) -> bytes:
        """Encode an object at a version; with *header*, a frame: its size, the header, the message. Raises EncodeError."""
        if version not in self.versions:
            raise EncodeError(f"{self.name} has no version {version}, only {self.versions}")
        programs = self.programs(version)
        program = next((p for p in programs if p.release == getattr(value, "layout", None)), programs[0])
        return object_codec.encode(program, value, header)

    def from_json(self, version: int, text: str | bytes) -> MessageStruct:
        """Return the object that Kafka's JSON describes. Raises EncodeError with the path of the mistake."""
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
        """Return the object that a decoded log shows; see read_shown for *records*. Raises EncodeError."""
        if version not in self.versions:
            raise EncodeError(f"{self.name} has no version {version}, only {self.versions}")
        layout = next(layout for layout in self.layouts if version in layout.versions)
        return read_shown(layout, version, text, struct_types(self.name), records)

    def programs(self, version: int) -> tuple[Program, ...]:
        """Return the programs for that version, newest layout first; never empty. Raises UnknownVersion."""
        programs = self._programs.get(version)
        return self._compile(version) if programs is None else programs

    def _compile(self, version: int) -> tuple[Program, ...]:
        if version not in self.versions:
            if not self.versions.highest < version <= OPEN:
                raise UnknownVersion(f"only versions {self.versions} are known", message=self.name, version=version)
            return self.programs(self.versions.highest)  # not cached, as the sender can choose any number
        types = struct_types(self.name)
        layouts = (layout for layout in self.layouts if version in layout.versions)
        programs = self._programs[version] = tuple(Program(layout, version, types, secrecy) for layout in layouts)
        self._fits[version] = Fit(programs[0].version, None, False)
        return programs


def _longest_fit(programs: tuple[Program, ...], data: bytes, start: int) -> Fit:
    """Return the layout that covers the most bytes, the newest of equals. Raises the newest one's DecodeError."""
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
    """Return the result of *read* for the first program that fits. Raises the first program's error if none does."""
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
    """Return the message of that name ("FetchRequest", "OffsetCommitValue"). Raises KeyError."""
    return Message(name)


@functools.cache
def known_message(direction: Direction, api_key: int) -> Message:
    """Return the request or the response of an API that is in the facts. Raises KeyError."""
    return message(f"{facts().apis[api_key].name}{'Request' if direction == Direction.REQUEST else 'Response'}")


@functools.cache
def request_message(api_key: int) -> Message | None:
    """Return the request of an API; None for an unknown key."""
    api = facts().apis.get(api_key)
    return message(f"{api.name}Request") if api else None


@functools.cache
def response_message(api_key: int) -> Message | None:
    """Return the response of an API; None for an unknown key."""
    api = facts().apis.get(api_key)
    return message(f"{api.name}Response") if api else None
