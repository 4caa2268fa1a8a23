"""LeftOut: what is missing is counted exactly, by time; and said in a sentence."""

import random

import pytest

from kproxy.page.left_out import MOST_SLOTS, SECOND, Analyzed, LeftOut, Missing, Narrowed

NOON = 1_795_262_400 * SECOND  # 2026-11-21 12:00:00 UTC


def test_nothing_is_missing_where_nothing_was_left_out() -> None:
    history = LeftOut()
    history.add(NOON, 100, 0)
    assert history.is_empty and history.between(0, 2 * NOON) is None
    assert history.by_bucket(NOON, SECOND, 3) == [0, 0, 0]


def test_what_is_missing_lies_between_the_first_and_the_last_that_was_left_out() -> None:
    history = LeftOut()
    for second, (exchanges, left) in enumerate([(10, 0), (40, 30), (10, 0), (40, 20), (10, 0)]):
        history.add(NOON + second * SECOND + 5, exchanges, left)
    assert history.between(0, 2 * NOON) == Missing(NOON + SECOND, NOON + 4 * SECOND, 90, 40, [])
    assert history.between(NOON + 2 * SECOND, NOON + 3 * SECOND) == Missing(
        NOON + 3 * SECOND, NOON + 4 * SECOND, 40, 20, []
    )
    assert history.between(NOON + 2 * SECOND, NOON + 2 * SECOND + 9) is None
    assert history.between(NOON + 9 * SECOND, NOON + 99 * SECOND) is None


def test_a_time_of_which_nothing_is_known() -> None:
    history = LeftOut()
    history.add_unseen(NOON, NOON + 7)
    assert history.between(NOON + 8, NOON + 9) is None
    assert history.between(NOON + 5, NOON + 9) == Missing(NOON, NOON + 7, 0, 0, [(NOON, NOON + 7)])
    for number in range(1_000):
        history.add_unseen(NOON + number * SECOND, NOON + number * SECOND + 1)
    found = history.between(0, 2 * NOON)
    assert found is not None and len(found.unseen) <= 100
    assert (found.unseen[0][0], found.unseen[-1][1]) == (NOON, NOON + 999 * SECOND + 1), "old ones are joined"


@pytest.mark.parametrize("seed", range(5))
def test_sums_stay_exact_however_long_it_goes_on(seed: int) -> None:
    chosen = random.Random(seed)
    history = LeftOut()
    told = [
        (NOON + second * SECOND + chosen.randrange(SECOND), exchanges, chosen.randint(1, exchanges))
        for second, exchanges in ((number, chosen.randint(1, 100)) for number in range(0, 5 * MOST_SLOTS, 2))
    ]
    for at, exchanges, left in told:
        history.add(at, exchanges, left)
    sums = sum(one[1] for one in told), sum(one[2] for one in told)
    found = history.between(0, 2 * NOON)
    assert found is not None and (found.exchanges, found.here) == (sums[0], sums[0] - sums[1])
    for buckets in (1, 7, 80):
        width = 5 * MOST_SLOTS * SECOND // buckets + SECOND
        spread = history.by_bucket(NOON - 1000, width, buckets + 1)
        assert sum(spread) == sums[1]
    assert sum(history.by_bucket(NOON + 10**6 * SECOND, SECOND, 9)) == 0


def test_a_slot_is_spread_over_the_buckets_that_it_is_in() -> None:
    history = LeftOut()
    history.add(NOON, 100, 10)
    assert history.by_bucket(NOON - SECOND, SECOND + 1, 1) == [10], "nothing came after it"
    history.add(NOON + SECOND, 100, 0)
    assert history.by_bucket(NOON, SECOND // 5, 5) == [2] * 5
    assert history.by_bucket(NOON - SECOND // 2, SECOND, 2) == [5, 5]
    assert history.by_bucket(NOON + SECOND // 2, SECOND, 1) == [5], "the other half is before"


MINUTE = 60 * 10**9


@pytest.mark.parametrize(
    ("analyzed", "said"),
    [
        (Analyzed(), ""),
        (Analyzed(["Fetch"]), "The configuration analyzes only Fetch (analysis.api_name)."),
        (Analyzed(["Fetch", "Produce"]), "The configuration analyzes only Fetch and Produce (analysis.api_name)."),
        (
            Analyzed(["A", "B", "C", "D", "E", "F", "G"]),
            "The configuration analyzes only A, B, C, D, E and 2 other APIs (analysis.api_name).",
        ),
        (
            Analyzed(sample=0.25),
            "The configuration analyzes only a share of 0.25 of the connections (analysis.sample).",
        ),
        (Analyzed(sample=0), "The configuration analyzes only none of the connections (analysis.sample)."),
        (
            Analyzed(["Fetch"], 0.5, 4096),
            "The configuration analyzes only Fetch (analysis.api_name), a share of 0.5 of the connections (analysis.sample)"
            " and the first 4,096 bytes of a frame (analysis.snaplen).",
        ),
    ],
)
def test_what_is_analyzed_is_one_sentence(analyzed: Analyzed, said: str) -> None:
    narrowed = Narrowed()
    narrowed.use(analyzed)
    assert narrowed.now == said
    assert [span.sentence() for span in narrowed.between(0, NOON)] == ([said] if said else [])


def test_a_reload_is_said_with_its_time_and_what_was_before_it_stays() -> None:
    narrowed = Narrowed()
    narrowed.use(Analyzed(), NOON)
    narrowed.use(Analyzed(["Fetch"]), NOON + MINUTE)
    narrowed.use(Analyzed(["Fetch"]), NOON + 2 * MINUTE)
    assert narrowed.now == "Since 12:01:00 UTC the configuration analyzes only Fetch (analysis.api_name)."
    narrowed.use(Analyzed(), NOON + 3 * MINUTE)
    assert narrowed.now == ""
    assert narrowed.between(0, NOON + MINUTE - 1) == narrowed.between(NOON + 3 * MINUTE + 1, 2 * NOON) == []
    (span,) = narrowed.between(NOON + 2 * MINUTE, 2 * NOON)
    assert span.sentence() == (
        "Between 12:01:00 UTC and 12:03:00 UTC the configuration had only Fetch (analysis.api_name) analyzed."
    )


def test_connections_that_are_not_in_the_sample_stay_so_after_a_reload() -> None:
    narrowed = Narrowed()
    narrowed.use(Analyzed(sample=0.1))
    narrowed.use(Analyzed(), NOON)
    (_, span) = narrowed.between(NOON, NOON)
    assert span.lacks_exchanges and not span.lacks_bytes
    assert narrowed.now == (
        "Since 12:00:00 UTC the configuration analyzes only"
        " a share of 0.1 of the connections that began before (analysis.sample)."
    )
