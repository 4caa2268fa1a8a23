"""JSON Schema: the payload is JSON; jsonschema-rs says whether it is valid.

A schema names others by URI; only those among its references are there: no file is opened and no host is asked. Patterns are
matched in linear time. A schema may still make a value cost exponential time, by two references to what has two references and
so on, or by a circle of them: ``is_bounded`` tells, before a schema that came with the traffic is used.
"""

import functools
import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from kproxy.schemas.fields import Edit, FieldPaths, edited_json
from kproxy.schemas.formats import Compiled, PayloadError, SchemaError, Substitutes, ValueMismatch, below, require

BASE = "http://schema.invalid/"  # of schemas without an $id (RFC 2606: no such host)
MOST_PROBLEMS = 10
MOST_CHARACTERS = 200  # of a problem
MOST_STEPS = 100_000  # subschemas that a value may meet, with each reference followed
NAMING = {"additionalProperties", "unevaluatedProperties"}  # rules whose messages name properties of the value
OTHER_REFERENCES = {"$dynamicRef", "$recursiveRef"}


class JsonSchema(Compiled):
    """Reads the payloads of one schema."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        try:
            self._schema = json.loads(text)
            self._others = {name: json.loads(other) for name, other in references.items()}
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"not a JSON Schema: {error}") from error

    def read(self, payload: bytes, indexes: tuple[int, ...] | None = None) -> object:
        """Return the document. Raises PayloadError if the payload is not JSON."""
        try:
            document: object = json.loads(payload, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the payload is not JSON: {error}") from error
        return document

    def write(self, value: object, like: bytes | None = None, indexes: tuple[int, ...] | None = None) -> bytes:
        """See Compiled. The value has to be valid, unless the schema may take too long to say so."""
        error = next(self._validator.iter_errors(value), None) if self.is_bounded else None
        if error is not None:
            path = functools.reduce(below, error.instance_path, "")
            raise ValueMismatch(f"is not valid by {_sentence(error)}", path)
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            raise ValueMismatch(f"cannot be written as JSON: {error}") from error

    def substituted(self, payload: bytes, indexes: tuple[int, ...] | None, substitutes: Substitutes) -> bytes:
        """Return the payload with substitutes. Raises PayloadError.

        Names that are among the properties of the schema stay. Limits and patterns of the schema may be broken.
        """
        document = self._substituted(self.read(payload), substitutes)
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def editing(self, paths: FieldPaths) -> Edit:
        return lambda payload, indexes, change: edited_json(payload, paths, change)

    def _substituted(self, value: Any, to: Substitutes) -> Any:
        if isinstance(value, dict):
            names = self._words.names
            return {name if name in names else to.text(name): self._substituted(one, to) for name, one in value.items()}
        if isinstance(value, list):
            return [self._substituted(one, to) for one in value]
        if isinstance(value, bool) or value is None:
            return value
        if (listed := self._words.values.get(value)) is not None:
            return to.one_of(value, listed)
        if isinstance(value, str):
            return to.text(value)
        return to.real(value) if isinstance(value, float) else to.whole(value, -(2**63), 2**63 - 1)

    @functools.cached_property
    def _words(self) -> "_Words":
        words = _Words(set(), {})
        for schema in (self._schema, *self._others.values()):
            words.add(schema)
        return words

    def problems(self, value: object) -> list[str]:
        try:
            errors = list(islice(self._validator.iter_errors(value), MOST_PROBLEMS))
        except (ValueError, RecursionError, OverflowError) as error:
            raise SchemaError(f"the value cannot be validated: {error}") from error
        return [_sentence(error) for error in errors]

    @property
    def is_bounded(self) -> bool:
        return self._is_bounded

    @functools.cached_property
    def _is_bounded(self) -> bool:
        try:
            return _Steps(self._schema, self._others).of(self._schema, ()) <= MOST_STEPS
        except (LookupError, TypeError, ValueError, RecursionError):
            return False

    @functools.cached_property
    def _validator(self) -> Any:
        library = require("jsonschema_rs")
        try:
            return library.validator_for(
                _placed(self._schema),
                base_uri=BASE,
                retriever=self._retrieve,
                pattern_options=library.RegexOptions(),
                validate_formats=False,
                mask="the value",
            )
        except (ValueError, RecursionError, TypeError) as error:
            raise SchemaError(f"not a JSON Schema: {str(error).splitlines()[0][:MOST_CHARACTERS]}") from error

    def _retrieve(self, uri: str) -> Any:
        """Return the schema with a URI, among the references: by its own $id, or by its name where this schema's $id is."""
        base = urljoin(BASE, _id(self._schema) or "")
        for name, other in [("", self._schema), *self._others.items()]:
            if uri in (urljoin(BASE, name), urljoin(base, name), urljoin(base, _id(other) or name)):
                return _placed(other)
        raise LookupError("it is not among the references of the schema")


def _id(schema: Any) -> str | None:
    own = schema.get("$id") if isinstance(schema, dict) else None
    return own if isinstance(own, str) else None


def _placed(schema: Any) -> Any:
    """Return a schema without an $id that is no absolute URI: its place is where it was found."""
    if (own := _id(schema)) is None or urlsplit(own).scheme:
        return schema
    return {name: inner for name, inner in schema.items() if name != "$id"}


class _Words(NamedTuple):
    """The words of a schema that may be in its values."""

    names: set[str]  # of properties
    values: dict[Any, list[Any]]  # each text and number that a list of the schema allows -> the list

    def add(self, schema: Any) -> None:
        """Add those of a schema that was parsed, so its depth is bounded."""
        if isinstance(schema, list):
            for one in schema:
                self.add(one)
        if not isinstance(schema, dict):
            return
        if isinstance(properties := schema.get("properties"), dict):
            self.names.update(properties)
        allowed = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(allowed, list):
            plain = [one for one in allowed if isinstance(one, str | int | float) and not isinstance(one, bool)]
            self.values.update(dict.fromkeys(plain, plain))
        for one in schema.values():
            self.add(one)


class _Steps:
    """Counts the subschemas that a value may meet at most. Raises LookupError where that is not known."""

    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self._root = root
        self._others = others
        self._known: dict[str, int] = {}

    def of(self, schema: Any, inside: tuple[str, ...]) -> int:
        if isinstance(schema, list):
            return sum(self.of(one, inside) for one in schema)
        if not isinstance(schema, dict):
            return 0
        if OTHER_REFERENCES & schema.keys():
            raise LookupError("$dynamicRef")
        steps = 1 + sum(self.of(one, inside) for name, one in schema.items() if name not in ("$defs", "definitions"))
        if isinstance(reference := schema.get("$ref"), str):
            steps += self._of_reference(reference, inside)
        if steps > MOST_STEPS:
            raise LookupError("too many")
        return steps

    def _of_reference(self, reference: str, inside: tuple[str, ...]) -> int:
        if reference in inside:
            raise LookupError("a circle")
        if reference not in self._known:
            self._known[reference] = self.of(self._target(reference), (*inside, reference))
        return self._known[reference]

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return self._others[reference]
        target = self._root
        for word in reference[1:].split("/")[1:]:
            name = unquote(word).replace("~1", "/").replace("~0", "~")
            target = target[int(name)] if isinstance(target, list) else target[name]
        return target


def _sentence(error: Any) -> str:
    """Say what is broken in words of the schema alone: the problem may go to a log that must not have contents."""
    *_, rule = path = [str(one) for one in error.schema_path] or ["the schema"]
    message = "there is a property that it does not allow" if rule in NAMING else error.message
    return f"{'/'.join(path)}: {message}"[:MOST_CHARACTERS]


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
