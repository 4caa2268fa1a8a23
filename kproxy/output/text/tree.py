"""All fields of an exchange as a tree: what ``-v`` shows below the line.

Driven by Kafka's JSON, without knowledge of single APIs. Special values are followed by their name and topic ids by the topic's;
an error is followed by its meaning and what a client is expected to do. A struct without inner structs is put on one line if it
fits. Only the first elements of long arrays, and only the size of bodies larger than READABLE, are shown, so that the output
is never much larger than the frame.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from kproxy.output.bodies import READABLE, Bodies, count_errors, find_errors, share_here, trailing_words, why_cut
from kproxy.output.escaping import printable, word
from kproxy.output.exchange_line import read_bodies
from kproxy.output.text.styles import PLAIN, Style
from kproxy.output.times import counted, render_size
from kproxy.protocol import Beginning, RequestHeader
from kproxy.protocol.embedded.payload import Embedded, to_json
from kproxy.protocol.error_codes import error_code
from kproxy.protocol.secrets import WITHHELD
from kproxy.protocol.values import describe
from kproxy.session import Exchange, Frame

WIDTH = 120  # without a terminal
LONGEST_VALUE = 2000  # characters of one string; a longer one is cut, and marked
MOST_ELEMENTS = 1_000  # elements of one array that are shown
MOST_PARTITIONS = 100  # partitions of a fetch session that are shown
FULL_EPOCHS = (0, -1)  # epochs of a Fetch that itself names all its partitions
BRANCH, LAST, DOWN, SPACE = "├─ ", "└─ ", "│  ", "   "


class Tree:
    """Renders exchanges as trees; see the module. *width*: of the output, in cells; structs that fit are put on one line."""

    def __init__(self, style: Style = PLAIN, width: int | None = None) -> None:
        self.style = style
        self.width = width or WIDTH
        self._names: Mapping[str, str] = {}
        self._inside = Inside([])
        self._counts: Mapping[str, int] = {}  # path of an array that is cut -> its number of elements on the wire

    def render(self, exchange: Exchange, bodies: Bodies | None = None) -> Iterator[str]:
        """Yield the lines of the tree, without newlines: request, response, then each error once."""
        if bodies is None:
            bodies = read_bodies(exchange)
        self._names = exchange.topic_names
        for title, frame, body in (
            ("request", exchange.request, bodies.request),
            ("response", exchange.response, bodies.response),
        ):
            if frame is not None:
                self._inside = Inside([one for one in bodies.embedded if one.where == title])
                yield f"  {self.style.paint(self.style.name, title)}  {self._frame(frame)}"
                beginning = bodies.beginnings.get(title)
                if beginning is None:
                    yield from self._below(frame, body, bodies)
                else:
                    yield from self._cut(frame, body, beginning, why_cut(exchange)[title])
        yield from self._fetch_session(exchange)
        yield from self._errors(bodies.response)

    def _fetch_session(self, exchange: Exchange) -> Iterator[str]:
        """Yield all that an incremental Fetch fetches; its body has only what changed (KIP-227)."""
        session = exchange.fetch_session
        if session is None or session.epoch in FULL_EPOCHS:
            return
        title = f"fetch session {session.session_id}, epoch {session.epoch}: {counted(len(session.partitions), 'partition')}"
        others = "" if session.others is None else f", and {session.others}"
        yield f"  {self.style.paint(self.style.name, title + others)}"
        shown = session.partitions[:MOST_PARTITIONS]
        for index, one in enumerate(shown):
            topic = self._names.get(one.topic, one.topic)
            stem = LAST if index == len(shown) - 1 and len(shown) == len(session.partitions) else BRANCH
            yield f"  {stem}{printable(topic)}-{one.partition} from offset {one.fetch_offset}"
        if len(shown) < len(session.partitions):
            yield f"  {LAST}{len(session.partitions) - len(shown)} more"

    def _frame(self, frame: Frame) -> str:
        words = [f"{frame.wire_size:,} bytes"]
        if frame.layout is not None:
            words.append(f"laid out as in Kafka {frame.layout}")
        if frame.assumed_version is not None:
            words.append(f"read as version {frame.assumed_version}, the newest that kproxy knows")
        if frame.unread:
            words.append("only its header is read by a broker that lacks the version")
        if frame.trailing:
            words.append(trailing_words(frame.trailing))
        words.extend(printable(edit) for edit in frame.edits or ())
        return self.style.paint(self.style.dim, ", ".join(words))

    def _below(self, frame: Frame, body: bytes | None, bodies: Bodies) -> Iterator[str]:
        """Yield header and body of a frame."""
        yield from self._header(frame, last=body == b"{}")
        if frame.unread:
            return
        if body is None or frame.message is None:
            yield f"  {LAST}{self.style.paint(self.style.error, printable(bodies.undecoded or 'not decoded', 1000))}"
        elif len(body) > READABLE:
            yield f"  {LAST}{_too_large(body)}"
        else:
            yield from self._struct(frame.message.name, (), msgspec.json.decode(body), "  ")

    def _header(self, frame: Frame, *, last: bool) -> Iterator[str]:
        if frame.header is not None:
            header = msgspec.json.decode(frame.header.to_json())
            kind = "RequestHeader" if isinstance(frame.header, RequestHeader) else "ResponseHeader"
            yield from self._branch(kind, ("header",), "header", header, "  ", last=last)

    def _cut(self, frame: Frame, body: bytes | None, beginning: Beginning, why: str) -> Iterator[str]:
        """Yield header and fields of a frame up to the cut, then what is missing and why."""
        yield from self._header(frame, last=False)
        if body is not None and frame.message is not None and len(body) <= READABLE:
            self._counts = beginning.counts
            yield from self._struct(frame.message.name, (), msgspec.json.decode(body), "  ", follows=True)
            self._counts = {}
        missing = f"{beginning.missing} and what follows: " if beginning.missing else ""
        if beginning.error is not None:
            yield f"  {BRANCH}{self.style.paint(self.style.error, printable(str(beginning.error), 1000))}"
            missing = "the rest: "
        yield f"  {LAST}{self.style.paint(self.style.warning, printable(f'{missing}{why}{share_here(frame)}', 1000))}"

    def _struct(
        self,
        message: str,
        path: tuple[str, ...],
        value: dict[str, Any],
        indent: str,
        at: str = "",
        *,
        follows: bool = False,
    ) -> Iterator[str]:
        last = len(value) if follows else len(value) - 1
        for index, (name, inner) in enumerate(value.items()):
            path_text = f"{at}.{name}" if at else name
            yield from self._branch(message, (*path, name), name, inner, indent, path_text, last=index == last)

    def _branch(
        self, message: str, path: tuple[str, ...], label: str, value: Any, indent: str, at: str = "", *, last: bool
    ) -> Iterator[str]:
        """Yield a field or an array element, with what is below it. *at*: its path in the body, with indexes."""
        stem = f"{indent}{LAST if last else BRANCH}"
        below = indent + (SPACE if last else DOWN)
        label = self.style.paint(self.style.key, printable(label))
        if isinstance(value, dict):
            used = len(stem) + len(label) + 2
            inline = None if self._inside.below(at) else self._inline(message, path, value, used)
            if inline is not None:
                yield f"{stem}{label}: {inline}"
            else:
                yield f"{stem}{label}"
                yield from self._struct(message, path, value, below, at)
        elif isinstance(value, list) and value and isinstance(value[0], dict | list):
            yield f"{stem}{label}: {self._count(at, value)}"
            for index, inner in enumerate(value[:MOST_ELEMENTS]):
                path_text = f"{at}[{index}]" if at else ""
                yield from self._branch(
                    message, path, f"[{index}]", inner, below, path_text, last=index == len(value) - 1
                )
            if len(value) > MOST_ELEMENTS:
                yield f"{below}{LAST}{_more(value)}"
        elif isinstance(value, list) and len(value) > 1 and len(stem) + 3 * len(value) > self.width:
            yield f"{stem}{label}: {self._count(at, value)}"
            text = ", ".join(map(_plain, value[:MOST_ELEMENTS]))
            text += f", {_more(value)}" if len(value) > MOST_ELEMENTS else ""
            yield from textwrap.wrap(text, self.width, initial_indent=below + SPACE, subsequent_indent=below + SPACE)
        elif (one := self._inside.at(at)) is not None:
            yield from self._opened(one, f"{stem}{label}: ", value, below)
        else:
            of_all = f", {self._count(at, value)}" if at in self._counts else ""
            yield f"{stem}{label}: {self._value(message, path, value)}{of_all}"

    def _count(self, at: str, value: Sequence[Any]) -> str:
        """Say how many elements an array has; for a cut one also how many it had on the wire."""
        count = self._counts.get(at, len(value))
        return str(count) if count == len(value) else f"{len(value)} of {count}"

    def _opened(self, one: Embedded, stem: str, value: Any, below: str) -> Iterator[str]:
        """Yield a payload under its field, in place of the field's bytes."""
        size = f"{value:,} bytes, " if isinstance(value, int) else f"{WITHHELD}, " if value == WITHHELD else ""
        kind = self.style.paint(self.style.warning, one.kind)
        if one.error is not None:
            yield f"{stem}{size}{kind}, {self.style.paint(self.style.error, printable(one.error, 1000))}"
            return
        text = to_json(one.json)
        if len(text) > READABLE:
            yield f"{stem}{size}{kind}, {_too_large(text)}"
            return
        inner = msgspec.json.decode(text)
        outside, self._inside = self._inside, Inside([])  # a payload has other paths than the body
        if isinstance(inner, dict):
            yield f"{stem}{size}{kind}"
            yield from self._struct("", (), inner, below)
        else:
            yield f"{stem}{size}{kind} {self._value('', ('',), inner)}"
        self._inside = outside

    def _inline(self, message: str, path: tuple[str, ...], value: dict[str, Any], used: int) -> str | None:
        """Render a struct of plain values on one line; None if it holds more, or does not fit."""
        if any(isinstance(inner, dict | list) and inner for inner in value.values()):
            return None
        if not value:
            return "{}"
        fields = [self._field(message, (*path, name), inner) for name, inner in value.items()]
        line = "  ".join(fields)
        return line if used + len(line) <= self.width else None

    def _field(self, message: str, path: tuple[str, ...], value: Any) -> str:
        return f"{printable(path[-1])} {self._value(message, path, value)}"

    def _value(self, message: str, path: tuple[str, ...], value: Any) -> str:
        if isinstance(value, list):
            return "[" + ", ".join(self._value(message, path, inner) for inner in value) + "]"
        meaning = describe(message, path, value)
        if meaning is None and isinstance(value, str):
            meaning = self._names.get(value)
        if meaning is None:
            return _plain(value)
        wrong = path[-1].endswith("rrorCode") and value != 0
        code = self.style.error if wrong else self.style.warning
        return f"{_plain(value)} {self.style.paint(code, f'({printable(meaning)})')}"

    def _errors(self, response: bytes | None) -> Iterator[str]:
        """Yield each error code once, with its first path, its meaning and what a client should do."""
        first: dict[int, str] = {}
        for error in find_errors(response):
            first.setdefault(error.code, error.path)
        counts = count_errors(response)
        for code, path in islice(first.items(), MOST_ELEMENTS):
            known = error_code(code)
            found_at = f" at {printable(path)}" if path else ""
            found_at += f" and {counts[code] - 1:,} more" if counts[code] > 1 else ""
            retriable = "retriable" if known.retriable else "no RetriableException"
            yield f"  {self.style.paint(self.style.error, known.name)} ({code}, {retriable}){found_at}"
            yield from self._sentence(f"  {BRANCH}", f"  {DOWN}", known.meaning)
            yield from self._sentence(f"  {LAST}", f"  {SPACE}", f"Client: {known.then}.")

    def _sentence(self, first: str, others: str, text: str) -> Iterator[str]:
        """Yield a sentence, wrapped to the width."""
        yield from textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=others)


class Inside:
    """The payloads inside one body, by the path of their field."""

    def __init__(self, embedded: Sequence[Embedded]) -> None:
        self._at = {one.path: one for one in embedded}
        self._below = {path[:end] for path in self._at for end in range(len(path)) if path[end] in ".["}

    def at(self, path_text: str) -> Embedded | None:
        """Return the payload in the field at a path. Kafka's JSON has a records field under the name of its size."""
        return self._at.get(path_text.removesuffix("SizeInBytes"))

    def below(self, path_text: str) -> bool:
        """Return whether a field below the path holds a payload."""
        return path_text in self._below


def _more(value: Sequence[Any]) -> str:
    return f"… {len(value) - MOST_ELEMENTS:,} more; --format jsonl has them"


def _too_large(json: bytes) -> str:
    return f"{render_size(len(json))} as JSON, too much to show; --format jsonl has it"


def _plain(value: Any) -> str:
    """Render a JSON scalar as in Kafka's JSON, but printable."""
    if isinstance(value, str):
        return word(value, LONGEST_VALUE)
    return printable(msgspec.json.encode(value).decode(), LONGEST_VALUE)  # an object, in a malformed line of a log
