"""The protocol reference as text: the fields of a message at a version as a tree, and the differences between two versions.

The fields come from the facts, special values from protocol/values.py. Lines fit into 80 columns.
"""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from kproxy.output.text.styles import Style
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.facts import Field, Layout, facts
from kproxy.protocol.values import value_set
from kproxy.protocol.versions import Versions

BRANCH, LAST, DOWN, SPACE = "├─ ", "└─ ", "│  ", "   "
NO_DEFAULTS = (0, "", False, (), b"", None, ZERO_UUID)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs between two versions."""

    sign: str  # + added, - removed, ~ changed
    path: str  # topics.partitions.leaderEpoch
    what: str  # its type, or what changed


def layout_at(message: str, version: int) -> Layout | None:
    """Return the newest layout of a message that has *version*; None if none has."""
    return next((layout for layout in facts().layouts(message) if version in layout.versions), None)


def all_versions(message: str) -> Versions:
    """Return the versions of a message in all releases together."""
    return Versions.union(layout.versions for layout in facts().layouts(message))


def fields_at(fields: tuple[Field, ...], version: int) -> tuple[Field, ...]:
    """Return the fields that exist at *version*."""
    return tuple(field for field in fields if version in field.versions)


@dataclass(frozen=True, slots=True)
class FieldTree:
    """Renders the fields of a message at a version as a tree, one or more lines a field, *width* columns wide."""

    layout: Layout
    version: int
    style: Style
    width: int

    def render(self) -> Iterator[str]:
        """Yield the lines."""
        yield from self._branches(fields_at(self.layout.fields, self.version), (), "")

    def _branches(self, fields: tuple[Field, ...], path: tuple[str, ...], indent: str) -> Iterator[str]:
        for index, field in enumerate(fields):
            last = index == len(fields) - 1
            children = fields_at(field.fields, self.version)
            below = indent + (SPACE if last else DOWN)
            here = (*path, field.json_name)
            notes = ", ".join(field_notes(self.layout, field, self.version))
            name = self.style.paint(self.style.key, field.json_name)
            yield f"{indent}{LAST if last else BRANCH}{name}: {field.type_text}" + (
                f"  {self.style.paint(self.style.dim, notes)}" if notes else ""
            )
            margin = below + (DOWN if children else SPACE)
            for line in _special_values(self.layout.name, here, field, max(self.width - len(margin), 30)):
                yield margin + self.style.paint(self.style.dim, line)
            yield from self._branches(children, here, below)


def field_notes(layout: Layout, field: Field, version: int) -> list[str]:
    """Describe a field at a version, apart from its type: nullable, tag, and a default other than 0, "", false or empty."""
    notes = []
    if version in field.nullable:
        notes.append("nullable")
    if field.tag is not None and version in field.tagged:
        notes.append(f"tag {field.tag}")
    if (field.default is None and field.type != "records") or field.default not in NO_DEFAULTS:
        notes.append(f"default {'null' if field.default is None else field.default}")
    if field.never_flexible and version in layout.flexible:
        notes.append("never compact")
    if field.is_key:
        notes.append("key")
    return notes


def _special_values(message: str, path: tuple[str, ...], field: Field, width: int) -> list[str]:
    """Return the special values of a field, wrapped; nothing for error codes and plain times."""
    values = value_set(message, path[-2:])
    if values is None or values.kind in ("error", "api"):
        return []
    texts = [f"{value} {text}" for value, text in values.texts.items() if value != "null" or field.nullable]
    if field.type == "string" or field.is_struct:
        texts = [text for text in texts if text[0] in '"n']
    if values.kind == "flags":
        texts.append(f"else bits: see {values.of}")
    if values.kind == "time" and len(texts) > 1:
        texts.append("else ms since 1970")
    return textwrap.wrap("; ".join(texts), width) if texts else []


def differences(message: str, old: int, new: int) -> list[Difference]:
    """List how version *new* of a message differs from *old*, in the order of the fields."""
    before, after = _flat(message, old), _flat(message, new)
    found: list[Difference] = []
    for path, (kind, notes) in after.items():
        if path not in before:
            found.append(Difference("+", path, ", ".join([kind, *notes])))
        elif before[path] != (kind, notes):
            found.append(Difference("~", path, _change(before[path], (kind, notes))))
    found += [Difference("-", path, kind) for path, (kind, _) in before.items() if path not in after]
    was, now = _is_flexible(message, old), _is_flexible(message, new)
    if was != now:
        found.insert(
            0, Difference("~", "", "flexible: compact encodings, tagged fields" if now else "no longer flexible")
        )
    return _without_children(found)


def _without_children(differences: list[Difference]) -> list[Difference]:
    """Leave out the fields of a struct that was itself added or removed."""
    whole = {sign: [d.path + "." for d in differences if d.sign == sign] for sign in "+-"}
    return [d for d in differences if d.sign == "~" or not any(d.path.startswith(p) for p in whole[d.sign])]


def _flat(message: str, version: int) -> dict[str, tuple[str, list[str]]]:
    layout = layout_at(message, version)
    if layout is None:
        return {}
    found: dict[str, tuple[str, list[str]]] = {}

    def add(fields: tuple[Field, ...], prefix: str) -> None:
        for field in fields_at(fields, version):
            path = prefix + field.json_name
            found[path] = (field.type_text, field_notes(layout, field, version))
            add(field.fields, f"{path}.")

    add(layout.fields, "")
    return found


def _change(before: tuple[str, list[str]], after: tuple[str, list[str]]) -> str:
    words = [] if before[0] == after[0] else [f"{before[0]} → {after[0]}"]
    words += [f"now {note}" for note in after[1] if note not in before[1]]
    words += [f"no longer {note}" for note in before[1] if note not in after[1]]
    return ", ".join(words)


def _is_flexible(message: str, version: int) -> bool:
    layout = layout_at(message, version)
    return layout is not None and version in layout.flexible
