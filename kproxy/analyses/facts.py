"""Tables of facts, which analyses join: what Kafka's releases speak, what error codes mean. The same in every engine.

api_versions(release, api_key, api_name, min_version, max_version)
    the stable versions of each API that brokers of a Kafka release (major.minor, "3.9") answer. An API that the release lacks
    has no row. From 3.5 on these are the versions that its last patch declares; before, from 0 to the newest at that time
releases(release, release_order)
    these releases in order, the oldest with 0: sorted as text, "0.10" would come before "0.9"
client_versions(library, first_version, last_version, first_order, last_order, negotiates, api_key, lowest, highest)
    the versions of an API that a client library uses if the broker offers more (lowest, highest), from client_versions.txt,
    and for Java's clients from Kafka's releases. Clients that do not name their software (KIP-511; those from before about
    2019, and some newer ones) are recognised by these versions. For clients that do, they say what the library can use, also
    if the captured broker did not offer it. first_order and last_order are versions as comparable numbers (version_order)
error_codes(code, name, retriable, message, advice)
    ``message`` is one sentence, ``advice`` one clause, in kproxy's words
"""

import functools
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kproxy.protocol.error_codes import error_codes
from kproxy.protocol.facts import facts, releases

if TYPE_CHECKING:
    import pyarrow

JAVA = "apache-kafka-java"


class FactsTable(NamedTuple):
    """Columns as names and Arrow types, the function that gives the rows in their order, and what a row and its columns are."""

    columns: str
    rows: Callable[[], list[tuple[object, ...]]]
    row: str = ""  # empty: only analyses use it
    meanings: Mapping[str, str] = {}


def arrow_table(name: str) -> "pyarrow.Table":
    import pyarrow as pa  # noqa: PLC0415 - heavy, and an extra

    table = FACTS_TABLES[name]
    columns = (column.split() for column in table.columns.split(", "))
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns])
    return pa.table(list(zip(*table.rows(), strict=True)), schema=schema)


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


FACTS_TABLES = {
    "api_versions": FactsTable(
        "release string, api_key int16, api_name string, min_version int16, max_version int16",
        _api_versions,
        "an API that brokers of a release of Kafka answer, with its lowest and its highest version",
        {
            "release": "major.minor, as 3.9; in their order: see releases",
            "api_key": "as exchanges.api_key",
            "api_name": "as exchanges.api_name",
            "min_version": "the lowest stable version that its brokers answer",
            "max_version": "the highest stable version that its brokers answer",
        },
    ),
    "releases": FactsTable(
        "release string, release_order int32",
        lambda: [(release, order) for order, release in enumerate(_release_names())],
        "a release of Kafka, in their order",
        {"release": "major.minor, as 3.9", "release_order": "0 for the oldest; as text, 0.10 would come before 0.9"},
    ),
    "client_versions": FactsTable(
        "library string, first_version string, last_version string, first_order int64, last_order int64, negotiates bool,"
        " api_key int16, lowest int16, highest int16",
        _client_versions,
    ),
    "error_codes": FactsTable(
        "code int16, name string, retriable bool, message string, advice string",
        lambda: [(one.code, one.name, one.retriable, one.meaning, one.then) for one in error_codes().values()],
        "an error code of Kafka, and whether clients try again after it",
        {
            "code": "as errors.error_code",
            "name": "as errors.error_name",
            "retriable": "whether clients try again by themselves",
            "message": "what it means, in one sentence",
            "advice": "what a client does next, in one clause",
        },
    ),
}


class Library(NamedTuple):
    """A range of versions of a library that use the same API versions."""

    name: str
    first: str
    last: str  # "2.10" includes all 2.10.x; "": no last version
    negotiates: bool
    ranges: dict[int, tuple[int, int]]  # api_key -> lowest, highest


def version_order(version: str) -> int:
    """``2.10.1`` -> 2_010_001, which sorts versions by age. Missing parts are 0."""
    major, minor, patch = (*map(int, version.split(".")[:3]), 0, 0)[:3]
    return (major * 1000 + minor) * 1000 + patch


def last_order(version: str) -> int:
    """The order of the last version with this prefix: for ``2.10`` 2_010_999, for ``""`` the greatest."""
    parts = version.split(".") if version else []
    return version_order(".".join([*parts, "999", "999", "999"][:3]))


def client_versions(newest: Mapping[tuple[str, int], int], releases: Iterable[str]) -> list[tuple[object, ...]]:
    """Return the rows; *newest* has the highest version of each (release, api_key), *releases* are Kafka's."""
    found: list[Library] = []
    of_releases: dict[str, dict[int, int]] = {release: {} for release in releases}
    for (release, api_key), high in newest.items():
        of_releases[release][api_key] = high
    for library in libraries():
        found += _java(library, of_releases) if library.name == JAVA else [library]
    return [row for library in found for row in _rows(library)]


def _rows(library: Library) -> Iterator[tuple[object, ...]]:
    name, first, last, negotiates, ranges = library
    order = (version_order(first), last_order(last))
    for api_key, (low, high) in sorted(ranges.items()):
        yield (name, first, last or None, *order, negotiates, api_key, low, high)


def _java(lines: Library, newest: Mapping[str, Mapping[int, int]]) -> Iterator[Library]:
    """One for each Kafka release in the range of *lines*: the versions of its brokers, or lower ones if *lines* say so."""
    for release, highest in newest.items():
        if not version_order(lines.first) <= version_order(release) <= last_order(lines.last):
            continue
        ranges = {}
        for key, high in highest.items():
            low, most = lines.ranges.get(key, (high, high))
            ranges[key] = min(low, high), min(most, high)
        yield Library(JAVA, release, release, lines.negotiates, ranges)


@functools.cache
def libraries() -> tuple[Library, ...]:
    """The libraries in client_versions.txt, in order."""
    data = pkgutil.get_data("kproxy.analyses", "client_versions.txt")
    assert data is not None, "client_versions.txt is not installed"
    made: list[Library] = []
    for line in data.decode("utf-8").splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] == "library":
            first, _, last = words[2].partition("-")
            made.append(Library(words[1], first, last, words[3] == "negotiates", {}))
        else:
            made[-1].ranges.update(map(_range, words))
    return tuple(made)


def _range(word: str) -> tuple[int, tuple[int, int]]:
    key, _, versions = word.partition(":")
    low, _, high = versions.partition("-")
    return int(key), (int(low), int(high or low))
