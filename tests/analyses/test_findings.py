"""Every finding fires in a scene that shows what it looks for, and not in one that is nearly the same."""

import datetime
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.analyses.report.cells import is_number
from kproxy.analyses.report.templates import fields_of, fill
from kproxy.analyses.report.text import answer_lines
from kproxy.analyses.report.verdicts import Answer
from kproxy.output.tables import TABLES
from tests.support.scenes import SCENES, Rows, Scene
from tests.support.scenes.crowd import crowd
from tests.support.scenes.scene import example_fits
from tests.support.scenes.together import first_of, play_all, rows_of

FINDINGS = {name: analysis for name, analysis in library.load().items() if analysis.is_finding}
EACH_SCENE = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.finding)
EACH_FINDING = pytest.mark.parametrize("name", sorted(FINDINGS))
OF_CLIENTS = {  # name no group and no topic: a client that does so in two clusters is one client
    "anonymous_clients", "authentication_failed", "connection_churn", "deprecated_versions", "empty_fetch_loop",
    "idle_connections", "metadata_storm", "not_kafka", "old_tls", "plaintext_credentials", "reconnect_loop",
    "slow_broker", "small_fetches", "throttled", "too_many_partitions", "unanswered_requests",
}  # fmt: skip

EPISODES = {  # what happens and ends: hours later it is another row; of mixed_subscriptions a scene says so
    "coordinator_errors", "group_without_commits", "not_enough_replicas", "offset_out_of_range_loop",
    "producer_fenced", "rebalance_storm", "stale_leader", "static_member_flapping", "unknown_topic_loop",
}  # fmt: skip
EPISODIC = [each for each in SCENES if each.finding in EPISODES]
OF_EPISODES = pytest.mark.parametrize("scene", EPISODIC, ids=lambda scene: scene.finding)


