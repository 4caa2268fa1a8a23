"""One file to rows: those of `kproxy decode`; shares of its connections that together are all."""

from collections import Counter
from pathlib import Path

import pytest

from kproxy.output.tables import TABLES
from kproxy.spark.whole import Options, Share, read_rows
from tests.support.split_captures import ALL_ROWS, decoded, differences
from tests.support.traffic import CAPTURES

CAPTURE = CAPTURES / "10-kraft-interbroker.pcap"


def rows_of(path: Path, share: Share, damages: list[str], options: Options = ALL_ROWS) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in TABLES}
    for table, rows in read_rows(str(path), path.name, options, share, damages.append):
        found[table.name] += map(repr, rows.to_pylist())
    return found


@pytest.mark.parametrize("shares", [1, 2, 7])
def test_shares_are_the_whole(tmp_path: Path, shares: int) -> None:
    parts = [rows_of(CAPTURE, Share(number, shares), []) for number in range(shares)]
    together = {name: sorted(row for part in parts for row in part[name]) for name in TABLES}
    assert differences(decoded(CAPTURE, tmp_path, "--records"), together) == {}
    sizes = Counter(bool(part["exchanges"]) for part in parts)
    assert sizes[True] == shares


def test_a_damaged_file_gives_what_comes_before_and_a_sentence(tmp_path: Path) -> None:
    (cut := tmp_path / "cut.pcap").write_bytes(CAPTURE.read_bytes()[:100_000])
    damages: list[str] = []
    found = rows_of(cut, Share(), damages)
    assert 0 < len(found["exchanges"]) < 116
    assert [damage.partition("byte ")[0] for damage in damages] == [f"{cut}: "]
    assert "the file ends within a packet or block" in damages[0]


def test_a_file_that_is_no_capture_gives_a_sentence(tmp_path: Path) -> None:
    (odd := tmp_path / "odd.pcap").write_bytes(b"nothing of the kind")
    damages: list[str] = []
    assert not any(rows_of(odd, Share(), damages).values())
    assert damages == [f"{odd}: byte 0: neither pcap nor pcapng (it begins with 6e 6f 74 68)"]


def test_conditions_and_bodies_are_those_of_decode() -> None:
    found = rows_of(CAPTURE, Share(), [], Options(bodies=True, where='apiName == "Envelope"'))
    assert len(found["exchanges"]) == 1
    assert "requestData" in found["exchanges"][0]
    assert len(found["connections"]) == 19
