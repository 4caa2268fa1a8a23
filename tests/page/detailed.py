"""All details of a source, read once for the tests of a module."""

from functools import cache
from pathlib import Path
from typing import Any

from kproxy.page.exchange.detail import detail_of
from tests.page.asking import opened


@cache
def every_detail(path: Path) -> list[dict[str, Any]]:
    """The details of the exchanges of a capture, as JSON has them."""
    with opened(path) as store:
        found = [detail_of(store, number) for number in range(store.first, store.last + 1)]
    return [one for one in found if one is not None]
