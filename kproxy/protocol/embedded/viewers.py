"""Content viewers: show keys and values of records in a readable form.

A viewer is a small class with a name and one method. To show another format, add one:

    class Gps:
        name = "gps"

        def view(self, data: bytes, content: Content) -> object | None:
            if content.topic != "positions" or len(data) != 16:
                return None
            return {"latitude": ..., "longitude": ...}

    viewers = Viewers()
    viewers.add(Gps())

The first viewer that returns anything but None wins. A viewer that raises is skipped, and after FAULTS_ALLOWED times no longer
called; Viewers.faults has its name and latest error.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kproxy.protocol.secrets import WITHHELD, is_secret_setting

MOST_SHOWN = 1024  # bytes of hex and characters of text shown; longer data is cut, and its size is shown
MOST_PARSED = 64 * 1024  # larger JSON is not parsed
MOST_DEPTH = 64
FAULTS_ALLOWED = 3
MOST_REASONS = 1_000


@dataclass(frozen=True, slots=True)
class Content:
    """Where the bytes are from."""

    topic: str | None = None
    part: str = "value"  # "key", "value", or the name of a header
    headers: Sequence[
        tuple[str, bytes | None]
    ] = ()  # of the record, for its key and value: serializers name schemas there
    key: bytes | None = None  # of the record, for its value and headers: encrypted ones are bound to it
    offset: int | None = None  # in the partition; None where it is not known, as in a Produce request
    is_header: bool = False


class Viewer(Protocol):
    """Turns bytes into a JSON value."""

    name: str

    def view(self, data: bytes, content: Content) -> object | None:
        """Return *data* as dicts with string keys, lists, strings, numbers and booleans; None if it has another format."""


class Decrypted(Protocol):
    """What became of an encrypted value or record key (kproxy.encryption.reading)."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def key_name(self) -> str | None: ...
    @property
    def problem(self) -> str | None: ...


# Record key, value, and the name of its header, if it is one's -> None for a plain value
Decrypt = Callable[[bytes | None, bytes, bytes | None], Decrypted | None]


# Record key, place in the value, text -> None for a plain one
DecryptField = Callable[[bytes | None, tuple[str | int, ...], str], Decrypted | None]


class JsonViewer:
    """Shows a JSON object or array; values of keys named like a secret are withheld (connectors store passwords)."""

    name = "json"

    def view(self, data: bytes, content: Content) -> object | None:
        """Return the parsed document; None for scalars, which the text viewer shows as well."""
        if not data[:64].lstrip().startswith((b"{", b"[")) or len(data) > MOST_PARSED:
            return None
        try:
            document: object = without_secrets(json.loads(data.decode(), parse_constant=_refuse))
        except (ValueError, RecursionError):
            return None
        return document


class TextViewer:
    """Shows UTF-8 without control characters, except those of ordinary text."""

    name = "text"

    def view(self, data: bytes, content: Content) -> object | None:
        """Return the text, cut at MOST_SHOWN characters."""
        try:
            text = data[: 4 * MOST_SHOWN].decode()
        except UnicodeDecodeError as error:
            if len(data) <= 4 * MOST_SHOWN or error.start < 4 * MOST_SHOWN - 3:
                return None
            text = data[: error.start].decode()
        if not text.isprintable() and any(not char.isprintable() and char not in "\n\r\t" for char in text):
            return None
        return text[:MOST_SHOWN]


class HexViewer:
    """Shows any bytes as hex."""

    name = "hex"

    def view(self, data: bytes, content: Content) -> object | None:
        """Return the first MOST_SHOWN bytes."""
        return data[:MOST_SHOWN].hex()


