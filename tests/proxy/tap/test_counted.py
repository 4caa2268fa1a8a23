"""Totals and close causes have numbers from 0 on and room in the counters' memory, and C has no list of them of its own."""

import re
from enum import IntEnum
from importlib.resources import files
from pathlib import Path

import pytest

from kproxy.proxy.tap.counted import GAUGES, CloseCause, Total
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.tapped import TapKind

PACKAGE = Path(str(files("kproxy.proxy")))
SOURCES = [path for pattern in ("*.pyx", "*.pxd") for path in PACKAGE.rglob(pattern)]


@pytest.mark.parametrize("names", [Total, CloseCause])
def test_places_are_numbered_from_0_and_fit(names: type[IntEnum]) -> None:
    assert [name.value for name in names] == list(range(len(names)))
    assert len(names) <= 64  # MOST_TOTALS, MOST_CAUSES


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_extension_modules_take_the_numbers_from_the_python_enums(source: Path) -> None:
    text = source.read_text("utf-8")
    for enum, prefix in ((Total, ""), (CloseCause, ""), (TapKind, "TAP_")):
        for name in enum:
            defined = re.findall(rf"^(?:cdef int +| +){prefix}{name.name} = (.+)$", text, re.M)
            assert [value for value in defined if value != f"{enum.__name__}.{name.name}"] == []


def test_every_total_and_every_cause_has_a_place_of_its_own() -> None:
    counters = Counters.create()
    for total in Total:
        counters.add(total, 1 + total)
    for cause in CloseCause:
        counters.count_close(cause)
    assert counters.totals() == {total: 1 + total for total in Total}
    assert counters.closes() == dict.fromkeys(CloseCause, 1)


def test_gauges_are_what_can_go_down() -> None:
    assert {"CONNECTIONS_OPEN", "IN_FLIGHT", "BUFFERED_BYTES"} <= {gauge.name for gauge in GAUGES}
