"""The kinds of tap records are the same in C and in Python."""

import re
from importlib.resources import files

from kproxy.proxy.tap.tapped import TapKind


def test_kinds_are_those_of_the_ring() -> None:
    pxd = files("kproxy.proxy.tap").joinpath("ring.pxd").read_text()
    in_c = {name: int(value) for name, value in re.findall(r"^    TAP_(\w+) = (\d+)", pxd, re.M)}
    assert in_c.pop("SKIP") == 0
    assert in_c == {kind.name: kind.value for kind in TapKind}
