"""What is opened as what."""

from pathlib import Path

import pytest

from kproxy.errors import UsageError
from kproxy.page.opening import open_sources
from tests.page.test_recorded import ORDERS


def test_a_capture_is_read_in_the_background() -> None:
    with open_sources([ORDERS]) as store:
        assert store.name == ORDERS.name


def test_what_is_no_source_is_said_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        open_sources([tmp_path / "nothing.pcap"])
