"""Every total of the workers and all that the analyzer says is a metric."""

from kproxy.output.metric_descriptions import BY_NAME, DESCRIPTIONS
from kproxy.proxy.tap.counted import GAUGES, Total

BY_ANALYZER = {"left_out_analyzer_limits", "left_out_output"}  # values of a label that only AnalyzerCounts has


def totals() -> dict[str, str]:
    """Total -> kind of the metric that it is."""
    found = {d.total.format(value): d.kind for d in DESCRIPTIONS if d.total for value in d.of or ("",)}
    return {name: kind for name, kind in found.items() if name not in BY_ANALYZER}


def test_every_total_of_the_workers_is_a_metric() -> None:
    assert set(totals()) == {total.name.lower() for total in Total}


def test_what_can_go_down_is_a_gauge() -> None:
    assert {name for name, kind in totals().items() if kind == "gauge"} == {gauge.name.lower() for gauge in GAUGES}


def test_names_are_used_once() -> None:
    assert len(BY_NAME) == len(DESCRIPTIONS)
