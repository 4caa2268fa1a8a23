"""Every finding fires in a scene that shows what it looks for, and not in one that is nearly the same."""

import datetime
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kproxy.analyses import library
from kproxy.analyses.analysis import is_number
from kproxy.analyses.duck import Database
from kproxy.analyses.report.templates import fields_of, fill
from kproxy.analyses.report.text import answer_lines
from kproxy.analyses.report.verdicts import Answer
from kproxy.output.tables import TABLES
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from tests.support.sampled import sampled
from tests.support.scenes import SCENES, Rows, Scene
from tests.support.scenes.crowd import crowd
from tests.support.scenes.rows import moment
from tests.support.scenes.scene import OF_CLIENTS, example_fits
from tests.support.scenes.together import first_of, play_all, rows_of, text_of

FINDINGS = {name: analysis for name, analysis in library.load().items() if analysis.is_finding}
pytestmark = pytest.mark.xdist_group("scenes")  # one process fills and asks the database

EPISODES = {  # what happens and ends: hours later it is another row; of mixed_subscriptions a scene says so
    "coordinator_errors", "group_without_commits", "not_enough_replicas", "offset_out_of_range_loop",
    "producer_fenced", "rebalance_storm", "stale_leader", "static_member_flapping", "unknown_topic_loop",
}  # fmt: skip
EPISODIC = [each for each in SCENES if each.finding in EPISODES]
BAD, NEAR, TWICE, LATER, PAUSED = range(5)  # stages, each with the scenes played in another way


