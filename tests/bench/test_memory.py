"""A large capture needs no more memory than a small one; `python -m tests.bench.memory` tries it with 10 GiB."""

from tests.bench.memory import peak_of


def test_twenty_times_the_capture_takes_the_same_memory() -> None:
    few, small = peak_of(8 << 20)
    many, large = peak_of(160 << 20)
    assert many > 15 * few
    assert large < small + (12 << 20)
