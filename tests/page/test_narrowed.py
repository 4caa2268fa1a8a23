"""Narrowed: what part of the traffic the configuration has analyzed is said in a sentence, for the times at which it was so."""

import pytest

from kproxy.page.left_out import Analyzed, Narrowed

NOON = 1_795_262_400 * 10**9  # 2026-11-21 12:00:00 UTC
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
