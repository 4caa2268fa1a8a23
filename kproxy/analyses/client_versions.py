"""Which API versions client libraries use: the lines of client_versions.txt, and Java's clients by Kafka release.

Clients that do not name their software (KIP-511; those from before about 2019, and some newer ones) are recognised by these
versions. For clients that do, the versions say what the library can use, also if the captured broker did not offer it.

    (library, first_version, last_version, first_order, last_order, negotiates, api_key, lowest, highest)

``first_order`` and ``last_order`` are the versions as comparable numbers (version_order); ``lowest`` and ``highest`` the
versions of the API that it uses if the broker offers more.
"""

import functools
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

JAVA = "apache-kafka-java"


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
    for library in libraries():
        found += _java(library, newest, releases) if library.name == JAVA else [library]
    return [row for library in found for row in _rows(library)]


def _rows(library: Library) -> Iterator[tuple[object, ...]]:
    name, first, last, negotiates, ranges = library
    order = (version_order(first), last_order(last))
    for api_key, (low, high) in sorted(ranges.items()):
        yield (name, first, last or None, *order, negotiates, api_key, low, high)


def _java(lines: Library, newest: Mapping[tuple[str, int], int], releases: Iterable[str]) -> Iterator[Library]:
    """One for each Kafka release in the range of *lines*: the versions of its brokers, or lower ones if *lines* say so."""
    for release in releases:
        if not version_order(lines.first) <= version_order(release) <= last_order(lines.last):
            continue
        ranges = {}
        for (of, key), high in newest.items():
            if of == release:
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
