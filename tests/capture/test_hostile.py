"""Hostile capture files through all of kproxy (27): a real capture comes first, and is always decoded.

caplen 0xffffffff, caplen > len, snaplen 0 and 2^31, pcapng block length < 12, unaligned, trailing mismatch, no interfaces, loops
of options, truncated last packet, swapped and nanosecond magic, gzip and zstd bombs. Hostile TCP (28) is in test_reassembly.py,
link layers (29) are in test_links.py and test_unwrap.py; what comes of both in the end is in test_as_they_come.py.
"""

import gzip
import json
import struct
from pathlib import Path

import pytest
import zstandard

from kproxy.cli import main
from kproxy.session import Exchange
from tests.support.built_captures import block, enhanced, interface, option, pcap, section
from tests.support.sampled import sampled
from tests.support.variants import decode, load

GOOD = load("03")[:120]
LINK = GOOD[0].link_type
FILE, SWAPPED, NANO = (
    pcap(GOOD, link_type=LINK),
    pcap(GOOD, link_type=LINK, order=">"),
    pcap(GOOD, link_type=LINK, magic=0xA1B23C4D),
)
NG = section() + interface(LINK) + b"".join(enhanced(packet.data, packet.time_ns // 1000) for packet in GOOD)
EXCHANGES = sum(isinstance(event, Exchange) for event in decode(GOOD))
COMMENTS = b"".join(option(1, b"") for _ in range(5000))
OK, DAMAGED = 0, 3


def with_snaplen(snaplen: int) -> bytes:
    return FILE[:16] + struct.pack("<I", snaplen) + FILE[20:]


FILES: dict[str, tuple[bytes, int, str]] = {
    "caplen 0xffffffff": (FILE + struct.pack("<IIII", 1, 0, 0xFFFFFFFF, 60) + bytes(60), DAMAGED, "a packet of 4294967295 bytes"),
    "caplen over len": (FILE + struct.pack("<IIII", 1, 0, 60, 0) + bytes(60), OK, ""),
    "snaplen 0": (with_snaplen(0), OK, ""),
    "snaplen 2^31": (with_snaplen(2**31), OK, ""),
    "truncated last packet": (FILE + struct.pack("<IIII", 1, 0, 60, 60) + bytes(59), DAMAGED, "ends within a packet"),
    "truncated last header": (FILE + bytes(15), DAMAGED, "ends within a packet"),
    "swapped magic": (SWAPPED, OK, ""),
    "nanosecond magic": (NANO, OK, ""),
    "block length 8": (NG + struct.pack("<II", 6, 8) + bytes(24), DAMAGED, "a block of 8 bytes"),
    "block length unaligned": (NG + struct.pack("<II", 6, 33) + bytes(40), DAMAGED, "a block of 33 bytes"),
    "block length 4 GiB": (NG + struct.pack("<II", 6, 0xFFFFFFFC) + bytes(40), DAMAGED, "4294967292 bytes"),
    "trailing mismatch": (NG + block(6, bytes(40))[:-4] + bytes(4), DAMAGED, "ends with length 0"),
    "no interfaces": (NG + section() + enhanced(b"x"), DAMAGED, "a packet of interface 0"),
    "a loop of options": (NG + enhanced(b"x", options=COMMENTS + b"\1\0\xff\xff"), OK, ""),
    "truncated block": (NG[:-1], DAMAGED, "ends within a packet or block"),
    "gzip cut": (gzip.compress(FILE + bytes(16))[:-30], DAMAGED, "gzip"),
    "gzip bomb": (gzip.compress(FILE + bytes(64 << 20), 1), OK, ""),
    "zstd bomb": (zstandard.compress(FILE + bytes(64 << 20)), OK, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", sampled(FILES, [*FILES][:-1]))
def test_27_files(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is before the damage is decoded; then a sentence with its place, and exit status 3."""
    data, expected, said = FILES[what]
    path = tmp_path / "hostile"
    path.write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        main(["decode", "--format", "jsonl", "-o", str(tmp_path / "out"), str(path)])
    found = [json.loads(line) for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines()]
    exchanges = sum(line["event"] == "exchange" for line in found)
    assert (ended.value.code or 0) == expected
    assert exchanges >= EXCHANGES - (2 if what in ("truncated block", "gzip cut") else 0)
    error = capsys.readouterr().err
    assert (f"kproxy: {path}: " in error) == (expected == DAMAGED)
    assert said in error
