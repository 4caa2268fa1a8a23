"""``kproxy api``: the reference of the Kafka protocol on the terminal, made from the facts. Lines fit into 80 columns."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import click
import msgspec

from kproxy.cli.options import complete_apis, find_api, form_option, json_page
from kproxy.errors import UsageError, did_you_mean
from kproxy.output.text.styles import Style, is_terminal, style_for
from kproxy.pipeline.sink import Sink
from kproxy.protocol import request_header_version, response_header_version
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.error_codes import ErrorCode, ErrorDescription, error_codes
from kproxy.protocol.facts import Api, Field, Layout, facts, releases
from kproxy.protocol.values import value_set
from kproxy.protocol.versions import Versions

BRANCH, LAST, DOWN, SPACE = "├─ ", "└─ ", "│  ", "   "
NO_DEFAULTS = (0, "", False, (), b"", None, ZERO_UUID)
WIDEST = 120


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=complete_apis)
@click.argument("version", metavar="[VERSION]", required=False, type=click.IntRange(min=0))
@click.option("--diff", metavar="OLD NEW", nargs=2, type=int, help="Show what changed between two versions.")
@click.option("--errors", is_flag=True, help="List the error codes and what they ask of a client.")
@form_option()
def api(name: str | None, version: int | None, diff: tuple[int, int] | None, errors: bool, form: str) -> None:
    """Look up Kafka's protocol: APIs, versions, fields, error codes.

    Without NAME, list all APIs. With NAME, show its versions and what changed in each. With NAME VERSION, show every
    field. NAME is an API by name or key (Fetch, 1), any message (FetchRequest, OffsetCommitValue) or an error code.

    \b
    kproxy api
    kproxy api Fetch
    kproxy api fetch 13
    kproxy api Fetch --diff 11 12
    kproxy api OffsetCommitValue 4
    kproxy api --errors
    kproxy api --errors 16
    kproxy api NOT_COORDINATOR
    """
    if errors:
        if version is not None or diff is not None:
            raise UsageError("--errors takes one code or name: kproxy api --errors 16")
        found = _find_errors(name)
        pages: tuple[Any, Iterable[str]] = ([msgspec.to_builtins(e) for e in found], _error_lines(found, *_terminal()))
    elif name is not None and version is None and diff is None and name.upper() in ErrorCode.__members__:
        named = error_codes()[ErrorCode[name.upper()]]
        pages = (msgspec.to_builtins(named), _error_lines([named], *_terminal()))
    elif name is None:
        if version is not None or diff is not None:
            raise UsageError("a version needs the name of an API before it: kproxy api Fetch 13")
        pages = ([_api_json(found) for found in _apis()], _list_lines(_terminal()[0]))
    else:
        pages = _named(name, version, diff)
    data, lines = pages
    with Sink(None, live=False) as sink:
        if form == "json":
            sink.write(json_page(data))
        else:
            sink.write("".join(f"{line}\n" for line in lines).encode())


def _named(name: str, version: int | None, diff: tuple[int, int] | None) -> tuple[Any, Iterable[str]]:
    found, messages = _find(name)
    title = found.name if found is not None else messages[0]
    style, width = _terminal()
    if diff is not None:
        old, new = diff
        for wanted in diff:
            _check_version(title, messages, wanted)
        data: Any = {m: [msgspec.to_builtins(d) for d in differences(m, old, new)] for m in messages}
        return data, _diff_lines(messages, old, new, style, width)
    if version is not None:
        _check_version(title, messages, version)
        data = {m: _message_json(m, version) for m in messages if layout_at(m, version) is not None}
        return data, _version_lines(title, messages, version, style, width)
    return _overview_json(found, messages), _overview_lines(found, title, messages, style, width)


def _find(name: str) -> tuple[Api | None, list[str]]:
    """Find the API and its messages, or one message, by name or key. Raises UsageError with similar names."""
    every = facts()
    found = find_api(name)
    if found is not None:
        return found, [f"{found.name}Request", f"{found.name}Response"]
    messages = {message.lower(): message for message in every.messages()}
    if name.lower() in messages:
        return None, [messages[name.lower()]]
    errors = [known.name for known in error_codes().values()]
    known = [*(api.name for api in every.apis.values()), *every.messages(), *errors]
    hint = did_you_mean(name, known, "kproxy api and kproxy api --errors list them all")
    raise UsageError(f"there is no API, message or error {name[:80]!r}; {hint}")


def _check_version(title: str, messages: list[str], version: int) -> None:
    known = Versions.union(all_versions(message) for message in messages)
    if version not in known:
        raise UsageError(f"{title} has versions {known}, not {version}")


def _terminal() -> tuple[Style, int]:
    """Return colours and width of the terminal; 80 columns if there is none."""
    style = style_for(sys.stdout, os.environ)
    return style, min(shutil.get_terminal_size((80, 24)).columns, WIDEST) if is_terminal(sys.stdout) else 80


def _list_lines(style: Style) -> Iterator[str]:
    head = f"{'key':>3}  {'API':<28}  {'versions':<8}  {'flex.':<5}  {'newest':<6}  listeners"
    yield style.paint(style.dim, head)
    for found in _apis():
        flexible = facts().layouts(f"{found.name}Request")[0].flexible
        row = f"{found.versions!s:<8}  {flexible!s:<5}  {_release(found, found.versions.highest):<6}"
        listeners = " ".join(found.listeners)
        yield f"{found.key:>3}  {style.paint(style.key, f'{found.name:<28}')}  {row}  {listeners}"


def _apis() -> list[Api]:
    return [facts().apis[key] for key in sorted(facts().apis)]


def _release(found: Api | None, version: int) -> str:
    return releases().get((found.key, version), "") if found is not None else ""


def _api_json(found: Api) -> dict[str, Any]:
    return {
        "apiKey": found.key,
        "apiName": found.name,
        "versions": str(found.versions),
        "flexible": str(facts().layouts(f"{found.name}Request")[0].flexible),
        "unstable": str(found.unstable),
        "listeners": list(found.listeners),
        "releases": {str(v): _release(found, v) for v in found.versions if _release(found, v)},
    }


def _overview_lines(found: Api | None, title: str, messages: list[str], style: Style, width: int) -> Iterator[str]:
    versions = Versions.union(all_versions(message) for message in messages)
    layout = facts().layouts(messages[0])[0]
    key = f"  key {found.key}" if found is not None else ""
    yield f"{style.paint(style.name, title)}{key}  versions {versions}  flexible {layout.flexible}"
    if found is not None:
        yield f"listeners {' '.join(found.listeners)}" + (f"  unstable {found.unstable}" if found.unstable else "")
    else:
        yield f"{layout.type}, from {layout.module}" + (
            "" if layout.record_id is None else f", record type {layout.record_id}"
        )
    before: int | None = None
    for version in versions:
        release = _release(found, version)
        yield ""
        since = style.paint(style.dim, f"  since Kafka {release}") if release else ""
        yield style.paint(style.key, f"version {version}") + since
        yield from _changes(messages, before, version, style, width)
        before = version


def _changes(messages: list[str], before: int | None, version: int, style: Style, width: int) -> Iterator[str]:
    changed = False
    for message in messages:
        side = "" if len(messages) == 1 else ("request   " if message.endswith("Request") else "response  ")
        if before is None:
            layout = layout_at(message, version)
            names = [f.json_name for f in fields_at(layout.fields, version)] if layout is not None else []
            text = ", ".join(names) or "no fields"
            yield from textwrap.wrap(text, width, initial_indent=f"  {side}", subsequent_indent="  " + " " * len(side))
            changed = True
            continue
        for change in differences(message, before, version):
            yield from _difference(change, f"  {side}", style, width)
            changed = True
    if not changed:
        yield "  same fields"


def _difference(change: "Difference", margin: str, style: Style, width: int) -> Iterator[str]:
    text = f"{change.sign} {change.path}{': ' if change.path else ''}{change.what}"
    first, *rest = textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=" " * (len(margin) + 4))
    code = {"+": style.key, "-": style.error}.get(change.sign, style.warning)
    yield margin + style.paint(code, change.sign) + first[len(margin) + 1 :]
    yield from rest


def _overview_json(found: Api | None, messages: list[str]) -> dict[str, Any]:
    data: dict[str, Any] = {} if found is None else _api_json(found)
    for message in messages:
        versions = list(all_versions(message))
        data[message] = {"versions": str(all_versions(message)), "changes": {}}
        for old, new in pairwise(versions):
            data[message]["changes"][str(new)] = msgspec.to_builtins(differences(message, old, new))
    return data


def _version_lines(title: str, messages: list[str], version: int, style: Style, width: int) -> Iterator[str]:
    for index, message in enumerate(messages):
        layout = layout_at(message, version)
        if index:
            yield ""
        if layout is None:
            yield f"{message} has no version {version}"
            continue
        words = [f"version {version}", "flexible" if version in layout.flexible else "not flexible"]
        if layout.api_key is not None:
            words.append(f"{layout.type} header {_header_version(layout, layout.api_key, version)}")
        yield f"{style.paint(style.name, message)}  {', '.join(words)}"
        yield from FieldTree(layout, version, style, width).render()
        older = [x.release for x in facts().layouts(message) if version in x.versions and x is not layout]
        if older:
            yield style.paint(style.dim, f"In Kafka {', '.join(older)} this version had a different layout.")


def _header_version(layout: Layout, api_key: int, version: int) -> int:
    return (request_header_version if layout.type == "request" else response_header_version)(api_key, version)


def _message_json(message: str, version: int) -> dict[str, Any]:
    layout = layout_at(message, version)
    assert layout is not None
    data: dict[str, Any] = {"version": version, "flexible": version in layout.flexible}
    if layout.api_key is not None:
        data["headerVersion"] = _header_version(layout, layout.api_key, version)
    return data | {"fields": [_field_json(field, version) for field in fields_at(layout.fields, version)]}


def _field_json(field: Field, version: int) -> dict[str, Any]:
    data: dict[str, Any] = {"name": field.json_name, "type": field.type_text, "nullable": version in field.nullable}
    if field.tag is not None and version in field.tagged:
        data["tag"] = field.tag
    if not field.is_struct and not field.is_array:
        data["default"] = field.default.decode() if isinstance(field.default, bytes) else field.default
    if field.is_struct:
        data["fields"] = [_field_json(inner, version) for inner in fields_at(field.fields, version)]
    return data


def _diff_lines(messages: list[str], old: int, new: int, style: Style, width: int) -> Iterator[str]:
    for message in messages:
        yield f"{style.paint(style.name, message)}  {old} → {new}"
        changes = differences(message, old, new)
        for change in changes:
            yield from _difference(change, "  ", style, width)
        if not changes:
            yield "  same fields"


def _find_errors(wanted: str | None) -> list[ErrorDescription]:
    """Find all error codes, or those with this number or this text in their name. Raises UsageError if there are none."""
    if wanted is None:
        return list(error_codes().values())
    found = [e for e in error_codes().values() if str(e.code) == wanted]
    found = found or [e for e in error_codes().values() if wanted.lower() in e.name.lower()]
    if not found:
        names = [known.name for known in error_codes().values()]
        hint = did_you_mean(wanted, names, "kproxy api --errors lists them all")
        raise UsageError(f"there is no error code {wanted[:80]!r}; {hint}")
    return found


def _error_lines(errors: Iterable[ErrorDescription], style: Style, width: int) -> Iterator[str]:
    for known in errors:
        kind = "retriable" if known.retriable else ""
        yield f"{known.code:>3}  {style.paint(style.key, known.name)}  {style.paint(style.warning, kind)}".rstrip()
        for text in (known.meaning, f"Client: {known.then}."):
            yield from textwrap.wrap(text, width, initial_indent="     ", subsequent_indent="     ")


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
    whole = {sign: [d.path + "." for d in found if d.sign == sign] for sign in "+-"}  # structs: without their fields
    return [d for d in found if d.sign == "~" or not any(d.path.startswith(p) for p in whole[d.sign])]


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
