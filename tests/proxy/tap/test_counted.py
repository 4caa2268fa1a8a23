"""The names in Python stand for the places that the workers' C code counts in."""

import re
from enum import IntEnum
from importlib.resources import files

import pytest

from kproxy.proxy.tap.counted import GAUGES, CloseCause, Total

PXD = files("kproxy.proxy.tap").joinpath("counters.pxd").read_text()


def members(enum: str) -> list[str]:
    block = re.search(rf"^cdef enum {enum}:\n((?:    .+\n)+)", PXD, re.M)
    assert block is not None
    return re.findall(r"^    (\w+)", block[1], re.M)


@pytest.mark.parametrize(("enum", "names", "prefix"), [("TotalPlace", Total, ""), ("CausePlace", CloseCause, "CAUSE_")])
def test_places_are_the_same_in_c_and_in_python(enum: str, names: type[IntEnum], prefix: str) -> None:
    assert [prefix + name.name for name in names] == members(enum)
    assert [name.value for name in names] == list(range(len(names)))
    assert len(names) <= 64  # MOST_TOTALS, MOST_CAUSES


def test_gauges_are_what_can_go_down() -> None:
    assert {"CONNECTIONS_OPEN", "IN_FLIGHT", "BUFFERED_BYTES"} <= {gauge.name for gauge in GAUGES}
