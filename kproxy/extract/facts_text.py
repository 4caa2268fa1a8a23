"""Write the facts: the text of facts.txt, and the members of ApiKey and ErrorCode in their modules."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kproxy.extract.definitions import Field, Message, merge
from kproxy.extract.jars import ErrorCode
from kproxy.protocol.facts import Facts, snake_case
from kproxy.protocol.versions import Versions

HEADER = """\
# kproxy facts. Made by `python -m kproxy.extract`; do not edit.
# releases: those read, newest first. error: code, name, "retriable" or "-".
# api: key, name, listeners, request versions, the one that the newest release calls unstable.
# speaks: a release, then of each API that it has the versions that its brokers offer, without unstable ones.
# message: a block for each layout, newest first; then its fields: name, type, versions, attributes; children indented.
# Ranges: 3, 0-12, 9+, none, and lists of these. A default is shown where it is not 0, false or empty; null is null.
"""


def render(
    definitions: Iterable[Message],
    errors: Iterable[ErrorCode],
    releases: Sequence[str],
    spoken: Mapping[str, Sequence[Message]] = MappingProxyType({}),
) -> str:
    """Return the text of facts.txt; *releases* newest first, *definitions* in any order, *spoken*: release -> its requests."""
    messages = sorted(_in_history(definitions, releases), key=lambda versions: _sort_key(versions[0]))
    lines = [
        "releases " + " ".join(releases),
        *(f"error {error.code} {error.name} {'retriable' if error.retriable else '-'}" for error in errors),
        *(_api_line(versions) for versions in messages if versions[0].type == "request"),
        *(" ".join([f"speaks {release}", *_offered(requests)]) for release, requests in spoken.items()),
        *(line for versions in messages for line in _message_lines(versions)),
    ]
    return HEADER + "\n".join(lines) + "\n"


def _in_history(definitions: Iterable[Message], releases: Sequence[str]) -> list[list[Message]]:
    """Return the definitions of each message, newest first, without those that have no versions.

    Requests and responses are grouped by api key, as some were renamed: ListOffset, AlterIsr, ListClientMetricsResources.
    """
    by_identity: dict[object, list[Message]] = {}
    for message in sorted(definitions, key=lambda message: releases.index(message.release)):
        if message.versions:
            identity = (message.type, message.number) if message.is_api else message.name
            by_identity.setdefault(identity, []).append(message)
    return list(by_identity.values())


def _sort_key(message: Message) -> tuple[object, ...]:
    """Return the sort key of a message in the file: APIs by key, request first; then others by module and name."""
    if message.is_api:
        return 0, message.number, message.type
    return 1, message.module, message.name


def _api_line(history: list[Message]) -> str:
    newest = history[0]
    versions = Versions.union(message.versions for message in history)
    unstable = f" unstable={newest.versions.highest}" if newest.latest_unstable else ""
    name = newest.name.removesuffix("Request")
    return f"api {newest.number} {name} listeners={','.join(newest.listeners)} versions={versions}{unstable}"


def _offered(requests: Sequence[Message]) -> Iterator[str]:
    """Yield the versions of each API, without the newest one if that is unstable."""
    for request in requests:
        newest = request.versions.highest
        stable = Versions(((0, newest - 1),) if newest > 0 else ())
        versions = request.versions.intersect(stable) if request.latest_unstable else request.versions
        if versions.ranges:
            yield f"{request.number}={versions}"


def _message_lines(history: list[Message]) -> Iterator[str]:
    for block in merge(history):
        message = block.message
        number = "" if message.number is None else f" {'api' if message.is_api else 'id'}={message.number}"
        yield (
            f"message {history[0].name} type={message.type}{number} module={message.module} release={message.release}"
            f" versions={block.versions} flexible={message.flexible}"
        )
        yield from _field_lines(message.fields, "  ")


def _field_lines(fields: Iterable[Field], indent: str) -> Iterator[str]:
    for field in fields:
        yield indent + " ".join([field.name, field.type, str(field.versions), *_attributes(field)])
        yield from _field_lines(field.fields, indent + "  ")


def _attributes(field: Field) -> Iterator[str]:
    if field.nullable:
        yield f"nullable={field.nullable}"
    if field.tag is not None:
        yield f"tag={field.tag}"
        yield f"tagged={field.tagged}"
    if field.default is not None:
        yield f"default={field.default}"
    if field.ignorable:
        yield "ignorable"
    if field.never_flexible:
        yield "flexible=none"
    if field.is_key:
        yield "key"
    if field.entity is not None:
        yield f"entity={field.entity}"


PROTOCOL = Path(__file__).parent.parent / "protocol"
API_KEYS = PROTOCOL / "api_keys.py"
ERROR_CODES = PROTOCOL / "error_codes.py"


def with_members(source: str, members: list[tuple[str, int]]) -> str:
    """Return the text of a module in which *members* replace the members of its IntEnum; the rest is unchanged."""
    lines = "".join(f"    {name} = {number}\n" for name, number in members)
    return re.sub(r"(?:^    [A-Z][A-Z0-9_]* = -?\d+\n)+", lines, source, count=1, flags=re.MULTILINE)


def written_enums(facts: Facts) -> dict[Path, str]:
    """Return the text of both modules for *facts*, by path: their members ascend by number."""
    apis = [(snake_case(api.name).upper(), key) for key, api in sorted(facts.apis.items())]
    errors = sorted(((error.name, error.code) for error in facts.errors), key=lambda member: member[1])
    return {
        path: with_members(path.read_text(encoding="utf-8"), members)
        for path, members in ((API_KEYS, apis), (ERROR_CODES, errors))
    }