class Viewers:
    """A list of viewers, in the order in which they are tried."""

    def __init__(self) -> None:
        self.viewers: list[Viewer] = [JsonViewer(), TextViewer(), HexViewer()]
        self.decrypt: Decrypt = lambda key, value, header: None
        self.decrypt_key: Callable[[bytes], Decrypted | None] = lambda key: None  # None for a plain one
        self.decrypt_field: DecryptField | None = None  # the plain text; of bytes, base64 of the plain bytes
        self.may_have_fields: Callable[[bytes], bool] = lambda value: False
        self.faults: dict[str, str] = {}  # name of a viewer -> the last error it raised
        self.unopened: Counter[str] = Counter()  # why keys, values and headers stayed encrypted
        self._counts: dict[str, int] = {}

    def add(self, viewer: Viewer) -> None:
        """Add a viewer that is tried before all others."""
        self.viewers.insert(0, viewer)

    def view(self, data: bytes | None, content: Content) -> dict[str, Any] | None:
        """Return ``{name of the viewer: its result, "size": bytes}``; None for null. Never raises.

        An encrypted one also has ``encrypted``: the name of the ``key`` that it takes and, if it could not be decrypted, the
        ``problem``; there is no result of a viewer then. One with encrypted fields has ``encryptedFields``: for each key and
        problem of them a ``key``, the ``problem``, if there is one, and the number of ``fields``.
        """
        if data is None:
            return None
        decrypted = None
        if content.is_header:
            decrypted = self.decrypt(content.key, data, content.part.encode("utf-8", "surrogateescape"))
        elif content.part == "value":
            decrypted = self.decrypt(content.key, data, None)
        elif content.part == "key":
            decrypted = self.decrypt_key(data)
        if decrypted is not None:
            about = {"key": decrypted.key_name}
            if decrypted.value is None:
                why = decrypted.problem or ""
                if why in self.unopened or len(self.unopened) < MOST_REASONS:
                    self.unopened[why] += 1
                return {"encrypted": {**about, "problem": decrypted.problem}, "size": len(data)}
            return {**self._viewed(decrypted.value, content), "encrypted": about}
        return self._viewed(data, content)

    def _viewed(self, data: bytes, content: Content) -> dict[str, Any]:
        for viewer in self.viewers:
            result = self._ask(viewer, data, content)
            if result is not None:
                shown = {viewer.name: result, "size": len(data)}
                is_value = content.part == "value" and not content.is_header
                return self._with_plain_fields(shown, content) if is_value and self.may_have_fields(data) else shown
        return {"size": len(data)}

    def _with_plain_fields(self, shown: dict[str, Any], content: Content) -> dict[str, Any]:
        """Return a shown value with its encrypted fields decrypted, and what became of them."""
        holder = next((shown[form] for form in ("schema",) if form in shown), shown)
        form = next((form for form in ("value", "json") if form in holder), None)
        if form is None or self.decrypt_field is None:
            return shown
        found: Counter[tuple[str | None, str | None]] = Counter()
        plain = self._plain(holder[form], (), content, found)
        about = [
            {"key": key, "fields": count} | ({} if problem is None else {"problem": problem})
            for (key, problem), count in found.items()
        ]
        holder = holder | {form: plain}
        shown = shown | {"schema": holder} if "schema" in shown else holder
        return shown | {"encryptedFields": about} if about else shown

    def _plain(self, value: Any, place: tuple[str | int, ...], content: Content, found: Counter[Any]) -> Any:
        if isinstance(value, dict):
            return {name: self._plain(inner, (*place, name), content, found) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._plain(inner, (*place, at), content, found) for at, inner in enumerate(value)]
        decrypted = None
        if isinstance(value, str) and self.decrypt_field is not None:
            decrypted = self.decrypt_field(content.key, place, value)
        if decrypted is None:
            return value
        if decrypted.problem is None or len(found) < MOST_REASONS:
            found[decrypted.key_name, decrypted.problem] += 1
        if decrypted.problem is not None and (decrypted.problem in self.unopened or len(self.unopened) < MOST_REASONS):
            self.unopened[decrypted.problem] += 1
        return value if decrypted.value is None else decrypted.value.decode("utf-8", "surrogatepass")

    def _ask(self, viewer: Viewer, data: bytes, content: Content) -> object | None:
        if self._counts.get(viewer.name, 0) >= FAULTS_ALLOWED:
            return None
        try:
            result = viewer.view(data, content)
            if result is not None:
                json.dumps(result, allow_nan=False)  # a value that JSON lacks would break the whole line
        except Exception as error:
            self.faults[viewer.name] = f"{type(error).__name__}: {error}"[:200]
            self._counts[viewer.name] = self._counts.get(viewer.name, 0) + 1
            return None
        return result


def datum(view: Any) -> Any:
    """Return a viewed key or value as its schema describes it, as JSON, text or hex; null for null, and for any other form."""
    if not isinstance(view, dict):
        return view
    schema = view.get("schema", view)
    return next((schema[form] for form in ("value", "json", "text", "hex") if form in schema), None)


def records_in(embedded: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the records of an exchange's ``embedded`` as conditions see them: keys, values and headers are those of ``datum``."""
    for record, _ in records_and_problems(embedded):
        yield record


def records_and_problems(embedded: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str | None]]:
    """Yield the records as conditions see them, and which key or value of each is still encrypted: then it is null."""
    for held in (one["json"] for one in embedded if one["kind"] == "records" and "json" in one):
        for record in held.get("records", ()):
            if "value" in record:
                headers = {one["key"]: datum(one["value"]) for one in record.get("headers", ())}
                own = {"topic": held["topic"], "partition": held["partition"], "headers": headers}
                seen = record | own | {"key": datum(record["key"]), "value": datum(record["value"])}
                problems = ((part, _problem_of(record[part])) for part in ("value", "key"))
                yield seen, next((f"record.{part} is encrypted: {why}" for part, why in problems if why), None)


def _problem_of(view: Any) -> str | None:
    """Return why a key or value is still encrypted; anyone may have written the line that it is from."""
    about = view.get("encrypted") if isinstance(view, dict) else None
    problem = about.get("problem") if isinstance(about, dict) else None
    return None if problem is None else str(problem)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def without_secrets(value: Any, depth: int = 0) -> Any:
    """Return JSON without the values of keys that are named like a secret. Raises RecursionError beyond MOST_DEPTH levels."""
    if depth > MOST_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        return {
            name: WITHHELD if is_secret_setting(name.encode("utf-8", "replace")) else without_secrets(inner, depth + 1)
            for name, inner in value.items()
        }
    return [without_secrets(inner, depth + 1) for inner in value] if isinstance(value, list) else value