class Stages:
    """One database with the rows of all stages: to plan a finding takes longer than to run it, so it is run once for all."""

    def __init__(self, folder: Path) -> None:
        self.tables = Rows()
        of_groups = [each for each in SCENES if each.finding not in OF_CLIENTS]
        played: dict[int, dict[str, Any]] = {
            BAD: {},
            NEAR: {"bad": False},
            TWICE: {"scenes": of_groups, "change": Rows.repeat_in_another_cluster},
            LATER: {"scenes": EPISODIC, "change": lambda rows: rows.repeat_later(hours=3)},
            PAUSED: {"scenes": EPISODIC, "change": lambda rows: rows.pause_in_between(hours=3)},
        }
        for stage, options in played.items():
            play_all(**options, stage=stage, every=self.tables)
        self._database = Database([self.tables.write(folder)], wanted=TABLES)
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def rows(self, scene: Scene, stage: int = BAD, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of the finding that are about the scene."""
        key = repr((scene.finding, parameters))
        if key not in self._rows:
            self._rows[key] = self._database.run(FINDINGS[scene.finding], **parameters).to_pylist()
        return rows_of(scene, self._rows[key], stage)

    def close(self) -> None:
        self._database.close()


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    with closing(Stages(tmp_path_factory.mktemp("scenes") / "tables")) as stages:
        yield stages


def test_a_finding_fires_with_the_evidence_of_its_scenes_and_not_on_what_is_nearly_the_same(stages: Stages) -> None:
    assert {scene.finding for scene in SCENES} == FINDINGS.keys()
    for scene in SCENES:
        rows = stages.rows(scene)
        assert len(rows) == scene.rows, scene
        assert {name: rows[0][name] for name in scene.first} == first_of(scene), scene
        assert fill(FINDINGS[scene.finding].header.verdict, rows), scene
        assert all(example_fits(row, stages.tables) for row in rows), scene
        assert stages.rows(scene, NEAR) == [], scene


def test_a_table_has_the_numbers_of_the_headline(stages: Stages) -> None:
    for scene in SCENES:
        finding = FINDINGS[scene.finding]
        rows = pa.Table.from_pylist(stages.rows(scene) * 2)
        numbers = {name for name in fields_of(finding.header.verdict) if is_number(rows[name][0].as_py())}
        for width in (80, 120):
            lines = list(answer_lines(Answer(finding, {}, rows, "warning", ""), width=width))
            begun = {line.split()[0] for line in lines if line.strip()}
            shown = begun | {word.strip() for line in lines for word in line.split("  ")}
            assert numbers <= shown, (scene, width)


def test_a_producer_that_writes_on_to_other_partitions_of_a_topic_is_not_harmed_by_a_broker(tmp_path: Path) -> None:
    """Which partitions it takes is up to it, if its records have no keys, and if they have leaders."""
    for topic, has_leader in (("jobs", True), ("orders", False), ("orders", True)):
        rows = Rows()
        gone = {"broker_address": "10.0.0.8", "closed_by": "broker", "closed_at": moment(10)}
        rows.client("shop", **gone).produce(9.5, "orders", 0)
        rows.client("billing", "10.0.0.6", **gone).produce(9.5, "orders", 0)
        elsewhere = rows.client("shop", closed="end of capture")
        for at in range(11, 60, 2):
            elsewhere.produce(at, topic, 1)
        if not has_leader:
            elsewhere.error(59, ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE, topic, 0)
        found = rows.answer(tmp_path / f"{topic}-{has_leader}", "broker_away")
        severity = "info" if topic == "orders" and has_leader else "warning"
        assert [row["severity"] for row in found if row["client_id"] == "shop"] == [severity]
        text = fill(FINDINGS["broker_away"].header.verdict, found)
        assert ("went away without harm" in text) == (severity == "info"), text  # it never came back


def test_the_same_names_in_another_cluster_are_others(stages: Stages) -> None:
    of_cluster = (
        "cluster",
        "connection_id",
        "broker",
        "after",
        "back_at",
        "refused_by",
        "named_seconds",
    )  # all brokers of the other cluster have one address
    for scene in SCENES:
        if scene.finding not in OF_CLIENTS:
            alone, both = stages.rows(scene), stages.rows(scene, TWICE)
            assert len({row["cluster"] for row in both}) == 2, scene
            assert sorted(text_of(row, *of_cluster) for row in both) == sorted(
                [text_of(row, *of_cluster) for row in alone] * 2
            ), scene


def test_what_happens_again_hours_later_is_another_episode(stages: Stages) -> None:
    of_time = ("first_at", "last_at", "exchange", "first_cause")  # the members are no newcomers the second time
    for scene in EPISODIC:
        alone, both = stages.rows(scene), stages.rows(scene, LATER)
        assert len(both) == 2 * len(alone), scene
        if scene.first.get("group_type") != "consumer":  # where the members are no newcomers the second time
            assert sorted(text_of(row, *of_time) for row in both) == sorted(
                [text_of(row, *of_time) for row in alone] * 2
            ), scene
        assert max(row["last_at"] - row["first_at"] for row in both) < datetime.timedelta(hours=1), scene
        assert all(example_fits(row, stages.tables) for row in both), scene


def test_two_halves_hours_apart_do_not_make_one_episode(stages: Stages) -> None:
    for scene in EPISODIC:
        first = stages.rows(scene)[0]
        if first.get("errors", 2) > 1 and not first.get("conflicts"):  # else one is enough
            assert stages.rows(scene, PAUSED, **thresholds_of(first, scene.finding)) == [], scene


COMPARED = {  # parameter -> the column of a row that it is compared with
    "min_ahead_seconds": "most_seconds_ahead",
    "min_attempts": "attempts",
    "min_away_ms": "away_ms",
    "min_batches": "batches",
    "min_batches_per_minute": "batches_in_busiest_minute",
    "min_bytes": "bytes",
    "min_commits": "commits",
    "min_commits_per_minute": "commits_in_busiest_minute",
    "min_connections": "connections",
    "min_connections_per_minute": "connections_in_busiest_minute",
    "min_empty_per_minute": "empty_in_busiest_minute",
    "min_errors": "errors",
    "min_failures": "failures",
    "min_fetches": "fetches",
    "min_idle": "idle",
    "min_idle_seconds": "longest_idle_seconds",
    "min_keys": "keys",
    "min_partitions": "partitions",
    "min_percent": "percent",
    "min_rebalances": "generations",
    "min_records": "records",
    "min_requests": "requests",
    "min_requests_per_minute": "requests_in_busiest_minute",
    "min_seconds": "seconds",
    "min_silence_ms": "silence_ms",
    "min_throttled": "throttled",
    "min_total_ms": "throttled_ms",
}
COMPARED_IN = {
    ("hot_keys", "min_records"): "topic_records",
    ("skewed_partitions", "min_records"): "topic_records",
    ("reconnect_loop", "min_connections"): "connections_in_busiest_five_minutes",
    ("skewed_partitions", "min_batches"): None,  # of the topic, not in the row
    ("near_max_message", "min_percent"): None,  # rounded down in the row
    ("stuck_fetch_loop", "min_percent"): None,
    ("two_clusters", "min_requests"): None,  # on average
    ("idle_connections", "min_idle_seconds"): None,  # of the longest of several
    ("cut_connections", "min_connections"): None,  # ten short ones are enough, whatever these say
    ("cut_connections", "min_seconds"): None,
    ("offset_out_of_range_loop", "min_seconds"): None,  # more than two answers on a connection are enough
    ("share_redelivery", "min_records"): None,  # one at the limit is enough
}


def thresholds_of(row: dict[str, Any], finding: str) -> dict[str, int]:
    """The highest thresholds with which the finding still has the row."""
    columns = {name: COMPARED_IN.get((finding, name), COMPARED.get(name)) for name in FINDINGS[finding].parameters}
    return {name: int(row[column]) for name, column in columns.items() if column in row and row[column] is not None}


@pytest.mark.parametrize("name", sampled(sorted(FINDINGS), sorted(FINDINGS)[::7]))
def test_a_threshold_includes_its_value(name: str, stages: Stages) -> None:
    """With all parameters set to what the row has, the row is listed still; with one of them one more it is not."""
    scene = next(each for each in SCENES if each.finding == name)
    (first, *_) = stages.rows(scene)
    thresholds = thresholds_of(first, name)
    for parameter in (None, *thresholds):
        given = thresholds | ({} if parameter is None else {parameter: thresholds[parameter] + 1})
        places = [(row["connection_id"], row["exchange"]) for row in stages.rows(scene, **given)]
        assert ((first["connection_id"], first["exchange"]) in places) == (parameter is None), given


@pytest.mark.slow
def test_no_one_of_a_crowd_that_does_nearly_the_same_is_named(tmp_path: Path) -> None:
    with Database([crowd().write(tmp_path / "tables")], wanted=TABLES) as database:
        found = {name for name, finding in FINDINGS.items() if database.run(finding).num_rows}
        assert found == {"refused_requests"}  # it takes the errors that each other finding must not