class Stage:
    """A database with the rows of all scenes: to fill one for each scene takes longer than most findings."""

    def __init__(self, tables: Rows, folder: Path) -> None:
        self.tables = tables
        self._database = Database([tables.write(folder)], wanted=TABLES)
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def rows(self, scene: Scene, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of the finding that are about the scene."""
        key = repr((scene.finding, parameters))
        if key not in self._rows:
            self._rows[key] = self._database.run(FINDINGS[scene.finding], **parameters).to_pylist()
        return rows_of(scene, self._rows[key])

    def close(self) -> None:
        self._database.close()


def stage_of(**options: Any) -> Any:
    """A fixture: the stage with the scenes as *options* say to ``play_all``."""

    @pytest.fixture(scope="module")
    def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
        with closing(Stage(play_all(**options), tmp_path_factory.mktemp("scenes") / "tables")) as stage:
            yield stage

    return stage


bad = stage_of()
near = stage_of(bad=False)
twice = stage_of(change=Rows.repeat_in_another_cluster)
later = stage_of(scenes=EPISODIC, change=lambda rows: rows.repeat_later(hours=3))
paused = stage_of(scenes=EPISODIC, change=lambda rows: rows.pause_in_between(hours=3))


@EACH_SCENE
def test_it_fires_with_the_evidence_of_the_scene(scene: Scene, bad: Stage) -> None:
    rows = bad.rows(scene)
    assert len(rows) == scene.rows
    assert {name: rows[0][name] for name in scene.first} == first_of(scene)
    assert fill(FINDINGS[scene.finding].header.verdict, rows)
    assert all(example_fits(row, bad.tables) for row in rows)


@EACH_SCENE
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_has_the_numbers_of_the_headline(scene: Scene, bad: Stage, width: int) -> None:
    finding = FINDINGS[scene.finding]
    rows = pa.Table.from_pylist(bad.rows(scene) * 2)
    lines = list(answer_lines(Answer(finding, {}, rows, "warning", ""), width=width))
    shown = {line.split()[0] for line in lines if line.strip()} | {word for line in lines for word in line.split("  ")}
    numbers = {name for name in fields_of(finding.header.verdict) if is_number(rows[name][0].as_py())}
    assert numbers <= {word.strip() for word in shown}


@EACH_SCENE
def test_it_does_not_fire_on_what_is_nearly_the_same(scene: Scene, near: Stage) -> None:
    assert near.rows(scene) == []


@EACH_SCENE
def test_the_same_names_in_another_cluster_are_others(scene: Scene, bad: Stage, twice: Stage) -> None:
    if scene.finding in OF_CLIENTS:
        return
    both = twice.rows(scene)
    assert len({row["cluster"] for row in both}) == 2
    assert sorted(map(told, both)) == sorted([*map(told, bad.rows(scene))] * 2)


@OF_EPISODES
def test_what_happens_again_hours_later_is_another_episode(scene: Scene, bad: Stage, later: Stage) -> None:
    alone, both = bad.rows(scene), later.rows(scene)
    assert len(both) == 2 * len(alone)
    if scene.first.get("group_type") != "consumer":  # where the members are no newcomers the second time
        assert sorted(map(of_any_time, both)) == sorted([*map(of_any_time, alone)] * 2)
    assert max(row["last_at"] - row["first_at"] for row in both) < datetime.timedelta(hours=1)
    assert all(example_fits(row, later.tables) for row in both)


@OF_EPISODES
def test_two_halves_hours_apart_do_not_make_one_episode(scene: Scene, bad: Stage, paused: Stage) -> None:
    first = bad.rows(scene)[0]
    if first.get("errors", 2) == 1 or first.get("conflicts"):
        return  # one is enough
    thresholds = thresholds_of(first, scene.finding)
    assert paused.rows(scene, **thresholds) == []


def of_any_time(row: dict[str, Any]) -> str:
    """A row without what says when it was, and on which exchange."""
    return repr({name: value for name, value in row.items() if name not in ("first_at", "last_at", "exchange")})


def told(row: dict[str, Any]) -> str:
    """A row without what says in which cluster it is."""
    return repr({name: value for name, value in row.items() if name not in ("cluster", "connection_id", "broker")})


@EACH_FINDING
def test_findings_of_groups_and_topics_say_in_which_cluster(name: str, nothing: Database) -> None:
    assert ("cluster" in nothing.run(FINDINGS[name]).schema.names) == (name not in OF_CLIENTS)


@EACH_FINDING
def test_no_one_of_a_crowd_that_does_nearly_the_same_is_named(name: str, crowded: Database) -> None:
    assert crowded.run(FINDINGS[name]).to_pylist() == []


COMPARED = {  # parameter -> the column of a row that it is compared with
    "min_ahead_seconds": "most_seconds_ahead",
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
    ("idle_connections", "min_idle_seconds"): None,  # of the longest of several
}


def thresholds_of(row: dict[str, Any], finding: str) -> dict[str, int]:
    """The highest thresholds with which the finding still has the row."""
    columns = {name: COMPARED_IN.get((finding, name), COMPARED.get(name)) for name in FINDINGS[finding].parameters}
    return {name: int(row[column]) for name, column in columns.items() if column in row and row[column] is not None}


@EACH_FINDING
def test_a_threshold_includes_its_value(name: str, bad: Stage) -> None:
    """With a parameter set to what the row has, the row is listed still; with one more it is not."""
    scene = next(each for each in SCENES if each.finding == name)
    (first, *_) = bad.rows(scene)
    place = first["connection_id"], first["exchange"]
    for parameter, value in thresholds_of(first, name).items():
        for given, listed in ((value, True), (value + 1, False)):
            rows = bad.rows(scene, **{parameter: given})
            assert (place in [(row["connection_id"], row["exchange"]) for row in rows]) == listed, (parameter, given)


@EACH_FINDING
def test_every_finding_has_a_scene(name: str) -> None:
    assert name in {scene.finding for scene in SCENES}


def test_there_are_as_many_findings_as_promised() -> None:
    assert len(FINDINGS) >= 25


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Tables of the crowd."""
    with Database([crowd().write(tmp_path_factory.mktemp("crowd") / "tables")], wanted=TABLES) as database:
        yield database


WHO = ["client_id", "client_address", "software"]
WHEN_AND_WHERE = ["first_at", "last_at", "connection_id", "exchange"]


@pytest.fixture(scope="module")
def nothing() -> Iterator[Database]:
    """Tables without a row."""
    with Database([]) as database:
        yield database


@EACH_FINDING
def test_its_rows_say_who_when_and_where_to_look_it_up(name: str, nothing: Database) -> None:
    finding = FINDINGS[name]
    columns = nothing.run(finding).schema.names
    assert [column for column in columns if column in WHO] == WHO
    assert columns[-4:] == WHEN_AND_WHERE
    assert fields_of(finding.header.verdict) <= set(columns)


@EACH_FINDING
def test_it_tells_what_it_means_what_to_do_and_where_that_is_written(name: str) -> None:
    header = FINDINGS[name].header
    assert header.reference.startswith(
        ("https://kafka.apache.org/", "https://cwiki.apache.org/confluence/display/KAFKA/KIP-")
    )
    assert header.meaning.strip().endswith((".", ")"))
    assert header.action.strip().endswith(".")
    assert header.parameters, "its thresholds are parameters"
    assert header.verdict.endswith("."), "it ends with what to do"
