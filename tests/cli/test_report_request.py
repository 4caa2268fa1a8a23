"""What was asked for is checked before anything is read; both commands take the same options."""

import click
import pytest

from kproxy.cli.report import report
from kproxy.cli.report_request import OPTIONS, Asked, make_plan, report_options
from kproxy.cli.spark import report as report_on_spark
from kproxy.errors import UsageError


def test_both_commands_have_all_common_options() -> None:
    @click.command()
    @report_options
    def common(**options: object) -> None:
        Asked(**options)  # type: ignore[arg-type]

    names = {option.name: option.opts for option in common.params}
    assert len(names) == len(OPTIONS) == len(Asked.__struct_fields__)
    assert names.keys() == set(Asked.__struct_fields__)
    for command in (report, report_on_spark):
        assert names.items() <= {option.name: option.opts for option in command.params}.items()


def test_a_plan_has_what_runs() -> None:
    plan = make_plan(Asked(only=("latency",), parameters=("min_requests=7",)), ["a"], "kproxy report")
    assert [analysis.id for analysis in plan.analyses] == ["latency"]
    assert plan.values == {"min_requests": "7"}
    assert "exchanges" in plan.tables and "records" not in plan.tables
    assert "records" in make_plan(Asked(records=True), ["a"], "kproxy report").tables
    assert "records" not in make_plan(Asked(), ["a"], "kproxy report").tables


@pytest.mark.parametrize("release", ["4", "4.x", "4.0", "3.9.1"])
def test_a_target_is_a_release(release: str) -> None:
    plan = make_plan(Asked(target=release), ["a"], "kproxy report")
    assert all("target" in analysis.parameters for analysis in plan.analyses)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Asked(parameters=("=1",)), "--param wants NAME=VALUE"),
        (Asked(parameters=("nonsense=1",)), "called 'nonsense'; kproxy x --list shows them"),
        (Asked(target="5.77"), "--target 5.77 is no release that is known"),
        (Asked(only=("diff",), before="a/b"), "--before and --after go together"),
    ],
)
def test_a_mistake_is_told(asked: Asked, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        make_plan(asked, ["a"], "kproxy x")


def test_a_diff_is_of_two_sources_at_most() -> None:
    assert make_plan(Asked(only=("diff",)), ["a", "b"], "x").compared == "Compared: before is a, after is b."
    with pytest.raises(UsageError, match="diff compares two sources"):
        make_plan(Asked(only=("diff",)), ["a", "b", "c"], "x")
