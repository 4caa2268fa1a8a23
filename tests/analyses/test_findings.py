"""Every finding fires in a scene that shows what it looks for, and not in one that is nearly the same."""

from collections.abc import Iterator
from typing import Any

import pytest

from kproxy.analyses import library
from kproxy.analyses.duck import Database
from kproxy.analyses.report.templates import fields_of, fill
from kproxy.analyses.translate import to_duckdb
from kproxy.output.tables import TABLES
from tests.support.scenes import SCENES, Rows, Scene
from tests.support.scenes.crowd import crowd
from tests.support.scenes.scene import example_fits

FINDINGS = {name: analysis for name, analysis in library.load().items() if analysis.is_finding}
EACH_SCENE = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.finding)
EACH_FINDING = pytest.mark.parametrize("name", sorted(FINDINGS))
OF_CLIENTS = {  # name no group and no topic: a client that does so in two clusters is one client
    "anonymous_clients", "authentication_failed", "connection_churn", "deprecated_versions", "empty_fetch_loop",
    "idle_connections", "metadata_storm", "not_kafka", "old_tls", "plaintext_credentials", "reconnect_loop",
    "slow_broker", "small_fetches", "throttled", "too_many_partitions", "unanswered_requests",
}  # fmt: skip


class Stage:
    """One database, emptied and filled again for each scene: to open one takes longer than most findings."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.make_all()
        self._views = library.load_views()

    def again(self, scene: Scene, **parameters: Any) -> list[dict[str, Any]]:
        """The rows of the finding with other parameters, after the scene that was played last."""
        found: list[dict[str, Any]] = self._database.run(FINDINGS[scene.finding], **parameters).to_pylist()
        return found

    def play(self, scene: Scene, *, bad: bool) -> list[dict[str, Any]]:
        """The rows of the finding after the scene."""
        self.tables = Rows()
        scene.play(self.tables, bad)
        self.load(scene.finding)
        return self.again(scene)

    def load(self, finding: str) -> None:
        """Fill the tables, and the views that the finding needs."""
        tables = self.tables
        connection = self._database.connection
        for name in TABLES:
            connection.execute(f"DELETE FROM {name}")
            if tables.tables[name]:
                connection.from_arrow(tables.arrow(name)).insert_into(name)
        for view in library.views_needed(FINDINGS[finding], self._views):
            if not view.stored:
                continue
            connection.execute(f"DELETE FROM {view.name}")
            connection.execute(f"INSERT INTO {view.name} {to_duckdb(view.sql, view.path)}")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Database([], wanted=TABLES) as database:
        yield Stage(database)


@EACH_SCENE
def test_it_fires_with_the_evidence_of_the_scene(scene: Scene, stage: Stage) -> None:
    rows = stage.play(scene, bad=True)
    assert len(rows) == scene.rows
    assert {name: rows[0][name] for name in scene.first} == scene.first
    assert fill(FINDINGS[scene.finding].header.verdict, rows)
    assert all(example_fits(row, stage.tables) for row in rows)


@EACH_SCENE
def test_it_does_not_fire_on_what_is_nearly_the_same(scene: Scene, stage: Stage) -> None:
    assert stage.play(scene, bad=False) == []


@EACH_SCENE
def test_the_same_names_in_another_cluster_are_others(scene: Scene, stage: Stage) -> None:
    if scene.finding in OF_CLIENTS:
        return
    alone = stage.play(scene, bad=True)
    stage.tables.repeat_in_another_cluster()
    stage.load(scene.finding)
    both = stage.again(scene)
    assert {row["cluster"] for row in both} == {"brokers at 10.0.0.9:9092", "brokers at 10.9.9.9:9092"}
    assert sorted(map(told, both)) == sorted([*map(told, alone)] * 2)


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


@EACH_FINDING
def test_a_threshold_includes_its_value(name: str, stage: Stage) -> None:
    """With a parameter set to what the row has, the row is listed still; with one more it is not."""
    scene = next(each for each in SCENES if each.finding == name)
    (first, *_) = stage.play(scene, bad=True)
    place = first["connection_id"], first["exchange"]
    for parameter in FINDINGS[name].parameters:
        column = COMPARED_IN.get((name, parameter), COMPARED.get(parameter))
        value = first.get(column or "")
        if value is not None:
            for given, listed in ((int(value), True), (int(value) + 1, False)):
                rows = stage.again(scene, **{parameter: given})
                assert (place in [(row["connection_id"], row["exchange"]) for row in rows]) == listed, (
                    parameter,
                    given,
                )


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
