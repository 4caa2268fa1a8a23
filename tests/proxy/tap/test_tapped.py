"""The kinds of records in a tap ring."""

from kproxy.proxy.tap.ring import TapReader, TapWriter, create_ring
from kproxy.proxy.tap.tapped import TapKind


def test_every_kind_passes_the_ring_and_the_next_number_is_a_fault() -> None:
    fd = create_ring(1 << 16)
    writer, reader = TapWriter(fd), TapReader(fd)
    reader.attach()
    for kind in TapKind:
        assert writer.put(kind, 1, 0, 5, b"x")
    assert [item[0] for item in reader.read(10)] == list(TapKind)
    assert writer.put(max(TapKind) + 1, 1, 0, 5, b"x")
    assert reader.read(10) == []
    assert reader.faults == 1


def test_no_kind_is_0_which_marks_the_end_of_the_ring() -> None:
    assert 0 not in list(TapKind)
