"""Limits: what a claim is worth."""

from kproxy.protocol.records.limits import DEFAULT_LIMITS, MIB, Limits


def test_the_cap_of_the_issue_is_the_default() -> None:
    assert DEFAULT_LIMITS.decompressed == 67_108_864  # 64 MiB


def test_few_bytes_may_become_a_mebibyte_and_many_a_thousand_times_as_many() -> None:
    assert DEFAULT_LIMITS.allowed(1) == MIB
    assert DEFAULT_LIMITS.allowed(2_000) == 2_000_000
    assert DEFAULT_LIMITS.allowed(10 * MIB) == 64 * MIB


def test_the_reason_names_the_limit_that_was_met() -> None:
    assert Limits(decompressed=100).exceeded(7) == "decompresses to more than 100 bytes"
    assert DEFAULT_LIMITS.exceeded(2_000) == "decompresses to more than 2,000,000 bytes, over 1,000 times its 2,000"


def test_batches_share_what_a_field_may_take() -> None:
    limits = Limits(decompressed=10, total=25)
    assert [limits.after(spent).decompressed for spent in (0, 15, 16, 25, 99)] == [10, 10, 9, 0, 0]
