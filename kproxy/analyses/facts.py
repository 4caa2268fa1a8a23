"""Tables of facts, which analyses join: what Kafka's releases speak, what error codes mean. The same in every engine.

api_versions(release, api_key, api_name, min_version, max_version)
    the stable versions of each API that brokers of a Kafka release (major.minor, "3.9") answer. An API that the release lacks
    has no row. From 3.5 on these are the versions that its last patch declares; before, from 0 to the newest at that time
releases(release, release_order)
    these releases in order, the oldest with 0: sorted as text, "0.10" would come before "0.9"
client_versions(library, first_version, last_version, first_order, last_order, negotiates, api_key, lowest, highest)
    the versions that a client library uses if the broker offers more, see kproxy.analyses.client_versions
error_codes(code, name, retriable, message)
    ``message`` is one sentence, in kproxy's words
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kproxy.analyses.client_versions import client_versions
from kproxy.protocol.error_codes import error_codes
from kproxy.protocol.facts import facts, releases

if TYPE_CHECKING:
    import pyarrow

OLDEST = "0.8.2"  # the oldest release that the facts distinguish


class FactsTable(NamedTuple):
    """Columns as (name, Arrow type), and the function that gives the rows in their order."""

    columns: tuple[tuple[str, str], ...]
    rows: Callable[[], list[tuple[object, ...]]]


def arrow_table(name: str) -> "pyarrow.Table":
    """A table of facts for an engine."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    table = FACTS_TABLES[name]
    schema = pa.schema([(column, pa.type_for_alias(kind)) for column, kind in table.columns])
    rows = [dict(zip(schema.names, row, strict=True)) for row in table.rows()]
    return pa.Table.from_pylist(rows, schema)


@functools.cache
def release_order(release: str) -> tuple[int, ...]:
    """A key that sorts releases by age."""
    return tuple(int(part) for part in release.split("."))


@functools.cache
def _release_names() -> tuple[str, ...]:
    """All releases that the facts know, the oldest first."""
    known = (*releases().values(), *facts().kafka_releases, *facts().spoken)
    return tuple(sorted(set(map(_minor, known)), key=release_order))


def _minor(release: str) -> str:
    """The release without its patch: "3.9.2" -> "3.9", "0.10.1.1" -> "0.10.1", "<=0.9.0" -> "0.9.0"."""
    parts = release.removeprefix("<=").split(".")
    return ".".join(parts[: 3 if parts[0] == "0" else 2])


@functools.cache
def _api_versions() -> list[tuple[object, ...]]:
    firsts: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for (key, version), first in releases().items():
        firsts.setdefault(key, []).append((release_order(_minor(first)), version))
    spoken = {_minor(release): versions for release, versions in facts().spoken.items()}
    rows: list[tuple[object, ...]] = []
    for release in _release_names():
        for key, found in sorted(firsts.items()):
            have = [version for first, version in found if first <= release_order(release)]
            if release in spoken:
                have = list(spoken[release].get(key, ()))
            if have:
                rows.append((release, key, facts().apis[key].name, min(have), max(have)))
    return rows


def _client_versions() -> list[tuple[object, ...]]:
    newest = {(str(release), int(str(key))): int(str(high)) for release, key, _, _, high in _api_versions()}
    return client_versions(newest, _release_names())


def _error_codes() -> list[tuple[object, ...]]:
    return [(known.code, known.name, known.retriable, known.meaning) for known in error_codes().values()]


def _releases() -> list[tuple[object, ...]]:
    return [(release, order) for order, release in enumerate(_release_names())]


FACTS_TABLES = {
    "api_versions": FactsTable(
        (
            ("release", "string"),
            ("api_key", "int16"),
            ("api_name", "string"),
            ("min_version", "int16"),
            ("max_version", "int16"),
        ),
        _api_versions,
    ),
    "releases": FactsTable((("release", "string"), ("release_order", "int32")), _releases),
    "client_versions": FactsTable(
        (
            ("library", "string"),
            ("first_version", "string"),
            ("last_version", "string"),
            ("first_order", "int64"),
            ("last_order", "int64"),
            ("negotiates", "bool"),
            ("api_key", "int16"),
            ("lowest", "int16"),
            ("highest", "int16"),
        ),
        _client_versions,
    ),
    "error_codes": FactsTable(
        (("code", "int16"), ("name", "string"), ("retriable", "bool"), ("message", "string")), _error_codes
    ),
}
