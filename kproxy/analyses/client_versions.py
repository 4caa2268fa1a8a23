"""Which versions client libraries ask for: client_versions.txt as rows, and Java's clients by the releases they come with.

A client that says no name (KIP-511; software before about 2019, some to this day) is recognised by them: they are its
fingerprint. For one that says it, they tell what it can do beyond what it did here.

    (library, first_version, last_version, first_order, last_order, negotiates, api_key, lowest, highest)

``first_order`` and ``last_order`` are the versions as numbers that compare (version_order); ``lowest`` and ``highest`` the
versions of the API that it asks for where the broker offers more.
"""

import functools
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

JAVA = "apache-kafka-java"


class Library(NamedTuple):
    """The versions of a library that ask for the same."""

    name: str
    first: str
    last: str  # without a third number it stands for all of them; "": none is the last
    negotiates: bool
    ranges: dict[int, tuple[int, int]]  # api_key -> lowest, highest


def version_order(version: str) -> int:
    """``2.10.1`` -> 2_010_001: what sorts versions by age. The parts that it lacks are 0."""
    major, minor, patch = (*map(int, version.split(".")[:3]), 0, 0)[:3]
    return (major * 1000 + minor) * 1000 + patch


def last_order(version: str) -> int:
    """The order of the last version that begins so: that of ``2.10`` is 2_010_999, of ``""`` the greatest."""
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
    """One for each release that the lines cover: what its brokers answer, lower where the lines say so."""
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
    """What the file has, in its order."""
    data = pkgutil.get_data("kproxy.analyses", "client_versions.txt")
    assert data is not None, "client_versions.txt is not installed"
    found: list[Library] = []
    for line in data.decode("utf-8").splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if words[0] == "library":
            first, _, last = words[2].partition("-")
            found.append(Library(words[1], first, last, words[3] == "negotiates", {}))
        else:
            found[-1].ranges.update(map(_range, words))
    return tuple(found)


def _range(word: str) -> tuple[int, tuple[int, int]]:
    key, _, versions = word.partition(":")
    low, _, high = versions.partition("-")
    return int(key), (int(low), int(high or low))
