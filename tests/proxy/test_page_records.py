"""Records of the live page: pieces come out of a stream however it is cut; what is none is refused."""

import pytest

from kproxy.proxy.page_records import MOST_PIECE, SIZE, Begun, Unusual, Pieces, Record, Shown, Side, Tally, Topics, encode

UNUSUAL = Unusual(False, None, None, "why", 1, False, 9, 0, "withheld")
RECORDS: list[Record] = [
    Topics("orders", {"id": "name"}),
    Begun(1, 5, "127.0.0.1:1", "127.0.0.1:2", "orders"),
    Shown(1, 6, 0, 9, 3, "client", Side(b"abc", 1, 2, 3, 4, 9), None, True, False, None, None),
    Shown(1, 7, None, None, None, None, None, Side(b"", 1, 2, 0, 0, 0, UNUSUAL), False, True, "none came", "no"),
    Tally(2, 1, 0, 0.5),
]


def stream() -> bytes:
    pieces = encode(RECORDS[:2]), encode(RECORDS[2:])
    return b"".join(len(piece).to_bytes(SIZE, "big") + piece for piece in pieces)


@pytest.mark.parametrize("step", [1, 3, 7, 10_000])
def test_pieces_come_out_however_the_stream_is_cut(step: int) -> None:
    pieces, data = Pieces(), stream()
    found = [piece for at in range(0, len(data), step) for piece in pieces.feed(data[at : at + step])]
    assert found == [RECORDS[:2], RECORDS[2:]]


@pytest.mark.parametrize("data", [b"\xff" * 8, (MOST_PIECE + 1).to_bytes(4, "big"), b"\0\0\0\2\x91\xc0"])
def test_what_is_no_piece_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(Pieces().feed(data))
